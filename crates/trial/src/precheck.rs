//! Errors that can be detected before anything is started or filled.

use std::collections::BTreeSet;

use plimsoll_analysis::number;
use plimsoll_core::fault::DELAY_MAX;
use plimsoll_core::{DiskSpec, NodeChoice, OBSERVED_LEAST_NS, Recipe, SessionShape, StoreSpec, Workload};
use plimsoll_plan::model::{Drive, DriveLimit, PhaseStep, Plan, PlannedPhase, PlannedTrial, Start, WakeMode};
use plimsoll_plan::timeline::{FaultTime, REPEATS_MAX, overlap};
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::drive_spec::has_steps;
use crate::error::{TrialError, io_error};
use crate::needs::{driving_threads, is_blocking};

/// Refuses what `plan` asks of the machine and cannot be had from it.
///
/// # Errors
/// A processor or directory that is not there.
pub fn plan(plan: &Plan) -> Result<(), TrialError> {
    processors("server_pin", &plan.server_pin)?;
    if let Some(dir) = plan.dir.as_deref().filter(|dir| !std::path::Path::new(dir).is_dir()) {
        let what = format!("`dir`: there is no directory {dir}");
        return Err(TrialError::usage(what).next("make it, or name another"));
    }
    if plan.dir.is_some() && plan.trials.iter().all(|trial| !trial.store.is_private()) {
        let what = "`dir` is for stores that are started here, and all of these run already";
        return Err(TrialError::usage(what).next("leave `dir` out: the data is where those servers keep it"));
    }
    for trial in &plan.trials {
        trial.drives().try_for_each(|(_, drive)| processors("pin", &drive.pin))?;
        if !plan.server_pin.is_empty() && !trial.store.is_private() {
            let what =
                format!("`server_pin` is for servers that are started here, and {} runs already", trial.store.label);
            return Err(TrialError::usage(what).next("leave `server_pin` out, and bind that server where it runs"));
        }
    }
    Ok(())
}

/// Refuses a trial of `plan` that needs data of no load, a pipeline if there can be none, or more processors than there
/// are.
///
/// # Errors
/// Which it is, and what to write instead.
pub fn trial(plan: &Plan, trial: &PlannedTrial, workload: &dyn Workload, store: &StoreSpec) -> Result<(), TrialError> {
    let starts_empty = trial.store.is_private() && store.keeps_data;
    if starts_empty && plan.start == Start::AsIs && !trial.loads() {
        let what = format!("nothing is loaded, and a new {} starts empty", trial.store.label);
        return Err(TrialError::usage(what).next(
            "leave `--no-load` (or `start = \"as-is\"`) out, add a phase with do = \"load\", or name the URL of a store \
             that holds the data",
        ));
    }
    power(trial, store)?;
    faults(trial)?;
    spinning(plan, trial, workload, store)?;
    for (name, _) in trial.drives().filter(|(_, drive)| drive.reconnect.is_some()) {
        if store.sessions.shape != SessionShape::Wire {
            let what = format!("phase {name}: {} has no connections to reopen", store.name);
            return Err(TrialError::usage(what).next("leave out `reconnect`"));
        }
    }
    for (name, drive) in trial.drives() {
        let keys = [("connect_timeout", drive.connect_timeout_ns.is_some()), ("backoff", drive.backoff.is_some())];
        if let Some((key, _)) = keys.into_iter().find(|(_, is_given)| *is_given && !has_sockets(store)) {
            let what = format!("phase {name}: {} has no connections to lose", store.name);
            return Err(TrialError::usage(what).next(format!("leave out `{key}`")));
        }
    }
    let mut drives = trial.drives();
    if let Some((name, _)) = drives.find(|(_, drive)| drive.retry.is_some() && has_steps(drive, workload)) {
        let what = format!("phase {name}: operations of several steps (transactions, scripts) are not sent again");
        let next = "leave out `retry`; `max_tries` of the workload repeats transactions after a serialization failure \
                    or deadlock";
        return Err(TrialError::usage(what).next(next));
    }
    for (name, drive) in trial.drives().filter(|(_, drive)| drive.depth > 1) {
        if drive.reconnect.is_some() {
            let what = format!("phase {name}: connections with a depth of {} cannot be reopened", drive.depth);
            return Err(TrialError::usage(what).next("use a depth of 1, or leave out `reconnect`"));
        }
        if has_steps(drive, workload) {
            let what = format!(
                "phase {name}: a depth of {} would mix the steps of several operations (transactions, scripts) in one \
                 session",
                drive.depth
            );
            return Err(TrialError::usage(what)
                .next("use a depth of 1 and more clients; scripts pipeline with \\startpipeline"));
        }
    }
    Ok(())
}

/// Refuses faults at times that their phase never reaches or at which too little of it is left, shares of a phase of
/// unknown length, too many repeats, and faults that exclude each other.
fn faults(trial: &PlannedTrial) -> Result<(), TrialError> {
    for (name, drive) in trial.drives() {
        let length_ns = match drive.limit {
            DriveLimit::DurationNs(ns) => Some(ns.saturating_add(drive.warmup_ns)),
            DriveLimit::OpsPerClient(_) => None,
        };
        let refused = |what: String, next: &str| Err(TrialError::usage(format!("phase {name}: {what}")).next(next));
        let is_share = |time: FaultTime| time.percent > 0.0;
        for fault in &drive.faults {
            if fault.every_ns.is_some() && length_ns.is_none() {
                let what = format!("{fault}: a phase that counts operations has no length to repeat it in");
                return refused(what, "give the phase a duration, or leave `every` out");
            }
            let Some(length_ns) = length_ns else {
                if is_share(fault.at) || fault.lasts.is_some_and(is_share) {
                    let what = format!("{fault}: the length of the phase is not known, because it counts operations");
                    return refused(what, "write times: at 10s for 3s; or give the phase a duration");
                }
                continue;
            };
            if fault.at.ns(Some(length_ns)).is_none_or(|at_ns| at_ns >= length_ns) {
                let length = number::seconds(length_ns as f64 / 1e9);
                let what = format!("it ends after {length}, before the time of its fault: {fault}");
                return refused(what, "choose an earlier `at`, or a longer `for` of the phase");
            }
            let is_late = |at_ns: u64| at_ns.saturating_add(OBSERVED_LEAST_NS) > length_ns;
            if !fault.outlasts_phase() && fault.at.ns(Some(length_ns)).is_some_and(is_late) {
                let least = number::seconds(OBSERVED_LEAST_NS as f64 / 1e9);
                let what = format!("less than {least} of load is left after {fault}, so its effect is not observed");
                return refused(what, "choose an earlier `at`, or a longer `for` of the phase");
            }
        }
        let repeats: u64 = drive.faults.iter().map(|fault| fault.repeats(length_ns.unwrap_or_default())).sum();
        if repeats > REPEATS_MAX as u64 {
            let (repeats, most) = (number::count(repeats), number::count(REPEATS_MAX as u64));
            let what = format!("its repeated faults come {repeats} times, and may come {most} times");
            return refused(what, "choose a longer `every`, or a shorter `for` of the phase");
        }
        if let Some((one, other)) = overlap(&drive.faults, length_ns) {
            let what = format!("`{other}` falls into `{one}`, and both cannot be in effect");
            return refused(what, "choose other times or nodes; `for` ends a fault");
        }
    }
    Ok(())
}

/// Refuses power cuts without a simulated disk.
fn power(trial: &PlannedTrial, store: &StoreSpec) -> Result<(), TrialError> {
    let disk = DiskSpec::of(&trial.store.params).filter(|_| trial.store.is_private());
    let ends_by_cut =
        |phase: &PlannedPhase| matches!(&phase.step, PhaseStep::Drive(drive) if drive.power_cut.is_some());
    let is_power = |phase: &PlannedPhase| matches!(phase.step, PhaseStep::Power { .. });
    for (at, phase) in trial.phases.iter().enumerate().filter(|(_, phase)| ends_by_cut(phase)) {
        if !trial.phases.get(at + 1).is_some_and(is_power) {
            let what = format!("phase {}: after its power cut the store has no power", phase.name);
            return Err(TrialError::usage(what).next("put a phase with do = \"power\" directly after it"));
        }
    }
    let mut was_cut = false;
    for phase in &trial.phases {
        if is_power(phase) && was_cut {
            let what =
                format!("phase {}: the result of the power cut before it would not have been checked", phase.name);
            return Err(TrialError::usage(what).next("put a phase with do = \"check\" between them"));
        }
        was_cut = is_power(phase) || (was_cut && !matches!(phase.step, PhaseStep::Check));
    }
    if disk.is_some_and(|disk| disk.ignores_flushes) && !trial.phases.iter().any(ends_by_cut) {
        let what = format!(
            "disk_flushes of {}: flushes are ignored from the first drive on, and no drive ends by a power cut, which would show it",
            trial.store.label
        );
        return Err(TrialError::usage(what).next("give a drive a `power_cut`, or leave `disk_flushes` out"));
    }
    if let Some((mistake, next)) = DiskSpec::mistake(&trial.store.params).filter(|_| trial.store.is_private()) {
        return Err(TrialError::usage(format!("{mistake}: the store {}", trial.store.label)).next(next));
    }
    if disk.is_some_and(|disk| disk.flush_time > DELAY_MAX) {
        let what = format!("disk_flush_time of {}: more than {} s", trial.store.label, DELAY_MAX.as_secs());
        return Err(
            TrialError::usage(what).next("use a shorter time: operations that wait for a disk cannot be interrupted")
        );
    }
    let of_power = |phase: &&PlannedPhase| ends_by_cut(phase) || is_power(phase);
    let Some(phase) = trial.phases.iter().find(of_power) else { return Ok(()) };
    if let Some(disk) = disk {
        let Some(several) = disk.several() else { return Ok(()) };
        let what = format!(
            "phase {}: the data of {} is on several devices ({several}), which do not lose power",
            phase.name, trial.store.label
        );
        return Err(TrialError::usage(what).next("leave `disk_layout` and `log_disk` out where power is cut"));
    }
    let what = format!("phase {}: the disk of {} cannot lose power", phase.name, trial.store.label);
    Err(TrialError::usage(what).next(match trial.store.is_private() && store.keeps_data {
        true => format!("put it on one that can: {{ store = \"{}\", disk = \"ext4\" }}", store.name),
        false => "only a store that is started here, and keeps data, can be put on one that can".to_owned(),
    }))
}

/// Refuses the power of nodes that there are not, of servers as `recipe` makes them; `None`: the store has none, or one that a plan
/// describes.
///
/// # Errors
/// Which it is, and which there are.
pub fn power_node(trial: &PlannedTrial, recipe: Option<&dyn Recipe>) -> Result<(), TrialError> {
    for (phase, drive) in trial.drives() {
        let (node, label) = (drive.power_node, &trial.store.label);
        let several = recipe.filter(|recipe| recipe.spec().nodes > 1);
        let (what, next) = match (node, several) {
            (NodeChoice::All, _) => continue,
            (_, None) => {
                let next = "leave `power_node` out, or use a store of several nodes".to_owned();
                (format!("{label} has no nodes"), next)
            }
            (NodeChoice::Number(number), Some(recipe))
                if (number as usize) <= recipe.spec().nodes && !recipe.keeps_data(number as usize - 1) =>
            {
                let there = (1..=recipe.spec().nodes).filter(|number| recipe.keeps_data(number - 1));
                let there = there.map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
                let what = format!("node {number} of {label} keeps no data");
                (what, format!("write \"all\", or the number of a node: {there}"))
            }
            (_, Some(recipe)) => match no_such_node(node, label, recipe) {
                Some(found) => found,
                None => continue,
            },
        };
        return Err(TrialError::usage(format!("phase {phase}: power_node = {node}: {what}")).next(next));
    }
    Ok(())
}

/// Returns the reason that servers of `recipe` have no such node or role, and advice; `None` if they have.
pub fn no_such_node(choice: NodeChoice, label: &str, recipe: &dyn Recipe) -> Option<(String, String)> {
    if matches!(choice, NodeChoice::Minority | NodeChoice::Majority) && !recipe.all_nodes_vote() {
        let what = format!("not all nodes of {label} vote, so a {choice} of them says nothing about the votes");
        return Some((what, "name the nodes: nodes 1,2".to_owned()));
    }
    let nodes = recipe.spec().nodes;
    let absent = choice.numbers().into_iter().find(|number| *number as usize > nodes);
    let what = match (choice, absent) {
        (_, Some(number)) => format!("{label} has no node {number}"),
        (NodeChoice::Replica, _) if nodes < 2 => format!("{label} has no replica: it has one node"),
        (NodeChoice::Minority, _) if choice.count(nodes) == 0 => {
            format!("{label} has no minority: it has {}", number::plural(nodes as u64, "node", "nodes"))
        }
        _ => return None,
    };
    let next = match nodes {
        1 => "write all: there is one node".to_owned(),
        nodes => format!("write all, or the number of a node: 1 to {nodes}"),
    };
    Some((what, next))
}

/// Refuses processors that this program may not use.
fn processors(key: &str, wanted: &[u32]) -> Result<(), TrialError> {
    if wanted.is_empty() {
        return Ok(());
    }
    let there = own_processors()?;
    match wanted.iter().find(|processor| !there.contains(&(**processor as usize))) {
        None => Ok(()),
        Some(missing) => Err(TrialError::usage(format!("`{key}`: there is no processor {missing} here")).next(
            format!("this program may use: {}", there.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
        )),
    }
}

/// Returns the processors that this process may use.
fn own_processors() -> Result<Vec<usize>, TrialError> {
    let ours =
        sched_getaffinity(None).map_err(|errno| io_error("reading the processors of this process", &errno.into()))?;
    Ok((0..CpuSet::MAX_CPU).filter(|processor| ours.is_set(*processor)).collect())
}

/// Refuses more threads that watch the clock than processors that are free for them. Two on one processor are late by
/// whole turns of the scheduler, and so is a server beside them.
fn spinning(plan: &Plan, trial: &PlannedTrial, workload: &dyn Workload, store: &StoreSpec) -> Result<(), TrialError> {
    for (name, drive) in trial.drives().filter(|(_, drive)| drive.wake == WakeMode::Spin) {
        let groups: Vec<_> = match drive.scenarios.as_slice() {
            [] => vec![(&drive.pace, drive.think, drive.clients, drive.workers)],
            scenarios => scenarios.iter().map(|one| (&one.pace, one.think, one.clients, one.workers)).collect(),
        };
        // Without rates and think times no operation has a time to wake up for.
        let waiting = groups.into_iter().filter(|(pace, think, ..)| pace.is_open() || think.is_some());
        let threads = |clients: u32, workers: u32| driving_threads(workload, store, (clients.into(), workers.into()));
        let spinning: u64 = waiting.map(|(.., clients, workers)| threads(clients, workers)).sum();
        let free = free_processors(plan, trial, drive, store)?;
        if spinning > free {
            let what = format!(
                "phase {name}: {} the clock (`wake = \"spin\"`), and {} free for them",
                number::plural(spinning, "thread watches", "threads watch"),
                number::plural(free, "processor is", "processors are")
            );
            let has_workers = has_sockets(store) && !is_blocking(workload, store);
            let fewer = if has_workers { "workers" } else { "clients" };
            return Err(TrialError::usage(what).next(format!("set `{fewer}` to at most {free}, or wake = \"precise\"")));
        }
    }
    Ok(())
}

/// Returns the number of processors that threads of `drive` may have for themselves: those of `pin`, or all without those
/// of a server on this machine, which has at least one.
fn free_processors(plan: &Plan, trial: &PlannedTrial, drive: &Drive, store: &StoreSpec) -> Result<u64, TrialError> {
    if !drive.pin.is_empty() {
        return Ok(drive.pin.iter().collect::<BTreeSet<_>>().len() as u64);
    }
    let own = own_processors()?;
    let has_server = (trial.store.is_private() || trial.store.lab().is_some()) && has_sockets(store);
    let is_of_server = |processor: &&usize| plan.server_pin.iter().any(|pinned| *pinned as usize == **processor);
    let of_server = own.iter().filter(is_of_server).count().max(usize::from(has_server));
    Ok(own.len().saturating_sub(of_server).max(1) as u64)
}

/// Returns true if sessions of the store are connections.
fn has_sockets(store: &StoreSpec) -> bool {
    matches!(store.sessions.shape, SessionShape::Wire | SessionShape::Async)
}

#[cfg(test)]
#[path = "precheck_tests.rs"]
mod tests;
