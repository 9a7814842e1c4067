//! Checks if a goal is finer than the machine: it stands still for longer than the limit, for more of the time than
//! the goal allows operations above it.

use plimsoll_core::quantity::Percentile;
use plimsoll_record::data::{Goal, GoalKind};

use crate::latency::SHOWN;
use crate::number;

/// Limits that are proposed, in nanoseconds.
const LIMITS_NS: [f64; 10] = [1e6, 2e6, 5e6, 10e6, 20e6, 40e6, 60e6, 100e6, 200e6, 500e6];

/// Share of what a goal allows that pauses may take: more of them, and they decide.
const LEFT: f64 = 0.5;

/// Returns the warning before a search for the line of `goals`; `None` if the machine permits all of them.
/// `share_above` is the share of time, 0 to 1, in which it stood still for longer than so many nanoseconds at once.
///
/// An operation that is due in such a pause takes as long as what is left of it, at least; so this is about goals as
/// they would be seen. Where pauses are known, rungs are judged without what they disturbed.
pub fn finer_than_machine(goals: &[Goal], share_above: &dyn Fn(u64) -> f64) -> Option<String> {
    let is_finer = |limit_ns: f64, share: f64| share_above(limit_ns as u64) > LEFT * share;
    let (goal, share) = goals.iter().find_map(|goal| {
        let GoalKind::Percentile(percentile) = goal.what else { return None };
        is_finer(goal.limit, percentile.share_above()).then(|| (goal, percentile.share_above()))
    })?;
    let (name, limit) = (goal.name(), number::limit(goal.limit, &goal.unit));
    let can_limit = LIMITS_NS.into_iter().find(|ns| *ns > goal.limit && !is_finer(*ns, share));
    let can_limit = can_limit.map(|ns| format!("{name} ≤ {}", number::with_unit(ns, "ns")));
    let mut percentiles = SHOWN.iter().rev().filter_map(|name| Percentile::named(name));
    let can = percentiles.find(|one| one.share_above() > share && !is_finer(goal.limit, one.share_above()));
    let can = can.map(|one| format!("{} ≤ {limit}", Goal { what: GoalKind::Percentile(one), ..goal.clone() }.name()));
    let can: Vec<String> = can_limit.into_iter().chain(can).collect();
    let can = if can.is_empty() { "no other goal can".to_string() } else { format!("{} can", can.join(" or ")) };
    Some(format!(
        "this machine pauses for more than {limit} in {} of the time: {name} ≤ {limit} cannot be decided here as it is \
         seen; {can}",
        number::with_unit(share_above(goal.limit as u64) * 100.0, "%"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(what: &str, limit_ms: f64) -> Goal {
        Goal { what: GoalKind::named(what).unwrap(), of: None, limit: limit_ms * 1e6, unit: "ns".into() }
    }

    #[test]
    fn a_goal_finer_than_the_machine_is_said_with_those_that_can_be_decided() {
        let pauses = |ns: u64| match ns {
            0..10_000_000 => 0.013,
            10_000_000..40_000_000 => 0.006,
            _ => 0.0,
        };
        let said = finer_than_machine(&[goal("p99", 5.0)], &pauses).unwrap();
        assert_eq!(
            said,
            "this machine pauses for more than 5.00 ms in 1.30 % of the time: p99 ≤ 5.00 ms cannot be decided here \
             as it is seen; p99 ≤ 40.0 ms or p95 ≤ 5.00 ms can"
        );
        assert_eq!(finer_than_machine(&[goal("p99", 50.0), goal("p50", 1.0)], &pauses), None);
        let errors = Goal { what: GoalKind::Errors, of: None, limit: 0.1, unit: "%".into() };
        assert_eq!(finer_than_machine(&[errors], &|_| 1.0), None);
        assert!(finer_than_machine(&[goal("p50", 5.0)], &|_| 1.0).unwrap().ends_with("; no other goal can"));
    }
}
