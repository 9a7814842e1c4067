//! Parts and settings of a core, parameters of a phase's start, and the final report.

use std::sync::Arc;

use plimsoll_core::pace::{Backoff, WakeMode};
use plimsoll_core::{ClientSilence, Observer, OpKind, Steps, Stream};

use super::{Rests, Turns};
use crate::board::{Board, Shared};
use crate::errors::ErrorTable;
use crate::grid::Grid;
use crate::result::{BreakerCounts, OpTime, RetryCounts, StopReason};
use crate::witness::Taint;

/// Parts of a core.
pub(crate) struct Setup {
    pub stream: Arc<dyn Stream>,
    pub observer: Option<Box<dyn Observer>>,
    pub board: Arc<Board>,
    pub shared: Arc<Shared>,
    /// The clients it drives, by lane.
    pub clients: Vec<u32>,
    /// Steps of the operations of several steps, by lane; `Tracks` handles their results.
    pub steps: Vec<Option<Box<dyn Steps>>>,
    /// All kinds of operation, by position.
    pub kinds: Arc<[OpKind]>,
    /// Number of each client's first operation.
    pub first_cycle: u64,
    /// Clients of a closed loop that do not go on at once.
    pub rests: Option<Box<Rests>>,
    /// Room for the times of single operations; 0 when they are not wanted.
    pub each_max: usize,
    pub settings: Settings,
    /// Operations go to several servers.
    pub tells_servers: bool,
    /// Sessions know the parts of their keys, and ticks are counted.
    pub tells_parts: bool,
    /// Silences of clients are looked for.
    pub tells_silences: bool,
    /// End of the present disturbance by a pause of the machine; stays at 0 without a witness.
    pub taint: Arc<Taint>,
}

/// Settings that are constant while a core runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// Operations of each client that end after the warm-up, at most.
    pub ops_max: u64,
    /// Age of the oldest due operation at which an open loop gives up.
    pub backlog_ns: u64,
    pub op_timeout_ns: u64,
    /// Time limit for opening a session.
    pub open_timeout_ns: u64,
    /// Time limit for opening a session again, where it differs.
    pub reopen_timeout_ns: Option<u64>,
    /// Waits before a lost connection is opened again, and the seed of those that are drawn.
    pub backoff: Backoff,
    pub seed: u64,
    /// An operation that is lost with its connection ends the phase.
    pub ends_on_loss: bool,
    pub wake: WakeMode,
    /// CPU time of the worker so far, where it is the generator's alone.
    pub cpu_ns: fn() -> u64,
    /// Returns the time that the worker has waited for a processor so far.
    pub queued_ns: fn() -> u64,
}

impl Settings {
    /// Time limit for a connection, before the phase has begun or later.
    pub fn connect_timeout_ns(&self, starting: bool) -> u64 {
        self.reopen_timeout_ns.filter(|_| !starting).unwrap_or(self.open_timeout_ns)
    }
}

/// Parameters of the phase's start for a core.
#[derive(Debug)]
pub(crate) struct Start {
    pub grid: Grid,
    pub turns: Turns,
}

/// Final report of a core.
pub(crate) struct CoreReport {
    pub stop: StopReason,
    pub last_end_ns: u64,
    pub errors: ErrorTable,
    /// Silences that no answer ended.
    pub silent: Vec<ClientSilence>,
    pub each: Vec<OpTime>,
    /// End of the first operation that is missing in `each`; [`u64::MAX`] without one.
    pub each_until_ns: u64,
    /// Counts of retries, if failed operations are sent again.
    pub retries: Option<RetryCounts>,
    /// Counts of circuit breakers, if clients have some.
    pub breaker: Option<BreakerCounts>,
}
