//! `cargo xtask bench [NAME]`: figures that have a target, measured on this machine now.
//!
//! Built anew in release mode with feature `bench`. A bench is a module `bench_NAME.rs` with
//! `pub fn run(arguments: &[String]) -> Result<(), Box<dyn Error>>`, and a line in `BENCHES`; what it measures is an
//! optional dependency in `Cargo.toml`. Figures are printed with unit, n, median and spread, and beside them the
//! target, so that a page of the journal can take them as they are.

use crate::Result;
#[cfg(not(feature = "bench"))]
use crate::process::{cargo, output, run};

/// Measures, prints, and fails only when it could not measure: whether a target was met is for a reader.
/// It gets the arguments behind its name.
#[cfg(feature = "bench")]
type Bench = fn(arguments: &[String]) -> std::result::Result<(), Box<dyn std::error::Error>>;

/// All benches, by name.
#[cfg(feature = "bench")]
const BENCHES: &[(&str, Bench)] =
    &[("keyindex", crate::bench_keyindex::run), ("lag", crate::bench_lag::run), ("ledger", crate::bench_ledger::run)];

/// Compares with peers; see the module of that name.
#[cfg(not(feature = "bench"))]
pub fn peers(arguments: &[String]) -> Result {
    crate::setup::peers()?;
    let build = ["run", "--quiet", "--release", "--package", "xtask", "--features", "bench", "--", "peers"];
    run(cargo().args(build).args(arguments).env("PLIMSOLL_COMMIT", commit()))
}

/// The commit that is built, with `-dirty` where files differ from it.
#[cfg(not(feature = "bench"))]
fn commit() -> String {
    let mut git = std::process::Command::new("git");
    git.args(["describe", "--always", "--dirty", "--exclude", "*"]).current_dir(crate::root());
    // Sources without a repository can be measured too.
    output(&mut git).map_or_else(|_| "unknown".to_owned(), |commit| commit.trim().to_owned())
}

/// Compares with peers; see the module of that name.
#[cfg(feature = "bench")]
pub fn peers(arguments: &[String]) -> Result {
    crate::peers::run(arguments).map_err(|error| error.to_string())
}

/// Builds this program again with the benches in it, and runs them.
#[cfg(not(feature = "bench"))]
pub fn bench(arguments: &[String]) -> Result {
    let build = ["run", "--quiet", "--release", "--package", "xtask", "--features", "bench", "--", "bench"];
    run(cargo().args(build).args(arguments))
}

/// Runs the bench called by the first of `arguments`, or all.
#[cfg(feature = "bench")]
pub fn bench(arguments: &[String]) -> Result {
    let name = arguments.first();
    let chosen: Vec<_> = BENCHES.iter().filter(|(known, _)| name.is_none_or(|name| name == known)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = BENCHES.iter().map(|(name, _)| *name).collect();
        return Err(format!("there is no such bench; there are: {}", names.join(", ")));
    }
    for (name, run) in chosen {
        println!("# {name}");
        run(arguments.get(1..).unwrap_or_default()).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}
