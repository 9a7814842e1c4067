//! The verdict, goals, figures, warnings and plots of whole runs.

use plimsoll_analysis::view;
use plimsoll_analysis::view::{EndState, GoalState, RowOp, VerdictState};
use plimsoll_record::data::{Figure, GoalKind, PhaseKind, PhaseResult, PhaseState, ResultName, Run, RunState};

use crate::study;

fn figure<'a>(view: &'a plimsoll_analysis::RunView, name: &str) -> &'a plimsoll_analysis::view::FigureView {
    view.figures.iter().find(|figure| figure.name == name).unwrap()
}

#[test]
fn a_complete_run_that_kept_every_promise_passes() {
    let run = study::complete();
    let view = view(&run);
    assert_eq!(view.verdict.state, VerdictState::Pass);
    let acknowledged: u64 = run.trials.iter().map(|trial| trial.ledgers[0].acknowledged).sum();
    assert!(
        view.verdict.sentence.starts_with("sqlite and fjall kept every promise: all ")
            && view.verdict.sentence.ends_with(&format!(
                "none of {} acknowledged writes was lost and 2 goals held.",
                plimsoll_analysis::number::count(acknowledged)
            )),
        "{}",
        view.verdict.sentence
    );
    assert!(view.verdict.reasons.is_empty());
    assert!(view.goals.iter().all(|goal| goal.state == GoalState::Held && goal.trials.len() == 5));
    assert_eq!(view.goals[0].n, acknowledged);
    assert_eq!(view.trials.len(), 5);
    assert_eq!(view.trials[2].name, "sqlite · index=keyindex");
    assert_eq!(view.trials[2].short_name, "sqlite keyindex");
}

#[test]
fn figures_are_formulas_over_the_trials_of_one_store() {
    let view = view(&study::complete());
    let ratio = figure(&view, "indexed / plain insert, index keys");
    assert_eq!(ratio.rows.len(), 1);
    let [sqlite, fjall] = ratio.rows[0].cells.as_slice() else { panic!("one cell for each store") };
    assert_eq!((sqlite.value, sqlite.n), (Some(0.718 / 0.412), 1));
    assert_eq!((fjall.value, fjall.text.as_str()), (Some(0.347 / 0.221), "1.57 ×"));
    assert_eq!((ratio.published[0].value, ratio.published[0].text.as_str()), (1.91, "1.91 ×"));
    // The median of five, with its n; and what a store does not have is said.
    let warm = figure(&view, "query by own index, warm");
    assert_eq!(warm.rows[0].cells[0].n, 5);
    assert_eq!(warm.rows[0].cells[1].value, None);
    assert_eq!(warm.rows[0].cells[1].missing.as_deref(), Some("there is no trial with index=own"));
    assert_eq!(view.headlines.len(), 2);
}

#[test]
fn what_a_formula_leaves_open_of_the_sweep_gives_a_row_each() {
    let mut run = study::complete();
    run.header.figures = vec![
        Figure { name: "load".into(), unit: "s".into(), formula: "load.seconds".into(), published: Vec::new() },
        Figure {
            name: "slow reads".into(),
            unit: "s".into(),
            formula: "mixed.p99[op=read,index=keyindex]".into(),
            published: Vec::new(),
        },
        Figure {
            name: "by parameter".into(),
            unit: "".into(),
            formula: "check.lost[below=50,index=none]".into(),
            published: Vec::new(),
        },
    ];
    let view = view(&run);
    let rows: Vec<_> = view.figures[0]
        .rows
        .iter()
        .map(|row| (row.labels["index"].as_str(), row.cells.iter().map(|cell| cell.value).collect::<Vec<_>>()))
        .collect();
    assert_eq!(
        rows,
        [
            ("none", vec![Some(0.412), Some(0.221)]),
            ("own", vec![Some(0.534), None]),
            ("keyindex", vec![Some(0.718), Some(0.347)])
        ]
    );
    let reads: u64 = run.trials[4].phases[5]
        .slices
        .iter()
        .filter(|slice| !slice.warmup)
        .flat_map(|slice| &slice.histograms)
        .filter(|one| one.kind == 1)
        .map(|one| one.histogram.len())
        .sum();
    assert_eq!(view.figures[1].rows[0].cells[1].n, reads, "warm-up slices do not count");
    assert_eq!(view.figures[2].rows[0].cells[0].value, Some(0.0));
}

#[test]
fn a_percentile_without_enough_samples_is_said_to_be_missing() {
    let mut run = study::complete();
    run.header.figures = vec![Figure {
        name: "p999 of queries".into(),
        unit: "s".into(),
        formula: "mixed.p999[index=own,op=query]".into(),
        published: Vec::new(),
    }];
    let queries: u64 = run.trials[1].phases[5]
        .slices
        .iter()
        .filter(|slice| !slice.warmup)
        .flat_map(|slice| &slice.histograms)
        .filter(|one| one.kind == 3)
        .map(|one| one.histogram.len())
        .sum();
    let view = view(&run);
    let why = format!("needs 10,000 samples, has {queries}");
    assert_eq!(view.figures[0].rows[0].cells[0].missing.as_ref(), Some(&why));
    let row = view.trials[1].phases[5].latencies.iter().find(|row| row.op == RowOp::Kind("query".into())).unwrap();
    assert_eq!((row.percentiles[4].ns, row.percentiles[4].missing.as_ref()), (None, Some(&why)));
    assert!(row.percentiles[0].ns.is_some());
}

#[test]
fn a_killed_run_says_where_it_ended_and_judges_what_there_is() {
    let view = view(&study::killed());
    assert_eq!(view.verdict.state, VerdictState::Incomplete);
    assert_eq!(
        view.verdict.sentence,
        "No promise was seen to break, but the run ended in phase mixed of trial 3 of 5 (sqlite · index=keyindex): Plimsoll \
         was killed, by nothing that was watched. Its figures are of the part before that."
    );
    assert_eq!(view.run.state, EndState::Killed);
    assert_eq!(view.trials[2].state, EndState::Killed);
    assert_eq!(view.trials[1].state, EndState::Complete);
    assert!(view.goals.iter().all(|goal| goal.state == GoalState::NotMeasured));
    let mixed = &view.trials[2].phases[5];
    assert_eq!((mixed.state, mixed.seconds), (EndState::Killed, None));
    assert_eq!(mixed.ops.as_ref().unwrap().seconds, 5.0, "six slices, the first of them warm-up");
    assert_eq!(view.plots.bands.last().unwrap().end_s, view.run.seconds);
}

#[test]
fn an_interrupted_run_names_the_phase_that_was_interrupted() {
    let mut run = study::complete();
    run.state = RunState::Interrupted;
    run.trials.truncate(2);
    run.trials[1].phases.truncate(6);
    run.trials[1].phases[5].end.state = PhaseState::Interrupted;
    assert_eq!(
        view(&run).verdict.sentence,
        "No promise was seen to break, but the run ended in phase mixed of trial 2 of 5 (sqlite · index=own): interrupted. \
         Its figures are of the part before that."
    );
}

#[test]
fn what_broke_comes_first() {
    let view = view(&study::broken());
    assert_eq!(view.verdict.state, VerdictState::Fail);
    assert!(
        view.verdict.sentence.starts_with("fjall · index=keyindex lost 312 of ")
            && view.verdict.sentence.contains(
                "; 2 more promises were broken, and the run is incomplete for 1 reason. Data was lost or wrong only "
            ),
        "{}",
        view.verdict.sentence
    );
    assert_eq!(
        view.verdict.reasons.len(),
        1 + 2 + 1,
        "the first, and those that are counted: {:?}",
        view.verdict.reasons
    );
    assert!(
        view.verdict
            .reasons
            .iter()
            .any(|reason| reason == "sqlite · index=own gave answers with 3 missing records and 1 wrong record.")
    );
    assert_eq!(view.broken_with.first().map(String::as_str), Some("sqlite (index=own)"), "{:?}", view.broken_with);
    assert!(view.verdict.reasons.iter().any(|reason| reason.contains("Phase warm of fjall · index=none failed")));
    let states: Vec<_> = view.goals.iter().map(|goal| (goal.state, goal.got)).collect();
    assert_eq!(states, [(GoalState::Missed, Some(312.0)), (GoalState::Missed, Some(7.0))]);
    let scan = figure(&view, "query by scan, warm");
    assert!(scan.rows[0].cells[1].missing.as_ref().unwrap().starts_with("phase warm failed: disk I/O error"));
}

#[test]
fn goals_about_latency_rate_and_errors_are_about_driven_phases() {
    let mut run = study::broken();
    run.header.goals = vec![
        study::goal("p99", 20e6, "ns"),
        study::goal("p50", 1.0, "ns"),
        study::goal("rate", 1_000.0, "1/s"),
        study::goal("rate", 1e9, "1/s"),
        study::goal("errors", 0.1, "%"),
    ];
    let view = view(&run);
    let states: Vec<_> = view.goals.iter().map(|goal| goal.state).collect();
    use GoalState::{Held, Missed};
    assert_eq!(states, [Held, Missed, Held, Missed, Missed]);
    assert_eq!(view.goals[0].trials.len(), 3, "three trials have a mixed phase");
    assert_eq!(view.goals[0].wanted, "≤ 20.0 ms");
    let errors = &view.goals[4];
    assert_eq!(errors.trials[0].state, Held);
    let ops = view.trials[2].phases[5].ops.as_ref().unwrap();
    assert_eq!(ops.rejected, 250);
    assert_eq!(errors.trials[1].got, Some(250.0 * 100.0 / ops.count as f64));
}

#[test]
fn a_ledger_that_could_not_keep_up_vouches_for_nothing() {
    let mut run = study::complete();
    run.header.goals.clear();
    run.trials[2].ledgers[0].complete = false;
    let behind = view(&run);
    assert_eq!(behind.verdict.state, VerdictState::Undecided);
    assert!(behind.warnings.iter().any(|warning| warning.text.contains("ledger could not keep up")));
    // One that had nothing to read was not too slow.
    run.trials[2].ledgers[0].unread = 10;
    run.trials[2].ledgers[0].sentence = "It did not start again: no space.".to_owned();
    let unread = view(&run);
    let said = "acknowledged writes is not known: it did not start again: no space.";
    assert!(unread.verdict.sentence.ends_with(said), "{}", unread.verdict.sentence);
    // Of the records that were read it is known.
    assert!(unread.verdict.sentence.contains("what became of some of "), "{}", unread.verdict.sentence);
    run.trials[2].ledgers[0].read_back = 0;
    assert!(!view(&run).verdict.sentence.contains("some of "));
    assert!(!unread.warnings.iter().any(|warning| warning.text.contains("could not keep up")));
    assert_eq!(unread.trials[2].ledgers[0].lost, None);
}

#[test]
fn promises_are_kept_only_if_a_check_looked() {
    let mut run = study::complete();
    assert!(view(&run).verdict.sentence.contains(" kept every promise: "));
    run.header.goals.clear();
    run.trials[2].ledgers.clear();
    let sentence = view(&run).verdict.sentence;
    assert!(sentence.starts_with("sqlite and fjall ran as planned: all "), "{sentence}");
}

#[test]
fn questions_that_were_refused_are_no_right_answers() {
    let mut run = study::complete();
    // The store refuses its one cold question; everything else is right.
    for asked in &mut run.trials[2].phases[4].end.asked {
        asked.outcome = plimsoll_core::Outcome::Rejected;
    }
    let refused = view(&run).verdict;
    assert_eq!(refused.state, VerdictState::Incomplete);
    assert_eq!(
        refused.sentence,
        "No promise was seen to break, but 1 of 1 question asked in phase cold_query of sqlite · index=keyindex had no answer."
    );

    // As the ledger says it of a driven phase: there were queries, and not one answer to hold against the truth.
    let mut run = study::complete();
    for trial in &mut run.trials {
        for check in trial.answers.iter_mut().filter(|check| check.op == "query" && check.phase == 5) {
            (check.counts.answers, check.counts.expected, check.counts.got) = (0, 0, 0);
        }
    }
    let view = view(&run);
    assert_eq!(view.verdict.state, VerdictState::Incomplete, "{}", view.verdict.sentence);
    let wrong = view.goals.iter().find(|goal| goal.what == GoalKind::Wrong).unwrap();
    assert_eq!(wrong.state, GoalState::NotMeasured);
    assert!(
        wrong.trials.iter().any(|place| place.got_text == "no answer to `query` in phase mixed could be checked"),
        "{wrong:?}"
    );
}

#[test]
fn a_void_phase_and_a_missing_trial_make_the_run_incomplete() {
    let mut run = study::complete();
    run.trials[1].phases[5].end.state = PhaseState::Void("the generator was the limit".into());
    let void = view(&run);
    assert_eq!(void.verdict.state, VerdictState::Incomplete);
    // Its figures are excluded: no rate, no percentile, no curve, and no figure that is made of them.
    let phase = &void.trials[1].phases[5];
    assert_eq!((phase.state, phase.reason.as_deref()), (EndState::Void, Some("the generator was the limit")));
    assert!(phase.ops.is_none() && phase.latencies.is_empty() && phase.steps.is_empty());
    let stands = view(&study::complete());
    assert!(stands.trials[1].phases[5].ops.is_some() && !stands.trials[1].phases[5].latencies.is_empty());
    assert!(void.plots.curves.len() < stands.plots.curves.len());
    // Of several that are void for the same sort of reason it is said once.
    let mut run = study::complete();
    for (trial, late) in [(1, 5), (2, 7), (4, 9)] {
        run.trials[trial].phases[5].end.state = PhaseState::Void(format!("the generator was {late} ms late"));
    }
    assert_eq!(
        view(&run).verdict.reasons,
        [
            "Phase mixed of 3 of 5 trials is void (its figures are not reported): the generator was 5 ms late (reason of the first; trials: sqlite · index=own; sqlite · \
             index=keyindex; fjall · index=keyindex)."
        ]
    );
    let mut run = study::complete();
    run.trials.pop();
    assert_eq!(view(&run).verdict.sentence, "No promise was seen to break, but 4 of 5 trials were run.");
    run.state = RunState::Failed("no space left on the recording's device".into());
    let sentence = view(&run).verdict.sentence;
    assert!(sentence.starts_with("The run ended after trial 4 of 5 (fjall · index=none): no space left"), "{sentence}");
}

#[test]
fn series_share_one_axis_and_hold_every_operation() {
    let run = study::complete();
    let view = view(&run);
    let plots = &view.plots;
    assert_eq!(plots.ops, ["all", "insert", "query", "read", "update"].map(String::from).as_slice());
    for panel in plots.latency.iter().chain([&plots.throughput]).chain(&plots.host) {
        assert!(panel.t_s.windows(2).all(|pair| pair[0] <= pair[1]), "{} goes forward", panel.name);
        assert!(panel.t_s.iter().all(|at| *at <= plots.end_s + 1e-3));
        for line in &panel.lines {
            assert_eq!(line.values.len(), panel.t_s.len());
        }
    }
    // Every operation of every slice and every question is in the heat map of all kinds, once.
    let ops: u64 = run
        .trials
        .iter()
        .flat_map(|trial| &trial.phases)
        .map(|phase| {
            let slices = phase.slices.iter().flat_map(|slice| &slice.histograms);
            slices.map(|one| one.histogram.len()).sum::<u64>() + phase.end.asked.len() as u64
        })
        .sum();
    assert_eq!(plots.heat[0].cells.iter().map(|cell| cell.2).sum::<u64>(), ops);
    let rows = plots.heat[0].edges_s.len() as u32 - 1;
    assert!(plots.heat[0].cells.iter().all(|cell| cell.1 < rows));
    assert_eq!(plots.heat.len(), plots.ops.len());
    // A load's throughput is in records, whatever its batches: 100,000 records in 0.412 s.
    assert!(!plots.throughput.lines.iter().any(|line| line.name == "insert"));
    let insert = plots.loading.lines.iter().find(|line| line.name == "insert").unwrap();
    assert!((insert.values[0].unwrap() - 100_000.0 / 0.412).abs() < 1.0);
    assert_eq!(plots.curves.iter().filter(|curve| curve.op == 0).count(), 3);
    assert_eq!(plots.host_zero, ["CPU (steal)", "Network lo"]);
    let disk: Vec<_> = plots.host.iter().filter(|panel| panel.source == "disk").map(|panel| &panel.unit).collect();
    assert_eq!(disk, ["B/s", "1/s", "ms"]);
}

#[test]
fn an_hour_has_no_more_columns_than_a_screen() {
    let run = study::hour();
    let view = view(&run);
    assert!(view.plots.heat[0].columns_s.len() <= 920, "{}", view.plots.heat[0].columns_s.len());
    assert!(view.plots.heat[0].columns_s.iter().all(|(from, to)| from < to));
    // The series keep every slice.
    assert!(view.plots.throughput.t_s.len() > 3_600);
    let ops = view.trials[4].phases[5].ops.as_ref().unwrap();
    assert_eq!(ops.seconds, 3_600.0);
}

#[test]
fn device_bytes_are_those_of_load_and_settle() {
    let view = view(&study::complete());
    let trial = &view.trials[0];
    let bytes = 48_300_000.0 * 0.412f64.sqrt() + 1_900_000.0;
    assert!((trial.device_bytes_per_record.unwrap() - bytes / 100_000.0).abs() < 1e-6);
    assert!((trial.write_amplification.unwrap() - bytes / 100_000.0 / 203.0).abs() < 1e-6);
    assert_eq!(trial.footprint.as_ref().unwrap().phase, "settle");
    assert_eq!(trial.remarks.iter().filter(|remark| remark.name == "plan of the store").count(), 1, "said once");
}

#[test]
fn data_stand_beside_what_can_hold_them() {
    let mut run = study::complete();
    assert_eq!(view(&run).trials[0].size, None, "recorded before sizes were");
    let settle = run.trials[2].phases.iter_mut().find(|phase| phase.header.name == "settle").unwrap();
    let data = settle.end.footprint.unwrap();
    let data_bytes = data.data_bytes + data.index_bytes.unwrap_or(0);
    let cache = |name, subject: &str, value| PhaseResult { name, subject: subject.into(), value, n: 1 };
    settle.end.results.push(cache(ResultName::CacheBytes, "cache_size", data_bytes as f64 / 4.0));
    settle.end.push(ResultName::MemoryBytes, 8e9);
    let size = view(&run).trials[2].size.clone().unwrap();
    assert_eq!((size.data_bytes, size.cache_setting.as_deref()), (Some(data_bytes), Some("cache_size")));
    assert_eq!((size.fits_cache, size.fits_memory, size.memory_bytes), (Some(false), Some(true), Some(8_000_000_000)));
    let words = ["(100,000 records); cache ", "(cache_size): 25 % of it fits; memory 7.45 GiB: all of it fits"];
    assert!(words.iter().all(|words| size.sentence.contains(words)), "{}", size.sentence);

    // The memory of a server elsewhere is unknown here; and tables of a scale are reported as such.
    run.trials[2].header.place = "postgres://db.example.org:5432/app".into();
    run.trials[2].header.params.insert("scale".into(), "10".into());
    let settle = run.trials[2].phases.iter_mut().find(|phase| phase.header.name == "settle").unwrap();
    settle.end.results.retain(|result| result.name != ResultName::MemoryBytes);
    let size = view(&run).trials[2].size.clone().unwrap();
    assert!(size.sentence.ends_with("; memory of its host unknown"), "{}", size.sentence);
    assert!(size.sentence.contains("(scale 10: 100,000 records)"), "{}", size.sentence);
    assert_eq!((size.memory_bytes, size.fits_memory), (None, None));
    run.trials[2].phases.retain(|phase| phase.header.kind != PhaseKind::Load);
    let sentence = view(&run).trials[2].size.clone().unwrap().sentence;
    assert!(sentence.contains("(scale 10: 100,000 records assumed)"), "{sentence}");
}

#[test]
fn a_run_without_anything_is_no_panic() {
    let mut run = study::complete();
    run.trials.clear();
    run.samples.clear();
    run.events.clear();
    run.end_ns = None;
    run.state = RunState::Unfinished;
    let view = view(&run);
    assert_eq!(
        view.verdict.sentence,
        "No promise was seen to break, but the run ended before the first trial: Plimsoll was killed, by nothing that was \
         watched."
    );
    assert!(view.stores.is_empty());
}

#[test]
fn a_run_that_goes_on_is_still_running() {
    let mut run = study::killed();
    run.state = RunState::Running;
    let of = view(&run);
    assert_eq!((of.run.state, of.trials[2].state), (EndState::Running, EndState::Running));
    let sentence = &of.verdict.sentence;
    assert!(sentence.starts_with("The run is still running, in phase mixed of trial 3 of "), "{sentence}");
    assert!(sentence.ends_with("; so far no promise was seen to break."), "{sentence}");
    assert!(!format!("{of:?}").contains("illed"), "{of:?}");
}

#[test]
fn other_programs_and_a_busy_hypervisor_are_said() {
    let mut run = study::complete();
    let warned =
        |run: &Run, what: &str| view(run).warnings.iter().filter(|warning| warning.text.contains(what)).count();
    assert_eq!(warned(&run, "neither the generator nor the server"), 0);
    let add = |run: &mut Run, subject: &str, name: &str| {
        run.series.push(study::series_of("cpu", subject, name, "%"));
    };
    add(&mut run, "cpu0", "user");
    add(&mut run, "cpu1", "user");
    let series = |run: &Run, sampler: &str, name: &str| {
        run.series
            .iter()
            .position(|series| series.source == sampler && series.subject.is_empty() && series.name == name)
            .unwrap()
    };
    // Two cores, 70 % of both in use, the generator uses 0.8 of one: other programs use 0.6 cores.
    let values = [
        (series(&run, "cpu", "user"), 50.0),
        (series(&run, "cpu", "system"), 20.0),
        (series(&run, "cpu", "steal"), 7.5),
        (series(&run, "generator", "user"), 80.0),
    ];
    for sample in &mut run.samples {
        sample.values = values.iter().map(|(series, value)| (*series as u32, *value)).collect();
    }
    assert_eq!(warned(&run, "0.600 of 2 cores were in use by neither the generator nor the server"), 1);
    assert_eq!(warned(&run, "the hypervisor took 7.50 % of the CPU time away"), 1);
    let spoiled = "times may be longer, the high percentiles most, and throughput lower than the store's own; wrong answers \
                   and lost writes are not affected.";
    assert_eq!(warned(&run, spoiled), 2, "which figures it can have changed");
    // Three phases say the same: it is said once, with where else it is so.
    let view = view(&run);
    let said = view.warnings.iter().find(|warning| warning.text.contains("the hypervisor")).unwrap();
    let others = said.text.split_once(" Also, to a lesser extent: ").unwrap().1;
    assert_eq!(others.split("; ").count(), 2, "{}", said.text);
}
