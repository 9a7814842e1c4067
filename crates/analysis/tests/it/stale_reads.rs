//! Stale records in answers: by fault and server, and goals on them; duplicates by fault.

use plimsoll_analysis::view;
use plimsoll_analysis::view::{FaultView, GoalState, VerdictState};
use plimsoll_record::data::{AnswerCheck, AnswerCounts, DuplicateReads, Goal, GoalKind, Run, StaleReads};

use crate::faulted::{PAUSE, at_ns, fault, killed_primary};

/// Adds the answers to an operation type with these stale records: milliseconds since the phase's start, server, records.
fn answered(run: &mut Run, phase: u32, stale: &[(u64, &str, u64)]) {
    let one = |(at_ms, server, records): &(u64, &str, u64)| StaleReads {
        at_ns: at_ns(*at_ms),
        server: (*server).to_owned(),
        records: *records,
    };
    let stale = stale.iter().map(one).collect();
    run.trials[0].answers.push(AnswerCheck { phase, stale, ..AnswerCheck::default() });
}

fn of(one: &FaultView) -> Vec<(&str, u64)> {
    one.stale.iter().map(|one| (one.server.as_str(), one.records)).collect()
}

#[test]
fn stale_records_are_told_with_the_fault_in_whose_effect_they_were_read_and_with_who_answered() {
    let mut run = killed_primary();
    answered(&mut run, 0, &[(7_900, "node 2", 100), (8_010, "node 2", 3), (9_300, "node 3", 1_000)]);
    answered(&mut run, 0, &[(9_360, "node 2", 1), (9_400, "node 2", 100)]);
    // Of another phase.
    answered(&mut run, 7, &[(8_010, "node 2", 100)]);
    let one = view(&run).faults.remove(0);
    assert_eq!(of(&one), [("node 3", 1_000), ("node 2", 4)]);
    let words = "; 8 outcomes unknown, 1,004 stale records read (1,000 from node 3, 4 from node 2)";
    assert!(one.sentence.ends_with(words), "{}", one.sentence);
    // Those of before the fault belong to it in no way.
    let after = "fjall, phase mixed: 100 stale records read after the effects of faults, the first after that of kill of \
                 node 1, the primary, at 108.00 s";
    assert_eq!(one.notes, [after]);
}

#[test]
fn stale_records_of_the_next_fault_are_its_own_and_one_server_has_no_name() {
    let mut run = killed_primary();
    fault(&mut run, PAUSE, 8_500, Some(9_300));
    answered(&mut run, 0, &[(8_490, "", 1), (8_500, "", 2)]);
    let faults = view(&run).faults;
    assert_eq!(faults.iter().map(of).collect::<Vec<_>>(), [[("", 1)], [("", 2)]]);
    assert!(faults[0].sentence.ends_with(", 1 stale record read"), "{}", faults[0].sentence);
}

#[test]
fn duplicates_in_answers_are_told_with_the_fault_in_whose_effect_they_were_read() {
    let mut run = killed_primary();
    fault(&mut run, PAUSE, 8_500, Some(9_300));
    fault(&mut run, PAUSE, 15_000, Some(15_000));
    run.trials[0].faults[2].detail.is_skipped = true;
    let read = |at_ms, records| DuplicateReads { at_ns: at_ns(at_ms), records };
    // Some are from before the faults, and a skipped repeat has no effect.
    let duplicates = vec![read(7_900, 100), read(8_010, 3), read(8_490, 1), read(8_500, 2), read(15_000, 100)];
    run.trials[0].answers.push(AnswerCheck { duplicates, ..AnswerCheck::default() });
    let of_another_phase = AnswerCheck { phase: 7, duplicates: vec![read(8_010, 100)], ..AnswerCheck::default() };
    run.trials[0].answers.push(of_another_phase);
    let faults = view(&run).faults;
    assert_eq!(faults.iter().map(|one| one.duplicates).collect::<Vec<_>>(), [4, 2, 0]);
    assert!(faults[0].sentence.ends_with(", 4 duplicate records read"), "{}", faults[0].sentence);
}

/// Adds a thousand checked answers with so many stale records and others that are wrong.
fn checked(run: &mut Run, stale_records: u64, others: u64) {
    let wrong = stale_records + others;
    let counts = AnswerCounts { answers: 1_000, expected: 1_000, got: 1_000, missing: 0, wrong, stale_records };
    run.trials[0].answers.push(AnswerCheck { op: "read".into(), counts, ..AnswerCheck::default() });
}

fn limited(run: &mut Run, goals: &[(&str, f64)]) {
    let goal = |(what, limit): &(&str, f64)| Goal {
        what: GoalKind::named(what).unwrap(),
        of: None,
        limit: *limit,
        unit: String::new(),
    };
    run.header.goals = goals.iter().map(goal).collect();
}

#[test]
fn a_goal_on_stale_records_allows_as_many_as_it_says_and_no_other_wrong_records() {
    let mut run = killed_primary();
    checked(&mut run, 3, 0);
    let (state, sentence) = (view(&run).verdict.state, view(&run).verdict.sentence);
    assert_eq!(state, VerdictState::Fail, "without a goal none is allowed");
    assert!(sentence.starts_with("fjall gave answers with 3 wrong records"), "{sentence}");

    limited(&mut run, &[("stale", 2.0)]);
    let missed = view(&run);
    let goal = &missed.goals[0];
    assert_eq!((goal.state, goal.got, goal.n), (GoalState::Missed, Some(3.0), 1_000));
    let wanted = "stale records in answers was 3 in fjall, wanted ≤ 2.";
    assert_eq!((missed.verdict.state, missed.verdict.sentence.as_str()), (VerdictState::Fail, wanted));

    limited(&mut run, &[("stale", 3.0), ("wrong", 0.0)]);
    let held = view(&run);
    assert_eq!(held.goals.iter().map(|goal| goal.state).collect::<Vec<_>>(), [GoalState::Held; 2]);
    let sentence = &held.verdict.sentence;
    assert_eq!(held.verdict.state, VerdictState::Pass, "{sentence}");
    assert!(sentence.contains("All 1,000 checked answers were right but for 3 stale records"), "{sentence}");
    assert_eq!(held.summary[0].wrong, Some(0), "a goal judges them");

    checked(&mut run, 0, 1);
    let wrong = view(&run);
    assert_eq!(wrong.goals.iter().map(|goal| goal.got).collect::<Vec<_>>(), [Some(3.0), Some(1.0)]);
    let sentence = "fjall gave answers with 1 wrong record, through 1 fault (kill of node 1, the primary).";
    assert_eq!(wrong.verdict.sentence, sentence);
}

#[test]
fn a_goal_on_stale_records_is_not_measured_by_answers_that_were_not_checked() {
    let mut run = killed_primary();
    limited(&mut run, &[("stale", 2.0)]);
    let judged = |run: &Run| {
        let goal = view(run).goals.remove(0);
        (goal.state, goal.trials[0].got_text.clone())
    };
    assert_eq!(judged(&run), (GoalState::NotMeasured, "nothing was checked".to_owned()));
    let unheard = AnswerCheck { op: "scan".into(), ..AnswerCheck::default() };
    run.trials[0].answers.push(unheard);
    checked(&mut run, 2, 0);
    let why = "no answer to `scan` in phase mixed could be checked".to_owned();
    assert_eq!(judged(&run), (GoalState::NotMeasured, why));
    // More than are allowed are too many, however many others there are.
    checked(&mut run, 1, 0);
    assert_eq!(judged(&run), (GoalState::Missed, "3".to_owned()));
}

#[test]
fn stale_records_of_a_trial_that_sets_out_to_break_promises_are_a_result() {
    let mut run = killed_primary();
    let mut breaking = run.trials[0].clone();
    (breaking.header.ordinal, breaking.header.breaks) = (1, true);
    checked(&mut run, 1, 0);
    run.trials.insert(0, breaking);
    checked(&mut run, 5, 0);
    limited(&mut run, &[("stale", 1.0)]);
    let view = view(&run);
    assert_eq!(view.goals[0].trials.iter().map(|one| one.got).collect::<Vec<_>>(), [Some(1.0)]);
    assert_eq!(view.verdict.state, VerdictState::Pass, "{}", view.verdict.sentence);
    assert!(view.verdict.sentence.contains("gave answers with 5 wrong records"), "{}", view.verdict.sentence);
}
