//! Actions on a store's servers and disk: by commands for a lab, by the lab itself, and by the plan.

use plimsoll_record::data::{Event, EventClass, Run};

use crate::number;
use crate::view::ActMark;

/// Returns the actions of a run, in time order.
fn acts(run: &Run) -> impl Iterator<Item = &Event> {
    run.events.iter().filter(|event| matches!(event.class, EventClass::Servers | EventClass::Disk))
}

/// Returns the actions as marks on the time axis.
pub fn marks(run: &Run) -> Vec<ActMark> {
    let mark = |event: &Event| ActMark {
        start_s: event.from_ns as f64 / 1e9,
        end_s: event.until_ns as f64 / 1e9,
        name: event.text.clone(),
    };
    acts(run).map(mark).collect()
}

/// Describes the actions of a trial that took place in one of `spans`, each with its time; of many, the first `max`.
pub fn during(run: &Run, trial: u32, spans: &[(u64, u64)], max: usize) -> Vec<String> {
    let is_in = |event: &&Event| spans.iter().any(|(from, to)| event.from_ns <= *to && event.until_ns >= *from);
    let all: Vec<&Event> = acts(run).filter(|event| event.trial == Some(trial)).filter(is_in).collect();
    let mut named: Vec<String> =
        all.iter().take(max).map(|event| format!("{} at {:.2} s", event.text, event.from_ns as f64 / 1e9)).collect();
    let more = all.len().saturating_sub(max) as u64;
    named.extend((more > 0).then(|| number::plural(more, "further action", "further actions")));
    named
}
