//! `cargo xtask bench` and `cargo xtask peers`: build the package in `bench/` in release mode, outside the workspace, and run it.

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::process::{cargo, output, run};

/// Runs `bench/` with `words`. Its dependencies have the workspace's versions.
pub fn bench(root: &Path, words: &[&str], arguments: &[String]) -> Result {
    let package = root.join("bench");
    must_be_known(&package, words, arguments)?;
    let locked = std::fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock"));
    locked.map_err(|error| format!("{}/Cargo.lock: {error}", package.display()))?;
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty", "--exclude", "*"]).current_dir(root);
    // Sources without a repository can be measured too.
    let commit = output(&mut git).map_or_else(|_| "unknown".to_owned(), |commit| commit.trim().to_owned());
    let mut command = cargo();
    command.args(["run", "--quiet", "--release", "--manifest-path"]).arg(package.join("Cargo.toml")).arg("--");
    run(command.args(words).args(arguments).env("PLIMSOLL_COMMIT", commit))
}

/// Looks before the build, which takes minutes, whether there are the measurements that are named.
fn must_be_known(package: &Path, words: &[&str], arguments: &[String]) -> Result {
    let is_honesty = arguments.iter().any(|word| word == "--honesty");
    let known = match words {
        [] if arguments.is_empty() => return Err("name a measurement: keyindex".to_owned()),
        [] => vec!["keyindex".to_owned()],
        _ => names(&package.join("src").join(if is_honesty { "honesty.rs" } else { "rows.rs" }))?,
    };
    let mut before = "";
    for word in arguments {
        let is_value = matches!(before, "--pairs" | "--in-turn");
        if !is_value && !word.starts_with('-') && !known.contains(word) {
            return Err(format!("there is no `{word}`; there are: {}", known.join(", ")));
        }
        before = word;
    }
    Ok(())
}

/// Returns the names of the rows or probes in a file of `bench/`: first arguments of `row` and `probe`, and values of
/// `name`.
fn names(file: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let after = ["row(", "probe(", "name:"].into_iter().flat_map(|before| text.split(before).skip(1));
    let quoted = after.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
    Ok(quoted.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_measurement_is_refused_before_anything_is_built() {
        let root = crate::root();
        let refused = |words: &[&str], arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
            must_be_known(&root.join("bench"), words, &arguments).err().unwrap_or_default()
        };
        assert_eq!(refused(&[], &["nope"]), "there is no `nope`; there are: keyindex");
        assert_eq!(refused(&[], &[]), "name a measurement: keyindex");
        let rows = refused(&["peers"], &["--pairs", "3", "null", "nope"]);
        assert!(
            rows.starts_with("there is no `nope`; there are: pg-select-unix-8, ") && rows.contains(", null"),
            "{rows}"
        );
        let probes = refused(&["peers"], &["--honesty", "nope"]);
        assert!(probes.contains("plimsoll-redis, ") && probes.contains("pgbench"), "{probes}");
        assert_eq!(refused(&["peers"], &["--in-turn", "here,spin", "pg-tpcb-8", "null"]), "");
        // Nothing was built: the error is this one, and not the program's.
        assert_eq!(bench(&root, &[], &["nope".to_owned()]).unwrap_err(), "there is no `nope`; there are: keyindex");
    }
}
