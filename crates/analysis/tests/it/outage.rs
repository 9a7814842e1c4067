//! Times without any answer, in the first line.

use plimsoll_analysis::view;
use plimsoll_analysis::view::{GoalState, OutageView, RunView, VerdictState};
use plimsoll_core::Measure;
use plimsoll_core::pace::Stage;
use plimsoll_record::data::{Goal, GoalKind, PhaseResult, ResultName, Run};

use crate::driven::{START_S, driven};
use crate::stall::act;
use crate::study::{served, times};

/// Twenty seconds with 1,000 answers each, and none from second 7 to 10.
fn silent() -> Run {
    let rates: Vec<u64> = (0..20).map(|second| if (7..10).contains(&second) { 0 } else { 1_000 }).collect();
    driven(&rates)
}

fn outage(view: &RunView) -> Option<OutageView> {
    view.trials[0].phases[0].outage.clone()
}

#[test]
fn a_time_without_answers_is_in_the_first_line_and_no_promise_is_kept_over_it() {
    let mut run = silent();
    // One of the operations that ended in the first second with answers had waited since shortly before.
    run.trials[0].phases[0].slices[10].histograms = vec![served(1, times([(1_000_000, 900), (3_400_000_000, 4)]))];
    let view = view(&run);
    let found = outage(&view).unwrap();
    assert!((found.seconds - 3.4).abs() < 0.05, "{found:?}");
    assert!((found.at_s - (START_S as f64 + 6.8)).abs() < 0.05, "{found:?}");
    assert!(view.summary[0].text.contains("no answer for 3.4"), "{}", view.summary[0].text);
    assert_eq!(view.verdict.state, VerdictState::Measured);
    assert!(view.verdict.sentence.contains("gave no answer in phase mixed for 3.4"), "{}", view.verdict.sentence);
    assert!(!view.verdict.sentence.contains("kept every promise"), "{}", view.verdict.sentence);
}

#[test]
fn commands_in_an_outage_and_up_to_a_second_before_it_are_in_the_first_line() {
    let mut run = silent();
    act(&mut run, "lab kill a 2", 5_900, 5_900);
    act(&mut run, "lab start a 2", 10_100, 10_100);
    let before = view(&run);
    assert!(before.summary[0].text.contains("no answer for 3.00 s at 107 s · "), "{}", before.summary[0].text);
    act(&mut run, "lab pause a 1", 6_050, 6_060);
    act(&mut run, "lab resume a 1", 9_990, 9_990);
    let found = view(&run);
    let words = "3.00 s at 107 s, around then: lab pause a 1 at 106.05 s and lab resume a 1 at 109.99 s";
    let text = &found.summary[0].text;
    assert!(text.contains(&format!("no answer for {words} · ")), "{text}");
    assert!(found.verdict.sentence.contains(&format!("phase mixed for {words}")), "{}", found.verdict.sentence);
    act(&mut run, "lab pause a 3", 8_000, 8_000);
    let text = &view(&run).summary[0].text;
    assert!(text.contains("lab pause a 3 at 108.00 s and 1 further action · "), "{text}");
    run.events.iter_mut().for_each(|event| event.trial = Some(1));
    assert_eq!(outage(&view(&run)).unwrap().with, [""; 0], "of another trial");
}

#[test]
fn a_silence_lasts_as_long_as_its_slices_tell_and_up_to_the_end() {
    // Answers of a millisecond tell nothing: the empty slices do.
    assert_eq!(outage(&view(&silent())).unwrap().seconds, 3.0);
    let rates: Vec<u64> = (0..20).map(|second| if second < 15 { 1_000 } else { 0 }).collect();
    let to_the_end = outage(&view(&driven(&rates))).unwrap();
    assert_eq!((to_the_end.at_s, to_the_end.seconds), (START_S as f64 + 15.0, 5.0));
}

#[test]
fn an_outage_that_had_not_ended_was_longer_in_the_first_line_the_verdict_and_its_goal() {
    let rates: Vec<u64> = (0..20).map(|second| if second < 15 { 1_000 } else { 0 }).collect();
    let mut run = driven(&rates);
    let found = view(&run);
    assert!(outage(&found).unwrap().open && !outage(&view(&silent())).unwrap().open);
    let words = "for more than 5.00 s at 115 s";
    let line = &found.summary[0];
    assert!(line.text.contains(&format!("no answer {words} · ")), "{}", line.text);
    let part = line.parts.iter().find(|part| part.name == "no answer").unwrap();
    assert_eq!((part.value.as_str(), part.at.as_str()), ("> 5.00 s", "at 115 s"));
    let sentence = &found.verdict.sentence;
    assert!(sentence.contains(&format!("gave no answer in phase mixed {words}")), "{sentence}");
    let missed = allowed(&mut run, 4.0);
    assert_eq!((missed.goals[0].state, missed.goals[0].got_text.as_str()), (GoalState::Missed, "> 5.00 s"));
    let sentence = &missed.verdict.sentence;
    assert!(sentence.contains("longest time without any answer was > 5.00 s in"), "{sentence}");
}

/// Fifteen seconds with 1,000 answers each, of which `silent` more had none, and a drain of nine: `in_flight` operations
/// end in its last slice after `waited_s`, with `outcome`.
fn silent_to_the_end(silent: u64, in_flight: u64, waited_s: u64, outcome: plimsoll_core::Outcome) -> Run {
    let rates: Vec<u64> = (0..24 + silent).map(|second| if second < 15 { 1_000 } else { 0 }).collect();
    let mut run = driven(&rates);
    let slices = &mut run.trials[0].phases[0].slices;
    for slice in &mut slices[14..] {
        slice.in_flight = in_flight;
    }
    slices[(15 + silent) as usize..].iter_mut().for_each(|slice| slice.drain = true);
    let last = slices.last_mut().unwrap();
    last.in_flight = 0;
    last.histograms = vec![served(1, times([(waited_s * 1_000_000_000 + 300_000_000, in_flight)]))];
    last.histograms[0].outcome = outcome;
    run
}

#[test]
fn an_outage_goes_on_after_the_planned_end_while_operations_wait() {
    for outcome in [plimsoll_core::Outcome::Ok, plimsoll_core::Outcome::Unknown] {
        for (silent, waited_s) in [(1, 9), (0, 8)] {
            let mut run = silent_to_the_end(silent, 8, waited_s, outcome);
            let found = outage(&view(&run)).unwrap();
            assert!((found.seconds - (waited_s as f64 + 0.3)).abs() < 0.05, "{found:?}");
            assert_eq!(allowed(&mut run, 5.0).goals[0].state, GoalState::Missed, "{silent} {outcome:?}");
        }
    }
}

#[test]
fn operations_that_are_late_themselves_are_no_outage() {
    // All others were answered after the planned end.
    let mut run = silent_to_the_end(0, 1, 8, plimsoll_core::Outcome::Ok);
    run.trials[0].phases[0].slices[15].histograms = vec![served(1, times([(1_000_000, 7)]))];
    assert_eq!((outage(&view(&run)), allowed(&mut run, 5.0).goals[0].got), (None, Some(0.0)));
    // No other one waited at the planned end: clients were thinking.
    let mut run = silent_to_the_end(0, 1, 8, plimsoll_core::Outcome::Ok);
    let think = PhaseResult { name: ResultName::ThinkSeconds, subject: String::new(), value: 5.0, n: 8 };
    run.trials[0].phases[0].end.results.push(think);
    assert_eq!((outage(&view(&run)), allowed(&mut run, 5.0).goals[0].got), (None, Some(0.0)));
    // The normal end: nothing is in flight.
    let mut run = silent_to_the_end(0, 0, 0, plimsoll_core::Outcome::Ok);
    assert_eq!((outage(&view(&run)), allowed(&mut run, 5.0).goals[0].got), (None, Some(0.0)));
}

#[test]
fn clients_that_think_and_answers_that_come_now_and_then_are_no_outage() {
    let mut thinking = silent();
    let think = PhaseResult { name: ResultName::ThinkSeconds, subject: String::new(), value: 5.0, n: 8 };
    thinking.trials[0].phases[0].end.results.push(think);
    assert_eq!(outage(&view(&thinking)), None);
    // Those that have sent an operation wait.
    for slice in &mut thinking.trials[0].phases[0].slices {
        slice.in_flight = 8;
    }
    assert_eq!(outage(&view(&thinking)).unwrap().seconds, 3.0);
    let seldom: Vec<u64> = (0..20).map(|second| u64::from(second % 4 == 0)).collect();
    assert_eq!(outage(&view(&driven(&seldom))), None);
    assert_eq!(outage(&view(&driven(&[1_000; 20]))), None);
}

#[test]
fn fewer_clients_do_less_which_is_neither_an_outage_nor_a_stall() {
    let mut run = silent();
    assert_eq!((outage(&view(&run)).is_some(), view(&run).stalls.len()), (true, 1));
    let stages =
        [(10.0, 7), (0.0, 3), (10.0, 10)].map(|(clients, seconds)| Stage::held(clients, seconds * 1_000_000_000));
    run.trials[0].phases[0].header.stages = stages.to_vec();
    assert_eq!((outage(&view(&run)), view(&run).stalls.len()), (None, 0));
}

#[test]
fn failed_operations_are_no_answers() {
    let mut run = silent();
    let failed = |of: &mut plimsoll_core::Slice<plimsoll_record::Distribution>| {
        let mut histogram = served(1, times([(1_000_000, 50)]));
        histogram.outcome = plimsoll_core::Outcome::Rejected;
        histogram.measure = Measure::Service;
        of.histograms = vec![histogram];
    };
    run.trials[0].phases[0].slices[7..10].iter_mut().for_each(failed);
    assert_eq!(outage(&view(&run)).unwrap().seconds, 3.0);
}

/// Judges a goal that allows silences of `limit_s`.
fn allowed(run: &mut Run, limit_s: f64) -> RunView {
    let what = GoalKind::Outage;
    run.header.goals = vec![Goal { what, of: None, limit: limit_s * 1e9, unit: "ns".into() }];
    view(run)
}

#[test]
fn a_goal_limits_the_longest_time_without_an_answer_of_every_trial() {
    let mut run = silent();
    let mut other = driven(&(0..20).map(|second| u64::from(second < 15) * 3).collect::<Vec<_>>()).trials.remove(0);
    other.header.ordinal = 1;
    run.trials.push(other);
    let is_bad = |view: &RunView| view.summary[0].parts.iter().any(|part| part.name == "no answer" && part.bad);
    let missed = allowed(&mut run, 4.0);
    assert!(is_bad(&missed), "{:?}", missed.summary);
    assert_eq!((missed.goals[0].state, missed.goals[0].got), (GoalState::Missed, Some(5e9)), "also with few answers");
    let each: Vec<_> = missed.goals[0].trials.iter().map(|trial| (trial.state, trial.got_text.as_str())).collect();
    assert_eq!(each, [(GoalState::Held, "3.00 s"), (GoalState::Missed, "5.00 s")]);
    assert_eq!(missed.verdict.state, VerdictState::Fail);
    let words = "longest time without any answer was 5.00 s in";
    assert!(missed.verdict.sentence.contains(words), "{}", missed.verdict.sentence);
    assert!(missed.verdict.sentence.contains("wanted ≤ 4.00 s"), "{}", missed.verdict.sentence);

    let held = allowed(&mut run, 5.0);
    assert_eq!(held.verdict.state, VerdictState::Pass);
    assert!(!is_bad(&held), "{:?}", held.summary);
    assert!(held.summary[0].text.contains("no answer for 3.00 s"), "{}", held.summary[0].text);
    assert!(held.verdict.sentence.contains("1 goal held"), "{}", held.verdict.sentence);
    assert!(!held.verdict.sentence.contains("answered nothing"), "{}", held.verdict.sentence);
    let none = allowed(&mut driven(&[1_000; 20]), 2.0);
    assert_eq!((none.goals[0].state, none.goals[0].got), (GoalState::Held, Some(0.0)));
}

#[test]
fn an_outage_of_a_late_generator_does_not_decide_a_goal() {
    let mut run = silent();
    run.trials[0].phases[0].end.late = Some("the generator was 3.0 s late".into());
    assert_eq!(allowed(&mut run, 2.0).goals[0].state, GoalState::Undecided);
}
