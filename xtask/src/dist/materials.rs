//! Works of others in a release: their licences, and a bill of materials (CycloneDX 1.5).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::of_rustc;
use crate::Result;
use crate::process::{cargo, line_of};

/// Files with the licences of glibc and its parts, from Debian's `base-files` and `libc6-dev`.
const LIBC_TEXTS: [&str; 2] = ["/usr/share/common-licenses/LGPL-2.1", "/usr/share/doc/libc6-dev/copyright"];
/// Place of uPlot in the repository.
const ASSETS: &str = "crates/report/assets";

/// Works of others in a release, by name and version.
pub struct Materials(BTreeMap<(String, String), Material>);

/// Crate, or other work, of others.
struct Material {
    /// Type of its package URL.
    origin: &'static str,
    /// SPDX expression.
    licence: String,
    /// SHA-256 of the registry's archive.
    checksum: Option<String>,
    /// Texts of licences and notices, by file name.
    texts: Vec<(String, String)>,
}

impl Materials {
    /// Returns the works that `plimsoll` for `target` is linked from or contains. Fails if one has no licence.
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
            let folder = Path::new(package["manifest_path"].as_str().unwrap_or_default()).parent();
            let texts = folder.map_or(Ok(Vec::new()), texts)?;
            let licence = expression(package, !texts.is_empty())
                .ok_or_else(|| format!("{name} {version} has neither an SPDX expression nor a licence file"))?;
            let checksum = checksums.get(&key).cloned();
            materials.insert(key, Material { origin: "cargo", licence, checksum, texts });
        }
        materials.extend(others(root, target)?);
        Ok(Materials(materials))
    }

    /// Returns the licences of all works. Each text is there once, with the names of those that it is of.
    pub fn licences(&self) -> String {
        let mut all = "Plimsoll contains these works of others. Their licences follow.\n\n".to_owned();
        let mut by_text: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let named = |((name, version), material): (&(String, String), &Material)| {
            format!("{name} {version}: {}", material.licence)
        };
        for (of, material) in &self.0 {
            let _ = writeln!(all, "{}", named((of, material)));
            let (name, version) = of;
            for (file, text) in &material.texts {
                by_text.entry(text.trim()).or_default().push(format!("{name} {version}, {file}"));
            }
        }
        let bare: Vec<String> = self.0.iter().filter(|(_, material)| material.texts.is_empty()).map(named).collect();
        if !bare.is_empty() {
            let _ = write!(
                all,
                "\n{}\nPackages without a licence file, with the licence that they state:\n\n{}\n",
                "=".repeat(80),
                bare.join("\n")
            );
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
                "purl": format!("pkg:{}/{name}@{version}", material.origin),
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

/// Returns the SPDX expression of a crate: of its manifest, or a reference to its licence file. `None` if it has neither.
fn expression(package: &Value, has_text: bool) -> Option<String> {
    let stated = package["license"].as_str().map(|stated| stated.replace('/', " OR "));
    let name = package["name"].as_str().unwrap_or_default().replace('_', "-");
    stated.or_else(|| has_text.then(|| format!("LicenseRef-{name}")))
}

/// Returns the works in the program that are no crates: glibc, Rust's standard library and uPlot.
fn others(root: &Path, target: &str) -> Result<Vec<((String, String), Material)>> {
    if !target.ends_with("-linux-gnu") {
        return Err(format!("the licence of the C library for {target} is not known"));
    }
    let read = |path: &Path| std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let text = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        read(path).map(|text| (name, text))
    };
    let stated = line_of(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
    let libc = stated.strip_prefix("glibc ").ok_or_else(|| format!("getconf GNU_LIBC_VERSION: no glibc: {stated}"))?;
    let libc_texts = LIBC_TEXTS.iter().map(|path| text(Path::new(path))).collect::<Result<Vec<_>>>()?;
    let assets = root.join(ASSETS);
    // The script's first line ends with its version: `(v1.6.32) */`.
    let script = read(&assets.join("uPlot.iife.min.js"))?;
    let plot = script.split_once("(v").and_then(|(_, rest)| rest.split_once(')'));
    let (plot, _) = plot.ok_or_else(|| format!("{ASSETS}/uPlot.iife.min.js states no version"))?;
    let work = |name: &str, version: &str, origin, licence: &str, texts| {
        ((name.to_owned(), version.to_owned()), Material { origin, licence: licence.to_owned(), checksum: None, texts })
    };
    Ok(vec![
        work("glibc", libc, "generic", "LGPL-2.1-or-later", libc_texts),
        work(
            "rust-std",
            &of_rustc("release")?,
            "generic",
            "MIT OR Apache-2.0",
            vec![text(&root.join("LICENSE-APACHE"))?],
        ),
        work("uplot", plot, "npm", "MIT", vec![text(&assets.join("uPlot.LICENSE"))?]),
    ])
}

/// Returns the ids of the packages that `plimsoll` is linked from: not those of tests, builds and procedural macros.
fn linked(metadata: &Value) -> BTreeSet<&str> {
    let nodes = metadata["resolve"]["nodes"].as_array().into_iter().flatten();
    let nodes: BTreeMap<&str, &Value> = nodes.filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let packages = || metadata["packages"].as_array().into_iter().flatten();
    let is_macro = |one: &Value| {
        let targets = one["targets"].as_array().into_iter().flatten();
        targets.flat_map(|target| target["kind"].as_array().into_iter().flatten()).any(|kind| *kind == "proc-macro")
    };
    let macros: BTreeSet<&str> = packages().filter(|one| is_macro(one)).filter_map(|one| one["id"].as_str()).collect();
    let first = packages().filter(|one| one["name"] == "plimsoll").filter_map(|one| one["id"].as_str());
    let mut next: Vec<&str> = first.collect();
    let mut linked = BTreeSet::new();
    while let Some(id) = next.pop() {
        if macros.contains(id) || !linked.insert(id) {
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
    fn crates_of_tests_builds_and_macros_are_not_linked() {
        let dep = |pkg: &str, kind: Value| json!({ "pkg": pkg, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [
                { "name": "plimsoll", "id": "p", "targets": [{ "kind": ["lib"] }, { "kind": ["bin"] }] },
                { "name": "a", "id": "a" },
                { "name": "m", "id": "m", "targets": [{ "kind": ["proc-macro"] }] },
            ],
            "resolve": { "nodes": [
                { "id": "p", "deps": [dep("a", Value::Null), dep("t", json!("dev")), dep("b", json!("build"))] },
                { "id": "a", "deps": [dep("c", Value::Null), dep("m", Value::Null)] },
                { "id": "m", "deps": [dep("syn", Value::Null)] },
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
            origin: "cargo",
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

    #[test]
    fn a_crate_without_a_licence_file_is_listed_with_its_expression() {
        let bare = Material { origin: "cargo", licence: "0BSD".to_owned(), checksum: None, texts: Vec::new() };
        let text = Materials([(("c".to_owned(), "2.0.0".to_owned()), bare)].into()).licences();
        assert!(
            text.ends_with("Packages without a licence file, with the licence that they state:\n\nc 2.0.0: 0BSD\n")
        );
        let stated = json!({ "name": "a_b", "license": "MIT/Apache-2.0" });
        assert_eq!(expression(&stated, false).as_deref(), Some("MIT OR Apache-2.0"));
        let not = json!({ "name": "a_b", "license": null });
        assert_eq!(expression(&not, true).as_deref(), Some("LicenseRef-a-b"));
        assert_eq!(expression(&not, false), None);
    }

    #[test]
    fn the_c_library_rust_s_own_and_the_page_s_script_are_materials() {
        let others = Materials(others(&crate::root(), "x86_64-unknown-linux-gnu").unwrap().into_iter().collect());
        let text = others.licences();
        for line in [": LGPL-2.1-or-later\n", "rust-std 1.", "Leon Sorokin", "GNU LESSER GENERAL PUBLIC LICENSE"] {
            assert!(text.contains(line), "{line}");
        }
        assert!(others.sbom("0.2.0", "c0ffee").contains("pkg:npm/uplot@1."));
    }
}
