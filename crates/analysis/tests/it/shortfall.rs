//! A phase that did far less than its own load requires, or answered nothing for a time, does not pass.

use plimsoll_analysis::view;
use plimsoll_analysis::view::VerdictState;
use plimsoll_core::Measure;
use plimsoll_record::data::{EventClass, Goal, GoalKind, PhaseResult, ResultName, Run};

use crate::driven::driven;
use crate::faulted::{KILL, fault};
use crate::stall::act;

/// A closed loop of one slice a second, whose clients think for `think_s` and had connections for the whole time.
fn closed(rates: &[u64], clients: u32, think_s: f64, distribution: &str) -> Run {
    let mut run = driven(rates);
    let phase = &mut run.trials[0].phases[0];
    phase.header.clients = clients;
    phase.end.push(ResultName::PlannedSeconds, rates.len() as f64);
    let n = u64::from(clients);
    let of = |name, subject: &str, value| PhaseResult { name, subject: subject.into(), value, n };
    phase.end.results.extend([
        of(ResultName::ClientSeconds, "", f64::from(clients) * rates.len() as f64),
        of(ResultName::ThinkSeconds, distribution, think_s),
    ]);
    run
}

fn is_measured(run: &Run, what: &str) {
    let verdict = view(run).verdict;
    assert_eq!(verdict.state, VerdictState::Measured, "{what}: {verdict:?}");
}

#[test]
fn clients_that_stopped_after_their_first_operation_are_undecided_with_what_they_must_have_done() {
    // Two clients that think for 3 s begin seven operations each in 20 s.
    let mut rates = [0; 20];
    rates[0] = 2;
    let verdict = view(&closed(&rates, 2, 3.0, "")).verdict;
    assert_eq!(verdict.state, VerdictState::Undecided, "{verdict:?}");
    for words in [
        "did not do what its load requires",
        "2 operations were done instead of about 13",
        "for up to 19",
        "a think time of at most 3.00 s",
    ] {
        assert!(verdict.sentence.contains(words), "{}", verdict.sentence);
    }
    // Of what is not so nothing is said.
    let slow = view(&closed(&[1; 20], 100, 0.0, "")).verdict.sentence;
    assert!(slow.contains("20 operations were done instead of about"), "{slow}");
    assert!(!slow.contains("nothing was answered") && !slow.contains("think time"), "{slow}");
}

#[test]
fn a_closed_loop_that_did_what_it_could_is_measured() {
    let mut rates = [0; 20];
    for second in (0..20).step_by(3) {
        rates[second] = 2;
    }
    is_measured(&closed(&rates, 2, 3.0, ""), "each of seven think times");
    let mut once = [0; 20];
    once[0] = 50;
    is_measured(&closed(&once, 50, 15.0, ""), "one operation each, and the second not within the time");
    let mut few = [0; 20];
    few[3] = 1;
    is_measured(&closed(&few, 1, 4.0, "exponential"), "think times that happened to be long");
    is_measured(&closed(&[400; 20], 1_000, 0.0, ""), "sessions that take turns on one thread");
    let mut away = closed(&rates.map(|rate| rate / 2), 2, 3.0, "");
    let results = &mut away.trials[0].phases[0].end.results;
    results.iter_mut().find(|result| result.name == ResultName::ClientSeconds).unwrap().value = 22.0;
    is_measured(&away, "half of the operations in half of the time with a connection");
}

/// Returns a closed loop of 1,000 answers in each of `seconds` seconds, and none in the `silent` ones.
fn silent(seconds: u64, silent: std::ops::Range<u64>) -> Run {
    let rates: Vec<u64> = (0..seconds).map(|second| if silent.contains(&second) { 0 } else { 1_000 }).collect();
    closed(&rates, 8, 0.0, "")
}

#[test]
fn a_closed_loop_without_an_answer_for_longer_than_two_seconds_and_a_twentieth_of_its_time_is_undecided() {
    let verdict = view(&silent(20, 7..10)).verdict;
    assert_eq!(verdict.state, VerdictState::Undecided, "{verdict:?}");
    for words in
        ["nothing was answered for 3.00 s at 107 s", "no fault of the plan, command for a lab or goal on `outage`"]
    {
        assert!(verdict.sentence.contains(words), "{}", verdict.sentence);
    }
    assert_eq!(view(&silent(20, 15..20)).verdict.state, VerdictState::Undecided, "up to the end");
    assert_eq!(view(&silent(60, 7..11)).verdict.state, VerdictState::Undecided, "four seconds of sixty");
    is_measured(&silent(20, 7..8), "one second");
    is_measured(&silent(60, 7..10), "a twentieth");
    is_measured(&silent(20, 0..3), "before the first answer");
    // Response times of an open loop hold the wait.
    let mut open = silent(20, 7..10);
    for histogram in open.trials[0].phases[0].slices.iter_mut().flat_map(|slice| &mut slice.histograms) {
        histogram.measure = Measure::Response;
    }
    is_measured(&open, "an open loop");
}

#[test]
fn an_outage_passes_if_a_fault_of_the_plan_a_command_for_the_lab_or_a_goal_allows_it() {
    let mut faulted = silent(20, 7..10);
    fault(&mut faulted, KILL, 6_900, Some(9_500));
    is_measured(&faulted, "a fault in it");
    let mut healed = silent(20, 7..10);
    fault(&mut healed, KILL, 1_000, Some(1_500));
    assert_eq!(view(&healed).verdict.state, VerdictState::Undecided, "a fault that was over for longer than 5 s");

    let mut ordered = silent(20, 7..10);
    act(&mut ordered, "lab pause a 1", 6_900, 6_950);
    is_measured(&ordered, "a command");
    let mut died = silent(20, 7..10);
    act(&mut died, "node 1 of lab a was ended by signal 9 (SIGKILL)", 6_900, 6_900);
    died.events.last_mut().unwrap().class = EventClass::Servers;
    let verdict = view(&died).verdict;
    assert_eq!(verdict.state, VerdictState::Undecided, "{verdict:?}");
    assert!(verdict.sentence.contains("around then: node 1 of lab a was ended"), "{}", verdict.sentence);
    act(&mut ordered, "lab resume a 1", 9_990, 9_990);
    ordered.events.iter_mut().for_each(|event| event.trial = Some(1));
    assert_eq!(view(&ordered).verdict.state, VerdictState::Undecided, "commands for another trial");

    let mut allowed = silent(20, 7..10);
    allowed.header.goals = vec![Goal { what: GoalKind::Outage, of: None, limit: 5e9, unit: "ns".into() }];
    assert_eq!(view(&allowed).verdict.state, VerdictState::Pass);
}

#[test]
fn an_open_loop_that_did_far_less_than_was_due_is_undecided() {
    let open = |rates: &[u64], due: f64| {
        let mut run = driven(rates);
        let phase = &mut run.trials[0].phases[0];
        phase.end.push(ResultName::PlannedSeconds, rates.len() as f64);
        phase.end.push(ResultName::Due, due);
        for histogram in phase.slices.iter_mut().flat_map(|slice| &mut slice.histograms) {
            histogram.measure = Measure::Response;
        }
        run
    };
    is_measured(&open(&[100; 10], 1_000.0), "all that was due");
    is_measured(&open(&[100; 10], 1_030.0), "what is under way at the end");
    let verdict = view(&open(&[100, 100, 0, 0, 0, 0, 0, 0, 0, 0], 1_000.0)).verdict;
    assert_eq!(verdict.state, VerdictState::Undecided, "{verdict:?}");
    assert!(verdict.sentence.contains("200 operations were done instead of about 1,000"), "{}", verdict.sentence);
}
