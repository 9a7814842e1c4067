//! Parts of a run beside the rest of their phases, and quantities by name.

use plimsoll_analysis::quantities::{is_named, quantities};
use plimsoll_analysis::selection::{Selection, explain};
use plimsoll_analysis::view::{DifferenceOf, DifferenceView, SelectionView};
use plimsoll_core::sampler::ANSWERS;
use plimsoll_record::data::{ResultName, Run, Sample, Series, SeriesKind};

use crate::driven::{START_S, driven, sampled};
use crate::faulted::{KILL, PAUSE, fault};
use crate::study::{SECOND_NS, paused, series_of, served, times};

const MS_NS: u64 = 1_000_000;

/// Selects seconds since the start of the phase, and operations above a time.
fn of(from_s: u64, to_s: u64, above_ms: Option<u64>) -> Selection {
    Selection {
        from_ns: Some((START_S + from_s) * SECOND_NS),
        to_ns: Some((START_S + to_s) * SECOND_NS),
        above_ns: above_ms.map(|ms| ms * MS_NS),
        ..Selection::default()
    }
}

/// Adds operations of a type to a second.
fn slow(run: &mut Run, second: usize, kind: u16, ms: u64, count: u64) {
    run.trials[0].phases[0].slices[second].histograms.push(served(kind, times([(ms * MS_NS, count)])));
}

#[track_caller]
fn difference<'v>(view: &'v SelectionView, of: DifferenceOf, name: &str) -> &'v DifferenceView {
    let found = view.differences.iter().find(|one| one.of == of && one.name == name);
    found.unwrap_or_else(|| panic!("no {name}: {:#?}", view.differences))
}

/// Values of a series of 30 seconds, of which two are others.
fn busy(usual: f64, other: f64) -> Vec<f64> {
    (0..30).map(|second| if second == 10 || second == 11 { other } else { usual }).collect()
}

#[test]
fn slow_operations_are_compared_with_the_rest_and_faults_are_named_first() {
    let mut run = driven(&[1_000; 30]);
    slow(&mut run, 10, 2, 30, 100);
    slow(&mut run, 11, 2, 40, 100);
    // Of another time.
    slow(&mut run, 20, 2, 30, 100);
    sampled(&mut run, "disk", "vda", "busy", "%", &busy(12.0, 97.0));
    sampled(&mut run, "memory", "", "free", "B", &[1e9; 30]);
    fault(&mut run, KILL, 10_200, Some(11_000));
    let view = explain(&run, &of(9, 12, Some(20))).unwrap();
    assert_eq!((view.selected, view.others), (200, 30_100));
    // The second without a slow operation is one of the others.
    assert_eq!((view.from_s, view.to_s, view.selected_seconds, view.other_seconds), (110.0, 112.0, 2.0, 28.0));
    assert_eq!(view.acts, ["kill of node 1, the primary, at 110.20 s"]);
    let begins = "200 operations above 20.0 ms from 110.00 s to 112.00 s, beside 30,100 others of fjall, phase mixed; \
                  in these seconds: kill of node 1, the primary, at 110.20 s; the largest difference is operation ";
    assert!(view.sentence.starts_with(begins), "{}", view.sentence);
    let update = run.trials[0].header.kinds[2].name.clone();
    let share = difference(&view, DifferenceOf::OperationType, &update);
    assert!(share.clear && share.inside == 100.0 && share.outside < 0.4, "{share:?}");
    let disk = difference(&view, DifferenceOf::Series, "disk vda busy");
    assert_eq!((disk.inside, disk.outside, disk.effect), (97.0, 12.0, 1.0));
    assert_eq!((disk.n_inside, disk.n_outside, disk.clear), (2, 28, false), "two seconds may be chance");
    assert_eq!(disk.text, "series disk vda busy: 97.0 % here, 12.0 % otherwise (8.08 × as much here)");
    assert!(view.differences.iter().all(|one| one.name != "memory free"), "{:#?}", view.differences);
    assert!(view.pauses.is_none(), "they were not observed");
}

#[test]
fn an_action_that_began_before_the_selected_seconds_is_told_apart() {
    let mut run = driven(&[1_000; 30]);
    fault(&mut run, KILL, 9_200, Some(9_500));
    let view = explain(&run, &of(10, 12, None)).unwrap();
    assert_eq!((&view.acts, view.acts.len()), (&view.acts_before, 1));
    let words = "; begun before these seconds: kill of node 1, the primary, at 109.20 s; ";
    assert!(view.sentence.contains(words) && !view.sentence.contains("in these seconds"), "{}", view.sentence);
    // With one of these seconds.
    fault(&mut run, PAUSE, 11_200, Some(11_900));
    let view = explain(&run, &of(10, 12, None)).unwrap();
    assert_eq!((view.acts.len(), view.acts_before.len()), (2, 1));
    let words = "; in these seconds: pause of node 2 at 111.20 s; begun before these seconds: kill of node 1";
    assert!(view.sentence.contains(words), "{}", view.sentence);
    // The second of the kill is not selected, only those with slow operations around it.
    let mut run = driven(&[1_000; 30]);
    (8..12).filter(|second| *second != 9).for_each(|second| slow(&mut run, second, 2, 30, 100));
    fault(&mut run, KILL, 9_200, Some(10_100));
    let view = explain(&run, &of(0, 30, Some(20))).unwrap();
    assert_eq!((view.from_s, view.to_s, view.acts_before.len()), (108.0, 112.0, 1));
}

#[test]
fn a_time_without_a_limit_is_compared_by_latency_load_and_series() {
    let mut rates = [1_000; 30];
    rates[10..16].fill(100);
    let mut run = driven(&rates);
    (10..16).for_each(|second| slow(&mut run, second, 1, 5, 900));
    let values: Vec<f64> = (0..30).map(|second| if (10..16).contains(&second) { 90.0 } else { 30.0 }).collect();
    sampled(&mut run, "server", "", "user", "%", &values);
    let view = explain(&run, &of(10, 16, None)).unwrap();
    let read = run.trials[0].header.kinds[1].name.clone();
    let latency = difference(&view, DifferenceOf::Latency, &read);
    assert!(latency.clear && (4.9..5.1).contains(&latency.ratio.unwrap()) && latency.unit == "ns", "{latency:?}");
    let server = difference(&view, DifferenceOf::Series, "server user");
    assert_eq!((server.ratio, server.n_inside, server.clear), (Some(3.0), 6, true));
    // As many operations as in the other seconds.
    assert!(view.differences.iter().all(|one| one.of != DifferenceOf::Load), "{:#?}", view.differences);
}

#[test]
fn the_first_sentence_names_a_lock_and_neither_equal_values_nor_next_to_nothing() {
    let mut run = driven(&[1_000; 30]);
    sampled(&mut run, "cgroup", "", "memory", "B", &busy(2_000_000_000.0, 2_010_000_000.0));
    sampled(&mut run, "server", "", "read", "B/s", &busy(0.0, 16_384.0));
    sampled(&mut run, "server", "postgres", "busy", "%", &busy(0.0, 0.04));
    let without = explain(&run, &of(10, 12, None)).unwrap();
    assert!(without.sentence.ends_with("no recorded share or series differs by much."), "{}", without.sentence);
    assert_eq!(without.differences.len(), 3, "the table has them: {:#?}", without.differences);
    sampled(&mut run, "store", "postgres", "waiting_for_locks", "", &busy(0.0, 4.0));
    let view = explain(&run, &of(10, 12, None)).unwrap();
    let words = "the largest difference, which may be chance, is series store postgres waiting for locks: 4 here, 0 \
                 otherwise.";
    assert!(view.sentence.ends_with(words), "{}", view.sentence);
    let held = "waiting for a row of my_table, held by a session that ran UPDATE my_table SET n = ?";
    sampled(&mut run, "store", "postgres", held, "", &busy(0.0, 4.0));
    let view = explain(&run, &of(10, 12, None)).unwrap();
    let words = format!("is series store postgres {held}: 4 here, 0 otherwise.");
    assert!(view.sentence.ends_with(&words), "{}", view.sentence);
}

#[test]
fn the_type_of_a_single_operation_may_be_chance() {
    let mut rates = [1_000; 30];
    rates[10] = 0;
    let mut run = driven(&rates);
    slow(&mut run, 10, 2, 30, 1);
    // Elsewhere one of twenty operations has this type.
    slow(&mut run, 20, 2, 1, 1_500);
    let view = explain(&run, &of(10, 11, None)).unwrap();
    let update = run.trials[0].header.kinds[2].name.clone();
    let share = difference(&view, DifferenceOf::OperationType, &update);
    assert!(share.inside == 100.0 && share.n_inside == 1 && !share.clear, "{share:?}");
}

#[test]
fn the_rate_of_seconds_of_which_most_had_no_operation_is_their_mean() {
    let mut rates = [1_000; 30];
    rates[10..16].fill(0);
    rates[13] = 600;
    let view = explain(&driven(&rates), &of(10, 16, None)).unwrap();
    let rate = difference(&view, DifferenceOf::Load, "operations a second");
    assert_eq!((view.selected, rate.inside, rate.outside), (600, 100.0, 1_000.0));
}

#[test]
fn what_was_watched_is_told_after_a_longer_latency() {
    let mut run = driven(&[1_000; 30]);
    (10..12).for_each(|second| slow(&mut run, second, 1, 50, 1_000));
    sampled(&mut run, "disk", "vda", "busy", "%", &busy(12.0, 97.0));
    let view = explain(&run, &of(10, 12, None)).unwrap();
    let words =
        "of all series, which may be chance, disk vda busy: 97.0 % here, 12.0 % otherwise (8.08 × as much here).";
    assert!(view.sentence.contains("the largest difference is latency"), "{}", view.sentence);
    assert!(view.sentence.ends_with(words), "{}", view.sentence);
}

#[test]
fn a_counter_that_is_published_now_and_then_is_compared_by_its_mean() {
    let mut run = driven(&[1_000; 30]);
    // Thrice in the selected ten seconds, and once in ten others.
    let commits = |second: usize| if [10, 13, 16, 2, 25].contains(&second) { 1_500.0 } else { 0.0 };
    let values: Vec<f64> = (0..30).map(commits).collect();
    sampled(&mut run, "store", "postgres", "commits", "1/s", &values);
    run.series.last_mut().unwrap().kind = SeriesKind::Total;
    let view = explain(&run, &of(10, 17, None)).unwrap();
    let commits = difference(&view, DifferenceOf::Series, "store postgres commits");
    assert!(
        (commits.inside - 4_500.0 / 7.0).abs() < 1.0 && (commits.outside - 3_000.0 / 23.0).abs() < 1.0,
        "{commits:?}"
    );
}

#[test]
fn the_server_of_slow_answers_is_told() {
    let mut run = driven(&[1_000; 20]);
    for node in 1..=2 {
        let series = series_of(ANSWERS, &format!("node {node}"), "response_time", "ns");
        run.series.push(Series { kind: SeriesKind::Distribution, ..series });
    }
    for second in 0..20 {
        let is_slow = (5..8).contains(&second);
        let ms = if is_slow { 30 } else { 1 };
        let distributions = vec![(0, times([(MS_NS, 500)])), (1, times([(ms * MS_NS, 500)]))];
        run.samples.push(Sample { at_ns: (START_S + second + 1) * SECOND_NS, distributions, ..Sample::default() });
        if is_slow {
            slow(&mut run, second as usize, 1, 30, 500);
        }
    }
    let view = explain(&run, &Selection { above_ns: Some(20 * MS_NS), ..Selection::default() }).unwrap();
    assert_eq!((view.from_s, view.to_s, view.selected), (105.0, 108.0, 1_500));
    let node = difference(&view, DifferenceOf::Server, "node 2");
    assert!(node.clear && node.inside == 100.0 && (45.0..47.0).contains(&node.outside), "{node:?}");
    assert_eq!(difference(&view, DifferenceOf::Server, "node 1").inside, 0.0);
}

#[test]
fn pauses_of_the_machine_are_told_with_the_operations_that_they_disturbed() {
    let run = paused(driven(&[2_000; 6]));
    let view = explain(&run, &Selection { above_ns: Some(20 * MS_NS), ..Selection::default() }).unwrap();
    let pauses = view.pauses.as_ref().unwrap();
    assert_eq!((view.selected, view.others, pauses.count, pauses.disturbed), (240, 12_000, 6, 240));
    let words = "the machine paused 6 times in these seconds, for 20.0 ms at most, which disturbed 100 % of the \
                 selected operations and 0 % of the others";
    assert_eq!(pauses.sentence, words);
    assert!(view.sentence.contains(words), "{}", view.sentence);
}

#[test]
fn seconds_between_slow_operations_are_not_those_that_were_selected() {
    let mut run = paused(driven(&[1_000; 30]));
    [10, 14].into_iter().for_each(|second| slow(&mut run, second, 1, 50, 100));
    for slice in [10, 14] {
        run.trials[0].phases[0].slices[slice].watched.as_mut().unwrap().pauses.clear();
    }
    let view = explain(&run, &of(0, 30, Some(40))).unwrap();
    let begins = "200 operations above 40.0 ms in 2.00 s of the time from 110.00 s to 115.00 s, beside ";
    assert!(view.sentence.starts_with(begins), "{}", view.sentence);
    // The machine paused in each second between them.
    let pauses = view.pauses.as_ref().unwrap();
    assert_eq!(pauses.sentence, "the machine never paused for 1 ms or longer in these seconds");
}

#[test]
fn a_single_other_operation_is_no_plural() {
    let view = explain(&driven(&[1, 1]), &of(0, 1, None)).unwrap();
    assert!(view.sentence.starts_with("1 operation from 100.00 s to 101.00 s, beside 1 other of fjall"), "{view:?}");
}

#[test]
fn a_time_shorter_than_a_slice_selects_the_slice() {
    let run = driven(&[1_000; 20]);
    let ns = |ms: u64| Some(START_S * SECOND_NS + ms * MS_NS);
    let view = explain(&run, &Selection { from_ns: ns(5_200), to_ns: ns(5_300), ..Selection::default() }).unwrap();
    assert_eq!((view.from_s, view.to_s, view.selected), (105.0, 106.0, 1_000));
    assert!(view.sentence.ends_with("no recorded share or series differs by much."), "{}", view.sentence);
}

#[test]
fn a_selection_that_cannot_be_compared_is_refused_with_advice() {
    let run = driven(&[1_000; 20]);
    let named = |trial, phase: Option<&str>| Selection { trial, phase: phase.map(str::to_owned), ..of(5, 7, None) };
    for (selection, what, next) in [
        (of(7, 7, None), "the time from 107 s to 107 s does not begin before it ends", "from 0 s to 120 s"),
        (of(30, 40, None), "130 s is after the end of the run, which is at 120 s", "from 0 s to 120 s"),
        (of(5, 40, None), "140 s is after the end", "from 0 s to 120 s"),
        (named(Some(3), None), "the run has no trial 3", "there are: 0"),
        (named(None, Some("load")), "there is no phase load", "fjall, phase mixed (100.00 s to 120.00 s)"),
        (of(5, 7, Some(20)), "no operation took longer than 20.0 ms", "below 1.00 ms"),
        (Selection::default(), "nothing is left to compare with", "a shorter time"),
        (of(0, 20, None), "nothing is left to compare with", "a limit of time"),
    ] {
        let refused = explain(&run, &selection).unwrap_err();
        assert!(refused.what.contains(what) && refused.next.contains(next), "{refused:?}");
    }
    let before = Selection { from_ns: Some(0), to_ns: Some(SECOND_NS), ..Selection::default() };
    let refused = explain(&run, &before).unwrap_err();
    assert!(refused.what.contains("no operation of a phase") && refused.next.contains("phase mixed"), "{refused:?}");
    // The last second may be given as a whole.
    let mut run = run;
    let end_ns = (START_S + 20) * SECOND_NS - SECOND_NS / 2;
    let trial = &mut run.trials[0];
    (trial.phases[0].slices[19].end_ns, trial.phases[0].end.end_ns) = (end_ns, end_ns);
    (run.end_ns, trial.end_ns) = (Some(end_ns), Some(end_ns));
    assert!(explain(&run, &of(15, 20, None)).is_ok());
}

#[test]
fn every_quantity_has_a_name_a_unit_and_its_observations() {
    let all = quantities(&driven(&[1_000; 20]));
    let one = |name: &str| all.iter().find(|one| is_named(one, name)).unwrap_or_else(|| panic!("no {name}: {all:#?}"));
    let rate = one("mixed.rate");
    assert_eq!((rate.value, rate.unit.as_str(), rate.n, rate.repeats), (Some(1_000.0), "1/s", 20_000, 1));
    assert_eq!((rate.trial.as_str(), rate.phase.as_str(), rate.text.as_str()), ("fjall", "mixed", "1,000/s"));
    assert_eq!((one("p99").unit.as_str(), one("p99.9").n), ("s", 20_000));
    let mut counted = driven(&[1_000; 20]);
    counted.trials[0].phases[0].end.push(ResultName::Ops, 20_000.0);
    let counted = quantities(&counted);
    for name in ["mixed.ops", "mixed.ops[op=read]"] {
        let ops = counted.iter().find(|one| is_named(one, name)).unwrap();
        assert_eq!((ops.name.as_str(), ops.value, ops.n), (name, Some(20_000.0), 20_000));
    }
    let few = quantities(&driven(&[10; 5]));
    let p99 = few.iter().find(|one| is_named(one, "mixed.p99")).unwrap();
    assert_eq!((p99.value, p99.text.as_str(), p99.n), (None, "needs 1,000 samples, has 50", 0));
    assert!(few.iter().all(|one| one.quantity != "undisturbed_p99"), "pauses were not observed");
}
