//! Leases of a lab: faults that a process has made and not healed are healed when it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll_core::{ClockChange, LimitChange, Link, NodeChoice, Nodes, StoreError, StoreErrorKind};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::request::{LabAction, LabRequest};
use crate::cluster::ClusterHandle;
use crate::supervisor::readable;

/// Faults of a process that are not healed.
pub(super) struct Lease {
    process: OwnedFd,
    /// Number of its requests in progress, which go on after its end.
    requests: u32,
    /// Nodes that do not run; true if a node is paused, or a thread of it hangs.
    down: BTreeMap<usize, bool>,
    /// Links, limits and errors of clocks before the first change, by node.
    links: BTreeMap<usize, Link>,
    clocks: BTreeMap<usize, Option<ClockChange>>,
    limits: BTreeMap<(usize, &'static str), LimitChange>,
    /// Programs of nodes before the first change. The process itself sets them back; the lab does not.
    programs: BTreeMap<usize, PathBuf>,
}

/// Leases by the numbers of their processes.
#[derive(Default)]
pub(super) struct Leases {
    given: Mutex<BTreeMap<u32, Lease>>,
    /// Processes whose leases have ended. Locked after `given`.
    ended: Mutex<BTreeSet<u32>>,
}

/// Returns a handle of a process.
///
/// # Errors
/// Fails if there is no such process.
pub(super) fn handle(process: u32) -> Result<OwnedFd, StoreError> {
    let pid = process.try_into().ok().and_then(Pid::from_raw).ok_or_else(|| no_process(process))?;
    pidfd_open(pid, PidfdFlags::empty()).map_err(|_| no_process(process))
}

/// Returns the error of a request by a process that has ended.
pub(super) fn no_process(process: u32) -> StoreError {
    StoreError::new(StoreErrorKind::Broken, format!("there is no process {process}"))
}

impl Leases {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u32, Lease>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn over(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives `process` a lease, unless it has one.
    ///
    /// # Errors
    /// Fails if there is no such process.
    pub(super) fn give(&self, process: u32) -> Result<(), StoreError> {
        let (down, links, clocks, limits, programs) = Default::default();
        let lease = Lease { process: handle(process)?, requests: 0, down, links, clocks, limits, programs };
        self.all().entry(process).or_insert(lease);
        Ok(())
    }

    /// Returns a process other than `process` that has to set back a link, limit, clock or program of the request, and
    /// the node. Each of the two would set it back to a value of the other.
    pub(super) fn clash(&self, process: u32, request: &LabRequest) -> Option<(u32, usize)> {
        let all = self.all();
        all.get(&process)?;
        let mut others = all.iter().filter(|(other, _)| **other != process);
        others.find_map(|(other, lease)| Some((*other, lease.changed(request)?)))
    }

    /// Notes the state that a request is about to change, if its process has a lease. Each call is followed by one of
    /// [`Leases::after`].
    pub(super) fn before(&self, process: u32, request: &LabRequest, cluster: &ClusterHandle) {
        match self.all().get_mut(&process) {
            Some(lease) => lease.requests += 1,
            None => return,
        }
        // The servers may take a while to name it.
        let former = match request {
            LabRequest::Act { act: LabAction::Promote, .. } if !cluster.switches_over() => {
                cluster.chosen(NodeChoice::Primary).ok()
            }
            _ => None,
        };
        let clocks: Vec<(usize, Option<ClockChange>)> = match request {
            LabRequest::Clock { nodes, .. } => {
                numbers(cluster, *nodes).filter_map(|number| Some((number, cluster.clock(number).ok()?))).collect()
            }
            _ => Vec::new(),
        };
        let programs: Vec<(usize, PathBuf)> = match request {
            LabRequest::RestartWith { nodes, .. } => {
                numbers(cluster, *nodes).filter_map(|number| Some((number, cluster.program(number)?))).collect()
            }
            _ => Vec::new(),
        };
        let mut all = self.all();
        let Some(lease) = all.get_mut(&process) else { return };
        for (number, before) in clocks {
            lease.clocks.entry(number).or_insert(before);
        }
        for (number, before) in programs {
            lease.programs.entry(number).or_insert(before);
        }
        match request {
            LabRequest::Act { act: LabAction::Kill | LabAction::Stop | LabAction::Restart, nodes }
            | LabRequest::RestartWith { nodes, .. } => {
                lease.down.extend(numbers(cluster, *nodes).map(|number| (number, false)));
            }
            LabRequest::Act { act: LabAction::Pause | LabAction::Hang, nodes } => {
                // Also one that this process has killed: it may have been started by others.
                lease.down.extend(numbers(cluster, *nodes).map(|number| (number, true)));
            }
            LabRequest::Act { act: LabAction::Promote, .. } => {
                // The promotion kills it.
                lease.down.extend(former.into_iter().flat_map(|nodes| numbers(cluster, nodes)).map(|it| (it, false)));
            }
            LabRequest::Link { nodes, .. } => {
                for number in numbers(cluster, *nodes) {
                    lease.links.entry(number).or_insert_with(|| cluster.link(number).unwrap_or_default());
                }
            }
            LabRequest::Limit { nodes, change, .. } => {
                for node in cluster.nodes().iter().filter(|node| nodes.has(node.number)) {
                    lease.limits.entry((node.number, change.name())).or_insert_with(|| node.limits.before(change));
                }
            }
            _ => {}
        }
    }

    /// Notes that a request of `process` has ended, which may have healed something if it was done.
    pub(super) fn after(&self, process: u32, request: &LabRequest, is_done: bool) {
        let mut all = self.all();
        if let (true, LabRequest::Remove(number)) = (is_done, request) {
            all.values_mut().for_each(|lease| lease.forget(*number));
        }
        let Some(lease) = all.get_mut(&process) else { return };
        // A request for the lease itself was not counted.
        lease.requests = lease.requests.saturating_sub(1);
        match request {
            _ if !is_done => {}
            LabRequest::Act { act: LabAction::Start | LabAction::Restart, nodes } => {
                lease.down.retain(|number, _| !nodes.has(*number));
            }
            // A promotion may have killed a paused node.
            LabRequest::Act { act: LabAction::Resume, nodes } => {
                lease.down.retain(|number, is_paused| !(*is_paused && nodes.has(*number)));
            }
            LabRequest::RestartWith { nodes, program } => {
                lease.down.retain(|number, _| !nodes.has(*number));
                lease.programs.retain(|number, before| !nodes.has(*number) || before != program);
            }
            LabRequest::Link { nodes, link } => {
                lease.links.retain(|number, before| !nodes.has(*number) || before != link);
            }
            LabRequest::Clock { nodes, change } => {
                lease.clocks.retain(|number, before| !nodes.has(*number) || before != change);
            }
            LabRequest::Limit { nodes, change, .. } => {
                lease.limits.retain(|(number, _), before| !nodes.has(*number) || before != change);
            }
            _ => {}
        }
    }

    /// Removes the leases of processes that have ended and whose requests have, and returns those with faults that are
    /// left.
    pub(super) fn ended(&self) -> Vec<Lease> {
        let has_ended =
            |lease: &Lease| lease.requests == 0 && readable(&lease.process, Duration::ZERO).unwrap_or(false);
        let mut all = self.all();
        let ended: Vec<u32> = all.iter().filter(|(_, lease)| has_ended(lease)).map(|(process, _)| *process).collect();
        self.over().extend(&ended);
        let ended = ended.into_iter().filter_map(|process| all.remove(&process));
        ended.filter(|lease| !lease.is_whole()).collect()
    }

    /// Returns true if the process had a lease and has ended: nothing would heal what its last request does. A new
    /// process may have its number.
    pub(super) fn has_ended(&self, process: u32) -> bool {
        let lives = || handle(process).is_ok_and(|process| !readable(&process, Duration::ZERO).unwrap_or(false));
        self.over().contains(&process) && !lives()
    }
}

impl Lease {
    /// Returns true if no fault is left that the lab heals.
    fn is_whole(&self) -> bool {
        self.down.is_empty() && self.links.is_empty() && self.clocks.is_empty() && self.limits.is_empty()
    }

    /// Returns a node whose link, limit, clock or program the request would change, and the process has changed.
    fn changed(&self, request: &LabRequest) -> Option<usize> {
        match request {
            LabRequest::Link { nodes, .. } => self.links.keys().copied().find(|number| nodes.has(*number)),
            LabRequest::Clock { nodes, .. } => self.clocks.keys().copied().find(|number| nodes.has(*number)),
            LabRequest::RestartWith { nodes, .. } => self.programs.keys().copied().find(|number| nodes.has(*number)),
            LabRequest::Limit { nodes, change, .. } => {
                let mut limits = self.limits.keys().copied();
                limits.find(|(number, name)| nodes.has(*number) && *name == change.name()).map(|(number, _)| number)
            }
            _ => None,
        }
    }

    /// Forgets a node that was removed: its number may be given to another.
    fn forget(&mut self, number: usize) {
        self.down.remove(&number);
        self.links.remove(&number);
        self.clocks.remove(&number);
        self.programs.remove(&number);
        self.limits.retain(|(other, _), _| *other != number);
    }

    /// Heals the faults that are left. `act` resumes or starts nodes.
    ///
    /// # Errors
    /// The first error; all others are healed nevertheless.
    pub(super) fn heal(
        self,
        cluster: &ClusterHandle,
        act: impl Fn(LabAction, Nodes) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let links = self.links.into_iter().map(|(number, link)| cluster.set_link(number, link));
        let links = links.fold(Ok(()), Result::and);
        let limits = self.limits.into_iter().map(|((number, _), before)| cluster.change_limit(number, &before));
        let limits = limits.fold(Ok(()), Result::and);
        let clocks = self.clocks.into_iter().map(|(number, before)| cluster.set_clock(number, before));
        let clocks = clocks.fold(Ok(()), Result::and);
        let paused = self.down.iter().filter(|(_, is_paused)| **is_paused);
        let resumed = paused.map(|(number, _)| act(LabAction::Resume, Nodes::One(*number))).fold(Ok(()), Result::and);
        // A paused node may have been killed since, and others may have been started.
        let runs = |number: &usize| cluster.check(Nodes::One(*number)).is_ok();
        let started = match self.down.keys().filter(|number| !runs(number)).collect::<Vec<_>>()[..] {
            [] => Ok(()),
            [number] => act(LabAction::Start, Nodes::One(*number)),
            // Several nodes of a cluster may be ready only together.
            _ => act(LabAction::Start, Nodes::All),
        };
        let joined = if self.down.is_empty() { Ok(()) } else { cluster.rejoin() };
        links.and(limits).and(clocks).and(resumed).and(started).and(joined)
    }
}

fn numbers(cluster: &ClusterHandle, nodes: Nodes) -> impl Iterator<Item = usize> {
    let numbers = cluster.nodes().into_iter().map(|node| node.number);
    numbers.filter(move |number| nodes.has(*number))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_second_process_does_not_change_what_the_first_has_to_set_back() {
        let mut other = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let (leases, first, second) = (Leases::default(), std::process::id(), other.id());
        [first, second].into_iter().for_each(|process| leases.give(process).unwrap());
        let change = |by_ns| Some(ClockChange { by_ns, drift_ppm: 0 });
        let clock = |nodes| LabRequest::Clock { nodes, change: change(7) };
        let limit = |change| LabRequest::Limit { nodes: Nodes::All, change, given: String::new() };
        let with = |program: &str| LabRequest::RestartWith { nodes: Nodes::One(3), program: program.into() };
        let is_refused = |process, request: LabRequest| leases.clash(process, &request).is_some();
        assert!(!is_refused(second, clock(Nodes::All)));
        if let Some(lease) = leases.all().get_mut(&first) {
            lease.clocks.insert(1, None);
            lease.links.insert(2, Link::default());
            lease.programs.insert(3, "/former".into());
            lease.limits.insert((0, LimitChange::Memory(None).name()), LimitChange::Memory(None));
        }
        assert_eq!(leases.clash(second, &clock(Nodes::All)), Some((first, 1)));
        assert!(!is_refused(second, clock(Nodes::One(2))) && !is_refused(first, clock(Nodes::All)));
        assert!(!is_refused(1, clock(Nodes::All)), "a command by hand has no lease, and sets nothing back");
        assert!(is_refused(second, LabRequest::Link { nodes: Nodes::One(2), link: Link::CUT }));
        assert!(is_refused(second, limit(LimitChange::Memory(Some(1)))));
        assert!(!is_refused(second, limit(LimitChange::Cpus(None))));
        assert!(is_refused(second, with("/newer")) && !is_refused(first, with("/newest")));
        leases.after(first, &with("/newest"), true);
        assert!(is_refused(second, with("/newer")), "the first process has still to set it back");
        leases.after(first, &with("/former"), true);
        assert!(!is_refused(second, with("/newer")));
        // Set back to what it was.
        leases.after(first, &LabRequest::Clock { nodes: Nodes::One(1), change: None }, true);
        assert!(!is_refused(second, clock(Nodes::All)));
        drop(other.stdin.take());
        other.wait().unwrap();
    }

    #[test]
    fn a_node_that_was_killed_while_paused_is_not_healed_when_it_is_resumed() {
        let (leases, process) = (Leases::default(), std::process::id());
        leases.give(process).unwrap();
        let down = || leases.all()[&process].down.keys().copied().collect::<Vec<_>>();
        if let Some(lease) = leases.all().get_mut(&process) {
            lease.down.extend([(0, false), (1, true)]);
        }
        let act = |act, nodes| leases.after(process, &LabRequest::Act { act, nodes }, true);
        act(LabAction::Resume, Nodes::All);
        assert_eq!(down(), [0]);
        act(LabAction::Start, Nodes::One(0));
        assert!(down().is_empty());
    }

    #[test]
    fn a_process_that_has_ended_is_known_by_its_lease_until_another_has_its_number() {
        let mut ended = Command::new("true").stdout(Stdio::null()).spawn().unwrap();
        let (leases, living) = (Leases::default(), std::process::id());
        [ended.id(), living].into_iter().for_each(|process| leases.give(process).unwrap());
        assert!(!leases.has_ended(ended.id()), "its lease has not ended yet");
        ended.wait().unwrap();
        assert!(leases.ended().is_empty(), "nothing is to be healed");
        assert!(leases.has_ended(ended.id()) && !leases.has_ended(living));
        assert!(handle(ended.id()).is_err() && handle(living).is_ok());
        leases.over().insert(living);
        assert!(!leases.has_ended(living));
    }
}
