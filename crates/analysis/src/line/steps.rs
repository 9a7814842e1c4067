//! Load steps by rate, and what they decide: a sequential probability ratio test at each rate.
//!
//! At a rate that a store carries, at least 9 of 10 load steps hold; at one that it does not carry, at most half do.
//! After each step the likelihood ratio of the two is known (Wald, Ann. Math. Stat. 16, 1945). The rate is decided if
//! the ratio is 18 to 1 and there were three steps: 5 of 5 that held, or 3 of 3 that failed, or more if they differ.
//! If steps are independent, a rate of one kind is taken for the other in at most 1 of 18 cases. That bound covers one
//! rate, not all that a search tests. Slow operations within a step need no model, since a step counts once. A
//! disturbance that outlasts several steps is not covered.

use crate::view::AtRate;

use super::{Rung, RungSummary, cycle};

/// Share of load steps that hold at a rate that is carried, and at one that is not.
const CARRIED: f64 = 0.9;
const NOT_CARRIED: f64 = 0.5;

/// Likelihood ratio that decides, and the least number of load steps.
const DECIDES: f64 = 18.0;
const STEPS_MIN: u64 = 3;

/// Prior share of load steps with the wanted result; its weight is one step.
const EXPECTED: f64 = 0.9;

/// Decision about a rate, or about several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Holds,
    Fails,
    Open,
}

impl AtRate {
    /// Returns the logarithm of the likelihood ratio: above 0, the rate is rather carried than not.
    pub(super) fn evidence(&self) -> f64 {
        let [held, failed] = evidence_of_one();
        self.held as f64 * held + self.failed as f64 * failed
    }

    /// Returns the number of load steps.
    pub(super) fn steps(&self) -> u64 {
        self.held + self.failed
    }

    fn decision(&self) -> Decision {
        match self.evidence() {
            _ if self.held + self.failed < STEPS_MIN => Decision::Open,
            evidence if evidence >= DECIDES.ln() => Decision::Holds,
            evidence if evidence <= -DECIDES.ln() => Decision::Fails,
            _ => Decision::Open,
        }
    }

    /// Returns the number of further load steps that decide the rate if all of them hold, or if all of them fail.
    pub(super) fn left(&self, hold: bool) -> u64 {
        let [held, failed] = evidence_of_one();
        let left = match hold {
            true => (DECIDES.ln() - self.evidence()) / held,
            false => (-DECIDES.ln() - self.evidence()) / failed,
        };
        (left.ceil().max(0.0) as u64).max(STEPS_MIN.saturating_sub(self.held + self.failed))
    }

    /// Returns both together, at the rate of the first.
    pub(super) fn with(self, other: &AtRate) -> AtRate {
        AtRate {
            held: self.held + other.held,
            failed: self.failed + other.failed,
            seconds: self.seconds.min(other.seconds),
            seconds_max: self.seconds_max.max(other.seconds_max),
            ..self
        }
    }
}

/// Evidence of a load step that held, and of one that failed.
fn evidence_of_one() -> [f64; 2] {
    [(CARRIED / NOT_CARRIED).ln(), ((1.0 - CARRIED) / (1.0 - NOT_CARRIED)).ln()]
}

/// All load steps that say something, by rate in ascending order.
pub(super) struct StepTable {
    rates: Vec<AtRate>,
    /// Number of rates below the line, as far as it is known.
    below: usize,
}

impl StepTable {
    /// Sorts the load steps by rate. If goals break in a maintenance cycle, steps without one that held do not count.
    pub fn of(rungs: &[(Rung, RungSummary)]) -> StepTable {
        let only_whole = cycle::matters(rungs);
        let mut rates: Vec<AtRate> = Vec::new();
        for (rung, seen) in rungs {
            let (Some(rate_per_s), Some(ratio)) = (rung.rate_per_s, seen.worst_ratio(rung)) else { continue };
            let holds = ratio <= 1.0;
            if only_whole && holds && !seen.saw_cycle() {
                continue;
            }
            let (held, failed) = (u64::from(holds), u64::from(!holds));
            let (seconds, seconds_max) = (seen.seconds, seen.seconds);
            let one = AtRate { rate_per_s, held, failed, seconds, seconds_max, decided: false };
            match rates.iter_mut().find(|known| known.rate_per_s == rate_per_s) {
                Some(known) => *known = known.clone().with(&one),
                None => rates.push(one),
            }
        }
        rates.sort_by(|a, b| a.rate_per_s.total_cmp(&b.rate_per_s));
        let all: f64 = rates.iter().map(AtRate::evidence).sum();
        let (mut below, mut best, mut sum) = (0, -all, 0.0);
        for (at, one) in rates.iter().enumerate() {
            sum += one.evidence();
            if 2.0 * sum - all > best {
                (below, best) = (at + 1, 2.0 * sum - all);
            }
        }
        let mut table = StepTable { rates, below };
        for at in 0..table.rates.len() {
            let decided = table.is_shown(at);
            if let Some(one) = table.rates.get_mut(at) {
                one.decided = decided;
            }
        }
        table
    }

    /// Returns true if the rate at this position is decided, and nothing in the table contradicts the decision: no rates
    /// below one that holds are decided to fail, each alone or neighbours together, and none above one that fails to hold.
    fn is_shown(&self, at: usize) -> bool {
        let Some(decision) = self.rates.get(at).map(AtRate::decision) else { return false };
        let (part, sign) = match decision {
            Decision::Holds => (self.rates.get(..at), -1.0),
            Decision::Fails => (self.rates.get(at + 1..), 1.0),
            Decision::Open => return false,
        };
        let part = part.unwrap_or_default();
        !(0..part.len()).any(|first| {
            let mut together: Option<AtRate> = None;
            part.iter().skip(first).any(|one| {
                let sum = together.take().map_or_else(|| one.clone(), |sum| sum.with(one));
                sign * together.insert(sum).evidence() >= DECIDES.ln()
            })
        })
    }

    /// Returns the highest rate below the line, and the lowest one above it: where the evidence changes sides.
    pub fn around(&self) -> (Option<&AtRate>, Option<&AtRate>) {
        (self.below.checked_sub(1).and_then(|at| self.rates.get(at)), self.rates.get(self.below))
    }

    /// Returns the highest rate that is shown to be carried.
    pub fn carries(&self) -> Option<&AtRate> {
        self.rates.iter().rev().find(|one| one.decided && one.evidence() > 0.0)
    }

    /// Returns the lowest rate that is shown not to be carried.
    pub fn gives_way(&self) -> Option<&AtRate> {
        self.rates.iter().find(|one| one.decided && one.evidence() < 0.0)
    }

    /// Returns the load steps at this rate.
    pub fn at(&self, rate_per_s: f64) -> AtRate {
        let none = || AtRate { rate_per_s, held: 0, failed: 0, seconds: 0.0, seconds_max: 0.0, decided: false };
        self.rates.iter().find(|one| one.rate_per_s == rate_per_s).cloned().unwrap_or_else(none)
    }

    /// Estimates the number of further load steps that show this rate to be carried, and not to be carried. Infinite if
    /// that is not to be expected: steps at higher rates that held speak for the rate, those at lower ones that failed
    /// against it.
    pub fn steps_left(&self, rate_per_s: f64) -> [f64; 2] {
        let own = self.at(rate_per_s);
        let held: u64 = self.between(rate_per_s, f64::INFINITY).map(|one| one.held).sum();
        let failed: u64 = self.between(0.0, rate_per_s).map(|one| one.failed).sum();
        let [by_held, by_failed] = evidence_of_one();
        let left = |wanted: u64, sign: f64| {
            let share = (wanted as f64 + EXPECTED) / ((held + failed) as f64 + 1.0);
            let other = 1.0 - share;
            let a_step = sign
                * if sign > 0.0 { share * by_held + other * by_failed } else { share * by_failed + other * by_held };
            let missing = DECIDES.ln() - sign * own.evidence();
            let least = if own.decided && missing <= 0.0 { 0 } else { STEPS_MIN.saturating_sub(own.steps()).max(1) };
            if a_step > 0.0 { (missing / a_step).max(least as f64) } else { f64::INFINITY }
        };
        [left(held, 1.0), left(failed, -1.0)]
    }

    /// Returns the rates from `low` to `high`, both included.
    pub fn between(&self, low: f64, high: f64) -> impl DoubleEndedIterator<Item = &AtRate> {
        self.rates.iter().filter(move |one| (low..=high).contains(&one.rate_per_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(held: u64, failed: u64) -> AtRate {
        AtRate { rate_per_s: 1.0, held, failed, seconds: 1.0, seconds_max: 1.0, decided: false }
    }

    #[test]
    fn five_that_held_or_three_that_failed_decide_and_more_where_they_differ() {
        for (held, failed, decision) in [
            (4, 0, Decision::Open),
            (5, 0, Decision::Holds),
            (7, 1, Decision::Open),
            (8, 1, Decision::Holds),
            (0, 2, Decision::Open),
            (0, 3, Decision::Fails),
            (3, 3, Decision::Fails),
            (4, 3, Decision::Open),
        ] {
            assert_eq!(at(held, failed).decision(), decision, "{held} held, {failed} failed");
        }
        assert_eq!(
            [at(0, 0).left(true), at(0, 0).left(false), at(2, 1).left(true), at(1, 1).left(false)],
            [5, 3, 6, 2]
        );
    }
}
