//! Failed operations that are sent again, on a made-up clock.

use super::*;
use crate::result::RetryCounts;
use crate::worker::retries::Retries;
use plimsoll_core::pace::{Retry, RetryScope};
use plimsoll_core::{Call, KvCall, RecordsCall};

const THREE: Retry = Retry { scope: RetryScope::Idempotent, tries: 3 };

/// Drives one client with `ops` operations, whose tries take 1 ms each and end as `outcomes` say. Returns the numbers
/// of what was sent.
fn tried(spec: &DriveSpec, ops: u64, warmup_ns: u64, outcomes: &[Outcome]) -> (Vec<u64>, Option<RetryCounts>) {
    let mut core = simulated(1, ops, spec, warmup_ns, None).core;
    let (mut now_ns, mut cycles) = (0, Vec::new());
    loop {
        match core.next(now_ns) {
            Next::Send { lane, cycle, .. } => {
                let outcome = outcomes[cycles.len()];
                cycles.push(cycle);
                now_ns += MS;
                core.finish(lane, now_ns, outcome, &Answer::default());
                // Its connection is back later.
                if outcome == Outcome::Unknown {
                    core.withdraw(0..1);
                    assert!(matches!(core.next(now_ns), Next::Wait), "there is no session");
                    now_ns += 100 * MS;
                }
                core.release(lane, now_ns);
            }
            Next::Stop => return (cycles, core.report().retries),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_client_sends_a_failed_operation_again_up_to_its_tries_and_then_its_next_one() {
    use Outcome::{NotFound, Ok, Rejected, Unknown};
    let spec = DriveSpec { retry: Some(THREE), ..DriveSpec::default() };
    let outcomes = [Unknown, Rejected, Ok, NotFound, Unknown, Unknown, Unknown, Rejected, Ok];
    let (cycles, counts) = tried(&spec, 4, 0, &outcomes);
    assert_eq!(cycles, [0, 0, 0, 1, 2, 2, 2, 3, 3]);
    assert_eq!(counts, Some(RetryCounts { retries: 5, given_up: 1 }));
    let (cycles, counts) = tried(&DriveSpec::default(), 3, 0, &[Unknown, Rejected, Ok]);
    assert_eq!((cycles, counts), (vec![0, 1, 2], None), "nothing is sent again unasked");
}

#[test]
fn a_retry_is_counted_if_its_try_ends_after_the_warmup() {
    use Outcome::{Ok, Rejected};
    let spec = DriveSpec { retry: Some(THREE), ..DriveSpec::default() };
    let outcomes = [Rejected, Rejected, Ok, Rejected, Ok];
    // The warm-up ends within a try, or between two.
    for (warmup_ns, retries) in
        [(MS / 2, 3), (3 * MS / 2, 3), (2 * MS, 3), (5 * MS / 2, 2), (3 * MS, 2), (7 * MS / 2, 1)]
    {
        let (cycles, counts) = tried(&spec, 2, warmup_ns, &outcomes);
        assert_eq!(cycles, [0, 0, 0, 1, 1]);
        assert_eq!(counts, Some(RetryCounts { retries, given_up: 0 }), "after {warmup_ns} ns");
    }
}

#[test]
fn what_may_have_happened_and_is_not_idempotent_is_sent_again_only_if_all_is() {
    let kind = |call| OpKind::new("ask", call, &[]);
    let insert = Call::Records { collection: 0, call: RecordsCall::Insert };
    let kinds = [kind(Call::Kv(KvCall::Put)), kind(insert)];
    let again = |scope, kind, outcome| {
        let mut retries = Retries::new(Retry { scope, tries: 3 }, 1, &kinds);
        retries.failed(0, 1, kind, outcome)
    };
    assert!(again(RetryScope::Idempotent, 0, Outcome::Unknown));
    assert!(!again(RetryScope::Idempotent, 1, Outcome::Unknown));
    assert!(again(RetryScope::Idempotent, 1, Outcome::Rejected), "it has certainly not happened");
    assert!(again(RetryScope::All, 1, Outcome::Unknown));
}

#[test]
fn retries_come_on_top_of_a_schedule_and_have_the_time_of_the_tries_before() {
    let spec = DriveSpec { pace: Pace::even(100.0), retry: Some(THREE), ..DriveSpec::default() };
    // Of the 111 tries every tenth is refused.
    let (slices, totals) = simulated(4, u64::MAX, &spec, 0, Some(SECOND))
        .run_script(|number, sent_ns| (sent_ns + MS, if number % 10 == 3 { Outcome::Rejected } else { Outcome::Ok }));
    assert_eq!((totals.kinds, totals.unfinished), (vec![[100, 0, 11, 0]], 0));
    let [service, response] = [Measure::Service, Measure::Response].map(|measure| merged(&slices, measure));
    assert!(about(service.max(), MS) && about(response.max(), 2 * MS), "{} {}", service.max(), response.max());
    assert_eq!(response.count_between(1_500_000, 2_500_000), 11);
}

#[test]
fn retries_hide_nothing_of_what_was_due_and_not_sent_in_a_later_stall() {
    let due_in_stall = |retry| {
        let spec = DriveSpec { pace: Pace::even(1_000.0), retry, ..DriveSpec::default() };
        // Half of the first second's operations are refused once; from 2.5 s to 3.5 s the store answers nothing.
        let answered = |number: usize, sent_ns: u64| match sent_ns + MS / 100 {
            done_ns if done_ns < SECOND && number.is_multiple_of(2) => (done_ns, Outcome::Rejected),
            done_ns if (2_500 * MS..3_500 * MS).contains(&done_ns) => (3_500 * MS, Outcome::Ok),
            done_ns => (done_ns, Outcome::Ok),
        };
        let (slices, _) = simulated(4, u64::MAX, &spec, 0, Some(5 * SECOND)).run_script(answered);
        (slices[2].due_unsent, slices[2].oldest_age_ns)
    };
    let (due, age_ns) = due_in_stall(Some(THREE));
    assert_eq!((due, age_ns), due_in_stall(None));
    assert!(due.abs_diff(496) <= 12 && about(age_ns, 500 * MS), "{due} due, {age_ns} ns old");
}
