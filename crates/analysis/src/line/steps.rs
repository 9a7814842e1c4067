//! Load steps by rate, and what they decide: a sequential probability ratio test at each rate.
//!
//! At a rate that a store carries, at least 9 of 10 load steps hold; at one that it does not carry, at most half do.
//! After each step the likelihood ratio of the two is known (Wald, Ann. Math. Stat. 16, 1945). The rate is decided if
//! the ratio is 18 to 1 and there were three steps: 5 of 5 that held, or 3 of 3 that failed, or more if they differ.
//! If steps are independent, a rate of one kind is taken for the other in at most 1 of 18 cases. That bound covers one
//! rate, not all that a search tests. Slow operations within a step need no model, since a step counts once. A
//! disturbance that outlasts several steps is not covered.

use crate::view::AtRate;

use super::estimate::is_within;
use super::{LoadStep, Purpose, cycle};

/// Share of load steps that hold at a rate that is carried, and at one that is not.
const CARRIED: f64 = 0.9;
const NOT_CARRIED: f64 = 0.5;

/// Likelihood ratio that decides, and the least number of load steps.
const DECIDES: f64 = 18.0;
const STEPS_MIN: u64 = 3;

/// Prior share of load steps with the wanted result; its weight is one step.
const EXPECTED: f64 = 0.9;

/// Logarithm of the likelihood ratio of one load step, for the rate being carried or for the contrary.
fn evidence_of(held: bool, carried: bool) -> f64 {
    let ratio = if held { CARRIED / NOT_CARRIED } else { (1.0 - CARRIED) / (1.0 - NOT_CARRIED) };
    if carried { ratio.ln() } else { -ratio.ln() }
}

impl AtRate {
    /// Returns the logarithm of the likelihood ratio, for the rate being carried or for the contrary.
    fn evidence(&self, carried: bool) -> f64 {
        self.held as f64 * evidence_of(true, carried) + self.failed as f64 * evidence_of(false, carried)
    }

    /// Returns the number of load steps.
    pub(super) fn steps(&self) -> u64 {
        self.held + self.failed
    }

    /// Returns the number of further load steps that decide whether the rate is carried, if all of them hold, or that
    /// it is not, if all of them fail, and no others contradict them.
    pub(super) fn left(&self, carried: bool) -> u64 {
        let missing = (DECIDES.ln() - self.evidence(carried)) / evidence_of(carried, carried);
        (missing.ceil().max(0.0) as u64).max(STEPS_MIN.saturating_sub(self.steps()))
    }

    /// Returns true if the load steps decide that the rate is carried, or that it is not, and no others contradict them.
    pub(super) fn is_shown(&self, carried: bool) -> bool {
        self.decided && self.left(carried) == 0
    }
}

/// Returns load steps together, at the rate of the first; `None` without any.
pub(super) fn together<'a>(steps: impl IntoIterator<Item = &'a AtRate>) -> Option<AtRate> {
    steps.into_iter().cloned().reduce(|sum, one| AtRate {
        held: sum.held + one.held,
        failed: sum.failed + one.failed,
        seconds: sum.seconds.min(one.seconds),
        seconds_max: sum.seconds_max.max(one.seconds_max),
        ..sum
    })
}

/// All load steps that say something, by rate in ascending order.
pub(super) struct StepTable {
    rates: Vec<AtRate>,
    /// Number of rates below the line, as far as it is known.
    below: usize,
    /// Lowest rate up to which neighbours decide that they are not carried: they contradict that a higher one is.
    broken_to: f64,
    /// Highest rate from which on neighbours decide that they are carried: they contradict that a lower one is not.
    held_from: f64,
}

impl StepTable {
    /// Sorts the load steps by rate. If goals break in a maintenance cycle, steps without one that held do not count.
    pub fn of(steps: &[LoadStep]) -> StepTable {
        let only_whole = cycle::matters(steps);
        let one = |step: &LoadStep| {
            // Load steps at shares of the line are about what faults cost; a note tells of goals that broke.
            if step.rung.purpose == Purpose::Share {
                return None;
            }
            let (rate_per_s, holds) = (step.rung.rate_per_s?, step.worst_ratio()? <= 1.0);
            let (held, failed, seconds) = (u64::from(holds), u64::from(!holds), step.rung.seconds);
            let one = AtRate { rate_per_s, held, failed, seconds, seconds_max: seconds, decided: false };
            (!only_whole || !holds || step.cycles_ended() >= 1.0).then_some(one)
        };
        let mut each: Vec<AtRate> = steps.iter().filter_map(one).collect();
        each.sort_by(|a, b| a.rate_per_s.total_cmp(&b.rate_per_s));
        let mut rates: Vec<AtRate> = each.chunk_by(|a, b| a.rate_per_s == b.rate_per_s).filter_map(together).collect();
        let (mut below, mut best, mut sum) = (0, 0.0, 0.0);
        for (one, number) in rates.iter().zip(1..) {
            sum += one.evidence(true);
            if sum > best {
                (below, best) = (number, sum);
            }
        }
        let (broken_to, held_from) = (deciding(&rates, false), deciding(rates.iter().rev(), true));
        let table = StepTable { rates: Vec::new(), below, broken_to, held_from };
        let shows = |one: &AtRate, carried| one.left(carried) == 0 && !table.is_contradicted(one.rate_per_s, carried);
        rates.iter_mut().for_each(|one| one.decided = shows(one, true) || shows(one, false));
        StepTable { rates, ..table }
    }

    /// Returns the highest rate below the line, and the lowest one above it: where the evidence changes sides.
    pub fn around(&self) -> (Option<&AtRate>, Option<&AtRate>) {
        (self.below.checked_sub(1).and_then(|at| self.rates.get(at)), self.rates.get(self.below))
    }

    /// Returns the highest rate that is shown to be carried, and the lowest that is shown not to be.
    pub fn shown(&self) -> (Option<&AtRate>, Option<&AtRate>) {
        (self.rates.iter().rev().find(|one| one.is_shown(true)), self.rates.iter().find(|one| one.is_shown(false)))
    }

    /// Returns the load steps at this rate.
    pub fn at(&self, rate_per_s: f64) -> AtRate {
        let known = self.rates.iter().find(|one| one.rate_per_s == rate_per_s);
        known.cloned().unwrap_or(AtRate { rate_per_s, ..AtRate::default() })
    }

    /// Estimates the number of further load steps that show this rate to be carried, or not to be carried. Infinite if
    /// other rates contradict it, or if that is not to be expected: steps at higher rates that held speak for the rate,
    /// those at lower ones that failed against it.
    pub fn steps_left(&self, rate_per_s: f64, carried: bool) -> f64 {
        let own = self.at(rate_per_s);
        if own.is_shown(carried) {
            return 0.0;
        }
        let held = own.held + self.between(rate_per_s, f64::INFINITY).map(|one| one.held).sum::<u64>();
        let failed = own.failed + self.between(0.0, rate_per_s).map(|one| one.failed).sum::<u64>();
        let wanted = if carried { held } else { failed };
        let share = (wanted as f64 + EXPECTED) / ((held + failed) as f64 + 1.0);
        let of_step = share * evidence_of(carried, carried) + (1.0 - share) * evidence_of(!carried, carried);
        let least = STEPS_MIN.saturating_sub(own.steps()).max(1) as f64;
        let missing = DECIDES.ln() - own.evidence(carried);
        let is_possible = of_step > 0.0 && !self.is_contradicted(rate_per_s, carried);
        if is_possible { (missing / of_step).max(least) } else { f64::INFINITY }
    }

    /// Returns the two rates, the higher at most `precision` above the lower, that take the fewest load steps, and their
    /// number. `left` is the number that shows a rate to be carried, or not to be. Rates are those that were tried and their
    /// neighbours, as far from them as `precision` allows, each `rounded`. `None` if no two can be shown.
    pub fn cheapest(
        &self,
        precision: f64,
        rounded: impl Fn(f64) -> f64,
        left: impl Fn(f64, bool) -> f64,
    ) -> Option<(f64, f64, f64)> {
        // Rates are rounded, and must not come to lie too far apart by that.
        let factor = 1.0 + 0.98 * precision;
        let each = self.rates.iter().map(|one| one.rate_per_s);
        let each = each.flat_map(|rate| [rate / factor, rate, rate * factor]).map(rounded);
        let rates: Vec<(f64, [f64; 2])> =
            each.map(|rate| (rate, [true, false].map(|carried| left(rate, carried)))).collect();
        let pairs = rates.iter().flat_map(|(low, [hold, _])| {
            let above = rates.iter().filter(move |(high, _)| low < high && is_within(precision, *low, *high));
            above.map(move |(high, [_, fail])| (*low, *high, hold + fail))
        });
        pairs.min_by(|a, b| a.2.total_cmp(&b.2)).filter(|(.., left)| left.is_finite())
    }

    /// Returns true if other rates decide the contrary, whatever further steps at this one show: lower ones that it is
    /// not carried, or higher ones that it is.
    pub fn is_contradicted(&self, rate_per_s: f64, carried: bool) -> bool {
        if carried { self.broken_to < rate_per_s } else { rate_per_s < self.held_from }
    }

    /// Returns two rates that contradict each other: the lower is decided not to be carried, by itself or with its
    /// neighbours, and the higher is decided to be.
    pub fn contradiction(&self) -> Option<(f64, f64)> {
        (self.broken_to < self.held_from).then_some((self.broken_to, self.held_from))
    }

    /// Returns the rate to drive next of these two. Both are driven in turn, until the lower is shown to be carried or
    /// the higher not to be.
    pub fn in_turn(&self, (low, high): (f64, f64)) -> f64 {
        let (held, failed) = (self.at(low), self.at(high));
        let is_low = failed.is_shown(false) || held.steps() < failed.steps() && !held.is_shown(true);
        if is_low { low } else { high }
    }

    /// Returns the rates between `low` and `high`, neither included.
    pub fn between(&self, low: f64, high: f64) -> impl Iterator<Item = &AtRate> {
        self.rates.iter().filter(move |one| low < one.rate_per_s && one.rate_per_s < high)
    }
}

/// Returns the first of `rates` up to which neighbours, or that one alone, decide that they are carried, or are not;
/// without any a rate that contradicts none.
fn deciding<'a>(rates: impl IntoIterator<Item = &'a AtRate>, carried: bool) -> f64 {
    // The sum of the neighbours up to here that speak for it most.
    let mut sum = 0f64;
    let first = rates.into_iter().find(|one| {
        sum = sum.max(0.0) + one.evidence(carried);
        sum >= DECIDES.ln()
    });
    first.map_or(if carried { 0.0 } else { f64::INFINITY }, |one| one.rate_per_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_that_held_or_three_that_failed_decide_and_more_where_they_differ() {
        for (held, failed, to_hold, to_fail) in [
            (4, 0, 1, 4),
            (5, 0, 0, 4),
            (7, 1, 1, 4),
            (8, 1, 0, 4),
            (0, 2, 11, 1),
            (0, 3, 14, 0),
            (3, 3, 11, 0),
            (4, 3, 10, 1),
            (2, 1, 6, 2),
        ] {
            let one = AtRate { held, failed, ..AtRate::default() };
            assert_eq!([one.left(true), one.left(false)], [to_hold, to_fail], "{held} held, {failed} failed");
        }
    }
}
