//! Results of a run: goals, figures, answers and ledger.

use plimsoll_analysis::number;
use plimsoll_analysis::promise::NOT_KNOWN;
use plimsoll_analysis::view::{
    AnswerView, DiskFaultView, FigureCell, FigureRow, FigureView, GoalState, LedgerView, PublishedView, RunView,
    TrialView,
};

use super::{Body, Cell, ColumnOf, NONE, Table, Text, Tone, numbers, or_none, words};
use crate::cells;

/// Examples of what is wrong that are told where there is little room.
const EXAMPLES_MAX: usize = 10;

/// Lists the goals.
pub fn goals<'a>(view: &RunView, full: bool) -> Body<'a> {
    let mut body = Body::noted("the worst of all trials");
    let mut table =
        Table::new("Goals", vec![words("goal"), numbers("wanted"), numbers("got"), words(""), numbers("n")]);
    let mut each = Table::new(
        "Goals, trial by trial",
        vec![words("trial"), words("goal"), numbers("got"), words(""), numbers("n")],
    );
    let state = |state| match state {
        GoalState::Held => Tone::Good.text("held"),
        GoalState::Missed => Tone::Bad.text("MISSED"),
        GoalState::Undecided => Tone::Open.text("undecided"),
        GoalState::NotMeasured => Tone::Open.text("not measured everywhere"),
    };
    for goal in &view.goals {
        let got = Tone::Strong.text(&goal.got_text);
        table.row(cells![&goal.text, &goal.wanted, got, state(goal.state), number::count(goal.n)]);
        for one in &goal.trials {
            each.row(cells![&one.place, &goal.text, &one.got_text, state(one.state), number::count(one.n)]);
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
    let rows = view.figures.iter().flat_map(|figure| figure.rows.iter().enumerate().map(move |row| (figure, row)));
    for (figure, (at, row)) in rows {
        let labels: String = row.labels.iter().map(|(name, value)| format!(", {name}={value}")).collect();
        let direction = figure.direction.clone().filter(|_| at == 0 && full);
        let mut cells = vec![Cell::from(Text::from(&figure.name).then(Tone::Dim, labels)).with(direction)];
        let largest_s = largest_s(figure, row);
        for cell in &row.cells {
            let n = cell.value.map_or(String::new(), |_| number::count(cell.n));
            cells.push(Cell::why(Tone::Strong.text(measured(cell, largest_s)), cell.missing.as_ref()));
            cells.push(Tone::Dim.text(n).into());
        }
        // What is of the whole figure is said once.
        let of_all = figure.published.iter().filter(|_| at == 0);
        let published = of_all.chain(&row.published);
        let text = |one: &PublishedView| match largest_s {
            Some(largest_s) => number::exact_seconds_beside(one.value, largest_s),
            None => one.text.clone(),
        };
        let published: Vec<String> = published.map(|one| format!("{} {}", text(one), one.of)).collect();
        cells.push(Tone::Dim.text(published.join("; ")).into());
        table.row(cells);
    }
    body.table(table);
    if !full {
        // The page has each below its name.
        let directions = view.figures.iter().filter_map(|figure| Some((figure, figure.direction.as_ref()?)));
        body.list(Tone::Plain, directions.map(|(figure, direction)| format!("{}: {direction}", figure.name)));
    }
    if full {
        let mut formulas = Body::default();
        formulas.pairs(view.figures.iter().map(|figure| (&figure.name, &figure.formula)));
        body.fold("How the figures are calculated", false, formulas);
    }
    body
}

/// Returns the largest of a row's times and their published values, which all have the unit that suits it; `None` for
/// other rows.
fn largest_s(figure: &FigureView, row: &FigureRow) -> Option<f64> {
    let published = || figure.published.iter().chain(&row.published).map(|one| one.value);
    let is_beside = figure.unit == "s" && published().next().is_some();
    let all = published().chain(row.cells.iter().filter_map(|cell| cell.value));
    all.filter(|_| is_beside).reduce(f64::max)
}

/// Formats a measured value, of a time in the unit that suits `largest_s` if it is given.
fn measured(cell: &FigureCell, largest_s: Option<f64>) -> String {
    match cell.value.zip(largest_s) {
        Some((value, largest_s)) => {
            let text = number::lower_bound(number::seconds_beside(value, largest_s), cell.open);
            number::marked(text, cell.late)
        }
        None => cell.text.clone(),
    }
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
    // Without a ledger the result is unknown.
    let all_known = view.trials.iter().all(|trial| !trial.ledgers.is_empty());
    let none_refused = if all_known && !any_refused { "; no write was rejected or unknown" } else { "" };
    body.note = Text::from(format!(
        "ledger: acknowledged writes, looked for in the end; lost at most: upper bound with 95 % confidence{none_refused}"
    ));
    let columns = [
        vec![words("trial")],
        ["answers", "missing", "wrong", "acknowledged"].map(numbers).to_vec(),
        vec![numbers("read back").when(full), numbers("lost"), numbers("wrong")],
        ["rejected", "unknown"].map(|head| numbers(head).when(any_refused)).to_vec(),
        vec![numbers("lost at most")],
    ];
    let mut table = Table::new("Answers and ledger", columns.concat());
    let mut examples = Vec::new();
    for trial in &view.trials {
        let mut cells = cells![&trial.name];
        match &trial.answers_total {
            Some(total) => cells.extend(cells![number::count(total.answers), bad(total.missing), bad(total.wrong)]),
            None => cells.extend([NONE; 3].map(Cell::from)),
        }
        // Several ledgers are about the same writes: the worst counts, as in the verdict.
        match trial.most_lost().zip(trial.most_wrong()) {
            Some((lost, wrong)) => cells.extend(ledger_cells(lost, wrong)),
            None => cells.extend([NONE; 7].map(Cell::from)),
        }
        if trial.answers_total.is_some() || !trial.ledgers.is_empty() {
            table.row(cells);
        }
        let answers = trial.answers.iter().flat_map(|answer| &answer.examples);
        let ledgers = trial.ledgers.iter().flat_map(|ledger| &ledger.examples);
        examples.extend(answers.chain(ledgers).map(|example| format!("{}: {example}", trial.name)));
    }
    if full && view.promises.is_empty() {
        body.text(broken_with(view));
    }
    body.table(table);
    let left_out = if full { 0 } else { examples.len().saturating_sub(EXAMPLES_MAX) };
    examples.truncate(examples.len() - left_out);
    body.list(Tone::Bad, examples);
    body.left_out(left_out);
    if full {
        answers_by_phase(view, &mut body);
    }
    body
}

/// Returns the cells of a ledger, with the wrong records of another one.
fn ledger_cells(ledger: &LedgerView, wrong: &LedgerView) -> Vec<Cell> {
    let window = ledger.lost_window_s.map(|(from_s, to_s)| format!("acknowledged from {from_s:.2} s to {to_s:.2} s"));
    let read = (ledger.read_then_lost > 0).then(|| format!("{} read, then lost", number::count(ledger.read_then_lost)));
    let kinds = wrong.wrong.iter().filter(|(_, n)| **n > 0);
    let kinds = kinds.map(|(name, n)| format!("{} {}", number::count(*n), name.replace('_', " ")));
    let at_most = match ledger.loss_upper_bound {
        _ if !ledger.complete => Tone::Bad.text(NOT_KNOWN),
        bound => or_none(bound.map(|bound| format!("{} %", number::significant(bound * 100.0)))).into(),
    };
    cells![
        number::count(ledger.acknowledged),
        number::count(ledger.read_back),
        known(ledger.lost).with(window).with(read),
        bad(wrong.wrong_total).with(kinds),
        number::count(ledger.rejected),
        number::count(ledger.unknown),
        at_most,
    ]
}

/// Reports the consequences of disk faults.
pub fn disk_faults(view: &RunView) -> Body<'_> {
    let mut body = Body::noted(
        "The disk had faults under load. Errors: operations that the store refused, or whose outcome is unknown, from \
         the beginning of the phase in which the fault began. Wrong answers: records in answers that were missing, or \
         not as they had been written.",
    );
    let noticed = |one: &DiskFaultView| match one.harm() {
        _ if !one.noticed.is_empty() => Tone::Open,
        Some(0) => Tone::Good,
        Some(_) => Tone::Bad,
        None => Tone::Open,
    };
    let named = |one: &DiskFaultView| {
        let faults = one.faults.iter().filter(|fault| !one.name.contains(fault.as_str()));
        Cell::from(&one.name).with(faults.cloned())
    };
    let columns: [ColumnOf<'_, DiskFaultView>; 7] = [
        (words("trial"), &named),
        (words("noticed by"), &|one| noticed(one).text(one.noticed_by()).into()),
        (numbers("errors"), &|one| number::count(one.errors).into()),
        (numbers("wrong answers"), &|one| bad(one.wrong_answers)),
        (numbers("lost"), &|one| known(one.lost)),
        (numbers("damaged"), &|one| known(one.damaged)),
        (words("said").spare(1), &|one| one.said.join("; ").into()),
    ];
    body.table(Table::of("Disk faults", &view.disk_faults, &columns));
    body
}

/// Open where something is wrong, so that it is seen at once and on paper.
fn answers_by_phase<'v>(view: &'v RunView, body: &mut Body<'_>) {
    let rows = view.trials.iter().flat_map(|trial| trial.answers.iter().map(move |one| (trial, one)));
    let rows: Vec<(&TrialView, &AnswerView)> = rows.collect();
    let any_wrong = rows.iter().any(|(_, answer)| answer.counts.missing + answer.counts.wrong > 0);
    let columns: [ColumnOf<'_, (&'v TrialView, &'v AnswerView)>; 8] = [
        (words("trial"), &|(trial, _)| (&trial.name).into()),
        (words("phase"), &|(_, answer)| (&answer.phase).into()),
        (words("operation"), &|(_, answer)| (&answer.op).into()),
        (numbers("answers"), &|(_, answer)| number::count(answer.counts.answers).into()),
        (numbers("records expected"), &|(_, answer)| number::count(answer.counts.expected).into()),
        (numbers("got"), &|(_, answer)| number::count(answer.counts.got).into()),
        (numbers("missing"), &|(_, answer)| bad(answer.counts.missing)),
        (numbers("wrong"), &|(_, answer)| bad(answer.counts.wrong)),
    ];
    let mut inside = Body::default();
    inside.table(Table::of("Answers by phase", &rows, &columns));
    body.fold("Answers by phase", any_wrong, inside);
}

/// A count that should be zero, if it is known.
pub fn known(n: Option<u64>) -> Cell {
    n.map_or_else(|| Tone::Open.text(NOT_KNOWN).into(), bad)
}

/// Names all settings with which data was lost or wrong; empty if none are known.
pub fn broken_with(view: &RunView) -> Text {
    if view.broken_with.is_empty() {
        return Text::default();
    }
    Tone::Strong.text(format!("Data was lost or wrong only with {}.", number::list(&view.broken_with)))
}

/// A count that should be zero.
pub fn bad(n: u64) -> Cell {
    if n > 0 { Tone::Bad.text(number::count(n)).into() } else { "0".into() }
}
