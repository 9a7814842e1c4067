//! Words: each is defined once in the book, and a type's name means one thing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::read;
use super::rust_text::{Piece, pieces};
use crate::Result;

/// Page that defines words, a table row each.
const WORDS: &str = "docs/src/words.md";
/// Most crates that may declare a public type of one name.
const CRATES_MAX: usize = 2;

/// Refuses words that are defined twice.
pub fn check(root: &Path, wrong: &mut Vec<String>) -> Result {
    if !root.join(WORDS).exists() {
        return Ok(());
    }
    let mut known = BTreeSet::new();
    for row in read(root, WORDS)?.lines().filter_map(|line| line.strip_prefix("| ")) {
        let cell = row.split(" | ").next().unwrap_or_default().replace("**", "").to_lowercase();
        for word in cell.split(", ").filter(|word| !word.starts_with("---")) {
            if !known.insert(word.trim().to_owned()) {
                wrong.push(format!("{WORDS}: defines `{}` twice; make one definition of both", word.trim()));
            }
        }
    }
    Ok(())
}

/// Names that public types of more than two crates have, with the crates. Stores are alike by design and count as one.
pub fn ambiguous_types(root: &Path, files: &[PathBuf]) -> Result<Vec<(String, BTreeSet<String>)>> {
    let mut crates: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| is_source(file)) {
        let parts = if file.starts_with("stores") { 1 } else { 2 };
        let of: Vec<_> = file.iter().take(parts).map(|part| part.to_string_lossy()).collect();
        for name in public_types(&read(root, file)?) {
            crates.entry(name).or_default().insert(of.join("/"));
        }
    }
    crates.retain(|_, of| of.len() > CRATES_MAX);
    Ok(crates.into_iter().collect())
}

fn is_source(file: &Path) -> bool {
    let is_rust = file.extension().is_some_and(|extension| extension == "rs");
    let is_crate = file.starts_with("crates") || file.starts_with("stores");
    is_rust && is_crate && file.iter().nth(2).is_some_and(|folder| folder == "src")
}

/// Names of the types that `text` declares `pub` or `pub(crate)`.
fn public_types(text: &str) -> Vec<String> {
    let names: Vec<&str> = pieces(text)
        .into_iter()
        .filter_map(|(_, _, piece)| match piece {
            Piece::Name(name) => Some(name),
            Piece::Text(_) => None,
        })
        .collect();
    let declares = |at: usize| {
        let is_type = matches!(names.get(at + 1), Some(&("struct" | "enum" | "trait" | "type" | "union")));
        is_type.then(|| names.get(at + 2)).flatten()
    };
    let public = names.iter().enumerate().filter(|(_, name)| **name == "pub");
    let declared = public.filter_map(|(at, _)| match names.get(at + 1) {
        Some(&("crate" | "super")) => declares(at + 1),
        _ => declares(at),
    });
    declared.map(|name| (*name).to_owned()).collect()
}

/// True if the `length` bytes of `text` from `at` on are whole words.
pub fn is_word_at(text: &str, at: usize, length: usize) -> bool {
    let before = text.get(..at).is_none_or(|before| !before.ends_with(char::is_alphanumeric));
    before && text.get(at + length..).is_none_or(|after| !after.starts_with(|c: char| c.is_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::repository;
    use super::*;

    #[test]
    fn words_defined_twice_and_names_of_three_crates_are_found() {
        let files = [
            (WORDS, "| word | meaning |\n|---|---|\n| cell, node | a |\n| **host** | b |\n| Cell | c |\n"),
            ("crates/a/src/lib.rs", "pub struct Place;\npub(crate) enum Link {}\n"),
            ("crates/b/src/x/y.rs", "pub(crate) trait Place {}\npub(crate) type Link = u8;\n"),
            ("stores/c/src/lib.rs", "pub enum Place {}\nstruct Link;\n// pub struct Link\n"),
            ("stores/d/src/lib.rs", "pub struct Place;\n"),
            ("crates/e/tests/it.rs", "pub struct Link;"),
        ];
        let root = repository(&files);
        let paths: Vec<PathBuf> = files.iter().map(|(path, _)| PathBuf::from(path)).collect();
        let mut wrong = Vec::new();
        check(root.path(), &mut wrong).unwrap();
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].contains("`cell`"), "{wrong:?}");
        let types = ambiguous_types(root.path(), &paths).unwrap();
        assert_eq!(types.len(), 1, "{types:?}");
        assert_eq!(types[0].0, "Place");
    }
}
