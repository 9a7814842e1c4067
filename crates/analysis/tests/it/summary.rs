//! Tests of a run's summary line.

use plimsoll_analysis::view;
use plimsoll_analysis::view::{GoalState, SummaryView};
use plimsoll_core::Durability;
use plimsoll_core::sampler::ANSWERS;
use plimsoll_record::data::{AnswerCheck, AnswerCounts, PhaseKind, ResultName, Run};

use crate::driven::driven;
use crate::faulted::{KILL, fault, open_loop, ticked};
use crate::study::{goal, times};
use crate::{recorded, study};

fn told(run: &Run) -> Vec<(String, String)> {
    view(run).summary.into_iter().map(|one| (one.place, one.text)).collect()
}

fn names(summary: &SummaryView) -> Vec<&str> {
    summary.parts.iter().map(|part| part.name.as_str()).collect()
}

#[test]
fn one_driven_phase_is_a_line_without_a_place() {
    let run = driven(&[2_000; 6]);
    let [(place, text)] = &told(&run)[..] else { panic!("one line") };
    assert_eq!(place, "");
    // Each operation took as long: three equal numbers beside one another look like a mistake.
    assert_eq!(text, "2,000 ops/s · p50 = p95 = p99 1.00 ms · 0 errors");
    let view = view(&run);
    assert_eq!(names(&view.summary[0]), ["ops/s", "p50 = p95 = p99", "errors"], "no ledger looked: nothing of losses");
    assert_eq!(
        (view.summary[0].errors, view.summary[0].error_percent, view.summary[0].lost),
        (Some(0), Some(0.0), None)
    );
}

#[test]
fn requests_that_were_sent_again_stand_beside_no_errors() {
    let mut run = driven(&[2_000; 6]);
    run.trials[0].phases[0].end.push(ResultName::AskedAgain, 15.0);
    let again = view(&run).summary.remove(0);
    assert!(again.text.ends_with(" · 0 errors · 15 requests sent again"), "{}", again.text);
    assert_eq!(again.asked_again, 15);
}

#[test]
fn retries_of_clients_and_operations_that_a_breaker_rejected_stand_beside_the_errors() {
    let mut run = driven(&[2_000; 6]);
    let end = &mut run.trials[0].phases[0].end;
    end.push(ResultName::Retries, 12.0);
    end.push(ResultName::BreakerRejected, 1.0);
    let one = view(&run).summary.remove(0);
    assert!(one.text.ends_with(" · 0 errors · 12 client retries · 1 rejected by a circuit breaker"), "{}", one.text);
    assert_eq!((one.retries, one.breaker_rejected), (12, 1));
}

#[test]
fn what_was_lost_wrong_or_failed_stands_in_the_line_of_its_trial() {
    let complete = told(&study::complete());
    assert_eq!(complete.len(), 3);
    assert!(complete.iter().all(|(place, text)| place.contains(" · index=") && text.ends_with("nothing lost")));
    let broken = view(&study::broken());
    let bad: Vec<Vec<&str>> = broken
        .summary
        .iter()
        .map(|one| one.parts.iter().filter(|part| part.bad).map(|part| part.text.as_str()).collect())
        .collect();
    let of_ledger = vec!["7 wrong records", "312 writes lost"];
    assert_eq!(bad, [vec!["4 wrong or missing records"], vec!["250 errors (0.170 %)"], of_ledger]);
    // Answers lacked records that had been acknowledged: found again in the end, they had been lost to readers.
    assert!(!broken.summary[0].text.contains("nothing lost"), "{}", broken.summary[0].text);
    assert!(broken.summary[1].text.contains("nothing lost"), "{}", broken.summary[1].text);
    let mut run = study::complete();
    for trial in &mut run.trials {
        trial.ledgers.iter_mut().for_each(|ledger| ledger.complete = false);
    }
    assert!(told(&run).iter().all(|(_, text)| !text.contains("lost")), "a ledger with a gap vouches for nothing");
}

#[test]
fn the_goals_of_a_driven_phase_stand_beside_its_numbers_and_of_several_those_that_were_missed() {
    let mut run = driven(&[2_000; 6]);
    run.header.goals = vec![goal("p99", 5e6, "ns"), goal("rate", 3_000.0, "1/s"), goal("errors", 1.0, "%")];
    let one = &view(&run).summary[0];
    let goals = "missed goal rate ≥ 3,000/s · held goal p99 ≤ 5.00 ms and errors ≤ 1.00 %";
    assert!(one.text.ends_with(&format!(" · 0 errors · {goals}")), "{}", one.text);
    let bad: Vec<&str> = one.parts.iter().filter(|part| part.bad).map(|part| part.name.as_str()).collect();
    assert_eq!(bad, ["missed goal"]);
    run.header.goals.remove(1);
    let held = &view(&run).summary[0].text;
    assert!(held.ends_with(" · 0 errors · goal p99 ≤ 5.00 ms and errors ≤ 1.00 %"), "{held}");

    let mut several = study::complete();
    several.header.goals.push(goal("rate", 20_000.0, "1/s"));
    let lines = view(&several).summary;
    let missed: Vec<bool> = lines.iter().map(|one| one.rate_per_s.unwrap() < 20_000.0).collect();
    assert!(missed.contains(&true) && missed.contains(&false), "{missed:?}");
    for (one, is_missed) in lines.iter().zip(missed) {
        assert_eq!(one.text.ends_with(" · missed goal rate ≥ 20,000/s"), is_missed, "{}", one.text);
        assert_eq!(one.text.contains("goal"), is_missed, "{}", one.text);
    }
}

#[test]
fn a_value_that_rounds_to_the_limit_of_its_goal_is_told_from_it() {
    let mut run = driven(&[2_000; 6]);
    let p99 = view(&run).summary[0].percentiles[2].clone();
    run.header.goals = vec![goal("p99", p99.ns.unwrap() as f64 * 0.9998, "ns")];
    let found = view(&run);
    let [one] = &found.goals[..] else { panic!("{:?}", found.goals) };
    assert_eq!((p99.name.as_str(), one.state), ("p99", GoalState::Missed));
    assert_ne!(format!("≤ {}", one.got_text), one.wanted);
    let text = &found.summary[0].text;
    assert!(text.contains(&format!("p99 {} · ", one.got_text)), "{text}");
    assert!(text.ends_with(&format!(" · missed goal p99 {}", one.wanted)), "{text}");
}

#[test]
fn errors_name_the_operations_that_were_never_sent() {
    let mut run = driven(&[2_000; 6]);
    open_loop(&mut run);
    let slices = &mut run.trials[0].phases[0].slices;
    slices[5].unfinished = Some(times([(1_000_000, 56)]));
    let one = &view(&run).summary[0];
    assert_eq!((one.errors, one.never_sent), (Some(56), 56));
    assert!(one.text.contains(" · 56 errors (0.464 %; 56 never sent)"), "{}", one.text);
}

#[test]
fn a_sweep_of_many_points_is_the_best_of_each_store() {
    let swept = told(&recorded::swept(&[100, 200, 400, 1_000]));
    let [(place, text)] = &swept[..] else { panic!("one store: {swept:?}") };
    assert!(place.ends_with("the most of 28 points") && text.contains(" ops/s · p50 "), "{place}: {text}");
}

#[test]
fn points_of_another_phase_durability_or_mix_are_not_compared() {
    let mut run = recorded::swept(&[100, 200]);
    for trial in &mut run.trials {
        let is_unsafe = trial.header.labels["ops"] == "100";
        let mut reads = trial.phases[0].clone();
        (reads.header.name, reads.header.ordinal, reads.header.durability) = ("reads".into(), 1, None);
        trial.phases[0].header.durability = Some(if is_unsafe { Durability::Buffered } else { Durability::Durable });
        trial.phases.push(reads);
    }
    let ends = |run: &Run| -> Vec<String> {
        let places = told(run).into_iter().map(|(place, _)| place);
        places.map(|place| place.rsplit_once("mixed").map_or(place.clone(), |(_, end)| end.to_owned())).collect()
    };
    let [buffered, reads, durable] = &ends(&run)[..] else { panic!("three lines: {:?}", told(&run)) };
    assert_eq!((buffered.as_str(), durable.as_str()), (", the most of 7 points", ", the most of 7 points"));
    assert!(reads.ends_with(", reads, the most of 14 points"), "{reads}");
    for trial in &mut run.trials {
        let mix = if trial.header.labels["clients"] == "64" { "read=1" } else { "update=1" };
        trial.header.labels.insert("mix".to_owned(), mix.to_owned());
    }
    assert_eq!(told(&run).len(), 6);
}

#[test]
fn points_on_a_device_that_ignores_flushes_or_is_faster_are_not_compared_with_others() {
    let swept = recorded::swept(&[100, 200]);
    for (name, [fast, slow]) in [("disk_speed", ["ssd", "hdd"]), ("disk_flushes", ["ignored", "honoured"])] {
        let mut run = swept.clone();
        for trial in &mut run.trials {
            let value = if trial.header.labels["ops"] == "100" { fast } else { slow };
            trial.header.labels.insert(name.to_owned(), value.to_owned());
        }
        let lines = told(&run);
        assert_eq!(lines.len(), 2, "{lines:?}");
        for ((place, _), value) in lines.iter().zip([fast, slow]) {
            let is_of = place.contains(&format!("{name}={value}"));
            assert!(is_of && place.ends_with(", mixed, the most of 7 points"), "{place}");
        }
    }
    let mut run = swept;
    for trial in &mut run.trials {
        trial.header.breaks = trial.header.labels["ops"] == "100";
    }
    assert_eq!(told(&run).len(), 2, "a trial that sets out to break promises is no match for one that keeps them");
}

#[test]
fn of_too_many_lines_the_best_is_still_one_of_like_points() {
    let mut run = recorded::swept(&[100, 200]);
    for trial in &mut run.trials {
        let is_ignored = trial.header.labels["ops"] == "100";
        trial.header.breaks = is_ignored;
        let flushes = if is_ignored { "ignored" } else { "honoured" };
        trial.header.labels.insert("disk_flushes".to_owned(), flushes.to_owned());
    }
    let mut phases = run.clone();
    for trial in &mut phases.trials {
        for ordinal in 1..4_u32 {
            let mut phase = trial.phases[0].clone();
            (phase.header.name, phase.header.ordinal) = (format!("again-{ordinal}"), ordinal);
            trial.phases.push(phase);
        }
    }
    let lines = told(&phases);
    assert_eq!(lines.len(), 2, "four phases of two sorts of devices: {lines:?}");
    for ((place, _), flushes) in lines.iter().zip(["ignored", "honoured"]) {
        assert!(place.contains(flushes) && place.ends_with(", the most of 7 points"), "{place}");
    }
    // Twelve sorts of points, of which the fastest ignore flushes.
    for trial in &mut run.trials {
        let mix = match trial.header.labels["clients"].as_str() {
            "32" | "64" => "update=1".to_owned(),
            clients => format!("read={clients}"),
        };
        trial.header.labels.insert("mix".to_owned(), mix);
    }
    let lines = told(&run);
    let [(place, _)] = &lines[..] else { panic!("one line for the store: {lines:?}") };
    assert!(place.contains("disk_flushes=honoured") && place.ends_with(", mixed, the most of 2 points"), "{place}");
}

#[test]
fn of_phases_with_faults_and_without_the_line_is_of_one_without() {
    let mut run = ticked(20, |_| (10, 0));
    let faster = ticked(20, |tick| (20, u32::from(tick == 850))).trials.remove(0).phases.remove(0);
    for ordinal in 1..8_u32 {
        let mut phase = faster.clone();
        (phase.header.ordinal, phase.header.name) = (ordinal, format!("fault-{ordinal}"));
        run.trials[0].phases.push(phase);
        fault(&mut run, KILL, 8_000, Some(9_000));
        run.trials[0].faults.last_mut().unwrap().phase = ordinal;
    }
    let place = |run: &Run| told(run).remove(0).0;
    assert_eq!(place(&run), "fjall, mixed");
    let text = told(&run).remove(0).1;
    assert!(text.contains(" · 7 errors (") && text.contains(" %) in all phases"), "{text}");
    run.trials[0].faults[6].phase = 6;
    run.trials[0].phases.push(faster);
    run.trials[0].phases[8].header.ordinal = 8;
    run.trials[0].phases[8].header.name = "calm".to_owned();
    run.trials[0].phases.remove(7);
    assert_eq!(place(&run), "fjall, calm, the most of 2 phases without faults");
    run.trials[0].faults.clear();
    let place = place(&run);
    assert!(place.ends_with(", the most of 8 phases"), "{place}");
    assert!(!told(&run)[0].1.contains("in all phases"), "{place}");
}

#[test]
fn wrong_answers_of_a_trial_are_said_to_be_of_all_its_phases_if_each_has_a_line() {
    let mut run = ticked(20, |_| (10, 0));
    let counts = AnswerCounts { answers: 10, wrong: 3, ..AnswerCounts::default() };
    run.trials[0].answers = vec![AnswerCheck { counts, ..AnswerCheck::default() }];
    let alone = told(&run).remove(0).1;
    assert!(alone.contains(" · 3 wrong records") && !alone.contains("in all phases"), "{alone}");
    let mut phase = run.trials[0].phases[0].clone();
    (phase.header.name, phase.header.ordinal) = ("again".to_owned(), 1);
    run.trials[0].phases.push(phase);
    let each = told(&run);
    assert_eq!(each.len(), 2);
    assert!(each.iter().all(|(_, text)| text.contains(" · 3 wrong records in all phases")), "{each:?}");
}

#[test]
fn wrong_answers_of_a_trial_count_once_if_several_of_its_phases_are_compared() {
    let mut run = recorded::swept(&[100, 200]);
    for trial in &mut run.trials {
        for ordinal in 1..8_u32 {
            let mut phase = trial.phases[0].clone();
            (phase.header.name, phase.header.ordinal) = (format!("again-{ordinal}"), ordinal);
            trial.phases.push(phase);
        }
        let counts = AnswerCounts { answers: 10, wrong: 3, ..AnswerCounts::default() };
        trial.answers = vec![AnswerCheck { counts, ..AnswerCheck::default() }];
    }
    let summary = view(&run).summary;
    let [one] = &summary[..] else { panic!("one line for the store: {}", summary.len()) };
    assert_eq!(one.wrong, Some(3 * run.trials.len() as u64));
}

#[test]
fn a_search_is_its_line_with_the_times_of_the_highest_rate_that_held() {
    let view = view(&recorded::searched());
    let [one] = &view.summary[..] else { panic!("one line") };
    assert_eq!(names(one), ["ops/s", "p50", "p95", "p99", "goal"]);
    assert_eq!(one.rate_per_s, view.lines[0].result.rate_per_s);
    let times: Vec<u64> = one.percentiles.iter().map(|one| one.ns.unwrap()).collect();
    assert!(times.is_sorted() && times[2] <= 20_000_000, "the goal held there: {times:?}");
}

#[test]
fn times_of_answers_by_node_do_not_explain_a_line() {
    let mut run = recorded::searched();
    let explained = |run: &Run| !view(run).lines[0].result.causes.is_empty();
    assert!(explained(&run));
    for series in &mut run.series {
        series.source = ANSWERS.to_owned();
        series.subject = "node 1".to_owned();
    }
    assert!(!explained(&run));
}

#[test]
fn where_nothing_is_driven_it_is_what_was_asked_or_loaded() {
    let mut run = study::complete();
    for trial in &mut run.trials {
        trial.phases.retain(|phase| phase.header.kind != PhaseKind::Drive);
    }
    let asked = told(&run);
    assert!(asked.iter().all(|(_, text)| text.contains(" median ")), "{asked:?}");
    for trial in &mut run.trials {
        trial.phases.retain(|phase| phase.header.kind == PhaseKind::Load);
    }
    let loaded = told(&run);
    assert!(loaded.iter().all(|(_, text)| text.starts_with("loaded 100,000 records · in ")), "{loaded:?}");
}
