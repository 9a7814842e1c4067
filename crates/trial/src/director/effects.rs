//! Effects of faults on servers and disk, and the end of these effects.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll_core::fault::{ErrorMode, Fault};
use plimsoll_core::{
    ClockChange, LimitChange, Link, Node, Nodes, ProgramChange, Servers, Span, StoreError, StoreErrorKind,
};
use plimsoll_plan::timeline::FaultAction;
use plimsoll_record::data::Level;

use super::{Director, FaultOnDisk};
use crate::error::TrialError;
use crate::join_progress;
use crate::pin;
use crate::sink::Told;
use crate::storm::StormTarget;

/// Interval of looks whether a node that is being replaced is there.
const REPLACED_LOOK: Duration = Duration::from_millis(10);

/// Results of the beginning of a fault.
#[derive(Default)]
pub(super) struct Begun {
    /// Name of a node that joined or left.
    pub(super) node: Option<String>,
    /// Links, limits and errors of clocks before, by node.
    pub(super) links: Vec<(usize, Link)>,
    pub(super) limits: Vec<(usize, LimitChange)>,
    pub(super) clocks: Vec<(usize, Option<ClockChange>)>,
    /// Changes of programs.
    pub(super) programs: Vec<ProgramChange>,
}

impl Begun {
    /// Returns the versions before and after changes of programs: `from 2.9.10 to 2.15.1`; `None` without a change.
    pub(super) fn versions(&self) -> Option<String> {
        let to = &self.programs.first()?.to;
        let mut from: Vec<&str> = self.programs.iter().map(|change| change.from.as_str()).collect();
        from.sort_unstable();
        from.dedup();
        Some(format!("from {} to {to}", from.join(" and ")))
    }
}

impl Director<'_> {
    /// Calls `act`, which makes nodes join, start or do planned work, and records the progress of those that `is_meant`
    /// selects.
    fn with_progress<T>(
        &self,
        is_meant: impl Fn(usize) -> bool + Send,
        act: impl FnOnce() -> Result<T, TrialError>,
    ) -> Result<T, TrialError> {
        join_progress::recorded(self.recorder, &**self.servers()?, is_meant, act)
    }

    /// Starts or restarts nodes by `act`, and records their progress.
    pub(super) fn start(
        &self,
        nodes: Nodes,
        act: impl FnOnce(&dyn Servers) -> Result<Span, TrialError>,
    ) -> Result<(), TrialError> {
        let is_meant = move |number: usize| nodes.has(number);
        self.with_progress(is_meant, || act(&**self.servers()?).map(drop))
    }

    /// Begins a fault.
    pub(super) fn begin(&self, what: &FaultAction, nodes: Nodes, ordinal: u32) -> Result<Begun, TrialError> {
        let mut begun = Begun::default();
        match what {
            FaultAction::Kill(_) => self.servers()?.kill(nodes).map(drop)?,
            FaultAction::Stop(_) => self.servers()?.stop(nodes).map(drop)?,
            FaultAction::Pause(_) => self.servers()?.pause(nodes).map(drop)?,
            FaultAction::Hang(_) => self.servers()?.hang(nodes).map(drop)?,
            FaultAction::Reset(_) => {
                self.directed().reset_ns = Some(self.clock.now_ns());
                match &self.servers {
                    Some(servers) => servers.reset(nodes).map(drop)?,
                    None => self.in_use.reset()?,
                }
            }
            FaultAction::Restart(_, program) => {
                let restart = || self.restart(nodes, program.as_deref());
                begun.programs = self.with_progress(move |number| nodes.has(number), restart)?;
                self.servers_are_new()?;
            }
            FaultAction::RestartInTurn(program) => {
                begun.programs = self.with_progress(|_| true, || self.restart_in_turn(program.as_deref()))?;
            }
            FaultAction::Work(name, _) => {
                self.with_progress(move |number| nodes.has(number), || self.servers()?.work(nodes, name))?;
            }
            FaultAction::Promote(_) => {
                let Nodes::One(number) = nodes else {
                    return Err(TrialError::usage("one node can be the primary").next("promote replica, or node 2"));
                };
                self.servers()?.promote(number)?;
            }
            FaultAction::Link(_, link) => begun.links = self.servers()?.set_link(nodes, *link)?,
            FaultAction::Limit(_, change) => begun.limits = self.servers()?.change_limit(nodes, change)?,
            FaultAction::Clock(_, change) => begun.clocks = self.servers()?.set_clock(nodes, Some(*change))?,
            FaultAction::Disk(_, fault) => {
                let mut directed = self.directed();
                directed.has_disk_fault = true;
                let disk = self.disk()?;
                let met_before = disk.met(nodes, *fault)?;
                // Noted first: a healing that mends the disk meanwhile begins it again.
                directed.on_disk.push(FaultOnDisk { ordinal, nodes, fault: *fault, met_before });
                // To fill a slow disk takes a while, in which other faults begin and end.
                drop(directed);
                disk.fault(nodes, *fault)?;
            }
            FaultAction::Add => {
                (self.tell)(Told::Note("adding a node".to_owned()))?;
                let known: Vec<usize> = self.servers()?.present()?.iter().map(|node| node.number).collect();
                let since_ns = self.clock.now_ns();
                // Its end is noted before that of the thread that records.
                let add = || Ok((self.servers()?.add()?, self.clock.now_ns() - since_ns));
                let (number, took_ns) = self.with_progress(move |number| !known.contains(&number), add)?;
                self.directed().add(number, took_ns as f64 / 1e9);
                self.servers_are_new()?;
                begun.node = Some(format!("node {}", number + 1));
            }
            FaultAction::Remove => {
                let last = self.directed().added.last().copied();
                let number = last.ok_or_else(|| {
                    TrialError::usage("no node has joined that could leave").next("add one earlier: add node at 10s")
                })?;
                (self.tell)(Told::Note(format!("removing node {}", number + 1)))?;
                self.servers()?.remove(number)?;
                self.directed().remove(number);
                self.servers_are_new()?;
                begun.node = Some(format!("node {}", number + 1));
            }
            FaultAction::Replace(_) => {
                let Nodes::One(number) = nodes else {
                    return Err(TrialError::usage("one node is replaced at a time").next("replace replica, or node 2"));
                };
                (self.tell)(Told::Note(format!("replacing node {}", number + 1)))?;
                let replaced = self.with_progress(move |other| other == number, || self.servers()?.replace(number));
                replaced.map_err(|error| self.not_replaced(number, error))?;
                self.directed().programs.remove(&number);
                self.servers_are_new()?;
            }
            FaultAction::Storm(_, connections) => {
                let targets = match &self.servers {
                    Some(_) => {
                        let meant = self.meant(nodes)?;
                        meant.iter().map(|node| StormTarget::of(node)).collect::<Result<Vec<_>, _>>()?
                    }
                    None => self.in_use.storm_targets()?,
                };
                self.disturbances.storm(ordinal, targets, *connections)?;
            }
            FaultAction::Command { begin, heal } => {
                self.disturbances.command(ordinal, begin, heal.as_deref(), &self.stop)?;
            }
            FaultAction::Neighbour(_, resource) => {
                let (servers, meant) = (self.servers()?, self.meant(nodes)?);
                self.disturbances.neighbours(ordinal, &**servers, &meant, *resource, self.server_pin)?;
            }
        }
        Ok(begun)
    }

    /// Notes a node that is missing after its replacement failed. Returns the error, which then names the node.
    fn not_replaced(&self, number: usize, error: TrialError) -> TrialError {
        let present = self.servers().and_then(|servers| servers.present());
        // Servers that do not tell their nodes may lack it.
        if present.is_ok_and(|nodes| nodes.iter().any(|node| node.number == number)) {
            return error;
        }
        self.directed().missing = Some(number);
        let what = format!("node {} was removed, and no node came up in its place: {}", number + 1, error.what);
        let again = "start the run again, which begins with a whole cluster";
        let next = error.next.as_ref().map_or_else(|| again.to_owned(), |next| format!("{next}; then {again}"));
        TrialError { what, ..error }.next(next)
    }

    /// Heals a fault.
    pub(super) fn heal(&self, what: &FaultAction, nodes: Nodes, begun: &Begun, ordinal: u32) -> Result<(), TrialError> {
        self.begin_fine();
        match what {
            FaultAction::Kill(_) | FaultAction::Stop(_) => self.start_again(nodes),
            FaultAction::Pause(_) | FaultAction::Hang(_) => {
                let resumed = self.servers()?.resume(nodes).map(drop);
                // A promotion may have killed it meanwhile.
                match nodes == Nodes::All || self.servers()?.check(nodes).is_ok() {
                    true => resumed,
                    false => self.start_again(nodes),
                }
            }
            FaultAction::Link(_, link) => {
                let servers = self.servers()?;
                let set = |nodes, link: &Link| servers.set_link(nodes, *link).map(drop);
                self.set_back_when_there(nodes, &begun.links, set)?;
                match link.is_cut() && self.is_killed_by_promotion(nodes)? {
                    true => self.start_again(nodes),
                    false => Ok(()),
                }
            }
            FaultAction::Limit(..) => {
                let servers = self.servers()?;
                let set = |nodes, change: &LimitChange| servers.change_limit(nodes, change).map(drop);
                self.set_back_when_there(nodes, &begun.limits, set)
            }
            FaultAction::Clock(..) => {
                let servers = self.servers()?;
                let set = |nodes, change: &Option<ClockChange>| servers.set_clock(nodes, *change).map(drop);
                self.set_back_when_there(nodes, &begun.clocks, set)
            }
            FaultAction::Disk(..) => {
                // Mending ends all faults of a disk, so those that are to last begin again, but for those of some
                // requests only: these may be over.
                let is_lasting =
                    |fault: &Fault| !matches!(fault, Fault::Eio { how: ErrorMode::Once | ErrorMode::Silent(_), .. });
                let mut directed = self.directed();
                directed.on_disk.retain(|other| other.ordinal != ordinal);
                self.disk()?.mend(nodes)?;
                let mut lasting = directed.on_disk.iter().filter(|other| is_lasting(&other.fault));
                lasting.try_for_each(|other| self.disk()?.fault(other.nodes, other.fault))
            }
            FaultAction::Restart(..)
            | FaultAction::RestartInTurn(_)
            | FaultAction::Promote(_)
            | FaultAction::Reset(_)
            | FaultAction::Add
            | FaultAction::Remove
            | FaultAction::Replace(_)
            | FaultAction::Work(..) => Ok(()),
            FaultAction::Storm(..) | FaultAction::Neighbour(..) | FaultAction::Command { .. } => {
                self.end_disturbance(ordinal)
            }
        }
    }

    /// Starts nodes, and notes that the servers are new.
    fn start_again(&self, nodes: Nodes) -> Result<(), TrialError> {
        let _changing = self.change(nodes);
        self.start(nodes, |servers| servers.start(nodes))?;
        self.servers_are_new()
    }

    /// Returns true if a promotion has killed this node, as the former primary, and no other fault will start it.
    fn is_killed_by_promotion(&self, nodes: Nodes) -> Result<bool, TrialError> {
        let is_stopped = |error: StoreError| error.kind == StoreErrorKind::Unreachable;
        let is_free = nodes != Nodes::All && !self.directed().is_server_held(nodes);
        Ok(is_free && self.servers()?.check(nodes).is_err_and(is_stopped))
    }

    /// Fails if this is a fault of disks that no request has met, before it is healed. After the user's stop it need not
    /// be met.
    pub(super) fn must_be_met(&self, ordinal: u32) -> Result<(), TrialError> {
        let on_disk = self.directed().on_disk.iter().find(|one| one.ordinal == ordinal).copied();
        let is_stopped = self.stop.load(Ordering::SeqCst);
        on_disk.filter(|_| !is_stopped).map_or(Ok(()), |one| one.must_be_met(self.disk()?))
    }

    /// Sets values of nodes as they were before a fault, as [`set_back`]. If a node is being replaced, its value is set
    /// once it is there; those of other nodes are set before.
    fn set_back_when_there<V: PartialEq>(
        &self,
        nodes: Nodes,
        before: &[(usize, V)],
        set: impl Fn(Nodes, &V) -> Result<(), TrialError>,
    ) -> Result<(), TrialError> {
        let servers = self.servers()?;
        let is_there = |number: usize| {
            let Ok(present) = servers.present() else { return true };
            present.iter().any(|node| node.number == number)
        };
        // A node may leave between the look and the change.
        let is_replaced = |number: usize| !self.directed().changing.is_empty() && !is_there(number);
        if before.iter().all(|(number, _)| is_there(*number)) {
            let done = set_back(nodes, before, &set);
            if done.is_ok() || !before.iter().any(|(number, _)| is_replaced(*number)) {
                return done;
            }
        }
        let (there, mut away): (Vec<_>, Vec<_>) = before.iter().partition(|(number, _)| is_there(*number));
        let set_one = |(number, value): &(usize, V)| set(Nodes::One(*number), value);
        let mut done = Ok(());
        for one in there {
            match set_one(one) {
                Err(_) if is_replaced(one.0) => away.push(one),
                result => done = done.and(result),
            }
        }
        for one in away {
            while !self.directed().changing.is_empty() && !is_there(one.0) {
                self.timer.sleep(REPLACED_LOOK);
            }
            // Of several nodes one may have left for good.
            if matches!(nodes, Nodes::One(_)) || is_there(one.0) {
                done = done.and(set_one(one));
            }
        }
        done
    }

    /// Returns these nodes.
    pub(super) fn meant(&self, nodes: Nodes) -> Result<Vec<Arc<Node>>, TrialError> {
        let all = self.servers()?.present()?.into_iter();
        Ok(all.filter(|node| nodes.has(node.number)).collect())
    }

    /// Ends a storm, neighbours or the fault of a command, and reports the extent of a storm.
    fn end_disturbance(&self, ordinal: u32) -> Result<(), TrialError> {
        let Some((text, is_whole)) = self.disturbances.end(ordinal)? else { return Ok(()) };
        self.tell_event(if is_whole { Level::Info } else { Level::Warning }, text)
    }

    /// Restarts nodes, with another program if one is given. Returns the changes of programs.
    fn restart(&self, nodes: Nodes, program: Option<&Path>) -> Result<Vec<ProgramChange>, TrialError> {
        let servers = self.servers()?;
        let Some(program) = program else { return servers.restart(nodes).map(|_| Vec::new()) };
        let changes = servers.restart_with(nodes, program)?;
        let mut directed = self.directed();
        for change in &changes {
            directed.programs.entry(change.node).or_insert_with(|| change.former.clone());
        }
        Ok(changes)
    }

    /// Restarts all nodes, with another program if one is given: the primary last, each when the others are one cluster
    /// again. Returns the changes of programs.
    fn restart_in_turn(&self, program: Option<&Path>) -> Result<Vec<ProgramChange>, TrialError> {
        let servers = self.servers()?;
        let mut changes = Vec::new();
        for number in servers.rolling_order()? {
            changes.extend(self.restart(Nodes::One(number), program)?);
            servers.start(Nodes::All)?;
            self.servers_are_new()?;
        }
        Ok(changes)
    }

    /// Updates the sampled processes, and their pinning, after a server was started.
    pub(super) fn servers_are_new(&self) -> Result<(), TrialError> {
        let sites = self.servers()?.sites();
        self.processes.set(sites.clone());
        pin::server(&sites, self.server_pin)
    }
}

/// Sets values of nodes as they were before a fault: at once if all had the same.
fn set_back<V: PartialEq>(
    nodes: Nodes,
    before: &[(usize, V)],
    set: impl Fn(Nodes, &V) -> Result<(), TrialError>,
) -> Result<(), TrialError> {
    match before {
        [] => Ok(()),
        [(_, first), rest @ ..] if rest.iter().all(|(_, one)| one == first) => set(nodes, first),
        all => all.iter().map(|(number, one)| set(Nodes::One(*number), one)).fold(Ok(()), Result::and),
    }
}

#[cfg(test)]
#[path = "effects_tests.rs"]
mod tests;
