//! Times of faults: each fault waits until it is due, and its nodes are looked up for that moment.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use plimsoll_analysis::number;
use plimsoll_core::{Node, NodeChoice, Nodes, StoreErrorKind};
use plimsoll_plan::timeline::{FaultAction, FaultMoment, PlannedFault};
use plimsoll_record::data::Level;

use super::{Changing, CommandInEffect, Director};
use crate::attached::is_of_clients;
use crate::error::TrialError;
use crate::readings;

/// Time before a fault at which its nodes are looked up: the question takes a while.
pub(super) const LEAD_NS: u64 = 500_000_000;
/// Longest time for which a repeat waits for a node of its role.
const ROLE_WAIT_NS: u64 = 30_000_000_000;
/// Longest time for which a fault without repeats waits for a node of its role: an election takes a second or two.
const ELECTION_WAIT_NS: u64 = 5_000_000_000;
/// Interval of looks for a node of a role.
const ROLE_LOOK_NS: u64 = 100_000_000;
/// Interval of looks whether servers are still being started.
const LOOK_INTERVAL_NS: u64 = 10_000_000;
/// Interval of looks whether the user wants an end.
const STOP_LOOK_NS: u64 = 20_000_000;
/// Interval of looks whether all sessions are open.
const START_LOOK_NS: u64 = 1_000_000;

/// An occurrence of a fault.
pub(super) struct Occurrence<'f> {
    /// Position of the fault in the list of its phase.
    pub(super) position: usize,
    pub(super) fault: &'f PlannedFault,
    pub(super) moment: FaultMoment,
    /// Time after the fault that this one follows.
    pub(super) after_ns: Option<u64>,
}

impl Occurrence<'_> {
    /// Returns the position of the fault that this one follows.
    fn follows(&self) -> Option<usize> {
        self.fault.after.map(|after| after.fault)
    }

    /// Reports that the phase ended before the fault.
    pub(super) fn missed(&self) -> String {
        let at = match (self.fault.at_ops, &self.fault.when, self.follows()) {
            (Some(ops), ..) => format!("at {}", number::plural(ops, "operation", "operations")),
            (_, Some(condition), _) => format!("when {condition}"),
            (.., Some(fault)) => format!("after fault {}", fault + 1),
            _ => format!("at {}", number::seconds(self.moment.at_ns as f64 / 1e9)),
        };
        format!("{} {at} was not done: the phase had ended", self.fault.name())
    }

    /// Returns the number that repeats of one fault share, and that drawn faults share, which come one after the other;
    /// `None` for a fault without repeats.
    pub(super) fn series(&self) -> Option<usize> {
        let number = if self.fault.drawn.is_some() { usize::MAX } else { self.position };
        self.fault.is_repeated().then_some(number)
    }

    /// Returns the longest time for which this fault waits for its role. The next repeat, the first of them in `later`,
    /// begins after the fault.
    pub(super) fn role_wait_ns(&self, later: &[Self]) -> u64 {
        if !self.fault.is_repeated() {
            return ELECTION_WAIT_NS;
        }
        let is_repeat = |other: &&Self| {
            other.position == self.position || self.fault.drawn.is_some() && other.fault.drawn.is_some()
        };
        let at_ns = self.moment.at_ns;
        let next_ns = later.iter().find(is_repeat).map(|other| other.moment.at_ns);
        let next_ns = next_ns.or_else(|| Some(at_ns.saturating_add(self.fault.every_ns?)));
        let lasts_ns = self.fault.lasts.map_or(0, |lasts| lasts.ns);
        let left_ns = next_ns.map(|next_ns| next_ns.saturating_sub(at_ns).saturating_sub(lasts_ns + LEAD_NS));
        left_ns.map_or(ROLE_WAIT_NS, |left_ns| left_ns.min(ROLE_WAIT_NS))
    }

    /// Returns words for a role that no node has at the moment; `None` for another error.
    pub(super) fn no_role(&self, error: &TrialError) -> Option<&'static str> {
        // Servers without a replica report `Usage`.
        let is_of_role = matches!(error.kind, StoreErrorKind::Unreachable | StoreErrorKind::Usage);
        if !is_of_role {
            return None;
        }
        match self.fault.what.nodes()? {
            NodeChoice::Primary => Some("no node was primary"),
            NodeChoice::Replica => Some("no node was a replica"),
            _ => None,
        }
    }
}

/// Planned time of a fault, from the start of its phase, in nanoseconds.
#[derive(Clone, Copy)]
pub(super) struct Planned {
    pub(super) at_ns: u64,
    /// Time to which the delay of all faults is added.
    undelayed_ns: u64,
}

/// Nodes that a fault names.
pub(super) struct ChosenNodes {
    pub(super) choice: NodeChoice,
    pub(super) nodes: Nodes,
    /// All nodes of the servers.
    pub(super) present: Vec<Arc<Node>>,
}

/// Nodes that a fault names; `None` if it is not one of nodes.
type Chosen = Result<Option<ChosenNodes>, TrialError>;

/// Nodes of a fault that is due, the change of servers if the fault is one, and its command.
pub(super) type Due<'d> = (Chosen, Option<Changing<'d>>, Option<CommandInEffect<'d>>);

/// Change of servers, which takes a while.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ServerChange {
    /// Start or restart of nodes.
    Start(Nodes),
    /// Replacement of a node, which is away meanwhile.
    Replacement(Nodes),
    /// Join or removal of a node.
    Members,
    /// Change of roles: a promotion, or a restart of all nodes in turn.
    Roles,
}

impl ServerChange {
    /// Returns the change with which a fault of these nodes begins; `None` if it has no such beginning.
    fn of(what: &FaultAction, chosen: Option<&Option<ChosenNodes>>) -> Option<Self> {
        let nodes = chosen.and_then(Option::as_ref).map_or(Nodes::All, |chosen| chosen.nodes);
        match what {
            FaultAction::Restart(..) => Some(Self::Start(nodes)),
            FaultAction::Replace(_) => Some(Self::Replacement(nodes)),
            FaultAction::Add | FaultAction::Remove => Some(Self::Members),
            FaultAction::Promote(_) | FaultAction::RestartInTurn(_) => Some(Self::Roles),
            _ => None,
        }
    }

    /// Returns true if a fault of these nodes waits until the change has ended.
    ///
    /// A node that starts or joins may copy its data from any other. A kill, a pause, a cut or a reset of that one would
    /// end the start, and with it the run; two changes of members or roles at once fail as well. All other faults leave
    /// the servers as they are, and wait only for nodes that they could not reach:
    /// - Disks and commands of the user need no server.
    /// - A link, a limit, a neighbour and a storm need a node's host, also while its server starts. A node that is
    ///   replaced is away, and a role may mean another node while roles change.
    /// - A clock is set in the processes of a server, and planned work is done by one: they wait for its start, and while
    ///   members or roles change.
    fn delays(self, what: &FaultAction, chosen: &Chosen) -> bool {
        match what {
            FaultAction::Disk(..) | FaultAction::Command { .. } => return false,
            FaultAction::Link(_, link) if link.is_cut() => return true,
            _ => {}
        }
        let (choice, nodes) = match chosen {
            Ok(Some(chosen)) => (chosen.choice, chosen.nodes),
            Ok(None) => (NodeChoice::All, Nodes::All),
            // The nodes that it names may be known afterwards.
            Err(_) => return true,
        };
        match (what, self) {
            (FaultAction::Clock(..) | FaultAction::Work(..), Self::Start(changed)) => nodes.meets(changed),
            (
                FaultAction::Link(..) | FaultAction::Limit(..) | FaultAction::Neighbour(..) | FaultAction::Storm(..),
                _,
            ) => match self {
                // All nodes are those that are there.
                Self::Replacement(changed) => nodes != Nodes::All && nodes.meets(changed),
                Self::Roles => !matches!(choice, NodeChoice::All | NodeChoice::Number(_) | NodeChoice::Numbers(_)),
                Self::Start(_) | Self::Members => false,
            },
            _ => true,
        }
    }
}

impl Director<'_> {
    /// Waits until all sessions are open, and returns the start of the phase on the run's clock, in nanoseconds; the
    /// present if the drive ends before.
    pub(super) fn phase_start(&self, ended: &Receiver<()>) -> u64 {
        while self.started.get().is_none() && !self.await_end(ended, Some(self.clock.now_ns() + START_LOOK_NS)) {}
        self.started.get().copied().unwrap_or_else(|| self.clock.now_ns())
    }

    /// Waits until `until_ns`, if there is such a time, and passes the user's stop on to the phase. Returns true if `ended`
    /// was closed before.
    pub(super) fn await_end(&self, ended: &Receiver<()>, until_ns: Option<u64>) -> bool {
        loop {
            if self.stop.load(Ordering::SeqCst) {
                self.phase_stop.store(true, Ordering::SeqCst);
            }
            let look_ns = self.clock.now_ns() + STOP_LOOK_NS;
            if self.timer.wait(ended, Some(until_ns.map_or(look_ns, |until_ns| until_ns.min(look_ns)))) {
                return true;
            }
            if until_ns.is_some_and(|until_ns| until_ns <= look_ns) {
                return false;
            }
        }
    }

    /// Returns the time of a fault since the start of the phase, in nanoseconds.
    pub(super) fn due_ns(&self, one: &Occurrence<'_>) -> u64 {
        one.moment.at_ns.saturating_add(self.directed().delay_ns)
    }

    /// Returns the time of a fault, once the fault before is healed, its operations have ended, or its condition holds.
    ///
    /// # Errors
    /// Words for the report, if `over` was closed before.
    pub(super) fn planned(&self, one: &Occurrence<'_>, start_ns: u64, over: &Receiver<()>) -> Result<Planned, String> {
        let now = || {
            let at_ns = self.clock.now_ns().saturating_sub(start_ns);
            Planned { at_ns, undelayed_ns: at_ns.saturating_sub(self.directed().delay_ns) }
        };
        let has_ended = || self.timer.wait(over, Some(self.clock.now_ns() + LOOK_INTERVAL_NS));
        if let Some(condition) = &one.fault.when {
            let newest = || (self.newest)(condition, start_ns + self.warmup_ns);
            let seen = readings::awaited(condition, newest, has_ended);
            let seen = seen.map_err(|why| format!("{}; {why}", one.missed()))?;
            let told = self.tell_event(Level::Info, format!("{}: {seen}", one.fault));
            told.unwrap_or_else(|error| self.directed().fail(error));
            return Ok(now());
        }
        if let Some(ops) = one.fault.at_ops {
            while self.ended_ops.load(Ordering::Relaxed) < ops {
                if has_ended() {
                    return Err(one.missed());
                }
            }
            return Ok(now());
        }
        let Some(by_ns) = one.after_ns else {
            let at_ns = one.moment.at_ns;
            return Ok(Planned { at_ns, undelayed_ns: at_ns });
        };
        loop {
            let directed = self.directed();
            let healed = directed.healed_ns.iter().find(|(position, _)| Some(*position) == one.follows());
            if let Some((_, healed_ns)) = healed {
                let at_ns = healed_ns.saturating_sub(start_ns).saturating_add(by_ns);
                return Ok(Planned { at_ns, undelayed_ns: at_ns.saturating_sub(directed.delay_ns) });
            }
            drop(directed);
            if has_ended() {
                return Err(one.missed());
            }
        }
    }

    /// Looks up the nodes that a fault names. Those of attached servers are not known.
    fn choose(&self, what: &FaultAction) -> Chosen {
        let is_known = self.servers.is_some() || !is_of_clients(what);
        let Some(choice) = what.nodes().filter(|_| is_known) else { return Ok(None) };
        let servers = self.servers()?;
        Ok(Some(ChosenNodes { choice, nodes: servers.chosen(choice)?, present: servers.present()? }))
    }

    /// Waits as [`Director::wait`]. If no node has the role of a fault, waits for one for `role_wait_ns`, and returns the
    /// error of the last question if none has it then.
    pub(super) fn wait_for_role(
        &self,
        one: &Occurrence<'_>,
        mut planned: Planned,
        role_wait_ns: u64,
        start_ns: u64,
        over: &Receiver<()>,
    ) -> Option<Due<'_>> {
        let (mut until_ns, mut no_role) = (None, None);
        loop {
            let Some((chosen, changing, command)) = self.wait(one, planned, start_ns, over) else {
                return no_role.map(|error| (Err(error), None, None));
            };
            let delay_ns = self.directed().delay_ns;
            let due_ns = start_ns.saturating_add(planned.undelayed_ns).saturating_add(delay_ns);
            let until_ns = *until_ns.get_or_insert(due_ns.saturating_add(role_wait_ns));
            let now_ns = self.clock.now_ns();
            match chosen {
                Err(error) if one.no_role(&error).is_some() && now_ns < until_ns => no_role = Some(error),
                chosen => return Some((chosen, changing, command)),
            }
            // Others may change which servers run meanwhile, and do not wait for as long.
            drop((changing, command));
            let look_ns = now_ns.saturating_add(ROLE_LOOK_NS).min(until_ns);
            self.timer.wait(over, Some(look_ns));
            planned.undelayed_ns = look_ns.saturating_sub(start_ns).saturating_sub(delay_ns);
        }
    }

    /// Waits until a fault is due, no change of servers [delays](ServerChange::delays) it, no earlier repeat holds its
    /// nodes, and the same command of the user is not in effect. Returns the nodes that it names then, or the error of
    /// that question, the change if the fault is one, and its command; `None` if `over` was closed before. Later faults
    /// are delayed by as much, so that they stay as far apart as planned.
    fn wait(&self, one: &Occurrence<'_>, planned: Planned, start_ns: u64, over: &Receiver<()>) -> Option<Due<'_>> {
        let what = &one.fault.what;
        let due_ns = |delay_ns: u64| start_ns.saturating_add(planned.undelayed_ns).saturating_add(delay_ns);
        let mut delay_ns = self.directed().delay_ns;
        if self.timer.wait(over, Some(due_ns(delay_ns).saturating_sub(LEAD_NS))) {
            return None;
        }
        self.begin_fine();
        let (mut changes, mut chosen_for_ns) = (self.directed().changes, delay_ns);
        let mut nodes = self.choose(what);
        loop {
            if self.timer.wait(over, Some(due_ns(delay_ns))) {
                return None;
            }
            let mut directed = self.directed();
            let is_delayed = directed.changing.iter().any(|change| change.delays(what, &nodes));
            let is_held = directed.is_held_by_repeat(one, nodes.as_ref().ok().and_then(Option::as_ref));
            if is_delayed || is_held || directed.commands.contains(what) {
                let look_ns = (self.clock.now_ns() + LOOK_INTERVAL_NS).saturating_sub(start_ns);
                directed.delay_ns = directed.delay_ns.max(look_ns.saturating_sub(planned.undelayed_ns));
            } else if directed.delay_ns <= delay_ns {
                if delay_ns > chosen_for_ns || directed.changes > changes {
                    // Roles may be others since.
                    (changes, chosen_for_ns) = (directed.changes, delay_ns);
                    drop(directed);
                    nodes = self.choose(what);
                    continue;
                }
                // Counted under the lock under which it was looked up: of two faults of one moment one waits.
                let change = ServerChange::of(what, nodes.as_ref().ok());
                directed.changing.extend(change);
                let command = one.fault.is_of_user().then(|| what.clone());
                directed.commands.extend(command.clone());
                drop(directed);
                let command = command.map(|what| CommandInEffect(self, what));
                return Some((nodes, change.map(|change| Changing(self, change)), command));
            }
            delay_ns = directed.delay_ns;
        }
    }
}
