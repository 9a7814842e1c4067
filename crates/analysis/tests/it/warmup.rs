//! A warm-up that the plan leaves to be found: what is left out, and what is said where nothing was.

use plimsoll_analysis::view::{PhaseView, RunView};
use plimsoll_analysis::{LOAD_STEP, view};
use plimsoll_core::Measure;
use plimsoll_record::data::{Goal, GoalKind, Purpose, Run};

use crate::driven::{START_S, driven};
use crate::faulted::{KILL, fault, ticked};

/// `before` for `ramp` seconds, rising evenly, then 1,000 for `rest`.
fn ramp(ramp: u64, rest: usize) -> Vec<u64> {
    (0..ramp).map(|second| 100 + 900 * second / ramp).chain(std::iter::repeat_n(1_000, rest)).collect()
}

fn found(rates: &[u64]) -> Run {
    let mut run = driven(rates);
    run.trials[0].phases[0].header.finds_warmup = true;
    run
}

fn phase(view: &RunView) -> &PhaseView {
    &view.trials[0].phases[0]
}

#[test]
fn a_ramp_counts_for_nothing() {
    let run = found(&ramp(10, 40));
    let view = view(&run);
    let phase = phase(&view);
    let ops = phase.ops.as_ref().unwrap();
    assert_eq!((ops.seconds, ops.count, ops.rate_per_s), (40.0, 40_000, 1_000.0));
    assert_eq!(phase.latencies[0].count, 40_000, "its response times are left out too");
    assert_eq!(phase.settled_after_s, Some(10.0));
    let with: f64 = ramp(10, 40).iter().sum::<u64>() as f64 / 50.0;
    assert_eq!(phase.rate_with_warmup_per_s, Some(with));
    assert_eq!(view.plots.bands[0].warmup_end_s, Some((START_S + 10) as f64));
    assert!(view.stalls.is_empty(), "{:?}", view.stalls);
    assert!(view.warnings.is_empty(), "{:?}", view.warnings);
}

#[test]
fn a_goal_is_held_against_what_counts() {
    let mut run = found(&ramp(10, 40));
    run.header.goals = vec![Goal { what: GoalKind::Rate, of: None, limit: 1_000.0, unit: "1/s".into() }];
    assert_eq!(view(&run).goals[0].got, Some(1_000.0));
    // The same phase, all of which counts.
    run.trials[0].phases[0].header.finds_warmup = false;
    assert!(view(&run).goals[0].got.unwrap() < 950.0);
}

#[test]
fn a_warm_up_that_the_plan_does_not_want_found_counts_and_is_warned_of() {
    let view = view(&driven(&ramp(10, 40)));
    assert_eq!(phase(&view).ops.as_ref().unwrap().seconds, 50.0);
    assert_eq!((phase(&view).rate_with_warmup_per_s, view.plots.bands[0].warmup_end_s), (None, None));
    assert!(view.warnings.iter().any(|warning| warning.text.contains("throughput settled after 10")), "{view:?}");
}

#[test]
fn a_warning_about_a_load_step_names_it_by_its_number() {
    // Earlier recordings have another label.
    for label in [LOAD_STEP, "rung"] {
        let mut run = driven(&ramp(10, 40));
        run.trials[0].header.labels.insert(label.to_owned(), "3".to_owned());
        run.trials[0].phases[0].header.rung = Some(Purpose::Climb);
        let warnings = view(&run).warnings;
        let is_it =
            |text: &str| text.starts_with("fjall, load step 3: ") && text.contains("throughput settled after 10");
        assert!(warnings.iter().any(|warning| is_it(&warning.text)), "{warnings:?}");
    }
}

#[test]
fn an_even_phase_has_no_warm_up() {
    let view = view(&found(&[1_000; 40]));
    let phase = phase(&view);
    assert_eq!(phase.ops.as_ref().unwrap().seconds, 40.0);
    assert_eq!(phase.rate_with_warmup_per_s, None, "nothing was left out");
    assert_eq!((phase.settled_after_s, view.plots.bands[0].warmup_end_s), (None, None));
}

#[test]
fn what_never_settles_and_what_is_too_short_counts_whole() {
    let growing: Vec<u64> = (1..=40).map(|second| 10 * second * second).collect();
    for rates in [growing.as_slice(), &[100, 1_000, 1_000, 1_000, 1_000]] {
        let view = view(&found(rates));
        assert_eq!(phase(&view).ops.as_ref().unwrap().seconds, rates.len() as f64);
        assert_eq!(phase(&view).rate_with_warmup_per_s, None);
    }
}

#[test]
fn an_open_loop_has_the_rate_it_was_given() {
    let mut run = found(&ramp(10, 40));
    let mixed = &mut run.trials[0].phases[0];
    mixed.header.rate_per_s = Some(1_000.0);
    for slice in &mut mixed.slices {
        slice.histograms.iter_mut().for_each(|one| one.measure = Measure::Response);
    }
    let view = view(&run);
    assert_eq!(phase(&view).ops.as_ref().unwrap().seconds, 50.0);
}

#[test]
fn a_warm_up_of_the_plan_before_it_stays_left_out() {
    let mut run = found(&ramp(10, 40));
    // Slices that the plan takes for warm-up, of which the ramp is the second half.
    let mixed = &mut run.trials[0].phases[0];
    mixed.slices[..5].iter_mut().for_each(|slice| slice.warmup = true);
    let view = view(&run);
    assert_eq!(phase(&view).ops.as_ref().unwrap().seconds, 40.0);
}

#[test]
fn throughput_that_a_fault_lowered_is_no_end_of_a_warm_up() {
    let rates: Vec<u64> = std::iter::repeat_n(2_000, 10).chain(std::iter::repeat_n(1_000, 30)).collect();
    let mut run = found(&rates);
    assert_eq!(phase(&view(&run)).settled_after_s, Some(10.0));
    fault(&mut run, KILL, 10_000, Some(12_000));
    let seen = view(&run);
    assert_eq!((phase(&seen).ops.as_ref().unwrap().seconds, phase(&seen).settled_after_s), (40.0, None));
    run.trials[0].phases[0].header.finds_warmup = false;
    let seen = view(&run);
    assert!(!seen.warnings.iter().any(|warning| warning.text.contains("settled")), "{:?}", seen.warnings);
}

#[test]
fn throughput_that_came_back_after_a_fault_and_fell_later_is_warned_of() {
    let killed = |later: u32| {
        let mut run = ticked(20, |tick| match tick {
            800..937 => (0, 0),
            1_300.. => (later, 0),
            _ => (10, 0),
        });
        fault(&mut run, KILL, 8_000, Some(9_300));
        view(&run)
    };
    let fell = killed(5);
    assert_eq!(fell.faults[0].recovered_s.map(|after_s| (after_s * 100.0).round()), Some(137.0));
    let words = "fjall, phase mixed: throughput was 1,000/s before the first fault, and 650/s after the effects of all";
    assert!(fell.warnings.iter().any(|warning| warning.text.starts_with(words)), "{:?}", fell.warnings);
    assert!(!killed(9).warnings.iter().any(|warning| warning.text.contains("first fault")));
}
