//! Continuation of a run that was killed or stopped: the trials that stay, and the time at which its clock goes on.

use plimsoll_analysis::{number, promise};
use plimsoll_plan::model::Plan;
use plimsoll_record::data::{PhaseState, Run, Trial};

use crate::phase::RunContext;

/// Time between the last moment of a run that was killed and the first of its going on.
const GAP_NS: u64 = 1_000_000_000;

/// Returns the trials of `run` that came to their end, with all that they were to find out. `plan` is the run's.
pub(crate) fn kept(run: &Run, plan: &Plan) -> Vec<u32> {
    let are_cells = !run.header.outline.cells.is_empty();
    let is_whole = |trial: &&Trial| {
        let is_ended = trial.end_ns.is_some() && trial.phases.iter().all(|one| one.end.state == PhaseState::Complete);
        is_ended && if are_cells { is_known(trial) } else { has_last_phase(trial, plan) }
    };
    run.trials.iter().filter(is_whole).map(|trial| trial.header.ordinal).collect()
}

/// Returns true if the losses of a cell are known. An unread part may be read another time; losses that were seen stay.
fn is_known(trial: &Trial) -> bool {
    !trial.ledgers.is_empty() && trial.ledgers.iter().all(|one| one.complete || promise::is_broken(one))
}

/// Returns true if the last planned phase is recorded: the user may have wanted an end between two phases.
fn has_last_phase(trial: &Trial, plan: &Plan) -> bool {
    let planned = plan.trials.get(trial.header.ordinal as usize).map_or(0, |planned| planned.phases.len());
    trial.phases.last().is_some_and(|last| last.header.ordinal as usize + 1 == planned)
}

/// Returns the time at which the clock of `run` continues.
pub(crate) fn goes_on_ns(run: &Run) -> u64 {
    let trials = run.trials.iter().flat_map(|trial| trial.end_ns.into_iter().chain([trial.header.start_ns]));
    let phases = run.trials.iter().flat_map(|trial| trial.phases.iter().map(|phase| phase.end.end_ns));
    let samples = run.samples.iter().chain(&run.fine_samples).map(|sample| sample.at_ns);
    let rest = run.events.iter().map(|event| event.until_ns).chain(samples);
    trials.chain(phases).chain(rest).chain(run.end_ns).max().unwrap_or(0) + GAP_NS
}

/// Returns the message about resuming `run`.
pub(crate) fn goes_on_words(run: &Run, plan: &Plan) -> String {
    let (kept, of) = (kept(run, plan).len() as u64, u64::from(run.header.outline.trials));
    let are = if of == 1 { "is" } else { "are" };
    let outline = &run.header.outline;
    let of = match outline.cells.is_empty() {
        true => number::plural(of, "trial", "trials"),
        false => number::plural(of, "cut", "cuts"),
    };
    let of = if outline.until.is_some() { format!("at most {of}") } else { of };
    format!("resuming run {}: {} of {of} {are} recorded", run.header.id, number::count(kept))
}

impl RunContext<'_> {
    /// The trials that the run had completed before it was resumed.
    pub(crate) fn kept(&self) -> Vec<u32> {
        self.spec.before.map_or_else(Vec::new, |run| kept(run, self.plan))
    }
}
