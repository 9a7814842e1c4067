//! What somebody may have meant by a word that nobody knows.

/// The candidate that `word` most likely meant, if one is near: at most a third of its letters differ.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.to_lowercase().chars().take(64).collect();
    candidates
        .into_iter()
        .map(|candidate| {
            let letters: Vec<char> = candidate.to_lowercase().chars().collect();
            (distance(&word, &letters), letters.len().max(word.len()), candidate)
        })
        .filter(|(distance, length, _)| *distance <= (length + 1) / 3)
        .min_by_key(|(distance, ..)| *distance)
        .map(|(.., candidate)| candidate)
}

/// Fewest insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`
/// (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (above[j + 1] + 1).min(row[j] + 1).min(above[j] + usize::from(x != y));
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or_default()
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
