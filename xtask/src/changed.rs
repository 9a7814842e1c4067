//! Tests that a change can reach: those of the changed crates, and of the crates that use them, the nearest first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::process::{cargo, line_of};
use crate::times::Times;
use crate::{Result, gate};

/// Most seconds of a test that is run for a change of another crate.
const SECONDS_MAX: f64 = 2.0;

/// Returns the packages with files changed since `base`, and those that use them directly. `base` is the commit that was
/// proved last, or HEAD without one.
pub fn packages(root: &Path, base: Option<&str>) -> Result<Vec<String>> {
    let proved = gate::proved(root);
    let base = base.map(str::to_owned).or(proved).unwrap_or_else(|| "HEAD".to_owned());
    let git = |arguments: &[&str]| line_of(Command::new("git").args(arguments).current_dir(root));
    let changed = git(&["diff", "--name-only", &base])?;
    let new = git(&["ls-files", "--others", "--exclude-standard"])?;
    println!("changed since {base}: {} files", changed.lines().chain(new.lines()).count());
    let crates = crates(root)?;
    let mut reached = BTreeSet::new();
    for file in changed.lines().chain(new.lines()) {
        let of = crates.iter().find(|(_, package)| file.starts_with(&format!("{}/", package.folder)));
        match of {
            Some((name, _)) => reached.extend([name.clone()]),
            // Studies, pages of the book and assets are read by the program and its tests.
            None if file.starts_with("studies/") || file.starts_with("docs/src/") => {
                reached.extend(crates.keys().filter(|name| name.as_str() == "plimsoll-plan").cloned());
            }
            None if file == "Cargo.toml" || file == "Cargo.lock" => return Ok(crates.into_keys().collect()),
            None => {}
        }
    }
    let users = crates.iter().filter(|(_, package)| package.uses.intersection(&reached).next().is_some());
    let users: Vec<String> = users.map(|(name, _)| name.clone()).collect();
    // The changed ones first.
    let mut all: Vec<String> = reached.iter().cloned().collect();
    all.extend(users.into_iter().filter(|user| !reached.contains(user)));
    Ok(all)
}

/// Returns the arguments that leave out tests of `packages` which took longer than the limit in the last run.
pub fn filter(packages: &[String], times: &Times) -> Vec<String> {
    let own = packages.first().cloned().unwrap_or_default();
    let of = |test: &&str| test.split([' ', ':']).next() != Some(own.as_str());
    let long: Vec<&str> = times.longer_than(SECONDS_MAX).filter(of).collect();
    if long.is_empty() {
        return Vec::new();
    }
    println!(
        "{} tests of other crates that take longer than {SECONDS_MAX} s are left to `cargo xtask test`",
        long.len()
    );
    let names = long.iter().filter_map(|test| test.split_once(' ')).map(|(_, name)| format!("test(={name})"));
    vec!["-E".to_owned(), format!("not ({})", names.collect::<Vec<_>>().join(" + "))]
}

/// A package of the workspace.
struct Package {
    folder: String,
    uses: BTreeSet<String>,
}

fn crates(root: &Path) -> Result<BTreeMap<String, Package>> {
    let text = line_of(cargo().args(["metadata", "--format-version", "1", "--no-deps"]).current_dir(root))?;
    let metadata: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
    let list = |value: &serde_json::Value, key: &str| {
        value.get(key).and_then(|all| all.as_array().cloned()).unwrap_or_default()
    };
    let text_of =
        |value: &serde_json::Value, key: &str| value.get(key).and_then(|text| text.as_str()).map(str::to_owned);
    let mut crates = BTreeMap::new();
    for package in list(&metadata, "packages") {
        let (name, manifest) = (text_of(&package, "name"), text_of(&package, "manifest_path"));
        let (name, manifest) = name.zip(manifest).ok_or("cargo metadata: a package without a name")?;
        let folder = Path::new(&manifest).parent().and_then(|folder| folder.strip_prefix(root).ok());
        let folder = folder.map(|folder| folder.display().to_string()).unwrap_or_default();
        let uses = list(&package, "dependencies").iter().filter_map(|used| text_of(used, "name")).collect();
        crates.insert(name, Package { folder, uses });
    }
    Ok(crates)
}
