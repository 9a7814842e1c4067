//! The blocking executor.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plimsoll_core::{
    Answer, BlockingSession, Measure, Op, OpKind, Outcome, Sessions, StoreError, StoreErrorKind, Value,
};
use plimsoll_drive::{Breaker, DriveError, DriveResult, DriveSpec, Group, Limit, Pace, StopReason, WakeMode};

use crate::allocations::{AllocationWatch, stop_when};
use crate::seen::{Numbered, drive, drive_until, drive_with, endless, refused};

const MS: Duration = Duration::from_millis(1);

/// Action of a scripted session, by an operation's number.
type Script = Arc<dyn Fn(i64, &mut Answer) -> Outcome + Send + Sync>;

struct Scripted(Script);

impl BlockingSession for Scripted {
    fn prepare(&mut self, _: &[OpKind]) -> Result<(), StoreError> {
        Ok(())
    }

    fn execute(&mut self, op: &Op<'_>, answer: &mut Answer) -> Outcome {
        let Value::Int(number) = op.params.get(0) else { panic!("an operation without its number") };
        assert!(!op.more, "a session that blocks has no pipeline");
        (self.0)(number, answer)
    }
}

pub fn sessions(count: usize, script: impl Fn(i64, &mut Answer) -> Outcome + Send + Sync + 'static) -> Sessions {
    let script: Script = Arc::new(script);
    Sessions::Blocking((0..count).map(|_| Box::new(Scripted(script.clone())) as Box<dyn BlockingSession>).collect())
}

/// Blocking sessions as sessions whose calls never wait.
pub fn instant(sessions: Sessions) -> Sessions {
    let Sessions::Blocking(sessions) = sessions else { panic!("blocking sessions") };
    Sessions::Instant(sessions)
}

/// Sessions of operations that take as long.
fn taking(length: Duration, count: usize) -> Sessions {
    sessions(count, move |_, _| {
        std::thread::sleep(length);
        Outcome::Ok
    })
}

/// Two sessions of operations of a millisecond. One operation sets the flag, and hangs until it is woken.
fn hanging(client: u32, cycle: u64) -> (Sessions, Sender<()>, Arc<AtomicBool>) {
    let ((wake, asleep), hangs) = (channel(), Arc::new(AtomicBool::new(false)));
    let (asleep, flag) = (Mutex::new(asleep), hangs.clone());
    let script = move |number: i64, _: &mut Answer| {
        if number == crate::seen::number(1, client, cycle) {
            flag.store(true, SeqCst);
            let _ = asleep.lock().unwrap().recv();
        }
        std::thread::sleep(MS);
        Outcome::Ok
    };
    (sessions(2, script), wake, hangs)
}

fn for_ms(length: u32) -> DriveSpec {
    let limit = Limit::Duration(MS * length);
    DriveSpec { limit, slice: MS * 100, ticks: true, op_timeout: MS * 500, ..DriveSpec::default() }
}

#[test]
fn every_client_asks_its_own_operations_in_order_and_the_same_ones_again() {
    let run = |seed| {
        let spec = DriveSpec::default();
        let (driven, log) = drive(&spec, sessions(3, |_, _| Outcome::Ok), Arc::new(Numbered { seed, ops: 500 }));
        assert_eq!(driven.result.stop, StopReason::Exhausted);
        assert_eq!(driven.result.ops, 1_500);
        log.check_cycles(seed)
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn an_open_loop_deals_one_schedule_to_all_threads() {
    let spec = DriveSpec { pace: Pace::even(400.0), each_max: 1 << 20, ..for_ms(500) };
    let (driven, log) = drive(&spec, taking(MS * 2, 3), endless());
    log.check_cycles(1);
    assert_eq!(driven.result.ops + driven.result.unfinished, 200);
    let scheduled: BTreeSet<u64> =
        driven.result.each.iter().map(|op| op.scheduled_ns - driven.result.start_ns).collect();
    assert_eq!(scheduled.len() as u64, driven.result.ops, "no arrival is served twice");
    for (index, at_ns) in scheduled.into_iter().enumerate() {
        assert!(at_ns.abs_diff(index as u64 * 2_500_000) <= 1, "arrival {index} at {at_ns}");
    }
    for op in &driven.result.each {
        assert!(op.sent_ns >= op.scheduled_ns, "nothing is sent before its time");
    }
    // An operation that was sent and had no answer by the end has a lag, too.
    let sent = driven.result.ops..=driven.result.ops + driven.result.unfinished;
    assert!(sent.contains(&driven.result.lag.n), "{} of {sent:?}", driven.result.lag.n);
}

#[test]
fn the_first_operations_are_kept_up_to_a_moment_before_which_none_is_missing() {
    let spec = DriveSpec { pace: Pace::even(400.0), each_max: 60, limit: Limit::Ops(60), ..for_ms(500) };
    let (driven, _) = drive(&spec, taking(MS * 2, 3), endless());
    let DriveResult { each, each_until_ns, ops, .. } = &driven.result;
    assert!((30..=60).contains(&each.len()) && *ops == 180, "{} of {ops}", each.len());
    let until_ns = each_until_ns.expect("there was no room for all");
    assert!(each.iter().all(|op| op.end_ns < until_ns && op.end_ns >= op.sent_ns));
    // Each operation that ended before has a place in the schedule that no other one has.
    let scheduled: BTreeSet<u64> = each.iter().map(|op| op.scheduled_ns).collect();
    assert_eq!(scheduled.len(), each.len());
    let (driven, _) = drive(&DriveSpec { each_max: 1_000, ..spec }, taking(MS * 2, 3), endless());
    assert_eq!((driven.result.each.len() as u64, driven.result.each_until_ns), (driven.result.ops, None));
}

#[test]
fn a_client_whose_operations_fail_in_a_row_sends_no_others_for_a_while() {
    let called = Arc::new(AtomicU64::new(0));
    let calls = called.clone();
    let failing = sessions(1, move |_, answer| match calls.fetch_add(1, SeqCst) {
        20..24 => answer.fail(Outcome::Rejected, "no", "not now"),
        _ => Outcome::Ok,
    });
    let breaker = Some(Breaker { failures: 3, wait_ns: 200_000_000 });
    let spec = DriveSpec { pace: Pace::even(100.0), breaker, ..for_ms(1_200) };
    let (driven, log) = drive(&spec, failing, endless());
    log.check_cycles(1);
    let (result, counts) = (&driven.result, driven.result.breaker.unwrap());
    assert_eq!(counts.opened, 2, "after three failures, and after one that was tried: {result:?}");
    // Twice twenty. On a busy machine some were due before the circuit opened, or are still when it closes.
    assert!((10..=80).contains(&counts.rejected), "{result:?}");
    let [ok, _, rejected, unknown] = result.kinds[0];
    assert_eq!((rejected, unknown), (counts.rejected + 4, 0));
    assert_eq!(called.load(SeqCst), ok + 4, "what the circuit rejects is not sent");
    let error = result.errors.iter().find(|error| error.code == "breaker").unwrap();
    assert_eq!((error.count, error.outcome), (counts.rejected, Outcome::Rejected));
    let finished = log.finished.lock().unwrap();
    assert_eq!(finished.iter().filter(|outcome| **outcome == Outcome::Rejected).count() as u64, rejected);
}

#[test]
fn an_operation_that_hangs_does_not_keep_the_phase() {
    let (sessions, wake, _) = hanging(1, 5);
    let (driven, log) = drive(&for_ms(500), sessions, endless());
    let result = &driven.result;
    assert_eq!(result.hung.len(), 1);
    assert_eq!((result.hung[0].client, result.hung[0].cycle, result.hung[0].kind), (1, 5, 0));
    assert_eq!(driven.outcome(Outcome::Unknown), 1);
    assert!(driven.max_ns(Measure::Service) > 400_000_000, "it counts with the time that was waited");
    assert!(driven.length() < MS * 100_000, "took {:?}", driven.length());
    let tells = |slice: &plimsoll_core::Slice| slice.in_flight == 2 && slice.oldest_age_ns > 150_000_000;
    assert!(driven.slices.iter().any(tells), "no slice has it in flight beside the other client's");
    assert!(driven.outcome(Outcome::Ok) > 20, "the other client went on");
    // When it comes back after all, its result is dropped.
    let finished = log.finished.lock().unwrap().len();
    wake.send(()).unwrap();
    std::thread::sleep(MS * 50);
    assert_eq!(log.finished.lock().unwrap().len(), finished);
}

#[test]
fn an_operation_that_hangs_ends_a_phase_that_has_no_other_end() {
    let (sessions, _wake, _) = hanging(0, 3);
    let spec = DriveSpec { limit: Limit::Exhausted, ..for_ms(1) };
    let begin = Instant::now();
    let (driven, _) = drive(&spec, sessions, endless());
    assert_eq!((driven.result.stop.clone(), driven.result.hung.len()), (StopReason::Hung, 1));
    assert!(begin.elapsed() < Duration::from_secs(100), "took {:?}", begin.elapsed());
}

#[test]
fn an_operation_that_does_not_return_when_the_user_wants_an_end_is_counted_as_stopped() {
    let (sessions, _wake, stop) = hanging(0, 3);
    let spec = DriveSpec { limit: Limit::Exhausted, op_timeout: MS * 60_000, ..for_ms(1) };
    let driven = drive_until(&spec, sessions, &stop, |_| {});
    assert_eq!((driven.result.stop.clone(), driven.result.hung.len()), (StopReason::Cancelled, 1));
    let errors: Vec<_> = driven.result.errors.iter().map(|e| (e.outcome, e.code.as_str(), e.count)).collect();
    assert_eq!(errors, [(Outcome::Unknown, "stopped", 1)]);
}

#[test]
fn a_phase_that_is_stopped_in_its_warmup_has_measured_nothing_and_no_time() {
    let stop = Arc::new(AtomicBool::new(false));
    let spec = DriveSpec { warmup: MS * 10_000, ..for_ms(500) };
    let driven = drive_until(&spec, taking(MS, 2), &stop, |_| stop.store(true, SeqCst));
    let result = &driven.result;
    assert_eq!((result.stop.clone(), result.ops), (StopReason::Cancelled, 0));
    assert!(result.warmup_ops > 5, "{result:?}");
    assert_eq!(result.measured_from_ns, result.end_ns, "nobody may compute a length below zero");
}

#[test]
fn what_would_be_due_after_the_end_is_not_due() {
    let script = move |number: i64, _: &mut Answer| {
        if number == crate::seen::number(1, 0, 10) {
            std::thread::sleep(MS * 800);
        }
        Outcome::Ok
    };
    let pace = Pace::even(1_000.0);
    let spec = DriveSpec { pace, op_timeout: Duration::from_secs(5), ..for_ms(300) };
    let (driven, _) = drive(&spec, sessions(2, script), endless());
    let after: Vec<_> =
        driven.slices.iter().filter(|slice| slice.end_ns > driven.result.start_ns + 400_000_000).collect();
    assert!(after.len() > 2, "the answer was waited for");
    for slice in after {
        // What was due before the end and that the other client did not get to any more; 300 ms of operations more
        // would be hundreds.
        let (due, left) = (slice.due_unsent, driven.result.unfinished);
        assert!(due <= left + 2, "{due} operations due in slice {} after the end, {left} unfinished", slice.ordinal);
    }
}

#[test]
fn nothing_is_lost_when_slices_are_taken_late() {
    let spec = DriveSpec { slice: MS * 20, ..for_ms(400) };
    let asked = Arc::new(AtomicU64::new(0));
    let count = asked.clone();
    let session = sessions(2, move |_, _| {
        count.fetch_add(1, SeqCst);
        Outcome::Ok
    });
    let driven = drive_until(&spec, session, &Arc::default(), |_| std::thread::sleep(MS * 70));
    assert_eq!(driven.result.ops, asked.load(SeqCst));
    assert!(driven.result.late_slices > 0, "slices that were taken late are told");
}

#[test]
fn a_session_that_cannot_be_prepared_is_the_stores_error() {
    struct Unprepared;
    impl BlockingSession for Unprepared {
        fn prepare(&mut self, _: &[OpKind]) -> Result<(), StoreError> {
            Err(StoreError::new(StoreErrorKind::Permission, "may not"))
        }
        fn execute(&mut self, _: &Op<'_>, _: &mut Answer) -> Outcome {
            panic!("an operation on a session that was not prepared")
        }
    }
    let both = Sessions::Blocking(vec![Box::new(Unprepared), Box::new(Scripted(Arc::new(|_, _| Outcome::Ok)))]);
    let error = refused(&for_ms(100), both, endless());
    assert!(matches!(error, DriveError::Store(e) if e.kind == StoreErrorKind::Permission));
}

#[test]
fn a_session_that_panics_is_an_error_that_says_so() {
    let session = sessions(2, |number, _| if number % 100 == 50 { panic!("number {number}") } else { Outcome::Ok });
    let error = refused(&for_ms(5_000), session, endless());
    assert!(matches!(&error, DriveError::Panicked(panic) if panic.message.contains("50")), "{error:?}");
}

#[test]
fn an_operation_allocates_nothing() {
    for pace in [Pace::Closed, Pace::even(50_000.0), Pace::poisson(50_000.0)] {
        let (watch, found) = AllocationWatch::between(1_000, 15_000);
        let script = |number: i64, answer: &mut Answer| match number % 3 {
            0 => answer.fail(Outcome::Rejected, "23505", "duplicate key"),
            _ => Outcome::Ok,
        };
        let spec = DriveSpec { pace: pace.clone(), ..for_ms(30_000) };
        let stop = Arc::<AtomicBool>::default();
        let mut on_slice = stop_when(&found, &stop);
        let driven = drive_with(&spec, sessions(1, script), endless(), vec![watch], &stop, &mut on_slice);
        assert!(driven.unwrap().result.ops >= 15_000);
        assert_eq!(found.load(SeqCst), 0, "allocations in 14,000 operations, {pace:?}");
    }
}

#[test]
fn a_worker_runs_on_the_processor_it_is_bound_to_and_on_no_other() {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let processor = (0..rustix::thread::CpuSet::MAX_CPU).find(|number| allowed.is_set(*number)).unwrap();
    let script = move |_: i64, _: &mut Answer| {
        let own = rustix::thread::sched_getaffinity(None).unwrap();
        if own.count() == 1 && own.is_set(processor) { Outcome::Ok } else { Outcome::Rejected }
    };
    for (pin, wanted) in [(vec![processor as u32], Outcome::Ok), (Vec::new(), Outcome::Rejected)] {
        let spec = DriveSpec { limit: Limit::Ops(10), pin, ..DriveSpec::default() };
        let (driven, _) = drive(&spec, sessions(2, script), endless());
        // A machine of one processor binds everybody.
        let wanted = if allowed.count() == 1 { Outcome::Ok } else { wanted };
        assert_eq!(driven.outcome(wanted), 20);
    }
    for nowhere in [1_000, u32::MAX] {
        let spec = DriveSpec { limit: Limit::Ops(10), pin: vec![nowhere], ..DriveSpec::default() };
        let error = refused(&spec, sessions(1, |_, _| Outcome::Ok), endless());
        let DriveError::Store(error) = error else { panic!("{error:?}") };
        assert!(error.what.contains(&nowhere.to_string()) && error.next.is_some(), "{error}");
    }
}

#[test]
fn spinning_sends_nothing_before_its_time_and_keeps_the_schedule() {
    for wake in [WakeMode::Spin, WakeMode::Coarse] {
        let pace = Pace::even(500.0);
        let spec = DriveSpec { pace, wake, each_max: 1 << 20, ..for_ms(400) };
        let (driven, _) = drive(&spec, sessions(2, |_, _| Outcome::Ok), endless());
        let result = &driven.result;
        assert_eq!(result.ops + result.unfinished, 200);
        assert!(result.each.iter().all(|op| op.sent_ns >= op.scheduled_ns));
    }
}

#[test]
fn sessions_that_never_wait_share_threads_and_little_memory() {
    const CLIENTS: usize = 20_000;
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4_096
    };
    let before = (threads(), resident());
    let most = Arc::new(Mutex::new((0, 0)));
    let seen = most.clone();
    let script = move |number: i64, _: &mut Answer| {
        if number % 10_000 == 0 {
            let mut most = seen.lock().unwrap();
            *most = (most.0.max(threads()), most.1.max(resident()));
        }
        Outcome::Ok
    };
    let sessions = instant(sessions(CLIENTS, script));
    let spec = DriveSpec::default();
    let workers = spec.worker_count(&sessions);
    let (driven, log) = drive(&spec, sessions, Arc::new(Numbered { seed: 3, ops: 5 }));
    assert_eq!((driven.result.ops, driven.result.stop), (5 * CLIENTS as u64, StopReason::Exhausted));
    log.check_cycles(3);
    let most = *most.lock().unwrap();
    // Tests beside this one have threads of their own; one for each client would be seen all the same.
    assert!(workers <= 64 && most.0 < before.0 + workers + 200, "{workers} workers, {} threads", most.0);
    let each = most.1.saturating_sub(before.1) / CLIENTS;
    assert!(each <= 20_000, "{each} bytes a client");
}

#[test]
fn groups_of_sessions_share_schedules_of_their_own() {
    let group = |sessions, pace| Group { sessions, workers: 1, pace, think: None };
    let groups = vec![group(2, Pace::even(100.0)), group(2, Pace::even(50.0)), group(1, Pace::Closed)];
    let spec = DriveSpec { groups, each_max: 1 << 20, ..for_ms(1_000) };
    let (driven, log) = drive(&spec, taking(MS, 5), endless());
    log.check_cycles(1);
    let result = &driven.result;
    let due = |clients: std::ops::Range<u32>| {
        let of = result.each.iter().filter(|op| clients.contains(&op.client));
        of.map(|op| op.scheduled_ns - result.start_ns).collect::<BTreeSet<u64>>()
    };
    let (all, few) = (due(0..2), due(2..4));
    assert!(all.iter().all(|at_ns| at_ns % 10_000_000 == 0) && few.iter().all(|at_ns| at_ns % 20_000_000 == 0));
    let unsent = result.unfinished as usize;
    assert!(all.len() + few.len() <= 150 && all.len() + few.len() + unsent == 150, "{unsent} were never sent");
    assert!(due(4..5).len() > 10);

    let wrong = DriveSpec { groups: vec![group(2, Pace::Closed)], ..for_ms(100) };
    let error = refused(&wrong, taking(MS, 3), endless());
    assert!(matches!(&error, DriveError::Spec(what) if what.contains("do not share 3")), "{error:?}");
}

#[test]
fn blocking_sessions_cannot_be_on_client_hosts() {
    let spec = DriveSpec { networks: vec!["/proc/self/ns/net".into()], ..for_ms(100) };
    let error = refused(&spec, taking(MS, 1), endless());
    assert!(matches!(&error, DriveError::Spec(what) if what.contains("leave out `client_hosts`")), "{error:?}");
}
