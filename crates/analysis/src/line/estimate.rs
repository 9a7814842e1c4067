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

/// Returns true if `gives_way` is at most `precision` above `carries`.
pub(super) fn is_within(precision: f64, carries: f64, gives_way: f64) -> bool {
    gives_way <= carries * (1.0 + precision) * (1.0 + 1e-9)
}

/// Returns the result of a search.
pub(super) fn result(spec: &LineSpec, rungs: &[(Rung, RungSummary)], ending: Ending) -> LineResult {
    let table = StepTable::of(rungs);
    let (below, above) = table.around();
    let (held, failed) = (table.carries().or(below), table.gives_way().or(above));
    let rate = |one: &AtRate| one.rate_per_s;
    let (held_per_s, failed_per_s) = (held.map(rate), failed.map(rate));
    let at_held = || rungs.iter().filter(|(rung, _)| held_per_s.is_some() && rung.rate_per_s == held_per_s);
    let cycles_held: f64 = at_held().flat_map(|(_, seen)| seen.cycles.iter().map(|(_, n)| n)).sum();
    // Where work brings cycles on, what a store says of them depends on the rate.
    let said = |(_, seen): &(Rung, RungSummary)| seen.cycle_words.clone();
    let cycle_words = at_held().rev().find_map(said).or_else(|| rungs.iter().find_map(said));
    let start = rungs.iter().find(|(rung, _)| rung.purpose == Purpose::Start);
    let (beyond, beyond_share) = beyond(rungs, failed_per_s);
    let mut result = LineResult {
        state: state(spec, &table, held, failed, &ending),
        ending,
        rate_per_s: held.filter(|one| one.decided).map(rate),
        between: held.zip(failed).and_then(|(held, failed)| between(&table, held, failed)),
        broken: failed_per_s.and_then(|rate| broken(rungs, rate)),
        causes: failed_per_s.map_or(Vec::new(), |failed| explain::causes(rungs, held_per_s, failed)),
        beyond,
        beyond_share,
        cycles: cycles(rungs, [held_per_s, failed_per_s]),
        cycles_held,
        cycle_words: cycle_words.filter(|_| cycles_held == 0.0 && held.is_some()),
        closed_loop_per_s: start.map(|(_, seen)| seen.rate_per_s),
        server_cpu_per_op_s: held_per_s.and_then(|line| explain::server_cpu_per_op_s(rungs, line)),
        took_s: rungs.iter().map(|(_, seen)| seen.took_s).sum(),
        n: rungs.len() as u64,
        held: held.cloned(),
        failed: failed.cloned(),
        sentence: String::new(),
    };
    result.sentence = sentence::of(&result, None);
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
    let both = held.zip(failed).filter(|(held, failed)| held.decided && failed.decided);
    match ending {
        Ending::NoPass | Ending::Failed(_) | Ending::Stopped => LineState::NoLine,
        _ if both.is_some_and(|(a, b)| is_within(spec.precision, a.rate_per_s, b.rate_per_s)) => LineState::Decided,
        Ending::NoFailure => LineState::Decided,
        Ending::Generator(why) | Ending::NotMeasured(why) => LineState::Undecided(why.clone()),
        Ending::Found | Ending::TimeUp => LineState::Undecided(open(spec, table, held, failed)),
    }
}

/// Reason that a search whose time is up is undecided, with its remedy.
fn open(spec: &LineSpec, table: &StepTable, held: Option<&AtRate>, failed: Option<&AtRate>) -> String {
    if held.or(failed).is_none() {
        return "time was up before a load step could be judged; use a quieter machine or a longer --budget".to_owned();
    }
    let from = held.map_or(0.0, |one| one.rate_per_s);
    let to = failed.map_or(f64::INFINITY, |one| one.rate_per_s);
    if table.between(from, to).any(|one| one.held > 0 && one.failed > 0) {
        return "load steps at one rate differ; use a quieter machine, a goal further from what the machine does by \
                itself, or a longer --budget"
            .to_owned();
    }
    let is_contradicted = |one: Option<&AtRate>, carried| one.is_some_and(|one| table.is_contradicted(one, carried));
    if is_contradicted(held, true) || is_contradicted(failed, false) {
        return "goals broke at lower rates and held at higher ones; use a quieter machine or a longer --budget"
            .to_owned();
    }
    let missing = match (held, failed) {
        (Some(held), None) if held.rate_per_s < spec.rate_max_per_s => {
            "before a goal broke at a higher rate; use a longer --budget or a higher --from"
        }
        (None, Some(failed)) if failed.rate_per_s > spec.rate_min_per_s => {
            "before every goal held at a lower rate; use a longer --budget or a lower --from"
        }
        (Some(held), Some(failed)) if !is_within(spec.precision, held.rate_per_s, failed.rate_per_s) => {
            "before rates between them were tried often enough; use a longer --budget"
        }
        _ => {
            let left =
                |one: Option<&AtRate>, carried| one.filter(|one| !one.decided).map_or(0, |one| one.left(carried));
            let steps = number::plural(left(held, true) + left(failed, false), "load step", "load steps");
            return format!("time was up; at least {steps} more would decide it, so use a longer --budget");
        }
    };
    format!("time was up {missing}")
}

/// Returns the load steps between the two rates, together; `None` if there were none.
fn between(table: &StepTable, held: &AtRate, failed: &AtRate) -> Option<AtRate> {
    let inside = table.between(held.rate_per_s, failed.rate_per_s).filter(|one| *one != held && *one != failed);
    inside.cloned().reduce(|mut sum, one| {
        sum.add(&one);
        sum
    })
}

/// Returns the maintenance cycles that ended in load steps at the `deciding` rates, by counter; `None` without counters.
fn cycles(rungs: &[(Rung, RungSummary)], deciding: [Option<f64>; 2]) -> Option<Vec<(String, f64)>> {
    let counted = rungs.iter().flat_map(|(_, seen)| &seen.cycles).map(|(name, _)| name);
    let names: IndexSet<&String> = counted.collect();
    let ended = |name: &String| {
        let inside = rungs.iter().filter(|(rung, _)| rung.rate_per_s.is_some() && deciding.contains(&rung.rate_per_s));
        inside.flat_map(|(_, seen)| &seen.cycles).filter(|(of, _)| of == name).map(|(_, n)| n).sum()
    };
    (!names.is_empty()).then(|| names.into_iter().map(|name| (name.clone(), ended(name))).collect())
}

/// The goal that used most of its limit at `rate`, by the median of the rungs in which one was broken.
fn broken(rungs: &[(Rung, RungSummary)], rate: f64) -> Option<Broken> {
    let is_broken = |(rung, seen): &&(Rung, RungSummary)| {
        rung.rate_per_s == Some(rate) && seen.worst_ratio(rung).is_some_and(|ratio| ratio > 1.0)
    };
    let at: Vec<&RungSummary> = rungs.iter().filter(is_broken).map(|(_, seen)| seen).collect();
    let median = |of: &dyn Fn(&RungSummary) -> Option<f64>| {
        let values: Vec<f64> = at.iter().filter_map(|seen| of(seen)).collect();
        stat::median(&values)
    };
    let goals = at.first()?.goals.iter().enumerate().filter_map(|(position, goal)| {
        let ratio = median(&|seen| seen.goals.get(position)?.ratio())?;
        let got = median(&|seen| seen.goals.get(position)?.value)?;
        let what = if goal.of.is_some() { goal.name() } else { goal.what.name() };
        Some((ratio, Broken { what, limit: goal.limit, got, unit: goal.unit.clone() }))
    });
    // What users feel goes before that the store did not keep up, which makes all of it worse.
    let worst = goals.filter(|(ratio, _)| *ratio > 1.0).max_by(|a, b| a.0.total_cmp(&b.0));
    worst.map(|(_, broken)| broken).or_else(|| {
        median(&|seen| Some(seen.unsent_ratio())).filter(|unsent| *unsent > 1.0)?;
        let got = median(&|seen| Some(seen.ended_per_s))?;
        Some(Broken { what: "carried".to_owned(), limit: rate, got, unit: "1/s".to_owned() })
    })
}

/// Returns the behaviour of the store past the line, by the highest rate that was tried, and the share of its most.
fn beyond(rungs: &[(Rung, RungSummary)], failed: Option<f64>) -> (Beyond, Option<f64>) {
    let Some((rung, last)) = farthest(rungs, failed) else { return (Beyond::NotSeen, None) };
    let open = rungs.iter().filter(|(rung, seen)| rung.rate_per_s.is_some() && seen.void.is_none());
    let most = open.map(|(_, seen)| seen.rate_per_s).fold(0.0, f64::max);
    let share = if most > 0.0 { last.rate_per_s / most } else { 0.0 };
    let beyond = match rung.rate_per_s {
        _ if share < COLLAPSED => Beyond::Collapses,
        Some(asked) if last.rejected_per_s > 0.02 * asked => Beyond::Sheds,
        _ => Beyond::Queues,
    };
    (beyond, Some(share))
}

/// Returns the load step at the highest rate far beyond `failed`.
pub(super) fn farthest(rungs: &[(Rung, RungSummary)], failed: Option<f64>) -> Option<&(Rung, RungSummary)> {
    let far = FAR_BEYOND * failed?;
    let rate = |one: &&(Rung, RungSummary)| one.0.rate_per_s.filter(|_| one.1.void.is_none()).unwrap_or(0.0);
    rungs.iter().filter(|one| rate(one) >= far).max_by(|a, b| rate(a).total_cmp(&rate(b)))
}
