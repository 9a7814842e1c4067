//! Permitted dependencies between crates. An edge that is not here is a decision: change ARCHITECTURE.md with it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::read;
use crate::Result;

/// Crate, its permitted internal dependencies, and those of its tests besides. `stores/*` stands for every store
/// without an entry of its own.
const EDGES: [(&str, &[&str], &[&str]); 26] = [
    ("plimsoll-core", &[], &[]),
    ("plimsoll-plan", &["plimsoll-core"], &[]),
    ("plimsoll-workload", &["plimsoll-core"], &[]),
    ("plimsoll-capture", &["plimsoll-core"], &[]),
    ("plimsoll-logs", &["plimsoll-core"], &[]),
    ("plimsoll-keyindex", &["plimsoll-core"], &["plimsoll-testkit"]),
    ("plimsoll-drive", &["plimsoll-core"], &[]),
    ("plimsoll-disk", &["plimsoll-core"], &[]),
    ("plimsoll-lab", &["plimsoll-core", "plimsoll-faultfs"], &[]),
    ("plimsoll-faultfs", &["plimsoll-core"], &[]),
    ("plimsoll-tls", &["plimsoll-core"], &["plimsoll-testkit"]),
    ("plimsoll-endpoint", &["plimsoll-core", "plimsoll-tls"], &[]),
    ("plimsoll-verify", &["plimsoll-core"], &["plimsoll-workload"]),
    ("plimsoll-trace", &[], &[]),
    ("plimsoll-sample", &["plimsoll-core", "plimsoll-trace"], &[]),
    ("plimsoll-record", &["plimsoll-core"], &[]),
    ("plimsoll-analysis", &["plimsoll-core", "plimsoll-record"], &[]),
    ("plimsoll-report", &["plimsoll-core", "plimsoll-analysis"], &["plimsoll-record"]),
    (
        "plimsoll-trial",
        &[
            "plimsoll-core",
            "plimsoll-plan",
            "plimsoll-drive",
            "plimsoll-lab",
            "plimsoll-logs",
            "plimsoll-verify",
            "plimsoll-sample",
            "plimsoll-record",
            "plimsoll-analysis",
        ],
        &["plimsoll-testkit", "plimsoll-workload", "plimsoll-store-*"],
    ),
    (
        "plimsoll-testkit",
        &[
            "plimsoll-core",
            "plimsoll-workload",
            "plimsoll-verify",
            "plimsoll-drive",
            "plimsoll-lab",
            "plimsoll-endpoint",
        ],
        &[],
    ),
    (
        "stores/*",
        &["plimsoll-core", "plimsoll-lab", "plimsoll-keyindex", "plimsoll-tls", "plimsoll-endpoint"],
        &["plimsoll-testkit", "plimsoll-drive", "plimsoll-workload"],
    ),
    ("plimsoll-stores", &["plimsoll-core", "plimsoll-store-*"], &["plimsoll-testkit"]),
    // These join everything.
    ("plimsoll", &["plimsoll-*"], &["plimsoll-*"]),
    ("plimsoll-bench", &["plimsoll-*"], &[]),
    ("plimsoll-fuzz", &["plimsoll-*"], &["plimsoll-*"]),
    ("xtask", &[], &[]),
];

/// Reports every forbidden dependency between internal crates, and every crate without a rule.
pub fn check(root: &Path, files: &[PathBuf], wrong: &mut Vec<String>) -> Result {
    for manifest in files.iter().filter(|file| file.ends_with("Cargo.toml") && file.parent() != Some(Path::new(""))) {
        let text = read(root, manifest)?;
        let place = manifest.display();
        let Some(name) = package_name(&text) else {
            wrong.push(format!("{place}: has no package name"));
            continue;
        };
        let key = if name.starts_with("plimsoll-store-") { "stores/*" } else { name };
        let Some((_, allowed, in_tests)) = EDGES.iter().find(|(known, ..)| *known == key) else {
            wrong.push(format!("{place}: {name} has no place in the crate graph (xtask/src/tidy/crate_graph.rs)"));
            continue;
        };
        for (section, dependency) in our_dependencies(&text) {
            let also = if section.contains("dev-dependencies") { *in_tests } else { &[] };
            if !allowed.iter().chain(also).any(|pattern| fits(pattern, dependency)) {
                wrong.push(format!("{place}: {name} may not depend on {dependency} in [{section}]"));
            }
        }
    }
    Ok(())
}

fn fits(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |beginning| name.starts_with(beginning))
}

/// The name in the section `[package]` of a manifest.
fn package_name(manifest: &str) -> Option<&str> {
    let body = manifest.split("[package]").nth(1)?;
    let lines = body.lines().take_while(|line| !line.starts_with('['));
    let value = lines.filter_map(|line| line.split_once('=')).find(|(key, _)| key.trim() == "name")?.1;
    Some(value.trim().trim_matches('"'))
}

/// Section and name of every dependency on a crate of this repository, as our manifests write them.
fn our_dependencies(manifest: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut section = "";
    let is_ours = |name: &&str| name.starts_with("plimsoll");
    for line in manifest.lines().map(|line| line.split(" #").next().unwrap_or_default().trim()) {
        let in_quotes = || line.split('"').skip(1).step_by(2);
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = header;
            // `[dependencies.NAME]`
            if let Some((table, name)) = header.rsplit_once('.').filter(|(table, _)| table.ends_with("dependencies")) {
                found.extend(Some(name.trim_matches('"')).filter(is_ours).map(|name| (table, name)));
            }
        } else if section.ends_with("dependencies") {
            let name = line.trim_start_matches('"').split(['.', '=', ' ', '"']).next();
            // `other-name = { package = "NAME" }`
            let renamed = in_quotes().filter(|_| line.contains("package"));
            let names: BTreeSet<&str> = name.into_iter().chain(renamed).filter(is_ours).collect();
            found.extend(names.into_iter().map(|name| (section, name)));
        } else if section.contains("dependencies.") && line.starts_with("package") {
            found.extend(in_quotes().filter(is_ours).map(|name| (section, name)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::refused;
    use super::*;

    fn wrong(files: &[(&str, &str)]) -> Vec<String> {
        refused(check, files)
    }

    #[test]
    fn allowed_edges_are_nothing_to_talk_about() {
        let store = "[package]\nname = \"plimsoll-store-x\"\n\n[dependencies]\nplimsoll-core.workspace = true\nrustix = \"1\"\n\
            [dev-dependencies]\nplimsoll-testkit = { workspace = true }\n";
        let root = "[workspace.dependencies]\nplimsoll-core = { path = \"crates/core\" }\n";
        assert_eq!(wrong(&[("stores/x/Cargo.toml", store), ("Cargo.toml", root)]), Vec::<String>::new());
    }

    #[test]
    fn every_way_to_write_a_forbidden_edge_is_seen() {
        for edge in [
            "[dependencies]\nplimsoll-drive.workspace = true",
            "[dependencies]\nplimsoll-drive = { workspace = true }",
            "[dependencies.plimsoll-drive]\nworkspace = true",
            "[target.'cfg(unix)'.dependencies]\nplimsoll-drive.workspace = true",
            "[build-dependencies]\nplimsoll-drive.workspace = true",
            "[dev-dependencies]\nplimsoll-drive.workspace = true",
            "[dependencies] # ours\n\"plimsoll-drive\" = { workspace = true } # why",
            "[dependencies]\ndrive = { package = \"plimsoll-drive\", path = \"../drive\" }",
            "[dependencies.drive]\npackage = \"plimsoll-drive\"\npath = \"../drive\"",
            "[dependencies.\"plimsoll-drive\"]\nworkspace = true",
        ] {
            let manifest = format!("[package]\nname = \"plimsoll-core\"\n{edge}\n");
            let wrong = wrong(&[("crates/core/Cargo.toml", &manifest)]);
            assert_eq!(wrong.len(), 1, "{edge}: {wrong:?}");
            assert!(
                wrong[0].starts_with("crates/core/Cargo.toml: plimsoll-core may not depend on plimsoll-drive in [")
            );
        }
    }

    #[test]
    fn what_tests_may_use_the_crate_may_not() {
        let store = "[package]\nname = \"plimsoll-store-x\"\n[dependencies]\nplimsoll-testkit.workspace = true\n";
        assert_eq!(wrong(&[("stores/x/Cargo.toml", store)]).len(), 1);
    }

    #[test]
    fn a_new_crate_has_to_be_thought_about() {
        let wrong = wrong(&[("crates/new/Cargo.toml", "[package]\nname = \"plimsoll-new\"\n")]);
        assert!(wrong[0].contains("has no place in the crate graph"), "{wrong:?}");
    }
}
