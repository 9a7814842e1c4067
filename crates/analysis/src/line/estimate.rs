//! Result of a search, from all load steps.

use indexmap::IndexSet;

use crate::number;
use crate::stat;
use crate::view::{AtRate, RungState};

use super::search::STEPS_MAX;
use super::steps::{StepTable, together};
use super::through::longest;
use super::{
    Beyond, Broken, Ending, LineResult, LineSpec, LineState, LoadStep, Purpose, Requirement, cost, explain, sentence,
};

/// Share of the most it did below which a store that is asked for more has collapsed.
const COLLAPSED: f64 = 0.9;

/// Most rates that a sentence lists.
const RATES_MAX: usize = 4;

/// Largest `--precision`.
const COARSEST_PERCENT: f64 = 50.0;

/// Factor on the rate at which goals break, from which a load step shows the behaviour beyond.
pub(super) const FAR_BEYOND: f64 = 1.2;

/// Highest rate that is carried, or is below the line, and lowest at which the store gives way, or that is above it.
type Rates<'a> = (Option<&'a AtRate>, Option<&'a AtRate>);

/// Returns true if `gives_way` is at most `precision` above `carries`.
pub(super) fn is_within(precision: f64, carries: f64, gives_way: f64) -> bool {
    gives_way <= carries * (1.0 + precision) * (1.0 + 1e-9)
}

/// Returns the result of a search.
pub(super) fn result(spec: &LineSpec, steps: &[LoadStep], ending: Ending) -> LineResult {
    let table = StepTable::of(steps);
    let ((below, above), (carries, gives_way)) = (table.around(), table.shown());
    let (held, failed) = (carries.or(below), gives_way.or(above));
    let (held_per_s, failed_per_s) = (held.map(|one| one.rate_per_s), failed.map(|one| one.rate_per_s));
    let at_held = || steps.iter().filter(|step| held_per_s.is_some_and(|rate| step.is_at(rate)));
    let held_steps = || at_held().filter(|step| step.state() == RungState::Held);
    let cycles_held: f64 = at_held().map(LoadStep::cycles_ended).sum();
    // Where work brings cycles on, what a store says of them depends on the rate.
    let said = |step: &LoadStep| step.cycle_words.clone();
    let cycle_words = at_held().rev().find_map(said).or_else(|| steps.iter().find_map(said));
    let (beyond, beyond_share) = beyond(steps, failed_per_s);
    let spread = cost::spread(spec, steps);
    let has_faults = !spec.faults.is_empty();
    let mut result = LineResult {
        state: state(spec, &table, (held, failed), &ending),
        ending,
        rate_per_s: held_per_s.filter(|_| held.is_some_and(|one| one.decided)),
        between: held_per_s.zip(failed_per_s).and_then(|(low, high)| together(table.between(low, high))),
        broken: failed_per_s.and_then(|rate| broken(steps, rate)),
        causes: failed_per_s.map_or(Vec::new(), |failed| explain::causes(steps, held_per_s, failed)),
        beyond,
        beyond_share,
        cycles: cycles(steps, [held_per_s, failed_per_s]),
        cycles_held,
        cycle_words: cycle_words.filter(|_| cycles_held == 0.0 && held.is_some()),
        closed_loop_per_s: steps.iter().find(|step| step.rung.purpose == Purpose::Start).map(|step| step.rate_per_s),
        server_cpu_per_op_s: held_per_s.and_then(|line| cost::server_cpu_per_op_s(steps, line)),
        unequal_words: spread.as_ref().and_then(|spread| cost::words(spread, spec.precision)),
        server_cpu_spread: spread,
        took_s: steps.iter().map(|step| step.took_s).sum(),
        n: steps.len() as u64,
        through: spec.faults.clone(),
        outages: times(held_steps().filter_map(|step| longest(&step.outages_s)).collect()),
        noticed: times(held_steps().filter_map(|step| step.noticed_s).collect()),
        unknown: held_steps().map(|step| step.unknown).reduce(|sum, one| sum + one).filter(|_| has_faults),
        lost: held_steps().map(|step| step.lost).reduce(|sum, one| Some(sum? + one?)).flatten().filter(|_| has_faults),
        held: held.cloned(),
        failed: failed.cloned(),
        sentence: String::new(),
    };
    result.sentence = sentence::of(&result, None);
    result
}

/// Returns the shortest, median and longest of these times.
pub(super) fn times(mut seconds: Vec<f64>) -> Option<[f64; 3]> {
    seconds.sort_by(f64::total_cmp);
    Some([*seconds.first()?, stat::median(&seconds)?, *seconds.last()?])
}

/// Returns the state of the search: decided only with a rate that is carried and one at which it gives way, as near to
/// each other as asked, or with the highest rate that may be tried.
fn state(spec: &LineSpec, table: &StepTable, (held, failed): Rates<'_>, ending: &Ending) -> LineState {
    let both = held.zip(failed).filter(|(held, failed)| held.decided && failed.decided);
    // The precision at which two decided rates are near enough to each other, if it may be asked for.
    let percent = both.map(|(held, failed)| (100.0 * (failed.rate_per_s / held.rate_per_s - 1.0)).ceil());
    let words = |percent| format!(". These load steps decide it at --precision {percent}%");
    let coarser = || percent.filter(|percent| *percent <= COARSEST_PERCENT).map_or(String::new(), words);
    match ending {
        Ending::NoPass | Ending::Failed(_) | Ending::Stopped => LineState::NoLine,
        _ if both.is_some_and(|(a, b)| is_within(spec.precision, a.rate_per_s, b.rate_per_s)) => LineState::Decided,
        Ending::NoFailure => LineState::Decided,
        Ending::Generator(why) | Ending::NotMeasured(why) => LineState::Undecided(why.clone()),
        Ending::StepsUp => LineState::Undecided(format!(
            "{STEPS_MAX} load steps, the most that a search drives, did not decide it. Use a quieter machine or a goal \
             further from what the machine does by itself"
        )),
        Ending::Found | Ending::TimeUp => {
            let mixed = both.and_then(|(low, high)| mixed(spec, table, low, high));
            LineState::Undecided(mixed.unwrap_or_else(|| open(spec, table, (held, failed))) + &coarser())
        }
    }
}

/// Reason that a search whose time is up is undecided, with its remedy.
fn open(spec: &LineSpec, table: &StepTable, (held, failed): Rates<'_>) -> String {
    let from = held.map_or(0.0, |one| one.rate_per_s);
    let to = failed.map_or(f64::INFINITY, |one| one.rate_per_s);
    let mut each = held.into_iter().chain(failed).chain(table.between(from, to));
    let why = match (held, failed) {
        (None, None) => "time was up before a load step could be judged. Use a quieter machine or a longer --budget",
        _ if each.any(|one| one.held > 0 && one.failed > 0) => {
            "load steps at one rate differ. Use a quieter machine, a goal further from what the machine does by \
             itself, or a longer --budget"
        }
        _ if table.contradiction().is_some() => {
            "goals broke at lower rates and held at higher ones. Use a quieter machine or a longer --budget"
        }
        (Some(_), None) if from < spec.rate_max_per_s => {
            "time was up before a goal broke at a higher rate. Use a longer --budget or a higher --from"
        }
        (None, Some(_)) if to > spec.rate_min_per_s => {
            "time was up before every goal held at a lower rate. Use a longer --budget or a lower --from"
        }
        (Some(_), Some(_)) if !is_within(spec.precision, from, to) => {
            "time was up before rates between them were tried often enough. Use a longer --budget"
        }
        _ => {
            let left = |of: Option<&AtRate>, carried| of.filter(|of| !of.decided).map_or(0, |of| of.left(carried));
            let steps = number::plural(left(held, true) + left(failed, false), "load step", "load steps");
            return format!("time was up: at least {steps} more would decide it, so use a longer --budget");
        }
    };
    why.to_owned()
}

/// Describes the rates between two decided ones at which load steps differ, and the remedy. `None` unless goals broke
/// at one of them and held at the same or a higher one.
fn mixed(spec: &LineSpec, table: &StepTable, low: &AtRate, high: &AtRate) -> Option<String> {
    let between: Vec<&AtRate> = table.between(low.rate_per_s, high.rate_per_s).collect();
    let (first, last) = (between.iter().position(|one| one.failed > 0)?, between.iter().rposition(|one| one.held > 0)?);
    let mut listed = between.get(first..=last).filter(|those| !those.is_empty())?.to_vec();
    let example = if listed.len() > RATES_MAX { "for example " } else { "" };
    listed.sort_by_key(|one| std::cmp::Reverse(one.steps()));
    listed.truncate(RATES_MAX);
    listed.sort_by(|a, b| a.rate_per_s.total_cmp(&b.rate_per_s));
    let at =
        |one: &&AtRate| format!("at {} ops/s {} of {}", number::significant(one.rate_per_s), one.held, one.steps());
    let listed = number::list(&listed.iter().map(at).collect::<Vec<_>>());
    let apart = number::significant(100.0 * (high.rate_per_s / low.rate_per_s - 1.0));
    let precision = number::significant(100.0 * spec.precision);
    let more = |n| number::plural(n, "more load step that agrees", "more load steps that agree");
    let left = |rate: f64, carried: bool| match table.is_contradicted(rate, carried) {
        true => f64::INFINITY,
        false => table.at(rate).left(carried) as f64,
    };
    let fewest = table.cheapest(spec.precision, |rate| rate, left);
    let more = fewest.map_or(String::new(), |(.., n)| format!(", or at least {}", more(n as u64)));
    Some(format!(
        "these two rates are {apart} % apart, more than the precision of {precision} %, and load steps between them \
         differ ({example}{listed} held). What decides it is a quieter machine, a goal further from what the machine does \
         by itself{more}"
    ))
}

/// Returns the maintenance cycles that ended in load steps at the `deciding` rates, by counter; `None` without counters.
fn cycles(steps: &[LoadStep], deciding: [Option<f64>; 2]) -> Option<Vec<(String, f64)>> {
    let names: IndexSet<&String> = steps.iter().flat_map(|step| &step.cycles).map(|(name, _)| name).collect();
    let ended = |name: &String| {
        let at = |rate: f64| steps.iter().filter(move |step| step.is_at(rate)).flat_map(|step| &step.cycles);
        deciding.iter().flatten().flat_map(|rate| at(*rate)).filter(|(of, _)| of == name).map(|(_, n)| n).sum()
    };
    (!names.is_empty()).then(|| names.into_iter().map(|name| (name.clone(), ended(name))).collect())
}

/// The goal that used most of its limit at `rate`, by the median of the load steps in which one was broken.
fn broken(steps: &[LoadStep], rate: f64) -> Option<Broken> {
    let is_broken = |step: &&LoadStep| step.is_at(rate) && step.state() == RungState::Failed;
    let at: Vec<&LoadStep> = steps.iter().filter(is_broken).collect();
    let median = |of: &dyn Fn(&LoadStep) -> Option<f64>| stat::median_of(at.iter().filter_map(|step| of(step)));
    let goals = at.first()?.goals.iter().enumerate().filter_map(|(position, goal)| {
        let ratio = median(&|step| step.goals.get(position)?.ratio())?;
        let got = median(&|step| step.goals.get(position)?.value)?;
        let what = Requirement::Goal(goal.what, goal.of.clone());
        Some((ratio, Broken { what, limit: goal.limit, got, unit: goal.unit.clone() }))
    });
    // What users feel goes before that the store did not keep up, which makes all of it worse.
    let worst = goals.filter(|(ratio, _)| *ratio > 1.0).max_by(|a, b| a.0.total_cmp(&b.0));
    // A goal tells more than that throughput did not come back, which may come of it.
    let unrecovered = || {
        let limit = median(&|step| step.unrecovered_s)?;
        Some(Broken { what: Requirement::Recovers, limit, got: limit, unit: "s".to_owned() })
    };
    worst.map(|(_, broken)| broken).or_else(unrecovered).or_else(|| {
        median(&|step| Some(step.unsent_ratio())).filter(|unsent| *unsent > 1.0)?;
        let got = median(&|step| Some(step.ended_per_s))?;
        Some(Broken { what: Requirement::Carried, limit: rate, got, unit: "1/s".to_owned() })
    })
}

/// Returns the behaviour of the store past the line, by the highest rate that was tried, and the share of its most.
fn beyond(steps: &[LoadStep], failed: Option<f64>) -> (Beyond, Option<f64>) {
    let Some(last) = farthest(steps, failed) else { return (Beyond::NotSeen, None) };
    let offered = steps.iter().filter(|step| step.offered_per_s().is_some());
    let most = offered.map(|step| step.rate_per_s).fold(0.0, f64::max);
    let share = if most > 0.0 { last.rate_per_s / most } else { 0.0 };
    let beyond = match last.rung.rate_per_s {
        _ if share < COLLAPSED => Beyond::Collapses,
        Some(asked) if last.rejected_per_s > 0.02 * asked => Beyond::Sheds,
        _ => Beyond::Queues,
    };
    (beyond, Some(share))
}

/// Returns the load step at the highest rate far beyond `failed`.
pub(super) fn farthest(steps: &[LoadStep], failed: Option<f64>) -> Option<&LoadStep> {
    let far = FAR_BEYOND * failed?;
    let rate = |step: &&LoadStep| step.offered_per_s().unwrap_or(0.0);
    steps.iter().filter(|step| rate(step) >= far).max_by(|a, b| rate(a).total_cmp(&rate(b)))
}
