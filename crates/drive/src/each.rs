//! Times of single operations: room for them in each worker, and the first of a phase.

use crate::result::OpTime;
use crate::spec::{DriveSpec, Limit};

/// Returns the number of operations whose times a worker with so many `clients` can keep.
pub(crate) fn room(spec: &DriveSpec, clients: usize, workers: usize) -> usize {
    // Workers are not equally fast: each has room for twice its share.
    let share = spec.each_max.div_ceil(workers.max(1)).saturating_mul(2).min(spec.each_max);
    match spec.limit {
        Limit::Ops(ops) => usize::try_from(ops).unwrap_or(usize::MAX).saturating_mul(clients).min(share),
        Limit::Duration(_) | Limit::Exhausted => share,
    }
}

/// Reduces `each`, which lacks nothing that ended before `until_ns`, to the first `most` operations at most. Returns the
/// time before which it lacks none; `None` if it lacks none at all.
pub fn first(each: &mut Vec<OpTime>, mut until_ns: u64, most: usize) -> Option<u64> {
    if each.len() > most {
        let (_, next, _) = each.select_nth_unstable_by_key(most, |op| op.end_ns);
        until_ns = until_ns.min(next.end_ns);
    }
    // Of operations that ended in one moment all are kept, or none.
    each.retain(|op| op.end_ns < until_ns);
    (until_ns < u64::MAX).then_some(until_ns)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plimsoll_core::Outcome;

    use super::*;

    fn ended(ends_ns: &[u64]) -> Vec<OpTime> {
        let op = |end_ns| OpTime {
            client: 0,
            cycle: 0,
            kind: 0,
            outcome: Outcome::Ok,
            scheduled_ns: 0,
            sent_ns: 0,
            end_ns,
            rows: 0,
        };
        ends_ns.iter().copied().map(op).collect()
    }

    /// Returns the ends of the first operations, in order, and the time before which none is missing.
    fn first_of(ends_ns: &[u64], until_ns: u64, most: usize) -> (Vec<u64>, Option<u64>) {
        let mut each = ended(ends_ns);
        let until_ns = first(&mut each, until_ns, most);
        let mut ends_ns: Vec<u64> = each.iter().map(|op| op.end_ns).collect();
        ends_ns.sort_unstable();
        (ends_ns, until_ns)
    }

    #[test]
    fn the_first_operations_are_kept_up_to_a_moment_before_which_none_is_missing() {
        assert_eq!(first_of(&[7, 3, 5], u64::MAX, 3), (vec![3, 5, 7], None));
        assert_eq!(first_of(&[7, 3, 5, 9], u64::MAX, 3), (vec![3, 5, 7], Some(9)));
        // Another worker had no room from 6 on.
        assert_eq!(first_of(&[7, 3, 5, 9], 6, 3), (vec![3, 5], Some(6)));
        // The third and the fourth ended in one moment.
        assert_eq!(first_of(&[7, 3, 5, 7, 9], u64::MAX, 3), (vec![3, 5], Some(7)));
        assert_eq!(first_of(&[], u64::MAX, 3), (vec![], None));
    }

    #[test]
    fn workers_have_room_for_twice_their_share_and_no_more_than_they_can_need() {
        let spec = |limit| DriveSpec { limit, each_max: 1_000, ..DriveSpec::default() };
        let timed = spec(Limit::Duration(Duration::from_secs(1)));
        assert_eq!([1, 2, 4, 3_000].map(|workers| room(&timed, 8, workers)), [1_000, 1_000, 500, 2]);
        assert_eq!([10, 1_000].map(|ops| room(&spec(Limit::Ops(ops)), 8, 4)), [80, 500]);
        assert_eq!(room(&DriveSpec { each_max: 0, ..timed }, 8, 1), 0, "they are not wanted");
    }
}
