//! The line and its uncertainty, from all rungs near it.

use indexmap::IndexSet;

use crate::{number, stat};

use super::observed::observed;
use super::posterior::Posterior;
use super::{
    Beyond, Broken, Ending, LineResult, LineSpec, LineState, Purpose, Rung, RungSummary, cycle, explain, sentence,
};

/// Half of a 95 % interval, as a share of the line, that is an answer where time was up before it was as narrow as asked: of the
/// line while it was looked for, and of the line when it is looked for again.
const WIDEST: f64 = 0.1;
const WIDEST_AGAIN: f64 = 2.0 * WIDEST;

/// Share of the most it did below which a store that is asked for more has collapsed.
const COLLAPSED: f64 = 0.9;

/// Seconds at one rate: in rungs in which every goal held, and in rungs in which one did not.
struct AtRate {
    rate: f64,
    held_s: f64,
    failed_s: f64,
}

/// Results at each rate, in ascending order, and the position of the change.
pub(super) struct Rates {
    rates: Vec<AtRate>,
    /// Number of rates below the line.
    below: usize,
}

impl Rates {
    /// Takes all rungs that say something. The line is drawn where it leaves the least time on the wrong side: below
    /// it time in which a goal was broken, above it time in which all held. One rung that was lucky or unlucky then
    /// pulls it up or down alike, and is outvoted when its rate is repeated.
    pub fn of(rungs: &[(Rung, RungSummary)]) -> Rates {
        let only_whole = cycle::matters(rungs);
        let mut rates: Vec<AtRate> = Vec::new();
        for (rung, seen) in rungs {
            let (Some(rate), Some(ratio)) = (rung.rate_per_s, seen.worst_ratio(rung)) else { continue };
            if only_whole && ratio <= 1.0 && !seen.saw_cycle() {
                continue;
            }
            let at = rates.iter().position(|known| known.rate == rate).unwrap_or_else(|| {
                rates.push(AtRate { rate, held_s: 0.0, failed_s: 0.0 });
                rates.len() - 1
            });
            if let Some(at) = rates.get_mut(at) {
                if ratio <= 1.0 { at.held_s += seen.seconds } else { at.failed_s += seen.seconds }
            }
        }
        rates.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        let wrong_s = |below: usize| {
            let part = |at: (usize, &AtRate)| if at.0 < below { at.1.failed_s } else { at.1.held_s };
            rates.iter().enumerate().map(part).sum::<f64>()
        };
        let below = (0..=rates.len()).min_by(|a, b| wrong_s(*a).total_cmp(&wrong_s(*b))).unwrap_or(0);
        Rates { rates, below }
    }

    /// Returns true if the goals held at `rate`: longer than they did not. Returns `None` for a rate that was not
    /// tried.
    pub fn held(&self, rate: f64) -> Option<bool> {
        self.rates.iter().find(|known| known.rate == rate).map(|known| known.held_s > known.failed_s)
    }

    /// The lowest rate above the line.
    pub fn lowest_failed(&self) -> Option<f64> {
        self.rates.get(self.below).map(|known| known.rate)
    }

    /// The highest rate below it.
    pub fn highest_held(&self) -> Option<f64> {
        self.rates.get(self.below.checked_sub(1)?).map(|known| known.rate)
    }
}

/// Returns the result of a search.
pub(super) fn result(spec: &LineSpec, rungs: &[(Rung, RungSummary)], ending: Ending) -> LineResult {
    let rates = Rates::of(rungs);
    let (held, failed) = (rates.highest_held(), rates.lowest_failed());
    let bracketed = held.is_some() && failed.is_some();
    let (now, posterior) = Posterior::both(rungs).filter(|_| bracketed).unzip();
    let (rate_per_s, uncertainty_per_s) = posterior.as_ref().map(Posterior::line).unzip();
    let (low_per_s, high_per_s) = posterior.as_ref().map(Posterior::interval).unzip();
    let (beyond, beyond_share) = beyond(rungs, failed);
    let broken = failed.and_then(|rate| broken(rungs, rate));
    let cycles_held: f64 = rungs
        .iter()
        .filter(|(rung, _)| held.is_some() && rung.rate_per_s == held)
        .flat_map(|(_, seen)| seen.cycles.iter().map(|(_, n)| n))
        .sum();
    // Where work brings cycles on, what a store says of them depends on the rate.
    let said = |(_, seen): &(Rung, RungSummary)| seen.cycle_words.clone();
    let at_line = rungs.iter().rev().filter(|(rung, _)| rung.rate_per_s == held).find_map(said);
    let cycle_words = at_line.or_else(|| rungs.iter().find_map(said));
    let causes = match (held, failed) {
        (held, Some(failed)) => explain::causes(rungs, held, failed),
        _ => Vec::new(),
    };
    let deciding = |rate: f64| Some(rate) == held || Some(rate) == failed;
    let counted = rungs.iter().flat_map(|(_, seen)| &seen.cycles).map(|(name, _)| name);
    let names: IndexSet<&String> = spec.cycles.iter().chain(counted).collect();
    let cycles = (!names.is_empty()).then(|| {
        let ended = |name: &String| {
            let inside = rungs.iter().filter(|(rung, _)| rung.rate_per_s.is_some_and(deciding));
            inside.flat_map(|(_, seen)| &seen.cycles).filter(|(of, _)| of == name).map(|(_, n)| n).sum()
        };
        names.into_iter().map(|name| (name.clone(), ended(name))).collect()
    });
    let start = rungs.iter().find(|(rung, _)| rung.purpose == Purpose::Start);
    let mut result = LineResult {
        state: state(spec, rungs, &ending, now.zip(posterior)),
        ending,
        rate_per_s,
        uncertainty_per_s,
        low_per_s,
        high_per_s,
        held_per_s: held,
        failed_per_s: failed,
        broken,
        causes,
        beyond,
        beyond_share,
        cycles,
        cycles_held,
        cycle_words: cycle_words.filter(|_| cycles_held == 0.0 && held.is_some()),
        closed_loop_per_s: start.map(|(_, seen)| seen.rate_per_s),
        server_cpu_per_op_s: rate_per_s.and_then(|line| explain::server_cpu_per_op_s(rungs, line)),
        took_s: rungs.iter().map(|(_, seen)| seen.took_s).sum(),
        n: rungs.len() as u64,
        sentence: String::new(),
    };
    result.sentence = sentence::sentence(&result);
    result
}

/// Returns the state of the search: decided or not. A search that ends early has one if the line is known well enough,
/// in its own time and for one that is looked for again.
fn state(
    spec: &LineSpec,
    rungs: &[(Rung, RungSummary)],
    ending: &Ending,
    known: Option<(Posterior, Posterior)>,
) -> LineState {
    let half = |of: &Posterior| {
        let (line, half) = of.line();
        half / line
    };
    let share = known.map(|(now, again)| if half(&again) <= WIDEST_AGAIN { half(&now) } else { f64::INFINITY });
    match (ending, share) {
        (Ending::Found | Ending::NoFailure, _) => LineState::Decided,
        (Ending::NoPass | Ending::Failed(_) | Ending::Stopped, _) => LineState::NoLine,
        (Ending::TimeUp | Ending::Generator(_), Some(share)) if share <= spec.precision.max(WIDEST) => {
            LineState::Decided
        }
        (Ending::Generator(why) | Ending::NotMeasured(why), _) => LineState::Undecided(why.clone()),
        (Ending::TimeUp, None) if Rates::of(rungs).highest_held().is_some() => {
            LineState::Undecided(sentence::none_above(rungs))
        }
        (Ending::TimeUp, None) => {
            LineState::Undecided("time was up before a rate was found at which every goal holds".to_string())
        }
        (Ending::TimeUp, Some(_)) => LineState::Undecided(
            contradiction(rungs).unwrap_or_else(|| "time was up; use a longer --budget".to_string()),
        ),
    }
}

/// Describes goals that broke at a rate below one at which they held, if they did by more than the interval may be
/// wide.
fn contradiction(rungs: &[(Rung, RungSummary)]) -> Option<String> {
    let seen = observed(rungs);
    let broke = seen.iter().filter(|one| one.excess > 0.0).map(|one| one.ln_rate.exp()).fold(f64::INFINITY, f64::min);
    let held = seen.iter().filter(|one| one.excess <= 0.0).map(|one| one.ln_rate.exp()).fold(0.0, f64::max);
    (held > broke * (1.0 + WIDEST)).then(|| {
        format!(
            "a goal broke at {} and all held at {}; use a quieter machine, a longer --budget, or a goal further from what this \
             machine does by itself",
            number::with_unit(broke, "1/s"),
            number::with_unit(held, "1/s")
        )
    })
}

/// The goal that used most of its limit at `rate`, by the median of the rungs in which one was broken.
fn broken(rungs: &[(Rung, RungSummary)], rate: f64) -> Option<Broken> {
    let is_broken = |(rung, seen): &&(Rung, RungSummary)| {
        rung.rate_per_s == Some(rate) && seen.worst_ratio(rung).is_some_and(|ratio| ratio > 1.0)
    };
    let at: Vec<&RungSummary> = rungs.iter().filter(is_broken).map(|(_, seen)| seen).collect();
    let first = at.first()?;
    let median = |of: &dyn Fn(&RungSummary) -> Option<f64>| {
        let values: Vec<f64> = at.iter().filter_map(|seen| of(seen)).collect();
        stat::median(&values)
    };
    let carried = Broken {
        what: "carried".to_string(),
        limit: rate,
        got: median(&|seen| Some(seen.ended_per_s)).unwrap_or(0.0),
        unit: "1/s".to_string(),
    };
    let unsent = median(&|seen| Some(seen.unsent_ratio())).unwrap_or(0.0);
    let goals = first.goals.iter().enumerate().filter_map(|(position, goal)| {
        let ratio = median(&|seen| seen.goals.get(position)?.ratio())?;
        let got = median(&|seen| seen.goals.get(position)?.value)?;
        let what = if goal.of.is_some() { goal.name() } else { goal.what.name() };
        Some((ratio, Broken { what, limit: goal.limit, got, unit: goal.unit.clone() }))
    });
    // What users feel goes before that the store did not keep up, which makes all of it worse.
    let worst = goals.filter(|(ratio, _)| *ratio > 1.0).max_by(|a, b| a.0.total_cmp(&b.0));
    worst.map(|(_, broken)| broken).or_else(|| (unsent > 1.0).then_some(carried))
}

/// Returns the behaviour of the store past the line, by the highest rate that was tried.
fn beyond(rungs: &[(Rung, RungSummary)], failed: Option<f64>) -> (Beyond, Option<f64>) {
    let seen = rungs.iter().filter(|(rung, seen)| rung.purpose == Purpose::Beyond && seen.void.is_none());
    let last = seen.max_by(|a, b| a.0.rate_per_s.unwrap_or(0.0).total_cmp(&b.0.rate_per_s.unwrap_or(0.0)));
    let (Some((rung, last)), Some(_)) = (last, failed) else { return (Beyond::NotSeen, None) };
    let open = rungs.iter().filter(|(rung, seen)| rung.rate_per_s.is_some() && seen.void.is_none());
    let most = open.map(|(_, seen)| seen.rate_per_s).fold(0.0, f64::max);
    let share = if most > 0.0 { last.rate_per_s / most } else { 0.0 };
    let asked = rung.rate_per_s.unwrap_or(0.0);
    let beyond = if share < COLLAPSED {
        Beyond::Collapses
    } else if last.rejected_per_s > 0.02 * asked {
        Beyond::Sheds
    } else {
        Beyond::Queues
    };
    (beyond, Some(share))
}
