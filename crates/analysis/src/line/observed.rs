//! Evidence of a rung about the line: the excess or shortage of operations above a goal's limit, compared with the
//! number allowed, and its uncertainty.
//!
//! *p99 ≤ 5 ms* means that at most one operation of a hundred takes longer than 5 ms. So a rung is a count, and its *excess*
//! the logarithm of the odds of being above, over the odds that the goal allows: 0 at the limit.
//!
//! Operations of one second have their luck in common: a stall puts hundreds of them above the limit at once. So what
//! counts is not their number but that of *events*, operations above the limit over how many of them come together
//! (the overdispersion; Fletcher, Stat. Methodol. 9, 2012), by how the slices of a rung differ, in the mean of all rungs: one
//! that was lucky looks even, and must not count for more. How rungs that contradict each other differ is added to it: what is
//! rarer than one a rung no slices show. A rung without any event tells little where one in three is to be expected, and that
//! is what it counts for.

use plimsoll_record::data::GoalKind;

use super::{GoalSeen, Rung, RungSummary, cycle};

/// An excess beyond this, on either side, counts as far away: an eighth, or eight times, of the odds allowed.
pub(super) const FAR: f64 = 2.0;

/// Least operations above the limit that come together where nothing tells, and for how many of them what is assumed
/// stands.
const TOGETHER: f64 = 10.0;
const TOGETHER_N: f64 = 10.0;

/// Operations that wait for each one that is due in a stall: at 80 % of a store's capacity the queue behind it lasts
/// four times as long (as that behind a pause of the machine).
const QUEUED: f64 = 4.0;

/// An excess up to which rungs tell it: above, the queue grows.
const NEAR: f64 = 1.2;

/// Knowledge of the excess.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Says {
    Exactly,
    /// The generator was late itself: without that it would have been less.
    AtMost,
    /// No cycle of the store ended in it: with one it would have been more.
    AtLeast,
}

/// Evidence of a rung.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Observed {
    /// Logarithm of the rate.
    pub ln_rate: f64,
    /// Log-odds above what the worst goal allows.
    pub excess: f64,
    /// Events that the goal allows in such a rung; `None` for a quantity that is not a count.
    pub events: Option<f64>,
    pub says: Says,
}

/// Returns the evidence of all rungs that have any.
pub(super) fn observed(rungs: &[(Rung, RungSummary)]) -> Vec<Observed> {
    let only_whole = cycle::matters(rungs);
    let goals = rungs.iter().map(|(_, seen)| seen.goals.len()).max().unwrap_or(0);
    let together: Vec<f64> = (0..goals).map(|goal| together(rungs, goal)).collect();
    let one = |(rung, seen): &(Rung, RungSummary)| {
        let (rate, ratio) = (rung.rate_per_s?, seen.worst_ratio(rung)?);
        let says = match (seen.void.is_some(), only_whole && !seen.saw_cycle()) {
            (true, _) => Says::AtMost,
            (false, true) if ratio <= 1.0 => return None,
            (false, true) => Says::AtLeast,
            (false, false) => Says::Exactly,
        };
        let (excess, events) = excess(seen, &together);
        Some(Observed { ln_rate: rate.ln(), excess, events, says })
    };
    rungs.iter().filter_map(one).collect()
}

/// Returns the excess of the worst goal, with keeping up as one of the goals.
fn excess(seen: &RungSummary, together: &[f64]) -> (f64, Option<f64>) {
    let of_goals = seen.goals.iter().zip(together).filter_map(|(goal, together)| {
        let count = Count::of(goal)?;
        let counts = count.allowed > 0.0 && !is_behind(goal);
        let events = counts.then(|| count.n * count.allowed * (1.0 - count.allowed) / together);
        Some((count.excess, events))
    });
    let worst = of_goals.max_by(|a, b| a.0.total_cmp(&b.0));
    let unsent = seen.unsent_ratio().max(1e-9).ln();
    match worst {
        // Little that was not sent says nothing of how much of a percentile's limit is left.
        Some(worst) if unsent <= worst.0.max(0.0) => worst,
        _ => (unsent, None),
    }
}

/// Returns true if most operations were above the limit in most slices: no stall does that, the queue only grows.
fn is_behind(goal: &GoalSeen) -> bool {
    let behind = goal.slices.iter().filter(|(n, above)| 2 * above > *n).count();
    2 * behind > goal.slices.len()
}

/// Operations above the limit of a goal.
struct Count {
    n: f64,
    /// Share that is allowed.
    allowed: f64,
    excess: f64,
    /// Number of them.
    above: f64,
    /// Variance of their number by how slices differ, and what it would be if each came by itself.
    variances: (f64, f64),
}

fn log_odds(share: f64) -> f64 {
    (share / (1.0 - share)).ln()
}

impl Count {
    fn of(goal: &GoalSeen) -> Option<Count> {
        let allowed = match goal.what {
            GoalKind::Errors => goal.limit / 100.0,
            GoalKind::Percentile(percentile) => percentile.share_above(),
            _ => return None,
        };
        let sum = |of: fn(&(u64, u64)) -> u64| goal.slices.iter().map(of).sum::<u64>() as f64;
        let (n, above) = (sum(|slice| slice.0), sum(|slice| slice.1));
        let known = |excess| Some(Count { n, allowed, excess, above, variances: (0.0, 0.0) });
        match (n > 0.0, above > 0.0) {
            (false, _) => return None,
            // So few are allowed that none is what they should be, whatever n.
            (true, false) if goal.what == GoalKind::Errors => return known(-FAR),
            (true, true) if allowed <= 0.0 => return known(FAR),
            _ => {}
        }
        let share = (above + 0.5) / (n + 1.0);
        let slices = || goal.slices.iter().map(|(n, above)| (*n as f64, *above as f64));
        let apart: f64 = slices().map(|(n, above)| (above - share * n).powi(2)).sum();
        let many = goal.slices.len() as f64;
        let variances = match many > 1.0 {
            true => (apart * many / (many - 1.0), n * share * (1.0 - share)),
            false => (0.0, 0.0),
        };
        Some(Count { n, allowed, excess: log_odds(share) - log_odds(allowed), above, variances })
    }
}

/// Returns the number of one goal's events that occur together, in rungs that are not far from the limit: by the
/// differences between their slices, and between rungs that saw more above the limit at a lower rate. With few events
/// it is the number that a stall as long as the limit delays, with those behind it until the queue is gone: no shorter
/// stall counts.
fn together(rungs: &[(Rung, RungSummary)], goal: usize) -> f64 {
    let near = rungs.iter().filter(|(_, seen)| seen.void.is_none());
    let count = |(rung, seen): &(Rung, RungSummary)| {
        let goal = seen.goals.get(goal)?;
        let limit_s = if goal.unit == "ns" { goal.limit / 1e9 } else { 0.0 };
        Some((rung.rate_per_s?, limit_s, Count::of(goal)?))
    };
    let mut counts: Vec<(f64, f64, Count)> = near.filter_map(count).filter(|(.., one)| one.excess < FAR).collect();
    counts.sort_by(|a, b| a.0.total_cmp(&b.0));
    let due = counts.last().map_or(0.0, |(rate, limit_s, _)| rate * limit_s * QUEUED);
    let (mut sum, mut alone) = (TOGETHER.max(due) * TOGETHER_N, TOGETHER_N);
    for block in blocks(&counts) {
        let (n, above) = block.iter().fold((0.0, 0.0), |all, (.., one)| (all.0 + one.n, all.1 + one.above));
        let Some((.., first)) = block.first() else { continue };
        let share = (above + 0.5) / (n + 1.0);
        if (log_odds(share) - log_odds(first.allowed)).abs() > NEAR {
            continue;
        }
        for (.., one) in block {
            sum += one.variances.0 + (one.above - share * one.n).powi(2);
            alone += one.variances.1;
        }
    }
    (sum / alone).max(1.0)
}

/// Rungs by rising rate, drawn together as far as the share above the limit falls from one to the next (Ayer et al.,
/// Ann. Math. Statist. 26, 1955).
fn blocks(counts: &[(f64, f64, Count)]) -> Vec<&[(f64, f64, Count)]> {
    let mut ends: Vec<(usize, f64, f64)> = Vec::new();
    for (at, (.., one)) in counts.iter().enumerate() {
        let mut last = (at + 1, one.n, one.above);
        while let Some(before) = ends.last().copied()
            && before.2 * last.1 >= last.2 * before.1
        {
            ends.pop();
            last = (last.0, last.1 + before.1, last.2 + before.2);
        }
        ends.push(last);
    }
    let begins = std::iter::once(0).chain(ends.iter().map(|end| end.0));
    begins.zip(&ends).filter_map(|(begin, end)| counts.get(begin..end.0)).collect()
}
