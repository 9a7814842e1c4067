//! Message about an unknown parameter.

use plimsoll_core::StoreError;
use plimsoll_core::nearest::nearest;

use crate::usage;

/// The error for a parameter `name` that `place` sets, with the one of `known` that may have been meant, or all of them.
pub fn unknown<'k>(name: &str, place: &str, known: impl Iterator<Item = &'k str>) -> StoreError {
    let mut known: Vec<&str> = known.collect();
    known.sort_unstable();
    let next = match nearest(name, known.iter().copied()) {
        Some(nearest) => format!("Did you mean `{nearest}`?"),
        None => format!("Known are: {}.", known.join(", ")),
    };
    usage(format!("{place} sets `{}`, which is not known", name.escape_debug()), next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_where_one_is_near() {
        let next = |name: &str| unknown(name, "the URL", ["user", "host"].into_iter()).next.expect("something to do");
        assert_eq!(next("hots"), "Did you mean `host`?");
        assert_eq!(next("something-else"), "Known are: host, user.");
    }
}
