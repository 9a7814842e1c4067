//! Crates that a release is made of: their licences, and a bill of materials (CycloneDX 1.5).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::Result;
use crate::process::{cargo, line_of};

/// Crates of a release, by name and version.
pub struct Materials(BTreeMap<(String, String), Material>);

/// Crate of others.
struct Material {
    /// SPDX expression.
    licence: String,
    /// SHA-256 of the registry's archive.
    checksum: Option<String>,
    /// Texts of licences and notices, by file name.
    texts: Vec<(String, String)>,
}

impl Materials {
    /// Returns the crates that `plimsoll` for `target` is linked from. Fails if one names no licence.
    pub fn of(root: &Path, target: &str) -> Result<Materials> {
        let text = line_of(
            cargo()
                .args(["metadata", "--locked", "--format-version", "1", "--filter-platform", target])
                .current_dir(root),
        )?;
        let metadata: Value = serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
        let lock = std::fs::read_to_string(root.join("Cargo.lock")).map_err(|error| format!("Cargo.lock: {error}"))?;
        let checksums = checksums(&lock);
        let linked = linked(&metadata);
        let mut materials = BTreeMap::new();
        for package in metadata["packages"].as_array().into_iter().flatten() {
            let [id, name, version] = ["id", "name", "version"].map(|key| package[key].as_str().unwrap_or_default());
            // The workspace's own crates have no source.
            if !linked.contains(id) || package["source"].is_null() {
                continue;
            }
            let key = (name.to_owned(), version.to_owned());
            let licence = package["license"].as_str().ok_or_else(|| format!("{name} {version} names no licence"))?;
            let folder = Path::new(package["manifest_path"].as_str().unwrap_or_default()).parent();
            let texts = folder.map_or(Ok(Vec::new()), texts)?;
            let checksum = checksums.get(&key).cloned();
            materials.insert(key, Material { licence: licence.replace('/', " OR "), checksum, texts });
        }
        Ok(Materials(materials))
    }

    /// Returns the licences of all crates. Each text is there once, with the names of those that it is of.
    pub fn licences(&self) -> String {
        let mut all = "Plimsoll is linked from these crates. Their licences follow.\n\n".to_owned();
        let mut by_text: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for ((name, version), material) in &self.0 {
            let _ = writeln!(all, "{name} {version}: {}", material.licence);
            for (file, text) in &material.texts {
                by_text.entry(text.trim()).or_default().push(format!("{name} {version}, {file}"));
            }
        }
        for (text, of) in by_text {
            let _ = write!(all, "\n{}\n{}\n\n{text}\n", "=".repeat(80), of.join("\n"));
        }
        all
    }

    /// Returns the bill of materials of a release.
    pub fn sbom(&self, version: &str, commit: &str) -> String {
        let components = self.0.iter().map(|((name, version), material)| {
            let hashes = material.checksum.iter().map(|sum| json!({ "alg": "SHA-256", "content": sum }));
            json!({
                "type": "library",
                "name": name,
                "version": version,
                "purl": format!("pkg:cargo/{name}@{version}"),
                "licenses": [{ "expression": material.licence }],
                "hashes": hashes.collect::<Vec<_>>(),
            })
        });
        let program = json!({ "type": "application", "name": "plimsoll", "version": version,
                              "properties": [{ "name": "commit", "value": commit }] });
        let bill = json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": { "component": program },
            "components": components.collect::<Vec<_>>(),
        });
        format!("{bill:#}\n")
    }
}

/// Returns the ids of the packages that `plimsoll` is linked from: not those of tests and builds.
fn linked(metadata: &Value) -> BTreeSet<&str> {
    let nodes = metadata["resolve"]["nodes"].as_array().into_iter().flatten();
    let nodes: BTreeMap<&str, &Value> = nodes.filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let first = packages.filter(|one| one["name"] == "plimsoll").filter_map(|one| one["id"].as_str());
    let mut next: Vec<&str> = first.collect();
    let mut linked = BTreeSet::new();
    while let Some(id) = next.pop() {
        if !linked.insert(id) {
            continue;
        }
        for needed in nodes.get(id).and_then(|node| node["deps"].as_array()).into_iter().flatten() {
            let mut kinds = needed["dep_kinds"].as_array().into_iter().flatten();
            if kinds.any(|kind| kind["kind"].is_null()) {
                next.extend(needed["pkg"].as_str());
            }
        }
    }
    linked
}

/// Returns the checksums in a `Cargo.lock`, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let of = |package: &str, key: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        line.map(|value| value.trim_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]").skip(1);
    packages.filter_map(|one| Some(((of(one, "name")?, of(one, "version")?), of(one, "checksum")?))).collect()
}

/// Returns the texts of licences and notices in a crate's folder, by file name.
fn texts(folder: &Path) -> Result<Vec<(String, String)>> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_licence = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE", "COPYRIGHT"];
        if is_licence.iter().any(|start| name.to_uppercase().starts_with(start)) && entry.path().is_file() {
            texts.push((name, std::fs::read_to_string(entry.path()).map_err(failed)?));
        }
    }
    texts.sort();
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_of_tests_and_builds_are_not_linked() {
        let dep = |pkg: &str, kind: Value| json!({ "pkg": pkg, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [{ "name": "plimsoll", "id": "p" }, { "name": "a", "id": "a" }],
            "resolve": { "nodes": [
                { "id": "p", "deps": [dep("a", Value::Null), dep("t", json!("dev")), dep("b", json!("build"))] },
                { "id": "a", "deps": [dep("c", Value::Null)] },
                { "id": "t", "deps": [dep("d", Value::Null)] },
            ] },
        });
        assert_eq!(linked(&metadata).into_iter().collect::<Vec<_>>(), ["a", "c", "p"]);
    }

    #[test]
    fn checksums_are_found_by_name_and_version() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"ab\"\n\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\n";
        let found = checksums(lock);
        assert_eq!(found.get(&("a".to_owned(), "1.0.0".to_owned())).map(String::as_str), Some("ab"));
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn a_licence_s_text_is_there_once_with_all_that_it_is_of() {
        let one = |licence: &str| Material {
            licence: licence.to_owned(),
            checksum: None,
            texts: vec![("LICENSE".to_owned(), "Permission is granted.\n".to_owned())],
        };
        let of = |name: &str| (name.to_owned(), "1.0.0".to_owned());
        let materials = Materials([(of("a"), one("MIT")), (of("b"), one("MIT OR Apache-2.0"))].into());
        let text = materials.licences();
        assert_eq!(text.matches("Permission is granted.").count(), 1, "{text}");
        assert!(text.contains("a 1.0.0, LICENSE\nb 1.0.0, LICENSE\n"), "{text}");
        let bill: Value = serde_json::from_str(&materials.sbom("0.2.0", "c0ffee")).unwrap();
        assert_eq!(bill["components"][1]["purl"], "pkg:cargo/b@1.0.0");
    }
}
