//! Tests of operations that count in rates and in times: never sent, or returned late.

use plimsoll_analysis::view;
use plimsoll_analysis::view::{RowOp, RunView};
use plimsoll_core::pace::Stage;
use plimsoll_core::{Measure, Outcome, SliceHistogram};
use plimsoll_record::data::{PhaseKind, PhaseState, ResultName, Run};

use crate::study;

/// Makes the mixed phase of trial 1 an open loop in which the store stood still for the last two slices.
fn open_loop() -> Run {
    let mut run = unscheduled();
    // Answers came a tenth sooner than after the scheduled time.
    for slice in &mut run.trials[1].phases[5].slices {
        for one in slice.histograms.iter_mut().filter(|one| one.measure == Measure::Service) {
            let sooner = |(ns, count): &(u64, u64)| (ns * 9 / 10 + 1, *count);
            one.histogram = study::times(one.histogram.counts().iter().map(sooner));
        }
    }
    run
}

/// Returns the same run, of operations that all began when they were sent.
fn unscheduled() -> Run {
    let mut run = study::complete();
    let phase = &mut run.trials[1].phases[5];
    phase.header.rate_per_s = Some(20_000.0);
    for slice in &mut phase.slices {
        let mut service = slice.histograms.clone();
        for one in &mut slice.histograms {
            one.measure = Measure::Response;
        }
        slice.histograms.append(&mut service);
        slice.lag_p99_ns = 5_000_000;
    }
    phase.slices.last_mut().unwrap().unfinished = Some(study::times([(1_900_000_000, 40_000)]));
    run
}

#[test]
fn what_was_never_sent_stands_in_the_distribution() {
    let run = open_loop();
    let view = view(&run);
    let mixed = &view.trials[1].phases[5];
    let ops = mixed.ops.as_ref().unwrap();
    assert_eq!(ops.unfinished, 40_000);
    let all = &mixed.latencies[0];
    assert_eq!((&all.op, all.measure), (&RowOp::All, Measure::Response));
    assert_eq!(all.count, ops.count + 40_000);
    assert!(all.percentiles[3].ns.unwrap() > 1_890_000_000, "p99 is what the unfinished waited");
    assert!(mixed.latencies.iter().any(|row| row.measure == Measure::Service));
    assert!(mixed.lag.is_some());
    assert!(view.warnings.iter().any(|warning| warning.text.contains("late by up to 5.00 ms")));
    let behind = view.warnings.iter().find(|warning| warning.text.contains("did not keep up: 20,000/s were asked for"));
    assert!(
        behind.unwrap().text.contains("40,000 operations (") && behind.unwrap().text.contains("never sent."),
        "{behind:?}"
    );
    assert!(ops.error_percent > 10.0);
}

#[test]
fn what_an_interrupt_left_unsent_or_unanswered_is_counted_and_is_no_error_of_phase_or_stage() {
    let mut run = open_loop();
    let phase = &mut run.trials[1].phases[5];
    let last = phase.slices.last_mut().unwrap();
    for measure in [Measure::Response, Measure::Service] {
        let histogram = study::times([(500_000_000, 8_000)]);
        last.histograms.push(SliceHistogram { outcome: Outcome::Unknown, measure, ..study::served(0, histogram) });
    }
    let length_ns = last.end_ns - phase.slices[0].start_ns;
    phase.header.stages = vec![Stage::held(20_000.0, length_ns)];
    let numbers = |run: &Run| {
        let view = view(run);
        let phase = &view.trials[1].phases[5];
        let ops = phase.ops.clone().unwrap();
        ((ops.unfinished, ops.unknown), ops.error_percent, phase.stages[0].error_percent)
    };
    let (counted, of_phase, of_stage) = numbers(&run);
    assert!(counted == (40_000, 8_000) && of_phase > 10.0 && of_stage > 10.0, "{counted:?} {of_phase} {of_stage}");
    let end = &mut run.trials[1].phases[5].end;
    end.state = PhaseState::Interrupted;
    end.push(ResultName::Stopped, 8_000.0);
    assert_eq!(numbers(&run), (counted, 0.0, 0.0));
}

#[test]
fn what_was_not_scheduled_has_one_time_and_a_late_generator_moves_nothing_of_it() {
    let of_reads = |mut run: Run| {
        run.trials[1].phases[5].end.late = Some("the generator was late".to_string());
        let view = view(&run);
        let rows = view.trials[1].phases[5].latencies.clone().into_iter();
        rows.filter(|row| row.op != RowOp::All).map(|row| (row.measure, row.late)).collect::<Vec<_>>()
    };
    let (scheduled, not) = (of_reads(open_loop()), of_reads(unscheduled()));
    let response = |rows: &[(Measure, bool)]| rows.iter().filter(|(measure, _)| *measure == Measure::Response).count();
    assert!(scheduled.iter().all(|(measure, late)| *late == (*measure == Measure::Response)), "{scheduled:?}");
    assert_eq!(scheduled.len(), 2 * response(&scheduled));
    assert!(not.iter().all(|row| *row == (Measure::Response, false)) && not.len() == response(&scheduled), "{not:?}");
}

#[test]
fn time_in_which_nothing_new_was_started_slows_no_rate() {
    let rate_of = |run: &Run| {
        let view = view(run);
        let phase = view.trials[1].phases.iter().find(|phase| phase.kind == PhaseKind::Drive).unwrap();
        phase.latencies[0].rate_per_s
    };
    let mut run = study::complete();
    let whole = rate_of(&run);
    let phase = run.trials[1].phases.iter_mut().find(|phase| phase.header.kind == PhaseKind::Drive).unwrap();
    let counted = phase.slices.iter().filter(|slice| !slice.warmup);
    let seconds: f64 = counted.map(|slice| (slice.end_ns - slice.start_ns) as f64 / 1e9).sum();
    phase.end.push(ResultName::PlannedSeconds, seconds / 2.0);
    assert!((rate_of(&run) - 2.0 * whole).abs() < 1e-6 * whole);
}

#[test]
fn what_drains_after_the_planned_end_counts_in_times_and_in_no_rate() {
    let mut run = study::complete();
    let drive =
        |view: &RunView| view.trials[1].phases.iter().find(|phase| phase.kind == PhaseKind::Drive).unwrap().clone();
    let whole = drive(&view(&run));
    let phase = run.trials[1].phases.iter_mut().find(|phase| phase.header.kind == PhaseKind::Drive).unwrap();
    let last = phase.slices.last_mut().unwrap();
    last.drain = true;
    let last_s = (last.end_ns - last.start_ns) as f64 / 1e9;
    let drained: u64 =
        last.histograms.iter().filter(|one| !one.outcome.is_error()).map(|one| one.histogram.len()).sum();
    let without = drive(&view(&run));
    let (whole, without) = (whole.ops.unwrap(), without.ops.unwrap());
    assert_eq!((whole.count, whole.unknown), (without.count, without.unknown));
    assert!((whole.seconds - without.seconds - last_s).abs() < 1e-9);
    let wanted = (whole.rate_per_s * whole.seconds - drained as f64) / without.seconds;
    assert!(drained > 0 && (without.rate_per_s - wanted).abs() < 1e-6 * wanted, "{}", without.rate_per_s);
}
