//! Tests that the fold of a run in progress agrees with its recording.

use plimsoll_analysis::fold::Fold;
use plimsoll_analysis::line::{LineFold, LineSpec, Next, Purpose, lines};
use plimsoll_analysis::slices::{SliceRow, slices};
use plimsoll_analysis::view::{Ending, RungState, RungView};
use plimsoll_core::{Measure, Outcome, SliceHistogram};
use plimsoll_record::data::{Goal, GoalKind, Run, TrialHeader};

use crate::driven::{driven, sampled};
use crate::{recorded, study};

/// Passes every rung of a search to `fold` as a trial of its own, and the ended trial to the search. Returns the rows
/// of all slices.
fn told(run: &Run, fold: &mut Fold, search: &mut LineFold) -> Vec<SliceRow> {
    let mut rows = Vec::new();
    let mut before_ns = 0;
    let [trial] = run.trials.as_slice() else { panic!("one trial") };
    (0..).zip(&run.series).for_each(|(position, series)| fold.series(position, series));
    for phase in &trial.phases {
        let (start_ns, end_ns) = (phase.header.start_ns, phase.end.end_ns);
        fold.begin_trial(TrialHeader { start_ns, ..trial.header.clone() });
        fold.begin_phase(phase.header.clone());
        rows.extend(phase.slices.iter().filter_map(|slice| Some(fold.slice(slice.clone(), true)?.0)));
        let inside = |at_ns: u64| at_ns > before_ns && at_ns <= end_ns;
        // Threads tell of what they read when they come to it.
        run.samples.iter().rev().filter(|sample| inside(sample.at_ns)).for_each(|sample| fold.sample(sample));
        fold.end_phase(phase.end.clone());
        if let Some((trial, samples, series)) = fold.trial() {
            search.take(trial, samples, series);
        }
        before_ns = end_ns;
    }
    rows
}

#[test]
fn a_search_that_is_told_slice_by_slice_comes_to_what_its_recording_says() {
    let run = recorded::searched();
    let spec = run.header.outline.line.as_ref().unwrap();
    let mut search = LineFold::new(spec, &run.trials[0].header.store_label);
    let mut fold = Fold::new(true);
    let rows = told(&run, &mut fold, &mut search);
    let [line] = &lines(&run)[..] else { panic!("one store") };
    assert_eq!(search.rungs(), line.rungs);
    assert_eq!(search.search().next(), Next::Done(Box::new(line.result.clone())));
    assert!(rows.len() > 100);
    assert!(rows.into_iter().eq(slices(&run).filter(|row| row.op == "all")), "each slice is what reports say of it");
    let (trial, samples, _) = fold.trial().unwrap();
    assert_eq!(trial.phases.len(), 1, "earlier trials are forgotten");
    assert!(samples.len() < run.samples.len(), "and what was read long before");
}

#[test]
fn what_nobody_goes_by_is_not_kept() {
    let run = recorded::searched();
    let spec = run.header.outline.line.as_ref().unwrap();
    let mut fold = Fold::new(false);
    let rows = told(&run, &mut fold, &mut LineFold::new(spec, "nobody"));
    assert!(rows.len() > 100, "but said");
    let (trial, samples, _) = fold.trial().unwrap();
    assert!(trial.phases[0].slices.is_empty() && samples.is_empty());
}

#[test]
fn the_last_sliver_of_a_phase_has_no_rate_and_a_half_slice_has() {
    let mut run = rung();
    let slices_of = |run: &mut Run, ns: u64| {
        let last = run.trials[0].phases[0].slices.last_mut().unwrap();
        last.end_ns = last.start_ns + ns;
        slices(run).filter(|row| row.op == "all").last().unwrap().rate_per_s
    };
    assert_eq!(slices_of(&mut run, 500_000_000), Some(2_000.0));
    assert_eq!(slices_of(&mut run, 83_000), None);
    assert!(slices(&run).all(|row| row.slice == 19 || row.rate_per_s.is_some()));
    let mut fold = Fold::new(false);
    let trial = &run.trials[0];
    fold.begin_trial(trial.header.clone());
    fold.begin_phase(trial.phases[0].header.clone());
    let rows = trial.phases[0].slices.iter().filter_map(|slice| fold.slice(slice.clone(), true));
    assert!(
        rows.map(|(row, _)| row.rate_per_s).eq(slices(&run).filter(|row| row.op == "all").map(|row| row.rate_per_s))
    );
}

/// Returns a rung of 20 s at 1,000/s, and in its sixth second as many operations that were refused.
fn rung() -> Run {
    let mut run = driven(&[1_000; 20]);
    run.header.outline.line = Some(LineSpec {
        goals: vec![Goal { what: GoalKind::Errors, of: None, limit: 1.0, unit: "%".into() }],
        start_rate_per_s: Some(1_000.0),
        ..LineSpec::default()
    });
    let phase = &mut run.trials[0].phases[0];
    phase.header.rung = Some(Purpose::Climb);
    phase.header.rate_per_s = Some(1_000.0);
    let mut refused = phase.slices[5].histograms[0].clone();
    refused.outcome = Outcome::Rejected;
    phase.slices[5].histograms.push(refused);
    run
}

#[test]
fn errors_in_seconds_that_others_took_count_for_no_goal_of_a_rung() {
    let mut run = rung();
    let seen = |run: &Run| {
        let rung = &lines(run)[0].rungs[0];
        (rung.state, rung.goals[0].value, rung.goals[0].n)
    };
    assert_eq!(seen(&run), (RungState::Failed, Some(100_000.0 / 21_000.0), 21_000));
    let mut stolen = [0.5; 20];
    stolen[5] = 9.0;
    sampled(&mut run, "cpu", "", "user", "%", &[20.0; 20]);
    sampled(&mut run, "cpu", "", "system", "%", &[5.0; 20]);
    sampled(&mut run, "cpu", "", "steal", "%", &stolen);
    // The second that the hypervisor took, and four of working off what had queued up.
    assert_eq!(seen(&run), (RungState::Held, Some(0.0), 15_000));
}

#[test]
fn a_report_shows_the_rungs_that_were_driven_whatever_this_version_would_ask() {
    let mut run = recorded::searched();
    let asked = lines(&run)[0].rungs.clone();
    // As if the fourth had been asked at another rate, and the last not at all.
    let phases = &mut run.trials[0].phases;
    phases[3].header.rate_per_s = phases[3].header.rate_per_s.map(|rate| rate * 1.01);
    phases.pop();
    let line = &lines(&run)[0];
    let driven: Vec<_> = run.trials[0].phases.iter().map(|phase| phase.header.rate_per_s).collect();
    assert_eq!(line.rungs.iter().map(|one| one.rung.rate_per_s).collect::<Vec<_>>(), driven);
    assert_eq!(line.rungs[3].rung.ordinal, 3);
    assert!((line.rungs[3].rung.seconds - asked[3].rung.seconds).abs() < 1.0);
    assert_ne!(line.result.ending, Ending::Stopped, "the run has ended, and the user did not stop it");
}

#[test]
fn refusals_of_what_a_late_generator_sent_in_a_burst_are_no_evidence() {
    let rungs = |lag_ns: u64| {
        let mut run = recorded::searched();
        let goals = vec![Goal { what: GoalKind::Errors, of: None, limit: 10.0, unit: "%".into() }];
        run.header.outline.line.as_mut().unwrap().goals = goals.clone();
        run.header.goals = goals;
        for slice in run.trials[0].phases.iter_mut().flat_map(|phase| &mut phase.slices) {
            slice.lag_p99_ns = lag_ns;
            let (outcome, measure) = (Outcome::Rejected, Measure::Response);
            let refused = study::served(0, study::times([(70_000, 9_000)]));
            slice.histograms.push(SliceHistogram { outcome, measure, ..refused });
        }
        let [line] = &lines(&run)[..] else { panic!("one store") };
        line.rungs.iter().filter(|one| one.rung.rate_per_s.is_some()).cloned().collect::<Vec<_>>()
    };
    let (prompt, late) = (rungs(50_000_000), rungs(200_000_000));
    assert!(prompt.len() > 5 && prompt.iter().all(|one| one.state == RungState::Failed), "{prompt:?}");
    let is_void = |one: &RungView| {
        let reason = one.reason.as_deref().unwrap_or_default();
        one.state == RungState::Undecided && reason.contains("200 ms late, and sent what was due in a burst")
    };
    assert!(late.len() == prompt.len() && late.iter().all(is_void), "{late:?}");
}
