//! Times of faults: each fault waits until it is due, and its nodes are looked up for that moment.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use plimsoll_analysis::number;
use plimsoll_core::{Node, NodeChoice, Nodes};
use plimsoll_plan::timeline::{FaultAction, FaultMoment, PlannedFault};
use plimsoll_record::data::Level;

use super::{Changing, CommandInEffect, Director};
use crate::error::TrialError;
use crate::readings;

/// Time before a fault at which its nodes are looked up: the question takes a while.
pub(super) const LEAD: Duration = Duration::from_millis(500);
/// Interval of looks whether servers are still being started.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// Interval of looks whether the user wants an end.
const STOP_LOOK: Duration = Duration::from_millis(20);
/// Interval of looks whether all sessions are open.
const START_LOOK: Duration = Duration::from_millis(1);

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
}

/// Planned time of a fault, from the start of its phase.
#[derive(Clone, Copy)]
pub(super) struct Planned {
    pub(super) at: Duration,
    /// Time to which the delay of all faults is added.
    undelayed: Duration,
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

/// Start of a phase, by both clocks.
#[derive(Clone, Copy)]
pub(super) struct PhaseStart {
    pub(super) at: Instant,
    pub(super) ns: u64,
}

impl Director<'_> {
    /// Waits until all sessions are open, and returns the start of the phase; the present if the drive ends before.
    pub(super) fn phase_start(&self, ended: &Receiver<()>) -> PhaseStart {
        while self.started.get().is_none() && !self.await_end(ended, Some(Instant::now() + START_LOOK)) {}
        let (at, now_ns) = (Instant::now(), self.clock.now_ns());
        let ns = self.started.get().copied().unwrap_or(now_ns);
        let at = at + Duration::from_nanos(ns.saturating_sub(now_ns)) - Duration::from_nanos(now_ns.saturating_sub(ns));
        PhaseStart { at, ns }
    }

    /// Waits until `until`, if there is such a time, and passes the user's stop on to the phase. Returns true if `ended`
    /// was closed before.
    pub(super) fn await_end(&self, ended: &Receiver<()>, until: Option<Instant>) -> bool {
        loop {
            if self.stop.load(Ordering::SeqCst) {
                self.phase_stop.store(true, Ordering::SeqCst);
            }
            let look = Instant::now() + STOP_LOOK;
            if has_ended(ended, until.map_or(look, |until| until.min(look))) {
                return true;
            }
            if until.is_some_and(|until| until <= look) {
                return false;
            }
        }
    }

    /// Returns the time of a fault since the start of the phase.
    pub(super) fn due(&self, one: &Occurrence<'_>) -> Duration {
        Duration::from_nanos(one.moment.at_ns) + self.directed().delay
    }

    /// Returns the time of a fault, once the fault before is healed, its operations have ended, or its condition holds.
    ///
    /// # Errors
    /// Words for the report, if `over` was closed before.
    pub(super) fn planned(
        &self,
        one: &Occurrence<'_>,
        start: PhaseStart,
        over: &Receiver<()>,
    ) -> Result<Planned, String> {
        let now = || {
            let at = start.at.elapsed();
            Planned { at, undelayed: at.saturating_sub(self.directed().delay) }
        };
        if let Some(condition) = &one.fault.when {
            let newest = || (self.newest)(condition, start.ns + self.warmup_ns);
            let seen = readings::awaited(condition, newest, || has_ended(over, Instant::now() + LOOK_INTERVAL));
            let seen = seen.map_err(|why| format!("{}; {why}", one.missed()))?;
            let told = self.tell_event(Level::Info, format!("{}: {seen}", one.fault));
            told.unwrap_or_else(|error| self.directed().fail(error));
            return Ok(now());
        }
        if let Some(ops) = one.fault.at_ops {
            while self.ended_ops.load(Ordering::Relaxed) < ops {
                if has_ended(over, Instant::now() + LOOK_INTERVAL) {
                    return Err(one.missed());
                }
            }
            return Ok(now());
        }
        let Some(by_ns) = one.after_ns else {
            let at = Duration::from_nanos(one.moment.at_ns);
            return Ok(Planned { at, undelayed: at });
        };
        loop {
            let directed = self.directed();
            let healed = directed.healed.iter().find(|(position, _)| Some(*position) == one.follows());
            if let Some((_, healed)) = healed {
                let at = healed.saturating_duration_since(start.at) + Duration::from_nanos(by_ns);
                return Ok(Planned { at, undelayed: at.saturating_sub(directed.delay) });
            }
            drop(directed);
            if has_ended(over, Instant::now() + LOOK_INTERVAL) {
                return Err(one.missed());
            }
        }
    }

    /// Looks up the nodes that a fault names.
    fn choose(&self, what: &FaultAction) -> Chosen {
        let Some(choice) = what.nodes() else { return Ok(None) };
        let servers = self.servers()?;
        Ok(Some(ChosenNodes { choice, nodes: servers.chosen(choice)?, present: servers.present()? }))
    }

    /// Waits until a fault is due, no other is changing which servers run, and the same command of the user is not in
    /// effect. Returns the nodes that it names then, or the error of that question, the change if the fault is one, and
    /// its command; `None` if `over` was closed before. Later faults are delayed by as much, so that they stay as far
    /// apart as planned.
    pub(super) fn wait(
        &self,
        one: &Occurrence<'_>,
        planned: Planned,
        start: PhaseStart,
        over: &Receiver<()>,
    ) -> Option<(Chosen, Option<Changing<'_>>, Option<CommandInEffect<'_>>)> {
        let what = &one.fault.what;
        let due = |delay: Duration| start.at + planned.undelayed + delay;
        let mut delay = self.directed().delay;
        if has_ended(over, due(delay).checked_sub(LEAD).unwrap_or(start.at)) {
            return None;
        }
        self.begin_fine();
        let (changes, chosen_for) = (self.directed().changes, delay);
        let mut nodes = self.choose(what);
        let (changing, command, is_stale) = loop {
            if has_ended(over, due(delay)) {
                return None;
            }
            let mut directed = self.directed();
            if directed.changing > 0 && !one.fault.is_of_disk() || directed.commands.contains(what) {
                let late = (start.at.elapsed() + LOOK_INTERVAL).saturating_sub(planned.undelayed);
                directed.delay = directed.delay.max(late);
            } else if directed.delay <= delay {
                let is_stale = delay > chosen_for || directed.changes > changes;
                // Counted under the lock under which it was looked up: of two faults of one moment one waits.
                directed.changing += u32::from(changes_servers(what));
                let command = one.fault.is_of_user().then(|| what.clone());
                directed.commands.extend(command.clone());
                let command = command.map(|what| CommandInEffect(self, what));
                break (changes_servers(what).then(|| Changing(self)), command, is_stale);
            }
            delay = directed.delay;
        };
        if is_stale {
            nodes = self.choose(what);
        }
        Some((nodes, changing, command))
    }
}

/// Waits until `until`. Returns true if `ended` was closed before.
pub(super) fn has_ended(ended: &Receiver<()>, until: Instant) -> bool {
    ended.recv_timeout(until.saturating_duration_since(Instant::now())) != Err(RecvTimeoutError::Timeout)
}

/// Returns true for a fault whose beginning changes which servers run, and takes a while.
fn changes_servers(what: &FaultAction) -> bool {
    use FaultAction::{Add, Promote, Remove, Replace, Restart, RestartInTurn};
    matches!(what, Restart(..) | RestartInTurn(_) | Promote(_) | Add | Remove | Replace(_))
}
