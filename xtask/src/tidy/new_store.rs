//! A new store is one folder and two lines: a copy of the tree gets one, is built, and is tidy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{files_below, tidy};

/// Directory of the new store's build, below the target directory; kept for the next time.
const PLACE: &str = "new-store";

/// Returns the directory of the running program: `…/target/debug`.
fn built() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.ancestors().nth(2).unwrap().to_owned()
}

/// Copies a file with its time of change, by which cargo tells what is new.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to.parent().unwrap())?;
    fs::copy(from, to)?;
    fs::File::options().write(true).open(to)?.set_modified(from.metadata()?.modified()?)
}

/// Copies everything in a folder that belongs to no internal crate into another folder, as links if the files are
/// never written.
fn share(from: &Path, to: &Path, as_links: bool) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let (from, to) = (entry.path(), to.join(&name));
        if name.contains("plimsoll") || name.contains("xtask") {
            continue;
        } else if entry.file_type()?.is_dir() {
            share(&from, &to, as_links)?;
        } else if as_links && !name.ends_with(".d") {
            fs::hard_link(&from, &to)?;
        } else {
            copy(&from, &to)?;
        }
    }
    Ok(())
}

/// Adds a line below the first that has `mark` in it.
fn add_line(file: &Path, mark: &str, line: &str) {
    let text = fs::read_to_string(file).unwrap();
    let at =
        text.lines().position(|line| line.contains(mark)).unwrap_or_else(|| panic!("{mark} in {}", file.display()));
    let mut lines: Vec<&str> = text.lines().collect();
    lines.insert(at + 1, line);
    fs::write(file, lines.join("\n") + "\n").unwrap();
}

/// Half a minute with what the tests have built before, several without.
#[test]
fn a_new_store_is_one_folder_and_two_lines() {
    let (root, place) = (crate::root(), built().join(PLACE));
    let (tree, target) = (place.join("tree"), place.join("target"));
    let _ = fs::remove_dir_all(&tree);
    for file in files_below(&root).unwrap() {
        copy(&root.join(&file), &tree.join(&file)).unwrap();
    }
    for file in files_below(&root.join("stores/null")).unwrap() {
        let text = fs::read_to_string(root.join("stores/null").join(&file)).unwrap();
        let to = tree.join("stores/hollow").join(&file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(to, text.replace("null", "hollow")).unwrap();
    }
    assert!(
        tidy(&tree, &[]).is_err_and(|wrong| wrong.contains("does not list hollow")),
        "the folder alone is not enough"
    );
    let dependency = "plimsoll-store-hollow.path = \"../hollow\"";
    add_line(&tree.join("stores/all/Cargo.toml"), "plimsoll-store-null", dependency);
    add_line(
        &tree.join("stores/all/src/lib.rs"),
        "plimsoll_store_null::kind(),",
        "        plimsoll_store_hollow::kind(),",
    );
    tidy(&tree, &[]).unwrap();
    if !target.exists() {
        for (folder, as_links) in [("deps", true), ("build", true), (".fingerprint", false)] {
            share(&built().join(folder), &target.join("debug").join(folder), as_links).unwrap();
        }
    }
    let mut check = Command::new(std::env::var_os("CARGO").unwrap());
    check.args(["check", "--offline", "--package", "plimsoll-stores"]).current_dir(&tree);
    let done = check.env("CARGO_TARGET_DIR", &target).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
