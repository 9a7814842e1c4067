//! A plan's phase in the words of the drive loop and of a workload: what is asked, when, and whether it can be.

use std::time::Duration;

use plimsoll_core::{OpKind, StoreError, StoreSpec, StreamSpec, Workload};
use plimsoll_drive::{DriveSpec, Group, Limit, Undisturbed};
use plimsoll_plan::model::{self, PhaseStep};

use crate::error::TrialError;

/// Converts a drive of the plan; `seed` is that of its arrivals, and `context` has the values that the plan leaves
/// open.
pub fn of(drive: &model::Drive, seed: u64, context: &DriveSpec) -> DriveSpec {
    DriveSpec {
        limit: match drive.limit {
            model::DriveLimit::DurationNs(ns) => Limit::Duration(Duration::from_nanos(ns)),
            model::DriveLimit::OpsPerClient(ops) => Limit::Ops(ops),
        },
        undisturbed: undisturbed(drive),
        warmup: Duration::from_nanos(drive.warmup_ns),
        pace: drive.pace.clone(),
        think: drive.think,
        groups: drive.scenarios.iter().map(group).collect(),
        stages: drive.stages.clone(),
        reconnect: drive.reconnect,
        connect_timeout: drive.connect_timeout_ns.map(Duration::from_nanos),
        backoff: drive.backoff.unwrap_or_default(),
        retry: drive.retry,
        breaker: drive.breaker,
        seed,
        op_timeout: Duration::from_nanos(drive.op_timeout_ns),
        depth: drive.depth,
        backlog: Duration::from_nanos(drive.backlog_ns),
        wake: drive.wake,
        io: if drive.io == model::Io::Auto { context.io } else { drive.io },
        pin: drive.pin.clone(),
        each_max: drive.keep_operations.map_or(0, |most| most as usize),
        workers: drive.workers,
        ..context.clone()
    }
}

fn group(scenario: &model::Scenario) -> Group {
    let model::Scenario { clients, workers, pace, think, .. } = scenario;
    Group { sessions: *clients, workers: *workers, pace: pace.clone(), think: *think }
}

/// Returns the part of a timed drive that must be undisturbed, if the plan requires it.
fn undisturbed(drive: &model::Drive) -> Option<Undisturbed> {
    match (drive.limit, drive.undisturbed_within_ns) {
        (model::DriveLimit::DurationNs(ns), Some(within_ns)) => {
            Some(Undisturbed { at_least: Duration::from_nanos(ns), at_most: Duration::from_nanos(within_ns) })
        }
        _ => None,
    }
}

/// Checks that `workload` has the operations of every phase of `trial`, and that the store supports its interface; an
/// error names the one that does not.
pub fn can_ask(trial: &model::PlannedTrial, workload: &dyn Workload, store: &StoreSpec) -> Result<(), TrialError> {
    for phase in &trial.phases {
        let spec = match &phase.step {
            PhaseStep::Load { batch, clients, .. } if !filled_by_statements(workload) => {
                StreamSpec::Load { batch: *batch, clients: *clients }
            }
            PhaseStep::Ask { op, .. } => StreamSpec::One { kind: op.clone(), clients: 1 },
            PhaseStep::Drive(drive) => mix(drive),
            _ => continue,
        };
        workload.stream(&spec).map_err(|why| TrialError::usage(format!("phase {}: {why}", phase.name)))?;
        if let Some(kind) = unspoken(&spec, workload, store) {
            let refused = kind.refused(&format!("the store `{}`", store.name));
            let what = format!("phase {}: {}", phase.name, refused.what);
            return Err(StoreError { what, ..refused });
        }
    }
    Ok(())
}

/// The operations of a drive. Each place in a pipeline is a client of its own.
pub(crate) fn mix(drive: &model::Drive) -> StreamSpec {
    StreamSpec::Mix { mix: drive.mix.clone(), clients: drive.clients.saturating_mul(drive.depth) }
}

/// Returns true if operations of the drive have several steps. Errors of the stream itself are reported by its first
/// user.
pub(crate) fn has_steps(drive: &model::Drive, workload: &dyn Workload) -> bool {
    workload.stream(&mix(drive)).is_ok_and(|stream| stream.steps(0).is_some())
}

/// A kind that `spec` asks for and that needs an interface which the store does not speak. A workload may have kinds that
/// not every store of its own interfaces can do.
fn unspoken<'w>(spec: &StreamSpec, workload: &'w dyn Workload, store: &StoreSpec) -> Option<&'w OpKind> {
    let asked = |name: &str| match spec {
        StreamSpec::Load { .. } => false,
        StreamSpec::One { kind, .. } => kind == name,
        StreamSpec::Mix { mix, .. } => mix.iter().any(|(kind, share)| kind == name && *share > 0),
    };
    let is_unspoken = |kind: &&OpKind| kind.interface().is_some_and(|one| !store.interfaces.contains(&one));
    workload.kinds().iter().filter(|kind| asked(&kind.name)).find(is_unspoken)
}

/// Returns true if there is nothing to load: no tables, no statements that fill them, no records.
pub(crate) fn nothing_to_load(workload: &dyn Workload) -> bool {
    workload.layout().statements.is_empty() && filled_by_statements(workload)
}

/// Returns true if making the layout is the whole load: its statements fill what they make, or there is nothing to
/// fill.
pub(crate) fn filled_by_statements(workload: &dyn Workload) -> bool {
    workload.layout().collections.is_empty() && workload.stream(&StreamSpec::Load { batch: 1, clients: 1 }).is_err()
}
