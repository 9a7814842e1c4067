//! Language: first words of doc comments and phrases that the house does not use, counted against a budget.
//!
//! The budget stands in `xtask/prose-budget.txt`: an area and its count per line. A count above its budget is refused;
//! a count below it lowers the budget. An area without a line has the budget 0.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::rust_text::{Piece, pieces};
use super::{read, words};
use crate::Result;

/// File with an area and its count per line.
const BUDGET: &str = "xtask/prose-budget.txt";
/// First words that no doc comment begins with: relative clauses, and pronouns without an antecedent.
const COMMENT_BEGINNINGS: [&str; 27] = [
    "what",
    "who",
    "whoever",
    "whose",
    "whom",
    "nobody",
    "somebody",
    "one",
    "it",
    "its",
    "the same",
    "has",
    "have",
    "had",
    "how",
    "whether",
    "those",
    "that",
    "they",
    "their",
    "where",
    "which",
    "why",
    "whatever",
    "something",
    "everything",
    "nothing",
];
/// First words that no paragraph of a page begins with.
const PARAGRAPH_BEGINNINGS: [&str; 10] =
    ["whoever", "who", "nobody", "what", "has", "it", "its", "the same", "one", "whether"];
/// Phrases for which the field has a better one. Each stands as words of its own.
const PHRASES: [&str; 20] = [
    "whoever",
    "nobody",
    "somebody",
    "of ours",
    "of theirs",
    "in good order",
    "power goes",
    "goes on with",
    "gone on with",
    "lets be",
    "leaves be",
    "the others be",
    "what is no",
    "is no question",
    "is no answer",
    "other people's",
    "of others'",
    "people's",
    "has them be",
    "has it be",
];
/// Most columns of a line of a page.
const COLUMNS_MAX: usize = 120;

/// A place that counts: the area, the file, the line and the words found.
type Found = (String, PathBuf, usize, String);

/// Refuses areas with more places than their budget. Lowers the budget of the others.
pub fn check(root: &Path, files: &[PathBuf], wrong: &mut Vec<String>) -> Result {
    let found = places(root, files)?;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (area, ..) in &found {
        *counts.entry(area.clone()).or_default() += 1;
    }
    let known = budget(root)?;
    let mut lowered = String::new();
    for (area, count) in &counts {
        let allowed = known.get(area).copied().unwrap_or(0);
        if *count > allowed {
            wrong.push(format!(
                "{area}: {count} places whose language the house does not use, {allowed} at most: `cargo xtask tidy --prose {area}` lists them"
            ));
        }
        if allowed > 0 {
            writeln!(lowered, "{area} {}", allowed.min(*count)).map_err(|error| error.to_string())?;
        }
    }
    let path = root.join(BUDGET);
    if path.exists() && known != parse(&lowered) {
        std::fs::write(&path, lowered).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Prints the places of `area`, or of all areas, and their number.
pub fn list(root: &Path, files: &[PathBuf], area: Option<&str>) -> Result {
    let meant = |name: &str| {
        area.is_none_or(|area| {
            name == area || name.strip_suffix("/texts").or(name.strip_suffix("/comments")) == Some(area)
        })
    };
    let mut found = places(root, files)?;
    found.retain(|(name, ..)| meant(name));
    for (area, file, line, words) in &found {
        println!("{}:{line}: {words} ({area})", file.display());
    }
    println!("{} places", found.len());
    Ok(())
}

fn budget(root: &Path) -> Result<BTreeMap<String, usize>> {
    if !root.join(BUDGET).exists() {
        return Ok(BTreeMap::new());
    }
    Ok(parse(&read(root, BUDGET)?))
}

fn parse(text: &str) -> BTreeMap<String, usize> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(area, n)| Some((area.to_owned(), n.parse().ok()?)))
        .collect()
}

/// All places that count, file by file.
fn places(root: &Path, files: &[PathBuf]) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for file in files {
        let Some(area) = area(file) else { continue };
        let extension = file.extension().unwrap_or_default();
        let is_plan = extension == "toml" && area == "studies";
        // The rule names what it refuses.
        if file.ends_with("tidy/prose.rs") || !(extension == "rs" || extension == "md" || is_plan) {
            continue;
        }
        let text = read(root, file)?;
        if extension == "rs" {
            let mut add = |kind: &str, line: usize, words: String| {
                found.push((format!("{area}/{kind}"), file.clone(), line, words));
            };
            comments(&text, &mut |line, words| add("comments", line, words));
            if !file.iter().any(|folder| folder == "tests") {
                for (line, _, piece) in pieces(&text) {
                    // A word alone is a name, such as that of a Unix user.
                    let Piece::Text(literal) = piece else { continue };
                    if literal.contains(' ') {
                        phrases(literal).for_each(|words| add("texts", line, words));
                    }
                }
            }
        } else if is_plan {
            plan(&text, &mut |line, words| found.push((area.clone(), file.clone(), line, words)));
        } else {
            page(&text, &mut |line, words| found.push((area.clone(), file.clone(), line, words)));
        }
    }
    for (name, crates) in words::ambiguous_types(root, files)? {
        let crates: Vec<String> = crates.into_iter().collect();
        let words = format!("public types of {} crates have the name `{name}`", crates.len());
        found.push(("types".to_owned(), PathBuf::from(crates.join(", ")), 0, words));
    }
    Ok(found)
}

/// Crate or `docs` that a file belongs to; `None` for files without prose of the house.
fn area(file: &Path) -> Option<String> {
    let mut folders = file.iter().map(|folder| folder.to_string_lossy());
    let first = folders.next()?;
    match &*first {
        "crates" => folders.next().map(|name| name.into_owned()),
        "stores" => folders.next().map(|name| format!("stores/{name}")),
        "xtask" | "bench" | "fuzz" | "studies" => Some(first.into_owned()),
        "docs" => (folders.next()? == "src").then(|| "docs".to_owned()),
        "README.md" | "ARCHITECTURE.md" | "CONTRIBUTING.md" => Some("docs".to_owned()),
        _ => None,
    }
}

/// Beginnings of doc comments, and phrases of all comments.
fn comments(text: &str, add: &mut impl FnMut(usize, String)) {
    let mut continues = false;
    for (line, text) in text.lines().enumerate() {
        let text = text.trim_start();
        let doc = text.strip_prefix("///").or(text.strip_prefix("//!"));
        if let Some(doc) = doc {
            let begins = (!continues).then(|| beginning(doc, &COMMENT_BEGINNINGS)).flatten();
            begins.into_iter().for_each(|word| add(line + 1, format!("begins with `{word}`")));
        }
        continues = doc.is_some();
        if let Some(comment) = text.strip_prefix("//") {
            phrases(comment).for_each(|words| add(line + 1, words));
        }
    }
}

/// Phrases in the comments and texts of a built-in plan: the program prints both.
fn plan(text: &str, add: &mut impl FnMut(usize, String)) {
    for (line, text) in text.lines().enumerate() {
        phrases(text).for_each(|words| add(line + 1, words));
    }
}

/// Beginnings of paragraphs and list items, phrases, and lines that are too long.
fn page(text: &str, add: &mut impl FnMut(usize, String)) {
    let (mut is_code, mut begins) = (false, true);
    for (line, text) in text.lines().enumerate() {
        let (row, trimmed) = (line + 1, text.trim_start());
        if trimmed.starts_with("```") {
            is_code = !is_code;
        }
        if is_code || trimmed.starts_with("```") || (text.starts_with("    ") && begins) {
            continue;
        }
        phrases(text).for_each(|words| add(row, words));
        if trimmed.starts_with('|') || trimmed.starts_with('#') || trimmed.is_empty() {
            begins = true;
            continue;
        }
        let item = trimmed.strip_prefix("- ").or(trimmed.strip_prefix("* "));
        if begins || item.is_some() {
            let beginning = beginning(item.unwrap_or(trimmed), &PARAGRAPH_BEGINNINGS);
            beginning.into_iter().for_each(|word| add(row, format!("begins with `{word}`")));
        }
        begins = false;
        if columns(text) > COLUMNS_MAX && trimmed.contains(' ') {
            add(row, format!("has more than {COLUMNS_MAX} columns"));
        }
    }
}

/// Columns of a line without the targets of its links, which cannot be broken.
fn columns(line: &str) -> usize {
    let mut parts = line.split("](");
    let before = parts.next().unwrap_or_default().chars().count();
    before
        + parts.map(|part| part.split_once(')').map_or(part, |(_, behind)| behind).chars().count() + 1).sum::<usize>()
}

/// The beginning of `text`, if it is among `beginnings`.
fn beginning<'b>(text: &str, beginnings: &[&'b str]) -> Option<&'b str> {
    let text = text.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '`').to_lowercase();
    beginnings.iter().find(|word| words::is_word_at(&text, 0, word.len()) && text.starts_with(**word)).copied()
}

/// The phrases that `text` contains.
fn phrases(text: &str) -> impl Iterator<Item = String> {
    let text = text.to_lowercase();
    PHRASES.into_iter().flat_map(move |phrase| {
        let places = text.match_indices(phrase).filter(|(at, _)| words::is_word_at(&text, *at, phrase.len()));
        vec![format!("says `{phrase}`"); places.count()]
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::repository;
    use super::*;

    const RUST: &str = "//! What this is.\n//! Who cares.\n\n/// Returns what nobody wants.\nfn a() {}\n/// Its name.\n// \
                        plain, whoever reads it\nconst B: &str = \"a server of ours\";\nconst C: &str = \"Ask whoeverest\"; \
                        const U: &str = \"nobody\";\n#[cfg(test)]\nmod tests {\n    \
                        const D: &str = \"nobody\";\n}\n";
    const PAGE: &str = "# What it is\n\nIt runs.\n\n- Who asks\n- A line\nOne more line\n\n```\nnobody\n```\n\n    whoever\n\n| What | is |\n";

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let root = repository(files);
        let paths: Vec<PathBuf> = files.iter().map(|(path, _)| PathBuf::from(path)).collect();
        let places = places(root.path(), &paths).unwrap();
        places.into_iter().map(|(area, _, line, words)| format!("{area}:{line} {words}")).collect()
    }

    #[test]
    fn beginnings_and_phrases_are_found_in_comments_texts_and_pages_and_nowhere_else() {
        assert_eq!(
            found(&[("crates/a/src/lib.rs", RUST)]),
            [
                "a/comments:1 begins with `what`",
                "a/comments:4 says `nobody`",
                "a/comments:6 begins with `its`",
                "a/comments:7 says `whoever`",
                "a/texts:8 says `of ours`",
            ]
        );
        // A link may be long, and its line is not for that.
        let (words, target) = ("word ".repeat(30), "x".repeat(120));
        let long = format!("{PAGE}\n{words}\nword [a]({target})\nword [a](b) {words}\n");
        assert_eq!(
            found(&[
                ("docs/src/a.md", &long),
                ("docs/journal/a.md", "Nobody\n"),
                ("studies/a.toml", "title = \"Nobody\"\n\n# The power goes.\n"),
                ("crates/a/b.toml", "# Nobody\n"),
                ("stores/b/README.md", "Who has it\n")
            ]),
            [
                "docs:3 begins with `it`",
                "docs:5 begins with `who`",
                "docs:17 has more than 120 columns",
                "docs:19 has more than 120 columns",
                "studies:1 says `nobody`",
                "studies:3 says `power goes`",
                "stores/b:1 begins with `who`"
            ]
        );
    }

    #[test]
    fn a_rise_is_refused_and_a_fall_lowers_the_budget() {
        let check = |budget: &str, text: &str| {
            let files = [("xtask/prose-budget.txt", budget), ("crates/a/src/lib.rs", text)];
            let root = repository(&files);
            let mut wrong = Vec::new();
            check(root.path(), &files.map(|(path, _)| PathBuf::from(path)), &mut wrong).unwrap();
            (wrong.len(), read(root.path(), BUDGET).unwrap())
        };
        let one = "/// Who\nfn a() {}\n";
        assert_eq!(check("a/comments 1\n", one), (0, "a/comments 1\n".to_owned()));
        assert_eq!(check("a/comments 3\nb/texts 1\n", one), (0, "a/comments 1\n".to_owned()));
        assert_eq!(check("a/comments 1\n", &one.repeat(2)), (1, "a/comments 1\n".to_owned()));
        assert_eq!(check("", one).0, 1);
    }
}
