//! Labs as `plimsoll lab status` shows them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use plimsoll_analysis::number;
use plimsoll_core::{Link, Progress};
use plimsoll_lab::standing::{self, Lab, LabStatus, NodeState, NodeStatus, OperationStatus, TRUE_CLOCK};
use plimsoll_report::document::{ColumnOf, Table, numbers, words};
use plimsoll_trial::TrialError;

use super::{labs, one};
use crate::error::exit;
use crate::progress::length;
use crate::verbs::report;

/// The heading of what runs long.
const IN_PROGRESS: &str = "In progress";
/// Seconds without progress after which a standstill is reported; looks are a second apart.
const STILL_S: u64 = 3;

pub(super) fn status(name: Option<&str>, json: bool) -> Result<u8, TrialError> {
    let labs = labs()?;
    let names = match name {
        Some(name) => vec![one(Some(name))?.name().to_owned()],
        None => standing::names(&labs)?,
    };
    // One may end meanwhile.
    let all: Vec<LabStatus> = names.iter().filter_map(|name| Lab::open(&labs, name).ok()?.status().ok()).collect();
    if json {
        let mut all = all;
        // As everywhere else that people see them, nodes are numbered from 1.
        all.iter_mut().flat_map(|lab| &mut lab.nodes).for_each(|node| node.number += 1);
        all.iter_mut().flat_map(|lab| &mut lab.in_progress).for_each(|long| long.progress.node += 1);
        let line = |status: &LabStatus| serde_json::to_string(status).unwrap_or_default() + "\n";
        return crate::print(&all.iter().map(line).collect::<String>());
    }
    if all.is_empty() {
        crate::say("no lab stands; make one with `plimsoll lab up STORE`");
        return Ok(exit::OK);
    }
    shown(&all)
}

/// Prints the links of the named nodes, or of all.
pub(super) fn links(lab: &Lab, numbers: &[usize]) -> Result<u8, TrialError> {
    set_on(lab, numbers, ("Links", "link"), |node| node.link.to_string())
}

/// Prints the errors of the clocks of the named nodes, or of all.
pub(super) fn clocks(lab: &Lab, numbers: &[usize]) -> Result<u8, TrialError> {
    let error = |node: &NodeStatus| node.clock.map_or_else(|| TRUE_CLOCK.to_owned(), |clock| clock.to_string());
    set_on(lab, numbers, ("Clocks", "clock"), error)
}

/// Prints a setting of the named nodes, or of all, with a title and the heading of its column.
fn set_on(
    lab: &Lab,
    numbers: &[usize],
    (title, heading): (&'static str, &'static str),
    setting: impl Fn(&NodeStatus) -> String,
) -> Result<u8, TrialError> {
    let mut nodes = lab.status()?.nodes;
    nodes.retain(|node| numbers.is_empty() || numbers.contains(&node.number));
    let columns: [ColumnOf<'_, NodeStatus>; 3] = [
        (words("node"), &|node| (node.number + 1).to_string().into()),
        (words("address"), &|node| node.address.to_string().into()),
        (words(heading), &|node| setting(node).into()),
    ];
    let table = Table::of("", &nodes, &columns);
    report::print_tables(&[(title, lab.name(), table)])
}

pub(super) fn shown(all: &[LabStatus]) -> Result<u8, TrialError> {
    let titles: Vec<(String, String)> = all.iter().map(titled).collect();
    let tables = all.iter().zip(&titles).flat_map(|(status, (title, how))| {
        let long = (!status.in_progress.is_empty()).then(|| (IN_PROGRESS, title.as_str(), long(status)));
        std::iter::once((title.as_str(), how.as_str(), table(status))).chain(long)
    });
    report::print_tables(&tables.collect::<Vec<_>>())
}

/// Returns the operations in progress, and their positions.
fn long(status: &LabStatus) -> Table {
    let remark = |OperationStatus { progress, still_s }: &OperationStatus| {
        let still = (*still_s >= STILL_S).then(|| format!("no progress for {still_s} s"));
        let step = Some(progress.step.clone()).filter(|step| !step.is_empty());
        let is_told = still.is_some() && !progress.waits_for.is_empty();
        let waits_for = is_told.then(|| format!("waiting for {}", progress.waits_for));
        still.into_iter().chain(waits_for).chain(step).collect::<Vec<_>>().join(" · ")
    };
    let columns: [ColumnOf<'_, OperationStatus>; 5] = [
        (words("node"), &|long| (long.progress.node + 1).to_string().into()),
        (words("what"), &|long| long.progress.what.clone().into()),
        (numbers("done"), &|long| how_far(&long.progress).into()),
        (numbers("for"), &|long| format!("{} s", long.progress.for_s.unwrap_or(0)).into()),
        (words(""), &|long| remark(long).into()),
    ];
    Table::of(IN_PROGRESS, &status.in_progress, &columns)
}

/// Returns the position of an operation: `12 of 40 MiB, 30 %`, `3 MiB left`, `7 s behind`; empty if unknown.
fn how_far(progress: &Progress) -> String {
    let shown = |amount: u64| match progress.unit.as_str() {
        "B" => number::bytes(amount as f64),
        unit => format!("{} {unit}", number::count(amount)),
    };
    match (progress.done, progress.total, progress.left) {
        (Some(done), _, _) if progress.unit == "%" => format!("{done} %"),
        (Some(done), Some(total), _) => {
            let percent = progress.percent().unwrap_or_default();
            format!("{} of {}, {percent:.0} %", shown(done), shown(total))
        }
        (Some(done), None, _) => shown(done),
        (None, _, Some(left)) if progress.unit == "s" => format!("{} behind", shown(left)),
        (None, _, Some(left)) => format!("{} left", shown(left)),
        _ => String::new(),
    }
}

fn titled(status: &LabStatus) -> (String, String) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
    let age = length(Duration::from_nanos(since.saturating_sub(status.since_unix_ns)));
    let load = status.load.as_ref().map_or("here".to_owned(), |load| load.address.to_string());
    let how = format!("{} · {} · up for {age} · driven from {load}", status.made_as, status.version);
    (format!("Lab {}", status.name), how)
}

fn table(status: &LabStatus) -> Table {
    let processor = |node: &NodeStatus| match node.limits.cpus {
        Some(cpus) => format!("{:.1} s, throttled {:.1} s at {cpus}", node.processor_s, node.throttled_s),
        None => format!("{:.1} s", node.processor_s),
    };
    let memory = |node: &NodeStatus| match node.limits.memory_bytes {
        Some(limit) => format!("{} of {} MiB", node.memory_bytes >> 20, limit >> 20),
        None => format!("{} MiB", node.memory_bytes >> 20),
    };
    let columns: [ColumnOf<'_, NodeStatus>; 8] = [
        (words("node"), &|node| (node.number + 1).to_string().into()),
        (words("role"), &|node| node.role.clone().into()),
        (words("address"), &|node| listens_at(node).into()),
        (words("state"), &|node| node.state.name().into()),
        (numbers("CPU"), &|node| processor(node).into()),
        (numbers("memory"), &|node| memory(node).into()),
        (numbers("restarts"), &|node| node.restarts.to_string().into()),
        (words(""), &|node| remark(status, node).into()),
    ];
    Table::of("", &status.nodes, &columns)
}

/// Returns the reason that a node is down, or its state in its own words, the settings of its link and its clock, and
/// the version of another program than its first one.
fn remark(lab: &LabStatus, node: &NodeStatus) -> String {
    if let Some(reason) = node.reason.as_ref().filter(|_| node.state != NodeState::Running) {
        return reason.clone();
    }
    let left = || format!("left by a run that was killed: plimsoll lab remove {} {}", lab.name, node.number + 1);
    let link = || format!("link: {}", node.link);
    let parts = [
        node.is_left.then(left),
        Some(node.own_state.clone()).filter(|state| !state.is_empty()),
        (node.link != Link::default()).then(link),
        node.clock.map(|clock| format!("clock: {clock}")),
        node.program.as_ref().map(|program| format!("version {} ({})", program.version, program.path.display())),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// Returns the address of a node for clients.
fn listens_at(node: &NodeStatus) -> String {
    match node.ports.first() {
        Some(port) => format!("{}:{port}", node.address),
        None => format!("{}/", node.socket_dir.display()),
    }
}
