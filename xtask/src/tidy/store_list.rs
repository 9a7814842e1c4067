//! Every store's folder is in the list of stores.

use std::fs;
use std::path::Path;

use super::read;
use crate::Result;

/// Reports every folder of `stores` that `stores/all` does not list.
pub fn check(root: &Path, wrong: &mut Vec<String>) -> Result {
    let (manifest, list) = (read(root, "stores/all/Cargo.toml")?, read(root, "stores/all/src/lib.rs")?);
    let entries = fs::read_dir(root.join("stores")).map_err(|error| format!("stores: {error}"))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name != "all")
        .collect();
    names.sort();
    for name in names {
        let dependency = format!("plimsoll-store-{name}");
        if !manifest.lines().any(|line| line.split(['.', '=', ' ']).next() == Some(&dependency)) {
            wrong.push(format!("stores/all/Cargo.toml: does not depend on {dependency}"));
        }
        let path = format!("plimsoll_store_{name}::");
        if !list.lines().any(|line| !line.trim_start().starts_with("//") && line.contains(&path)) {
            wrong.push(format!("stores/all/src/lib.rs: does not list {name}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::repository;
    use super::*;

    #[test]
    fn a_store_that_is_not_listed_is_named() {
        let root = repository(&[
            ("stores/one/README.md", ""),
            ("stores/two/README.md", ""),
            (
                "stores/all/Cargo.toml",
                "[dependencies]\nplimsoll-store-one = { workspace = true, optional = true }\nplimsoll-store-two-more.workspace = true\n",
            ),
            ("stores/all/src/lib.rs", "plimsoll_store_one::kind(),\n// plimsoll_store_two::kind(),\n"),
        ]);
        let mut wrong = Vec::new();
        check(root.path(), &mut wrong).unwrap();
        assert_eq!(
            wrong,
            [
                "stores/all/Cargo.toml: does not depend on plimsoll-store-two",
                "stores/all/src/lib.rs: does not list two"
            ]
        );
    }
}
