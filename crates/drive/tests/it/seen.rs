//! Operations of the tests, and their observations.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_core::{
    Answer, Call, KindId, Measure, Observer, Op, OpKind, Outcome, Sessions, Slice, SliceHistogram, Stream, TICK_NS,
    Ticket, Value, ValueBuf, ValueType,
};
use plimsoll_drive::{Clock, Drive, DriveError, DriveResult, DriveSpec};

/// Operations of kind 0, each with a number that says whose it is.
pub struct Numbered {
    pub seed: u64,
    /// Operations for each client.
    pub ops: u64,
}

impl Stream for Numbered {
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
        params.push(Value::Int(number(self.seed, client, cycle)));
        (cycle < self.ops).then_some(0)
    }
}

pub fn number(seed: u64, client: u32, cycle: u64) -> i64 {
    (seed.wrapping_mul(0x9e37_79b9) + u64::from(client) * 1_000_000 + cycle) as i64
}

pub fn endless() -> Arc<dyn Stream> {
    Arc::new(Numbered { seed: 1, ops: u64::MAX })
}

pub fn kinds() -> Vec<OpKind> {
    vec![OpKind {
        name: "ask".to_owned(),
        call: Call::Nothing,
        params: vec![ValueType::Int],
        keep_answer: false,
        step_of: None,
    }]
}

/// An operation as an observer saw it sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sent {
    pub client: u32,
    pub cycle: u64,
    pub number: i64,
}

/// Keeps what went out and how it came back.
#[derive(Default)]
pub struct Log {
    pub sent: Mutex<Vec<Sent>>,
    pub finished: Mutex<Vec<Outcome>>,
}

pub struct Watcher(pub Arc<Log>);

impl Observer for Watcher {
    fn sent(&mut self, _: Ticket, _: u64, client: u32, cycle: u64, op: &Op<'_>) {
        let Value::Int(number) = op.params.get(0) else { panic!("an operation without its number") };
        self.0.sent.lock().unwrap().push(Sent { client, cycle, number });
    }

    fn finished(&mut self, _: Ticket, _: u64, outcome: Outcome, _: &Answer) {
        self.0.finished.lock().unwrap().push(outcome);
    }
}

/// A phase that was driven, with all that it said.
pub struct Driven {
    pub result: DriveResult,
    pub slices: Vec<Slice>,
    /// The run's start on CLOCK_MONOTONIC.
    pub origin_ns: u64,
}

/// CLOCK_MONOTONIC, in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Drives a phase with a log and no stop flag of its own.
pub fn drive(spec: &DriveSpec, sessions: Sessions, stream: Arc<dyn Stream>) -> (Driven, Arc<Log>) {
    let log = Arc::new(Log::default());
    let observers = (0..spec.worker_count(&sessions)).map(|_| Box::new(Watcher(log.clone())) as Box<dyn Observer>);
    let driven = drive_with(spec, sessions, stream, observers.collect(), &Arc::default(), &mut |_| {});
    (driven.expect("the phase is driven"), log)
}

pub fn drive_with(
    spec: &DriveSpec,
    sessions: Sessions,
    stream: Arc<dyn Stream>,
    observers: Vec<Box<dyn Observer>>,
    stop: &Arc<AtomicBool>,
    on_slice: &mut dyn FnMut(&Slice),
) -> Result<Driven, DriveError> {
    drive_on(&Clock::start(), &kinds(), spec, sessions, stream, observers, stop, on_slice)
}

/// Returns the error of a phase that cannot be driven, or not to its end.
pub fn refused(spec: &DriveSpec, sessions: Sessions, stream: Arc<dyn Stream>) -> DriveError {
    let driven = drive_with(spec, sessions, stream, Vec::new(), &Arc::default(), &mut |_| {});
    driven.err().expect("an error")
}

/// Drives a phase whose receiver of slices may set the flag that stops it.
pub fn drive_until(
    spec: &DriveSpec,
    sessions: Sessions,
    stop: &Arc<AtomicBool>,
    mut on_slice: impl FnMut(&Slice),
) -> Driven {
    drive_with(spec, sessions, endless(), Vec::new(), stop, &mut on_slice).unwrap()
}

/// Drives as [`drive_with`], and keeps no slice.
pub fn drive_and_drop(
    spec: &DriveSpec,
    sessions: Sessions,
    observers: Vec<Box<dyn Observer>>,
    stop: &Arc<AtomicBool>,
    on_slice: &mut dyn FnMut(&Slice),
) -> DriveResult {
    let (clock, kinds) = (Clock::start(), kinds());
    let stop = stop.clone();
    let drive = Drive { clock: &clock, spec, sessions, kinds: &kinds, stream: endless(), observers, stop };
    drive.run(&mut |slice| on_slice(&slice)).unwrap()
}

/// Drives as [`drive_with`], with operation types and a clock that a witness may have too.
#[allow(clippy::too_many_arguments, reason = "the fields of a drive")]
pub fn drive_on(
    clock: &Clock,
    kinds: &[OpKind],
    spec: &DriveSpec,
    sessions: Sessions,
    stream: Arc<dyn Stream>,
    observers: Vec<Box<dyn Observer>>,
    stop: &Arc<AtomicBool>,
    on_slice: &mut dyn FnMut(&Slice),
) -> Result<Driven, DriveError> {
    // The latest moment that the start can have been: being interrupted between the two readings makes it earlier.
    let origin_ns = (0..100).map(|_| monotonic_ns() - clock.now_ns()).max().unwrap();
    let mut slices = Vec::new();
    let drive = Drive { clock, spec, sessions, kinds, stream, observers, stop: stop.clone() };
    let result = drive.run(&mut |slice| {
        on_slice(&slice);
        slices.push(slice);
    })?;
    let driven = Driven { result, slices, origin_ns };
    driven.check(kinds);
    driven.check_ticks(kinds, spec.ticks);
    assert!(spec.witness.is_some() || driven.slices.iter().all(|slice| slice.watched.is_none()), "nothing of pauses");
    Ok(driven)
}

impl Driven {
    /// Checks the properties of every phase: slices follow each other and hold what the result counts.
    fn check(&self, kinds: &[OpKind]) {
        let mut at_ns = self.result.start_ns;
        for (position, slice) in self.slices.iter().enumerate() {
            assert_eq!(slice.ordinal as usize, position);
            assert_eq!(slice.start_ns, at_ns, "slice {position} begins where the last one ended");
            assert!(slice.end_ns > slice.start_ns || self.slices.len() == 1);
            at_ns = slice.end_ns;
        }
        assert_eq!(at_ns, self.result.end_ns, "the last slice ends with the phase");
        let mut ops = 0;
        for (kind, of) in kinds.iter().enumerate() {
            for (index, outcome) in Outcome::ALL.into_iter().enumerate() {
                let in_slices = self.count(Measure::Service, |k, o| (usize::from(k), o) == (kind, outcome));
                let (same, other) = match of.step_of {
                    None => (&self.result.kinds, &self.result.steps),
                    Some(_) => (&self.result.steps, &self.result.kinds),
                };
                assert_eq!((in_slices, 0), (same[kind][index], other[kind][index]), "{} {outcome:?}", of.name);
                ops += self.result.kinds[kind][index];
            }
        }
        assert_eq!(ops, self.result.ops);
    }

    /// Checks that the ticks of each slice hold its operations, or that there are none.
    fn check_ticks(&self, kinds: &[OpKind], are_counted: bool) {
        for slice in &self.slices {
            let length = (slice.end_ns - slice.start_ns).div_ceil(TICK_NS).max(1);
            assert_eq!(slice.ticks.len() as u64, if are_counted { length } else { 0 }, "slice {}", slice.ordinal);
            let in_ticks = slice.ticks.iter().fold((0, 0), |(answered, failed), tick| {
                (answered + u64::from(tick.answered), failed + u64::from(tick.failed))
            });
            let operations = slice
                .histograms
                .iter()
                .filter(|one| one.measure == Measure::Service && kinds[usize::from(one.kind)].step_of.is_none());
            let in_histograms = operations.fold((0, 0), |(answered, failed), one| match one.outcome.is_error() {
                false => (answered + one.histogram.len(), failed),
                true => (answered, failed + one.histogram.len()),
            });
            assert!(!are_counted || in_ticks == in_histograms, "{in_ticks:?} of {in_histograms:?}: {}", slice.ordinal);
            assert_eq!(slice.affected.is_some(), are_counted, "slice {}", slice.ordinal);
            let is_affected = slice.affected.as_ref().is_some_and(|clients| !clients.is_empty());
            assert!(is_affected || !are_counted || in_ticks.1 == 0, "slice {}: {in_ticks:?}", slice.ordinal);
        }
    }

    pub fn outcome(&self, outcome: Outcome) -> u64 {
        self.result.kinds.iter().map(|kind| kind[outcome as usize]).sum()
    }

    pub fn count(&self, measure: Measure, of: impl Fn(KindId, Outcome) -> bool) -> u64 {
        let measured = self.slices.iter().filter(|slice| !slice.warmup).flat_map(|slice| &slice.histograms);
        measured.filter(|h| h.measure == measure && of(h.kind, h.outcome)).map(|h| h.histogram.len()).sum()
    }

    /// Returns all histograms of `measure`.
    pub fn of(&self, measure: Measure) -> impl Iterator<Item = &SliceHistogram> {
        self.slices.iter().flat_map(|slice| &slice.histograms).filter(move |one| one.measure == measure)
    }

    pub fn max_ns(&self, measure: Measure) -> u64 {
        self.of(measure).map(|one| one.histogram.max()).max().unwrap_or(0)
    }

    /// Returns the number of response times of 100 ms and more.
    pub fn slow(&self) -> u64 {
        self.of(Measure::Response).map(|one| one.histogram.count_between(100_000_000, u64::MAX)).sum()
    }

    pub fn length(&self) -> Duration {
        Duration::from_nanos(self.result.end_ns - self.result.start_ns)
    }
}

impl Log {
    /// Each client's cycles count from 0 without a gap, and each operation is the one its seed makes.
    pub fn check_cycles(&self, seed: u64) -> Vec<Sent> {
        let mut sent = self.sent.lock().unwrap().clone();
        sent.sort();
        let mut wanted = 0;
        let mut client = 0;
        for one in &sent {
            if one.client != client {
                (client, wanted) = (one.client, 0);
            }
            assert_eq!(one.cycle, wanted, "client {client} has no gap");
            assert_eq!(one.number, number(seed, client, one.cycle));
            wanted += 1;
        }
        sent
    }
}
