//! Tests that a change can reach: those of the changed crates, and the short ones of the crates that use them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::process::{cargo, line_of};
use crate::times::Times;
use crate::{Result, gate};

/// Most seconds of a test that is run for a change of another crate.
const SECONDS_MAX: f64 = 2.0;

/// Crates that a change can reach.
pub struct Reached {
    changed: BTreeSet<String>,
    /// Crates that use a changed one directly.
    users: BTreeSet<String>,
}

/// Returns the crates with files changed since `base`, and those that use them directly. `base` is the commit that was
/// proved last, or HEAD without one.
pub fn reached(root: &Path, base: Option<&str>) -> Result<Reached> {
    let proved = gate::proved(root);
    let base = base.map(str::to_owned).or(proved).unwrap_or_else(|| "HEAD".to_owned());
    let git = |arguments: &[&str]| line_of(Command::new("git").args(arguments).current_dir(root));
    let differs = git(&["diff", "--name-only", &base])?;
    let new = git(&["ls-files", "--others", "--exclude-standard"])?;
    println!("changed since {base}: {} files", differs.lines().chain(new.lines()).count());
    let crates = crates(root)?;
    let mut changed = BTreeSet::new();
    for file in differs.lines().chain(new.lines()) {
        let of = crates.iter().find(|(_, package)| file.starts_with(&format!("{}/", package.folder)));
        match of {
            Some((name, _)) => changed.extend([name.clone()]),
            // The program and its tests read studies and pages of the book.
            None if file.starts_with("studies/") || file.starts_with("docs/src/") => {
                changed.extend(["plimsoll-plan".to_owned()]);
            }
            None if ["Cargo.toml", "Cargo.lock", ".config/nextest.toml"].contains(&file) => {
                return Ok(Reached { changed: crates.into_keys().collect(), users: BTreeSet::new() });
            }
            None => {}
        }
    }
    let users = crates.iter().filter(|(_, package)| package.uses.intersection(&changed).next().is_some());
    let users = users.map(|(name, _)| name.clone()).filter(|user| !changed.contains(user)).collect();
    Ok(Reached { changed, users })
}

impl Reached {
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty()
    }

    /// All of them.
    pub fn packages(&self) -> impl Iterator<Item = &str> {
        self.changed.iter().chain(&self.users).map(String::as_str)
    }

    /// Returns the arguments that leave out tests of users that took longer than the limit in the last run.
    pub fn without_long(&self, times: &Times) -> Vec<String> {
        let is_of_user = |test: &&str| test.split([' ', ':']).next().is_some_and(|name| self.users.contains(name));
        let long: Vec<&str> = times.longer_than(SECONDS_MAX).filter(is_of_user).collect();
        if long.is_empty() {
            return Vec::new();
        }
        let n = long.len();
        println!("{n} tests of other crates that take longer than {SECONDS_MAX} s are left to `cargo xtask test`");
        let one = |(binary, name): (&str, &str)| format!("(binary_id(={binary}) & test(={name}))");
        let names: Vec<String> = long.iter().filter_map(|test| test.split_once(' ')).map(one).collect();
        vec!["-E".to_owned(), format!("not ({})", names.join(" + "))]
    }
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
