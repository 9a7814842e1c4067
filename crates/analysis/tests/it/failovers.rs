//! Failovers beside the formula of their store: inside, outside, and not decided.

use plimsoll_analysis::failover::{beside, words};
use plimsoll_analysis::view;
use plimsoll_analysis::view::{FailoverView, FormulaState};
use plimsoll_core::FailoverTime;
use plimsoll_record::data::{AnswerSentence, FaultKind, Run, Sample};

use crate::faulted::{KILL, PAUSE, at_ns, failed_over, fault, formula, ticked};
use crate::study::series_of;

const HANG: (FaultKind, &str, &str) = (FaultKind::Pause, "node 1, the primary", "pause primary at 8s for 7s");
const CUT: (FaultKind, &str, &str) = (FaultKind::Cut, "node 1, the primary", "cut primary at 8s for 7s");

#[track_caller]
fn only(run: &Run) -> FailoverView {
    let faults = view(run).faults;
    let [one] = faults.as_slice() else { panic!("one fault: {faults:?}") };
    one.failover.clone().unwrap()
}

/// Bounds and place of the failover of a run.
#[track_caller]
fn place(run: &Run) -> String {
    beside(&only(run))
}

#[test]
fn a_failover_is_inside_shorter_or_longer_than_the_formula_of_its_store() {
    let run = failed_over(KILL, 137, Some(15_000));
    let one = only(&run);
    assert_eq!((one.state, one.least_s, one.most_s), (FormulaState::Inside, 0.9, 2.1));
    assert!(one.measured_s.is_some_and(|measured_s| (measured_s - 1.37).abs() < 1e-6), "{one:?}");
    assert_eq!(words(&one), "fjall's formula gives 900 ms to 2.10 s: inside");
    assert_eq!(
        view(&run).faults[0].sentence,
        "kill of node 1, the primary, at 108.00 s: no answer for 1.37 s, noticed within 10 ms, throughput back after \
         1.37 s; fjall's formula gives 900 ms to 2.10 s: inside"
    );
    assert_eq!(place(&failed_over(KILL, 50, Some(15_000))), "900 ms to 2.10 s: 400 ms below");
    assert_eq!(place(&failed_over(KILL, 300, Some(15_000))), "900 ms to 2.10 s: 900 ms above");
    // Ticks tell a time to 10 ms.
    for ticks in [89, 211] {
        assert_eq!(only(&failed_over(KILL, ticks, Some(15_000))).state, FormulaState::Inside, "{ticks}");
    }
}

#[test]
fn a_primary_that_hangs_or_is_cut_off_has_bounds_of_its_own() {
    for what in [HANG, CUT] {
        assert_eq!(place(&failed_over(what, 230, Some(15_000))), "1.50 s to 2.50 s: inside");
        assert_eq!(place(&failed_over(what, 137, Some(15_000))), "1.50 s to 2.50 s: 130 ms below");
    }
}

#[test]
fn a_failover_that_healing_another_fault_or_the_end_may_have_ended_decides_nothing() {
    let not_decided = |run: &Run| assert_eq!(place(run), "900 ms to 2.10 s: not decided");
    not_decided(&failed_over(KILL, 137, Some(9_300)));
    // Clients had answers all the time.
    not_decided(&failed_over(KILL, 0, Some(15_000)));
    let mut run = failed_over(KILL, 137, Some(15_000));
    fault(&mut run, PAUSE, 9_000, Some(10_000));
    assert_eq!(view(&run).faults[0].failover.as_ref().unwrap().state, FormulaState::NotDecided);
    assert_eq!(view(&run).faults[1].failover, None);
    let mut run = failed_over(KILL, 137, Some(15_000));
    run.trials[0].phases[0].slices.iter_mut().for_each(|slice| slice.ticks.clear());
    not_decided(&run);
    // The formula had ended before.
    assert_eq!(place(&failed_over(KILL, 600, Some(13_000))), "900 ms to 2.10 s: 3.90 s above");
    assert_eq!(place(&failed_over(KILL, 1_200, None)), "900 ms to 2.10 s: 9.90 s above");
}

#[test]
fn a_longer_silence_after_the_healing_is_no_part_of_the_failover() {
    let mut run =
        ticked(20, |tick| if (800..920).contains(&tick) || (1500..1800).contains(&tick) { (0, 0) } else { (10, 0) });
    run.trials[0].header.failover_time = Some(formula());
    fault(&mut run, KILL, 8_000, Some(15_000));
    let one = only(&run);
    assert!(one.measured_s.is_some_and(|measured_s| (measured_s - 1.2).abs() < 1e-6), "{one:?}");
    assert!(view(&run).faults[0].outage_s.is_some_and(|outage_s| outage_s > 2.9));
}

#[test]
fn of_a_store_whose_nodes_serve_parts_the_time_ends_when_throughput_is_back() {
    let slowed = |answered: u32| {
        let mut run = ticked(20, |tick| if (800..1_000).contains(&tick) { (answered, 0) } else { (10, 0) });
        run.trials[0].header.failover_time = Some(FailoverTime { is_of_part: true, ..formula() });
        fault(&mut run, KILL, 8_000, Some(15_000));
        run
    };
    // Twelve slow ticks in a window take 48 of 1,000 answers.
    let one = only(&slowed(6));
    assert!(one.measured_s.is_some_and(|measured_s| (measured_s - 1.88).abs() < 1e-6), "{one:?}");
    assert_eq!(one.state, FormulaState::Inside);
    assert_eq!(only(&slowed(10)).state, FormulaState::NotDecided);
}

#[test]
fn only_a_primary_that_is_lost_as_a_whole_in_a_store_with_a_formula_is_judged() {
    let half = (FaultKind::Cut, "node 1, the primary", "cut primary in at 8s for 7s");
    let number = (FaultKind::Kill, "node 1", "kill node 1 at 8s for 7s");
    for what in [half, number, PAUSE] {
        let run = failed_over(what, 137, Some(15_000));
        assert_eq!((view(&run).faults[0].failover.as_ref(), view(&run).formulas.len()), (None, 0), "{what:?}");
    }
    let mut run = failed_over(KILL, 137, Some(15_000));
    run.trials[0].faults[0].taken_ns = None;
    assert_eq!(view(&run).faults[0].failover, None);
    let mut run = failed_over(KILL, 137, Some(15_000));
    run.trials[0].header.failover_time = None;
    assert_eq!(view(&run).faults[0].failover, None);
}

/// A kill at 8 s with answers from 11 s on, and the terms of a node at these milliseconds.
fn with_terms(terms: &[(u64, f64)]) -> Run {
    let mut run = failed_over(KILL, 300, Some(15_000));
    let position = run.series.len() as u32;
    run.series.push(series_of("store", "fjall node 2", "raft_term", ""));
    let sample =
        |(ms, term): &(u64, f64)| Sample { at_ns: at_ns(*ms), values: vec![(position, *term)], ..Sample::default() };
    run.samples.extend(terms.iter().map(sample));
    run.samples.sort_by_key(|sample| sample.at_ns);
    run
}

#[test]
fn a_failover_with_a_split_vote_is_told_from_those_with_one_election() {
    let run = with_terms(&[(7_900, 13.0), (8_900, 13.0), (11_900, 15.0), (15_900, 22.0)]);
    assert_eq!(
        (only(&run).elections, place(&run).as_str()),
        (Some(2), "900 ms to 2.10 s: 900 ms above, with 2 elections")
    );
    let sentence = view(&run).formulas[0].sentence.clone();
    assert!(sentence.contains("; 0 of 1 failover inside, 1 with more than one election ("), "{sentence}");
    let run = with_terms(&[(7_900, 13.0), (11_900, 14.0)]);
    assert_eq!((only(&run).elections, place(&run).as_str()), (Some(1), "900 ms to 2.10 s: 900 ms above"));
    assert_eq!(view(&run).formulas[0].elected_again, 0);
    // The node that came back has a newer term.
    let run = with_terms(&[(7_900, 13.0), (15_900, 22.0)]);
    assert_eq!((only(&run).elections, place(&run).as_str()), (None, "900 ms to 2.10 s: 900 ms above"));
}

#[test]
fn elections_of_a_store_whose_label_begins_alike_are_not_counted() {
    let mut run = with_terms(&[(7_900, 13.0), (11_900, 14.0)]);
    let position = run.series.len() as u32;
    run.series.push(series_of("store", "fjall_2 node 1", "raft_term", ""));
    let after = run.samples.iter_mut().filter(|sample| sample.at_ns == at_ns(11_900));
    after.for_each(|sample| sample.values.push((position, 40.0)));
    assert_eq!(only(&run).elections, Some(1));
}

/// Four repeats of a kill: two inside, one longer, and one that was healed at once.
fn repeated() -> Run {
    let repeats = [(137, 15_000), (150, 15_000), (300, 15_000), (137, 8_500)];
    let mut runs = repeats.map(|(ticks, healed_ms)| failed_over(KILL, ticks, Some(healed_ms))).into_iter();
    let mut run = runs.next().unwrap();
    for (ordinal, mut trial) in (1..).zip(runs.flat_map(|other| other.trials)) {
        trial.header.ordinal = ordinal;
        trial.faults[0].trial = ordinal;
        run.trials.push(trial);
    }
    for (repeat, trial) in run.trials.iter_mut().enumerate() {
        trial.header.labels.insert("repeat".into(), repeat.to_string());
    }
    run
}

#[test]
fn repeats_are_counted_inside_and_outside_of_the_formula_which_is_told_with_its_source() {
    let found = view(&repeated());
    let [one] = found.formulas.as_slice() else { panic!("one formula: {:?}", found.formulas) };
    assert_eq!((one.inside, one.decided, one.not_decided), (2, 3, 1));
    assert_eq!(
        one.sentence,
        "fjall's formula: one to two time-outs (1 s): 900 ms to 2.10 s after a kill, 1.50 s to 2.50 s after a pause or \
         a cut; 2 of 3 failovers inside, 1 not decided (https://example.org/failover)"
    );
    let [repeats] = found.fault_repeats.as_slice() else { panic!("one fault: {:?}", found.fault_repeats) };
    assert_eq!((repeats.inside, repeats.decided), (2, 3));
    assert!(repeats.sentence.ends_with("; 2 of 3 inside the formula"), "{}", repeats.sentence);
}

#[test]
fn the_answer_of_a_study_has_the_numbers_of_failovers_inside_their_formula() {
    let mut run = repeated();
    assert_eq!(view(&run).answer, None);
    let say = AnswerSentence { say: "Primaries were killed.".into(), only_if: None, agree: None, repeats: 1 };
    run.header.answers = vec![say];
    let sentence = view(&run).answer.unwrap().sentence;
    assert_eq!(sentence, "Primaries were killed. Failovers inside the published formulas: fjall 2 of 3.");
    run.trials[0].header.failover_time = None;
    run.trials.truncate(1);
    assert_eq!(view(&run).answer.unwrap().sentence, "Primaries were killed.");
}
