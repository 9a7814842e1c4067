//! Runs of many trials that are one question: the search for the load line, two sides in turn, sweeps.

use plimsoll_analysis::view::{AbMetricView, AbView, Decision, GoalSeen, LineView, RungState, SweepCell, SweepView};
use plimsoll_analysis::{RunView, latency, number};

use super::comparison::{conditions, differences, interval, percent, value};
use super::{Body, Cell, ColumnOf, NONE, Picture, Table, Text, Tone, numbers, or_none, words};
use crate::cells;

/// Parts with a name each: of one it stands behind the section's title, of several each has a heading.
fn each<'a>(mut parts: Vec<(Text, Body<'a>)>) -> Body<'a> {
    if let [(name, body)] = parts.as_mut_slice() {
        body.note = std::mem::take(name);
        return std::mem::take(body);
    }
    let mut all = Body::default();
    for (name, body) in parts {
        all.heading(name, "");
        all.blocks.extend(body.blocks);
    }
    all
}

/// Reports each search for the load line: its sentence, its curves, its rungs.
pub fn lines(view: &RunView, full: bool) -> Body<'_> {
    each(
        view.lines
            .iter()
            .map(|line| {
                (
                    Text::from(format!("{}: the highest rate at which every goal holds", line.store)),
                    one_line(view, line, full),
                )
            })
            .collect(),
    )
}

fn one_line<'a>(view: &RunView, line: &'a LineView, full: bool) -> Body<'a> {
    let mut body = Body::default();
    let result = &line.result;
    // The verdict above says it of a single one, with the store's name.
    let first = result.sentence.chars().next().map_or(0, char::len_utf8);
    let said = result.sentence.strip_prefix("What it ").unwrap_or(&result.sentence[first..]);
    if view.lines.len() > 1 || !view.verdict.sentence.ends_with(said) {
        body.text(Tone::Strong.text(&result.sentence));
    }
    if let Some(words) = &result.cycle_words {
        body.text(format!("{words}."));
    }
    if full {
        body.list(Tone::Dim, result.causes.iter().skip(1).map(|cause| format!("Also: {}.", cause.text)));
        body.pictures("pair", vec![Picture::Chart(&line.done), Picture::Chart(&line.latency)]);
        body.pictures("pair", line.costs.iter().map(Picture::Chart).collect());
    }
    // A closed loop has no faults, and no goals on them.
    let goals = line.rungs.iter().map(|rung| rung.goals.as_slice()).max_by_key(|goals| goals.len()).unwrap_or_default();
    let mut columns = vec![numbers("load step"), words("for")];
    columns.extend(["asked", "done", "time", "n"].map(numbers));
    columns.extend(goals.iter().map(|goal| numbers(goal.limit_words())));
    columns.extend([numbers("cycles").when(result.cycles.is_some()), words("")]);
    let mut table = Table::new("Load steps", columns);
    for rung in &line.rungs {
        let mut cells = cells![
            number::count(u64::from(rung.rung.ordinal) + 1),
            rung.rung.purpose.name(),
            rung.rung.asked_words(),
            number::with_unit(rung.rate_per_s, "1/s"),
            number::seconds(rung.rung.seconds),
            number::count(rung.n),
        ];
        let its = |goal: &GoalSeen| rung.goals.iter().find(|one| (one.what, &one.of) == (goal.what, &goal.of));
        cells.extend(goals.iter().map(|goal| match its(goal).map(|one| (one, one.value_words())) {
            Some((_, Some(value))) => value.into(),
            Some((one, None)) => Cell::why(NONE, one.missing.as_ref()),
            None => NONE.into(),
        }));
        let tone = match rung.state {
            RungState::Held => Tone::Good,
            RungState::Failed => Tone::Bad,
            _ => Tone::Open,
        };
        cells.extend(cells![number::count(rung.cycles as u64), tone.text(rung.state.name().replace('_', " "))]);
        table.row(cells);
    }
    body.table(table);
    body.list(Tone::Dim, &line.notes);
    body
}

/// Reports two sides in turn: the differences, the numbers of both, the conditions, the pairs.
pub fn ab(view: &RunView, full: bool) -> Body<'_> {
    let mut body = Body::default();
    let Some(ab) = &view.ab else { return body };
    // The verdict above says it of a comparison that came to its end.
    if view.verdict.sentence != ab.sentence {
        body.text(Tone::Strong.text(&ab.sentence));
    }
    body.pairs([("A", &ab.sides[0]), ("B", &ab.sides[1])]);
    body.heading("Configured differently", if ab.differences.is_empty() { "nothing" } else { "" });
    body.table(differences(&ab.differences));
    body.heading(
        "Both sides",
        format!(
            "medians of turns, change by pairs; {} in {}; a difference below {} % does not matter",
            number::plural(ab.pairs, "pair", "pairs"),
            number::seconds(ab.seconds),
            number::significant(ab.difference_percent)
        ),
    );
    body.table(both_sides(ab));
    let word = |met| match met {
        Some(true) => "failed",
        Some(false) => "ok",
        None => "undecided",
    };
    body.table(conditions(ab.rules.iter().map(|rule| (word(rule.met), Text::from(&rule.rule), Vec::new()))));
    if full {
        body.pictures("wide", ab.charts.iter().map(Picture::Chart).collect());
    }
    body.list(Tone::Dim, &ab.notes);
    body
}

fn both_sides<'v>(ab: &'v AbView) -> Table {
    let is_seen = |metric: &&AbMetricView| metric.asked || (metric.pairs > 0 && !is_told_by_its_twin(ab, metric));
    let shown: Vec<_> = ab.metrics.iter().filter(is_seen).collect();
    let columns: [ColumnOf<'_, &'v AbMetricView>; 9] = [
        (words(""), &|metric| metric_name(&shown, metric).into()),
        (numbers("A"), &|metric| value(&metric.a).into()),
        (numbers("B"), &|metric| value(&metric.b).into()),
        (numbers("change"), &|metric| percent(metric.change_percent).into()),
        (numbers("95 % interval"), &|metric| interval(metric.interval_percent).into()),
        (numbers("pairs"), &|metric| number::count(metric.pairs).into()),
        (numbers("n of A"), &|metric| number::count(metric.a.n).into()),
        (numbers("n of B"), &|metric| number::count(metric.b.n).into()),
        (words(""), &|metric| decision(metric).into()),
    ];
    let mut table = Table::of("Both sides: medians of turns", &shown, &columns);
    let mut cells = cells!["generator CPU"];
    cells.extend(ab.generator_percent.map(|used| or_none(used.map(|used| number::with_unit(used, "%"))).into()));
    cells.extend([NONE, NONE, "", "", "", ""].map(Cell::from));
    table.row(cells);
    table
}

/// True for a percentile that is, on both sides, within a tenth of that with or without pauses of the machine, and that
/// of the two which was not asked for or leaves out the pauses.
fn is_told_by_its_twin(ab: &AbView, metric: &AbMetricView) -> bool {
    let twin = ab.metrics.iter().find(|other| other.name == metric.name && other.undisturbed != metric.undisturbed);
    twin.filter(|twin| twin.asked || metric.undisturbed).is_some_and(|twin| {
        let sides = [(&metric.a, &twin.a), (&metric.b, &twin.b)];
        sides.iter().all(|(one, other)| match (one.value, other.value) {
            (Some(one), Some(other)) => (one - other).abs() * 10.0 <= other.abs(),
            _ => false,
        })
    })
}

/// A number's name; of a percentile with and without pauses of the machine, which it is.
fn metric_name(shown: &[&AbMetricView], metric: &AbMetricView) -> String {
    let name = latency::written(&metric.name);
    let is_twofold = shown.iter().filter(|other| other.name == metric.name).count() > 1;
    match (is_twofold, metric.undisturbed) {
        (true, false) => format!("{name} as seen"),
        (true, true) => format!("{name} undisturbed"),
        (false, _) => name,
    }
}

/// Formats the decision on a metric between two sides; empty for metrics that were not to be decided.
fn decision(metric: &AbMetricView) -> Text {
    let after = metric.decided_after.map_or(String::new(), |n| format!(", decided after {n}"));
    match metric.decision {
        _ if !metric.asked => Text::default(),
        Decision::More => Tone::Strong.text(format!("more in B{after}")),
        Decision::Less => Tone::Strong.text(format!("less in B{after}")),
        Decision::Same => Text::from(format!("no difference that matters{after}")),
        Decision::Open => Tone::Dim.text("undecided"),
    }
}

/// Reports each sweep: its table, its pictures, and the result of the scalability law.
pub fn sweeps(view: &RunView, full: bool) -> Body<'_> {
    let sweeps = view.sweeps.iter();
    each(
        sweeps.map(|sweep| (format!("{}, {}", sweep.name, sweep.phase).into(), one_sweep(view, sweep, full))).collect(),
    )
}

fn one_sweep<'a>(view: &'a RunView, sweep: &'a SweepView, full: bool) -> Body<'a> {
    let mut body = Body::default();
    if let Some(scale) = &sweep.scale {
        body.text(Tone::Strong.text(&scale.sentence));
    }
    let single = sweep.columns.len() == 1;
    let has_interval = sweep.cells.iter().flatten().flatten().any(|cell| cell.interval.is_some());
    let mut columns = vec![numbers(&sweep.row_label)];
    if single {
        columns.push(numbers("median"));
        columns.push(numbers("95 % interval").when(full && has_interval));
        columns.extend(["least", "most", "n"].map(numbers));
    } else {
        columns.extend(sweep.columns.iter().map(numbers));
        let (rows, columns) = (&sweep.row_label, &sweep.column_label);
        let note = format!("Operations a second; rows: {rows}, columns: {columns}; {}.", behind(sweep));
        body.text(Tone::Dim.text(note));
    }
    let mut table = Table::new("Throughput by point", columns);
    for (row, cells) in sweep.rows.iter().zip(&sweep.cells) {
        let mut all = cells![row];
        for cell in cells {
            match cell {
                Some(cell) if single => all.extend(of_one(cell)),
                Some(cell) => {
                    let n = format!("n = {}", cell.n);
                    all.push(Cell::why(number::marked(number::significant(cell.value), cell.late), Some(&n)));
                }
                None => all.extend(std::iter::repeat_n(Cell::from(NONE), if single { 5 } else { 1 })),
            }
        }
        table.row(all);
    }
    body.table(table);
    if full && single && !has_interval {
        body.text(Tone::Dim.text("A 95 % interval of a median needs 6 repeats of a point."));
    }
    if full {
        pictures(view, sweep, &mut body);
    }
    body
}

fn of_one(cell: &SweepCell) -> Vec<Cell> {
    let rate = |value: f64| number::with_unit(value, "1/s");
    let interval = or_none(cell.interval.map(|(low, high)| format!("{} to {}", rate(low), rate(high))));
    cells![Tone::Strong.text(&cell.text), interval, rate(cell.range.0), rate(cell.range.1), number::count(cell.n)]
}

fn pictures<'a>(view: &'a RunView, sweep: &'a SweepView, body: &mut Body<'a>) {
    let single = sweep.columns.len() == 1;
    let mut large = Vec::new();
    match (&sweep.scale, &sweep.chart) {
        (Some(scale), _) => large.push(Picture::Chart(&scale.chart)),
        (None, _) if !single => large.push(Picture::Bars(view, sweep)),
        (None, chart) => large.extend(chart.as_ref().map(Picture::Chart)),
    }
    if !sweep.boxes.is_empty() {
        large.push(Picture::Boxes(sweep));
    }
    body.pictures(if single { "pair" } else { "wide" }, large);
    body.pictures("small", sweep.multiples.iter().map(Picture::Chart).collect());
}

/// Returns the number of trials of a cell.
fn behind(sweep: &SweepView) -> String {
    let n = || sweep.cells.iter().flatten().flatten().map(|cell| cell.n);
    match (n().min().unwrap_or(0), n().max().unwrap_or(0)) {
        (_, 0 | 1) => "one trial each".to_string(),
        (least, most) if least == most => format!("medians of {} trials each", number::count(most)),
        (least, most) => format!("medians of {} to {} trials", number::count(least), number::count(most)),
    }
}
