//! Result of a search, from all load steps.

use indexmap::IndexSet;

use crate::number;
use crate::stat;
use crate::view::AtRate;

use super::steps::StepTable;
use super::{Beyond, Broken, Ending, LineResult, LineSpec, LineState, Purpose, Rung, RungSummary, explain, sentence};

/// Share of the most it did below which a store that is asked for more has collapsed.
const COLLAPSED: f64 = 0.9;

/// Factor on the rate at which goals break, from which a load step shows the behaviour beyond.
pub(super) const FAR_BEYOND: f64 = 1.2;

/// Reason that a search is undecided if load steps at one rate held and failed.
const DIFFER: &str = "load steps at one rate differ; use a quieter machine, a goal further from what the machine does by itself, or a longer \
                      --budget";

/// Returns true if `gives_way` is at most `precision` above `carries`.
pub(super) fn is_within(precision: f64, carries: f64, gives_way: f64) -> bool {
    gives_way <= carries * (1.0 + precision) * (1.0 + 1e-9)
}

/// Returns the result of a search.
pub(super) fn result(spec: &LineSpec, rungs: &[(Rung, RungSummary)], ending: Ending) -> LineResult {
    let table = StepTable::of(rungs);
    let (held, failed) = table.around();
    let (held, failed) = (table.carries().or(held).cloned(), table.gives_way().or(failed).cloned());
    let held_per_s = held.as_ref().map(|held| held.rate_per_s);
    let failed_per_s = failed.as_ref().map(|failed| failed.rate_per_s);
    let rate_per_s = held_per_s.filter(|_| held.as_ref().is_some_and(|held| held.decided));
    let (beyond, beyond_share) = beyond(rungs, failed_per_s);
    let broken = failed_per_s.and_then(|rate| broken(rungs, rate));
    let at_held = || rungs.iter().filter(|(rung, _)| held_per_s.is_some() && rung.rate_per_s == held_per_s);
    let cycles_held: f64 = at_held().flat_map(|(_, seen)| seen.cycles.iter().map(|(_, n)| n)).sum();
    // Where work brings cycles on, what a store says of them depends on the rate.
    let said = |(_, seen): &(Rung, RungSummary)| seen.cycle_words.clone();
    let cycle_words = at_held().rev().find_map(said).or_else(|| rungs.iter().find_map(said));
    let causes = failed_per_s.map_or(Vec::new(), |failed| explain::causes(rungs, held_per_s, failed));
    let deciding = |rate: f64| Some(rate) == held_per_s || Some(rate) == failed_per_s;
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
        state: state(spec, &table, held.as_ref(), failed.as_ref(), &ending),
        between: held_per_s.zip(failed_per_s).and_then(|(held, failed)| between(&table, held, failed)),
        ending,
        rate_per_s,
        held,
        failed,
        broken,
        causes,
        beyond,
        beyond_share,
        cycles,
        cycles_held,
        cycle_words: cycle_words.filter(|_| cycles_held == 0.0 && held_per_s.is_some()),
        closed_loop_per_s: start.map(|(_, seen)| seen.rate_per_s),
        server_cpu_per_op_s: held_per_s.and_then(|line| explain::server_cpu_per_op_s(rungs, line)),
        took_s: rungs.iter().map(|(_, seen)| seen.took_s).sum(),
        n: rungs.len() as u64,
        sentence: String::new(),
    };
    result.sentence = sentence::sentence(&result);
    result
}

/// Returns the state of the search: decided only with a rate that is carried and one at which it gives way, as near to
/// each other as asked, or with the highest rate that may be tried.
fn state(
    spec: &LineSpec,
    table: &StepTable,
    held: Option<&AtRate>,
    failed: Option<&AtRate>,
    ending: &Ending,
) -> LineState {
    let is_decided = |one: Option<&AtRate>| one.is_some_and(|one| one.decided);
    let near = held.zip(failed).is_some_and(|(a, b)| is_within(spec.precision, a.rate_per_s, b.rate_per_s));
    match ending {
        Ending::NoPass | Ending::Failed(_) | Ending::Stopped => LineState::NoLine,
        _ if near && is_decided(held) && is_decided(failed) => LineState::Decided,
        Ending::NoFailure => LineState::Decided,
        Ending::Generator(why) | Ending::NotMeasured(why) => LineState::Undecided(why.clone()),
        Ending::Found | Ending::TimeUp => LineState::Undecided(open(spec, table, held, failed)),
    }
}

/// Reason that a search whose time is up is undecided, with its remedy.
fn open(spec: &LineSpec, table: &StepTable, held: Option<&AtRate>, failed: Option<&AtRate>) -> String {
    let differs = |one: &AtRate| one.held > 0 && one.failed > 0;
    let more = |left| {
        let steps = number::plural(left, "load step", "load steps");
        format!("time was up; {steps} more would decide it, so use a longer --budget")
    };
    match (held, failed) {
        (Some(one), None) | (None, Some(one)) if differs(one) => DIFFER.to_owned(),
        (Some(held), None) if held.rate_per_s >= spec.rate_max_per_s => more(held.left(true)),
        (None, Some(failed)) if failed.rate_per_s <= spec.rate_min_per_s => more(failed.left(false)),
        (None, None) => {
            "time was up before a load step could be judged; use a quieter machine or a longer --budget".to_owned()
        }
        (Some(_), None) => "time was up before a goal broke; use a longer --budget or a higher --from".to_owned(),
        (None, Some(_)) => {
            "time was up before every goal held at a rate; use a longer --budget or a lower --from".to_owned()
        }
        (Some(held), Some(failed)) if table.between(held.rate_per_s, failed.rate_per_s).any(differs) => {
            DIFFER.to_owned()
        }
        (Some(held), Some(failed)) if !is_within(spec.precision, held.rate_per_s, failed.rate_per_s) => {
            "time was up before rates between them were tried often enough; use a longer --budget".to_owned()
        }
        (Some(held), Some(failed)) => {
            let held_left = if held.decided { 0 } else { held.left(true) };
            more(held_left + if failed.decided { 0 } else { failed.left(false) })
        }
    }
}

/// Returns the load steps between the two rates, together; `None` if there were none.
fn between(table: &StepTable, held: f64, failed: f64) -> Option<AtRate> {
    let inside = table.between(held, failed).filter(|one| one.rate_per_s != held && one.rate_per_s != failed);
    inside.cloned().reduce(|sum, one| sum.with(&one))
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
    let Some(last) = farthest(rungs, failed) else { return (Beyond::NotSeen, None) };
    let (rung, last) = last;
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

/// Returns the load step at the highest rate far beyond `failed`.
pub(super) fn farthest(rungs: &[(Rung, RungSummary)], failed: Option<f64>) -> Option<&(Rung, RungSummary)> {
    let far = FAR_BEYOND * failed?;
    let rate = |one: &&(Rung, RungSummary)| one.0.rate_per_s.filter(|_| one.1.void.is_none()).unwrap_or(0.0);
    rungs.iter().filter(|one| rate(one) >= far).max_by(|a, b| rate(a).total_cmp(&rate(b)))
}
