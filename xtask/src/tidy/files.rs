//! Files are short enough to be about one thing, and their names say which. Comments of built-in plans fit a terminal.

use std::path::{Path, PathBuf};

use super::read;
use crate::Result;

/// Most lines of a Rust file.
const LINES_MAX: usize = 800;
/// Most columns of a comment in a built-in plan, which `--print` shows.
const COLUMNS_MAX: usize = 120;
/// Names that say nothing.
const EMPTY_NAMES: [&str; 8] = ["util", "utils", "common", "helper", "helpers", "manager", "managers", "misc"];

/// Reports every Rust file that is too long, every file, folder or module whose name says nothing, and every comment of a
/// built-in plan that is too long.
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
    let is_plan = |file: &&PathBuf| file.starts_with("studies") && file.extension().is_some_and(|one| one == "toml");
    for file in files.iter().filter(is_plan) {
        for line in long_comments(&read(root, file)?) {
            wrong.push(format!("{}:{line}: the comment has more than {COLUMNS_MAX} columns: break it", file.display()));
        }
    }
    Ok(())
}

/// Returns the numbers of the lines of a plan that are comments with too many columns.
fn long_comments(text: &str) -> impl Iterator<Item = usize> {
    let is_long = |line: &str| line.trim_start().starts_with('#') && line.chars().count() > COLUMNS_MAX;
    (1..).zip(text.lines()).filter(move |(_, line)| is_long(line)).map(|(line, _)| line)
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
    use super::super::tests::refused;
    use super::*;

    #[test]
    fn long_comments_of_built_in_plans_are_seen() {
        let words = "word ".repeat(24);
        let text = format!("# {words}\n#{words}x\n{words} {words}\n    # {words} {words}\n");
        let files = [("studies/a.toml", &*text), ("a/a.toml", &text), ("studies/a.md", &text)];
        let wrong = refused(check, &files);
        let places: Vec<&str> = wrong.iter().map(|line| line.split(": ").next().unwrap()).collect();
        assert_eq!(places, ["studies/a.toml:1", "studies/a.toml:2", "studies/a.toml:4"], "{wrong:?}");
    }

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
        let wrong = refused(check, &files);
        let places: Vec<&str> = wrong.iter().map(|line| line.split(':').next().unwrap()).collect();
        assert_eq!(
            places,
            ["a/long.rs", "a/utils.rs", "tests/common/mod.rs", "a/window_manager.rs", "a/inline.rs"],
            "{wrong:?}"
        );
    }
}
