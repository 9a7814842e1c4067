//! Losses, wrong records and errors have one value each, wherever a report has them.

use std::collections::BTreeMap;

use plimsoll_analysis::view::{GoalKind, GoalTrial, PhaseKind, PhaseView, SummaryView, TrialView};
use plimsoll_analysis::{RunView, view};
use plimsoll_record::data::{AnswerCheck, AnswerCounts, LedgerCheck, Run};
use serde_json::Value;

use crate::{faulted, recorded, study};

/// Returns made runs of all sorts, each with goals on what was lost, wrong or failed.
fn runs() -> Vec<(&'static str, Run)> {
    let mut all = vec![
        ("complete", study::complete()),
        ("broken", study::broken()),
        ("killed", study::killed()),
        ("checked twice", checked_twice()),
        ("two phases", phases(2)),
        ("eight phases", phases(8)),
        ("faulted", faulted::killed_primary()),
        ("swept", recorded::swept(&[100, 200])),
        ("searched", recorded::searched()),
        ("transactions", recorded::transactions()),
    ];
    for (_, run) in &mut all {
        run.header.goals =
            vec![study::goal("lost", 0.0, ""), study::goal("wrong", 0.0, ""), study::goal("errors", 50.0, "%")];
    }
    all
}

/// Returns the broken study, each trial of which was checked a second time: then nothing was missing or wrong.
fn checked_twice() -> Run {
    let mut run = study::broken();
    for trial in &mut run.trials {
        let again = trial.ledgers.first().map(|ledger| LedgerCheck {
            acknowledged: ledger.acknowledged + 10,
            lost: 0,
            lost_window_ns: None,
            wrong: BTreeMap::new(),
            ..ledger.clone()
        });
        trial.ledgers.extend(again);
    }
    run
}

/// Returns a trial of so many phases, each with failed operations, whose answers and check found faults.
fn phases(count: u32) -> Run {
    let mut run = faulted::ticked(10, |tick| (10, u32::from(tick == 500)));
    let trial = &mut run.trials[0];
    for ordinal in 1..count {
        let mut phase = trial.phases[0].clone();
        (phase.header.ordinal, phase.header.name) = (ordinal, format!("again-{ordinal}"));
        trial.phases.push(phase);
    }
    let counts = AnswerCounts { answers: 10, missing: 1, wrong: 3, ..AnswerCounts::default() };
    trial.answers = vec![AnswerCheck { counts, ..AnswerCheck::default() }];
    trial.ledgers = vec![LedgerCheck {
        acknowledged: 1_200,
        read_back: 1_000,
        lost: 5,
        wrong: [("wrong_content".to_owned(), 2)].into(),
        complete: true,
        ..LedgerCheck::default()
    }];
    run
}

/// Returns the results of a goal, trial by trial.
fn judged(view: &RunView, what: GoalKind) -> &[GoalTrial] {
    view.goals.iter().find(|goal| goal.what == what).map(|goal| goal.trials.as_slice()).unwrap_or_default()
}

/// Returns the trials of a line of the summary: the one that it names, or all.
fn trials_of<'v>(view: &'v RunView, line: &SummaryView) -> Vec<&'v TrialView> {
    let named: Vec<&TrialView> = view.trials.iter().filter(|trial| trial.name == line.place).collect();
    if named.is_empty() { view.trials.iter().collect() } else { named }
}

/// Returns the driven phases of a line of the summary: those of the name that ends its place, or all of its trials.
fn phases_of<'v>(view: &'v RunView, line: &SummaryView) -> Vec<(&'v TrialView, &'v PhaseView)> {
    let of_trial = |trial: &'v TrialView| trial.phases.iter().map(move |phase| (trial, phase));
    let all = trials_of(view, line).into_iter().flat_map(of_trial);
    let driven: Vec<_> = all.filter(|(_, phase)| phase.kind == PhaseKind::Drive).collect();
    let is_named = |(_, phase): &(&TrialView, &PhaseView)| line.place.rsplit(", ").next() == Some(phase.name.as_str());
    let named: Vec<_> = driven.iter().copied().filter(is_named).collect();
    if named.is_empty() { driven } else { named }
}

#[test]
fn a_line_of_the_summary_has_the_losses_and_wrong_records_of_the_goals() {
    for (name, run) in runs() {
        let view = view(&run);
        for line in &view.summary {
            let trials = trials_of(&view, line);
            for (what, seen) in [(GoalKind::Lost, line.lost), (GoalKind::Wrong, line.wrong)] {
                let is_its = |one: &&GoalTrial| trials.iter().any(|trial| trial.name == one.place);
                let got: Vec<Option<f64>> = judged(&view, what).iter().filter(is_its).map(|one| one.got).collect();
                let sum: f64 = got.iter().flatten().sum();
                match seen {
                    Some(seen) => assert_eq!(seen as f64, sum, "{name}: {what:?} of {:?}: {got:?}", line.place),
                    None => assert!(got.contains(&None), "{name}: {what:?} of {:?}: {got:?}", line.place),
                }
            }
        }
    }
}

#[test]
fn a_line_of_the_summary_has_the_errors_of_its_phases_and_each_phase_the_share_of_its_goal() {
    for (name, run) in runs() {
        let view = view(&run);
        for line in view.summary.iter().filter(|line| line.errors.is_some()) {
            let phases = phases_of(&view, line);
            let ops = phases.iter().filter_map(|(_, phase)| phase.ops.as_ref());
            let errors: u64 = ops.map(|ops| ops.rejected + ops.unknown + ops.unfinished).sum();
            assert_eq!(line.errors, Some(errors), "{name}: {:?}", line.place);
            if let [(_, phase)] = phases.as_slice() {
                let share = phase.ops.as_ref().map(|ops| ops.error_percent);
                assert_eq!(line.error_percent, share, "{name}: {:?}", line.place);
            }
        }
        let errors = judged(&view, GoalKind::Errors);
        for (trial, phase) in view.trials.iter().flat_map(|trial| trial.phases.iter().map(move |one| (trial, one))) {
            let place = format!("{}, {}", trial.name, phase.name);
            let got = errors.iter().find(|one| one.place == place).and_then(|one| one.got);
            if let (Some(got), Some(ops)) = (got, &phase.ops) {
                assert_eq!((got, phase.kind), (ops.error_percent, PhaseKind::Drive), "{name}: {place}");
            }
        }
    }
}

/// Row of the table of answers and the ledger; `None` for a dash, or a number that is not known.
#[derive(Debug, PartialEq)]
struct Row {
    trial: String,
    answers: Option<u64>,
    missing: Option<u64>,
    wrong: Option<u64>,
    acknowledged: Option<u64>,
    lost: Option<u64>,
    wrong_in_check: Option<u64>,
}

/// Returns the rows of the table of answers and the ledger.
fn rows(markdown: &str) -> Vec<Row> {
    let mut lines = markdown.lines().skip_while(|line| !line.starts_with("| trial | answers | missing | wrong |"));
    let Some(heads) = lines.next() else { return Vec::new() };
    assert!(heads.starts_with("| trial | answers | missing | wrong | acknowledged | lost | wrong |"), "{heads}");
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    let row = |line: &str| {
        let cells: Vec<String> = line.trim_matches('|').split(" | ").map(|cell| cell.trim().replace('*', "")).collect();
        let count = |at: usize| cells[at].replace(',', "").parse().ok();
        Row {
            trial: cells[0].clone(),
            answers: count(1),
            missing: count(2),
            wrong: count(3),
            acknowledged: count(4),
            lost: count(5),
            wrong_in_check: count(6),
        }
    };
    rows.map(row).collect()
}

#[test]
fn the_table_of_the_ledger_has_the_numbers_of_goals_verdict_and_json() {
    let mut with_rows = 0;
    for (name, run) in runs() {
        let view = view(&run);
        let json: Value = serde_json::from_str(&plimsoll_report::json(&view)).unwrap();
        let rows = rows(&plimsoll_report::markdown(&view));
        with_rows += usize::from(!rows.is_empty());
        for row in rows {
            let place = format!("{name}: {row:?}");
            let of = |what: GoalKind| judged(&view, what).iter().find(|one| one.place == row.trial).unwrap();
            let (lost, wrong) = (of(GoalKind::Lost), of(GoalKind::Wrong));
            assert_eq!(row.lost.map(|lost| lost as f64), lost.got, "{place}");
            if lost.got.is_some() {
                assert_eq!(row.acknowledged, Some(lost.n), "{place}");
            }
            let all_wrong: u64 = [row.missing, row.wrong, row.wrong_in_check].into_iter().flatten().sum();
            assert_eq!(all_wrong as f64, wrong.got.unwrap_or(0.0), "{place}");
            // The same row as JSON.
            let trials = json["trials"].as_array().unwrap();
            let trial = trials.iter().find(|trial| trial["name"] == row.trial.as_str()).unwrap();
            let total = &trial["answers_total"];
            assert_eq!(total["answers"].as_u64(), row.answers, "{place}");
            assert_eq!((total["missing"].as_u64(), total["wrong"].as_u64()), (row.missing, row.wrong), "{place}");
            let ledgers = || trial["ledgers"].as_array().unwrap().iter();
            assert_eq!(ledgers().filter_map(|ledger| ledger["lost"].as_u64()).max(), row.lost, "{place}");
            let wrong_in_check = ledgers().filter_map(|ledger| ledger["wrong_total"].as_u64()).max();
            assert_eq!(wrong_in_check, row.wrong_in_check, "{place}");
            let read_back = ledgers().filter_map(|ledger| ledger["read_back"].as_u64()).max().unwrap_or(0);
            if wrong.got.is_some() {
                assert_eq!(wrong.n, row.answers.unwrap_or(0) + read_back, "{place}");
            }
            // The verdict names each loss.
            if let (Some(lost @ 1..), Some(acknowledged)) = (row.lost, row.acknowledged) {
                let [lost, of] = [lost, acknowledged].map(plimsoll_analysis::number::count);
                let said = format!("{} lost {lost} of {of} acknowledged writes", row.trial);
                let verdict = [vec![view.verdict.sentence.clone()], view.verdict.reasons.clone()].concat();
                assert!(verdict.iter().any(|sentence| sentence.starts_with(&said)), "{place}: {verdict:?}");
            }
        }
    }
    assert!(with_rows >= 5, "{with_rows} runs have the table");
}
