//! The witness of the machine's own pauses, with pauses that are real: a thread that goes before it.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_core::pause::BEFORE_NS;
use plimsoll_core::{Measure, Outcome, Pause, Slice};
use plimsoll_drive::{Clock, DriveError, DriveSpec, Limit, Pace, StopReason, Undisturbed, Witness};

use crate::allocations::AllocationWatch;
use crate::seen::{Driven, drive_on, endless, kinds, refused};
use crate::toy::{Act, Server};

const MS: Duration = Duration::from_millis(1);
const MS_NS: u64 = 1_000_000;

/// Held while a test makes pauses: two pauses at once are a longer one.
static PAUSING: Mutex<()> = Mutex::new(());

/// Held while a test requests real-time priority, and by the test that takes it from the process.
static PRIORITY: Mutex<()> = Mutex::new(());

fn witness(clock: &Clock) -> Witness {
    let _given = PRIORITY.lock().unwrap_or_else(PoisonError::into_inner);
    Witness::start(clock).unwrap_or_else(|words| panic!("this test needs root or CAP_SYS_NICE: {words}"))
}

/// Keeps the first processor busy for `length` again and again, `apart` from each other, before everybody else; says
/// from when to when.
fn spinner(
    clock: Clock,
    length: Duration,
    apart: Duration,
    ends: Arc<AtomicBool>,
) -> JoinHandle<(u32, Vec<(u64, u64)>)> {
    std::thread::spawn(move || {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let cpu = (0..1_024).find(|&number| allowed.is_set(number)).unwrap();
        let mut only = rustix::thread::CpuSet::new();
        only.set(cpu);
        rustix::thread::sched_setaffinity(None, &only).unwrap();
        let given = PRIORITY.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: plain numbers; the call reads them and changes the calling thread only.
        let refused = unsafe {
            let mut param: libc::sched_param = std::mem::zeroed();
            param.sched_priority = 99;
            libc::pthread_setschedparam(libc::pthread_self(), libc::SCHED_FIFO, &raw const param)
        };
        drop(given);
        assert_eq!(refused, 0, "where a witness may go before others, so may this one");
        let mut spins = Vec::new();
        while !ends.load(SeqCst) {
            std::thread::sleep(apart);
            let start_ns = clock.now_ns();
            while clock.now_ns() < start_ns + length.as_nanos() as u64 {
                std::hint::spin_loop();
            }
            spins.push((start_ns, clock.now_ns()));
        }
        (cpu as u32, spins)
    })
}

fn drive(clock: &Clock, spec: &DriveSpec, server: &Server, watched: bool) -> Driven {
    let (watch, found) = AllocationWatch::between(500, 1_500);
    let observers = if watched { vec![watch] } else { Vec::new() };
    let sessions = server.clients(4);
    let driven = drive_on(clock, &kinds(), spec, sessions, endless(), observers, &Arc::default(), &mut |_| {}).unwrap();
    assert!(!watched || found.load(SeqCst) == 0, "{} allocations of the worker", found.load(SeqCst));
    driven
}

impl Driven {
    fn disturbed(&self) -> u64 {
        let watched = self.slices.iter().filter_map(|slice| slice.watched.as_ref());
        watched.flat_map(|watched| &watched.disturbed).map(|one| one.histogram.len()).sum()
    }

    /// Least and most operations that can be disturbed by `pauses`, whose ends are known to a fraction of a millisecond. Each
    /// of four workers may have been stopped by one just after it had asked for an operation's end. The machine may stop a
    /// witness before it tells of a pause. A later pause may begin anew, and takes those that waited longer for the store's.
    fn disturbed_by(&self, pauses: &[Pause]) -> (u64, u64) {
        let (mut least, mut most) = (0, 0);
        for op in &self.result.each {
            let surely = |pause: &Pause| {
                op.end_ns > pause.end_ns + 10 * MS_NS
                    && op.scheduled_ns + MS_NS < pause.until_ns()
                    && op.end_ns < op.scheduled_ns + BEFORE_NS
            };
            let perhaps =
                |pause: &Pause| op.end_ns + MS_NS > pause.end_ns && op.scheduled_ns < pause.until_ns() + MS_NS;
            least += u64::from(pauses.iter().any(surely));
            most += u64::from(pauses.iter().any(perhaps));
        }
        (least, most + 4 * pauses.len() as u64)
    }

    /// Checks that disturbed counts are part of all counts, in each bucket.
    fn check_parts(&self) {
        for slice in &self.slices {
            let watched = slice.watched.as_ref().expect("there is a witness");
            for part in &watched.disturbed {
                let same = |one: &&plimsoll_core::SliceHistogram| {
                    (one.kind, one.outcome, one.measure) == (part.kind, part.outcome, part.measure)
                };
                let whole = slice.histograms.iter().find(same).expect("disturbed operations were counted");
                for step in part.histogram.iter_recorded() {
                    let value_ns = step.value_iterated_to();
                    assert!(step.count_at_value() <= whole.histogram.count_at(value_ns), "{value_ns} ns");
                }
            }
            assert!(watched.disturbed_ns <= slice.end_ns - slice.start_ns);
            let woke_up = watched.lateness.as_ref().is_some_and(|lateness| !lateness.is_empty());
            assert!(woke_up || slice.end_ns - slice.start_ns < 150 * MS_NS, "it slept");
        }
    }
}

#[test]
fn a_pause_is_seen_with_its_length_and_disturbs_what_waited_for_its_end_and_nothing_else() {
    let _alone = PAUSING.lock().unwrap_or_else(PoisonError::into_inner);
    let clock = Clock::start();
    let witness = witness(&clock);
    let mut watch = witness.watch();
    let ends = Arc::new(AtomicBool::new(false));
    let spinner = spinner(clock, MS * 20, MS * 180, ends.clone());
    let server = Server::unix(|_, _, number| if number % 97 == 0 { Act::AnswerAfter(MS * 7) } else { Act::Answer });
    let open = DriveSpec {
        limit: Limit::Duration(MS * 1_500),
        slice: MS * 250,
        pace: Pace::even(2_000.0),
        each_max: 1 << 20,
        witness: Some(witness),
        ..DriveSpec::default()
    };
    let closed = DriveSpec { pace: Pace::Closed, ..open.clone() };
    let phases = [(open, Measure::Response), (closed, Measure::Service)].map(|(spec, measure)| {
        let driven = drive(&clock, &spec, &server, true);
        // It remembers five seconds, and a loaded machine may need them.
        watch.look();
        (driven, measure)
    });
    ends.store(true, SeqCst);
    let (cpu, spins) = spinner.join().unwrap();
    // The last spin may have ended just now.
    std::thread::sleep(MS * 30);
    let seen = watch.take();
    assert_eq!(seen.forgotten, 0);
    // The spinner itself may have been kept from running, which makes its spins longer but not unknown.
    let met = |tolerance_ns: u64| {
        let is_met = |(start_ns, end_ns): &&(u64, u64)| {
            let near = |pause: &Pause| {
                pause.start_ns.abs_diff(*start_ns) <= tolerance_ns && pause.end_ns.abs_diff(*end_ns) <= tolerance_ns
            };
            seen.pauses.iter().any(|pause| pause.cpu == cpu && near(pause))
        };
        spins.iter().filter(is_met).count()
    };
    assert!(spins.len() >= 5, "{} spins", spins.len());
    // A noisy machine may pause just before or after most of them.
    assert!(met(6 * MS_NS) >= 2, "{} of {} with their lengths", met(6 * MS_NS), spins.len());
    for (start_ns, end_ns) in &spins {
        let covered = |pause: &Pause| pause.cpu == cpu && pause.start_ns < *end_ns && pause.end_ns + MS_NS > *end_ns;
        assert!(seen.pauses.iter().any(covered), "nothing seen of {start_ns} to {end_ns}: {:?}", seen.pauses);
    }
    for (driven, measure) in &phases {
        driven.check_parts();
        let (least, most) = driven.disturbed_by(&seen.pauses);
        let disturbed = driven.disturbed();
        assert!(least > 0 && most < driven.result.ops, "{least} to {most} of {}", driven.result.ops);
        assert!((least..=most).contains(&disturbed), "{disturbed} of {}, not {least} to {most}", driven.result.ops);
        let mut parts = driven.slices.iter().flat_map(|slice| &slice.watched.as_ref().unwrap().disturbed);
        assert!(parts.all(|one| (one.outcome, one.measure) == (Outcome::Ok, *measure)));
        let pauses: Vec<_> = driven.slices.iter().flat_map(|slice| &slice.watched.as_ref().unwrap().pauses).collect();
        assert!(pauses.iter().all(|pause| seen.pauses.contains(pause)), "slices have the pauses that were seen");
        assert!(pauses.iter().filter(|pause| pause.length_ns() > 12 * MS_NS).count() >= 2, "{pauses:?}");
    }
}

#[test]
fn a_generator_that_pauses_of_the_machine_make_late_says_so_and_for_how_long() {
    let _alone = PAUSING.lock().unwrap_or_else(PoisonError::into_inner);
    let clock = Clock::start();
    let witness = witness(&clock);
    let ends = Arc::new(AtomicBool::new(false));
    let spinner = spinner(clock, MS * 25, MS * 175, ends.clone());
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let spec = DriveSpec {
        limit: Limit::Duration(MS * 2_000),
        slice: MS * 250,
        pace: Pace::even(2_000.0),
        // Where the pauses are.
        pin: vec![(0..1_024).find(|&number| allowed.is_set(number)).unwrap() as u32],
        witness: Some(witness),
        ..DriveSpec::default()
    };
    let driven = drive(&clock, &spec, &Server::unix(|_, _, _| Act::Answer), false);
    ends.store(true, SeqCst);
    spinner.join().unwrap();
    let late = driven.result.late.expect("its worker stood still for an eighth of the time");
    let machine = late.contains(", because the machine paused for ") && late.contains("and a worker waited ");
    // Beside other programs its worker may wait for longer than it is paused.
    assert!(machine || late.contains(" in total for a processor that other threads used"), "{late}");
}

#[test]
fn a_phase_lasts_until_it_was_undisturbed_for_long_enough() {
    let _alone = PAUSING.lock().unwrap_or_else(PoisonError::into_inner);
    let clock = Clock::start();
    let witness = witness(&clock);
    let ends = Arc::new(AtomicBool::new(false));
    // A pause and its aftermath are 40 ms of every 100.
    let spinner = spinner(clock, MS * 20, MS * 80, ends.clone());
    let server = Server::unix(|_, _, _| Act::Answer);
    let driven = [(MS * 1_000, MS * 60_000), (MS * 1_200, MS * 1_240)].map(|(at_least, at_most)| {
        let spec = DriveSpec {
            limit: Limit::Duration(MS * 1_000),
            warmup: MS * 150,
            slice: MS * 200,
            pace: Pace::even(1_000.0),
            witness: Some(witness.clone()),
            undisturbed: Some(Undisturbed { at_least, at_most }),
            ..DriveSpec::default()
        };
        drive(&clock, &spec, &server, false)
    });
    ends.store(true, SeqCst);
    spinner.join().unwrap();
    for (driven, least_ms, most_ms) in [(&driven[0], 1_240, 60_000), (&driven[1], 1_240, 1_240)] {
        driven.check_parts();
        assert_eq!(driven.result.stop, StopReason::Limit);
        let planned_ns = driven.result.planned_end_ns.unwrap() - driven.result.measured_from_ns;
        assert!((least_ms * MS_NS..=most_ms * MS_NS).contains(&planned_ns), "{planned_ns} ns");
        // Nothing is missing where the plan said that it would end, and nothing is started after it did.
        let ops = driven.result.ops + driven.result.unfinished;
        // What was due in the 150 ms of warm-up may have ended after it.
        let more = (ops + 2).checked_sub(planned_ns / MS_NS);
        assert!(more.is_some_and(|more| more <= 155), "{ops} operations in {planned_ns} ns at 1,000 a second");
        let counted = driven.slices.iter().filter(|slice| !slice.warmup && !slice.drain);
        assert_eq!(counted.clone().map(|slice| slice.end_ns - slice.start_ns).sum::<u64>(), planned_ns);
        assert_eq!(counted.max_by_key(|slice| slice.end_ns).unwrap().end_ns, driven.result.planned_end_ns.unwrap());
    }
    let counted = driven[0].slices.iter().filter(|slice| !slice.warmup && !slice.drain);
    let undisturbed_ns: u64 =
        counted.map(|slice| slice.end_ns - slice.start_ns - slice.watched.as_ref().unwrap().disturbed_ns).sum();
    // What the last pauses before the end take was not known when the end was settled; without more time it would be 600.
    assert!(undisturbed_ns > 750 * MS_NS, "{undisturbed_ns} ns");
}

#[test]
fn slices_of_a_time_that_the_witness_no_longer_remembers_were_watched_by_nobody() {
    let clock = Clock::start();
    let server = Server::unix(|_, _, _| Act::Answer);
    let spec = DriveSpec {
        limit: Limit::Duration(MS * 7_500),
        slice: MS * 250,
        pace: Pace::even(100.0),
        witness: Some(witness(&clock)),
        ..DriveSpec::default()
    };
    // The receiver of slices blocks the collector, as a disk that stands still does.
    let mut on_slice = |slice: &Slice| {
        if slice.ordinal == 1 {
            std::thread::sleep(MS * 6_500);
        }
    };
    let (kinds, sessions) = (kinds(), server.clients(4));
    let driven = drive_on(&clock, &kinds, &spec, sessions, endless(), Vec::new(), &Arc::default(), &mut on_slice);
    let seen: Vec<bool> = driven.unwrap().slices.iter().map(|slice| slice.watched.is_some()).collect();
    assert_eq!(seen[..3], [true, true, false], "{seen:?}");
    assert!(seen[seen.len() - 3..].iter().all(|is_seen| *is_seen), "{seen:?}");
}

#[test]
fn what_cannot_be_undisturbed_is_refused() {
    let wanted = |at_least: u32, at_most: u32| Some(Undisturbed { at_least: MS * at_least, at_most: MS * at_most });
    let long = Limit::Duration(MS * 100);
    for (limit, undisturbed) in [(long, wanted(50, 99)), (long, wanted(200, 150)), (Limit::Ops(5), wanted(50, 200))] {
        let spec = DriveSpec { limit, undisturbed, ..DriveSpec::default() };
        let error = refused(&spec, Server::unix(|_, _, _| Act::Answer).clients(1), endless());
        assert!(matches!(error, DriveError::Spec(what) if what.contains("undisturbed")));
    }
}

#[test]
fn a_watch_says_what_it_saw_and_what_it_cost() {
    let clock = Clock::start();
    let witness = witness(&clock);
    let before_ns = witness.cpu_ns();
    let seen = witness.watch_for(MS * 1_200, &AtomicBool::new(false));
    let used = (witness.cpu_ns() - before_ns) as f64 / 1e9 / seen.seconds();
    let processors = std::thread::available_parallelism().unwrap().get() as f64;
    assert!((1.2..30.0).contains(&seen.seconds()), "{} s", seen.seconds());
    assert!(seen.wake_ups as f64 > 20.0 * processors, "{} wake-ups", seen.wake_ups);
    // 0.2 % of each processor on a quiet machine; a loop without waits would use all of one.
    assert!(used > 0.0 && used < 0.25 * processors, "{:.2} % of a processor", used * 100.0);
    assert!(seen.share_above(MS_NS) >= seen.share_above(5 * MS_NS));
    assert!(seen.pauses.iter().all(|pause| pause.end_ns >= seen.from_ns));
    println!(
        "{:.2} s, {} wake-ups, {:.3} % of a processor; above 1, 5, 10 ms {:.2?} %, longest {:.2} ms",
        seen.seconds(),
        seen.wake_ups,
        used * 100.0,
        [1, 5, 10].map(|ms| seen.share_above(ms * MS_NS) * 100.0),
        seen.longest_ns() as f64 / 1e6,
    );
}

#[test]
fn where_real_time_priority_is_refused_it_is_said_and_nothing_is_called_a_pause() {
    let _taken = PRIORITY.lock().unwrap_or_else(PoisonError::into_inner);
    // Without the right a limit may allow it still. It is the process's.
    let limit_to = |soft: libc::rlim_t| {
        // SAFETY: the calls read and write plain numbers in a place that is there.
        unsafe {
            let mut limit: libc::rlimit = std::mem::zeroed();
            assert_eq!(libc::getrlimit(libc::RLIMIT_RTPRIO, &raw mut limit), 0);
            let before = std::mem::replace(&mut limit.rlim_cur, soft);
            assert_eq!(libc::setrlimit(libc::RLIMIT_RTPRIO, &raw const limit), 0);
            before
        }
    };
    let before = limit_to(0);
    // Rights are a thread's own, and those it starts have no more of them.
    let refused = std::thread::spawn(|| {
        use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
        let mut rights = capabilities(None).unwrap();
        rights.effective.remove(CapabilitySet::SYS_NICE);
        rights.permitted.remove(CapabilitySet::SYS_NICE);
        rights.inheritable.remove(CapabilitySet::SYS_NICE);
        set_capabilities(None, rights).unwrap();
        Witness::start(&Clock::start()).map(drop)
    });
    let refused = refused.join();
    limit_to(before);
    let words = refused.unwrap().unwrap_err();
    assert!(words.starts_with("pauses of the machine are not recorded here: no real-time priority ("), "{words}");
    assert!(words.ends_with("); give CAP_SYS_NICE or run as root"), "{words}");
}
