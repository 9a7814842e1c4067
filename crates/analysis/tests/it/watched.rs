//! Runs that only watched: nothing but a goal can be missed.

use plimsoll_analysis::view;
use plimsoll_analysis::view::VerdictState;
use plimsoll_core::{Outcome, quantity::Percentile};
use plimsoll_record::data::{Goal, GoalKind, Run, RunState};

use crate::driven::{driven, sampled};
use crate::study::{served, times};

/// A log with these numbers of operations in its seconds, of 1 ms each.
fn watched(rates: &[u64]) -> Run {
    let mut run = driven(rates);
    run.header.outline.watched = true;
    run
}

fn p99(limit: f64) -> Goal {
    let what = GoalKind::Percentile(Percentile::named("p99").unwrap());
    Goal { what, of: None, limit, unit: "ns".into() }
}

#[test]
fn errors_and_silence_are_no_broken_promise() {
    let mut run = watched(&[1_000, 1_000, 0, 0, 0, 0, 1_000, 10, 1_000, 1_000]);
    let failed = run.trials[0].phases[0].slices[0].histograms[0].clone();
    run.trials[0].phases[0].slices[1]
        .histograms
        .push(plimsoll_core::SliceHistogram { outcome: Outcome::Rejected, ..failed });
    let view = view(&run);
    assert_eq!(view.verdict.state, VerdictState::Measured);
    let sentence = &view.verdict.sentence;
    assert!(sentence.starts_with("Watched, not driven: ") && sentence.contains("6,010 operations"), "{sentence}");
    assert!(sentence.contains("1,000 of them failed"), "{sentence}");
    assert!(view.warnings.is_empty(), "{:?}", view.warnings);
    assert_eq!(view.trials[0].phases[0].outage, None);
    run.header.outline.watched = false;
    assert_eq!(plimsoll_analysis::view(&run).verdict.state, VerdictState::Fail, "driven, it is one");
}

#[test]
fn silence_and_failures_are_stalls_and_fewer_operations_may_be_those_of_fewer_clients() {
    let mut rates = [1_000; 30];
    (rates[9], rates[10], rates[20]) = (0, 50, 300);
    let mut run = watched(&rates);
    let fewer = view(&run).stalls;
    assert_eq!((fewer.len(), fewer[0].spans_s.as_slice()), (1, &[(109.0, 111.0)][..]), "{fewer:?}");
    let sentence = &fewer[0].sentence;
    let told = "it stalled, or its clients paused, for 2.00 s at 109 s: throughput fell from its usual 1,000/s to 0/s";
    assert!(sentence.contains(told), "{sentence}");
    let failed = run.trials[0].phases[0].slices[0].histograms[0].clone();
    run.trials[0].phases[0].slices[20]
        .histograms
        .push(plimsoll_core::SliceHistogram { outcome: Outcome::Rejected, ..failed });
    assert_eq!(view(&run).stalls[0].spans_s, [(109.0, 111.0), (120.0, 121.0)], "its clients sent more than succeeded");
}

#[test]
fn slow_moments_of_a_log_are_told_without_a_series_beside_it() {
    let mut run = watched(&[1_000; 60]);
    for slice in &mut run.trials[0].phases[0].slices[20..23] {
        slice.histograms = vec![served(1, times([(3_000_000, 1_000)]))];
    }
    let told = view(&run).findings;
    let [finding] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(
        finding.sentence,
        "fjall, phase mixed: the only slow moment, at 120.0 s, is unexplained: no series was watched that changed."
    );
    run.header.outline.watched = false;
    assert!(view(&run).findings.is_empty(), "a drive without samplers");
}

#[test]
fn a_goal_is_judged_as_in_a_drive() {
    let mut run = watched(&[1_000; 10]);
    run.header.goals = vec![p99(2e6)];
    assert_eq!(view(&run).verdict.state, VerdictState::Pass);
    run.header.goals = vec![p99(2e5)];
    let missed = view(&run).verdict;
    assert_eq!(missed.state, VerdictState::Fail);
    assert!(missed.sentence.starts_with("p99 of response time was 1"), "{}", missed.sentence);
    let mut empty = watched(&[0; 10]);
    empty.header.goals = vec![p99(2e6)];
    let unseen = view(&empty).verdict;
    assert_eq!(unseen.state, VerdictState::Incomplete);
    assert!(unseen.sentence.starts_with("p99 of response time could not be measured in "), "{}", unseen.sentence);
}

#[test]
fn processes_have_their_processor_time_and_memory_in_the_verdict() {
    let mut run = watched(&[0; 3]);
    sampled(&mut run, "server", "node 1", "user", "%", &[10.0, 20.0, 60.0]);
    sampled(&mut run, "server", "node 1", "system", "%", &[1.0, 2.0, 3.0]);
    sampled(&mut run, "server", "node 1", "memory", "B", &[1048576.0, 2097152.0, 3145728.0]);
    sampled(&mut run, "cpu", "", "user", "%", &[99.0; 3]);
    let sentence = view(&run).verdict.sentence;
    assert!(sentence.contains("22.0 % of a processor (most: 63.0 %)"), "{sentence}");
    assert!(sentence.contains("2.00 MiB of memory") && sentence.contains("most: 3.00 MiB"), "{sentence}");
}

#[test]
fn a_run_that_ended_early_is_incomplete() {
    let mut run = watched(&[1_000; 10]);
    run.state = RunState::Interrupted;
    let verdict = view(&run).verdict;
    assert_eq!(verdict.state, VerdictState::Incomplete);
    assert!(verdict.sentence.starts_with("The run ended early: interrupted. Watched, not driven: "), "{verdict:?}");
}
