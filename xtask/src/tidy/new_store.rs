//! A new store is one folder and two lines: a copy of the tree gets one, resolves, and is tidy.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{files_below, store_list, tidy};

/// Adds a line below the first that has `mark` in it.
fn add_line(file: &Path, mark: &str, line: &str) {
    let text = fs::read_to_string(file).unwrap();
    let at =
        text.lines().position(|line| line.contains(mark)).unwrap_or_else(|| panic!("{mark} in {}", file.display()));
    let mut lines: Vec<&str> = text.lines().collect();
    lines.insert(at + 1, line);
    fs::write(file, lines.join("\n") + "\n").unwrap();
}

/// Cargo takes the copy for a workspace with the new store in all stores; with `PLIMSOLL_HEAVY` it also compiles it, which
/// takes three minutes.
#[test]
fn a_new_store_is_one_folder_and_two_lines() {
    let root = crate::root();
    let place = tempfile::tempdir().unwrap();
    let tree = place.path();
    for file in files_below(&root).unwrap() {
        fs::create_dir_all(tree.join(&file).parent().unwrap()).unwrap();
        fs::copy(root.join(&file), tree.join(&file)).unwrap();
    }
    for file in files_below(&root.join("stores/null")).unwrap() {
        let text = fs::read_to_string(root.join("stores/null").join(&file)).unwrap();
        let to = tree.join("stores/hollow").join(&file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(to, text.replace("null", "hollow")).unwrap();
    }
    let mut wrong = Vec::new();
    store_list::check(tree, &mut wrong).unwrap();
    assert!(
        wrong.iter().any(|wrong| wrong.contains("does not list hollow")),
        "the folder alone is not enough: {wrong:?}"
    );
    let dependency = "plimsoll-store-hollow.path = \"../hollow\"";
    add_line(&tree.join("stores/all/Cargo.toml"), "plimsoll-store-null", dependency);
    add_line(
        &tree.join("stores/all/src/lib.rs"),
        "plimsoll_store_null::kind(),",
        "        plimsoll_store_hollow::kind(),",
    );
    tidy(tree).unwrap();
    let cargo = |arguments: &[&str]| {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        let done = cargo.args(arguments).arg("--offline").current_dir(tree).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let uses = cargo(&["tree", "--package", "plimsoll-stores", "--depth", "1"]);
    assert!(uses.contains("plimsoll-store-hollow v"), "{uses}");
    if std::env::var_os("PLIMSOLL_HEAVY").is_some() {
        cargo(&["check", "--package", "plimsoll-stores"]);
    }
}
