//! Help for words that nobody knows.

use plimsoll_core::nearest::nearest;

/// Help for an unknown word: what it may have meant, then all there is.
pub(crate) fn help(word: &str, label: &str, candidates: &[&str]) -> String {
    let all = if candidates.is_empty() { "none".to_owned() } else { candidates.join(", ") };
    match nearest(word, candidates.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? {label}: {all}"),
        None => format!("{label}: {all}"),
    }
}
