//! Verdict of a run that only watched. Its load promised nothing: only goals can be missed.

use plimsoll_record::data::{ResultName, Run, RunState, Sample};

use crate::number;
use crate::stat;
use crate::verdict::{KILLED, missed};
use crate::view::{GoalState, GoalView, TrialView, Verdict, VerdictState};

/// Sampler of the processes of a server.
const SERVER: &str = "server";

/// Judges a run that only watched.
pub fn verdict(run: &Run, goals: &[GoalView], trials: &[TrialView]) -> Verdict {
    let missed = missed(goals);
    let places = goals.iter().flat_map(|goal| goal.trials.iter().map(move |place| (goal, place)));
    let lacking = places
        .filter(|(_, place)| place.state == GoalState::NotMeasured)
        .map(|(goal, place)| format!("{} could not be measured in {}: {}", goal.text, place.place, place.got_text));
    let unseen: Vec<String> = ended_early(&run.state).into_iter().chain(lacking).collect();
    let state = match (missed.is_empty(), unseen.is_empty(), goals.is_empty()) {
        (false, ..) => VerdictState::Fail,
        (true, false, _) => VerdictState::Incomplete,
        (true, true, true) => VerdictState::Measured,
        (true, true, false) => VerdictState::Pass,
    };
    let watched = format!("Watched, not driven: {}", number::list(&trials.iter().map(seen).collect::<Vec<_>>()));
    let watched = format!("{watched}{}", used(run).map_or_else(String::new, |used| format!("; {used}")));
    let sentence = match missed.first().or(unseen.first()) {
        Some(first) => format!("{first}. {watched}."),
        None if goals.is_empty() => format!("{watched}; no goal was set."),
        None => format!("{watched}; {} held.", number::plural(goals.len() as u64, "goal", "goals")),
    };
    let reasons = missed.iter().chain(&unseen).map(|reason| format!("{reason}.")).collect();
    Verdict { state, sentence, reasons }
}

/// Describes an end of the run before that of what was watched.
fn ended_early(state: &RunState) -> Option<String> {
    match state {
        RunState::Complete => None,
        RunState::Running => Some("The run is still running".to_owned()),
        RunState::Unfinished => Some(format!("The run ended early: {KILLED}")),
        RunState::Interrupted => Some("The run ended early: interrupted".to_owned()),
        RunState::Failed(why) => Some(format!("The run ended early: {why}")),
    }
}

/// Describes the processor time and the memory of the processes that were watched: medians and most of the readings.
fn used(run: &Run) -> Option<String> {
    let of = |names: &[&str]| {
        let is_one = |at: &u32| {
            let series = run.series.get(*at as usize);
            series.is_some_and(|series| series.source == SERVER && names.contains(&series.name.as_str()))
        };
        let sum = |sample: &Sample| {
            let values: Vec<f64> = sample.values.iter().filter(|(at, _)| is_one(at)).map(|(_, value)| *value).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>())
        };
        let unit = (0..).zip(&run.series).find(|(at, _)| is_one(at)).map(|(_, series)| series.unit.clone())?;
        let sums: Vec<f64> = run.samples.iter().filter_map(sum).collect();
        let most = sums.iter().copied().fold(0.0, f64::max);
        Some((number::with_unit(stat::median(&sums)?, &unit), number::with_unit(most, &unit)))
    };
    let (cpu, cpu_most) = of(&["user", "system"])?;
    let (memory, memory_most) = of(&["memory"])?;
    Some(format!(
        "the processes had a median of {cpu} of a processor (most: {cpu_most}) and {memory} of memory (most: \
         {memory_most})"
    ))
}

/// Describes what was seen of a log or of processes: `access.log had 10,000 operations in 600 s, 12 of them failed`.
fn seen(trial: &TrialView) -> String {
    let phases = || trial.phases.iter();
    let seconds = number::seconds(phases().filter_map(|phase| phase.seconds).sum());
    let (count, failed) = phases()
        .filter_map(|phase| phase.ops.as_ref())
        .fold((0, 0), |(count, failed), ops| (count + ops.count, failed + ops.rejected + ops.unknown));
    let results = phases().flat_map(|phase| &phase.results).filter(|result| result.what == ResultName::Ops);
    let logged: f64 = results.map(|result| result.value).sum();
    let name = &trial.name;
    match (count, logged as u64) {
        (0, 0) => format!("{name} for {seconds}"),
        (0, logged) => format!("{name} had {} in {seconds}", number::plural(logged, "operation", "operations")),
        (count, _) => {
            let ops = number::plural(count, "operation", "operations");
            format!("{name} had {ops} in {seconds}, {} of them failed", number::count(failed))
        }
    }
}
