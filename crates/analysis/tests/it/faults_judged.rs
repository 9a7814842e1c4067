//! Verdicts and goals of runs with faults.

use plimsoll_analysis::line::{LineFold, LineSpec, Purpose};
use plimsoll_analysis::view;
use plimsoll_analysis::view::{FaultView, GoalState, RunView, RungState, VerdictState};
use plimsoll_core::Outcome;
use plimsoll_record::data::{EventClass, FaultKind, Goal, GoalKind, LedgerCheck, PhaseResult, ResultName, Run};

use crate::faulted::{KILL, PAUSE, at_ns, fault, killed_primary, ticked, without_end};
use crate::faults::{near, only};
use crate::study::{SECOND_NS, event, served, times};

/// Adds `n` operations with `outcome` to a slice.
fn failing(run: &mut Run, slice: usize, n: u64, outcome: Outcome) {
    let mut failed = served(1, times([(1_000_000, n)]));
    failed.outcome = outcome;
    run.trials[0].phases[0].slices[slice].histograms.push(failed);
}

fn judged(run: &Run) -> (VerdictState, String) {
    let RunView { verdict, .. } = view(run);
    (verdict.state, verdict.sentence)
}

#[test]
fn operations_that_fail_while_a_fault_is_in_effect_do_not_fail_the_run_and_all_others_do() {
    let mut run = killed_primary();
    failing(&mut run, 9, 600, Outcome::Rejected);
    assert_eq!(judged(&run).0, VerdictState::Measured);
    assert_eq!(view(&run).faults[0].rejected, 600);
    failing(&mut run, 15, 600, Outcome::Rejected);
    let (state, sentence) = judged(&run);
    assert_eq!(state, VerdictState::Fail);
    let words = "600 of 19,838 operations failed in phase mixed of fjall while no fault was in effect, 3.02 %";
    assert!(sentence.starts_with(words), "{sentence}");
    // Goals count all of them.
    let mut run = killed_primary();
    failing(&mut run, 9, 600, Outcome::Rejected);
    run.header.goals = vec![Goal { what: GoalKind::Errors, of: None, limit: 1.0, unit: "%".into() }];
    assert_eq!(judged(&run).0, VerdictState::Fail);
}

#[test]
fn a_server_that_does_not_come_back_after_its_fault_is_not_said_to_be_gone() {
    let mut run = without_end();
    let connects = PhaseResult { name: ResultName::FailedConnects, subject: String::new(), value: 7.0, n: 1 };
    run.trials[0].phases[0].end.results.push(connects);
    assert_eq!(judged(&run).0, VerdictState::Measured);
    run.trials[0].faults.clear();
    let (state, sentence) = judged(&run);
    assert!(state == VerdictState::Fail && sentence.contains("opened again (7 attempts failed)"), "{sentence}");
}

#[test]
fn a_goal_on_outages_is_judged_by_ticks_and_also_during_faults() {
    let mut run = killed_primary();
    for (limit_s, state) in [(1.3, GoalState::Missed), (1.4, GoalState::Held)] {
        let limit = limit_s * 1e9;
        run.header.goals = vec![Goal { what: GoalKind::Outage, of: None, limit, unit: "ns".into() }];
        let goal = &view(&run).goals[0];
        assert_eq!((goal.state, goal.got_text.as_str()), (state, "1.37 s"));
    }
}

#[test]
fn a_goal_above_an_outage_that_did_not_end_is_not_measured() {
    let mut run = without_end();
    for (limit_s, state) in [(11.0, GoalState::Missed), (13.0, GoalState::NotMeasured)] {
        run.header.goals = vec![Goal { what: GoalKind::Outage, of: None, limit: limit_s * 1e9, unit: "ns".into() }];
        assert_eq!(view(&run).goals[0].state, state);
    }
    for (what, words) in [(GoalKind::Outage, "> 12.0 s"), (GoalKind::Recovery, "> 11.0 s")] {
        let mut run = run.clone();
        run.header.goals = vec![Goal { what, of: None, limit: 5e9, unit: "ns".into() }];
        let goal = &view(&run).goals[0];
        assert_eq!((goal.state, goal.got_text.as_str()), (GoalState::Missed, words));
    }
    let (state, sentence) = judged(&run);
    assert_eq!(state, VerdictState::Incomplete);
    assert!(sentence.contains("had no answer for 12.0 s when observation ended"), "{sentence}");
    // An answer in the drain ends it.
    run.trials[0].phases[0].slices[19].ticks[99].answered = 1;
    assert_eq!(view(&run).goals[0].state, GoalState::Held);
    // Without ticks.
    let mut run = without_end();
    run.trials[0].phases[0].slices.iter_mut().for_each(|slice| slice.ticks.clear());
    run.header.goals = vec![Goal { what: GoalKind::Outage, of: None, limit: 13e9, unit: "ns".into() }];
    assert_eq!(view(&run).goals[0].state, GoalState::NotMeasured);
}

#[test]
fn a_goal_on_faults_is_undecided_if_the_load_ended_before_their_effects_could_be_seen() {
    let kinds = [(GoalKind::Outage, 5e8), (GoalKind::Outage, 0.0), (GoalKind::Recovery, 5e9)];
    for (at_ms, is_seen) in [(19_999, [false; 3]), (19_700, [false, true, false]), (18_000, [true; 3])] {
        for ((what, limit), is_seen) in kinds.into_iter().zip(is_seen) {
            let mut run = ticked(21, |_| (10, 0));
            run.trials[0].phases[0].slices[20].drain = true;
            fault(&mut run, KILL, at_ms, Some(20_700));
            run.header.goals = vec![Goal { what, of: None, limit, unit: "ns".into() }];
            let found = view(&run);
            let wanted = if is_seen { GoalState::Held } else { GoalState::Undecided };
            assert_eq!(found.goals[0].state, wanted, "{at_ms} {what:?}");
            if !is_seen {
                assert_eq!(found.verdict.state, VerdictState::Undecided, "{}", found.verdict.sentence);
                let words = "the effect of kill of node 1, the primary was not observed: ";
                assert!(found.verdict.sentence.contains(words), "{}", found.verdict.sentence);
            }
        }
    }
    // One repeat that was observed is enough, and a fault that failed has an error of its own.
    let mut run = ticked(20, |_| (10, 0));
    run.header.goals = vec![Goal { what: GoalKind::Outage, of: None, limit: 5e8, unit: "ns".into() }];
    [5_000, 19_990].into_iter().for_each(|at_ms| fault(&mut run, KILL, at_ms, Some(at_ms + 5)));
    assert_eq!(view(&run).goals[0].state, GoalState::Held);
    let late = &view(&run).faults[1];
    let words = "its effect was not observed: the load ended then";
    assert!(late.outage_s.is_none() && late.sentence.contains(words), "{}", late.sentence);
}

#[test]
fn errors_of_a_fault_may_go_on_for_some_seconds_after_it() {
    let mut run = killed_primary();
    failing(&mut run, 12, 600, Outcome::Rejected);
    let mut code = event(at_ns(8_100), Some(0), EventClass::ErrorCode, "600 × rejected CLUSTERDOWN");
    code.subject = "CLUSTERDOWN".into();
    run.events.push(code);
    assert_eq!(judged(&run).0, VerdictState::Measured);
    // A code that the fault did not have.
    run.events.last_mut().unwrap().from_ns = at_ns(12_000);
    assert_eq!(judged(&run).0, VerdictState::Fail);
}

#[test]
fn errors_behind_a_breaker_are_named_before_it() {
    let mut run = ticked(20, |_| (10, 0));
    failing(&mut run, 9, 900, Outcome::Rejected);
    for (subject, value) in [("breaker", 786.0), ("TIMEOUT", 40.0)] {
        let result = PhaseResult { name: ResultName::ErrorCode, subject: subject.into(), value, n: 1 };
        run.trials[0].phases[0].end.results.push(result);
        let mut code = event(at_ns(9_100), Some(0), EventClass::ErrorCode, &format!("{value} × rejected {subject}"));
        code.subject = subject.into();
        run.events.push(code);
    }
    let (state, sentence) = judged(&run);
    assert!(state == VerdictState::Fail && sentence.contains("40 × rejected TIMEOUT"), "{sentence}");
}

#[test]
fn disks_with_faults_are_told_by_words_and_excuse_the_phases_until_they_are_mended() {
    let disk = (FaultKind::Disk, "disk", "disk eio write once at 3s");
    let mut run = ticked(20, |_| (10, 0));
    let mut later = run.trials[0].phases[0].clone();
    later.header.ordinal = 1;
    later.header.name = "later".into();
    later.header.start_ns += 30 * SECOND_NS;
    later.end.end_ns += 30 * SECOND_NS;
    for slice in &mut later.slices {
        (slice.start_ns, slice.end_ns) = (slice.start_ns + 30 * SECOND_NS, slice.end_ns + 30 * SECOND_NS);
    }
    let mut failed = served(1, times([(1_000_000, 9_000)]));
    failed.outcome = Outcome::Rejected;
    later.slices[3].histograms.push(failed);
    run.trials[0].phases.push(later);
    // Before the fault and all through its phase.
    failing(&mut run, 0, 9_000, Outcome::Rejected);
    assert_eq!(judged(&run).0, VerdictState::Fail);
    fault(&mut run, disk, 3_000, None);
    assert_eq!(judged(&run).0, VerdictState::Measured);
    let found = view(&run);
    assert_eq!(found.disk_faults[0].faults, ["eio write once"]);
    assert_eq!(found.faults[0].name, "disk eio write once");
    run.trials[0].faults[0].healed_ns = Some(at_ns(21_000));
    let (state, sentence) = judged(&run);
    assert!(state == VerdictState::Fail && sentence.contains("in phase later"), "{sentence}");
    fault(&mut run, (FaultKind::Disk, "disk", "disk full at 4s for 17s"), 4_000, Some(21_000));
    assert_eq!(view(&run).disk_faults[0].faults, ["eio write once", "full", "mended"]);
    let of_node = (FaultKind::Disk, "node 2, the primary", "disk primary delay write 900 0 1 at 5s for 1s");
    fault(&mut run, of_node, 5_000, Some(6_000));
    // Recordings with disks of single nodes have the disk's fault apart from its words.
    run.trials[0].faults[2].detail.disk = Some("delay write 900 0 1".to_owned());
    let (found, words) = (view(&run), "delay write 900 0 1 of node 2, the primary");
    assert!(found.disk_faults[0].faults.iter().any(|one| one == words), "{:?}", found.disk_faults);
    assert_eq!(found.faults[2].name, format!("disk {words}"));
}

#[test]
fn attempts_to_connect_are_no_errors_of_operations_after_a_disk_fault() {
    let mut run = ticked(20, |_| (10, 0));
    fault(&mut run, (FaultKind::Disk, "disk", "disk eio write once at 3s"), 3_000, None);
    let mut coded = |code: &str, value: f64| {
        let result = PhaseResult { name: ResultName::ErrorCode, subject: code.into(), value, n: 1 };
        run.trials[0].phases[0].end.results.push(result);
        let one = view(&run).disk_faults.remove(0);
        (one.errors, one.noticed_by())
    };
    // A server that takes no connections has noticed the fault.
    assert_eq!(coded("connect", 13.0), (0, "store".to_owned()));
    assert_eq!(coded("58030", 1.0), (1, "store".to_owned()));
    assert_eq!(coded("connection", 3.0), (4, "store".to_owned()));
}

#[test]
fn a_disk_fault_without_a_complete_check_after_it_has_no_known_losses() {
    let mut run = ticked(20, |_| (10, 0));
    fault(&mut run, (FaultKind::Disk, "disk", "disk torn write at 3s"), 3_000, None);
    let mut found = |phase: u32, complete: bool, lost: u64| {
        run.trials[0].ledgers.push(LedgerCheck { phase, complete, lost, ..LedgerCheck::default() });
        let one = view(&run).disk_faults.remove(0);
        (one.lost, one.damaged, one.noticed_by())
    };
    let not_known = (None, None, "none; losses could not be looked for".to_owned());
    // The phase of the first check ended before the fault: it is none of those after it.
    assert_eq!(found(7, true, 0), not_known);
    assert_eq!(found(0, false, 0), not_known);
    assert_eq!(found(0, true, 0), (Some(0), Some(0), "nothing to notice".to_owned()));
    assert_eq!(found(0, false, 0), not_known, "the last check counts");
    assert_eq!(found(0, false, 2), (Some(2), None, "only the ledger".to_owned()));
}

#[test]
fn a_load_step_is_judged_without_its_faults_and_by_what_they_cost() {
    let goal =
        |what: &str, limit: f64| Goal { what: GoalKind::named(what).unwrap(), of: None, limit, unit: "ns".to_owned() };
    let judged = |run: &Run, outage_ns: f64, recovery_ns: f64| {
        let goals = vec![goal("p90", 5e6), goal("outage", outage_ns), goal("recovery", recovery_ns)];
        let spec = LineSpec { goals, faults: vec!["kill primary".to_owned()], ..LineSpec::default() };
        let mut run = run.clone();
        let trial = &mut run.trials[0];
        let header = &mut trial.phases[0].header;
        (header.rung, header.rate_per_s) = (Some(Purpose::Decide), Some(1_000.0));
        let mut fold = LineFold::new(&spec, &trial.header.store_label);
        fold.take(trial, &[], &[]);
        fold.rungs()[0].clone()
    };
    let run = killed_primary();
    let step = judged(&run, 2e9, 3e9);
    assert_eq!((step.state, step.goals.len()), (RungState::Held, 3), "{step:?}");
    near(step.goals[1].value.map(|ns| ns / 1e9), 1.37);
    near(step.goals[2].value.map(|ns| ns / 1e9), 1.37);
    assert_eq!(judged(&run, 1e9, 3e9).state, RungState::Failed, "it was longer");
    assert_eq!(judged(&run, 2e9, 1e9).state, RungState::Failed, "it came back later");
    // Throughput stays at a half afterwards.
    let mut half = run.clone();
    for slice in half.trials[0].phases[0].slices.iter_mut().skip(10) {
        slice.ticks.iter_mut().for_each(|tick| tick.answered /= 2);
    }
    let step = judged(&half, 2e9, 60e9);
    assert_eq!(step.state, RungState::Failed, "{step:?}");
    // A load step whose faults did not take place shows nothing about them.
    let mut without = run;
    without.trials[0].faults.clear();
    assert_eq!(judged(&without, 2e9, 3e9).state, RungState::NotMeasured);
}

#[test]
fn a_load_step_of_several_faults_was_noticed_when_that_with_the_longest_outage_was() {
    let mut run = ticked(20, |tick| if (900..1_000).contains(&tick) { (0, 0) } else { (10, 0) });
    fault(&mut run, KILL, 8_000, None);
    // The promotion begins in the silence of the kill.
    fault(&mut run, (FaultKind::Promote, "node 2", "promote node 2 at 49%"), 9_800, Some(9_990));
    let spec = LineSpec { faults: vec!["kill primary".into(), "promote node 2".into()], ..LineSpec::default() };
    let trial = &mut run.trials[0];
    let header = &mut trial.phases[0].header;
    (header.rung, header.rate_per_s) = (Some(Purpose::Decide), Some(1_000.0));
    let mut fold = LineFold::new(&spec, &trial.header.store_label);
    fold.take(trial, &[], &[]);
    let step = &fold.search().steps()[0];
    assert_eq!(step.outages_s.len(), 2);
    near(step.noticed_s, 1.0);
}

#[test]
fn a_goal_that_slices_missed_after_a_fault_is_told_with_the_time_from_which_on_it_held_again() {
    let slow = |from: usize, to: usize, of: Option<&str>| slow_again(from, to, 20, of);
    let one = slow(8, 12, None);
    let [goal] = one.missed.as_slice() else { panic!("{one:?}") };
    assert_eq!((goal.goal.as_str(), goal.held_s, goal.observed_s), ("p99", Some(5.0), 12.0));
    assert!(one.sentence.ends_with(": no operation failed, p99 within its goal after 5.00 s"), "{}", one.sentence);
    let one = slow(8, 20, None);
    assert_eq!(one.missed[0].held_s, None);
    assert!(one.sentence.contains("p99 not within its goal for 12.0 s"), "{}", one.sentence);
    assert!(slow(0, 12, None).missed.is_empty(), "most slices missed it before the fault");
    assert!(slow(8, 8, None).missed.is_empty() && slow(8, 12, Some("unheard")).missed.is_empty());
    // A slice that misses it much later has another cause.
    assert_eq!(slow_again(8, 12, 16, None).missed[0].held_s, Some(5.0));
    assert!(slow_again(8, 8, 16, None).missed.is_empty());
}

/// A pause from 8 to 9 s with a goal that slices from `from` to `to`, and the one at `again`, miss.
fn slow_again(from: usize, to: usize, again: usize, of: Option<&str>) -> FaultView {
    let mut run = ticked(20, |_| (10, 0));
    fault(&mut run, PAUSE, 8_000, Some(9_000));
    let what = GoalKind::named("p99").unwrap();
    run.header.goals = vec![Goal { what, of: of.map(str::to_owned), limit: 5e6, unit: "ns".into() }];
    for (at, slice) in run.trials[0].phases[0].slices.iter_mut().enumerate() {
        // One in twenty.
        if (from..to).contains(&at) || at == again {
            slice.histograms = vec![served(1, times([(1_000_000, 950), (20_000_000, 50)]))];
        }
    }
    only(&run)
}

#[test]
fn a_goal_limits_the_operations_whose_outcome_a_fault_left_unknown() {
    let judged = |limit: f64| {
        let mut run = killed_primary();
        run.header.goals =
            vec![Goal { what: GoalKind::named("unknown").unwrap(), of: None, limit, unit: String::new() }];
        view(&run).goals.remove(0)
    };
    let held = judged(8.0);
    assert_eq!((held.state, held.got, held.wanted.as_str()), (GoalState::Held, Some(8.0), "≤ 8"));
    let missed = judged(7.0);
    assert_eq!((missed.state, missed.text.as_str()), (GoalState::Missed, "operations whose outcome is unknown"));
}
