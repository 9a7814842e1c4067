//! Operations of a driven phase that the plan wants to have one by one.

use plimsoll_drive::{DriveResult, OpTime};
use plimsoll_plan::keys::KEEP_OPERATIONS_MAX;
use plimsoll_plan::model;
use plimsoll_record::data::{EventClass, Level, Operation, Operations};

use crate::error::TrialError;
use crate::phase::TrialRun;

impl TrialRun<'_, '_> {
    /// Records the operations of phase `ordinal` one by one if the plan wants that, and reports if some are missing.
    pub(crate) fn record_operations(
        &self,
        ordinal: u32,
        drive: &model::Drive,
        result: &DriveResult,
    ) -> Result<(), TrialError> {
        let Some(wanted) = drive.keep_operations else {
            return Ok(());
        };
        let sinks = self.context.sinks;
        let operations = in_order(&result.each, &result.hung, result.each_until_ns);
        if let Some(text) = missing(&operations, result.hung.len(), wanted) {
            sinks.event(Some(self.trial.ordinal), Level::Info, EventClass::Drive, "", text)?;
        }
        Ok(sinks.recorder.operations(self.trial.ordinal, ordinal, operations)?)
    }
}

/// Returns operations that ended before `until_ns`, and those that did not return, in the order of their ends.
fn in_order(each: &[OpTime], hung: &[OpTime], until_ns: Option<u64>) -> Operations {
    let is_kept = |op: &&OpTime| until_ns.is_none_or(|until_ns| op.end_ns < until_ns);
    let operation = |op: &OpTime| Operation {
        kind: op.kind,
        client: op.client,
        outcome: op.outcome,
        due_ns: op.scheduled_ns,
        sent_ns: op.sent_ns,
        end_ns: op.end_ns,
    };
    let mut each: Vec<Operation> = each.iter().chain(hung).filter(is_kept).map(operation).collect();
    each.sort_unstable_by_key(|op| (op.end_ns, op.client));
    Operations { each, until_ns }
}

/// Describes the operations that are missing of the `wanted` ones, with the number of clients whose last operation did
/// not return, and the next step; `None` if all are there.
fn missing(operations: &Operations, hung: usize, wanted: u32) -> Option<String> {
    let kept = format!("{} operations were recorded one by one", operations.each.len());
    match operations.until_ns {
        Some(until_ns) => {
            let next = match wanted < KEEP_OPERATIONS_MAX {
                true => "a larger keep_operations records more",
                false => "a shorter phase, or a lower rate, has fewer",
            };
            Some(format!("{kept}: those that ended before {:.3} s; {next}", until_ns as f64 / 1e9))
        }
        None if hung > 0 => Some(format!(
            "{kept}, without those of clients whose last operation did not return; a longer op_timeout waits longer \
             for it"
        )),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::Outcome;

    use super::*;

    fn op(client: u32, end_ns: u64) -> OpTime {
        OpTime { client, cycle: 0, kind: 1, outcome: Outcome::Ok, scheduled_ns: 1, sent_ns: 2, end_ns, rows: 0 }
    }

    #[test]
    fn operations_are_in_the_order_of_their_ends_with_those_that_did_not_return() {
        let ends = |until_ns| {
            let operations = in_order(&[op(0, 9), op(1, 5)], &[op(2, 7), op(3, 20)], until_ns);
            operations.each.iter().map(|op| (op.client, op.end_ns)).collect::<Vec<_>>()
        };
        assert_eq!(ends(None), [(1, 5), (2, 7), (0, 9), (3, 20)]);
        assert_eq!(ends(Some(20)), [(1, 5), (2, 7), (0, 9)]);
    }

    #[test]
    fn missing_operations_are_reported_with_the_time_of_the_cut_and_a_next_step() {
        let told = |until_ns, hung| missing(&in_order(&[op(0, 9)], &[], until_ns), hung, 1_000);
        assert_eq!(told(None, 0), None);
        let cut = told(Some(1_234_000_000), 0).unwrap();
        assert!(cut.ends_with("those that ended before 1.234 s; a larger keep_operations records more"), "{cut}");
        let hung = told(None, 1).unwrap();
        assert!(hung.contains("did not return; a longer op_timeout"), "{hung}");
        let most = missing(&in_order(&[op(0, 9)], &[], Some(5)), 0, KEEP_OPERATIONS_MAX).unwrap();
        assert!(most.ends_with("; a shorter phase, or a lower rate, has fewer"), "{most}");
    }
}
