//! The core on a made-up clock, with answers that take scripted times.

use super::*;
use crate::board::BoardSizes;
use crate::collect::{Collector, OpenOps};
use crate::group::Flow;
use crate::schedule::{Cursor, Schedule};
use crate::spec::DriveSpec;
use plimsoll_core::pace::{Backoff, Pace};
use plimsoll_core::{Measure, OpKind, Slice, Tick};
use std::time::Duration;

#[path = "worker_breaker_tests.rs"]
mod broken;
#[path = "worker_exact_tests.rs"]
mod exact;
#[path = "worker_retries_tests.rs"]
mod resent;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// Operations of kind 0, as many as there are.
struct Endless {
    ops: u64,
}

impl Stream for Endless {
    fn op(&self, _: u32, cycle: u64, _: &mut ValueBuf) -> Option<KindId> {
        (cycle < self.ops).then_some(0)
    }
}

struct Simulation {
    core: WorkerCore,
    shared: Arc<Shared>,
    collector: Collector,
    busy_until: Vec<Option<(u64, Outcome)>>,
    slices: Vec<Slice>,
    /// Start and end of the times in which the generator does not run at all.
    stalls: Vec<(u64, u64)>,
    /// Reason that the phase ended.
    stop: Arc<std::sync::Mutex<Option<StopReason>>>,
}

/// A phase of `sessions` sessions over made-up time that begins at 0.
fn simulation(sessions: u32, ops: u64, rate_per_s: Option<f64>, warmup_ns: u64, length_ns: Option<u64>) -> Simulation {
    paced(sessions, ops, &rate_per_s.map_or(Pace::Closed, Pace::even), warmup_ns, length_ns)
}

/// Returns the due times of operations.
fn scheduled(pace: &Pace, warmup_ns: u64) -> Option<Schedule> {
    let warmup = Duration::from_nanos(warmup_ns);
    Schedule::new(pace, 7, warmup, 0)
}

fn paced(sessions: u32, ops: u64, pace: &Pace, warmup_ns: u64, length_ns: Option<u64>) -> Simulation {
    let spec = DriveSpec { pace: pace.clone(), ..DriveSpec::default() };
    simulated(sessions, ops, &spec, warmup_ns, length_ns)
}

fn simulated(sessions: u32, ops: u64, spec: &DriveSpec, warmup_ns: u64, length_ns: Option<u64>) -> Simulation {
    let pace = &spec.pace;
    let shared = Arc::new(Shared::default());
    let sizes = BoardSizes {
        kinds: 1,
        open: pace.is_open(),
        watched: true,
        ticks: spec.tick_count(),
        clients: sessions,
        lanes: sessions as usize,
        ..BoardSizes::default()
    };
    let board = Board::new(&sizes).unwrap();
    let kinds: Arc<[OpKind]> = Arc::new([OpKind {
        name: "ask".to_owned(),
        call: plimsoll_core::Call::Nothing,
        params: Vec::new(),
        keep_answer: false,
        step_of: None,
    }]);
    let mut core = WorkerCore::new(Setup {
        stream: Arc::new(Endless { ops }),
        observer: None,
        board: board.clone(),
        shared: shared.clone(),
        clients: (0..sessions).collect(),
        steps: (0..sessions).map(|_| None).collect(),
        kinds: kinds.clone(),
        first_cycle: 0,
        rests: Rests::new(spec, spec.think, spec.seed, sessions as usize, &kinds),
        settings: Settings {
            ops_max: u64::MAX,
            backlog_ns: 10 * SECOND,
            op_timeout_ns: SECOND,
            open_timeout_ns: 30_000_000_000,
            reopen_timeout_ns: None,
            backoff: Backoff::default(),
            seed: 1,
            ends_on_loss: false,
            wake: WakeMode::Precise,
            cpu_ns: || 0,
            queued_ns: || 0,
        },
        each_max: 0,
        tells_servers: false,
        tells_parts: false,
        tells_silences: spec.ticks,
        taint: Arc::default(),
    });
    let grid = Grid {
        start_ns: 0,
        warmup_end_ns: warmup_ns,
        slice_ns: SECOND,
        end_ns: length_ns.map(|length_ns| warmup_ns + length_ns),
    };
    let arrivals = scheduled(pace, warmup_ns);
    let flows = arrivals.clone().map(|arrivals| Flow { arrivals, workers: 0..1, taken: None }).into_iter().collect();
    let turns = match arrivals.map(Cursor::new) {
        None => Turns::Closed,
        Some(arrivals) => Turns::Own { arrivals, next: 0, stride: 1 },
    };
    core.begin(Start { grid, turns });
    for lane in 0..sessions as usize {
        core.release(lane, 0);
    }
    Simulation {
        core,
        shared,
        collector: Collector::new(grid, flows, vec![board], &kinds),
        busy_until: vec![None; sessions as usize],
        slices: Vec::new(),
        stalls: Vec::new(),
        stop: Arc::default(),
    }
}

impl Simulation {
    /// Runs to the end of the phase; an operation sent at `t` is answered at `answered(t)`.
    fn run(self, answered: impl Fn(u64) -> u64) -> (Vec<Slice>, crate::collect::Totals) {
        self.run_script(|_, sent_ns| (answered(sent_ns), Outcome::Ok))
    }

    /// Runs to the end of the phase; `answered` is told the number of the operation, in the order of sending, and when
    /// it was sent, and says when it is answered and with what.
    fn run_script(
        mut self,
        mut answered: impl FnMut(usize, u64) -> (u64, Outcome),
    ) -> (Vec<Slice>, crate::collect::Totals) {
        let (mut now_ns, mut sent) = (0, 0);
        loop {
            let in_flight = self.core.in_flight();
            let sleep_until_ns = loop {
                match self.core.next(now_ns) {
                    Next::Send { lane, .. } => {
                        self.busy_until[lane] = Some(answered(sent, now_ns));
                        sent += 1;
                    }
                    Next::Steps { .. } => panic!("operations of one step"),
                    Next::SleepUntil(at_ns) => break at_ns,
                    Next::Wait => break u64::MAX,
                    Next::Stop if in_flight == 0 => {
                        let report = self.core.report();
                        let slices = &mut self.slices;
                        *self.stop.lock().unwrap() = Some(report.stop);
                        let end_ns = self.collector.end_ns(report.last_end_ns, now_ns);
                        let open = OpenOps { hung: &[], silent: &report.silent };
                        let totals = self.collector.finish(end_ns, open, &self.shared, &mut |s| slices.push(s));
                        return (self.slices, totals);
                    }
                    Next::Stop => break u64::MAX,
                }
            };
            let answer_ns = self.busy_until.iter().flatten().map(|(at_ns, _)| *at_ns).min().unwrap_or(u64::MAX);
            // The executors look at the clock at least this often.
            let wake_ns = sleep_until_ns.min(now_ns + CHECK_NS).max(now_ns);
            now_ns = answer_ns.min(wake_ns).max(now_ns);
            if let Some((_, to_ns)) = self.stalls.iter().find(|(from_ns, to_ns)| (*from_ns..*to_ns).contains(&now_ns)) {
                now_ns = *to_ns;
            }
            self.core.caught_up(now_ns.min(wake_ns));
            for lane in 0..self.busy_until.len() {
                if let Some((_, outcome)) = self.busy_until[lane].take_if(|(at_ns, _)| *at_ns <= now_ns) {
                    self.core.finish(lane, now_ns, outcome, &Answer::default());
                    self.core.release(lane, now_ns);
                }
            }
            self.core.check_if_due(now_ns);
            if now_ns >= self.collector.due_ns()
                && let Some(slice) = self.collector.take(now_ns, &self.shared, &|_| false)
            {
                self.slices.push(slice);
            }
        }
    }
}

fn merged(slices: &[Slice], measure: Measure) -> hdrhistogram::Histogram<u64> {
    let mut all = crate::histogram::Digits::Three.empty();
    for slice in slices.iter().filter(|slice| !slice.warmup) {
        for histogram in slice.histograms.iter().filter(|h| h.measure == measure) {
            all.add(&histogram.histogram).unwrap();
        }
    }
    all
}

/// Returns the number of operations of a slice that were answered, and of those that were not, by its histograms.
fn outcomes(slice: &Slice) -> (u64, u64) {
    let service = slice.histograms.iter().filter(|one| one.measure == Measure::Service);
    service.fold((0, 0), |(answered, failed), one| match one.outcome {
        Outcome::Ok | Outcome::NotFound => (answered + one.histogram.len(), failed),
        Outcome::Rejected | Outcome::Unknown => (answered, failed + one.histogram.len()),
    })
}

fn about(found: u64, wanted: u64) -> bool {
    // Three digits, and one operation of a thousand a second.
    found.abs_diff(wanted) <= wanted / 500 + MS
}

#[test]
fn operations_that_were_not_begun_are_taken_once_each() {
    let mut core = simulation(4, 10, None, 0, None).core;
    for (wanted, now_ns) in [0, 0, MS, MS].into_iter().enumerate() {
        let next = core.next(now_ns);
        assert!(matches!(next, Next::Send { lane, .. } if lane == wanted), "{next:?}");
    }
    assert_eq!(core.next_not_begun(&mut (0..4), u64::MAX), None);
    assert!([0, 2, 2, 3].into_iter().all(|lane| core.wait_for_connection(lane)));
    // Lane 0 times out before the others.
    let mut lanes = 0..4;
    let first = [(); 2].map(|()| core.next_not_begun(&mut lanes, SECOND));
    assert_eq!(first, [Some(0), None]);
    assert_eq!(core.next_not_begun(&mut (0..2), u64::MAX), None);
    let mut lanes = 0..4;
    let others = [(); 3].map(|()| core.next_not_begun(&mut lanes, u64::MAX));
    assert_eq!(others, [Some(2), Some(3), None]);
}

#[test]
fn what_was_due_before_a_pauses_aftermath_was_over_and_ended_after_the_pause_is_disturbed() {
    // 1,000 a second for 3 s; the machine stands still from 1,500 to 1,540 ms, and the store is slow at 2 s by itself.
    let pause = plimsoll_core::Pause { start_ns: 1_500 * MS, end_ns: 1_540 * MS, cpu: 0 };
    let answered = |sent_ns: u64| match sent_ns + MS / 100 {
        done_ns if done_ns > pause.start_ns && done_ns < pause.end_ns => pause.end_ns + MS / 100,
        done_ns if done_ns > 2_000 * MS && done_ns < 2_200 * MS => 2_200 * MS,
        done_ns => done_ns,
    };
    let taint = Arc::new(Taint::default());
    let mut simulation = simulation(4, u64::MAX, Some(1_000.0), 0, Some(3 * SECOND));
    simulation.core.taint = taint.clone();
    let board = simulation.core.board.clone();
    let (slices, _) = simulation.run(|sent_ns| {
        // The witness tells of it before anybody else runs.
        if sent_ns >= pause.start_ns {
            taint.tell(&pause);
        }
        answered(sent_ns)
    });
    let response = merged(&slices, Measure::Response);
    assert_eq!(response.len(), 3_000);
    assert!(about(response.max(), 200 * MS), "the store's own stall is seen");
    // A collector without a witness leaves them where they are: those of the second slice in the second tally.
    let disturbed = [0, 1].map(|ordinal| {
        let mut all = None;
        for (kind, outcome, measure, histogram) in board.tally(ordinal).each_disturbed() {
            assert_eq!((kind, measure), (0, Measure::Response));
            histogram.drain_into(&mut all);
            assert!(outcome == Outcome::Ok || all.is_none());
            if outcome == Outcome::Ok {
                break;
            }
        }
        all
    });
    assert!(disturbed[0].is_none(), "nothing in the first and the third slice");
    // Due in the pause, and in four times as long after it: the longest of them waited as long as the pause.
    let disturbed = disturbed[1].as_ref().unwrap();
    assert_eq!(disturbed.len(), 200);
    assert!(about(disturbed.max(), 40 * MS), "{} ns", disturbed.max());
}

#[test]
fn what_a_pause_disturbs_begins_shortly_before_it_and_ends_with_its_aftermath() {
    let pause = |start: u64, end: u64| plimsoll_core::Pause { start_ns: start * MS, end_ns: end * MS, cpu: 0 };
    let taint = Taint::default();
    let covered = |taint: &Taint| (0..3_000).filter(|at| taint.covers(at * MS)).collect::<Vec<u64>>();
    assert!(covered(&taint).is_empty());
    taint.tell(&pause(1_000, 1_020));
    assert_eq!(covered(&taint), (950..1_100).collect::<Vec<_>>());
    // In an overloaded store everything waits through some pause: what had waited for long is not the pause's.
    taint.tell(&pause(2_000, 2_005));
    assert_eq!(covered(&taint), (1_950..2_025).collect::<Vec<_>>());
    // On another processor, at about the same time.
    taint.tell(&pause(1_990, 2_004));
    assert_eq!(covered(&taint), (1_940..2_060).collect::<Vec<_>>());
}

#[test]
fn a_stall_of_a_second_at_a_fixed_rate_is_seen_by_every_operation_that_was_due_in_it() {
    // 1,000 a second for 10 s; between 4.5 s and 5.5 s the store answers nothing.
    let answered = |sent_ns: u64| match sent_ns + MS / 100 {
        done_ns if done_ns > 4_500 * MS && done_ns < 5_500 * MS => 5_500 * MS + MS / 100,
        done_ns => done_ns,
    };
    let (slices, totals) = simulation(4, u64::MAX, Some(1_000.0), 0, Some(10 * SECOND)).run(answered);
    let response = merged(&slices, Measure::Response);
    assert_eq!(response.len(), 10_000);
    assert_eq!(totals.unfinished, 0);
    let p95_ns = response.value_at_quantile(0.95);
    let p99_ns = response.value_at_quantile(0.99);
    assert!(about(p95_ns, 500 * MS), "p95 is {p95_ns} ns");
    assert!(about(p99_ns, 900 * MS), "p99 is {p99_ns} ns");
    assert!(about(response.max(), 1_000 * MS));
    // Service time alone would have hidden it: four operations were slow.
    let service = merged(&slices, Measure::Service);
    assert_eq!(service.count_between(2 * MS, 2 * SECOND), 4);
    assert_eq!(totals.lag.max_ns, 0, "the generator was never late: {:?}", totals.lag);
    // The fifth slice says what was waiting at its end.
    let stalled = &slices[4];
    assert_eq!(stalled.in_flight, 4);
    assert!(stalled.due_unsent.abs_diff(496) <= 12, "{} due", stalled.due_unsent);
    assert!(about(stalled.oldest_age_ns, 500 * MS), "{} ns old", stalled.oldest_age_ns);
}

#[test]
fn what_a_generator_that_stands_still_never_sent_is_its_own_lateness() {
    for (stall_ms, late_ns) in [(100, 90 * MS), (0, 0)] {
        let mut simulation = simulation(4, u64::MAX, Some(1_000.0), 0, Some(2 * SECOND));
        simulation.stalls.push((2 * SECOND - stall_ms * MS, 2 * SECOND + stall_ms * MS));
        let (_, totals) = simulation.run(|sent_ns| sent_ns + MS / 100);
        assert!(totals.unfinished.abs_diff(stall_ms) <= 1, "{}", totals.unfinished);
        assert!((late_ns..late_ns + 15 * MS).contains(&totals.lag.max_ns), "{:?}", totals.lag);
    }
    // A store that answers nothing keeps its sessions busy.
    let stops = |sent_ns: u64| if sent_ns < 1_900 * MS { sent_ns + MS / 100 } else { 3 * SECOND };
    let (_, totals) = simulation(4, u64::MAX, Some(1_000.0), 0, Some(2 * SECOND)).run(stops);
    assert!(totals.unfinished > 90 && totals.lag.max_ns < MS, "{} {:?}", totals.unfinished, totals.lag);
}

#[test]
fn an_operation_counts_in_the_tick_in_which_it_ended() {
    let ends = [
        (5 * MS, Outcome::Ok),
        (10 * MS - 1, Outcome::NotFound),
        (10 * MS, Outcome::Rejected),
        (990 * MS - 1, Outcome::Ok),
        (SECOND - 1, Outcome::Unknown),
        (SECOND, Outcome::Ok),
        (SECOND + 39 * MS, Outcome::Rejected),
        (SECOND + 40 * MS, Outcome::Ok),
        // The phase ends with this one, and its last tick too.
        (SECOND + 50 * MS, Outcome::Ok),
    ];
    for ticks in [true, false] {
        let spec = DriveSpec { ticks, ..DriveSpec::default() };
        let (slices, totals) = simulated(1, ends.len() as u64, &spec, 0, None).run_script(|number, _| ends[number]);
        assert_eq!(totals.kinds, [[5, 1, 2, 1]]);
        let counted: Vec<_> = slices
            .iter()
            .map(|slice| {
                let all = slice.ticks.iter().map(|tick| (tick.answered, tick.failed)).enumerate();
                (slice.ticks.len(), all.filter(|(_, tick)| *tick != (0, 0)).collect::<Vec<_>>())
            })
            .collect();
        if ticks {
            let first = vec![(0, (2, 0)), (1, (0, 1)), (98, (1, 0)), (99, (0, 1))];
            assert_eq!(counted, [(100, first), (5, vec![(0, (1, 0)), (3, (0, 1)), (4, (2, 0))])]);
        } else {
            assert!(counted.len() == 2 && counted.iter().all(|(count, _)| *count == 0), "{counted:?}");
        }
    }
}

#[test]
fn the_ticks_of_every_slice_hold_all_operations_of_the_slice() {
    // The store answers nothing from 2.1 s to 2.4 s.
    let spec = DriveSpec { pace: Pace::even(2_000.0), ticks: true, ..DriveSpec::default() };
    let simulation = simulated(8, u64::MAX, &spec, 1_234 * MS, Some(4 * SECOND));
    let (slices, _) = simulation.run_script(|number, sent_ns| {
        let done_ns = sent_ns + MS;
        let is_stalled = done_ns > 2_100 * MS && done_ns < 2_400 * MS;
        let outcome = [Outcome::Ok, Outcome::NotFound, Outcome::Rejected, Outcome::Unknown][number % 4];
        (if is_stalled { 2_400 * MS } else { done_ns }, outcome)
    });
    let lengths: Vec<usize> = slices.iter().map(|slice| slice.ticks.len()).collect();
    assert_eq!(lengths, [100, 24, 100, 100, 100, 100, 1]);
    for slice in &slices {
        let sum = |of: fn(&Tick) -> u32| slice.ticks.iter().map(|tick| u64::from(of(tick))).sum::<u64>();
        assert_eq!((sum(|tick| tick.answered), sum(|tick| tick.failed)), outcomes(slice), "slice {}", slice.ordinal);
    }
    // The third slice begins at 1.234 s, the fourth at 2.234 s.
    let is_silent = |ticks: &[Tick]| ticks.iter().all(|tick| *tick == Tick::default());
    assert!(is_silent(&slices[2].ticks[87..]) && is_silent(&slices[3].ticks[..16]));
    assert!(!is_silent(&slices[2].ticks[86..87]) && !is_silent(&slices[3].ticks[16..17]));
}

#[test]
fn the_warmup_is_flagged_and_counts_for_nothing() {
    let (slices, totals) = simulation(2, u64::MAX, None, 1_500 * MS, Some(2 * SECOND)).run(|sent_ns| sent_ns + 10 * MS);
    let bounds: Vec<_> = slices.iter().map(|s| (s.start_ns / MS, s.end_ns / MS, s.warmup)).collect();
    // What ends in the moment of the planned end is drained.
    let wanted = [(0, 1000, true), (1000, 1500, true), (1500, 2500, false), (2500, 3500, false), (3500, 3500, false)];
    assert_eq!(bounds, wanted);
    assert_eq!(slices.iter().map(|s| s.drain).collect::<Vec<_>>(), [false, false, false, false, true]);
    assert_eq!(totals.warmup_ops, 2 * 149, "those that end at 1.5 s belong to what is measured");
    assert_eq!(totals.kinds[0][0], 2 * 201);
}

#[test]
fn the_stream_ends_the_phase_and_the_last_slice_ends_with_the_last_answer() {
    let (slices, totals) = simulation(3, 50, None, 0, None).run(|sent_ns| sent_ns + 30 * MS);
    assert_eq!(totals.kinds[0][0], 150);
    assert_eq!(slices.len(), 2);
    assert_eq!(slices[1].end_ns, 1_500 * MS);
    assert_eq!(totals.unfinished, 0);
}

#[test]
fn silences_of_clients_belong_to_the_slice_of_their_end_and_those_without_an_answer_to_the_last() {
    let spec = DriveSpec { ticks: true, ..DriveSpec::default() };
    // Operations that are sent from 0.5 to 1.2 s, and from 1.7 s on, fail.
    let silent = simulated(2, u64::MAX, &spec, 0, Some(2 * SECOND));
    let (slices, _) = silent.run_script(|_, sent_ns| {
        let fails = (500 * MS..1_200 * MS).contains(&sent_ns) || sent_ns >= 1_700 * MS;
        (sent_ns + 10 * MS, if fails { Outcome::Rejected } else { Outcome::Ok })
    });
    let found = |slice: &Slice| {
        let silences = slice.silences.as_ref().unwrap();
        silences.iter().map(|one| (one.client, one.from_ns / MS, one.until_ns.map(|ns| ns / MS))).collect::<Vec<_>>()
    };
    assert_eq!(found(&slices[0]), []);
    let all: Vec<_> = slices.iter().flat_map(found).collect();
    let (ended, open) = (Some(1_210), None);
    assert_eq!(all, [(0, 500, ended), (1, 500, ended), (0, 1_700, open), (1, 1_700, open)]);
}

#[test]
fn clients_that_an_open_loop_does_not_ask_again_are_not_silent_for_longer() {
    let spec = DriveSpec { ticks: true, pace: Pace::even(2.0), ..DriveSpec::default() };
    // The second operation fails after 0.2 s, and its client has no other for more than a second.
    let (slices, _) = simulated(3, u64::MAX, &spec, 0, Some(3 * SECOND)).run_script(|number, sent_ns| match number {
        1 => (sent_ns + 200 * MS, Outcome::Unknown),
        _ => (sent_ns + MS, Outcome::Ok),
    });
    let found: Vec<_> = slices.iter().flat_map(|slice| slice.silences.as_ref().unwrap()).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].until_ns.map(|until_ns| until_ns - found[0].from_ns), Some(200 * MS));
}

#[test]
fn a_client_that_is_done_is_not_silent_while_others_go_on() {
    let spec = DriveSpec { ticks: true, ..DriveSpec::default() };
    let mut simulation = simulated(2, u64::MAX, &spec, 0, None);
    simulation.core.settings.ops_max = 1;
    let (slices, _) = simulation.run_script(|number, sent_ns| match number {
        0 => (sent_ns + 10 * MS, Outcome::Rejected),
        _ => (sent_ns + 900 * MS, Outcome::Ok),
    });
    let silent: Vec<u32> = slices.iter().flat_map(|one| one.silences.iter().flatten()).map(|one| one.client).collect();
    assert_eq!(silent, [1], "it waited for its only answer");
}

#[test]
fn a_client_that_is_done_is_done_once_however_often_its_connection_is_opened_again() {
    for (ops, ops_per_client) in [(1, u64::MAX), (u64::MAX, 1)] {
        let Simulation { mut core, .. } = simulation(2, ops, None, 0, None);
        core.settings.ops_max = ops_per_client;
        assert!(matches!(core.next(0), Next::Send { lane: 0, .. }));
        assert!(matches!(core.next(0), Next::Send { lane: 1, .. }));
        core.finish(0, MS, Outcome::Ok, &Answer::default());
        for reopened in 0..3 {
            core.release(0, MS + reopened);
            assert!(matches!(core.next(MS + reopened), Next::Wait), "the other client is not done");
        }
        core.finish(1, 2 * MS, Outcome::Ok, &Answer::default());
        core.release(1, 2 * MS);
        assert!(matches!(core.next(2 * MS), Next::Stop));
    }
}

#[test]
fn operations_are_counted_from_the_end_of_the_warmup() {
    let mut simulation = simulation(2, u64::MAX, None, SECOND, None);
    simulation.core.settings.ops_max = 100;
    let (slices, totals) = simulation.run(|sent_ns| sent_ns + 30 * MS);
    assert_eq!((totals.warmup_ops, totals.kinds[0][0]), (2 * 33, 200));
    assert_eq!((slices.len(), slices[3].end_ns), (4, 3_990 * MS));
}

#[test]
fn coarse_wake_ups_fall_on_whole_milliseconds_until_the_last_one() {
    let (rate_per_s, end_ns) = (3_000.0, 2 * MS + MS / 2);
    for (wake, wanted) in [
        (WakeMode::Precise, vec![333_333, 666_667, MS, 1_333_333, 1_666_667, 2 * MS, 2_333_333, end_ns]),
        // Three operations are due by then, and go out together.
        (WakeMode::Coarse, vec![MS, 2 * MS, 2_333_333, end_ns]),
    ] {
        let Simulation { mut core, .. } = simulation(1, u64::MAX, Some(rate_per_s), 0, Some(end_ns));
        core.settings.wake = wake;
        let (mut now_ns, mut wakes, mut sent) = (0, Vec::new(), 0);
        loop {
            match core.next(now_ns) {
                Next::Send { lane, scheduled_ns, .. } => {
                    assert!(scheduled_ns <= now_ns, "nothing is sent before its time");
                    core.finish(lane, now_ns, Outcome::Ok, &Answer::default());
                    core.release(lane, now_ns);
                    sent += 1;
                }
                Next::SleepUntil(at_ns) => {
                    wakes.push(at_ns);
                    now_ns = at_ns;
                }
                Next::Stop => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((wakes, sent), (wanted, 8), "{wake:?}");
    }
}
