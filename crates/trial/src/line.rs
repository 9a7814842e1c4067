//! The search for the load line: rung after rung, each a trial of its own in the recording, until analysis says where
//! the line is.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_analysis::line::{self, LineFold, LineSpec, Next};
use plimsoll_analysis::view::{LineResult, Rung, RungState, RungView};
use plimsoll_analysis::{LOAD_STEP, number};
use plimsoll_core::Workload;
use plimsoll_lab::OpenStore;
use plimsoll_plan::model::{
    Arrivals, Drive, DriveLimit, LineSearch, Pace, PhaseStep, PlannedPhase, PlannedTrial, Rate, Start,
};
use plimsoll_plan::timeline::{FaultTime, PlannedFault};
use plimsoll_record::data::Goal;

use crate::error::TrialError;
use crate::phase::RunContext;
use crate::sink::Told;
use crate::trial::{self, TrialStart};
use crate::writes;

/// Time that the machine is observed before a search.
const WATCH: Duration = Duration::from_secs(3);

/// Time after a fault in which a load step sees at least if throughput is back.
const BACK_S: f64 = 4.0;
/// Time before the first fault of a load step, for the throughput without it.
const BEFORE_S: f64 = 3.0;

/// The spec of the search that `line`, the plan's goals and the drive's faults come to.
pub fn spec(line: &LineSearch, goals: &[Goal], trial: Option<&PlannedTrial>) -> LineSpec {
    let faults = trial.into_iter().flat_map(PlannedTrial::drives).flat_map(|(_, drive)| &drive.faults);
    let faults: Vec<&PlannedFault> = faults.collect();
    let limits = goals.iter().filter(|goal| goal.what.is_of_faults() && goal.unit == "ns").map(|goal| goal.limit / 1e9);
    let back_s = limits.fold(0.0, f64::max) + BACK_S;
    LineSpec {
        goals: goals.to_vec(),
        start_rate_per_s: line.from_per_s,
        rate_min_per_s: line.least_per_s,
        rate_max_per_s: line.most_per_s.unwrap_or(LineSpec::default().rate_max_per_s),
        precision: line.precision,
        budget_s: line.budget_ns as f64 / 1e9,
        warmup_s: line.warmup_ns.map(|ns| ns as f64 / 1e9),
        thorough: line.thorough,
        faults: faults.iter().map(|fault| fault.name().to_owned()).collect(),
        rung_min_s: faults.iter().map(|fault| needed_s(fault, back_s)).fold(0.0, f64::max),
    }
}

/// Returns the shortest load step in which throughput is seen before `fault`, and for `back_s` after it was healed.
fn needed_s(fault: &PlannedFault, back_s: f64) -> f64 {
    let parts = |time: FaultTime| (time.ns as f64 / 1e9, time.percent / 100.0);
    let ((at_s, at_share), (lasts_s, lasts_share)) = (parts(fault.at), parts(fault.lasts.unwrap_or_default()));
    let needed_s = (at_s + lasts_s + back_s) / (1.0 - at_share - lasts_share).max(0.01);
    let before_s = if at_share > 0.0 { (BEFORE_S - at_s) / at_share.max(0.01) } else { 0.0 };
    needed_s.max(before_s)
}

/// Searches for the load line of `trial`, whose drive is held at one rate after the other, until it is found, the time is
/// up or the user wants an end. `first` is the position of the first rung among the run's trials. Returns how many rungs
/// there were.
///
/// # Errors
/// What a rung or the recording failed with.
pub fn search(
    context: &mut RunContext<'_>,
    store: &mut OpenStore,
    trial: &PlannedTrial,
    workload: &Arc<dyn Workload>,
    spec: &LineSpec,
    first: u32,
) -> Result<u32, TrialError> {
    context.ledger = None;
    let start = context.plan.start;
    let keeps = start != Start::Fresh && trial::goes_on(&**workload);
    let reads = !writes::asked(trial, &**workload).iter().any(|(_, kind)| kind.writes());
    let (mut driven, mut is_intact) = (0, true);
    let seen = context.witness.as_ref().map(|witness| witness.watch_for(WATCH, context.spec.stop));
    let finer = seen
        .filter(|_| !context.is_stopped())
        .and_then(|seen| line::finer_than_machine(&spec.goals, &|ns| seen.share_above(ns)));
    if let Some(finer) = finer {
        context.sinks.show(&Told::Remark(format!("  {finer}")));
    }
    let mut search = LineFold::new(spec, &trial.store.label);
    while !context.is_stopped() {
        let rung = match search.search().next() {
            Next::Rung(rung) => rung,
            Next::Done(result) if search.rungs().is_empty() => {
                return Err(TrialError::usage(result.sentence.trim_end_matches('.'))
                    .next("use a longer --budget, a higher --from, or goals of lower percentiles"));
            }
            Next::Done(result) => {
                say_result(context, &result);
                break;
            }
        };
        let asked = rung.asked_words();
        let number = rung.ordinal + 1;
        let name = format!("{}, load step {number}: {asked} ({})", trial.store.label, rung.purpose.name());
        context.sinks.show(&Told::Next(name));
        // Writes that stay lost are those of one load step: the next one begins with new data.
        let mut found = TrialStart { start, data: keeps && driven > 0 && is_intact };
        let mut one = of_rung(trial, &rung, search.search().may_last_s(&rung), first + driven);
        if reads && found.data {
            // Nothing was written since the store was settled and read back.
            found.start = Start::AsIs;
            one.phases.retain(|phase| phase.step != PhaseStep::Check);
        }
        context.rung = Some(rung);
        let done = trial::run(context, store, &one, Arc::clone(workload), found);
        context.rung = None;
        done?;
        driven += 1;
        let known = search.rungs().len();
        if let Some((trial, samples, series)) = context.sinks.fold().trial() {
            search.take(trial, samples, series);
            is_intact = trial.ledgers.iter().all(|ledger| ledger.lost == 0);
        }
        search.rungs().iter().skip(known).for_each(|rung| say_rung(context, rung));
    }
    Ok(driven)
}

/// The trial with its drive at the rung's rate, that counts for at most `most_s`.
fn of_rung(trial: &PlannedTrial, rung: &Rung, most_s: f64, ordinal: u32) -> PlannedTrial {
    let number = (rung.ordinal + 1).to_string();
    let phases = trial.phases.iter().map(|phase| match &phase.step {
        PhaseStep::Drive(drive) => {
            let (name, step) = (format!("{LOAD_STEP}_{number}"), PhaseStep::Drive(at(drive, rung, most_s)));
            PlannedPhase { name, step, ..phase.clone() }
        }
        _ => phase.clone(),
    });
    let mut labels = trial.labels.clone();
    labels.insert(LOAD_STEP.to_owned(), number.clone());
    PlannedTrial { ordinal, labels, phases: phases.collect(), ..trial.clone() }
}

/// The drive at the rung's rate. What pauses of the machine take from its time is added to it, up to `most_s` in all.
fn at(drive: &Drive, rung: &Rung, most_s: f64) -> Drive {
    let arrivals = match drive.pace {
        Pace::Open { arrivals, .. } => arrivals,
        Pace::Closed => Arrivals::Poisson,
    };
    let ns = |seconds: f64| (seconds * 1e9) as u64;
    Drive {
        pace: match rung.rate_per_s {
            Some(rate) => Pace::Open { rate: Rate::Constant(rate), arrivals },
            None => Pace::Closed,
        },
        limit: DriveLimit::DurationNs(ns(rung.seconds)),
        // With faults at their times, a longer load step would be another one.
        undisturbed_within_ns: drive.faults.is_empty().then(|| ns(most_s)),
        faults: if rung.rate_per_s.is_some() { drive.faults.clone() } else { Vec::new() },
        warmup_is_found: false,
        warmup_ns: ns(rung.warmup_s),
        ..drive.clone()
    }
}

/// Reports the result of the last rung: `  1,770/s held: 1,770/s done, p99 12.3 ms`.
fn say_rung(context: &RunContext<'_>, view: &RungView) {
    let mut text = format!("  {}", view.rung.asked_words());
    if view.state != RungState::Start {
        text.push_str(&format!(" {}", view.state.name().replace('_', " ")));
    }
    // What a rung measured that says nothing is no figure.
    if let Some(reason) = &view.reason {
        return context.sinks.show(&Told::Remark(format!("{text}: {reason}")));
    }
    text.push_str(&format!(": {} done", number::with_unit(view.rate_per_s, "1/s")));
    for goal in &view.goals {
        let value = goal.value_words().unwrap_or_else(|| "not measured".to_owned());
        text.push_str(&format!(", {} {value}", goal.name()));
    }
    context.sinks.show(&Told::Remark(text));
}

/// Reports the result in the report's words when the search is over: with several stores the others continue.
fn say_result(context: &RunContext<'_>, result: &LineResult) {
    for words in result_words(result) {
        context.sinks.show(&Told::Remark(format!("  {words}")));
    }
}

/// Returns the sentence of a result, and those on maintenance cycles and on a machine that was not equally fast.
fn result_words(result: &LineResult) -> Vec<String> {
    let cycle = result.cycle_words.as_ref().map(|words| format!("{words}."));
    let unequal = result.unequal_words.as_ref().map(|words| format!("{}.", number::capital(words)));
    [Some(result.sentence.clone()), cycle, unequal].into_iter().flatten().collect()
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
