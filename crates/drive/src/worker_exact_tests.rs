//! Every percentile exact to its bucket: phases on a made-up clock against a queue that is simulated by itself, whose
//! times are sorted.

use super::*;
use crate::histogram::Digits;
use plimsoll_core::pace::{Arrivals, Rate, Stage, ThinkTime};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const QUANTILES: [f64; 8] = [0.0, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 1.0];

/// Times that are mostly short, sometimes long: a Pareto tail that goes on for four decades.
fn heavy_tail(number: usize) -> u64 {
    let mut bits = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    bits ^= bits >> 29;
    let uniform = ((bits >> 11) + 1) as f64 / (1u64 << 53) as f64;
    // Not beyond two seconds, which the phases below have.
    ((60_000.0 * uniform.powf(-1.0)) as u64).min(2 * SECOND)
}

/// Results of a queue of `sessions` without a generator's faults: one operation at each arrival before `end_ns`, first
/// come, first served. Response times, service times, and what was never sent with the time it waited.
struct Reference {
    response_ns: Vec<u64>,
    service_ns: Vec<u64>,
    unfinished_ns: Vec<u64>,
}

fn open_queue(sessions: usize, arrivals: &Schedule, end_ns: u64, time_ns: impl Fn(usize) -> u64) -> Reference {
    let mut free: BinaryHeap<Reverse<u64>> = (0..sessions).map(|_| Reverse(0)).collect();
    let mut reference = Reference { response_ns: Vec::new(), service_ns: Vec::new(), unfinished_ns: Vec::new() };
    for number in 0.. {
        let due_ns = arrivals.at(number);
        if due_ns >= end_ns {
            return reference;
        }
        let Some(Reverse(free_ns)) = free.pop() else { return reference };
        let sent_ns = due_ns.max(free_ns);
        if sent_ns >= end_ns {
            reference.unfinished_ns.push(end_ns - due_ns);
            free.push(Reverse(free_ns));
            continue;
        }
        let time_ns = time_ns(number as usize);
        reference.service_ns.push(time_ns);
        reference.response_ns.push(sent_ns + time_ns - due_ns);
        free.push(Reverse(sent_ns + time_ns));
    }
    reference
}

/// The histogram holds exactly these times, and each quantile is that of the sorted times, to the bucket.
fn is_exact(histogram: &hdrhistogram::Histogram<u64>, mut times_ns: Vec<u64>) {
    times_ns.sort_unstable();
    assert_eq!(histogram.len(), times_ns.len() as u64);
    if times_ns.is_empty() {
        return;
    }
    for quantile in QUANTILES {
        let rank = (quantile * times_ns.len() as f64).ceil().max(1.0) as usize;
        let (wanted, found) = (times_ns[rank - 1], histogram.value_at_quantile(quantile));
        assert!(histogram.equivalent(found, wanted), "p{}: {found}, not {wanted}", quantile * 100.0);
    }
    let mut all = Digits::Three.empty();
    times_ns.iter().for_each(|&time_ns| all.record(time_ns).unwrap());
    assert_eq!(*histogram, all, "every bucket");
}

fn unfinished(slices: &[Slice]) -> hdrhistogram::Histogram<u64> {
    let mut all = Digits::Three.empty();
    slices.iter().filter_map(|slice| slice.unfinished.as_ref()).for_each(|waited| all.add(waited).unwrap());
    all
}

fn paces() -> Vec<(&'static str, Pace)> {
    const SECOND_NS: u64 = 1_000_000_000;
    let open = |rate, arrivals| Pace::Open { rate, arrivals };
    let sine = Rate::Sine { mean: 3_000.0, amplitude: 2_900.0, period_ns: 4 * SECOND_NS };
    let held = |rate, for_ms| Stage::held(rate, for_ms * SECOND_NS / 1_000);
    let ramp = Rate::Stages(vec![Stage { from: 0.0, to: 9_000.0, for_ns: 15 * SECOND_NS }]);
    let spike = Rate::Stages(vec![held(1_000.0, 9_000), held(40_000.0, 700), held(1_000.0, 10_000)]);
    let steps = Rate::Stages([500.0, 8_000.0, 0.0, 4_000.0].map(|rate| held(rate, 4_000)).into());
    let recorded = (0..40_000u64).map(|i| i * i * 11).collect();
    vec![
        ("even", Pace::even(4_000.0)),
        ("poisson", Pace::poisson(4_000.0)),
        ("ramp", open(ramp, Arrivals::Poisson)),
        ("sine", open(sine, Arrivals::Even)),
        ("spike", open(spike, Arrivals::Poisson)),
        ("steps", open(steps, Arrivals::Even)),
        ("recorded", open(Rate::Recorded(recorded), Arrivals::Even)),
    ]
}

#[test]
fn an_open_loop_is_exact_in_every_shape() {
    for (name, pace) in paces() {
        let end_ns = 17 * SECOND + 123_456_789;
        let arrivals = scheduled(&pace, 0).unwrap();
        let wanted = open_queue(16, &arrivals, end_ns, heavy_tail);
        assert!(wanted.response_ns.len() > 10_000, "{name}: p99.99 wants as many");
        let mut simulation = paced(16, u64::MAX, &pace, 0, Some(end_ns));
        simulation.core.settings.backlog_ns = u64::MAX;
        let (slices, totals) = simulation.run_script(|number, sent_ns| (sent_ns + heavy_tail(number), Outcome::Ok));
        println!("{name}: {} operations, {} unfinished", wanted.response_ns.len(), wanted.unfinished_ns.len());
        is_exact(&merged(&slices, Measure::Response), wanted.response_ns);
        is_exact(&merged(&slices, Measure::Service), wanted.service_ns);
        assert_eq!(totals.unfinished, wanted.unfinished_ns.len() as u64);
        is_exact(&unfinished(&slices), wanted.unfinished_ns);
        assert_eq!(totals.lag.max_ns, 0, "{name}: a generator on a made-up clock is never late");
    }
}

#[test]
fn operations_that_nobody_could_send_any_more_are_unfinished_with_the_time_they_waited() {
    // Twice what two sessions carry.
    let pace = Pace::poisson(400.0);
    let arrivals = scheduled(&pace, 0).unwrap();
    let end_ns = 8 * SECOND;
    let wanted = open_queue(2, &arrivals, end_ns, |_| 10 * MS);
    assert!(wanted.unfinished_ns.len() > 1_000);
    let (slices, totals) = paced(2, u64::MAX, &pace, 0, Some(end_ns)).run(|sent_ns| sent_ns + 10 * MS);
    is_exact(&unfinished(&slices), wanted.unfinished_ns);
    is_exact(&merged(&slices, Measure::Response), wanted.response_ns);
    assert_eq!((totals.lag.n, totals.lag.max_ns), (merged(&slices, Measure::Response).len(), 0), "waiting is no lag");
}

#[test]
fn a_closed_loop_is_exact() {
    let end_ns = 20 * SECOND;
    let (slices, totals) = simulation(8, u64::MAX, None, 0, Some(end_ns))
        .run_script(|number, sent_ns| (sent_ns + heavy_tail(number), Outcome::Ok));
    // The session that is free first sends next.
    let mut free: BinaryHeap<Reverse<u64>> = (0..8).map(|_| Reverse(0)).collect();
    let mut service_ns = Vec::new();
    while let Some(Reverse(sent_ns)) = free.pop().filter(|Reverse(free_ns)| *free_ns < end_ns) {
        let time_ns = heavy_tail(service_ns.len());
        service_ns.push(time_ns);
        free.push(Reverse(sent_ns + time_ns));
    }
    assert!(service_ns.len() > 100_000);
    assert_eq!(totals.kinds, [[service_ns.len() as u64, 0, 0, 0]]);
    assert_eq!(merged(&slices, Measure::Response).len(), 0, "a closed loop has no schedule");
    is_exact(&merged(&slices, Measure::Service), service_ns);
}

#[test]
fn outcomes_are_told_apart_and_a_timeout_takes_as_long_as_it_took() {
    let (slices, totals) =
        simulation(4, u64::MAX, Some(1_000.0), 0, Some(10 * SECOND)).run_script(|number, sent_ns| match number % 100 {
            7 => (sent_ns + 50 * MS, Outcome::Unknown),
            8 => (sent_ns + MS / 2, Outcome::Rejected),
            9 => (sent_ns + MS / 4, Outcome::NotFound),
            _ => (sent_ns + MS / 8, Outcome::Ok),
        });
    assert_eq!(totals.kinds, [[9_700, 100, 100, 100]]);
    for (outcome, time_ns) in [(Outcome::Unknown, 50 * MS), (Outcome::Rejected, MS / 2), (Outcome::NotFound, MS / 4)] {
        let mut n = 0;
        for histogram in slices.iter().flat_map(|slice| &slice.histograms) {
            if histogram.outcome == outcome && histogram.measure == Measure::Service {
                assert_eq!(histogram.histogram.count_at(time_ns), histogram.histogram.len());
                n += histogram.histogram.len();
            }
        }
        assert_eq!(n, 100, "{outcome:?}");
    }
}

#[test]
fn after_a_stall_of_the_generator_every_operation_that_it_made_late_counts_as_late() {
    // 1,000 a second, answered after 2 ms by any of four sessions; the generator does not run for a second.
    let mut stalled = simulation(4, u64::MAX, Some(1_000.0), 0, Some(10 * SECOND));
    stalled.stalls.push((4_500_300_000, 5_500_300_000));
    let (slices, totals) = stalled.run(|sent_ns| sent_ns + 2 * MS);
    let response = merged(&slices, Measure::Response);
    assert_eq!(response.len(), 10_000);
    // The backlog of 1,000 operations is worked off at 2,000 a second: another 1,000 become due meanwhile.
    let late = response.count_between(2 * MS + MS / 2, u64::MAX);
    assert!(late.abs_diff(2_000) < 20, "{late} were late");
    // Nothing but the generator made them wait, and its lag says so: as many, and as long.
    assert_eq!(totals.lag.n, 10_000);
    assert!(totals.lag.max_ns.abs_diff(1_000 * MS) < 10 * MS, "{:?}", totals.lag);
    // Two digits.
    let wanted_ns = response.value_at_quantile(0.99) - 2 * MS;
    assert!(totals.lag.p99_ns.abs_diff(wanted_ns) < wanted_ns / 64, "{:?}, not {wanted_ns}", totals.lag);
    assert_eq!(totals.lag.p50_ns, 0);
    let stalled_slice = slices.iter().max_by_key(|slice| slice.lag_p50_ns).unwrap();
    assert!(stalled_slice.lag_p50_ns > 200 * MS, "half of a second's operations: {}", stalled_slice.lag_p50_ns);
    // When the backlog is gone, so is the lag.
    assert_eq!(slices[8].lag_max_ns, 0);
}

#[test]
fn of_a_stall_within_a_stall_each_has_its_own_part() {
    // The store stalls from 4.5 s to 5.5 s, the generator from 5 s to 6 s: what was due before 5.5 s waited for the
    // store until then, and for the generator after that.
    let mut both = simulation(2, u64::MAX, Some(1_000.0), 0, Some(10 * SECOND));
    both.stalls.push((5_000_300_000, 6_000_300_000));
    let (slices, totals) = both.run(|sent_ns| match sent_ns + MS / 2 {
        done_ns if done_ns > 4_500 * MS && done_ns < 5_500 * MS => 5_500 * MS,
        done_ns => done_ns,
    });
    assert!(about(merged(&slices, Measure::Response).max(), 1_500 * MS));
    // It cannot know when the answers came that it found at 6 s: not before it was last awake, at 5.01 s, and it does
    // not give itself the benefit of the doubt.
    assert!((500 * MS..=1_010 * MS).contains(&totals.lag.max_ns), "{:?}", totals.lag);
}

#[test]
fn giving_up_names_who_was_behind() {
    for (stall, wanted) in [(None, StopReason::Backlog), (Some((SECOND, 12 * SECOND)), StopReason::Behind)] {
        let mut simulation = simulation(1, u64::MAX, Some(100.0), 0, Some(60 * SECOND));
        simulation.stalls.extend(stall);
        let stop = simulation.stop.clone();
        let (slices, totals) = simulation.run(|sent_ns| sent_ns + if stall.is_some() { MS } else { 100 * MS });
        assert_eq!(*stop.lock().unwrap(), Some(wanted));
        let end_ns = slices.last().unwrap().end_ns;
        assert!(end_ns < 13 * SECOND);
        // After t seconds operation 10 t is sent, which was due at 0.1 t: 10 s late after 11.1 s.
        if stall.is_none() {
            assert!((11 * SECOND..12 * SECOND).contains(&end_ns), "ended at {end_ns}");
            assert!(totals.unfinished.abs_diff(1_000) < 20, "{}", totals.unfinished);
        }
    }
}

/// Returns the send times of a client's operations that are answered after `answer_ns`, on an artificial clock.
fn thinking(think: ThinkTime, answer_ns: u64) -> Vec<u64> {
    let spec = DriveSpec { think: Some(think), seed: 7, ..DriveSpec::default() };
    let mut sent = Vec::new();
    let (slices, totals) = simulated(1, u64::MAX, &spec, 0, Some(200 * SECOND)).run_script(|_, sent_ns| {
        sent.push(sent_ns);
        (sent_ns + answer_ns, Outcome::Ok)
    });
    is_exact(&merged(&slices, Measure::Service), vec![answer_ns; sent.len()]);
    assert_eq!(totals.kinds, [[sent.len() as u64, 0, 0, 0]], "to think is no part of an operation");
    sent
}

#[test]
fn clients_think_as_long_as_they_are_told_whatever_the_answers_do() {
    let thought = |think, answer_ns: u64| -> Vec<u64> {
        thinking(think, answer_ns).windows(2).map(|pair| pair[1] - pair[0] - answer_ns).collect()
    };
    for (think, least, most, mean) in [
        (ThinkTime::Constant(100 * MS), 100 * MS, 100 * MS, 100.0),
        (ThinkTime::Uniform(50 * MS, 200 * MS), 50 * MS, 200 * MS, 125.0),
        (ThinkTime::Exponential(100 * MS), 0, 3 * SECOND, 100.0),
    ] {
        let quick = thought(think, MS);
        let slow = thought(think, 7 * MS);
        let n = slow.len();
        assert!(n > 1_000 && quick[..n] == slow[..], "{think:?} depends on the answers");
        assert!(quick.iter().all(|ns| (least..=most).contains(ns)), "{think:?}");
        // Five standard errors of the widest, the exponential.
        let found = quick.iter().sum::<u64>() as f64 / quick.len() as f64 / MS as f64;
        assert!((found - mean).abs() < 5.0 * 100.0 / (quick.len() as f64).sqrt(), "{think:?}: {found} ms");
    }
}

#[test]
fn clients_come_and_go_by_the_stages() {
    let stage = |from, to, seconds| Stage { from, to, for_ns: seconds * SECOND };
    let stages =
        vec![stage(2.0, 2.0, 2), stage(2.0, 10.0, 4), stage(4.0, 4.0, 1), stage(0.0, 0.0, 2), stage(1.0, 1.0, 1)];
    let spec = DriveSpec { stages, ..DriveSpec::default() };
    // Each client does 1,000 a second. One joins every half second of the ramp.
    let (slices, _) = simulated(10, u64::MAX, &spec, SECOND, Some(10 * SECOND)).run(|sent_ns| sent_ns + MS);
    let done: Vec<u64> =
        slices.iter().map(|slice| slice.histograms.iter().map(|one| one.histogram.len()).sum()).collect();
    let wanted = [2_000, 2_000, 2_000, 2_500, 4_500, 6_500, 8_500, 4_000, 0, 0, 1_000];
    // What the last slice drains is one operation.
    assert_eq!(done.len(), wanted.len() + 1, "{done:?}");
    for (done, wanted) in done.iter().zip(wanted) {
        assert!(done.abs_diff(wanted) <= 20, "{done} of {wanted}");
    }
}
