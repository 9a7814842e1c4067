//! One slice (a second, by default) of a phase.

use hdrhistogram::Histogram;

use crate::op::{KindId, Outcome};
use crate::pause::Pause;
use crate::session::Address;

crate::words! {
    /// Which time a histogram is of. Both are in nanoseconds.
    pub enum Measure {
        /// From the scheduled start to the answer. In a closed loop equal to the service time.
        Response = "response",
        /// From the actual send to the answer.
        Service = "service",
    }
}

/// The operations of one kind and outcome that ended in a slice. `H` is the histogram: dense where it is
/// made, packed where a recording is read back.
#[derive(Debug, Clone, PartialEq)]
pub struct SliceHistogram<H = Histogram<u64>> {
    /// Position of the kind in the workload's list.
    pub kind: KindId,
    /// What they came to.
    pub outcome: Outcome,
    /// Which time. A closed loop has `Service` only.
    pub measure: Measure,
    /// Nanoseconds, 1 ns to 1 h, 3 significant digits (2 for outcomes other than ok).
    pub histogram: H,
}

/// What a witness of the machine's own pauses saw of a slice. A pause belongs to the slice in which it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Watched<H = Histogram<u64>> {
    /// Time in pauses and their aftermath, on any processor.
    pub disturbed_ns: u64,
    /// The pauses, by their ends; where there were more than [`crate::pause::PAUSES_MAX`], the longest.
    pub pauses: Vec<Pause>,
    /// How late each wake-up of the witness was, over all processors (2 digits); `None` when there was none.
    pub lateness: Option<H>,
    /// Operations that were disturbed: that ended after a pause and should have started before it or its aftermath was
    /// over. They are in the slice's other histograms too, with the same digits. Whole operations only, and only by the
    /// measure of how long a client waited: response in an open loop, service in a closed one.
    pub disturbed: Vec<SliceHistogram<H>>,
}

impl<H> Default for Watched<H> {
    fn default() -> Self {
        Self { disturbed_ns: 0, pauses: Vec::new(), lateness: None, disturbed: Vec::new() }
    }
}

/// What one of several servers answered in a slice.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered<H = Histogram<u64>> {
    /// Where that server listens.
    pub by: Address,
    /// How long clients waited for operations that came to what was asked, ok or not found: response times in an open loop,
    /// service times in a closed one, in nanoseconds (2 digits). `None` where there were none.
    pub times: Option<H>,
}

/// What happened in one slice. Times are nanoseconds since the run's start on CLOCK_MONOTONIC.
#[derive(Debug, Clone, PartialEq)]
pub struct Slice<H = Histogram<u64>> {
    /// Position in its phase, from 0.
    pub ordinal: u32,
    /// True when the slice lies in the phase's warm-up and counts for nothing.
    pub warmup: bool,
    /// True when the slice lies after the phase's planned end: nothing was started in it, the last answers came in.
    /// What they took belongs to the phase's times, and nothing of it to a rate.
    pub drain: bool,
    /// Start of the slice.
    pub start_ns: u64,
    /// End of the slice.
    pub end_ns: u64,
    /// Wall time at the end, in nanoseconds since 1970, to join with servers' logs.
    pub wall_ns: i64,
    /// Histograms of the operations that ended in the slice; none for kinds that had none.
    pub histograms: Vec<SliceHistogram<H>>,
    /// Operations that were due and never sent because the phase ended, by the time they waited from their
    /// scheduled start (3 digits). They belong to the response time of the phase as a whole; which kind each
    /// would have been was never decided. Open loop only, and only at a phase's end.
    pub unfinished: Option<H>,
    /// Operations whose scheduled time had passed and that were not sent, at the slice's end. Open loop only.
    pub due_unsent: u64,
    /// Operations sent and not answered, at the slice's end.
    pub in_flight: u64,
    /// Age of the oldest operation that was due or in flight, at the slice's end.
    pub oldest_age_ns: u64,
    /// How late the generator itself was: from when an operation could have been sent to when it was. It could have
    /// been when it was due and a session idle, or a session would have been idle had the generator not been late
    /// before. Open loop only; 50th and 99th percentile and maximum.
    pub lag_p50_ns: u64,
    /// See `lag_p50_ns`.
    pub lag_p99_ns: u64,
    /// See `lag_p50_ns`.
    pub lag_max_ns: u64,
    /// CPU time that the generator's workers used in the slice, user and system. 0 for sessions whose
    /// store runs inside the worker's thread: it cannot be told apart from the store's.
    pub worker_cpu_ns: u64,
    /// How often the generator's workers gave their processor up because they had nothing to do.
    pub voluntary_switches: u64,
    /// How often the system took a processor from them although they had.
    pub involuntary_switches: u64,
    /// What a witness of the machine's own pauses saw; `None` where there was none: then nobody knows what was
    /// disturbed.
    pub watched: Option<Watched<H>>,
    /// What each server answered, where operations go to several.
    pub servers: Vec<Answered<H>>,
}

// Not derived: a derived one would want a default of `H`.
impl<H> Default for Slice<H> {
    fn default() -> Self {
        Self {
            ordinal: 0,
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
        }
    }
}
