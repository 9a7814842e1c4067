//! The report as text: verdict first, then what it rests on, the figures beside the published ones, and tables.

mod ab;
mod line;
mod sweep;
pub mod table;

use owo_colors::{OwoColorize, Style};
use plimsoll_analysis::RunView;
use plimsoll_analysis::number;
use plimsoll_analysis::view::{
    EventClass, FigureView, GoalState, LatencyView, Level, PhaseKind, PhaseView, SettingView, TrialView,
    UndisturbedView, VerdictState,
};
use plimsoll_core::shown::clean;

use crate::by_next;

use self::table::{Cell, Side, Table, wrap};

/// Examples of what is wrong that are printed; the page has all that were recorded.
const EXAMPLES_MAX: usize = 10;

/// Phases of which it is said what was seen of the machine's pauses; the page has all.
const PAUSES_MAX: usize = 6;

struct Text {
    out: String,
    colour: bool,
    width: usize,
}

/// What the program calls a store's plan for an operation.
const PLAN_OF_STORE: &str = "plan of the store";

/// See [`crate::terminal`].
pub fn text(view: &RunView, colour: bool, width: usize) -> String {
    let mut text = Text { out: String::new(), colour, width: width.max(40) };
    text.verdict(view);
    text.goals(view);
    text.lines(view);
    text.ab(view);
    text.sweeps(view);
    text.stalls(view);
    text.figures(view);
    text.truth(view);
    text.space(view);
    text.ways(view);
    text.settings(view);
    text.latencies(view);
    text.steps(view);
    text.notes(view);
    text.out
}

impl Text {
    fn line(&mut self, line: &str) {
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn styled(&self, text: &str, style: Style) -> String {
        if self.colour { text.style(style).to_string() } else { text.to_string() }
    }

    /// A paragraph, wrapped; the first line begins with `first`, the others with as many blanks.
    fn paragraph(&mut self, first: &str, first_style: Style, text: &str, style: Style) {
        let indent = table::width_of(first);
        for (at, line) in wrap(&clean(text), self.width.saturating_sub(indent)).into_iter().enumerate() {
            let start = if at == 0 { self.styled(first, first_style) } else { " ".repeat(indent) };
            let line = format!("{start}{}", self.styled(&line, style));
            self.line(&line);
        }
    }

    fn heading(&mut self, heading: &str, note: &str) {
        let heading = self.styled(heading, Style::new().bold());
        let note = if note.is_empty() {
            String::new()
        } else {
            self.styled(&format!("  {}", clean(note)), Style::new().dimmed())
        };
        self.line("");
        self.line(&format!("{heading}{note}"));
    }

    fn table(&mut self, heading: &str, note: &str, table: &Table) {
        if table.is_empty() {
            return;
        }
        self.heading(heading, note);
        for line in table.lines(self.colour, self.width) {
            self.line(&line);
        }
    }

    fn verdict(&mut self, view: &RunView) {
        let (word, style) = match view.verdict.state {
            VerdictState::Pass => ("PASS", Style::new().green().bold()),
            VerdictState::Fail => ("FAIL", Style::new().red().bold()),
            VerdictState::Incomplete => ("INCOMPLETE", Style::new().yellow().bold()),
            VerdictState::Undecided => ("UNDECIDED", Style::new().yellow().bold()),
        };
        self.paragraph(&format!("{word}  "), style, &view.verdict.sentence, Style::new().bold());
        let indent = " ".repeat(word.len() + 2);
        if view.verdict.reasons.len() > 1 {
            for reason in &view.verdict.reasons {
                self.paragraph(&format!("{indent}- "), Style::new(), reason, Style::new());
            }
        }
        let about = format!("{} · run {} · {} · seed {}", view.run.title, view.run.id, view.run.started, view.run.seed);
        self.paragraph(&indent, Style::new(), &about, Style::new().dimmed());
    }

    fn goals(&mut self, view: &RunView) {
        let mut table = Table::new(vec![
            ("goal".into(), Side::Left),
            ("wanted".into(), Side::Right),
            ("got".into(), Side::Right),
            ("n".into(), Side::Right),
            (String::new(), Side::Left),
        ]);
        for goal in &view.goals {
            let (word, style) = match goal.state {
                GoalState::Held => ("held", Style::new().green()),
                GoalState::Missed => ("MISSED", Style::new().red().bold()),
                GoalState::Undecided => ("undecided", Style::new().yellow()),
                GoalState::NotMeasured => ("not measured everywhere", Style::new().yellow()),
            };
            table.row(vec![
                Cell::new(&goal.text),
                Cell::new(&goal.wanted),
                Cell::new(&goal.got_text),
                Cell::new(number::count(goal.n)),
                Cell::styled(word, style),
            ]);
        }
        self.table("Goals", "the worst of all trials", &table);
    }

    fn stalls(&mut self, view: &RunView) {
        if view.stalls.is_empty() {
            return;
        }
        self.heading("Stalls", "seconds that the mean hides, and what else was so in them");
        for stalls in &view.stalls {
            self.paragraph("  - ", Style::new(), &stalls.sentence, Style::new());
        }
    }

    fn figures(&mut self, view: &RunView) {
        let mut head = vec![("figure".to_string(), Side::Left)];
        for store in &view.stores {
            head.push((store.clone(), Side::Right));
            head.push(("n".into(), Side::Right));
        }
        let any_published = view.figures.iter().any(FigureView::has_published);
        if any_published {
            head.push(("published".into(), Side::Left));
        }
        let mut table = Table::new(head);
        for figure in &view.figures {
            for row in &figure.rows {
                let labels: Vec<String> = row.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let name = if labels.is_empty() {
                    figure.name.clone()
                } else {
                    format!("{}, {}", figure.name, labels.join(", "))
                };
                let mut cells = vec![Cell::new(name)];
                for cell in &row.cells {
                    cells.push(Cell::styled(&cell.text, Style::new().bold()));
                    let n = if cell.value.is_some() { number::count(cell.n) } else { String::new() };
                    cells.push(Cell::styled(n, Style::new().dimmed()));
                }
                if any_published {
                    let published: Vec<String> = figure
                        .published
                        .iter()
                        .chain(&row.published)
                        .map(|published| format!("{} {}", published.text, published.of))
                        .collect();
                    cells.push(Cell::styled(published.join("; "), Style::new().dimmed()));
                }
                table.row(cells);
            }
        }
        self.table("Figures", &durability(view), &table);
    }

    fn truth(&mut self, view: &RunView) {
        // A search has a trial for each rung: a table of them says no more.
        if let Some(truth) = &view.truth {
            self.heading("Answers and ledger", "");
            self.paragraph("  ", Style::new(), truth, Style::new());
            return;
        }
        let ledgers = || view.trials.iter().flat_map(|trial| &trial.ledgers);
        let any_refused = ledgers().any(|ledger| ledger.rejected + ledger.unknown > 0);
        let mut head = vec![
            ("trial".to_string(), Side::Left),
            ("answers".to_string(), Side::Right),
            ("missing".to_string(), Side::Right),
            ("wrong".to_string(), Side::Right),
            ("acknowledged".to_string(), Side::Right),
            ("lost".to_string(), Side::Right),
            ("wrong".to_string(), Side::Right),
        ];
        if any_refused {
            head.extend([("rejected".to_string(), Side::Right), ("unknown".to_string(), Side::Right)]);
        }
        head.push(("lost at most".to_string(), Side::Right));
        let mut table = Table::new(head);
        let mut examples = Vec::new();
        for trial in &view.trials {
            let mut cells = vec![Cell::new(&trial.name)];
            match &trial.answers_total {
                Some(total) => {
                    cells.extend([Cell::new(number::count(total.answers)), bad(total.missing), bad(total.wrong)]);
                }
                None => cells.extend(nothing(3)),
            }
            // A trial with several ledgers shows the last: it is about all its writes.
            match trial.ledgers.last() {
                Some(ledger) => {
                    let acknowledged = Cell::new(number::count(ledger.acknowledged));
                    cells.extend([acknowledged, bad(ledger.lost), bad(ledger.wrong_total)]);
                    if any_refused {
                        cells.extend([ledger.rejected, ledger.unknown].map(|n| Cell::new(number::count(n))));
                    }
                    cells.push(Cell::new(match ledger.loss_upper_bound {
                        _ if !ledger.complete => "not known".to_string(),
                        Some(bound) => format!("{} %", number::significant(bound * 100.0)),
                        None => "–".to_string(),
                    }));
                }
                None => cells.extend(nothing(if any_refused { 6 } else { 4 })),
            }
            if trial.answers_total.is_some() || !trial.ledgers.is_empty() {
                table.row(cells);
            }
            let answers = trial.answers.iter().flat_map(|answer| &answer.examples);
            let ledgers = trial.ledgers.iter().flat_map(|ledger| &ledger.examples);
            examples.extend(answers.chain(ledgers).map(|example| format!("{}: {example}", trial.name)));
        }
        let note = "lost at most: upper bound with 95 % confidence";
        // Where a ledger is missing nobody knows.
        let all_known = view.trials.iter().all(|trial| !trial.ledgers.is_empty());
        let note = match all_known && !any_refused {
            true => format!("{note}; no write was rejected or unknown"),
            false => note.to_string(),
        };
        self.table("Answers and ledger", &note, &table);
        for example in examples.iter().take(EXAMPLES_MAX) {
            self.paragraph("  ! ", Style::new().red(), example, Style::new());
        }
        if examples.len() > EXAMPLES_MAX {
            self.line(&format!("  and {} more in the page", number::count((examples.len() - EXAMPLES_MAX) as u64)));
        }
    }

    fn space(&mut self, view: &RunView) {
        let mut table = Table::new(vec![
            ("trial".into(), Side::Left),
            ("data".into(), Side::Right),
            ("index".into(), Side::Right),
            ("all on disk".into(), Side::Right),
            ("written per record".into(), Side::Right),
            ("/ its bytes".into(), Side::Right),
            ("version".into(), Side::Left),
        ]);
        let bytes = |bytes: Option<f64>| Cell::new(bytes.map_or("–".to_string(), number::bytes));
        // The rungs of a search are about the same data.
        let is_first = |trial: &TrialView| {
            view.trials.iter().find(|one| one.store == trial.store).is_some_and(|first| first.ordinal == trial.ordinal)
        };
        let shown = |trial: &&TrialView| (view.lines.is_empty() && view.ab.is_none()) || is_first(trial);
        for trial in view.trials.iter().filter(shown) {
            let footprint = trial.footprint.as_ref();
            if footprint.is_none() && trial.device_bytes_per_record.is_none() {
                continue;
            }
            table.row(vec![
                Cell::new(&trial.name),
                bytes(footprint.map(|footprint| footprint.data_bytes as f64)),
                bytes(footprint.and_then(|footprint| footprint.index_bytes).map(|bytes| bytes as f64)),
                bytes(footprint.and_then(|footprint| footprint.total_bytes).map(|bytes| bytes as f64)),
                bytes(trial.device_bytes_per_record),
                Cell::new(trial.write_amplification.map_or("–".to_string(), |times| number::with_unit(times, "×"))),
                Cell::new(&trial.version),
            ]);
        }
        let note = "after load and settle; written to the device by both";
        self.table("Space", note, &table);
        let sizes: Vec<_> =
            view.trials.iter().filter(shown).filter_map(|trial| Some((trial, trial.size.as_ref()?))).collect();
        if table.is_empty() && !sizes.is_empty() {
            self.heading("Space", "");
        }
        for (trial, size) in sizes {
            self.paragraph("  ", Style::new(), &format!("{}: {}", trial.name, size.sentence), Style::new());
        }
    }

    /// How each store did what it was asked, in its own words.
    fn ways(&mut self, view: &RunView) {
        let ways = view.trials.iter().flat_map(|trial| {
            let remarks = trial.remarks.iter().filter(|remark| remark.name == PLAN_OF_STORE);
            remarks.map(move |remark| (clean(&format!("{} {}", trial.name, remark.phase)), &remark.text))
        });
        let ways: Vec<_> = ways.collect();
        let width = ways.iter().map(|(place, _)| table::width_of(place)).max().unwrap_or(0);
        if !ways.is_empty() {
            self.heading("Way to the answer", "in the store's own words");
        }
        for (place, text) in ways {
            let blanks = " ".repeat(width - table::width_of(&place));
            let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            self.paragraph(&format!("  {place}{blanks}  "), Style::new(), &one_line, Style::new());
        }
    }

    /// What differs from the stores' defaults; trials of a store that say the same share a line.
    fn settings(&mut self, view: &RunView) {
        let mut said: Vec<(&str, String)> = Vec::new();
        for trial in &view.trials {
            let one = |setting: &SettingView| match &setting.default {
                Some(default) => format!("{} = {} (not {default})", setting.name, setting.value),
                None => format!("{} = {}", setting.name, setting.value),
            };
            let all = trial.settings.iter().map(one).collect::<Vec<_>>().join(", ");
            let all = if all.is_empty() { "none".to_owned() } else { all };
            if !said.contains(&(trial.store.as_str(), all.clone())) {
                said.push((&trial.store, all));
            }
        }
        if !said.is_empty() {
            self.heading("Settings", "that differ from the store's defaults");
        }
        for (store, all) in said {
            self.paragraph(&format!("  {}  ", clean(store)), Style::new(), &all, Style::new());
        }
    }

    fn latencies(&mut self, view: &RunView) {
        let mut table = Table::new(vec![
            ("trial".into(), Side::Left),
            ("phase".into(), Side::Left),
            ("op".into(), Side::Left),
            ("n".into(), Side::Right),
            ("rate".into(), Side::Right),
            ("p50".into(), Side::Right),
            ("p90".into(), Side::Right),
            ("p99".into(), Side::Right),
            ("p99.9".into(), Side::Right),
            ("max".into(), Side::Right),
        ]);
        let (mut any_missing, mut sentences) = (false, Vec::new());
        for trial in &view.trials {
            let driven = trial.phases.iter().filter(|phase| phase.kind == PhaseKind::Drive && is_shown(view, phase));
            for phase in driven {
                for row in &phase.latencies {
                    let mut cells = vec![
                        Cell::new(&trial.name),
                        Cell::new(&phase.name),
                        Cell::new(op_name(row, phase.open_loop)),
                        Cell::new(number::count(row.count)),
                        Cell::new(number::marked(number::with_unit(row.rate_per_s, "1/s"), row.late)),
                    ];
                    let time = |ns| number::marked(number::nanoseconds(ns), row.late);
                    for percentile in &row.percentiles {
                        any_missing |= percentile.ns.is_none();
                        cells.push(Cell::new(percentile.ns.map_or("–".to_string(), time)));
                    }
                    cells.push(Cell::new(time(row.max_ns)));
                    table.row(cells);
                    if let Some(undisturbed) = row.undisturbed.as_ref().filter(|other| other.count < row.count) {
                        any_missing |= undisturbed.percentiles.iter().any(|one| one.ns.is_none());
                        table.row(undisturbed_cells(trial, phase, undisturbed, row.late));
                    }
                }
                sentences.extend(phase.pauses.as_ref().map(|pauses| {
                    (pauses.paused_percent, format!("{} {}: {}", trial.name, phase.name, pauses.sentence))
                }));
            }
        }
        let note =
            if any_missing { "– needs 10 samples above it: p99 1,000, p99.9 10,000" } else { "without warm-up" };
        self.table("Latency under load", note, &table);
        if let Some(late) = &view.late {
            self.paragraph("  * ", Style::new().yellow(), &late.text, Style::new());
            self.paragraph("    ", Style::new(), &late.next, Style::new().dimmed());
        }
        self.pauses(view, sentences);
    }

    /// What was seen of the machine's pauses, of each phase; of many, where they were worst.
    fn pauses(&mut self, view: &RunView, mut sentences: Vec<(f64, String)>) {
        let left_out = sentences.len().saturating_sub(PAUSES_MAX);
        if left_out > 0 {
            sentences.sort_by(|(a, _), (b, _)| b.total_cmp(a));
            sentences.truncate(PAUSES_MAX);
        }
        for (_, sentence) in &sentences {
            self.paragraph("  ", Style::new(), sentence, Style::new().dimmed());
        }
        if left_out > 0 {
            self.line(&format!("  and {} more phases with fewer pauses", number::count(left_out as u64)));
        }
        for event in view.events.iter().filter(|event| event.kind == EventClass::Witness) {
            self.paragraph("  ", Style::new(), &event.text, Style::new().dimmed());
        }
    }

    fn steps(&mut self, view: &RunView) {
        let mut table = Table::new(vec![
            ("trial".into(), Side::Left),
            ("phase".into(), Side::Left),
            ("op".into(), Side::Left),
            ("step".into(), Side::Left),
            ("n".into(), Side::Right),
            ("errors".into(), Side::Right),
            ("mean".into(), Side::Right),
            ("p50".into(), Side::Right),
            ("p99".into(), Side::Right),
            ("share".into(), Side::Right),
        ]);
        for trial in &view.trials {
            for phase in trial.phases.iter().filter(|phase| is_shown(view, phase)) {
                for step in &phase.steps {
                    let percentile = |name: &str| {
                        let ns = step.percentiles.iter().find(|one| one.name == name).and_then(|one| one.ns);
                        Cell::new(ns.map_or("–".to_string(), number::nanoseconds))
                    };
                    table.row(vec![
                        Cell::new(&trial.name),
                        Cell::new(&phase.name),
                        Cell::new(&step.op),
                        Cell::new(&step.name),
                        Cell::new(number::count(step.count)),
                        bad(step.errors),
                        Cell::new(number::seconds(step.mean_ns / 1e9)),
                        percentile("p50"),
                        percentile("p99"),
                        Cell::new(step.share_percent.map_or("–".to_string(), |share| number::with_unit(share, "%"))),
                    ]);
                }
            }
        }
        self.table(
            "Steps within operations",
            "share: of the operations' own time, – where steps overlap (pipelines); steps are in no total",
            &table,
        );
    }

    fn notes(&mut self, view: &RunView) {
        if !view.left_out.is_empty() {
            self.heading("Left out", "");
            for left_out in &view.left_out {
                self.paragraph("  ", Style::new(), left_out, Style::new());
            }
        }
        if !view.warnings.is_empty() {
            self.heading("Doubts", "");
            for (next, texts) in by_next(&view.warnings) {
                for text in texts {
                    self.paragraph("  ? ", Style::new().yellow(), text, Style::new());
                }
                self.paragraph("    ", Style::new(), next, Style::new().dimmed());
            }
        }
        let errors: Vec<_> = view.events.iter().filter(|event| event.level != Level::Info).collect();
        if !errors.is_empty() {
            self.heading("Events", "");
            for event in errors.iter().take(20) {
                let trial = event.trial.as_ref().map_or(String::new(), |trial| format!("{trial}: "));
                let first = format!("  {:>8.2} s  ", event.at_s);
                self.paragraph(&first, Style::new().dimmed(), &format!("{trial}{}", event.text), Style::new());
            }
            if errors.len() > 20 {
                self.line(&format!("  and {} more", number::count(errors.len() as u64 - 20)));
            }
        }
    }
}

/// The row below the one that has what was seen: the same without what pauses of the machine disturbed.
fn undisturbed_cells(trial: &TrialView, phase: &PhaseView, undisturbed: &UndisturbedView, late: bool) -> Vec<Cell> {
    let time = |ns| number::marked(number::nanoseconds(ns), late);
    let mut cells = [&trial.name, &phase.name, "  undisturbed"]
        .map(|text: &str| Cell::styled(text, Style::new().dimmed()))
        .to_vec();
    cells.push(Cell::new(number::count(undisturbed.count)));
    cells.push(Cell::new(""));
    let percentiles = undisturbed.percentiles.iter();
    cells.extend(percentiles.map(|one| Cell::new(one.ns.map_or("–".to_string(), time))));
    cells.push(Cell::new(time(undisturbed.max_ns)));
    cells
}

/// Whether a phase stands in the tables of phases: rungs and turns stand in tables of their own, and with every kind of
/// operation in the page.
fn is_shown(view: &RunView, phase: &PhaseView) -> bool {
    view.ab.is_none() && (view.lines.is_empty() || phase.rung.is_none())
}

/// A count that should be zero.
fn bad(n: u64) -> Cell {
    Cell::styled(number::count(n), if n > 0 { Style::new().red().bold() } else { Style::new() })
}

/// Cells of what was not checked.
fn nothing(cells: usize) -> impl Iterator<Item = Cell> {
    std::iter::repeat_n(Cell::new("–"), cells)
}

/// The durabilities of the phases that write: `load at-end, mixed durable`.
fn durability(view: &RunView) -> String {
    let all: Vec<String> = view.durability.iter().map(|one| format!("{} {}", one.name, one.value)).collect();
    all.join(", ")
}

/// The kind, its outcome where it is not ok, and in an open loop whether the wait for a session is in it.
fn op_name(row: &LatencyView, open_loop: bool) -> String {
    let mut name = if row.op == "all" { "all kinds".to_string() } else { row.op.clone() };
    if !matches!(row.outcome.as_str(), "ok" | "all") {
        name.push_str(&format!(", {}", row.outcome.replace('_', " ")));
    }
    if open_loop && row.measure == "service" {
        name.push_str(", service time");
    }
    name
}
