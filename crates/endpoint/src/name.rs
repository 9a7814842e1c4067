//! What is said to a parameter that nobody knows.

use plimsoll_core::StoreError;

use crate::usage;

/// The error for a parameter `name` that `place` sets, with the one of `known` that may have been meant, or all of them.
pub fn unknown<'k>(name: &str, place: &str, known: impl Iterator<Item = &'k str>) -> StoreError {
    let mut known: Vec<&str> = known.collect();
    known.sort_by_key(|known| distance(known, name));
    let next = match known.first() {
        Some(nearest) if distance(nearest, name) <= 3 => format!("Did you mean `{nearest}`?"),
        _ => {
            known.sort_unstable();
            format!("Known are: {}.", known.join(", "))
        }
    };
    usage(format!("{place} sets `{}`, which is not known", name.escape_debug()), next)
}

/// Levenshtein's distance.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, left) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, right) in to.iter().enumerate() {
            let changed = diagonal + usize::from(left != *right);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_where_one_is_near() {
        let next = |name: &str| unknown(name, "the URL", ["user", "host"].into_iter()).next.expect("something to do");
        assert_eq!(next("hots"), "Did you mean `host`?");
        assert_eq!(next("something-else"), "Known are: host, user.");
        assert_eq!((distance("kitten", "sitting"), distance("", "abc")), (3, 3));
    }
}
