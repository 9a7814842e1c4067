//! Clients that send nothing after failures in a row, on a made-up clock.

use super::*;
use crate::result::BreakerCounts;
use plimsoll_core::pace::{Breaker, Retry, RetryScope};

/// A circuit that is open for 100 ms.
fn breaker(failures: u32) -> Option<Breaker> {
    Some(Breaker { failures, wait_ns: 100 * MS })
}

/// Drives one client of a closed loop, whose tries take a millisecond and end as `outcomes` say. Returns the number of
/// the operation of each try, the millisecond at which it was sent, and the core's report.
fn sent(spec: &DriveSpec, ops: u64, outcomes: &[Outcome]) -> (Vec<u64>, Vec<u64>, CoreReport) {
    let mut core = simulated(1, ops, spec, 0, None).core;
    let (mut now_ns, mut cycles, mut sent_ms) = (0, Vec::new(), Vec::new());
    loop {
        match core.next(now_ns) {
            Next::Send { lane, cycle, .. } => {
                let outcome = outcomes[cycles.len()];
                cycles.push(cycle);
                sent_ms.push(now_ns / MS);
                now_ns += MS;
                core.finish(lane, now_ns, outcome, &Answer::default());
                core.release(lane, now_ns);
            }
            Next::SleepUntil(at_ns) => now_ns = at_ns,
            Next::Stop => return (cycles, sent_ms, core.report()),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_client_of_a_closed_loop_rests_after_failures_in_a_row_and_then_tries_one_operation() {
    use Outcome::{NotFound, Ok, Rejected, Unknown};
    let spec = DriveSpec { breaker: breaker(3), ..DriveSpec::default() };
    let outcomes = [Rejected, Unknown, NotFound, Rejected, Unknown, Rejected, Rejected, Ok, Rejected, Rejected, Ok];
    let (cycles, sent_ms, report) = sent(&spec, 11, &outcomes);
    assert_eq!(cycles, (0..11).collect::<Vec<_>>(), "no operation is left out");
    assert_eq!(sent_ms, [0, 1, 2, 3, 4, 5, 106, 207, 208, 209, 210]);
    assert_eq!(report.breaker, Some(BreakerCounts { opened: 2, rejected: 0 }));
    let (_, sent_ms, report) = sent(&DriveSpec::default(), 5, &[Unknown; 5]);
    assert_eq!((sent_ms, report.breaker), (vec![0, 1, 2, 3, 4], None), "there is no circuit unasked");
}

#[test]
fn a_client_whose_circuit_opens_does_not_send_the_operation_again() {
    use Outcome::{Ok, Rejected};
    let retry = Some(Retry { scope: RetryScope::All, tries: 5 });
    let spec = DriveSpec { retry, breaker: breaker(2), ..DriveSpec::default() };
    let (cycles, sent_ms, report) = sent(&spec, 3, &[Rejected, Rejected, Rejected, Ok, Rejected, Ok]);
    // Half open, one failure is enough.
    assert_eq!((cycles, sent_ms), (vec![0, 0, 1, 2], vec![0, 1, 102, 203]));
    let retries = report.retries.unwrap();
    assert_eq!((retries.retries, retries.given_up), (1, 2));
    assert_eq!(report.breaker, Some(BreakerCounts { opened: 2, rejected: 0 }));
}

#[test]
fn a_retry_that_succeeds_ends_the_failures_in_a_row() {
    use Outcome::{Ok, Rejected};
    let retry = Some(Retry { scope: RetryScope::All, tries: 2 });
    let spec = DriveSpec { retry, breaker: breaker(2), ..DriveSpec::default() };
    let (cycles, sent_ms, report) = sent(&spec, 3, &[Rejected, Ok, Rejected, Ok, Rejected, Ok]);
    assert_eq!((cycles, sent_ms), (vec![0, 0, 1, 1, 2, 2], vec![0, 1, 2, 3, 4, 5]));
    assert_eq!(report.breaker, Some(BreakerCounts { opened: 0, rejected: 0 }));
}

#[test]
fn a_client_that_is_done_does_not_wait_for_its_circuit() {
    let spec = DriveSpec { breaker: breaker(1), ..DriveSpec::default() };
    let mut core = simulated(1, u64::MAX, &spec, 0, None).core;
    core.settings.ops_max = 1;
    assert!(matches!(core.next(0), Next::Send { cycle: 0, .. }));
    core.finish(0, MS, Outcome::Rejected, &Answer::default());
    core.release(0, MS);
    assert!(matches!(core.next(MS), Next::Stop));
}

#[test]
fn what_is_due_by_a_schedule_while_the_circuit_is_open_is_rejected_at_once() {
    let spec = DriveSpec { pace: Pace::even(100.0), breaker: breaker(2), ..DriveSpec::default() };
    let failing = 200 * MS..500 * MS;
    let (slices, totals) = simulated(1, u64::MAX, &spec, 0, Some(SECOND)).run_script(|_, sent_ns| {
        (sent_ns + MS, if failing.contains(&sent_ns) { Outcome::Rejected } else { Outcome::Ok })
    });
    // Sent and refused at 200, 210, 320 and 430 ms; after each but the first the circuit is open for ten arrivals.
    assert_eq!((totals.kinds, totals.unfinished), (vec![[66, 0, 34, 0]], 0));
    let response = merged(&slices, Measure::Response);
    assert!(about(response.max(), MS), "{} ns", response.max());
    assert_eq!(response.count_between(0, MS / 10), 30);
    assert!(slices.iter().all(|slice| slice.lag_max_ns < MS / 10), "the generator is not late");
}

#[test]
fn with_a_schedule_an_idle_client_goes_before_one_whose_circuit_is_open() {
    let spec = DriveSpec { pace: Pace::even(100.0), breaker: breaker(1), ..DriveSpec::default() };
    let (_, totals) = simulated(2, u64::MAX, &spec, 0, Some(SECOND))
        .run_script(|number, sent_ns| (sent_ns + MS, if number == 0 { Outcome::Unknown } else { Outcome::Ok }));
    assert_eq!(totals.kinds, vec![[99, 0, 0, 1]]);
}

#[test]
fn a_client_that_cannot_connect_rejects_what_is_due_and_sends_when_it_is_connected_and_has_waited() {
    let spec = DriveSpec { pace: Pace::even(100.0), breaker: breaker(2), ..DriveSpec::default() };
    let mut core = simulated(1, u64::MAX, &spec, 0, Some(SECOND)).core;
    let error = Answer::default();
    let sleeps_until_ms = |next: Next| match next {
        Next::SleepUntil(at_ns) => at_ns / MS,
        other => panic!("{other:?}"),
    };
    assert!(matches!(core.next(0), Next::Send { cycle: 0, .. }));
    core.withdraw(0..1);
    core.finish(0, MS, Outcome::Unknown, &error);
    assert!(matches!(core.next(MS), Next::Wait), "one failure is not enough, and there is no session");
    core.not_connected(0..1, 5 * MS, &error);
    assert_eq!(sleeps_until_ms(core.next(5 * MS)), 10);
    // Other failures change nothing while the circuit is open.
    core.not_connected(0..1, 8 * MS, &error);
    assert_eq!(sleeps_until_ms(core.next(100 * MS)), 105);
    assert!(matches!(core.next(105 * MS), Next::Wait), "half open, without a session");
    core.not_connected(0..1, 112 * MS, &error);
    assert_eq!(sleeps_until_ms(core.next(112 * MS)), 120);
    core.release(0, 150 * MS);
    assert_eq!(sleeps_until_ms(core.next(150 * MS)), 160);
    assert_eq!(sleeps_until_ms(core.next(211 * MS)), 212);
    assert_eq!(sleeps_until_ms(core.next(212 * MS)), 220);
    // Due and rejected: 10 to 210 ms.
    assert!(matches!(core.next(220 * MS), Next::Send { lane: 0, cycle: 22, .. }));
    core.finish(0, 221 * MS, Outcome::Ok, &error);
    assert_eq!(core.report().breaker, Some(BreakerCounts { opened: 2, rejected: 21 }));
}
