//! What is wrong in a script, where, and what may have been meant.

use std::ops::Range;

/// A mistake at a place in a script's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// Bytes of the script's text.
    pub(crate) range: Range<usize>,
    /// What is wrong.
    pub(crate) what: String,
    /// What to do.
    pub(crate) help: Option<String>,
}

/// A mistake without help.
pub(super) fn mistake(range: Range<usize>, what: String) -> Mistake {
    Mistake { range, what, help: None }
}

impl Mistake {
    /// With what to do.
    pub(super) fn with_help(self, help: impl Into<String>) -> Self {
        Mistake { help: Some(help.into()), ..self }
    }
}

/// The candidate that `word` most likely meant, if one is near.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.chars().count().max(word.chars().count()) + 1) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Fewest insertions, deletions and replacements that turn `a` into `b` (Levenshtein), over their first 64 letters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (row, x) in a.chars().take(64).enumerate() {
        let mut diagonal = std::mem::replace(&mut above[0], row + 1);
        for (column, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = above[column + 1];
            above[column + 1] = replaced.min(above[column] + 1).min(diagonal + 1);
        }
    }
    above[b.len()]
}
