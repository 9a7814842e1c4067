//! Operations that were recorded one by one as rows, for calculations in other programs.

use std::rc::Rc;

use plimsoll_record::data::{Operation, Run};

use crate::name;
use crate::number;
use crate::phase::PhaseFacts;

/// Operation of a driven phase.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationRow<'a> {
    /// Position of the trial in the plan.
    pub trial_ordinal: u32,
    /// Name of the trial.
    pub trial: Rc<str>,
    /// Position of the phase in the trial.
    pub phase_ordinal: u32,
    /// Name of the phase.
    pub phase: &'a str,
    /// Operation type.
    pub op: &'a str,
    /// Client, outcome and times.
    pub operation: &'a Operation,
}

/// Returns every operation that was recorded one by one, in the order of the phases and of their ends.
pub fn operations(run: &Run) -> impl Iterator<Item = OperationRow<'_>> {
    let phases = run.trials.iter().flat_map(|trial| trial.phases.iter().map(move |phase| (trial, phase)));
    phases.flat_map(|(trial, phase)| {
        let facts = PhaseFacts::begun(trial, phase);
        let name: Rc<str> = name::trial(&trial.header).into();
        let each = phase.operations.iter().flat_map(|operations| &operations.each);
        each.map(move |operation| OperationRow {
            trial_ordinal: trial.header.ordinal,
            trial: Rc::clone(&name),
            phase_ordinal: phase.header.ordinal,
            phase: &phase.header.name,
            op: facts.op_name(operation.kind),
            operation,
        })
    })
}

/// Returns a sentence for each phase of which later operations were not kept: the number that were, and the time.
pub fn cut_short(run: &Run) -> Vec<String> {
    let phases = run.trials.iter().flat_map(|trial| trial.phases.iter().map(move |phase| (trial, phase)));
    let said = phases.filter_map(|(trial, phase)| {
        let operations = phase.operations.as_ref()?;
        let until_s = operations.until_ns? as f64 / 1e9;
        let (kept, trial) = (number::count(operations.each.len() as u64), name::trial(&trial.header));
        let name = &phase.header.name;
        Some(format!("operations: the first {kept} of {trial}, phase {name}: those that ended before {until_s:.3} s"))
    });
    said.collect()
}
