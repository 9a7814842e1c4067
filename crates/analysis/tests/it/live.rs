//! Tests that the figures of a run in progress are those of its report.

use plimsoll_analysis::fold::Fold;
use plimsoll_analysis::live::Live;
use plimsoll_analysis::view;
use plimsoll_core::{Outcome, Slice};
use plimsoll_record::data::{FaultKind, FaultSpan, Goal, GoalKind, PhaseKind, PhaseState, ResultName, Run, Sample};

use crate::driven::{driven, sampled};
use crate::faulted::killed_primary;
use crate::recorded;
use crate::study::{SECOND_NS, served, times};

/// Tells of the run's first trial up to the phase at `last`.
fn told(run: &Run, last: usize, kept: usize) -> Live {
    let (mut fold, mut live) = (Fold::new(false), Live::new(kept));
    live.begin_run(&run.header);
    let trial = &run.trials[0];
    fold.begin_trial(trial.header.clone());
    live.begin_trial(&trial.header);
    (0..).zip(&run.series).for_each(|(position, series)| live.series(position, series));
    run.samples.iter().for_each(|sample| live.sample(sample));
    for phase in &trial.phases[..=last] {
        fold.begin_phase(phase.header.clone());
        live.begin_phase(&phase.header, None);
        for slice in &phase.slices {
            let (all, types) = fold.slice(slice.clone(), true).unwrap();
            live.slice(&all, true);
            types.iter().for_each(|row| live.slice(row, true));
        }
        fold.end_phase(phase.end.clone());
        live.end_phase(&phase.end);
    }
    live
}

fn goal(what: &str, of: Option<&str>, limit: f64, unit: &str) -> Goal {
    Goal { what: GoalKind::named(what).unwrap(), of: of.map(str::to_owned), limit, unit: unit.into() }
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= other.abs() * 1e-9
}

#[test]
fn the_sums_of_a_phase_are_those_of_its_report() {
    let mut refused = recorded::transactions();
    let slice = refused.trials[0].phases[0].slices.last_mut().unwrap();
    slice.drain = true;
    slice.histograms[0].outcome = Outcome::Unknown;
    slice.histograms[5].outcome = Outcome::Rejected;
    for run in [driven(&[1_000; 20]), recorded::transactions(), refused] {
        let reported = view(&run);
        for (at, phase) in reported.trials[0].phases.iter().enumerate() {
            let (Some(ops), PhaseKind::Drive) = (&phase.ops, phase.kind) else { continue };
            let live = told(&run, at, 3);
            let shown = live.phase().unwrap();
            let done = &shown.done;
            let counts = (done.count, done.rejected, done.unknown, done.unfinished);
            assert_eq!(counts, (ops.count, ops.rejected, ops.unknown, ops.unfinished));
            assert!(is_near(done.seconds, ops.seconds) && is_near(done.rate_per_s().unwrap(), ops.rate_per_s));
            assert!(is_near(done.error_percent().unwrap(), ops.error_percent));
            assert_eq!(done.times.percentiles(), phase.latencies[0].percentiles);
            assert_eq!(shown.types.values().map(|of_type| of_type.done.count).sum::<u64>(), done.count);
            assert_eq!(shown.ended, Some(PhaseState::Complete));
            let newest: Vec<u32> = shown.newest.iter().map(|row| row.slice).collect();
            let slices = &run.trials[0].phases[at].slices;
            assert_eq!(newest, slices[slices.len() - 3..].iter().map(|slice| slice.ordinal).collect::<Vec<_>>());
        }
    }
}

#[test]
fn goals_are_judged_while_the_phase_is_in_progress_as_the_report_will() {
    let mut run = recorded::transactions();
    run.header.goals = vec![
        goal("p99", Some("transfer"), 2e6, "ns"),
        goal("mean", None, 8e5, "ns"),
        goal("rate", Some("look"), 399.0, "1/s"),
        goal("errors", None, 0.0, "%"),
        goal("errors", Some("update"), 10.0, "%"),
        goal("lost", None, 0.0, ""),
        goal("stale", None, 0.0, ""),
    ];
    let reported = view(&run).goals;
    let live = told(&run, 0, 1);
    let goals = &live.phase().unwrap().goals;
    for (shown, judged) in goals.iter().zip(&reported).take(4) {
        assert!(is_near(shown.seen.unwrap(), judged.got.unwrap()), "{shown:?}, {judged:?}");
    }
    let holds: Vec<_> = goals.iter().map(|goal| goal.holds).collect();
    let later = "the report judges steps and ledgers";
    assert_eq!(holds, [Some(true), Some(false), Some(true), Some(true), None, None, None], "{later}");
    let margins: Vec<_> = goals.iter().map(|goal| goal.margin()).collect();
    assert!((margins[0].unwrap() - 0.5).abs() < 0.01 && margins[1].unwrap() < 0.0, "{margins:?}");
    assert!(is_near(margins[2].unwrap(), 1.0 / 399.0), "{margins:?}");
    assert_eq!(margins[3..], [None, None, None, None]);
    assert_eq!(
        goals.iter().map(|goal| goal.at_end).collect::<Vec<_>>(),
        [false, false, false, false, true, true, true]
    );
}

#[test]
fn an_outage_has_its_value_while_it_goes_on_and_at_its_end_that_of_the_report() {
    let mut run = killed_primary();
    run.header.goals = vec![goal("outage", None, 5e8, "ns"), goal("recovery", None, 5e8, "ns")];
    let live = told(&run, 0, 1);
    let [outage, recovery] = &live.phase().unwrap().goals[..] else { panic!("two goals") };
    assert!(is_near(outage.seen.unwrap(), 1.37e9) && is_near(view(&run).goals[0].got.unwrap(), 1.37e9), "{outage:?}");
    assert_eq!((recovery.seen, recovery.at_end, outage.at_end, outage.open), (None, true, false, false));
    // It began at 8 s.
    run.trials[0].phases[0].slices.truncate(9);
    let live = told(&run, 0, 1);
    let outage = &live.phase().unwrap().goals[0];
    assert_eq!((outage.seen, outage.open, outage.holds), (Some(1e9), true, Some(false)));
}

/// Begins the first phase of a run.
fn begun(run: &Run) -> (Fold, Live) {
    let (trial, phase) = (&run.trials[0], &run.trials[0].phases[0]);
    let (mut fold, mut live) = (Fold::new(false), Live::new(1));
    live.begin_run(&run.header);
    fold.begin_trial(trial.header.clone());
    live.begin_trial(&trial.header);
    fold.begin_phase(phase.header.clone());
    live.begin_phase(&phase.header, None);
    (fold, live)
}

#[test]
fn a_silence_has_its_length_until_an_answer_ends_it() {
    let mut run = driven(&[1_000, 1_000, 0, 0, 1_000]);
    run.header.goals = vec![goal("outage", None, 15e8, "ns")];
    let phase = &run.trials[0].phases[0];
    let (mut fold, mut live) = begun(&run);
    let mut after = |slice: usize| {
        live.slice(&fold.slice(phase.slices[slice].clone(), true).unwrap().0, true);
        let phase = live.phase().unwrap();
        (phase.silence_s(), phase.goals[0].open, phase.goals[0].seen)
    };
    let seen: Vec<_> = (0..5).map(&mut after).collect();
    let none = (None, false, Some(0.0));
    let wanted = [none, none, (Some(1.0), true, Some(1e9)), (Some(2.0), true, Some(2e9)), (None, false, Some(2e9))];
    assert_eq!(seen, wanted);
}

#[test]
fn silence_is_an_outage_unless_clients_rest() {
    let mut run = driven(&[1_000, 1_000, 0, 0, 1_000]);
    run.header.goals = vec![goal("outage", None, 15e8, "ns")];
    let live = told(&run, 0, 1);
    assert_eq!(live.phase().unwrap().goals[0].seen, Some(2e9));
    assert!(is_near(view(&run).goals[0].got.unwrap(), 2e9));
    let phase = &run.trials[0].phases[0];
    let (mut fold, mut live) = begun(&run);
    live.rests();
    phase.slices.iter().for_each(|slice| live.slice(&fold.slice(slice.clone(), true).unwrap().0, true));
    assert_eq!(live.phase().unwrap().goals[0].seen, Some(0.0));
}

#[test]
fn what_the_wish_for_an_end_left_unanswered_is_no_failure_and_no_goal_is_judged_then() {
    let mut run = recorded::transactions();
    let phase = &mut run.trials[0].phases[0];
    phase.end.state = PhaseState::Interrupted;
    phase.slices.last_mut().unwrap().histograms[0].outcome = Outcome::Unknown;
    phase.end.push(ResultName::Stopped, 700.0);
    let reported = view(&run).trials[0].phases[0].ops.clone().unwrap();
    let live = told(&run, 0, 1);
    let shown = live.phase().unwrap();
    assert_eq!((shown.done.unknown, shown.done.failed), (900, 200));
    assert!(is_near(shown.done.error_percent().unwrap(), reported.error_percent));
    assert!(!shown.goals.is_empty() && shown.goals.iter().all(|goal| goal.seen.is_none() && goal.holds.is_none()));
}

#[test]
fn the_first_slice_takes_the_place_of_its_first_part() {
    let run = driven(&[1_000; 2]);
    let (trial, phase) = (&run.trials[0], &run.trials[0].phases[0]);
    let (mut fold, mut live) = (Fold::new(false), Live::new(10));
    fold.begin_trial(trial.header.clone());
    live.begin_trial(&trial.header);
    fold.begin_phase(phase.header.clone());
    live.begin_phase(&phase.header, None);
    let whole = &phase.slices[0];
    let part = Slice { preview: true, end_ns: whole.start_ns + 500_000_000, ..whole.clone() };
    let (row, types) = fold.preview(&part).unwrap();
    live.slice(&row, false);
    types.iter().for_each(|of_type| live.slice(of_type, false));
    let shown = live.phase().unwrap();
    assert_eq!((shown.done.count, shown.newest.len(), shown.newest[0].rate_per_s), (0, 1, Some(2_000.0)));
    assert!(shown.newest[0].percentile_ns("p99").is_some());
    let (row, types) = fold.slice(whole.clone(), true).unwrap();
    live.slice(&row, true);
    types.iter().for_each(|of_type| live.slice(of_type, true));
    let shown = live.phase().unwrap();
    assert_eq!((shown.done.count, shown.newest.len(), shown.newest[0].rate_per_s), (1_000, 1, Some(1_000.0)));
    assert!(shown.types.values().all(|of_type| of_type.newest.len() == 1));
}

#[test]
fn what_is_not_measured_and_a_warm_up_are_shown_and_in_no_sum() {
    let mut run = driven(&[1_000; 4]);
    run.trials[0].phases[0].slices[0].warmup = true;
    sampled(&mut run, "cpu", "", "user", "%", &[20.0, 30.0, 40.0, 50.0]);
    run.samples.push(Sample { at_ns: 1, values: vec![(0, f64::NAN), (9, 1.0)], ..Sample::default() });
    let mut live = told(&run, 0, 10);
    assert_eq!((live.phase().unwrap().done.count, live.phase().unwrap().newest.len()), (3_000, 4));
    let row = live.phase().unwrap().newest[3].clone();
    live.slice(&row, false);
    assert_eq!((live.phase().unwrap().done.count, live.phase().unwrap().newest.len()), (3_000, 5));
    let values: Vec<_> = live.values().map(|(series, value)| (series.name.as_str(), value)).collect();
    assert_eq!(values, [("user", 50.0)]);
    live.begin_trial(&run.trials[0].header);
    assert_eq!(live.values().count(), 0, "a store of the trial before has no newest value");
}

/// Tells of a driven run as it happens: each slice, and then the sample that was read at its end.
fn watched(run: &Run, fault: Option<&FaultSpan>) -> Live {
    let (mut fold, mut live) = (Fold::new(false), Live::default());
    let (trial, phase) = (&run.trials[0], &run.trials[0].phases[0]);
    live.begin_run(&run.header);
    fold.begin_trial(trial.header.clone());
    live.begin_trial(&trial.header);
    (0..).zip(&run.series).for_each(|(position, series)| live.series(position, series));
    fold.begin_phase(phase.header.clone());
    live.begin_phase(&phase.header, None);
    fault.into_iter().for_each(|span| live.fault(span));
    for slice in &phase.slices {
        live.slice(&fold.slice(slice.clone(), true).unwrap().0, true);
        run.samples.iter().filter(|sample| sample.at_ns == slice.end_ns).for_each(|sample| live.sample(sample));
    }
    live
}

/// Returns a driven run of 30 s with times of 1 ms, in two of whose slices they were 40 ms while the machine waited for
/// disks and less memory was available.
fn slow_twice() -> Run {
    let mut run = driven(&[2_000; 30]);
    let slices = &mut run.trials[0].phases[0].slices;
    slices[20..22].iter_mut().for_each(|slice| slice.histograms = vec![served(1, times([(40_000_000, 2_000)]))]);
    let mut iowait: Vec<f64> = (0..30).map(|second| 2.0 + f64::from(second % 2)).collect();
    let mut free = vec![8e9; 30];
    iowait[20..22].copy_from_slice(&[41.0, 38.0]);
    free[20..22].copy_from_slice(&[1e9, 1e9]);
    sampled(&mut run, "cpu", "", "iowait", "%", &iowait);
    sampled(&mut run, "memory", "", "available", "B", &free);
    run
}

#[test]
fn a_slow_moment_is_one_with_the_series_that_rose_at_the_same_time() {
    let live = watched(&slow_twice(), None);
    let phase = live.phase().unwrap();
    let moments: Vec<_> = phase.moments().collect();
    let [moment] = moments[..] else { panic!("{moments:?}") };
    assert_eq!((moment.start_s, moment.end_s), (120.0, 122.0));
    assert_eq!(moment.text(), "p99 40.0 ms, usually 1.00 ms");
    // A fall, of the memory that is available, explains nothing.
    assert_eq!(phase.meanwhile(moment), ["cpu iowait 41.0 %, usually 2.50 %"]);
}

#[test]
fn a_slow_moment_in_the_effect_of_a_fault_names_the_fault_alone() {
    let fault = FaultSpan::begun(FaultKind::Pause, "pause primary at 20s", "node 1, the primary", 120 * SECOND_NS);
    let meanwhile = |fault: &FaultSpan| {
        let live = watched(&slow_twice(), Some(fault));
        let phase = live.phase().unwrap();
        phase.meanwhile(phase.moments().next().unwrap())
    };
    assert_eq!(meanwhile(&fault), ["pause primary, node 1, the primary"]);
    let words = "run \"ssh db1 at once\" heal \"true\" at 20s";
    let command = FaultSpan::begun(FaultKind::Command, words, "\"ssh db1 …\"", 120 * SECOND_NS);
    assert_eq!(meanwhile(&command), ["run \"ssh db1 …\""], "its beginning alone");
    let long_ago = FaultSpan { begun_ns: 105 * SECOND_NS, healed_ns: Some(106 * SECOND_NS), ..fault };
    assert!(meanwhile(&long_ago)[0].starts_with("cpu iowait"));
}

#[test]
fn silence_is_a_slow_moment_and_neither_first_slices_nor_a_warm_up_have_any() {
    let mut rates = [2_000; 40];
    rates[3] = 0;
    rates[30..33].fill(0);
    let mut run = driven(&rates);
    let found = |run: &Run| {
        let live = watched(run, None);
        let moments = live.phase().unwrap().moments();
        moments.map(|moment| (moment.start_s, moment.end_s, moment.text())).collect::<Vec<_>>()
    };
    assert_eq!(found(&run), [(130.0, 133.0, "throughput 0/s, usually 2,000/s".to_owned())]);
    run.trials[0].phases[0].slices.iter_mut().for_each(|slice| slice.warmup = true);
    assert!(found(&run).is_empty(), "a warm-up");
    // Rates that vary by more than half of the usual one.
    let mut rates: Vec<u64> = (0..40).map(|second| if second % 2 == 0 { 500 } else { 3_500 }).collect();
    rates[30..33].fill(0);
    let varying = found(&driven(&rates));
    assert!(matches!(&varying[..], [(from, until, _)] if (*from, *until) == (130.0, 133.0)), "{varying:?}");
}

#[test]
fn the_slow_moments_that_are_kept_are_few_and_the_newest() {
    let rates: Vec<u64> = (0..400).map(|second| if second % 20 == 19 { 0 } else { 2_000 }).collect();
    let live = watched(&driven(&rates), None);
    let starts: Vec<f64> = live.phase().unwrap().moments().map(|moment| moment.start_s).collect();
    assert_eq!(starts, (0..8).map(|at| 100.0 + f64::from(259 + at * 20)).collect::<Vec<f64>>());
}
