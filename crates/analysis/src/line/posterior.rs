//! Distribution of the line's position: the evidence of all rungs about the rate at which a goal reaches its limit.
//!
//! Each rung says by how much operations above the limit were more or fewer than the goal allows ([`Observed`]). Over the
//! logarithm of the rate x this *excess* is taken to rise in a straight line through 0 at the line x*, from a floor on:
//! max(slope · (x − x*), floor). Close to saturation that is what a queue does (of M/M/1 the logarithm of the share above
//! a limit is a straight line in the rate), below it a store hardly cares about its rate. Far above and far below only the
//! side counts: an excess beyond [`FAR`] is known as *at least* or *at most* that (Tobin, Econometrica 26, 1958).
//!
//! The line is not the same in each rung: its logarithm *wanders* with a spread that is one of the unknowns, so that
//! rungs that contradict each other widen the interval. The cause of the wandering may also last longer than a search,
//! which no rung shows: the result for a repeated search ([`Posterior::both`]) is a line that has moved by as much
//! once more. And a rung may be *spoiled*, when another load on the machine was in the way: then it carries no
//! evidence, or rather evidence that the store is slow than that it is fast.
//!
//! All unknowns stand on a grid and are summed over with flat or mild priors, which is exact, and the same on any machine.

use crate::stat::special;

use super::observed::{FAR, Observed, Says, observed};
use super::{Rung, RungSummary};

/// Rise of the excess, in log-odds, for each 1 of the rate's logarithm: from the first on, each so many times the last. A wrong
/// slope moves the line towards the rungs with the most events, so steps have to be small.
const SLOPE_FIRST: f64 = 3.0;
const SLOPE_STEP: f64 = 1.26;
const SLOPES: i32 = 19;

/// Least slope, as a share of the operations that are due within the limit, and the most that this may come to. Of M/M/1 the
/// slope is their number; what else makes operations late, stalls, makes a floor.
const SLOPE_DUE: f64 = 0.1;
const SLOPE_LEAST: f64 = 10.0;

/// Spread of the line from rung to rung, as a share, and how likely each is beforehand.
const WANDERS: [(f64, f64); 5] = [(0.005, 0.25), (0.012, 0.35), (0.03, 0.25), (0.07, 0.12), (0.15, 0.03)];

/// Excess of rungs far below the line, and how likely each is beforehand: mostly there is nothing to be seen of it.
const FLOORS: [(f64, f64); 3] = [(-f64::INFINITY, 0.6), (-1.2, 0.25), (-0.5, 0.15)];

/// Share of rungs that are spoiled; and how these spread over far below, between, and far above the limit.
const SPOILED: f64 = 0.04;
const SPOILED_LOW: f64 = 0.15;
const SPOILED_HIGH: f64 = 0.4;

/// Scale of the noise of an excess that is no count, and most events that are worth telling apart.
const ERROR: f64 = 0.3;
const EVENTS_MAX: f64 = 400.0;

/// Points of the grid over the rate, how often it may be drawn closer, and how many points the interval is to have.
const POINTS: usize = 80;
const DRAWN: usize = 4;
const POINTS_INSIDE: f64 = 20.0;

/// Largest distance of the line beyond the lowest and the highest rate that was tried, as a factor.
const BEYOND: f64 = 1.5;

/// Probabilities over the line's logarithm.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Posterior {
    first: f64,
    step: f64,
    /// Cumulative probability at each point, 1 at the last.
    up_to: Vec<f64>,
}

impl Posterior {
    /// Returns the position of the line during these rungs, and in a repeated search; `None` while all of them are on
    /// one side.
    pub fn both(rungs: &[(Rung, RungSummary)]) -> Option<(Posterior, Posterior)> {
        let told = told(rungs)?;
        Some((Posterior::from(&told, false), Posterior::from(&told, true)))
    }

    /// The first of them.
    pub fn of(rungs: &[(Rung, RungSummary)]) -> Option<Posterior> {
        Some(Posterior::from(&told(rungs)?, false))
    }

    fn from(told: &Told, again: bool) -> Posterior {
        let (tables, mut first, mut last) = (&told.tables, told.first, told.last);
        let mut drawn = Posterior::on(tables, first, last, again);
        for _ in 0..DRAWN {
            let (low, high) = (drawn.at(0.025), drawn.at(0.975));
            if high - low >= POINTS_INSIDE * drawn.step {
                break;
            }
            let margin = 2.0 * drawn.step + 0.25 * (high - low);
            first = first.max(drawn.at(0.001).min(low - margin));
            last = last.min(drawn.at(0.999).max(high + margin));
            drawn = Posterior::on(tables, first, last, again);
        }
        drawn
    }

    /// On a grid from `first` to `last`.
    fn on(tables: &[Table], first: f64, last: f64, again: bool) -> Posterior {
        let step = (last - first) / (POINTS - 1) as f64;
        let line = |point: usize| first + step * point as f64;
        let logs: Vec<Vec<f64>> =
            (0..POINTS).map(|point| tables.iter().map(|table| table.log_likelihood(line(point))).collect()).collect();
        let most = logs.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut likely = vec![0.0; POINTS];
        for (wander, _) in WANDERS {
            let of_point = |logs: &Vec<f64>| {
                let of_wander = tables.iter().zip(logs).filter(|(table, _)| table.wander == wander);
                of_wander.map(|(table, log)| table.likely * (log - most).exp()).sum::<f64>()
            };
            let still: Vec<f64> = logs.iter().map(of_point).collect();
            let moves = weights(if again { wander / step } else { 0.0 });
            let all = 2.0 * moves.iter().sum::<f64>() - moves.first().copied().unwrap_or(0.0);
            for (point, still) in still.iter().enumerate() {
                for (steps, weight) in moves.iter().enumerate() {
                    let sides = [point.checked_sub(steps), (steps > 0).then_some(point + steps)];
                    for side in sides.into_iter().flatten() {
                        if let Some(likely) = likely.get_mut(side) {
                            *likely += still * weight / all;
                        }
                    }
                }
            }
        }
        let sum: f64 = likely.iter().sum();
        let mut below = 0.0;
        let up_to = likely.iter().map(|likely| {
            below += likely;
            below / sum
        });
        Posterior { first, step, up_to: up_to.collect() }
    }

    /// The logarithm that the line is below with probability `share`.
    fn at(&self, share: f64) -> f64 {
        let point = self.up_to.partition_point(|up_to| *up_to < share);
        let (before, here) = (self.up_to_point(point.wrapping_sub(1)), self.up_to_point(point));
        let part = if here > before { (share - before) / (here - before) } else { 0.5 };
        // A point stands for half a step on either side.
        self.first + self.step * (point as f64 - 0.5 + part)
    }

    fn up_to_point(&self, point: usize) -> f64 {
        self.up_to.get(point).copied().unwrap_or(0.0)
    }

    /// The rate that the line is below with probability `share`.
    pub fn rate(&self, share: f64) -> f64 {
        self.at(share).exp()
    }

    /// Returns the 95 % interval, in operations a second.
    pub fn interval(&self) -> (f64, f64) {
        (self.rate(0.025), self.rate(0.975))
    }

    /// The line, and half the width of its 95 % interval around it to the side that is wider, in operations a second.
    pub fn line(&self) -> (f64, f64) {
        let (middle, (low, high)) = (self.rate(0.5), self.interval());
        (middle, (middle - low).max(high - middle))
    }
}

/// Evidence of all rungs, and the logarithms of the rates between which the line may be.
struct Told {
    tables: Vec<Table>,
    first: f64,
    last: f64,
}

fn told(rungs: &[(Rung, RungSummary)]) -> Option<Told> {
    let due = |(rung, seen): &(Rung, RungSummary)| {
        let limits_s = seen.goals.iter().filter(|goal| goal.unit == "ns").map(|goal| goal.limit / 1e9);
        Some(rung.rate_per_s? * limits_s.reduce(f64::min)?)
    };
    let due = rungs.iter().filter_map(due).reduce(f64::min).unwrap_or(0.0);
    told_by(&observed(rungs), (SLOPE_DUE * due).min(SLOPE_LEAST))
}

/// Returns the posterior of this evidence, where slopes are `least` at least.
fn told_by(observed: &[Observed], least: f64) -> Option<Told> {
    let below = observed.iter().any(|one| one.excess <= 0.0);
    let above = observed.iter().any(|one| one.excess > 0.0);
    let rates = || observed.iter().map(|one| one.ln_rate);
    (below && above).then(|| Told {
        tables: Table::all(observed, least),
        first: rates().fold(f64::INFINITY, f64::min) - BEYOND.ln(),
        last: rates().fold(f64::NEG_INFINITY, f64::max) + BEYOND.ln(),
    })
}

/// Evidence of the rungs for a given slope, wander and floor: for each its likelihood over the excess that is expected
/// of it if the line does not wander.
struct Table {
    slope: f64,
    wander: f64,
    /// Distance between points.
    step: f64,
    likely: f64,
    /// Logarithm of the rate, and logarithms of likelihoods at [`EXCESSES`] points.
    rungs: Vec<(f64, Vec<f64>)>,
}

/// Points over the excess that is expected, and how far they are apart; farther where the line wanders by more than this.
const EXCESSES: usize = 41;
const EXCESS_STEP: f64 = 0.3;
const WIDE: f64 = 1.5;

/// Place of a point, in steps from the middle.
fn steps(point: usize) -> f64 {
    point as f64 - (EXCESSES / 2) as f64
}

/// Returns the value at `steps` from the middle, of values at points that are one step apart.
fn value(values: &[f64], steps: f64) -> f64 {
    let at = (steps + (EXCESSES / 2) as f64).clamp(0.0, (EXCESSES - 1) as f64);
    let (before, part) = (at as usize, at.fract());
    let value = |point: usize| values.get(point).or(values.last()).copied().unwrap_or(0.0);
    value(before) * (1.0 - part) + value(before + 1) * part
}

impl Table {
    fn all(observed: &[Observed], least: f64) -> Vec<Table> {
        let still = |one: &Observed| {
            let points = (0..EXCESSES).map(|point| likelihood(one, steps(point) * EXCESS_STEP));
            (one.ln_rate, points.collect())
        };
        let still: Vec<(f64, Vec<f64>)> = observed.iter().map(still).collect();
        let mut tables = Vec::new();
        let slopes = (0..SLOPES).map(|step| SLOPE_FIRST * SLOPE_STEP.powi(step));
        for slope in slopes.filter(|slope| *slope >= least) {
            for (wander, wander_likely) in WANDERS {
                let deviation = slope * wander;
                let step = EXCESS_STEP * (deviation / WIDE).max(1.0);
                let weights = weights(deviation / step);
                for (floor, floor_likely) in FLOORS {
                    let moved = |(ln_rate, still): &(f64, Vec<f64>)| (*ln_rate, moved(still, step, &weights, floor));
                    let rungs = still.iter().map(moved).collect();
                    tables.push(Table { slope, wander, step, likely: wander_likely * floor_likely, rungs });
                }
            }
        }
        tables
    }

    fn log_likelihood(&self, line: f64) -> f64 {
        self.rungs.iter().map(|(ln_rate, logs)| value(logs, self.slope * (ln_rate - line) / self.step)).sum()
    }
}

/// Returns the weights of numbers of steps up or down in a logistic distribution with this standard deviation, in
/// steps: its tails are heavier than the normal one's.
fn weights(deviation: f64) -> Vec<f64> {
    let scale = deviation.max(1e-6) * 3f64.sqrt() / std::f64::consts::PI;
    let up_to = |x: f64| 1.0 / (1.0 + (-x / scale).exp());
    let of = |steps: usize| up_to(steps as f64 + 0.5) - up_to(steps as f64 - 0.5);
    (0..EXCESSES).map(of).take_while(|weight| *weight > 1e-3).collect()
}

/// Logarithms of the likelihoods that `still` become when the line wanders, at points that are `step` apart, with a floor
/// below which no excess falls.
fn moved(still: &[f64], step: f64, weights: &[f64], floor: f64) -> Vec<f64> {
    let at = |steps: f64| value(still, (steps * step).max(floor) / EXCESS_STEP);
    // Steps past either end are asked for too.
    let ends = weights.len() as isize;
    let all: Vec<f64> =
        (-ends..EXCESSES as isize + ends).map(|point| at(point as f64 - (EXCESSES / 2) as f64)).collect();
    let middle = weights.len();
    let one = |point: usize| {
        let (mut sum, mut all_weight) = (0.0, 0.0);
        for (steps, weight) in weights.iter().enumerate() {
            let value = |point: usize| all.get(point).copied().unwrap_or(0.0);
            let (sides, both) = if steps == 0 {
                (1.0, value(point + middle))
            } else {
                (2.0, value(point + middle - steps) + value(point + middle + steps))
            };
            sum += weight * both;
            all_weight += sides * weight;
        }
        (sum / all_weight).max(1e-9).ln()
    };
    (0..EXCESSES).map(one).collect()
}

/// Returns the likelihood of a rung's observation if `expected` is right, or if it is spoiled.
fn likelihood(one: &Observed, expected: f64) -> f64 {
    let excess = one.excess.clamp(-FAR, FAR);
    let says = match one.says {
        Says::Exactly if one.excess <= -FAR => Says::AtMost,
        Says::Exactly if one.excess >= FAR => Says::AtLeast,
        says => says,
    };
    let between = 1.0 - SPOILED_LOW - SPOILED_HIGH;
    let at_most = SPOILED_LOW + between * (excess + FAR) / (2.0 * FAR);
    let spoiled = match says {
        Says::Exactly => between / (2.0 * FAR),
        Says::AtMost => at_most,
        Says::AtLeast if excess >= FAR => SPOILED_HIGH,
        Says::AtLeast => 1.0 - at_most,
    };
    let likely = match one.events {
        Some(allowed) => of_events(says, allowed.min(EVENTS_MAX), excess, expected),
        None => {
            let e = (-(excess - expected) / ERROR).exp();
            match says {
                Says::Exactly => e / ((1.0 + e) * (1.0 + e)) / ERROR,
                Says::AtMost => 1.0 / (1.0 + e),
                Says::AtLeast => e / (1.0 + e),
            }
        }
    };
    SPOILED * spoiled + (1.0 - SPOILED) * likely
}

/// Returns the likelihood of an excess if so many events are `allowed`, and so much is `expected`: events are Poisson
/// distributed, and may be any number (quasi-likelihood: Wedderburn, Biometrika 61, 1974). Where few are expected, a
/// rung without one says little, and one with some says much; in the mean of many rungs that is right.
fn of_events(says: Says, allowed: f64, excess: f64, expected: f64) -> f64 {
    let (seen, mean) = (allowed * excess.exp(), allowed * expected.exp());
    match says {
        Says::Exactly => seen * (seen * mean.ln() - mean - special::ln_gamma(seen + 1.0)).exp(),
        Says::AtMost => 1.0 - special::gamma_inc(seen + 1.0, mean),
        Says::AtLeast => special::gamma_inc(seen.max(1.0), mean),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(rate: f64, excess: f64, error: f64) -> Observed {
        Observed { ln_rate: f64::ln(rate), excess, events: Some(1.0 / (error * error)), says: Says::Exactly }
    }

    #[test]
    fn rungs_of_one_side_say_nothing_and_of_two_bracket_the_line() {
        assert!(told_by(&[seen(100.0, -2.0, 0.3), seen(200.0, -1.0, 0.3)], 0.0).is_none());
        let rungs = [seen(100.0, -3.0, 0.3), seen(190.0, -3.0, 0.3), seen(210.0, 3.0, 0.3), seen(300.0, 4.0, 0.3)];
        let (line, half) = Posterior::from(&told_by(&rungs, 0.0).unwrap(), false).line();
        assert!((190.0..=210.0).contains(&line) && half > 5.0, "{line} ± {half}");
    }

    #[test]
    fn a_straight_line_is_found_where_it_crosses_the_limit_and_more_rungs_narrow_it() {
        let at = |rate: f64| seen(rate, 20.0 * (rate / 1_000.0).ln(), 0.2);
        let few: Vec<_> = [900.0, 970.0, 1_040.0, 1_100.0].map(at).into();
        let many: Vec<_> = few.iter().cycle().take(16).copied().collect();
        let ((line, half), (line_many, half_many)) = (
            Posterior::from(&told_by(&few, 0.0).unwrap(), false).line(),
            Posterior::from(&told_by(&many, 0.0).unwrap(), false).line(),
        );
        assert!((line / 1_000.0 - 1.0).abs() < 0.01 && (line_many / 1_000.0 - 1.0).abs() < 0.005, "{line} {line_many}");
        assert!(half_many < 0.7 * half, "{half} {half_many}");
    }

    #[test]
    fn one_spoiled_rung_does_not_move_it_and_contradictions_widen_it() {
        let clear = |rate: f64| seen(rate, if rate < 1_000.0 { -3.0 } else { 3.0 }, 0.3);
        let mut rungs: Vec<_> =
            [500.0, 650.0, 850.0, 960.0, 970.0, 980.0, 1_020.0, 1_030.0, 1_040.0, 1_300.0].map(clear).into();
        let (_, half) = Posterior::from(&told_by(&rungs, 0.0).unwrap(), false).line();
        rungs.push(seen(600.0, 3.0, 0.8));
        let (line, spoiled) = Posterior::from(&told_by(&rungs, 0.0).unwrap(), false).line();
        assert!((line / 1_000.0 - 1.0).abs() < 0.03 && spoiled < 100.0, "{line} ± {half}, spoiled {spoiled}");
        for rate in [870.0, 900.0, 930.0] {
            rungs.push(seen(rate, 3.0, 0.3));
            rungs.push(seen(2.0 * 1_000.0 - rate, -3.0, 0.3));
        }
        let (_, contradicted) = Posterior::from(&told_by(&rungs, 0.0).unwrap(), false).line();
        assert!(contradicted > 1.5 * half, "{half} {contradicted}");
        let (again, half_again) = Posterior::from(&told_by(&rungs, 0.0).unwrap(), true).line();
        assert!((again / line - 1.0).abs() < 0.03 && half_again > 1.3 * contradicted, "{again} ± {half_again}");
    }
}
