//! Grouped bars of sweeps with two parameters, ours and, to the same scale, what was published for the same points.
//! Drawn here, without any script.

use plimsoll_analysis::sweep::SweepView;
use plimsoll_analysis::view::FigureView;
use plimsoll_analysis::{RunView, number};

use super::markup::{Text, esc};
use super::sweep::tick_step;

/// Width, height, and margins left and below, in the drawing's own units.
const SIZE: (f64, f64) = (760.0, 190.0);
const LEFT: f64 = 62.0;
const BELOW: f64 = 24.0;
/// Units that are operations a second.
const RATES: [&str; 4] = ["1/s", "tps", "op/s", "ops/s"];

/// One drawing: a name, and for each row of the sweep the values of its columns.
struct Drawing {
    name: String,
    note: String,
    rows: Vec<Vec<Option<f64>>>,
}

/// A group of bars for each row, a bar for each column.
pub fn grouped(view: &RunView, sweep: &SweepView) -> String {
    let ours = sweep.cells.iter().map(|row| row.iter().map(|cell| cell.as_ref().map(|cell| cell.value)).collect());
    let n = sweep.cells.iter().flatten().flatten().map(|cell| cell.n);
    let n = (n.clone().min().unwrap_or(0), n.max().unwrap_or(0));
    let n = if n.0 == n.1 { format!("n = {} each", n.0) } else { format!("n = {} to {} each", n.0, n.1) };
    let mut drawings =
        vec![Drawing { name: "Throughput".to_string(), note: format!("a second, medians, {n}"), rows: ours.collect() }];
    drawings.extend(published(view, sweep));
    let values = drawings.iter().flat_map(|drawing| drawing.rows.iter().flatten().flatten());
    let top = values.copied().fold(0.0, f64::max) * 1.05;
    let mut out = String::from("<figure class=\"bars\">");
    for drawing in &drawings {
        out.push_str(&one(sweep, drawing, top));
    }
    out.push_str(&legend(sweep));
    out.push_str("</figure>");
    out
}

/// What was published for the sweep's points, one drawing for each thing that it was measured on.
fn published(view: &RunView, sweep: &SweepView) -> Vec<Drawing> {
    let figures: Vec<&FigureView> =
        view.figures.iter().filter(|figure| RATES.contains(&figure.unit.as_str())).collect();
    let mut names: Vec<&str> = Vec::new();
    for published in figures.iter().flat_map(|figure| &figure.rows).flat_map(|row| &row.published) {
        if !names.contains(&published.of.as_str()) {
            names.push(&published.of);
        }
    }
    let at = |of: &str, row: &str, column: &str| {
        let rows = figures.iter().flat_map(|figure| &figure.rows);
        let mut here = rows.filter(|one| {
            one.labels.get(&sweep.row_label).is_some_and(|label| label == row)
                && one.labels.get(&sweep.column_label).is_some_and(|label| label == column)
        });
        here.find_map(|one| one.published.iter().find(|published| published.of == of)).map(|published| published.value)
    };
    names
        .iter()
        .map(|of| Drawing {
            name: (*of).to_string(),
            note: "as published, to the same scale".to_string(),
            rows: sweep
                .rows
                .iter()
                .map(|row| sweep.columns.iter().map(|column| at(of, row, column)).collect())
                .collect(),
        })
        .filter(|drawing| drawing.rows.iter().flatten().any(Option::is_some))
        .collect()
}

fn one(sweep: &SweepView, drawing: &Drawing, top: f64) -> String {
    let (width, height) = SIZE;
    let bottom = height - BELOW;
    let y = |value: f64| bottom - value / top.max(f64::MIN_POSITIVE) * (bottom - 6.0);
    let mut svg = format!(
        "<figcaption>{} <span>{}</span></figcaption><svg viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"{0}: bars by {}, grouped by {}\">",
        Text(&drawing.name),
        Text(&drawing.note),
        Text(&sweep.column_label),
        Text(&sweep.row_label)
    );
    let step = tick_step(top);
    for tick in (0..=10).map(f64::from).take_while(|tick| tick * step <= top) {
        svg.push_str(&format!(
            "<path class=\"grid\" d=\"M{LEFT} {0:.1}H{width}\"/><text class=\"tick\" x=\"{1}\" y=\"{2:.1}\">{3}</text>",
            y(step * tick),
            LEFT - 6.0,
            y(step * tick) + 3.5,
            number::significant(step * tick)
        ));
    }
    let room = (width - LEFT - 6.0) / sweep.rows.len().max(1) as f64;
    let bar = room * 0.84 / sweep.columns.len().max(1) as f64;
    for (at, (row, values)) in sweep.rows.iter().zip(&drawing.rows).enumerate() {
        let from = LEFT + room * (at as f64 + 0.08);
        for (position, value) in values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?))) {
            svg.push_str(&format!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill-opacity=\"{:.2}\"><title>{} {}, {} {}: \
                 {}/s</title></rect>",
                from + bar * position as f64,
                y(value),
                (bar - 0.8).max(0.8),
                bottom - y(value),
                shade(position, sweep.columns.len()),
                Text(&sweep.row_label),
                Text(row),
                Text(&sweep.column_label),
                Text(sweep.columns.get(position).map_or("", String::as_str)),
                number::significant(value)
            ));
        }
        svg.push_str(&format!(
            "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT + room * (at as f64 + 0.5),
            height - 8.0,
            Text(row)
        ));
    }
    svg.push_str("</svg>");
    svg
}

/// From light to full along the columns.
fn shade(position: usize, of: usize) -> f64 {
    if of < 2 { 1.0 } else { 0.3 + 0.7 * position as f64 / (of - 1) as f64 }
}

fn legend(sweep: &SweepView) -> String {
    let keys: String = sweep
        .columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            format!(
                "<span><svg viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect width=\"10\" height=\"10\" \
                 fill-opacity=\"{:.2}\"/></svg>{}</span> ",
                shade(at, sweep.columns.len()),
                esc(column)
            )
        })
        .collect();
    format!("<p class=\"keys\">{}: {keys}· groups: {}</p>", Text(&sweep.column_label), Text(&sweep.row_label))
}
