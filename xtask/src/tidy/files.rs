//! Files are short enough to be about one thing, and their names say which.

use std::path::{Path, PathBuf};

use super::read;
use crate::Result;

/// Most lines of a Rust file.
const LINES_MAX: usize = 800;
/// Names that say nothing.
const EMPTY_NAMES: [&str; 8] = ["util", "utils", "common", "helper", "helpers", "manager", "managers", "misc"];

/// Reports every Rust file that is too long, and every file, folder or module whose name says nothing.
pub fn check(root: &Path, files: &[PathBuf], wrong: &mut Vec<String>) -> Result {
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
        let place = file.display();
        let text = read(root, file)?;
        let lines = text.lines().count();
        if lines > LINES_MAX {
            wrong.push(format!("{place}: has {lines} lines; above {LINES_MAX} it is about more than one thing"));
        }
        let names = file.components().map(|part| part.as_os_str().to_string_lossy());
        for name in names.filter(|name| says_nothing(name.trim_end_matches(".rs"))) {
            wrong.push(format!("{place}: the name {name} does not say what is in it"));
        }
        // A module with a file of its own is named above.
        for module in text.lines().filter_map(inline_module).filter(|name| says_nothing(name)) {
            wrong.push(format!("{place}: the module name {module} does not say what is in it"));
        }
    }
    Ok(())
}

/// True for names one of whose words is all they say: `utils`, `test_helper`.
fn says_nothing(name: &str) -> bool {
    name.split('_').any(|word| EMPTY_NAMES.contains(&word))
}

/// The name of the module whose body begins in `line`.
fn inline_module(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub").map_or(line, |line| line.trim_start_matches("(crate)").trim_start());
    line.strip_prefix("mod ")?.trim_end().strip_suffix('{').map(str::trim_end)
}

#[cfg(test)]
mod tests {
    use super::super::tests::repository;
    use super::*;

    #[test]
    fn long_files_and_empty_names_are_seen() {
        let long = "// line\n".repeat(LINES_MAX + 1);
        let longest = "// line\n".repeat(LINES_MAX);
        let files = [
            ("a/long.rs", &*long),
            ("a/longest.rs", &longest),
            ("a/long.md", &long),
            ("a/utils.rs", ""),
            ("tests/common/mod.rs", ""),
            ("a/window_manager.rs", ""),
            ("a/inline.rs", "pub(crate) mod helpers {\n}\nmod fine {\n}\nmod util;\n"),
            ("a/commonly.rs", ""),
        ];
        let root = repository(&files);
        let paths: Vec<PathBuf> = files.iter().map(|(path, _)| PathBuf::from(path)).collect();
        let mut wrong = Vec::new();
        check(root.path(), &paths, &mut wrong).unwrap();
        let places: Vec<&str> = wrong.iter().map(|line| line.split(':').next().unwrap()).collect();
        assert_eq!(
            places,
            ["a/long.rs", "a/utils.rs", "tests/common/mod.rs", "a/window_manager.rs", "a/inline.rs"],
            "{wrong:?}"
        );
    }
}
