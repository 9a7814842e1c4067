//! Tests that a change can reach: those of the changed crates, and the short ones of the crates that use them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::process::{line_of, metadata};
use crate::times::Times;
use crate::{Result, gate};

/// Most seconds of a test that is run for a change of another crate.
const SECONDS_MAX: f64 = 2.0;
/// Most seconds of all tests together: eight run at once, so that a change of one crate is tried in three minutes.
const TOGETHER_S: f64 = 650.0;

/// Crates that a change can reach.
pub struct Reached {
    changed: BTreeSet<String>,
    /// Crates that use a changed one directly.
    users: BTreeSet<String>,
}

/// Returns the crates with files changed since `base`, and those that use them directly. `base` is the commit that was
/// proved last, or where the branch left its upstream, or HEAD.
pub fn reached(root: &Path, base: Option<&str>) -> Result<Reached> {
    let git = |arguments: &[&str]| line_of(Command::new("git").args(arguments).current_dir(root));
    let branched = || git(&["merge-base", "HEAD", "@{upstream}"]).ok();
    let base = base.map(str::to_owned).or_else(|| gate::proved(root)).or_else(branched);
    let base = base.unwrap_or_else(|| "HEAD".to_owned());
    git(&["rev-parse", "--verify", &format!("{base}^{{commit}}")])
        .map_err(|_| format!("`{base}` is no commit of this repository: --changed [REV], names of tests after `--`"))?;
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

    /// Returns the arguments that select its tests: those of users up to [`SECONDS_MAX`], and of all the shortest up to
    /// [`TOGETHER_S`]. The whole workspace is built, since a part of it would be built with other features, together
    /// with all that it uses.
    pub fn selection(&self, times: &Times) -> Vec<String> {
        let of = |test: &str| test.split([' ', ':']).next().unwrap_or_default().to_owned();
        let is_reached = |(test, _): &(&str, f64)| self.packages().any(|name| name == of(test));
        let mut known: Vec<(&str, f64)> = times.least().filter(is_reached).collect();
        known.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut together_s = 0.0;
        let is_long = |(test, seconds): &(&str, f64)| {
            let too_long = self.users.contains(&of(test)) && *seconds > SECONDS_MAX;
            together_s += if too_long { 0.0 } else { *seconds };
            too_long || together_s > TOGETHER_S
        };
        let long: Vec<(&str, f64)> = known.into_iter().filter(is_long).collect();
        let packages: Vec<String> = self.packages().map(|name| format!("package(={name})")).collect();
        let mut filter = packages.join(" + ");
        if !long.is_empty() {
            let names = long.iter().filter_map(|(test, _)| test.split_once(' '));
            let names: Vec<_> = names.map(|(of, name)| format!("(binary_id(={of}) & test(={name}))")).collect();
            println!("{} long tests are left to `cargo xtask test`, which proves all", long.len());
            filter = format!("({filter}) - ({})", names.join(" + "));
        }
        ["--workspace", "-E", &filter].map(str::to_owned).to_vec()
    }
}

/// A package of the workspace.
struct Package {
    folder: String,
    uses: BTreeSet<String>,
}

fn crates(root: &Path) -> Result<BTreeMap<String, Package>> {
    let metadata = metadata(root)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_tests_of_users_and_the_longest_of_all_are_left_out() {
        let kept = tempfile::NamedTempFile::new().unwrap();
        let text = "a::it x\t9.0/1.0\nb::it y\t9.0/1.0\nb::it z\t1.0/1.0 9.0/1.0\na::it long\t645.0/1.0\n";
        std::fs::write(kept.path(), text).unwrap();
        let [changed, users] = ["a", "b"].map(|name| BTreeSet::from([name.to_owned()]));
        let selection = Reached { changed, users }.selection(&Times::read(kept.path()).unwrap());
        let left = "(binary_id(=b::it) & test(=y)) + (binary_id(=a::it) & test(=long))";
        assert_eq!(selection[2], format!("(package(=a) + package(=b)) - ({left})"));
    }
}
