//! Transactions, searches and sweeps as their recordings give them back.

use plimsoll_analysis::view;
use plimsoll_analysis::view::{GoalState, RowOp, VerdictState};
use plimsoll_core::Outcome;
use plimsoll_record::data::{Goal, GoalKind, RunState};

use crate::{recorded, study};

#[test]
fn steps_are_in_no_total_and_stand_under_their_operation() {
    let run = recorded::transactions();
    let view = view(&run);
    let mixed = &view.trials[0].phases[0];
    let slices = run.trials[0].phases[0].slices.iter().filter(|slice| !slice.warmup).count() as u64;
    let ops = mixed.ops.as_ref().unwrap();
    assert_eq!((ops.count, ops.rejected, ops.error_percent), (1_400 * slices, 0, 0.0), "statements are no operations");
    assert!((ops.rate_per_s - 1_400.0).abs() < 1e-9);
    assert_eq!(view.goals[0].state, GoalState::Held, "a statement that was refused and tried again is no error");
    let rows: Vec<_> = mixed.latencies.iter().map(|row| (row.op.clone(), row.count / slices)).collect();
    let kind = |name: &str, n: u64| (RowOp::Kind(name.into()), n);
    let kinds = [kind("transfer", 900), kind("transfer retried", 100), kind("look", 400)];
    assert_eq!(rows, [&[(RowOp::All, 1_400)][..], &kinds].concat());
    assert_eq!(view.plots.ops, ["all", "transfer", "look", "transfer retried"]);
    let retried = &mixed.retried[..];
    assert!(matches!(retried, [one] if (one.op.as_str(), one.succeeded, one.failed) == ("transfer", 100 * slices, 0)));
    let steps: Vec<_> = mixed
        .steps
        .iter()
        .map(|step| (step.op.as_str(), step.name.as_str(), step.count / slices, step.errors / slices))
        .collect();
    assert_eq!(
        steps,
        [("transfer", "begin", 1_200, 0), ("transfer", "update", 1_200, 300), ("transfer", "end", 1_000, 0)]
    );
    // 900 of 1 ms and 100 of 3 ms are 1.2 s; 1,200 updates of 0.5 ms are half of them.
    let shares: Vec<_> = mixed.steps.iter().map(|step| step.share_percent.unwrap()).collect();
    for (share, wanted) in shares.iter().zip([10.0, 50.0, 25.0]) {
        assert!((share - wanted).abs() < 0.1, "{shares:?}");
    }
    assert_eq!(mixed.steps[1].percentiles[0].ns.unwrap() / 1_000, 500);
}

#[test]
fn a_run_that_was_interrupted_has_one_rate_and_what_failed_or_found_nothing_is_counted_apart() {
    let mut run = recorded::transactions();
    let last = run.trials[0].phases[0].slices.iter_mut().rfind(|slice| !slice.warmup).unwrap();
    for one in last.histograms.iter_mut() {
        one.outcome = match one.kind {
            // In flight when the user wanted an end; tried again in vain; a read of nothing.
            0 => Outcome::Unknown,
            5 => Outcome::Rejected,
            4 => Outcome::NotFound,
            _ => continue,
        };
    }
    let names: Vec<_> = [0, 5, 4].map(|kind: usize| run.trials[0].header.kinds[kind].name.clone()).into();
    assert_eq!(names, ["transfer", "transfer retried", "look"]);
    let mixed = &view(&run).trials[0].phases[0];
    let ops = mixed.ops.as_ref().unwrap();
    assert_eq!((ops.unknown, ops.rejected), (900, 100));
    assert_eq!(mixed.latencies[0].rate_per_s, ops.rate_per_s, "the table's rate is that of the summary");
    let retried = &mixed.retried[0];
    assert_eq!((retried.failed, retried.succeeded + retried.failed), (100, ops.count / 14));
    let missed = &mixed.not_found[..];
    assert!(matches!(missed, [one] if (one.op.as_str(), one.count, one.n) == ("look", 400, ops.count * 4 / 14)));
}

#[test]
fn steps_that_overlap_have_no_share() {
    let mut run = recorded::transactions();
    // A pipeline: all of it is sent at once, and each answer waited for all before it.
    for slice in &mut run.trials[0].phases[0].slices {
        let whole = slice.histograms.iter().find(|one| one.kind == 0).unwrap().histogram.clone();
        slice
            .histograms
            .iter_mut()
            .filter(|one| (1..=3).contains(&one.kind))
            .for_each(|one| one.histogram = whole.clone());
    }
    let view = view(&run);
    let steps = &view.trials[0].phases[0].steps;
    assert!(steps.len() == 3 && steps.iter().all(|step| step.share_percent.is_none()), "{steps:?}");
}

#[test]
fn a_search_is_found_again_in_its_recording() {
    let run = recorded::searched();
    let view = view(&run);
    assert_eq!(view.verdict.state, VerdictState::Pass, "{:?}", view.verdict);
    let [line] = view.lines.as_slice() else { panic!("one store") };
    let rate = line.result.rate_per_s.unwrap();
    // p99 of an exponential: ln 100 / (5,000 − rate) is 20 ms at 4,770.
    let gives_way = line.result.failed.as_ref().unwrap().rate_per_s;
    assert!(rate <= 4_770.0 && 4_770.0 <= gives_way, "{}", line.result.sentence);
    assert!(view.verdict.sentence.starts_with("fjall carries 4,"), "{}", view.verdict.sentence);
    assert!(
        line.result.sentence.contains(". What changed with it: the server's CPU was 9"),
        "{}",
        line.result.sentence
    );
    assert!(line.result.sentence.ends_with(crate::line::NO_CHECKPOINT), "{}", line.result.sentence);
    assert_eq!(line.rungs.len(), run.trials[0].phases.len());
    assert!(view.goals.is_empty(), "that a goal breaks on a rung is what was looked for");
    assert!(line.done.x.windows(2).all(|pair| pair[0] < pair[1]) && line.latency.lines.len() >= 3);
    let mut run = run;
    run.header.goals.push(Goal { what: GoalKind::Rate, of: None, limit: 5_500.0, unit: "1/s".into() });
    let wanted = &plimsoll_analysis::view(&run).goals[0];
    assert_eq!((wanted.state, wanted.got), (GoalState::Missed, Some(rate)));
    run.header.goals.pop();
    // Killed in the middle of it, there is no line yet.
    run.state = RunState::Unfinished;
    run.trials[0].phases.truncate(3);
    let cut = plimsoll_analysis::view(&run);
    assert_eq!(cut.verdict.state, VerdictState::Incomplete);
    assert_eq!(
        cut.verdict.sentence,
        "What fjall carries is undecided. Goals held at 4,550 ops/s in 1 of 1 load step of 10.0 s. The search did not end."
    );
}

#[test]
fn a_machine_that_was_not_equally_fast_is_a_note_on_a_line_and_a_reason_where_the_search_is_undecided() {
    let mut run = recorded::searched();
    assert_eq!(view(&run).lines[0].result.unequal_words, None);
    // In each second load step at a rate an operation costs the server a fifth more.
    let phases = &run.trials[0].phases;
    let dear = phases.iter().enumerate().filter(|(at, phase)| {
        let before = phases.iter().take(*at).filter(|other| other.header.rate_per_s == phase.header.rate_per_s);
        before.count() % 2 == 1
    });
    let dear: Vec<(u64, u64)> = dear.map(|(_, phase)| (phase.header.start_ns, phase.end.end_ns)).collect();
    for sample in &mut run.samples {
        if dear.iter().any(|(from_ns, until_ns)| *from_ns < sample.at_ns && sample.at_ns <= *until_ns) {
            sample.values.iter_mut().filter(|(series, _)| *series >= 2).for_each(|(_, value)| *value *= 1.2);
        }
    }
    let words = "The machine was not equally fast, or the store's work changed: at 4,";
    let is_said = |note: &String| note.starts_with(words) && note.ends_with("or with a coarser --precision.");
    let decided = view(&run);
    assert_eq!((decided.verdict.state, decided.verdict.reasons.len()), (VerdictState::Pass, 0));
    assert!(decided.lines[0].notes.iter().any(is_said), "{:?}", decided.lines[0].notes);
    run.header.outline.line.as_mut().unwrap().precision = 0.02;
    let undecided = view(&run);
    assert_eq!(undecided.verdict.state, VerdictState::Undecided, "{:?}", undecided.verdict);
    let [reason] = undecided.verdict.reasons.as_slice() else { panic!("{:?}", undecided.verdict) };
    assert!(is_said(reason), "{reason}");
    assert!(!undecided.lines[0].notes.iter().any(is_said), "it is said once");
}

#[test]
fn a_search_whose_time_was_up_before_anything_broke_is_undecided_and_does_not_pass() {
    let mut run = recorded::searched();
    run.header.outline.line.as_mut().unwrap().budget_s = 20.0;
    run.trials[0].phases.truncate(3);
    let view = plimsoll_analysis::view(&run);
    assert_eq!(view.verdict.state, VerdictState::Undecided, "{:?}", view.verdict);
    assert_eq!(
        view.verdict.sentence,
        "What fjall carries is undecided. Goals held at 4,550 ops/s in 1 of 1 load step of 10.0 s. Time was up before a goal broke at a higher rate. Use a \
         longer --budget or a higher --from."
    );
}

#[test]
fn a_sweep_over_clients_is_a_table_with_a_scalability_law() {
    let view = view(&recorded::swept(&[]));
    let [sweep] = view.sweeps.as_slice() else { panic!("one store, one phase") };
    assert_eq!(sweep.rows, ["1", "2", "4", "8", "16", "32", "64"], "as numbers, not as text");
    assert!(sweep.cells.iter().all(|row| row[0].as_ref().unwrap().n == 5));
    assert!(sweep.boxes.iter().all(|one| one.n == 5 && one.five.is_sorted()) && sweep.boxes.len() == 7);
    let scale = sweep.scale.as_ref().unwrap();
    let fit = scale.fit.as_ref().unwrap();
    assert!((fit.sigma - 0.04).abs() < 0.01 && (fit.kappa - 0.0008).abs() < 0.0002, "{fit:?}");
    assert!((fit.peak_clients.unwrap() - (0.96f64 / 0.0008).sqrt()).abs() < 3.0, "{}", scale.sentence);
    assert!(
        scale.sentence.contains("throughput would peak at 3") && scale.sentence.contains("n = 35"),
        "{}",
        scale.sentence
    );
    let mut few = recorded::swept(&[]);
    few.trials.truncate(12);
    let few = plimsoll_analysis::view(&few);
    let refused = few.sweeps[0].scale.as_ref().unwrap();
    assert!(few.sweeps[0].boxes.len() == 2, "the last row has two trials");
    assert!(refused.fit.is_none() && refused.sentence.contains("needs 6 different numbers of clients"));
    assert!(plimsoll_analysis::view(&recorded::searched()).sweeps.is_empty());
}

#[test]
fn a_sweep_over_two_things_is_rows_and_columns() {
    let view = view(&recorded::swept(&[100, 200, 1_000]));
    let sweep = &view.sweeps[0];
    assert_eq!((sweep.row_label.as_str(), sweep.column_label.as_str()), ("clients", "ops"));
    assert_eq!(sweep.columns, ["100", "200", "1000"]);
    assert_eq!((sweep.cells.len(), sweep.cells[0].len(), sweep.multiples.len()), (7, 3, 7));
    assert!(sweep.boxes.is_empty(), "a row has three configurations");
    assert!(sweep.scale.is_none(), "clients are not all that was swept");
}

#[test]
fn a_warm_up_that_is_longer_than_planned_is_found_and_said() {
    let mut run = study::hour();
    let mixed = &mut run.trials[4].phases[5];
    mixed.slices.truncate(60);
    for (at, slice) in mixed.slices.iter_mut().enumerate() {
        // Only the few updates in the first quarter of a minute.
        slice.histograms.retain(|one| at >= 15 || one.kind == 2);
    }
    let planned = mixed.slices.iter().filter(|slice| slice.warmup).count();
    let view = view(&run);
    let settled = view.trials[4].phases[5].settled_after_s.unwrap();
    assert!((15.0..=20.0).contains(&settled), "{settled}");
    let said = view.warnings.iter().find(|warning| warning.text.contains("throughput settled after")).unwrap();
    assert!(said.text.contains(&format!("and {planned} of them")), "{}", said.text);
    assert!(plimsoll_analysis::view(&study::complete()).trials[4].phases[5].settled_after_s.is_none(), "ten slices");
}
