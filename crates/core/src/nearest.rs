//! Suggestions for unknown words.

/// The candidate that is most similar to `word`, if at most a third of its letters differ.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.to_lowercase().chars().take(64).collect();
    candidates
        .into_iter()
        .map(|candidate| {
            let lower = candidate.to_lowercase();
            // Insertions, deletions, replacements and swaps of neighbours.
            (strsim::osa_distance(&word, &lower), lower.chars().count().max(word.chars().count()), candidate)
        })
        .filter(|(distance, length, _)| *distance <= (length + 1) / 3)
        .min_by_key(|(distance, ..)| *distance)
        .map(|(.., candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let all = ["clients", "workers", "warmup", "for"];
        assert_eq!(nearest("client", all), Some("clients"));
        assert_eq!(nearest("cleints", all), Some("clients"));
        assert_eq!(nearest("Worker", all), Some("workers"));
        assert_eq!(nearest("fro", all), Some("for"));
        assert_eq!(nearest("banana", all), None);
        assert_eq!(nearest("", all), None);
    }
}
