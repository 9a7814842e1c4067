//! Rows of every slice of a run, for calculations in other programs.

use plimsoll_core::{KindId, Outcome, Slice, TICK_NS};
use plimsoll_record::Distribution;
use plimsoll_record::data::{Phase, PhaseKind, Run, Trial};

use crate::latency::SHOWN;
use crate::name;
use crate::phase::{PhaseFacts, has_response};

/// Name of all operation types together in rows of slices.
pub const ALL: &str = "all";

/// A slice shorter than this share of a usual one has no throughput of its own: a phase's last slice may be a few
/// milliseconds long, and its rate would be an accident.
pub(crate) const SHORT_SLICE: f64 = 0.1;

/// The operations of one kind (or of all) that ended in one slice.
#[derive(Debug, Clone, PartialEq)]
pub struct SliceRow {
    /// Position of the trial in the plan.
    pub trial_ordinal: u32,
    /// Name of the trial.
    pub trial: String,
    /// Label of the store.
    pub store: String,
    /// Position of the phase in the trial.
    pub phase_ordinal: u32,
    /// Name of the phase.
    pub phase: String,
    /// Kind of the phase.
    pub phase_kind: PhaseKind,
    /// Position in the phase, from 0.
    pub slice: u32,
    /// True when it counts for nothing.
    pub warmup: bool,
    /// True after the planned end of the phase: its operations are in no rate.
    pub drain: bool,
    /// Start on the run's clock.
    pub start_s: f64,
    /// End.
    pub end_s: f64,
    /// Wall time at the end, nanoseconds since 1970.
    pub wall_ns: i64,
    /// Kind of operation; [`ALL`] for all together.
    pub op: String,
    /// `response` or `service`.
    pub measure: &'static str,
    /// Operations that ended.
    pub count: u64,
    /// Number of refused ones among them.
    pub rejected: u64,
    /// Number of unanswered ones among them.
    pub unknown: u64,
    /// Due and never sent when the phase ended; in rows of all kinds only.
    pub unfinished: u64,
    /// Operations that did not fail, a second; `None` if the slice is shorter than a tenth of the phase's first.
    pub rate_per_s: Option<f64>,
    /// Mean time in nanoseconds, without those that were refused.
    pub mean_ns: f64,
    /// Standard deviation of the times.
    pub stddev_ns: f64,
    /// p50, p90, p95, p99, p99.9; `None` with fewer than ten samples above. See [`SliceRow::percentile_ns`].
    pub percentiles_ns: [Option<u64>; SHOWN.len()],
    /// Longest.
    pub max_ns: u64,
    /// Due and not sent at the slice's end.
    pub due_unsent: u64,
    /// Sent and not answered at the slice's end.
    pub in_flight: u64,
    /// Scheduling delay of the generator, 99th percentile, nanoseconds.
    pub lag_p99_ns: u64,
    /// CPU time of the generator's workers.
    pub worker_cpu_ns: u64,
    /// Number of `count` that a pause of the machine disturbed; `None` if pauses were not observed.
    pub disturbed: Option<u64>,
    /// p99 of the others.
    pub undisturbed_p99_ns: Option<u64>,
    /// Time in pauses of the machine and their aftermath; `None` if pauses were not observed.
    pub disturbed_ns: Option<u64>,
    /// Times without an answer, in ns: at the slice's start, the longest, and at its end. All are its length if it has
    /// no answer. By ticks if they are counted, else 0 or the length; in rows of all kinds only.
    pub silent_ns: [u64; 3],
    /// The times behind it, ascending, and how often each was seen; those refused are not in it.
    pub times_ns: Vec<(u64, u64)>,
}

impl SliceRow {
    /// The percentile `name`, one of `p50`, `p90`, `p95`, `p99` and `p999`; `None` with fewer than ten samples above.
    pub fn percentile_ns(&self, name: &str) -> Option<u64> {
        self.percentiles_ns[SHOWN.iter().position(|known| *known == name)?]
    }
}

/// Returns all rows: for each slice in time order all operation types together, then each type. Steps within
/// operations are left out.
pub fn slices(run: &Run) -> impl Iterator<Item = SliceRow> {
    let phases = run.trials.iter().flat_map(|trial| trial.phases.iter().map(move |phase| (trial, phase)));
    phases.flat_map(|(trial, phase)| {
        let facts = PhaseFacts::gather(trial, phase);
        let names = facts.kinds().into_iter().map(|kind| Some(facts.op_name(kind)));
        let ops: Vec<Option<&str>> = std::iter::once(None).chain(names).collect();
        phase.slices.iter().flat_map(move |slice| {
            let usual_ns = phase.slices.first().map_or(0, Slice::length_ns);
            let rows: Vec<SliceRow> = ops.iter().map(|op| row(&facts, slice, usual_ns, *op)).collect();
            rows
        })
    })
}

/// Returns the row of all operation types together of a slice of `phase` in progress, and the row of each type.
/// `usual_ns` is the length of the phase's first slice.
pub fn of_slice(trial: &Trial, phase: &Phase, slice: &Slice<Distribution>, usual_ns: u64) -> (SliceRow, Vec<SliceRow>) {
    let mut facts = PhaseFacts::begun(trial, phase);
    facts.open_loop = has_response(slice);
    let mut kinds: Vec<KindId> = facts.ended(slice).map(|one| one.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let types = kinds.into_iter().map(|kind| row(&facts, slice, usual_ns, Some(facts.op_name(kind))));
    (row(&facts, slice, usual_ns, None), types.collect())
}

fn row(facts: &PhaseFacts<'_>, slice: &Slice<Distribution>, usual_ns: u64, op: Option<&str>) -> SliceRow {
    let of_kind = || facts.ended(slice).filter(|one| facts.is_kind(one.kind, op));
    let count = |wanted: fn(Outcome) -> bool| -> u64 {
        of_kind().filter(|one| wanted(one.outcome)).map(|one| one.histogram.len()).sum()
    };
    let times = facts.waited_in(slice, op);
    let length_ns = slice.length_ns().max(1) as f64;
    let has_rate = length_ns >= usual_ns as f64 * SHORT_SLICE;
    let percentile = |name: &str| times.percentile(name).ok();
    SliceRow {
        trial_ordinal: facts.trial.header.ordinal,
        trial: name::trial(&facts.trial.header),
        store: facts.trial.header.store_label.clone(),
        phase_ordinal: facts.phase.header.ordinal,
        phase: facts.phase.header.name.clone(),
        phase_kind: facts.phase.header.kind,
        slice: slice.ordinal,
        warmup: facts.is_warmup(slice),
        drain: slice.drain,
        start_s: slice.start_ns as f64 / 1e9,
        end_s: slice.end_ns as f64 / 1e9,
        wall_ns: slice.wall_ns,
        op: op.unwrap_or(ALL).to_string(),
        measure: facts.measure().name(),
        count: count(|_| true),
        rejected: count(|outcome| outcome == Outcome::Rejected),
        unknown: count(|outcome| outcome == Outcome::Unknown),
        unfinished: slice.unfinished.as_ref().filter(|_| op.is_none()).map_or(0, Distribution::len),
        rate_per_s: has_rate.then(|| count(|outcome| !outcome.is_error()) as f64 * 1e9 / length_ns),
        mean_ns: times.mean_ns(),
        stddev_ns: times.stddev_ns(),
        percentiles_ns: SHOWN.map(percentile),
        max_ns: times.max_ns(),
        due_unsent: slice.due_unsent,
        in_flight: slice.in_flight,
        lag_p99_ns: slice.lag_p99_ns,
        worker_cpu_ns: slice.worker_cpu_ns,
        disturbed: slice.watched.as_ref().map(|watched| {
            let of_kind = watched.disturbed.iter().filter(|one| facts.is_kind(one.kind, op));
            of_kind.map(|one| one.histogram.len()).sum()
        }),
        undisturbed_p99_ns: facts.judged_slice(slice, op).and_then(|times| times.percentile("p99").ok()),
        disturbed_ns: slice.watched.as_ref().map(|watched| watched.disturbed_ns),
        silent_ns: if op.is_none() { silent_ns(slice, count(|outcome| !outcome.is_error())) } else { [0; 3] },
        times_ns: times.counts().to_vec(),
    }
}

/// Returns the times without one of the `answered` operations of a slice, as [`SliceRow::silent_ns`] has them.
fn silent_ns(slice: &Slice<Distribution>, answered: u64) -> [u64; 3] {
    if slice.ticks.is_empty() {
        return [if answered == 0 { slice.length_ns() } else { 0 }; 3];
    }
    let [mut first, mut longest, mut last] = [0; 3];
    let mut begin = 0;
    for ticks in slice.ticks.chunk_by(|a, b| (a.answered == 0) == (b.answered == 0)) {
        let end = begin + ticks.len();
        let is_last = end == slice.ticks.len();
        if ticks.iter().all(|tick| tick.answered == 0) {
            let end_ns = if is_last { slice.length_ns() } else { end as u64 * TICK_NS };
            let length_ns = end_ns.saturating_sub(begin as u64 * TICK_NS);
            longest = longest.max(length_ns);
            first = if begin == 0 { length_ns } else { first };
            last = if is_last { length_ns } else { last };
        }
        begin = end;
    }
    [first, longest, last]
}
