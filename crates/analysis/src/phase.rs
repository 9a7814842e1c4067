//! Quantities of a phase, by the names that formulas use.

use std::collections::BTreeMap;

use plimsoll_core::quantity::Percentile;
use plimsoll_core::study::is_of_operation;
use plimsoll_core::{KindId, Measure, Outcome, Slice, SliceHistogram, quantity};
use plimsoll_record::Distribution;
use plimsoll_record::data::{Asked, Phase, PhaseEnd, PhaseKind, PhaseResult, PhaseState, ResultName, Trial};

use crate::faults;
use crate::known;
use crate::latency::Times;
use crate::outage;
use crate::stat;

/// Returns true if a phase failed because its rate was not carried. Its measurements until then are valid: they answer
/// the question.
pub fn is_overload(end: &PhaseEnd) -> bool {
    end.overloaded && matches!(end.state, PhaseState::Failed(_))
}

/// Prefix of the name of a percentile without operations disturbed by pauses of the machine.
pub const UNDISTURBED: &str = "undisturbed_";

/// A value and the observations behind it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantity {
    /// Value in the quantity's own unit; times in seconds.
    pub value: f64,
    /// Observations.
    pub n: u64,
}

impl Quantity {
    fn of(result: &PhaseResult) -> Self {
        Quantity { value: result.value, n: result.n }
    }

    /// The percentile `name` of `times`, in seconds, or why there is none.
    pub fn percentile(times: &Times, name: &str) -> Result<Self, String> {
        times.percentile(name).map(|ns| Quantity { value: ns as f64 / 1e9, n: times.len() })
    }
}

/// A phase with its histograms merged.
pub struct PhaseFacts<'a> {
    /// The trial it belongs to.
    pub trial: &'a Trial,
    /// The phase.
    pub phase: &'a Phase,
    /// Seconds in which operations were started and that count. What came back after the planned end is counted,
    /// the time it took is not: one operation that stalls would make all others look slow.
    pub counted_s: f64,
    /// Operations, merged over the slices that count.
    pub histograms: BTreeMap<(KindId, Outcome, Measure), Times>,
    /// Steps within operations (statements of a transaction), merged likewise. They are no operations: nothing that
    /// counts or times operations looks at them.
    pub steps: BTreeMap<(KindId, Outcome, Measure), Times>,
    /// Part of `histograms` disturbed by pauses of the machine, by the measure of clients' waiting; `None` if pauses
    /// were not observed.
    pub disturbed: Option<BTreeMap<(KindId, Outcome, Measure), Times>>,
    /// Number of operations of `histograms` that ended after the planned end: they count, but in no rate.
    drained: BTreeMap<(KindId, Outcome, Measure), u64>,
    /// Start of counting, if the plan leaves it to be detected.
    counted_from_ns: u64,
    /// Operations that were due and never sent.
    pub unfinished: Option<Times>,
    /// Scheduled times were kept.
    pub open_loop: bool,
}

impl<'a> PhaseFacts<'a> {
    /// The phases of a trial.
    pub fn of(trial: &'a Trial) -> Vec<Self> {
        trial.phases.iter().map(|phase| PhaseFacts::gather(trial, phase)).collect()
    }

    /// Merges the slices that count. Where the plan wants the warm-up to be found, what was found counts for nothing.
    pub fn gather(trial: &'a Trial, phase: &'a Phase) -> Self {
        let all = PhaseFacts::from(trial, phase, 0);
        if !phase.header.finds_warmup {
            return all;
        }
        let found = all.settled_after().map(|(found, _)| found).filter(|found| *found > 0);
        let from_ns = found.and_then(|found| Some(phase.slices.get(found)?.start_ns));
        from_ns.map_or(all, |from_ns| PhaseFacts::from(trial, phase, from_ns))
    }

    /// Merges the slices that count and begin at `from_ns` or later.
    fn from(trial: &'a Trial, phase: &'a Phase, from_ns: u64) -> Self {
        let disturbed = phase.slices.iter().any(|one| one.watched.is_some()).then(BTreeMap::new);
        let mut facts = PhaseFacts { counted_from_ns: from_ns, disturbed, ..PhaseFacts::begun(trial, phase) };
        phase.slices.iter().for_each(|slice| facts.add(slice));
        let counted_ns: u64 = facts.counted().map(|slice| slice.length_ns()).sum();
        facts.counted_s = counted_ns as f64 / 1e9;
        if let Some(planned) = phase.end.result(ResultName::PlannedSeconds) {
            facts.counted_s = facts.counted_s.min(planned.value);
        }
        facts
    }

    /// The phase before its first slice.
    pub fn begun(trial: &'a Trial, phase: &'a Phase) -> Self {
        PhaseFacts {
            trial,
            phase,
            counted_s: 0.0,
            histograms: BTreeMap::new(),
            steps: BTreeMap::new(),
            disturbed: None,
            drained: BTreeMap::new(),
            counted_from_ns: 0,
            unfinished: None,
            open_loop: false,
        }
    }

    /// Takes the next slice.
    fn add(&mut self, slice: &Slice<Distribution>) {
        self.open_loop |= has_response(slice);
        if let Some(waited) = &slice.unfinished {
            self.unfinished.get_or_insert_default().add(waited.counts());
        }
        if self.is_warmup(slice) {
            return;
        }
        match (&slice.watched, &mut self.disturbed) {
            (Some(watched), Some(disturbed)) => {
                for one in &watched.disturbed {
                    disturbed.entry((one.kind, one.outcome, one.measure)).or_default().add(one.histogram.counts());
                }
            }
            // What was not watched is not known.
            _ => self.disturbed = None,
        }
        for one in &slice.histograms {
            let key = (one.kind, one.outcome, one.measure);
            let into = if is_step(self.trial, one.kind) { &mut self.steps } else { &mut self.histograms };
            into.entry(key).or_default().add(one.histogram.counts());
            if slice.drain {
                *self.drained.entry(key).or_default() += one.histogram.len();
            }
        }
    }

    /// Returns true if `slice` of this phase is warm-up: by the plan, or because it was detected.
    pub fn is_warmup(&self, slice: &Slice<Distribution>) -> bool {
        slice.warmup || slice.start_ns < self.counted_from_ns
    }

    /// The slices that count in which operations were started.
    pub fn counted(&self) -> impl Iterator<Item = &'a Slice<Distribution>> + '_ {
        self.phase.slices.iter().filter(|slice| !self.is_warmup(slice) && !slice.drain)
    }

    /// Throughput as it would be with the warm-up that was found; `None` where none was left out.
    pub fn rate_with_warmup(&self) -> Option<f64> {
        (self.counted_from_ns > 0).then(|| crate::stat::mean(&self.rates(true)))
    }

    /// The measure that stands for how long a client waited.
    pub fn measure(&self) -> Measure {
        if self.open_loop { Measure::Response } else { Measure::Service }
    }

    /// Name of the kind of operation at `kind`.
    pub fn op_name(&self, kind: KindId) -> &'a str {
        self.trial.header.kinds.get(usize::from(kind)).map_or("?", |kind| kind.name.as_str())
    }

    /// Returns true if `kind` is of `op`, or `op` is `None`.
    pub fn is_kind(&self, kind: KindId, op: Option<&str>) -> bool {
        op.is_none_or(|op| is_of_operation(op, self.op_name(kind)))
    }

    /// The kinds of operation that ended in counted time.
    pub fn kinds(&self) -> Vec<KindId> {
        let mut kinds: Vec<KindId> = self.histograms.keys().map(|(kind, ..)| *kind).collect();
        kinds.dedup();
        kinds
    }

    /// The histograms of a slice of this phase that are of operations, not of steps within them.
    pub fn operations<'s>(
        &self,
        slice: &'s Slice<Distribution>,
    ) -> impl Iterator<Item = &'s SliceHistogram<Distribution>> + use<'s, 'a> {
        let trial = self.trial;
        slice.histograms.iter().filter(move |one| !is_step(trial, one.kind))
    }

    /// Returns the operations that ended in the slice, each once, by clients' waiting time.
    pub fn ended<'s>(
        &self,
        slice: &'s Slice<Distribution>,
    ) -> impl Iterator<Item = &'s SliceHistogram<Distribution>> + use<'s, 'a> {
        let measure = self.measure();
        self.operations(slice).filter(move |one| one.measure == measure)
    }

    /// Returns the merged waiting times of clients, of type `op` (all when `None`).
    fn merged(&self, op: Option<&str>) -> impl Iterator<Item = (&(KindId, Outcome, Measure), &Times)> {
        let measure = self.measure();
        self.histograms.iter().filter(move |((kind, _, of), _)| *of == measure && self.is_kind(*kind, op))
    }

    /// Operations that ended in counted time, of kind `op` (all when `None`), whose outcome `wanted` accepts.
    pub fn count(&self, op: Option<&str>, wanted: impl Fn(Outcome) -> bool) -> u64 {
        self.merged(op).filter(|((_, outcome, _), _)| wanted(*outcome)).map(|(_, times)| times.len()).sum()
    }

    /// Mean time between sending an operation and its end, of all outcomes, in seconds.
    pub fn mean_of_all_s(&self) -> f64 {
        let mut all = Times::default();
        let served = self.histograms.iter().filter(|((_, _, measure), _)| *measure == Measure::Service);
        served.for_each(|(_, times)| all.add(times.counts()));
        if all.is_empty() { 0.0 } else { all.mean_ns() / 1e9 }
    }

    /// Number of operations that were due and never sent.
    pub fn unfinished_count(&self) -> u64 {
        self.unfinished.as_ref().map_or(0, Times::len)
    }

    /// Returns the waiting times of clients for type `op`, or for all types together: every outcome but rejected, and
    /// with all types also operations that were never sent.
    pub fn waited(&self, op: Option<&str>) -> Times {
        let mut all = Times::default();
        let answered = self.merged(op).filter(|((_, outcome, _), _)| *outcome != Outcome::Rejected);
        answered.for_each(|(_, times)| all.add(times.counts()));
        if let (None, Some(unfinished)) = (op, &self.unfinished) {
            all.add(unfinished.counts());
        }
        all
    }

    /// Returns the waiting times of one slice.
    pub fn waited_in(&self, slice: &Slice<Distribution>, op: Option<&str>) -> Times {
        let mut all = Times::default();
        let answered = self.ended(slice).filter(|one| one.outcome != Outcome::Rejected && self.is_kind(one.kind, op));
        answered.for_each(|one| all.add(one.histogram.counts()));
        slice.unfinished.iter().filter(|_| op.is_none()).for_each(|unfinished| all.add(unfinished.counts()));
        all
    }

    /// Number of operations that count as errors because they were due and never sent. The user's wish for an end is no
    /// failure of operations.
    pub fn unsent_errors(&self) -> u64 {
        if self.phase.end.state == PhaseState::Interrupted { 0 } else { self.unfinished_count() }
    }

    /// Operations that were rejected, unknown or never sent.
    pub fn error_count(&self) -> u64 {
        self.count(None, Outcome::is_error).saturating_sub(self.stopped_count()) + self.unsent_errors()
    }

    /// Share of operations that were rejected, unknown or never sent, in per cent; `None` when there were none. With an
    /// operation type `op` without what was never sent, which is of none.
    pub fn error_percent(&self, op: Option<&str>) -> Option<Quantity> {
        let (errors, n) = match op {
            None => (self.error_count(), self.count(None, |_| true) + self.unsent_errors()),
            Some(_) => (self.count(op, Outcome::is_error), self.count(op, |_| true)),
        };
        (n > 0).then(|| Quantity { value: errors as f64 * 100.0 / n as f64, n })
    }

    /// Operations whose outcome is unknown, but for those in flight when the user wanted an end.
    pub fn unknown(&self) -> Quantity {
        let unknown = self.count(None, |outcome| outcome == Outcome::Unknown).saturating_sub(self.stopped_count());
        Quantity { value: unknown as f64, n: self.count(None, |_| true) }
    }

    /// Share of the operations that ended and were rejected or unknown, in per cent; `None` when none ended.
    pub fn failed_percent(&self) -> Option<Quantity> {
        let n = self.count(None, |_| true);
        let failed = self.count(None, Outcome::is_error).saturating_sub(self.stopped_count());
        (n > 0).then(|| Quantity { value: failed as f64 * 100.0 / n as f64, n })
    }

    /// Returns the number of operations in flight when the user wanted an end. They are unknown, and no failure.
    pub fn stopped_count(&self) -> u64 {
        self.result(ResultName::Stopped).map_or(0, |stopped| stopped.value as u64)
    }

    /// Returns the number of operations of `kind` with `outcome` that ended after the planned end.
    pub fn drained(&self, kind: KindId, outcome: Outcome, measure: Measure) -> u64 {
        self.drained.get(&(kind, outcome, measure)).copied().unwrap_or(0)
    }

    /// Operations that did not fail, a second; `None` when no time was counted. Those that ended after the planned end
    /// make up for those that had begun before what is counted, and are in no rate.
    pub fn rate(&self, op: Option<&str>) -> Option<Quantity> {
        let done = self.merged(op).filter(|((_, outcome, _), _)| !outcome.is_error());
        let drained: u64 = done.map(|((kind, outcome, of), _)| self.drained(*kind, *outcome, *of)).sum();
        let n = self.count(op, |outcome| !outcome.is_error()) - drained;
        (self.counted_s > 0.0).then(|| Quantity { value: n as f64 / self.counted_s, n })
    }

    /// Operations that did not fail, a second, of every whole slice in which operations were started; those of the
    /// warm-up only when `warmup` is true.
    pub fn rates(&self, warmup: bool) -> Vec<f64> {
        self.slice_rates(warmup).map(|(_, rate)| rate).collect()
    }

    /// Returns the rates with their slices. The last slice may be a few milliseconds long, and its rate an accident:
    /// it is no whole one.
    pub fn slice_rates(&self, warmup: bool) -> impl Iterator<Item = (&'a Slice<Distribution>, f64)> + '_ {
        let slices = &self.phase.slices;
        let longest = slices.iter().map(Slice::length_ns).max().unwrap_or(0);
        let counted = slices.iter().filter(move |slice| (warmup || !self.is_warmup(slice)) && !slice.drain);
        counted.filter(move |slice| slice.length_ns() * 2 > longest).map(move |slice| {
            let ops = self.ended(slice).filter(|one| !one.outcome.is_error());
            let ops: u64 = ops.map(|one| one.histogram.len()).sum();
            (slice, ops as f64 * 1e9 / slice.length_ns() as f64)
        })
    }

    /// Returns the beginning of the first fault of the phase, without skipped repeats; `None` without any.
    pub fn first_fault_ns(&self) -> Option<u64> {
        let phase = self.phase.header.ordinal;
        let of_phase = self.trial.faults.iter().filter(|span| span.phase == phase && !span.detail.is_skipped);
        of_phase.map(|span| span.begun_ns).min()
    }

    /// Returns the [rates](Self::rates) before the first fault: after it throughput is the fault's effect.
    pub fn rates_before_faults(&self, warmup: bool) -> Vec<f64> {
        let first_ns = self.first_fault_ns().unwrap_or(u64::MAX);
        self.slice_rates(warmup).take_while(|(slice, _)| slice.end_ns <= first_ns).map(|(_, rate)| rate).collect()
    }

    /// Slices of a closed loop after which throughput had settled before the first fault, by MSER-5, and how many of them
    /// the plan takes for warm-up; `None` in an open loop, which has the rate it was given, and with too few slices to tell.
    pub fn settled_after(&self) -> Option<(usize, usize)> {
        if self.open_loop || self.phase.header.kind != PhaseKind::Drive {
            return None;
        }
        let found = crate::stat::series::warmup_end(&self.rates_before_faults(true))?;
        Some((found, self.phase.slices.iter().filter(|slice| self.is_warmup(slice)).count()))
    }

    /// Returns the delay of the generator, if it matters.
    pub fn late(&self) -> Option<&'a str> {
        self.phase.end.late.as_deref()
    }

    /// Returns true if a late generator may have changed the quantity `name`: response times up, operations done in
    /// the time down, and operations never sent up. Service times, refusals and answers it does not touch.
    pub fn is_moved(&self, name: &str, op: Option<&str>) -> bool {
        let mut kinds = self.histograms.keys().map(|(kind, ..)| *kind);
        self.late().is_some()
            && op.is_none_or(|op| kinds.any(|kind| self.is_kind(kind, Some(op)) && self.is_scheduled(kind)))
            && match name {
                "rate" | "ops" | "unfinished" => true,
                "errors" => self.unsent_errors() > 0,
                name => matches!(name, "mean" | "stddev" | "outage") || is_percentile(name),
            }
    }

    /// Returns true if operations of `kind` waited for anything but their answers: false if each began when it was
    /// sent, as in a scenario without a rate beside one with a rate.
    pub fn is_scheduled(&self, kind: KindId) -> bool {
        let of_kind = self.histograms.iter().filter(|((one, _, of), _)| *one == kind && *of == Measure::Response);
        of_kind.into_iter().any(|((_, outcome, _), response)| {
            let service = self.histograms.get(&(kind, *outcome, Measure::Service));
            service.is_none_or(|service| service.counts() != response.counts())
        })
    }

    /// Seconds of the operations that were asked one by one and answered, of kind `op` or of all; ascending.
    pub fn asked_seconds(&self, op: Option<&str>) -> Vec<f64> {
        let is_of = |asked: &&Asked| !asked.outcome.is_error() && self.is_kind(asked.kind, op);
        let mut seconds: Vec<f64> = self.phase.end.asked.iter().filter(is_of).map(asked_s).collect();
        seconds.sort_by(f64::total_cmp);
        seconds
    }

    /// Records of the answers and of the ledger that are wrong or missing; `None` when nothing was checked.
    pub fn wrong(&self) -> Option<Quantity> {
        let ordinal = self.phase.header.ordinal;
        let answers = self.trial.answers.iter().filter(|answer| answer.phase == ordinal);
        let ledgers = self.trial.ledgers.iter().filter(|ledger| ledger.phase == ordinal);
        let mut seen = None;
        for (wrong, n) in answers
            .map(|answer| (answer.counts.wrong + answer.counts.missing, answer.counts.answers))
            .chain(ledgers.filter_map(|ledger| Some((known::wrong(ledger)?, ledger.read_back))))
        {
            let sum: &mut Quantity = seen.get_or_insert(Quantity { value: 0.0, n: 0 });
            sum.value += wrong as f64;
            sum.n += n;
        }
        seen
    }

    /// Acknowledged writes that were not found again; `None` when nothing was checked, or could not be.
    pub fn lost(&self) -> Option<Quantity> {
        let ordinal = self.phase.header.ordinal;
        self.trial
            .ledgers
            .iter()
            .find(|ledger| ledger.phase == ordinal)
            .and_then(|ledger| Some(Quantity { value: known::lost(ledger)? as f64, n: ledger.acknowledged }))
    }

    /// A result as it was recorded.
    pub fn result(&self, name: ResultName) -> Option<Quantity> {
        self.phase.end.result(name).map(Quantity::of)
    }

    /// A result by the name that formulas have for it.
    fn recorded(&self, name: &str) -> Option<Quantity> {
        let (name, subject) = match name.strip_prefix(quantity::CYCLES) {
            Some(counter) => (ResultName::Cycles, counter),
            None => (ResultName::named(name)?, ""),
        };
        let mut results = self.phase.end.results.iter();
        results.find(|result| result.name == name && result.subject == subject).map(Quantity::of)
    }

    /// The quantity `name`, of kind `op` where one is given, or why there is none.
    pub fn quantity(&self, name: &str, op: Option<&str>) -> Result<Quantity, String> {
        let header = &self.phase.header;
        match &self.phase.end.state {
            PhaseState::Complete => {}
            _ if is_overload(&self.phase.end) => {}
            state => return Err(format!("phase {} {}", header.name, state_words(state))),
        }
        let none = |what: &str| format!("phase {} {what}", header.name);
        match name {
            "median_seconds" => {
                let seconds = self.asked_seconds(op);
                let n = seconds.len() as u64;
                stat::median(&seconds)
                    .map(|value| Quantity { value, n })
                    .ok_or_else(|| none("has no answer that was timed individually"))
            }
            "rate" => self.rate(op).ok_or_else(|| none("has no operations in slices")),
            "errors" => self.error_percent(op).ok_or_else(|| none("has no operations in slices")),
            "unknown" => Ok(self.unknown()),
            "recovery" => faults::recovery(&faults::of_phase(self)).map_err(|why| none(&why)),
            "outage" => Ok(Quantity { value: outage::longest_s(self), n: self.count(None, |_| true) }),
            "wrong" => self.wrong().ok_or_else(|| none("was not checked, or could not be")),
            "lost" => self.lost().ok_or_else(|| none("did not look for writes, or could not")),
            "data_bytes" | "index_bytes" | "total_bytes" => {
                let footprint = self.phase.end.footprint.ok_or_else(|| none("measured no footprint"))?;
                let bytes = match name {
                    "data_bytes" => Some(footprint.data_bytes),
                    "index_bytes" => footprint.index_bytes,
                    _ => footprint.total_bytes,
                };
                bytes
                    .map(|bytes| Quantity { value: bytes as f64, n: 1 })
                    .ok_or_else(|| format!("the store does not report its {}", name.replace('_', " ")))
            }
            "device_bytes_per_record" => {
                let bytes = self.result(ResultName::DeviceBytes).ok_or_else(|| none("did not count device bytes"))?;
                let records = self.trial.header.record_count;
                (records > 0)
                    .then(|| Quantity { value: bytes.value / records as f64, n: records })
                    .ok_or_else(|| "the workload has no records".to_string())
            }
            "mean" | "stddev" => {
                let times = self.waited(op);
                let ns = if name == "mean" { times.mean_ns() } else { times.stddev_ns() };
                (!times.is_empty())
                    .then_some(Quantity { value: ns / 1e9, n: times.len() })
                    .ok_or_else(|| none(&no_times(op)))
            }
            // A number of operations is that of its observations.
            "ops" if op.is_some() => {
                let n = self.count(op, |_| true);
                Ok(Quantity { value: n as f64, n })
            }
            "ops" => {
                let all = self.result(ResultName::Ops).ok_or_else(|| none("has no result ops"))?;
                Ok(Quantity { n: all.value as u64, ..all })
            }
            name if is_percentile(name) => {
                let (times, percentile) = match name.strip_prefix(UNDISTURBED) {
                    Some(percentile) => {
                        let times = self.undisturbed(op);
                        (times.ok_or_else(|| none("did not record the machine's pauses"))?, percentile)
                    }
                    None if header.kind == PhaseKind::Ask => (self.asked_times(op), name),
                    None => (self.waited(op), name),
                };
                match op {
                    Some(_) if times.is_empty() => Err(none(&no_times(op))),
                    _ => Quantity::percentile(&times, percentile),
                }
            }
            // Where nothing finer was recorded (a load's is without opening its sessions), from start to end.
            "seconds" => Ok(self.result(ResultName::Seconds).unwrap_or_else(|| Quantity {
                value: self.phase.end.end_ns.saturating_sub(header.start_ns) as f64 / 1e9,
                n: 1,
            })),
            recorded => self.recorded(recorded).ok_or_else(|| none(&format!("has no result {recorded}"))),
        }
    }

    fn asked_times(&self, op: Option<&str>) -> Times {
        let mut times = Times::default();
        for seconds in self.asked_seconds(op) {
            times.add(&[((seconds * 1e9) as u64, 1)]);
        }
        times
    }
}

/// Returns the reason that a phase has no times of operation type `op`, or of any type.
fn no_times(op: Option<&str>) -> String {
    op.map_or("has no operations in slices".to_string(), |op| format!("has no times of {op} operations"))
}

/// Returns true if `name` is a percentile's, undisturbed or not.
pub(crate) fn is_percentile(name: &str) -> bool {
    Percentile::named(name.strip_prefix(UNDISTURBED).unwrap_or(name)).is_some()
}

/// True for a kind that is a step within operations of another kind.
fn is_step(trial: &Trial, kind: KindId) -> bool {
    trial.header.kinds.get(usize::from(kind)).is_some_and(|kind| kind.step_of.is_some())
}

/// True when the slice kept scheduled times.
pub fn has_response(slice: &Slice<Distribution>) -> bool {
    slice.unfinished.is_some() || slice.histograms.iter().any(|one| one.measure == Measure::Response)
}

/// Seconds that one asked operation took.
pub fn asked_s(asked: &Asked) -> f64 {
    asked.end_ns.saturating_sub(asked.start_ns) as f64 / 1e9
}

/// A phase's state as the end of a sentence that begins with the phase's name.
pub fn state_words(state: &PhaseState) -> String {
    match state {
        PhaseState::Complete => "is complete".to_string(),
        PhaseState::Unfinished => "has not ended".to_string(),
        PhaseState::Interrupted => "was interrupted".to_string(),
        PhaseState::Failed(why) => format!("failed: {why}"),
        PhaseState::Void(why) => format!("is void (its figures are not reported): {why}"),
    }
}
