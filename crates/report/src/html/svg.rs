//! Pictures that need no script: grouped bars and box plots of sweeps.

use std::collections::BTreeSet;

use plimsoll_analysis::view::{FigureView, SweepView};
use plimsoll_analysis::{RunView, number};

use super::write::Esc;

/// Margins to the left, below and above, in a drawing's own units.
const LEFT: f64 = 62.0;
const BELOW: f64 = 26.0;
const ABOVE: f64 = 8.0;
/// Units that are operations a second.
const RATES: [&str; 4] = ["1/s", "tps", "op/s", "ops/s"];

/// An empty drawing from 0 to `top`, with room for a number of groups.
struct Plane {
    width: f64,
    height: f64,
    top: f64,
    groups: usize,
}

impl Plane {
    fn bottom(&self) -> f64 {
        self.height - BELOW
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom() - value / self.top.max(f64::MIN_POSITIVE) * (self.bottom() - ABOVE)
    }

    /// Width of a group.
    fn room(&self) -> f64 {
        (self.width - LEFT - ABOVE) / self.groups.max(1) as f64
    }

    /// The drawing under its caption: a grid, `marks`, and the groups' names.
    fn drawn<'n>(
        &self,
        caption: &str,
        note: &str,
        label: &str,
        marks: &str,
        names: impl Iterator<Item = &'n String>,
    ) -> String {
        let mut svg = format!(
            "<figcaption>{} <span>{}</span></figcaption><svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">",
            Esc(caption),
            Esc(note),
            self.width,
            self.height,
            Esc(label)
        );
        let step = tick_step(self.top);
        for value in (0..=10).map(|tick| f64::from(tick) * step).take_while(|value| *value <= self.top) {
            svg.push_str(&format!(
                "<path class=\"grid\" d=\"M{LEFT} {0:.1}H{1}\"/><text class=\"tick\" x=\"{2}\" y=\"{3:.1}\">{4}</text>",
                self.y(value),
                self.width,
                LEFT - 6.0,
                self.y(value) + 3.5,
                number::significant(value)
            ));
        }
        svg.push_str(marks);
        for (at, name) in names.enumerate() {
            let x = LEFT + self.room() * (at as f64 + 0.5);
            let y = self.height - 9.0;
            svg.push_str(&format!("<text class=\"name\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", Esc(name)));
        }
        svg + "</svg>"
    }
}

/// 1, 2 or 5 times a power of ten, four to nine of them below `top`.
fn tick_step(top: f64) -> f64 {
    let rough = (top / 4.0).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(rough.log10().floor());
    let factor = [5.0, 2.0].into_iter().find(|factor| factor * power <= rough).unwrap_or(1.0);
    factor * power
}

/// A box for each row of a sweep.
pub fn boxes(sweep: &SweepView) -> String {
    let top = sweep.boxes.iter().map(|one| one.five[4]).fold(0.0, f64::max) * 1.05;
    let plane = Plane { width: 520.0, height: 250.0, top, groups: sweep.boxes.len() };
    let width = (plane.room() * 0.6).min(46.0);
    let mut marks = String::new();
    for (at, one) in sweep.boxes.iter().enumerate() {
        let x = LEFT + plane.room() * (at as f64 + 0.5);
        let [low, first, median, third, high] = one.five.map(|value| plane.y(value));
        let from = x - width / 2.0;
        marks.push_str(&format!(
            "<g class=\"box\"><title>{}: {}, n = {}</title><path d=\"M{x:.1} {low:.1}V{first:.1}M{x:.1} {third:.1}V{high:.1}\"/>\
             <rect x=\"{from:.1}\" y=\"{third:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/>\
             <path class=\"median\" d=\"M{from:.1} {median:.1}h{width:.1}\"/></g>",
            Esc(&one.name),
            one.five.map(number::significant).join(", "),
            one.n,
            (first - third).max(0.5),
        ));
    }
    let note = format!("a second, by {}: five trials or more of each, box from quartile to quartile", sweep.row_label);
    let label = format!("Box plot by {}", sweep.row_label);
    let drawn = plane.drawn("Spread", &note, &label, &marks, sweep.boxes.iter().map(|one| &one.name));
    format!("<figure class=\"boxes\">{drawn}</figure>")
}

/// A drawing: a name, and for each row of the sweep the values of its columns.
struct Drawing {
    name: String,
    note: String,
    rows: Vec<Vec<Option<f64>>>,
}

/// A group of bars for each row of a sweep, a bar for each column; ours and, to the same scale, what was published for
/// the same points.
pub fn bars(view: &RunView, sweep: &SweepView) -> String {
    let ours = sweep.cells.iter().map(|row| row.iter().map(|cell| cell.as_ref().map(|cell| cell.value)).collect());
    let n = sweep.cells.iter().flatten().flatten().map(|cell| cell.n);
    let n = (n.clone().min().unwrap_or(0), n.max().unwrap_or(0));
    let n = if n.0 == n.1 { format!("n = {} each", n.0) } else { format!("n = {} to {} each", n.0, n.1) };
    let mut drawings =
        vec![Drawing { name: "Throughput".to_string(), note: format!("a second, medians, {n}"), rows: ours.collect() }];
    drawings.extend(published(view, sweep));
    let values = drawings.iter().flat_map(|drawing| drawing.rows.iter().flatten().flatten());
    let top = values.copied().fold(0.0, f64::max) * 1.05;
    let plane = Plane { width: 760.0, height: 190.0, top, groups: sweep.rows.len() };
    let drawn: String = drawings.iter().map(|drawing| one(&plane, sweep, drawing)).collect();
    format!("<figure class=\"bars\">{drawn}{}</figure>", legend(sweep))
}

/// Returns the published figures for the sweep's points, one drawing for each system that they were measured on.
fn published(view: &RunView, sweep: &SweepView) -> Vec<Drawing> {
    let figures: Vec<&FigureView> =
        view.figures.iter().filter(|figure| RATES.contains(&figure.unit.as_str())).collect();
    let mut known = BTreeSet::new();
    let all = figures.iter().flat_map(|figure| &figure.rows).flat_map(|row| &row.published);
    let names = all.map(|published| published.of.as_str()).filter(|of| known.insert(*of));
    let at = |of: &str, row: &str, column: &str| {
        let rows = figures.iter().flat_map(|figure| &figure.rows);
        let mut here = rows.filter(|one| {
            one.labels.get(&sweep.row_label).is_some_and(|label| label == row)
                && one.labels.get(&sweep.column_label).is_some_and(|label| label == column)
        });
        here.find_map(|one| one.published.iter().find(|published| published.of == of)).map(|published| published.value)
    };
    let values = |of: &str, row: &String| sweep.columns.iter().map(|column| at(of, row, column)).collect();
    names
        .map(|of| Drawing {
            name: of.to_string(),
            note: "as published, to the same scale".to_string(),
            rows: sweep.rows.iter().map(|row| values(of, row)).collect(),
        })
        .filter(|drawing| drawing.rows.iter().flatten().any(Option::is_some))
        .collect()
}

fn one(plane: &Plane, sweep: &SweepView, drawing: &Drawing) -> String {
    let bar = plane.room() * 0.84 / sweep.columns.len().max(1) as f64;
    let mut marks = String::new();
    for (at, (row, values)) in sweep.rows.iter().zip(&drawing.rows).enumerate() {
        let from = LEFT + plane.room() * (at as f64 + 0.08);
        for (position, value) in values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?))) {
            marks.push_str(&format!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill-opacity=\"{:.2}\"><title>{} {}, {} {}: \
                 {}/s</title></rect>",
                from + bar * position as f64,
                plane.y(value),
                (bar - 0.8).max(0.8),
                plane.bottom() - plane.y(value),
                shade(position, sweep.columns.len()),
                Esc(&sweep.row_label),
                Esc(row),
                Esc(&sweep.column_label),
                Esc(sweep.columns.get(position).map_or("", String::as_str)),
                number::significant(value)
            ));
        }
    }
    let label = format!("{}: bars by {}, grouped by {}", drawing.name, sweep.column_label, sweep.row_label);
    plane.drawn(&drawing.name, &drawing.note, &label, &marks, sweep.rows.iter())
}

/// Returns a shade from light to full along the columns.
fn shade(position: usize, of: usize) -> f64 {
    if of < 2 { 1.0 } else { 0.3 + 0.7 * position as f64 / (of - 1) as f64 }
}

fn legend(sweep: &SweepView) -> String {
    let key = |(at, column): (usize, &String)| {
        format!(
            "<span><svg viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect width=\"10\" height=\"10\" \
             fill-opacity=\"{:.2}\"/></svg>{}</span> ",
            shade(at, sweep.columns.len()),
            Esc(column)
        )
    };
    let keys: String = sweep.columns.iter().enumerate().map(key).collect();
    format!("<p class=\"keys\">{}: {keys}· groups: {}</p>", Esc(&sweep.column_label), Esc(&sweep.row_label))
}
