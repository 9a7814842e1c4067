//! Actions on a store's servers and disk: by commands for a lab, by the lab itself, and faults of the plan.

use plimsoll_record::data::{EventClass, FaultSpan, Run};

use crate::name;
use crate::number;
use crate::view::ActMark;

/// Time after a command for a lab in which its effect may begin.
const AFTER_NS: u64 = 5_000_000_000;

/// An action.
struct Act {
    trial: Option<u32>,
    from_ns: u64,
    until_ns: u64,
    name: String,
}

/// Returns the actions of a run, in time order. A fault lasts until it is healed, or until the end of its phase.
fn acts(run: &Run) -> Vec<Act> {
    let events = run.events.iter().filter(|event| event.class.is_action()).map(|event| Act {
        trial: event.trial,
        from_ns: event.from_ns,
        until_ns: event.until_ns,
        name: event.text.clone(),
    });
    let faults = run.faults().filter(|span| !span.detail.is_skipped).map(|span| Act {
        trial: Some(span.trial),
        from_ns: span.begun_ns,
        until_ns: span.healed_ns.unwrap_or_else(|| phase_end_ns(run, span)).max(span.begun_ns),
        name: name::fault(span),
    });
    let mut all: Vec<Act> = events.chain(faults).collect();
    all.sort_by_key(|act| act.from_ns);
    all
}

/// End of the phase of a fault; 0 if it is not known.
fn phase_end_ns(run: &Run, span: &FaultSpan) -> u64 {
    let trial = run.trials.iter().find(|trial| trial.header.ordinal == span.trial);
    let phases = trial.into_iter().flat_map(|trial| &trial.phases);
    phases.filter(|phase| phase.header.ordinal == span.phase).map(|phase| phase.end.end_ns).max().unwrap_or(0)
}

/// Returns the actions as marks on the time axis.
pub fn marks(run: &Run) -> Vec<ActMark> {
    let mark =
        |act: Act| ActMark { start_s: act.from_ns as f64 / 1e9, end_s: act.until_ns as f64 / 1e9, name: act.name };
    acts(run).into_iter().map(mark).collect()
}

/// Describes the actions of a trial that took place in one of `spans`, each with its time; of many, the first `max`.
pub fn during(run: &Run, trial: u32, spans: &[(u64, u64)], max: usize) -> Vec<String> {
    named(run, trial, max, |act| spans.iter().any(|(from, to)| act.from_ns <= *to && act.until_ns >= *from))
}

/// Describes the actions of a trial that began in this time, each with its time; of many, the first `max`.
pub fn begun(run: &Run, trial: u32, (from, to): (u64, u64), max: usize) -> Vec<String> {
    named(run, trial, max, |act| (from..=to).contains(&act.from_ns))
}

/// Returns true if a command for the lab of a trial was carried out in this time, or shortly before. A node that ended by
/// itself, and its automatic restart, are no commands.
pub fn is_commanded(run: &Run, trial: u32, (from_ns, to_ns): (u64, u64)) -> bool {
    run.events.iter().any(|event| {
        let is_then = event.from_ns <= to_ns && event.until_ns + AFTER_NS >= from_ns;
        event.class == EventClass::Command && event.trial == Some(trial) && is_then
    })
}

fn named(run: &Run, trial: u32, max: usize, is_in: impl Fn(&Act) -> bool) -> Vec<String> {
    let mut all = acts(run);
    all.retain(|act| act.trial == Some(trial) && is_in(act));
    let mut named: Vec<String> =
        all.iter().take(max).map(|act| name::at(&act.name, act.from_ns as f64 / 1e9)).collect();
    let more = all.len().saturating_sub(max) as u64;
    named.extend((more > 0).then(|| number::plural(more, "further action", "further actions")));
    named
}
