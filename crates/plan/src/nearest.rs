//! Advice for unknown words.

use plimsoll_core::nearest::nearest;

/// Advice for an unknown word: the most similar candidate, then all of them.
pub(crate) fn help<'a, C>(word: &str, label: &str, candidates: impl IntoIterator<Item = &'a C>) -> String
where
    C: AsRef<str> + ?Sized + 'a,
{
    let candidates: Vec<&str> = candidates.into_iter().map(AsRef::as_ref).collect();
    let all = if candidates.is_empty() { "none".to_owned() } else { candidates.join(", ") };
    match nearest(word, candidates) {
        Some(near) => format!("did you mean `{near}`? {label}: {all}"),
        None => format!("{label}: {all}"),
    }
}
