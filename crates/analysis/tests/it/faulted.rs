//! A driven phase with ticks and faults, as it would have been recorded. `report` tests with it too.

use plimsoll_core::{FailoverTime, Measure, Outcome, SliceHistogram, TICK_NS, Tick};
use plimsoll_record::data::{FaultKind, FaultSpan, Run};

use crate::driven::{START_S, driven};
use crate::study::{SECOND_NS, served, times};

/// Ticks of a second.
const TICKS: u64 = SECOND_NS / TICK_NS;

/// A closed loop of so many seconds. `tick` returns the operations that were answered and failed in each 10 ms.
pub fn ticked(seconds: u64, tick: impl Fn(u64) -> (u32, u32)) -> Run {
    let mut run = driven(&vec![0; seconds as usize]);
    for (second, slice) in (0..).zip(&mut run.trials[0].phases[0].slices) {
        let at = |at: u64| tick(second * TICKS + at);
        slice.ticks = (0..TICKS).map(at).map(|(answered, failed)| Tick { answered, failed }).collect();
        let count = |of: fn(&Tick) -> u32| slice.ticks.iter().map(|tick| u64::from(of(tick))).sum::<u64>();
        let [answered, failed] = [count(|tick| tick.answered), count(|tick| tick.failed)];
        let failed = SliceHistogram { outcome: Outcome::Unknown, ..served(1, times([(1_000_000, failed)])) };
        slice.histograms = vec![served(1, times([(1_000_000, answered)])), failed];
        slice.histograms.retain(|one| !one.histogram.is_empty());
        slice.in_flight = 8;
    }
    run
}

/// Makes the phase an open loop: every time is recorded twice.
pub fn open_loop(run: &mut Run) {
    for slice in &mut run.trials[0].phases[0].slices {
        let mut response = slice.histograms.clone();
        response.iter_mut().for_each(|one| one.measure = Measure::Response);
        slice.histograms.extend(response);
    }
}

/// Returns a time of the run's clock, in milliseconds since the phase's start.
pub fn at_ns(ms: u64) -> u64 {
    START_S * SECOND_NS + ms * 1_000_000
}

/// Adds a fault that had taken effect 5 ms after its beginning. Times are milliseconds since the phase's start.
pub fn fault(run: &mut Run, (kind, subject, words): (FaultKind, &str, &str), at_ms: u64, healed_ms: Option<u64>) {
    let ordinal = run.trials[0].faults.len() as u32;
    run.trials[0].faults.push(FaultSpan {
        ordinal,
        taken_ns: Some(at_ns(at_ms + 5)),
        healing_ns: healed_ms.map(at_ns),
        healed_ns: healed_ms.map(at_ns),
        ..FaultSpan::begun(kind, words, subject, at_ns(at_ms))
    });
}

/// The primary is killed.
pub const KILL: (FaultKind, &str, &str) = (FaultKind::Kill, "node 1, the primary", "kill primary at 40%");
/// A replica is paused.
pub const PAUSE: (FaultKind, &str, &str) = (FaultKind::Pause, "node 2", "pause node 2 at 5s for 3s");

/// Twenty seconds of 1,000 answers each. The primary is killed at 8 s and is back after 1.3 s: operations fail from
/// 20 ms on, and nothing is answered for 1.37 s.
pub fn killed_primary() -> Run {
    let mut run = ticked(20, |tick| match tick {
        802 | 850 => (0, 4),
        800..937 => (0, 0),
        _ => (10, 0),
    });
    fault(&mut run, KILL, 8_000, Some(9_300));
    run
}

/// An outage from 8 s to the end of twenty seconds, of which the last is a drain.
pub fn without_end() -> Run {
    let mut run = ticked(20, |tick| if tick < 800 { (10, 0) } else { (0, 0) });
    run.trials[0].phases[0].slices[19].drain = true;
    fault(&mut run, KILL, 8_000, None);
    run
}

/// A formula of failover: 0.9 to 2.1 s after a kill, 1.5 to 2.5 s after a pause or a cut.
pub fn formula() -> FailoverTime {
    let words = "one to two time-outs (1 s)".to_owned();
    FailoverTime::new(words, "https://example.org/failover", (900, 2_100), (1_500, 2_500))
}

/// Twenty seconds of a store with that formula. The fault begins at 8 s, and nothing is answered for so many ticks.
pub fn failed_over(what: (FaultKind, &str, &str), silent_ticks: u64, healed_ms: Option<u64>) -> Run {
    let mut run = ticked(20, |tick| if (800..800 + silent_ticks).contains(&tick) { (0, 0) } else { (10, 0) });
    run.trials[0].header.failover_time = Some(formula());
    fault(&mut run, what, 8_000, healed_ms);
    run
}
