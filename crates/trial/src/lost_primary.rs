//! Notices of faults that take the primary until the end of their phase from a store whose replicas do not take over by
//! themselves.

use plimsoll_core::{Catalogue, LinkPeers, NodeChoice};
use plimsoll_plan::model::{Plan, PlannedTrial};
use plimsoll_plan::timeline::{FaultAction, PlannedFault};

use crate::fault_check::recipe;

/// Fault that brings a primary back, whenever it was lost.
const PROMOTION: &str = "promote replica when clients.silence > 2s";

/// Returns a notice for each phase in which clients stay without a primary, with the fault that changes this.
pub fn lost_primaries(catalogue: &Catalogue, plan: &Plan) -> Vec<String> {
    let mut notices = Vec::new();
    for trial in plan.trials.iter().filter(|trial| trial.repeat == 0 && is_promoted_by_command(catalogue, trial)) {
        let is_promotion = |fault: &PlannedFault| matches!(fault.what, FaultAction::Promote(_));
        let is_as_made =
            trial.store.lab().is_none() && !trial.drives().any(|(_, drive)| drive.faults.iter().any(is_promotion));
        for (phase, drive) in trial.drives() {
            // A command of the user may promote a replica, too.
            if drive.faults.iter().any(|fault| is_promotion(fault) || fault.is_of_user()) {
                continue;
            }
            let Some(fault) = drive.faults.iter().find(|fault| takes_primary(fault, is_as_made)) else { continue };
            let notice = format!(
                "phase {phase}: {fault}: no replica of {} takes over by itself, so clients have no primary until the phase \
                 ends → add the fault `{PROMOTION}`",
                trial.store.label
            );
            if !notices.contains(&notice) {
                notices.push(notice);
            }
        }
    }
    notices
}

/// Returns true if replicas of the trial's store become the primary by a command, and not otherwise.
fn is_promoted_by_command(catalogue: &Catalogue, trial: &PlannedTrial) -> bool {
    // Errors are those of the check of the plan.
    let recipe = recipe(&trial.store, catalogue).ok().flatten();
    recipe
        .is_some_and(|recipe| recipe.promotes().is_ok() && !recipe.switches_over() && recipe.failover_time().is_none())
}

/// Returns true if clients cannot reach the primary from the beginning of a fault to the end of its phase. Node 1 is the
/// primary of a store that is still as it was made.
fn takes_primary(fault: &PlannedFault, is_as_made: bool) -> bool {
    let is_of_primary = match fault.what.nodes() {
        Some(NodeChoice::Primary) => true,
        Some(NodeChoice::Number(1)) => is_as_made,
        _ => false,
    };
    let is_lost = match &fault.what {
        FaultAction::Kill(_) | FaultAction::Stop(_) | FaultAction::Pause(_) => true,
        FaultAction::Link(_, link) => link.is_cut() && matches!(link.peers, LinkPeers::All | LinkPeers::Clients),
        _ => false,
    };
    is_of_primary && is_lost && fault.lasts.is_none()
}
