//! The sections that say what came of it: verdict, figures, goals, answers and ledger, latencies.

use plimsoll_analysis::RunView;
use plimsoll_analysis::number;
use plimsoll_analysis::view::{
    EventClass, FigureCell, FigureView, GoalState, LedgerView, PercentileView, PhaseKind, VerdictState,
};

use super::markup::{Table, Text, esc, list, numbers, words};

/// The verdict and what it rests on.
pub fn verdict(view: &RunView) -> String {
    let (class, word) = match view.verdict.state {
        VerdictState::Pass => ("pass", "Pass"),
        VerdictState::Fail => ("fail", "Fail"),
        VerdictState::Incomplete => ("incomplete", "Incomplete"),
        VerdictState::Undecided => ("incomplete", "Undecided"),
    };
    let reasons = if view.verdict.reasons.len() > 1 { list("reasons", &view.verdict.reasons) } else { String::new() };
    let doubts = match view.warnings.len() as u64 {
        0 => String::new(),
        n => format!(
            "<p class=\"note\"><a href=\"#doubts\">{}</a> about this run.</p>\n",
            number::plural(n, "doubt", "doubts")
        ),
    };
    format!(
        "<section class=\"verdict {class}\" aria-label=\"Verdict\">\n<p class=\"word\">{word}</p>\n<p class=\"sentence\">{}</p>\n{reasons}</section>\n{doubts}",
        Text(&view.verdict.sentence)
    )
}

/// The figures that are shown large.
pub fn headlines(view: &RunView) -> String {
    if view.headlines.is_empty() {
        return String::new();
    }
    let mut out = String::from("<section class=\"headlines\" aria-label=\"In short\">\n");
    for headline in &view.headlines {
        out.push_str(&format!("<div class=\"headline\"><h2>{}</h2><dl>", Text(&headline.name)));
        for value in &headline.values {
            out.push_str(&format!("<div><dt>{}</dt><dd>{}</dd></div>", Text(&value.name), Text(&value.value)));
        }
        let published: Vec<String> =
            headline.published.iter().map(|one| format!("{} {}", one.value, one.name)).collect();
        out.push_str(&format!("</dl><p>published: {}</p></div>\n", esc(&published.join("; "))));
    }
    out.push_str("</section>\n");
    out
}

/// The figures beside the published ones.
pub fn figures(view: &RunView) -> String {
    if view.figures.is_empty() {
        return String::new();
    }
    let mut columns = vec![words("figure")];
    columns.extend(view.stores.iter().map(|store| numbers(store)));
    let any_published = view.figures.iter().any(FigureView::has_published);
    if any_published {
        columns.push(words("published"));
    }
    let mut table = Table::new("Figures", columns);
    for figure in &view.figures {
        for row in &figure.rows {
            let labels: Vec<String> = row.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let labels = if labels.is_empty() {
                String::new()
            } else {
                format!(" <span class=\"dim\">{}</span>", esc(&labels.join(", ")))
            };
            let mut cells =
                vec![format!("<span title=\"{}\">{}</span>{labels}", Text(&figure.formula), Text(&figure.name))];
            cells.extend(row.cells.iter().map(figure_cell));
            if any_published {
                let published: Vec<String> = figure
                    .published
                    .iter()
                    .chain(&row.published)
                    .map(|one| format!("<span class=\"pub\"><b>{}</b> {}</span>", Text(&one.text), Text(&one.of)))
                    .collect();
                cells.push(published.join(" "));
            }
            table.row(cells);
        }
    }
    let mut out = String::new();
    if !view.durability.is_empty() {
        let all: Vec<String> =
            view.durability.iter().map(|one| format!("{} <b>{}</b>", Text(&one.name), Text(&one.value))).collect();
        // A plan may sweep it; then a phase is there twice.
        let mut names: Vec<&str> = view.durability.iter().map(|one| one.name.as_str()).collect();
        names.sort_unstable();
        let equal = names.windows(2).all(|pair| pair.first() != pair.last());
        let equal = if equal { ", equal for all stores" } else { "" };
        out.push_str(&format!(
            "<p class=\"note\">Durability{equal}: {}. Small: observations behind a value.</p>\n",
            all.join(", ")
        ));
    }
    out.push_str(&table.html());
    let formulas: String = view
        .figures
        .iter()
        .map(|figure| {
            format!("<div><dt>{}</dt><dd><code>{}</code></dd></div>", Text(&figure.name), Text(&figure.formula))
        })
        .collect();
    out.push_str(&format!(
        "<details><summary>How the figures are calculated</summary><dl class=\"pairs\">{formulas}</dl></details>\n"
    ));
    out
}

fn figure_cell(cell: &FigureCell) -> String {
    match &cell.missing {
        None => format!("<b>{}</b> <small>n {}</small>", Text(&cell.text), number::count(cell.n)),
        Some(why) => format!("<span class=\"dim\" title=\"{0}\">–<span class=\"unseen\"> {0}</span></span>", Text(why)),
    }
}

/// What had to hold.
pub fn goals(view: &RunView) -> String {
    let mut table = Table::new(
        "Goals",
        vec![words("what"), numbers("wanted"), numbers("got, worst of all"), numbers("n"), words("")],
    );
    for goal in &view.goals {
        table.row(vec![
            esc(&goal.text),
            esc(&goal.wanted),
            format!("<b>{}</b>", Text(&goal.got_text)),
            number::count(goal.n),
            state(goal.state),
        ]);
    }
    let mut out = table.html();
    if view.goals.is_empty() {
        return out;
    }
    let mut each = Table::new(
        "Goals, trial by trial",
        vec![words("where"), words("what"), numbers("got"), numbers("n"), words("")],
    );
    for goal in &view.goals {
        for place in &goal.trials {
            each.row(vec![
                esc(&place.place),
                esc(&goal.text),
                esc(&place.got_text),
                number::count(place.n),
                state(place.state),
            ]);
        }
    }
    out.push_str(&format!("<details><summary>Trial by trial</summary>{}</details>\n", each.html()));
    out
}

fn state(state: GoalState) -> String {
    let (class, word) = match state {
        GoalState::Held => ("pass", "held"),
        GoalState::Missed => ("fail", "missed"),
        GoalState::Undecided => ("incomplete", "undecided"),
        GoalState::NotMeasured => ("incomplete", "not measured"),
    };
    format!("<span class=\"state {class}\">{word}</span>")
}

/// Answers against the truth, and the ledger: a row for each trial, the answers of each phase below.
pub fn truth(view: &RunView) -> String {
    let mut table = Table::new(
        "Answers and ledger",
        vec![
            words("trial"),
            numbers("answers"),
            numbers("missing"),
            numbers("wrong"),
            numbers("acknowledged"),
            numbers("read back"),
            numbers("lost"),
            numbers("wrong"),
            numbers("rejected"),
            numbers("unknown"),
            numbers("lost at most"),
        ],
    );
    let mut examples = Vec::new();
    for trial in &view.trials {
        let mut cells = vec![esc(&trial.name)];
        match &trial.answers_total {
            Some(total) => cells.extend([number::count(total.answers), bad(total.missing), bad(total.wrong)]),
            None => cells.extend(nothing(3)),
        }
        // A trial with several ledgers shows the last: it is about all its writes.
        match trial.ledgers.last() {
            Some(ledger) => cells.extend(ledger_cells(ledger)),
            None => cells.extend(nothing(7)),
        }
        if trial.answers_total.is_some() || !trial.ledgers.is_empty() {
            table.row(cells);
        }
        let answers = trial.answers.iter().flat_map(|answer| &answer.examples);
        let ledgers = trial.ledgers.iter().flat_map(|ledger| &ledger.examples);
        examples.extend(answers.chain(ledgers).map(|example| format!("{}: {example}", trial.name)));
    }
    let table = table.html();
    if table.is_empty() {
        return table;
    }
    format!(
        "<p class=\"note\">Records missing in answers or wrong in them; acknowledged writes, and what was read back when \
         all had ended. Lost at most: upper bound with 95 % confidence.</p>\n{}{table}{}",
        list("examples", &examples),
        answers_by_phase(view)
    )
}

fn ledger_cells(ledger: &LedgerView) -> [String; 7] {
    let mut wrong = bad(ledger.wrong_total);
    for (name, n) in ledger.wrong.iter().filter(|(_, n)| **n > 0) {
        wrong.push_str(&format!("<br><small>{} {}</small>", number::count(*n), esc(&name.replace('_', " "))));
    }
    let mut lost = bad(ledger.lost);
    if let Some((from_s, to_s)) = ledger.lost_window_s {
        lost.push_str(&format!("<br><small>acknowledged {from_s:.2}–{to_s:.2} s</small>"));
    }
    let at_most = match ledger.loss_upper_bound {
        _ if !ledger.complete => "<b class=\"bad\">could not keep up</b>".to_string(),
        Some(bound) => format!("{} %", number::significant(bound * 100.0)),
        None => "–".to_string(),
    };
    [
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
fn answers_by_phase(view: &RunView) -> String {
    let mut table = Table::new(
        "Answers by phase",
        vec![
            words("trial"),
            words("phase"),
            words("operation"),
            numbers("answers"),
            numbers("records expected"),
            numbers("got"),
            numbers("missing"),
            numbers("wrong"),
        ],
    );
    let mut all_right = true;
    for trial in &view.trials {
        for answer in &trial.answers {
            all_right &= answer.missing + answer.wrong == 0;
            table.row(vec![
                esc(&trial.name),
                esc(&answer.phase),
                esc(&answer.op),
                number::count(answer.answers),
                number::count(answer.expected),
                number::count(answer.got),
                bad(answer.missing),
                bad(answer.wrong),
            ]);
        }
    }
    let table = table.html();
    if table.is_empty() {
        return table;
    }
    let open = if all_right { "" } else { " open" };
    format!("<details{open}><summary>Answers by phase</summary>{table}</details>\n")
}

/// A count that should be zero.
fn bad(n: u64) -> String {
    if n > 0 { format!("<b class=\"bad\">{}</b>", number::count(n)) } else { "0".to_string() }
}

/// Cells of what was not checked.
fn nothing(cells: usize) -> impl Iterator<Item = String> {
    std::iter::repeat_n("–".to_string(), cells)
}

/// Latency of the driven phases.
pub fn latencies(view: &RunView) -> String {
    let mut table = Table::new(
        "Latency under load",
        vec![
            words("trial"),
            words("phase"),
            words("operation"),
            numbers("n"),
            numbers("rate"),
            numbers("mean"),
            numbers("p50"),
            numbers("p90"),
            numbers("p99"),
            numbers("p99.9"),
            numbers("max"),
        ],
    );
    let mut sentences = Vec::new();
    for trial in &view.trials {
        for phase in trial.phases.iter().filter(|phase| phase.kind == PhaseKind::Drive) {
            for row in &phase.latencies {
                let mut op = if row.op == "all" { "<i>all kinds</i>".to_string() } else { esc(&row.op) };
                if !matches!(row.outcome.as_str(), "ok" | "all") {
                    op.push_str(&format!(" <span class=\"dim\">{}</span>", esc(&row.outcome.replace('_', " "))));
                }
                if phase.open_loop && row.measure == "service" {
                    op.push_str(" <span class=\"dim\">service time</span>");
                }
                let mut cells = vec![
                    esc(&trial.name),
                    esc(&phase.name),
                    op,
                    number::count(row.count),
                    number::marked(number::with_unit(row.rate_per_s, "1/s"), row.late),
                    number::marked(number::seconds(row.mean_ns / 1e9), row.late),
                ];
                let shown = |one: &PercentileView| number::marked(percentile(one), row.late && one.ns.is_some());
                cells.extend(row.percentiles.iter().map(shown));
                cells.push(number::marked(number::nanoseconds(row.max_ns), row.late));
                table.row(cells);
                if let Some(undisturbed) = row.undisturbed.as_ref().filter(|other| other.count < row.count) {
                    let (trial, phase) = (esc(&trial.name), esc(&phase.name));
                    let mut cells = vec![trial, phase, "<span class=\"dim\">undisturbed</span>".to_string()];
                    cells.push(number::count(undisturbed.count));
                    let mean = number::marked(number::seconds(undisturbed.mean_ns / 1e9), row.late);
                    cells.extend([String::new(), mean]);
                    cells.extend(undisturbed.percentiles.iter().map(shown));
                    cells.push(number::marked(number::nanoseconds(undisturbed.max_ns), row.late));
                    table.row(cells);
                }
            }
            if let Some(pauses) = &phase.pauses {
                sentences.push(format!("{} {}: {}.", Text(&trial.name), Text(&phase.name), Text(&pauses.sentence)));
            }
        }
    }
    let unknown = view.events.iter().filter(|event| event.kind == EventClass::Witness);
    sentences.extend(unknown.map(|event| esc(&event.text)));
    let table = table.html();
    if table.is_empty() {
        return table;
    }
    let about = "Without warm-up. A percentile is given only with ten samples above it. Undisturbed: the same without \
                 operations that a pause of the machine held up.";
    let pauses: String = sentences.iter().map(|one| format!("<p class=\"note\">{one}</p>\n")).collect();
    let late = view
        .late
        .as_ref()
        .map_or(String::new(), |late| format!("<p class=\"note\">* {} {}</p>\n", Text(&late.text), Text(&late.next)));
    format!("<p class=\"note\">{about}</p>\n{table}{late}{pauses}{}", steps(view))
}

/// The statements of transactions, under their operations.
fn steps(view: &RunView) -> String {
    let mut table = Table::new(
        "Steps within operations",
        vec![
            words("trial"),
            words("phase"),
            words("operation"),
            words("step"),
            numbers("n"),
            numbers("errors"),
            numbers("mean"),
            numbers("p50"),
            numbers("p90"),
            numbers("p99"),
            numbers("p99.9"),
            numbers("max"),
            numbers("share"),
        ],
    );
    for trial in &view.trials {
        for phase in &trial.phases {
            for step in &phase.steps {
                let mut cells = vec![
                    esc(&trial.name),
                    esc(&phase.name),
                    esc(&step.op),
                    esc(&step.name),
                    number::count(step.count),
                    bad(step.errors),
                    number::seconds(step.mean_ns / 1e9),
                ];
                cells.extend(step.percentiles.iter().map(percentile));
                cells.push(number::nanoseconds(step.max_ns));
                cells.push(step.share_percent.map_or("–".to_string(), |share| number::with_unit(share, "%")));
                table.row(cells);
            }
        }
    }
    let table = table.html();
    if table.is_empty() {
        return table;
    }
    format!(
        "<h3>Steps within operations</h3>\n<p class=\"note\">Share: of the operations' own time. Steps are timed from \
         their sending and are in no total.</p>\n{table}"
    )
}

fn percentile(percentile: &PercentileView) -> String {
    match (percentile.ns, &percentile.missing) {
        (Some(ns), _) => number::nanoseconds(ns),
        (None, why) => {
            let why = why.as_deref().unwrap_or("");
            format!("<span class=\"dim\" title=\"{0}\">–<span class=\"unseen\"> {0}</span></span>", Text(why))
        }
    }
}
