//! A slice (a second, by default) of a phase.

use hdrhistogram::Histogram;

use crate::client_set::ClientSet;
use crate::op::{KindId, Outcome};
use crate::pause::Pause;
use crate::session::Address;

crate::words! {
    /// The kind of time in a histogram. Both are in nanoseconds.
    pub enum Measure {
        /// From the scheduled start to the answer. In a closed loop equal to the service time.
        Response = "response",
        /// From the actual send to the answer.
        Service = "service",
    }
}

/// The operations of one type and outcome that ended in a slice. `H` is the histogram: dense where it is made, packed
/// where a recording is read back.
#[derive(Debug, Clone, PartialEq)]
pub struct SliceHistogram<H = Histogram<u64>> {
    /// Position of the operation type in the workload's list.
    pub kind: KindId,
    /// Outcome of the operations.
    pub outcome: Outcome,
    /// Kind of time. A closed loop has `Service` only.
    pub measure: Measure,
    /// Nanoseconds, 1 ns to 1 h, 3 significant digits (2 for outcomes other than ok).
    pub histogram: H,
}

/// Pauses of the machine and disturbed operations of a slice, as seen by a witness. A pause belongs to the slice in
/// which it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Disturbance<H = Histogram<u64>> {
    /// Time in pauses and their aftermath, on any processor.
    pub disturbed_ns: u64,
    /// The pauses, ordered by their ends; if there were more than [`crate::pause::PAUSES_MAX`], the longest.
    pub pauses: Vec<Pause>,
    /// Lateness of each wake-up of the witness, over all processors (2 digits); `None` if there was none.
    pub lateness: Option<H>,
    /// Disturbed operations: those that ended after a pause and should have started before the pause or its aftermath
    /// was over. They are in the slice's other histograms too, with the same digits. Whole operations only, and only
    /// by the time that a client waited: response time in an open loop, service time in a closed one.
    pub disturbed: Vec<SliceHistogram<H>>,
}

impl<H> Default for Disturbance<H> {
    fn default() -> Self {
        Self { disturbed_ns: 0, pauses: Vec::new(), lateness: None, disturbed: Vec::new() }
    }
}

/// Answers of one of several servers in a slice.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerAnswers<H = Histogram<u64>> {
    /// Address on which the server listens.
    pub by: Address,
    /// Times of operations with the outcome ok or not found, in nanoseconds (2 digits): response times in an open
    /// loop, service times in a closed one. `None` if there were none.
    pub times: Option<H>,
}

/// Length of a tick, in nanoseconds.
pub const TICK_NS: u64 = 10_000_000;
/// Shortest time of load after a fault took effect in which clients are seen to notice it.
pub const OBSERVED_LEAST_NS: u64 = 100_000_000;

/// Operations that ended in a tick. Steps are none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tick {
    /// Operations with the outcome ok or not found.
    pub answered: u32,
    /// Other operations.
    pub failed: u32,
}

/// Most parts of the keys that are told apart.
pub const KEY_PARTS_MAX: u8 = 64;

/// Parts of the keys in a tick, as bits: the lowest one is of the first part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartTick {
    /// Parts for which an operation was sent in the tick, and none was answered in the tick after that.
    pub asked: u64,
    /// Parts of which an operation ended in the tick with the outcome ok or not found.
    pub answered: u64,
}

/// Parts into which a store divides its keys, in a slice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyParts {
    /// Number of parts, from 1 to [`KEY_PARTS_MAX`].
    pub of: u8,
    /// Ticks as in [`Slice::ticks`].
    pub ticks: Vec<PartTick>,
}

/// Time in which a client had no answer, of [`AFFECTED_NS`](crate::AFFECTED_NS) or longer: from the sending of an
/// operation until one was answered (outcome ok or not found). In an open loop, a time of as much in which the client is
/// ready and not asked ends it, too. So does the end of a client's last operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientSilence {
    /// Number of the client.
    pub client: u32,
    /// Time at which the first operation since the client's last answer was sent.
    pub from_ns: u64,
    /// End; `None` if it had none to the end of the phase.
    pub until_ns: Option<u64>,
}

/// Servers that answered, by ticks, if operations go to several.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerTicks {
    /// Names of the servers by their numbers; empty in slices of a drive, which knows only addresses
    /// ([`Slice::servers`]).
    pub names: Vec<String>,
    /// Servers of which an operation ended in the tick with the outcome ok or not found, as bits: the lowest one is of
    /// the first server. Ticks as in [`Slice::ticks`].
    pub answered: Vec<u64>,
}

/// Measurements of one slice. Times are nanoseconds since the run's start on CLOCK_MONOTONIC.
#[derive(Debug, Clone, PartialEq)]
pub struct Slice<H = Histogram<u64>> {
    /// Position in the phase, from 0.
    pub ordinal: u32,
    /// True for the part so far of the phase's first slice, which follows as a whole: only for displays.
    pub preview: bool,
    /// True when the slice lies in the phase's warm-up and counts for nothing.
    pub warmup: bool,
    /// True if the slice lies after the phase's planned end: no operation started in it, and the last answers
    /// arrived. Their times count in the phase's times, but not in a rate.
    pub drain: bool,
    /// Start of the slice.
    pub start_ns: u64,
    /// End of the slice.
    pub end_ns: u64,
    /// Wall time at the end, in nanoseconds since 1970, to join with servers' logs.
    pub wall_ns: i64,
    /// Histograms of the operations that ended in the slice; none for operation types without any.
    pub histograms: Vec<SliceHistogram<H>>,
    /// Operations that were due and never sent because the phase ended, by their waiting time since the scheduled
    /// start (3 digits). They belong to the response time of the phase as a whole; the type of each was never
    /// decided. Open loop only, and only at a phase's end.
    pub unfinished: Option<H>,
    /// Operations whose scheduled time had passed and that were not sent, at the slice's end. Open loop only.
    pub due_unsent: u64,
    /// Operations sent and not answered, at the slice's end.
    pub in_flight: u64,
    /// Age of the oldest operation that was due or in flight, at the slice's end.
    pub oldest_age_ns: u64,
    /// Scheduling delay of the generator: from the moment at which an operation could have been sent until it was. It
    /// could have been sent when it was due and a session was idle, or would have been idle without earlier delays.
    /// Open loop only; 50th and 99th percentile and maximum.
    pub lag_p50_ns: u64,
    /// See `lag_p50_ns`.
    pub lag_p99_ns: u64,
    /// See `lag_p50_ns`.
    pub lag_max_ns: u64,
    /// CPU time of the generator's workers in the slice, user and system. 0 for sessions whose store runs inside the
    /// worker's thread, because it cannot be separated from the store's.
    pub worker_cpu_ns: u64,
    /// Number of times that the generator's workers released their processor for lack of work.
    pub voluntary_switches: u64,
    /// Number of times that the system preempted them.
    pub involuntary_switches: u64,
    /// Observations of a witness of the machine's pauses; `None` without a witness: it is unknown then which
    /// operations were disturbed.
    pub watched: Option<Disturbance<H>>,
    /// Answers of each server, if operations go to several.
    pub servers: Vec<ServerAnswers<H>>,
    /// Ticks of [`TICK_NS`] from the slice's start, the last of them possibly shorter; empty if they were not counted.
    /// Operations that ended after the slice's end and count in it are in the last one.
    pub ticks: Vec<Tick>,
    /// Clients of which an operation that ended in the slice failed, or took [`AFFECTED_NS`](crate::AFFECTED_NS) or
    /// longer; `None` if ticks were not counted.
    pub affected: Option<ClientSet>,
    /// Silences of clients that ended in the slice, of each client the longest; in the last slice also those that did
    /// not end. `None` if ticks were not counted.
    pub silences: Option<Vec<ClientSilence>>,
    /// Servers that answered, by ticks; `None` if ticks were not counted, or operations go to one server.
    pub server_ticks: Option<ServerTicks>,
    /// Parts of the keys; `None` if ticks were not counted, or the sessions do not know the parts.
    pub key_parts: Option<KeyParts>,
}

impl<H> Slice<H> {
    /// Returns the length of the slice in nanoseconds.
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

// Not derived: a derived implementation would require a default of `H`.
impl<H> Default for Slice<H> {
    fn default() -> Self {
        Self {
            ordinal: 0,
            preview: false,
            warmup: false,
            drain: false,
            start_ns: 0,
            end_ns: 0,
            wall_ns: 0,
            histograms: Vec::new(),
            unfinished: None,
            due_unsent: 0,
            in_flight: 0,
            oldest_age_ns: 0,
            lag_p50_ns: 0,
            lag_p99_ns: 0,
            lag_max_ns: 0,
            worker_cpu_ns: 0,
            voluntary_switches: 0,
            involuntary_switches: 0,
            watched: None,
            servers: Vec::new(),
            ticks: Vec::new(),
            affected: None,
            silences: None,
            server_ticks: None,
            key_parts: None,
        }
    }
}
