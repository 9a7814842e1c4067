//! A generator that was late marks what it may have moved, and takes nothing away.

use plimsoll_analysis::compare::compare;
use plimsoll_analysis::compare::rule::Rule;
use plimsoll_analysis::view::{Comparison, EndState, GoalState, RungState, VerdictState};
use plimsoll_analysis::{take_late_for_void, view};
use plimsoll_core::{Measure, Outcome};
use plimsoll_record::data::{EventClass, Figure, PhaseState, ResultName, Run};

use crate::driven::driven;
use crate::recorded;
use crate::study::{event, goal, times};

const WHY: &str = "the generator was 3.0 ms late at the 99th percentile (operations took 5.0 ms)";

/// An open loop of ten seconds at 2,000/s, each operation answered after a millisecond, by a generator that was late.
fn late() -> Run {
    let mut run = driven(&[2_000; 10]);
    let phase = &mut run.trials[0].phases[0];
    phase.header.rate_per_s = Some(2_000.0);
    phase.end.late = Some(WHY.into());
    for histogram in phase.slices.iter_mut().flat_map(|slice| &mut slice.histograms) {
        histogram.measure = Measure::Response;
    }
    run
}

/// Sets the outcome of all operations in the slices below position `slices`.
fn fail(run: &mut Run, slices: usize, outcome: Outcome) {
    for slice in run.trials[0].phases[0].slices.iter_mut().take(slices) {
        slice.histograms.iter_mut().for_each(|one| one.outcome = outcome);
    }
}

#[test]
fn a_late_phase_has_all_its_numbers_marked_and_is_measured_without_goals() {
    let mut run = late();
    run.trials[0].phases[0].end.push(ResultName::Unfinished, 40.0);
    run.header.figures = ["mixed.p99", "mixed.unfinished"]
        .map(|formula| Figure {
            name: formula.into(),
            unit: String::new(),
            formula: formula.into(),
            published: Vec::new(),
        })
        .into();
    let view = view(&run);
    assert_eq!(view.verdict.state, VerdictState::Measured, "{:?}", view.verdict);
    assert!(view.verdict.sentence.contains("The generator was late in 1 phase"), "{}", view.verdict.sentence);
    let phase = &view.trials[0].phases[0];
    assert_eq!((phase.state, phase.late.as_deref()), (EndState::Complete, Some(WHY)));
    let row = &phase.latencies[0];
    assert!(row.late && row.percentiles.iter().any(|one| one.name == "p99" && one.ns.is_some()));
    for figure in &view.figures {
        let cell = &figure.rows[0].cells[0];
        assert!(cell.late && cell.text.ends_with(" *"), "{cell:?}");
    }
    let late = view.late.as_ref().unwrap();
    assert!(late.text.contains(WHY) && late.next.contains("higher"), "{late:?}");
}

#[test]
fn a_goal_that_held_with_a_late_generator_held_and_one_that_was_missed_is_undecided() {
    let mut run = late();
    run.header.goals = vec![goal("p99", 20e6, "ns"), goal("rate", 1_500.0, "1/s"), goal("errors", 0.1, "%")];
    assert_eq!(view(&run).verdict.state, VerdictState::Pass);
    run.header.goals = vec![goal("p99", 0.5e6, "ns"), goal("rate", 1_500.0, "1/s")];
    let missed = view(&run);
    assert_eq!(missed.verdict.state, VerdictState::Undecided, "{:?}", missed.verdict);
    assert!(missed.verdict.sentence.contains(WHY), "{}", missed.verdict.sentence);
    assert_eq!(missed.goals.iter().map(|one| one.state).collect::<Vec<_>>(), [GoalState::Undecided, GoalState::Held]);
    assert!(missed.goals[0].got_text.ends_with(" *"), "{:?}", missed.goals[0]);
    run.header.goals = vec![goal("rate", 2_500.0, "1/s")];
    assert_eq!(view(&run).verdict.state, VerdictState::Undecided, "it may have sent less than was asked of it");
    // What a goal on time alone misses is the store's.
    run.trials[0].phases[0].end.late = None;
    assert_eq!(view(&run).verdict.state, VerdictState::Fail);
}

#[test]
fn errors_are_no_lateness() {
    let mut run = late();
    fail(&mut run, 1, Outcome::Rejected);
    run.header.goals = vec![goal("errors", 5.0, "%")];
    assert_eq!(view(&run).verdict.state, VerdictState::Fail);
    // What was never sent may be: 20,000 that were sent and 2,000 that were not.
    let mut run = late();
    run.header.goals = vec![goal("errors", 5.0, "%")];
    let waited = run.trials[0].phases[0].slices[0].histograms[0].histogram.clone();
    run.trials[0].phases[0].slices[9].unfinished = Some(waited);
    let unsent = view(&run);
    assert_eq!((unsent.verdict.state, unsent.goals[0].state), (VerdictState::Undecided, GoalState::Undecided));
}

#[test]
fn a_rung_that_missed_its_goal_with_a_late_generator_is_undecided() {
    let mut run = recorded::searched();
    let failed = view(&run).lines[0].rungs.iter().rposition(|rung| rung.state == RungState::Failed).unwrap();
    run.trials[0].phases[failed].end.late = Some(WHY.into());
    let line = &view(&run).lines[0];
    assert_eq!((line.rungs[failed].state, line.rungs[failed].reason.as_deref()), (RungState::Undecided, Some(WHY)));
    let note = format!("Load step {}, undecided: {WHY}", failed + 1);
    assert!(line.notes.contains(&note), "{:?}", line.notes);
}

#[test]
fn a_rate_that_is_not_carried_is_a_failure_with_its_numbers_and_undecided_with_a_late_generator() {
    let mut run = late();
    let phase = &mut run.trials[0].phases[0];
    phase.header.rate_per_s = Some(20_000.0);
    phase.end.late = None;
    phase.slices.last_mut().unwrap().unfinished = Some(times([(9_000_000_000, 180_000)]));
    phase.end.state = PhaseState::Failed("the store does not carry this rate".to_owned());
    phase.end.overloaded = true;
    let failed = view(&run);
    assert_eq!(failed.verdict.state, VerdictState::Fail, "{}", failed.verdict.sentence);
    let words = "does not carry 20,000/s in phase mixed: throughput was 2,000/s, and 180,000 of 200,000 operations (90.0 %) were due";
    assert!(failed.verdict.sentence.contains(words), "{}", failed.verdict.sentence);
    assert!(!failed.verdict.sentence.contains("the run is incomplete"), "{}", failed.verdict.sentence);
    // What it measured stands: a goal about it was missed, and not left open.
    run.header.goals = vec![goal("p99", 5e6, "ns"), goal("rate", 1_000.0, "1/s")];
    let states: Vec<GoalState> = view(&run).goals.iter().map(|goal| goal.state).collect();
    assert_eq!(states, [GoalState::Missed, GoalState::Held]);
    // Whose queue it was cannot be told where the generator was late as well.
    run.header.goals.clear();
    let phase = &mut run.trials[0].phases[0];
    phase.end.late = Some(WHY.into());
    phase.end.state = PhaseState::Failed("whether the store carries this rate is undecided".to_owned());
    let open = view(&run);
    assert_eq!(open.verdict.state, VerdictState::Undecided, "{}", open.verdict.sentence);
    assert!(open.verdict.sentence.contains("carries 20,000/s in phase mixed is undecided: throughput was 2,000/s"));
    assert!(open.verdict.sentence.contains(WHY), "{}", open.verdict.sentence);
}

#[test]
fn strictness_takes_a_late_phase_for_void() {
    let mut run = late();
    take_late_for_void(&mut run);
    let strict = view(&run);
    assert_eq!(strict.verdict.state, VerdictState::Incomplete);
    assert!(
        strict.verdict.sentence.contains("is void (its figures are not reported): the generator was 3.0 ms late"),
        "{}",
        strict.verdict.sentence
    );
    assert!(strict.trials[0].phases[0].latencies.is_empty() && strict.late.is_none());
}

#[test]
fn nobody_passes_when_more_than_one_operation_in_a_hundred_failed() {
    let mut run = driven(&[1_000; 100]);
    let text = "2000 × rejected 500: Internal Server Error";
    run.events.push(event(150_000_000_000, Some(0), EventClass::ErrorCode, text));
    fail(&mut run, 1, Outcome::Unknown);
    assert_eq!(view(&run).verdict.state, VerdictState::Measured, "one in a hundred is not more than that");
    for (slices, outcome) in [(2, Outcome::Rejected), (100, Outcome::Rejected), (3, Outcome::Unknown)] {
        let mut run = run.clone();
        fail(&mut run, slices, outcome);
        let failed = view(&run);
        assert_eq!(failed.verdict.state, VerdictState::Fail, "{slices}");
        assert!(failed.verdict.sentence.contains("rejected 500: Internal Server Error"), "{}", failed.verdict.sentence);
        run.header.goals = vec![goal("errors", 100.0, "%")];
        assert_eq!(view(&run).verdict.state, VerdictState::Pass, "it was said how many may fail");
    }
    let mut nothing = driven(&[0; 3]);
    assert_eq!(view(&nothing).verdict.state, VerdictState::Fail);
    assert!(view(&nothing).verdict.sentence.starts_with("No operation of phase mixed"));
    nothing.trials[0].phases[0].end.state = PhaseState::Interrupted;
    assert_ne!(view(&nothing).verdict.state, VerdictState::Fail, "it was given no time");
}

#[test]
fn a_comparison_shows_marked_numbers_and_decides_what_lateness_cannot_turn() {
    let (mut slower, mut quick) = (late(), late());
    for slice in &mut slower.trials[0].phases[0].slices {
        slice.end_ns += 100_000_000;
    }
    slower.trials[0].phases[0].end.late = None;
    quick.trials[0].phases[0].end.late = None;
    let rules = ["rate < -3%", "rate > +3%"].map(|rule| Rule::parse(rule).unwrap());
    let words = |a: &Run, b: &Run| compare(a, b, &rules, None).rules.iter().map(|one| one.word()).collect::<Vec<_>>();
    assert_eq!(words(&quick, &slower), ["failed", "ok"]);
    // B was driven late: its rate is lower than the store's, so that it fell is not told; that it did not rise neither.
    slower.trials[0].phases[0].end.late = Some(WHY.into());
    assert_eq!(words(&quick, &slower), ["undecided", "undecided"]);
    // A was: that B is lower all the same is certain.
    let mut a = quick.clone();
    a.trials[0].phases[0].end.late = Some(WHY.into());
    slower.trials[0].phases[0].end.late = None;
    assert_eq!(words(&a, &slower), ["failed", "ok"]);
    let comparison = compare(&a, &slower, &rules, None);
    let rate = &comparison.groups[0].metrics[0];
    assert!(rate.a.late && rate.a.text.ends_with(" *") && rate.change_percent.is_some());
    assert_eq!(Comparison::mark(rate), "?");
}
