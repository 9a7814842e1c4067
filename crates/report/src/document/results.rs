//! What came of a run: goals, figures, answers and ledger, latencies, steps.

use plimsoll_analysis::number;
use plimsoll_analysis::view::{
    EventClass, FigureView, GoalState, LatencyView, LedgerView, PercentileView, PhaseKind, PhaseView, RowOp,
    RowOutcome, RunView, TrialView,
};
use plimsoll_core::{Measure, Outcome};

use super::{Body, Cell, NONE, Table, Text, Tone, numbers, or_none, words};
use crate::cells;

/// Examples of what is wrong that are told where there is little room.
const EXAMPLES_MAX: usize = 10;

/// Phases of which it is said what was seen of the machine's pauses where there is little room.
const PAUSES_MAX: usize = 6;

/// What had to hold.
pub fn goals<'a>(view: &RunView, full: bool) -> Body<'a> {
    let mut body = Body::noted("the worst of all trials");
    let mut table =
        Table::new("Goals", vec![words("goal"), numbers("wanted"), numbers("got"), numbers("n"), words("")]);
    let mut each = Table::new(
        "Goals, trial by trial",
        vec![words("trial"), words("goal"), numbers("got"), numbers("n"), words("")],
    );
    let state = |state| match state {
        GoalState::Held => Tone::Good.text("held"),
        GoalState::Missed => Tone::Bad.text("MISSED"),
        GoalState::Undecided => Tone::Open.text("undecided"),
        GoalState::NotMeasured => Tone::Open.text("not measured everywhere"),
    };
    for goal in &view.goals {
        let got = Tone::Strong.text(&goal.got_text);
        table.row(cells![&goal.text, &goal.wanted, got, number::count(goal.n), state(goal.state)]);
        for one in &goal.trials {
            each.row(cells![&one.place, &goal.text, &one.got_text, number::count(one.n), state(one.state)]);
        }
    }
    body.table(table);
    if full {
        let mut inside = Body::default();
        inside.table(each);
        body.fold("Trial by trial", false, inside);
    }
    body
}

/// The figures beside the published ones.
pub fn figures<'a>(view: &RunView, full: bool) -> Body<'a> {
    let durability: Vec<String> = view.durability.iter().map(|one| format!("{} {}", one.name, one.value)).collect();
    let mut body = Body::noted(match durability.join(", ") {
        none if none.is_empty() => none,
        all => format!("durability: {all}"),
    });
    let any_published = view.figures.iter().any(FigureView::has_published);
    let mut columns = vec![words("figure")];
    columns.extend(view.stores.iter().flat_map(|store| [numbers(store), numbers("n")]));
    columns.push(words("published").when(any_published));
    let mut table = Table::new("Figures", columns);
    for (figure, row) in view.figures.iter().flat_map(|figure| figure.rows.iter().map(move |row| (figure, row))) {
        let labels: String = row.labels.iter().map(|(name, value)| format!(", {name}={value}")).collect();
        let mut cells = cells![Text::from(&figure.name).then(Tone::Dim, labels)];
        for cell in &row.cells {
            let n = cell.value.map_or(String::new(), |_| number::count(cell.n));
            cells.push(Cell::why(Tone::Strong.text(&cell.text), cell.missing.as_ref()));
            cells.push(Tone::Dim.text(n).into());
        }
        let published = figure.published.iter().chain(&row.published);
        let published: Vec<String> = published.map(|one| format!("{} {}", one.text, one.of)).collect();
        cells.push(Tone::Dim.text(published.join("; ")).into());
        table.row(cells);
    }
    body.table(table);
    if full {
        let mut formulas = Body::default();
        formulas.pairs(view.figures.iter().map(|figure| (&figure.name, &figure.formula)));
        body.fold("How the figures are calculated", false, formulas);
    }
    body
}

/// Answers against the truth, and the ledger.
pub fn truth<'a>(view: &RunView, full: bool) -> Body<'a> {
    let mut body = Body::default();
    if let Some(truth) = &view.truth {
        body.text(truth);
        // A search has a trial for each rung: a table of them says no more.
        if !full {
            return body;
        }
    }
    let any_refused =
        view.trials.iter().flat_map(|trial| &trial.ledgers).any(|ledger| ledger.rejected + ledger.unknown > 0);
    // Where a ledger is missing nobody knows.
    let all_known = view.trials.iter().all(|trial| !trial.ledgers.is_empty());
    let none_refused = if all_known && !any_refused { "; no write was rejected or unknown" } else { "" };
    body.note = Text::from(format!("lost at most: upper bound with 95 % confidence{none_refused}"));
    let mut table = Table::new(
        "Answers and ledger",
        vec![
            words("trial"),
            numbers("answers"),
            numbers("missing"),
            numbers("wrong"),
            numbers("acknowledged"),
            numbers("read back").when(full),
            numbers("lost"),
            numbers("wrong"),
            numbers("rejected").when(any_refused),
            numbers("unknown").when(any_refused),
            numbers("lost at most"),
        ],
    );
    let mut examples = Vec::new();
    for trial in &view.trials {
        let mut cells = cells![&trial.name];
        match &trial.answers_total {
            Some(total) => cells.extend(cells![number::count(total.answers), bad(total.missing), bad(total.wrong)]),
            None => cells.extend([NONE; 3].map(Cell::from)),
        }
        // A trial with several ledgers shows the last: it is about all its writes.
        match trial.ledgers.last() {
            Some(ledger) => cells.extend(ledger_cells(ledger)),
            None => cells.extend([NONE; 7].map(Cell::from)),
        }
        if trial.answers_total.is_some() || !trial.ledgers.is_empty() {
            table.row(cells);
        }
        let answers = trial.answers.iter().flat_map(|answer| &answer.examples);
        let ledgers = trial.ledgers.iter().flat_map(|ledger| &ledger.examples);
        examples.extend(answers.chain(ledgers).map(|example| format!("{}: {example}", trial.name)));
    }
    body.table(table);
    let left_out = if full { 0 } else { examples.len().saturating_sub(EXAMPLES_MAX) };
    examples.truncate(examples.len() - left_out);
    body.list(Tone::Bad, examples);
    if left_out > 0 {
        body.text(format!("and {} more in the page", number::count(left_out as u64)));
    }
    if full {
        answers_by_phase(view, &mut body);
    }
    body
}

fn ledger_cells(ledger: &LedgerView) -> Vec<Cell> {
    let (mut lost, mut wrong) = (bad(ledger.lost), bad(ledger.wrong_total));
    lost.more.extend(ledger.lost_window_s.map(|(from_s, to_s)| format!("acknowledged {from_s:.2}–{to_s:.2} s")));
    let kinds = ledger.wrong.iter().filter(|(_, n)| **n > 0);
    wrong.more.extend(kinds.map(|(name, n)| format!("{} {}", number::count(*n), name.replace('_', " "))));
    let at_most = match ledger.loss_upper_bound {
        _ if !ledger.complete => Tone::Bad.text("not known"),
        bound => or_none(bound.map(|bound| format!("{} %", number::significant(bound * 100.0)))).into(),
    };
    cells![
        number::count(ledger.acknowledged),
        number::count(ledger.read_back),
        lost,
        wrong,
        number::count(ledger.rejected),
        number::count(ledger.unknown),
        at_most,
    ]
}

/// Open where something is wrong, so that it is seen at once and on paper.
fn answers_by_phase(view: &RunView, body: &mut Body<'_>) {
    let counts = ["answers", "records expected", "got", "missing", "wrong"].map(numbers);
    let mut table = Table::new(
        "Answers by phase",
        [words("trial"), words("phase"), words("operation")].into_iter().chain(counts).collect(),
    );
    let mut any_wrong = false;
    for (trial, answer) in view.trials.iter().flat_map(|trial| trial.answers.iter().map(move |one| (trial, one))) {
        any_wrong |= answer.missing + answer.wrong > 0;
        table.row(cells![
            &trial.name,
            &answer.phase,
            &answer.op,
            number::count(answer.answers),
            number::count(answer.expected),
            number::count(answer.got),
            bad(answer.missing),
            bad(answer.wrong),
        ]);
    }
    let mut inside = Body::default();
    inside.table(table);
    body.fold("Answers by phase", any_wrong, inside);
}

/// Latency of the driven phases, as seen and undisturbed, and what was seen of the machine's pauses.
pub fn latencies<'a>(view: &RunView, full: bool) -> Body<'a> {
    let driven = || phases(view, full).filter(|(_, phase)| phase.kind == PhaseKind::Drive);
    let errors = |phase: &PhaseView| phase.ops.as_ref().map_or(0.0, |ops| ops.error_percent);
    let any_errors = driven().any(|(_, phase)| errors(phase) > 0.0);
    let rows = || driven().flat_map(|(trial, phase)| phase.latencies.iter().map(move |row| (trial, phase, row)));
    let mut table = Table::new(
        "Latency under load",
        vec![
            words("trial"),
            words("phase"),
            words("op"),
            numbers("n"),
            numbers("rate"),
            numbers("mean").when(full),
            numbers("p50"),
            numbers("p90"),
            numbers("p99"),
            numbers("p99.9"),
            numbers("max"),
            numbers("errors").when(any_errors),
        ],
    );
    let mut any_disturbed = false;
    for (trial, phase, row) in rows() {
        let late = |text: String| number::marked(text, row.late);
        let times = |mean_ns: f64, percentiles: &[PercentileView], max_ns: u64| {
            let mut cells = cells![late(number::seconds(mean_ns / 1e9))];
            cells.extend(percentiles.iter().map(|one| percentile(one, row.late)));
            cells.push(late(number::nanoseconds(max_ns)).into());
            cells
        };
        let rate = late(number::with_unit(row.rate_per_s, "1/s"));
        let mut cells = cells![&trial.name, &phase.name, op_name(row, phase.open_loop), number::count(row.count), rate];
        cells.extend(times(row.mean_ns, &row.percentiles, row.max_ns));
        let is_first = phase.latencies.first() == Some(row);
        cells.push(Cell::from(if is_first { number::with_unit(errors(phase), "%") } else { String::new() }));
        table.row(cells);
        if let Some(undisturbed) = row.undisturbed.as_ref().filter(|other| other.count < row.count) {
            any_disturbed = true;
            let op = Text::from("  ").then(Tone::Dim, "undisturbed");
            let mut cells = cells![Tone::Dim.text(&trial.name), Tone::Dim.text(&phase.name), op];
            cells.extend(cells![number::count(undisturbed.count), ""]);
            cells.extend(times(undisturbed.mean_ns, &undisturbed.percentiles, undisturbed.max_ns));
            cells.push(Cell::from(""));
            table.row(cells);
        }
    }
    let mut note = "without warm-up; – needs 10 samples above it: p99 1,000, p99.9 10,000".to_string();
    if any_disturbed {
        note.push_str("; undisturbed: without operations that a pause of the machine held up");
    }
    let mut body = Body::noted(note);
    if table.rows.is_empty() {
        return body;
    }
    body.table(table);
    if let Some(late) = &view.late {
        body.text(Tone::Open.text("* ").then(Tone::Plain, &late.text));
        body.text(Tone::Dim.text(format!("→ {}", late.next)));
    }
    pauses(view, driven(), full, &mut body);
    body
}

/// What was seen of the machine's pauses, of each phase; of many, where they were worst.
fn pauses<'v>(
    view: &RunView,
    driven: impl Iterator<Item = (&'v TrialView, &'v PhaseView)>,
    full: bool,
    body: &mut Body<'_>,
) {
    let seen = driven.filter_map(|(trial, phase)| Some((trial, phase, phase.pauses.as_ref()?)));
    let mut seen: Vec<_> = seen.collect();
    let left_out = if full { 0 } else { seen.len().saturating_sub(PAUSES_MAX) };
    if left_out > 0 {
        seen.sort_by(|(.., a), (.., b)| b.paused_percent.total_cmp(&a.paused_percent));
        seen.truncate(PAUSES_MAX);
    }
    for (trial, phase, pauses) in seen {
        body.text(Tone::Dim.text(format!("{} {}: {}", trial.name, phase.name, pauses.sentence)));
    }
    if left_out > 0 {
        body.text(format!("and {} more phases with fewer pauses", number::count(left_out as u64)));
    }
    for event in view.events.iter().filter(|event| event.kind == EventClass::Witness) {
        body.text(Tone::Dim.text(&event.text));
    }
}

/// The statements of transactions, under their operations.
pub fn steps<'a>(view: &RunView, full: bool) -> Body<'a> {
    let mut body =
        Body::noted("share: of the operations' own time, – where steps overlap (pipelines); steps are in no total");
    let mut table = Table::new(
        "Steps within operations",
        vec![
            words("trial"),
            words("phase"),
            words("op"),
            words("step"),
            numbers("n"),
            numbers("errors"),
            numbers("mean"),
            numbers("p50"),
            numbers("p90").when(full),
            numbers("p99"),
            numbers("p99.9").when(full),
            numbers("max").when(full),
            numbers("share"),
        ],
    );
    for (trial, phase) in phases(view, full) {
        for step in &phase.steps {
            let mut cells = cells![&trial.name, &phase.name, &step.op, &step.name, number::count(step.count)];
            cells.extend(cells![bad(step.errors), number::seconds(step.mean_ns / 1e9)]);
            cells.extend(step.percentiles.iter().map(|one| percentile(one, false)));
            let share = or_none(step.share_percent.map(|share| number::with_unit(share, "%")));
            cells.extend(cells![number::nanoseconds(step.max_ns), share]);
            table.row(cells);
        }
    }
    body.table(table);
    body
}

/// The phases that stand in tables of phases: where there is little room without rungs and turns, which have tables of
/// their own.
fn phases(view: &RunView, full: bool) -> impl Iterator<Item = (&TrialView, &PhaseView)> {
    let is_shown =
        move |phase: &PhaseView| full || (view.ab.is_none() && (view.lines.is_empty() || phase.rung.is_none()));
    let all = view.trials.iter().flat_map(|trial| trial.phases.iter().map(move |phase| (trial, phase)));
    all.filter(move |(_, phase)| is_shown(phase))
}

/// The kind, its outcome where it is not ok, and in an open loop whether the wait for a session is in it.
fn op_name(row: &LatencyView, open_loop: bool) -> Text {
    let mut more = String::new();
    match row.outcome {
        RowOutcome::All | RowOutcome::Of(Outcome::Ok) => {}
        RowOutcome::Unfinished => more.push_str(", unfinished"),
        RowOutcome::Of(outcome) => more.push_str(&format!(", {}", outcome.name().replace('_', " "))),
    }
    if open_loop && row.measure == Measure::Service {
        more.push_str(", service time");
    }
    let op = match &row.op {
        RowOp::All => "all kinds",
        RowOp::Kind(name) => name,
    };
    Text::from(op).then(Tone::Dim, more)
}

fn percentile(one: &PercentileView, late: bool) -> Cell {
    match one.ns {
        Some(ns) => number::marked(number::nanoseconds(ns), late).into(),
        None => Cell::why(NONE, one.missing.as_ref()),
    }
}

/// A count that should be zero.
fn bad(n: u64) -> Cell {
    if n > 0 { Tone::Bad.text(number::count(n)).into() } else { "0".into() }
}
