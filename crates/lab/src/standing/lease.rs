//! Leases of a lab: faults that a process has made and not healed are healed when it ends.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll_core::{LimitChange, Link, NodeChoice, Nodes, StoreError, StoreErrorKind};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::request::{LabAction, LabRequest};
use crate::cluster::ClusterHandle;
use crate::supervisor::readable;

/// Faults of a process that are not healed.
pub(super) struct Lease {
    process: OwnedFd,
    /// Nodes that do not run; true if a node is paused.
    down: BTreeMap<usize, bool>,
    /// Links and limits before the first change, by node.
    links: BTreeMap<usize, Link>,
    limits: BTreeMap<(usize, &'static str), LimitChange>,
}

/// Leases by the numbers of their processes.
#[derive(Default)]
pub(super) struct Leases(Mutex<BTreeMap<u32, Lease>>);

impl Leases {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u32, Lease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives `process` a lease, unless it has one.
    ///
    /// # Errors
    /// Fails if there is no such process.
    pub(super) fn give(&self, process: u32) -> Result<(), StoreError> {
        let no_process = || StoreError::new(StoreErrorKind::Broken, format!("there is no process {process}"));
        let pid = process.try_into().ok().and_then(Pid::from_raw).ok_or_else(no_process)?;
        let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(|_| no_process())?;
        let (down, links, limits) = Default::default();
        self.all().entry(process).or_insert(Lease { process: handle, down, links, limits });
        Ok(())
    }

    /// Notes the state that a request is about to change, if its process has a lease.
    pub(super) fn before(&self, process: u32, request: &LabRequest, cluster: &ClusterHandle) {
        if !self.all().contains_key(&process) {
            return;
        }
        // The servers may take a while to name it.
        let former = match request {
            LabRequest::Act { act: LabAction::Promote, .. } => cluster.chosen(NodeChoice::Primary).ok(),
            _ => None,
        };
        let mut all = self.all();
        let Some(lease) = all.get_mut(&process) else { return };
        match request {
            LabRequest::Act { act: LabAction::Kill | LabAction::Stop, nodes } => {
                lease.down.extend(numbers(cluster, *nodes).map(|number| (number, false)));
            }
            LabRequest::Act { act: LabAction::Pause, nodes } => {
                for number in numbers(cluster, *nodes) {
                    lease.down.entry(number).or_insert(true);
                }
            }
            LabRequest::Act { act: LabAction::Promote, .. } => {
                // A promotion kills the former primary.
                lease.down.extend(former.into_iter().flat_map(|nodes| numbers(cluster, nodes)).map(|it| (it, false)));
            }
            LabRequest::Link { nodes, .. } => {
                for number in numbers(cluster, *nodes) {
                    lease.links.entry(number).or_insert_with(|| cluster.link(number).unwrap_or_default());
                }
            }
            LabRequest::Limit { nodes, change, .. } => {
                for node in cluster.nodes().iter().filter(|node| of(*nodes, node.number)) {
                    let before = node.limits.changes().into_iter().find(|one| one.name() == change.name());
                    let key = (node.number, change.name());
                    lease.limits.extend(before.filter(|_| !lease.limits.contains_key(&key)).map(|one| (key, one)));
                }
            }
            _ => {}
        }
    }

    /// Notes that a request of `process` has succeeded, which may have healed something.
    pub(super) fn after(&self, process: u32, request: &LabRequest) {
        let mut all = self.all();
        let Some(lease) = all.get_mut(&process) else { return };
        match request {
            LabRequest::Act { act: LabAction::Start | LabAction::Restart | LabAction::Resume, nodes } => {
                lease.down.retain(|number, _| !of(*nodes, *number));
            }
            LabRequest::Link { nodes, link } => {
                lease.links.retain(|number, before| !of(*nodes, *number) || before != link);
            }
            LabRequest::Limit { nodes, change, .. } => {
                lease.limits.retain(|(number, _), before| !of(*nodes, *number) || before != change);
            }
            _ => {}
        }
    }

    /// Removes the leases of processes that have ended, and returns those with faults that are left.
    pub(super) fn ended(&self) -> Vec<Lease> {
        let has_ended = |lease: &Lease| readable(&lease.process, Duration::ZERO).unwrap_or(false);
        let mut all = self.all();
        let ended: Vec<u32> = all.iter().filter(|(_, lease)| has_ended(lease)).map(|(process, _)| *process).collect();
        let ended = ended.into_iter().filter_map(|process| all.remove(&process));
        ended.filter(|lease| !(lease.down.is_empty() && lease.links.is_empty() && lease.limits.is_empty())).collect()
    }
}

impl Lease {
    /// Heals the faults that are left. `run` makes a node run that is paused, if told so, or does not run.
    ///
    /// # Errors
    /// The first error; all others are healed nevertheless.
    pub(super) fn heal(
        self,
        cluster: &ClusterHandle,
        run: impl Fn(usize, bool) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let links = self.links.into_iter().map(|(number, link)| cluster.set_link(number, link));
        let links = links.fold(Ok(()), Result::and);
        let limits = self.limits.into_iter().map(|((number, _), before)| cluster.change_limit(number, &before));
        let limits = limits.fold(Ok(()), Result::and);
        let is_any_down = !self.down.is_empty();
        let nodes = self.down.into_iter().map(|(number, is_paused)| run(number, is_paused)).fold(Ok(()), Result::and);
        let joined = if is_any_down { cluster.rejoin() } else { Ok(()) };
        links.and(limits).and(nodes).and(joined)
    }
}

fn of(nodes: Nodes, number: usize) -> bool {
    nodes == Nodes::All || nodes == Nodes::One(number)
}

fn numbers(cluster: &ClusterHandle, nodes: Nodes) -> impl Iterator<Item = usize> {
    let numbers = cluster.nodes().into_iter().map(|node| node.number);
    numbers.filter(move |number| of(nodes, *number))
}
