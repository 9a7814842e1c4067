//! Drives on simulated time, for tests of everything above a drive.
//!
//! Sessions of a store in this process tell what each answer is, and a [`StoreModel`] tells when it comes. A drive of a
//! minute takes milliseconds, and two drives of one model are alike to the nanosecond. Operations of several steps,
//! scenarios, think times, reconnects, retries and circuit breakers are not simulated.

mod running;
mod slicing;
mod timer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use plimsoll_core::{Slice, StoreError};
use plimsoll_drive::{Clock, Drive, DriveError, DriveResult, DriveSpec, Driver, StopReason, Timer, Witness};

pub use timer::SimulatedTimer;

/// Drive that is about to begin.
#[derive(Debug)]
pub struct SimulatedDrive<'d> {
    /// Number of the drive in its driver, from 0: loads, and reading back, are drives too.
    pub number: u32,
    /// Time at which it begins.
    pub start_ns: u64,
    /// Parameters of the drive.
    pub spec: &'d DriveSpec,
    /// Number of its sessions.
    pub sessions: usize,
}

impl SimulatedDrive<'_> {
    /// Returns true for a drive of a given length: no load, and no reading back.
    pub fn is_timed(&self) -> bool {
        matches!(self.spec.limit, plimsoll_drive::Limit::Duration(_))
    }
}

/// Times of a store: one queue, in which operations are served one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct StoreModel {
    /// Most operations a second that are answered.
    pub capacity_per_s: f64,
    /// Variation of the time that one takes, as a share, either way.
    pub spread: f64,
    /// Time until an answer, besides queueing and service.
    pub latency: Duration,
    /// Longest wait in the queue: an operation that would wait longer is refused at once.
    pub wait_max: Option<Duration>,
    /// Slow operations above a rate.
    pub tail: Option<SlowTail>,
    /// Outages, in which no service begins: starts, from the beginning of the drive, and lengths.
    pub outages: Vec<(Duration, Duration)>,
    /// Number of parts of the keys; 0 if they are not told apart.
    pub key_parts: u8,
    /// Part of the keys whose operations are refused for a time: its number, start, from the beginning of the drive, and
    /// length.
    pub refused_part: Option<(u8, Duration, Duration)>,
    /// Time, from the beginning of the drive, at which it ends early, and the reason.
    pub ends: Option<(Duration, StopReason)>,
    /// Error of the sessions' opening.
    pub error: Option<StoreError>,
    /// Words by which the generator was late.
    pub late: Option<String>,
}

impl Default for StoreModel {
    /// A store that answers 100 operations a second.
    fn default() -> Self {
        Self {
            capacity_per_s: 100.0,
            spread: 0.0,
            latency: Duration::from_millis(1),
            wait_max: None,
            tail: None,
            outages: Vec::new(),
            key_parts: 0,
            refused_part: None,
            ends: None,
            error: None,
            late: None,
        }
    }
}

/// Latency tail that appears above a rate: one operation in 20 is slow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlowTail {
    /// Highest rate, in operations a second, without slow operations.
    pub above_per_s: f64,
    /// Time by which a slow operation takes longer.
    pub by: Duration,
}

/// Driver on simulated time. Of drives at the same time none may have faults.
pub struct Simulated<'a> {
    timer: Arc<SimulatedTimer>,
    drives: AtomicU32,
    model_of: Box<dyn Fn(&SimulatedDrive<'_>) -> StoreModel + Sync + 'a>,
}

impl<'a> Simulated<'a> {
    /// Makes a driver. `model_of` returns the model of each drive, before it begins.
    pub fn new(model_of: impl Fn(&SimulatedDrive<'_>) -> StoreModel + Sync + 'a) -> Self {
        let timer = Arc::<SimulatedTimer>::default();
        // The thread of the drives: no time passes between two of them.
        timer.enter();
        Self { timer, drives: AtomicU32::new(0), model_of: Box::new(model_of) }
    }

    /// Makes a driver on the same clock, with other models.
    pub fn with<'b>(&self, model_of: impl Fn(&SimulatedDrive<'_>) -> StoreModel + Sync + 'b) -> Simulated<'b> {
        Simulated { timer: Arc::clone(&self.timer), ..Simulated::new(model_of) }
    }

    /// Returns the number of drives so far.
    pub fn drives(&self) -> u32 {
        self.drives.load(Ordering::SeqCst)
    }
}

impl Driver for Simulated<'_> {
    fn clock(&self, start_ns: u64) -> Clock {
        self.timer.now_ns.store(start_ns, Ordering::SeqCst);
        self.timer.clock()
    }

    fn timer(&self, _: &Clock) -> Arc<dyn Timer> {
        Arc::clone(&self.timer) as Arc<dyn Timer>
    }

    fn witness(&self, _: &Clock) -> Result<Option<Witness>, String> {
        Ok(None)
    }

    fn drive(&self, drive: Drive<'_>, on_slice: &mut dyn FnMut(Slice)) -> Result<DriveResult, DriveError> {
        let number = self.drives.fetch_add(1, Ordering::SeqCst);
        let (start_ns, sessions) = (drive.clock.now_ns(), drive.sessions.len());
        let model = (self.model_of)(&SimulatedDrive { number, start_ns, spec: drive.spec, sessions });
        let has_faults = drive.spec.ticks;
        // A test may drive one spec twice.
        let _ = drive.spec.started.set(start_ns);
        running::run(drive, model, start_ns, &mut |slice| {
            if has_faults {
                // Until then the director carries out what is due.
                self.timer.sleep(Duration::from_nanos(slice.end_ns.saturating_sub(self.timer.now_ns())));
            } else {
                // Others may drive at the same time.
                self.timer.now_ns.fetch_max(slice.end_ns, Ordering::SeqCst);
            }
            on_slice(slice);
        })
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::{Durability, Measure, OpenOptions, Outcome, Params, StoreKind, StreamSpec, Target};
    use plimsoll_drive::{Limit, Pace};

    use super::*;
    use crate::lying_kv::Pairs;
    use crate::trial::workload;

    /// Drives reads by `clients` on an empty store. Returns the result and the slices.
    fn driven(spec: &DriveSpec, clients: u32, model: &StoreModel) -> (DriveResult, Vec<Slice>) {
        let workload = workload("kv", 1, &[("records", 10)], &[]);
        let driver = Simulated::new(|_| model.clone());
        let target = Target::Private { data_dir: "unused".into(), said: false, log_dir: "unused".into() };
        let (params, waits) = (Params::default(), Default::default());
        let options = OpenOptions { target, params, run_id: "test".into(), waits };
        let mut store = Pairs::honest().open(options, &mut |_| {}).unwrap();
        let mix = StreamSpec::Mix { mix: vec![("read".to_owned(), 1)], clients };
        let drive = Drive {
            clock: &driver.clock(5_000_000_000),
            spec,
            sessions: store.sessions(clients, Durability::Buffered).unwrap(),
            kinds: workload.kinds(),
            stream: Arc::from(workload.stream(&mix).unwrap()),
            observers: Vec::new(),
            stop: Arc::default(),
        };
        let mut slices = Vec::new();
        let result = driver.drive(drive, &mut |slice| slices.push(slice)).unwrap();
        (result, slices)
    }

    fn timed(seconds: u64, pace: Pace) -> DriveSpec {
        let (limit, warmup) = (Limit::Duration(Duration::from_secs(seconds)), Duration::from_millis(500));
        DriveSpec { limit, warmup, pace, ..DriveSpec::default() }
    }

    fn count(slices: &[Slice], outcome: Outcome, measure: Measure) -> u64 {
        let all = slices.iter().filter(|slice| !slice.warmup).flat_map(|slice| &slice.histograms);
        all.filter(|one| (one.outcome, one.measure) == (outcome, measure)).map(|one| one.histogram.len()).sum()
    }

    #[test]
    fn a_closed_loop_reaches_the_capacity_of_the_model() {
        let (result, slices) = driven(&timed(10, Pace::Closed), 4, &StoreModel::default());
        assert!((995..=1_005).contains(&result.ops), "{}", result.ops);
        assert_eq!((result.stop.clone(), result.unfinished, result.due), (StopReason::Limit, 0, 0));
        assert_eq!(count(&slices, Outcome::NotFound, Measure::Service), result.ops);
        assert_eq!(count(&slices, Outcome::NotFound, Measure::Response), 0);
        // Half a second of warm-up, ten slices, and the last answers.
        let flags: Vec<_> = slices.iter().map(|slice| (slice.warmup, slice.drain)).collect();
        assert_eq!(flags[..2], [(true, false), (false, false)]);
        assert_eq!((flags[10], flags[11], flags.len()), ((false, false), (false, true), 12));
        assert!(slices.windows(2).all(|two| two[0].end_ns == two[1].start_ns));
        assert_eq!((result.start_ns, result.measured_from_ns), (5_000_000_000, 5_500_000_000));
        assert_eq!((result.planned_end_ns, slices[11].end_ns), (Some(15_500_000_000), result.end_ns));
    }

    #[test]
    fn what_is_asked_beyond_the_capacity_waits_and_stays_unsent() {
        let (result, slices) = driven(&timed(10, Pace::even(150.0)), 4, &StoreModel::default());
        assert!((1_499..=1_501).contains(&result.due), "{}", result.due);
        assert!((480..=530).contains(&result.unfinished), "{}", result.unfinished);
        let unfinished = slices.iter().filter_map(|slice| slice.unfinished.as_ref()).map(|times| times.len());
        assert_eq!(unfinished.sum::<u64>(), result.unfinished);
        let waited_ns = slices[10].histograms.iter().map(|one| one.histogram.max()).max().unwrap();
        assert!(waited_ns > 3_000_000_000, "{waited_ns}");
        let (held, _) =
            driven(&timed(10, Pace::even(150.0)), 4, &StoreModel { capacity_per_s: 200.0, ..Default::default() });
        assert!(held.unfinished == 0 && (1_499..=1_501).contains(&held.ops), "{}", held.ops);
    }

    #[test]
    fn an_outage_is_silent_and_a_refusal_is_immediate() {
        let outages = vec![(Duration::from_secs(3), Duration::from_secs(2))];
        let spec = DriveSpec { ticks: true, ..timed(10, Pace::even(50.0)) };
        let (result, slices) = driven(&spec, 4, &StoreModel { outages, ..Default::default() });
        let is_silent = |slice: &&Slice| slice.ticks.iter().all(|tick| tick.answered == 0);
        assert_eq!(slices.iter().filter(is_silent).count(), 1, "slices begin at half a second");
        assert!((499..=501).contains(&result.ops) && result.errors.is_empty(), "{}", result.ops);
        let ticks = slices.iter().filter(|slice| !slice.warmup).flat_map(|slice| &slice.ticks);
        assert_eq!(ticks.map(|tick| u64::from(tick.answered)).sum::<u64>(), result.ops);

        let wait_max = Some(Duration::from_millis(25));
        let (result, slices) = driven(&timed(10, Pace::even(150.0)), 8, &StoreModel { wait_max, ..Default::default() });
        let refused = count(&slices, Outcome::Rejected, Measure::Response);
        assert!((480..=520).contains(&refused) && result.unfinished == 0, "{refused}");
        assert_eq!((result.errors[0].code.as_str(), result.errors.len()), ("BUSY", 1));
    }

    #[test]
    fn as_many_single_operations_are_kept_as_a_real_drive_keeps() {
        let spec = |each_max| DriveSpec { each_max, ..timed(10, Pace::Closed) };
        let (all, _) = driven(&spec(2_000), 4, &StoreModel::default());
        assert_eq!((all.each.len() as u64, all.each_until_ns), (all.ops, None));
        let (first, _) = driven(&spec(100), 4, &StoreModel::default());
        let until_ns = first.each_until_ns.unwrap();
        assert!((97..=100).contains(&first.each.len()), "{}", first.each.len());
        assert!(first.each.iter().all(|op| op.end_ns < until_ns));
    }

    #[test]
    fn drives_of_one_model_are_alike() {
        let model = StoreModel {
            spread: 0.5,
            tail: Some(SlowTail { above_per_s: 40.0, by: Duration::from_secs(1) }),
            ..Default::default()
        };
        let [one, other] = [0, 1].map(|_| driven(&timed(3, Pace::poisson(50.0)), 64, &model));
        assert_eq!(one.1, other.1);
        assert!(one.1.iter().flat_map(|slice| &slice.histograms).any(|one| one.histogram.max() > 900_000_000));
        let (few, slices) = driven(&timed(3, Pace::poisson(30.0)), 64, &model);
        assert!(
            few.ops > 50
                && slices.iter().flat_map(|slice| &slice.histograms).all(|one| one.histogram.max() < 900_000_000)
        );
    }
}
