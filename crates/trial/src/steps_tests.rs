use plimsoll_core::StoreError;
use plimsoll_drive::RetryCounts;

use super::*;

#[test]
fn files_that_stay_in_memory_are_not_cold() {
    assert_eq!(still_warm(0, 0), None);
    assert_eq!(still_warm(41_758_325, 8_192), None);
    // As seen on a tmpfs: SQLite's one file, and fjall's with a journal of 64 MiB that is mostly a hole.
    assert!(still_warm(1_363_968, 1_363_968).is_some_and(|why| why.starts_with("1.3 of 1.3 MiB")));
    assert!(still_warm(67_808_013, 2_093_056).is_some());
}

/// Returns the results of a phase, by their names and subjects.
fn numbers(results: &[PhaseResult]) -> Vec<(ResultName, &str, f64, u64)> {
    results.iter().map(|one| (one.name, one.subject.as_str(), one.value, one.n)).collect()
}

#[test]
fn answers_are_recorded_by_their_status_with_the_sizes_of_their_bodies() {
    let mut tally = AnswerTally::default();
    assert!(answers(&tally).is_empty(), "no answer has no size");
    for (status, bytes) in [(404, 20), (200, 10), (200, 1_000)] {
        tally.note(status, bytes);
    }
    let results = answers(&tally);
    let wanted = [
        (ResultName::AnswerStatus, "200", 2.0, 2),
        (ResultName::AnswerStatus, "404", 1.0, 1),
        (ResultName::BodyMedianBytes, "", 20.0, 3),
        (ResultName::BodyMaxBytes, "", 1_000.0, 3),
    ];
    assert_eq!(numbers(&results), wanted);
}

#[test]
fn connections_are_always_recorded_and_repetitions_only_where_there_may_be_some() {
    let of = |result: &DriveResult| {
        let mut end = PhaseEnd::default();
        push_connections(result, &mut end);
        numbers(&end.results).into_iter().map(|(name, _, value, _)| (name, value)).collect::<Vec<_>>()
    };
    let counts =
        DriveResult { lost_connections: 1, ended_connections: 2, failed_connects: 3, ..DriveResult::default() };
    let wanted =
        [(ResultName::LostConnections, 1.0), (ResultName::EndedConnections, 2.0), (ResultName::FailedConnects, 3.0)];
    assert_eq!(of(&counts), wanted);
    let retries = Some(RetryCounts { retries: 0, given_up: 5 });
    let repeated = DriveResult { asked_again: 4, retries, ..DriveResult::default() };
    let wanted = [(ResultName::AskedAgain, 4.0), (ResultName::Retries, 0.0), (ResultName::GivenUp, 5.0)];
    assert_eq!(of(&repeated)[3..], wanted, "a policy of retries that were not needed is told");
    let mut end = PhaseEnd::default();
    push_connections(&DriveResult { lost_between_ns: Some((5, 9)), ..counts }, &mut end);
    assert_eq!(end.lost_between_ns, Some((5, 9)));
}

#[test]
fn the_lag_of_a_generator_is_recorded_with_the_operations_that_it_is_over() {
    let mut end = PhaseEnd::default();
    push_lag(&DriveResult::default(), &mut end);
    assert!(end.results.is_empty(), "a closed loop has no schedule");
    let lag = plimsoll_drive::Lag { n: 9, p50_ns: 1, p99_ns: 2, max_ns: 3 };
    push_lag(&DriveResult { lag, ..DriveResult::default() }, &mut end);
    let wanted = [(ResultName::LagP50, "", 1.0, 9), (ResultName::LagP99, "", 2.0, 9), (ResultName::LagMax, "", 3.0, 9)];
    assert_eq!(numbers(&end.results), wanted);
}

#[test]
fn a_session_that_is_refused_or_lost_is_the_phases_error_however_late_the_generator_was() {
    let error = StoreError::broken("it is gone");
    for stop in [StopReason::Refused(error.clone()), StopReason::Lost(error.clone())] {
        for strict in [false, true] {
            let (late, mut end) = (Some("it slept".to_owned()), PhaseEnd::default());
            let result = DriveResult { stop: stop.clone(), late, ..DriveResult::default() };
            assert_eq!(ended(&result, &mut end, strict), Err(error.clone()));
            assert_eq!((&end.state, &end.late), (&PhaseEnd::default().state, &None));
        }
    }
    // What the user ended is not withheld.
    let (late, mut end) = (Some("it slept".to_owned()), PhaseEnd::default());
    let result = DriveResult { stop: StopReason::Cancelled, late: late.clone(), ..DriveResult::default() };
    assert_eq!((ended(&result, &mut end, true), end.late), (Ok(()), late));
}
