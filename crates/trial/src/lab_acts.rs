//! Events of what others do to a lab during a trial: at their own times, however late they are read.

use plimsoll_lab::OpenStore;
use plimsoll_lab::standing::LabAct;
use plimsoll_record::data::{Event, EventClass, Level};

use crate::error::TrialError;
use crate::sink::{Sinks, Told};

/// Shortest duration of an action that its event names, in seconds.
const TOLD_S: f64 = 0.1;

/// Records what was done to the lab of a trial since the last call; at the trial's end (`is_last`) also what has begun.
///
/// # Errors
/// Errors of reading the lab's log, and of the recording.
pub fn tell(
    sinks: &Sinks<'_>,
    store: &OpenStore,
    (trial, label): (u32, &str),
    is_last: bool,
) -> Result<(), TrialError> {
    for LabAct { what, is_command, from_ns, until_ns } in store.lab_acts(is_last)? {
        let from_ns = sinks.clock.of_monotonic(from_ns);
        let ended_ns = until_ns.map(|until_ns| sinks.clock.of_monotonic(until_ns));
        let until_ns = ended_ns.unwrap_or_else(|| sinks.clock.now_ns());
        let seconds = until_ns.saturating_sub(from_ns) as f64 / 1e9;
        let text = match ended_ns {
            None => format!("{what} (not finished when the trial ended)"),
            Some(_) if seconds >= TOLD_S => format!("{what} (took {seconds:.2} s)"),
            Some(_) => what,
        };
        let class = if is_command { EventClass::Command } else { EventClass::Servers };
        let (trial, subject) = (Some(trial), label.to_owned());
        sinks.tell(Told::Event(Event { from_ns, until_ns, trial, level: Level::Warning, class, subject, text }))?;
    }
    Ok(())
}
