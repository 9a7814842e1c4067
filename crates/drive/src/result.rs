//! Results of a phase.

use plimsoll_core::{AnswerTally, KindId, Outcome, StoreError};

/// Result of a phase. Times are nanoseconds on the run's clock; counts are without the warm-up's.
#[derive(Debug, Clone, Default)]
pub struct DriveResult {
    /// Earliest time at which an operation could start. Connecting and preparing came before.
    pub start_ns: u64,
    /// End of the warm-up; equal to `start_ns` where there is none, and to `end_ns` where the phase ended in it.
    pub measured_from_ns: u64,
    /// Planned end of the phase, or the later one to which it was postponed to be [`crate::Undisturbed`] for long enough.
    /// `None` where no time was planned.
    pub planned_end_ns: Option<u64>,
    /// Time at which the last operation ended, and not before the planned end if that was reached.
    pub end_ns: u64,
    /// Operations that ended, all outcomes.
    pub ops: u64,
    /// Operations that ended in the warm-up.
    pub warmup_ops: u64,
    /// Per kind, by position, the number of operations of each outcome in the order of [`Outcome::ALL`]. Steps are
    /// none of them.
    pub kinds: Vec<[u64; 4]>,
    /// Counts of steps of operations: operation types that are a step of another.
    pub steps: Vec<[u64; 4]>,
    /// Operations that were due and never sent. See [`plimsoll_core::Slice::unfinished`].
    pub unfinished: u64,
    /// Operations that were due by the schedules of open loops, after the warm-up.
    pub due: u64,
    /// Reason that the phase ended.
    pub stop: StopReason,
    /// Times of each operation, in no order, with [`crate::DriveSpec::each_max`]; without those in `hung`, and without
    /// all others of their clients.
    pub each: Vec<OpTime>,
    /// Time before which an operation must have ended to be in `each`, if there was no room for all.
    pub each_until_ns: Option<u64>,
    /// The errors there were, by outcome and code, most frequent first. Warm-up included. Of an operation of several
    /// steps each step's error counts, also where the operation got over it; the operation's own end only where no
    /// step said why (`steps`).
    pub errors: Vec<ErrorCount>,
    /// Connections that were lost or given up after a timeout.
    pub lost_connections: u64,
    /// Times of the first and the last loss; `None` without one.
    pub lost_between_ns: Option<(u64, u64)>,
    /// Connections that servers ended gracefully (HTTP's `Connection: close`, see [`plimsoll_core::WireState::Ended`]), or
    /// while nothing was in flight, and that were opened again immediately: neither a loss nor an outage.
    pub ended_connections: u64,
    /// Connections that could not be opened, or not again.
    pub failed_connects: u64,
    /// Requests that servers had refused to begin, and that were sent again as part of the same operation.
    pub asked_again: u64,
    /// Counts of retries, with [`crate::DriveSpec::retry`].
    pub retries: Option<RetryCounts>,
    /// Counts of circuit breakers, with [`crate::DriveSpec::breaker`].
    pub breaker: Option<BreakerCounts>,
    /// Counts of answers by status and size, of sessions whose protocol has statuses. Warm-up included.
    pub answers: Option<AnswerTally>,
    /// Times to open connections anew, in nanoseconds up to a session that takes operations, if this was requested
    /// ([`crate::DriveSpec::reconnect`]). Warm-up included.
    pub connects: Option<hdrhistogram::Histogram<u64>>,
    /// Time that sessions were without connection, added up over sessions.
    pub down_ns: u64,
    /// Operations in blocking sessions that did not return: their threads were left behind, and still hold
    /// their sessions. They count as unknown, and ended when they were given up.
    pub hung: Vec<OpTime>,
    /// Kernel interface that was used for sockets; `None` for blocking sessions.
    pub io: Option<IoUsed>,
    /// Lag of the generator over the phase. Open loop only.
    pub lag: Lag,
    /// Slices that the control thread cut late, so that their last operations may lie beyond their end.
    pub late_slices: u32,
    /// Share of its processor that the busiest worker used, 0 to 1. 0 for blocking sessions.
    pub busiest_worker: f64,
    /// Number of times that the system took a processor from workers that had work to do.
    pub involuntary_switches: u64,
    /// Delay of the generator, its cause as far as known, and a remedy, if it may have changed response times by as
    /// much as the store contributed; `None` otherwise. Open loop only.
    pub late: Option<String>,
}

/// Kernel interface that was used for sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IoUsed {
    /// The interface is epoll. The reason against io_uring is given if that would have been preferred but is not
    /// available.
    Epoll(Option<String>),
    /// The interface is io_uring.
    Uring,
}

/// Counts of operations that were sent again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetryCounts {
    /// Tries after an operation's first that ended after the warm-up.
    pub retries: u64,
    /// Operations that failed and were not sent again.
    pub given_up: u64,
}

/// Counts of the clients' circuit breakers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BreakerCounts {
    /// Number of times that a circuit opened.
    pub opened: u64,
    /// Operations that were due while a circuit was open, and were not sent. Open loop only.
    pub rejected: u64,
}

/// Reason that a phase ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum StopReason {
    /// The time was over, or every client had completed its number of operations.
    #[default]
    Limit,
    /// The stream had no more operations.
    Exhausted,
    /// The caller said so.
    Cancelled,
    /// Open loop: the oldest operation had been due for [`crate::DriveSpec::backlog`].
    Backlog,
    /// Open loop: the generator itself was [`crate::DriveSpec::backlog`] behind its schedule.
    Behind,
    /// The store will not take a session back.
    Refused(StoreError),
    /// No connection could be had again in a phase that ends by operations, not by time; or one was lost with an operation
    /// in a phase that [`crate::DriveSpec::ends_on_loss`].
    Lost(StoreError),
    /// An operation did not return within the timeout in a phase that ends by operations, not by time.
    Hung,
}

impl StopReason {
    /// Returns the rank: of several workers' reasons, the one with the highest rank is the phase's.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            StopReason::Exhausted => 0,
            StopReason::Limit => 1,
            StopReason::Cancelled => 2,
            StopReason::Backlog => 3,
            StopReason::Behind => 4,
            StopReason::Hung => 5,
            StopReason::Lost(_) => 6,
            StopReason::Refused(_) => 7,
        }
    }
}

/// The times of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpTime {
    /// Client of the operation.
    pub client: u32,
    /// Number of the operation within the client.
    pub cycle: u64,
    /// Operation type.
    pub kind: KindId,
    /// Outcome of the operation.
    pub outcome: Outcome,
    /// Scheduled start. In a closed loop equal to `sent_ns`.
    pub scheduled_ns: u64,
    /// Time of the send.
    pub sent_ns: u64,
    /// Time at which its answer had arrived.
    pub end_ns: u64,
    /// Rows in its answer.
    pub rows: u64,
}

/// A sort of error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorCount {
    /// Outcome of the operations.
    pub outcome: Outcome,
    /// The store's code, at most 32 bytes of it; `timeout`, `connection`, `stopped` and `steps` are the drive's own.
    pub code: String,
    /// The first one's words, at most 256 bytes of them.
    pub message: String,
    /// True if one of the operations failed because a disk of the store is full.
    pub disk_full: bool,
    /// Number of the operations.
    pub count: u64,
    /// Time of the first one.
    pub first_ns: u64,
    /// Time of the last one.
    pub last_ns: u64,
}

/// Delay of the generator itself: from the time at which an operation could have been sent to the time at which it
/// was. It could have been when it was due and a session idle, or a session would have been idle had the generator not
/// been late before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lag {
    /// Operations it is over.
    pub n: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Largest.
    pub max_ns: u64,
}
