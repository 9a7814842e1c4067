//! Notices of faults that take the primary until the end of their phase from a store whose replicas do not take over by
//! themselves.

use plimsoll_core::{Catalogue, LinkPeers, NodeChoice};
use plimsoll_plan::model::{Drive, DriveLimit, Plan, PlannedTrial};
use plimsoll_plan::timeline::{FaultAction, PlannedFault};

use crate::fault_check::recipe;

/// Fault that brings a primary back, whenever it was lost.
const PROMOTION: &str = "promote replica when clients.silence > 2s";
/// Silence that it waits for.
const SILENCE_NS: u64 = 2_000_000_000;

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
            let length_ns = length_ns(plan, drive);
            let lost = drive
                .faults
                .iter()
                .filter(|fault| of_primary(fault, is_as_made))
                .find_map(|fault| Some((fault, lost_from_ns(fault, length_ns, trial.seed)?)));
            let Some((fault, from_ns)) = lost else { continue };
            let has_time = length_ns.is_none_or(|length_ns| length_ns.saturating_sub(from_ns) > SILENCE_NS);
            let earlier = if has_time { "" } else { "let the phase last longer, and " };
            let notice = format!(
                "phase {phase}: {fault}: no replica of {} takes over by itself, so clients have no primary until the phase \
                 ends → {earlier}add the fault `{PROMOTION}`",
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

/// Returns the length of a phase, with its warm-up; `None` if its number of operations ends it, or for a load step.
fn length_ns(plan: &Plan, drive: &Drive) -> Option<u64> {
    match drive.limit {
        DriveLimit::DurationNs(ns) if plan.line.is_none() => Some(drive.warmup_ns.saturating_add(ns)),
        _ => None,
    }
}

/// Returns the earliest beginning of a fault that is in effect at the end of its phase; `None` if it is healed before.
fn lost_from_ns(fault: &PlannedFault, length_ns: Option<u64>, seed: u64) -> Option<u64> {
    let Some(length_ns) = length_ns else { return fault.lasts.is_none().then_some(0) };
    let moments = fault.moments(Some(length_ns), seed);
    let to_end = moments.iter().find(|moment| moment.until_ns.is_none_or(|until_ns| until_ns >= length_ns));
    to_end.map(|moment| moment.at_ns)
}

/// Returns true if clients cannot reach the primary during a fault. Node 1 is the primary of a store that is still as it
/// was made.
fn of_primary(fault: &PlannedFault, is_as_made: bool) -> bool {
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
    is_of_primary && is_lost
}
