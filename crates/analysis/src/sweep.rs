//! Sweeps: what was driven at every point, as a table of rows and columns, boxes and charts, and the scalability law of
//! sweeps over clients.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::{IndexMap, IndexSet};
use plimsoll_record::data::{PhaseKind, Run};

use crate::name::{self, REPEAT};
use crate::number;
use crate::phase::PhaseFacts;
use crate::stat::{self, interval};
use crate::usl::{self, Fit};
use crate::view::{BoxView, Chart, Line, Mark, ScaleView, SweepCell, SweepView};

/// Labels that number clients.
const CLIENTS: [&str; 2] = ["clients", "threads"];

/// Points of a fitted curve.
const CURVE_POINTS: usize = 60;

/// Returns every sweep of a run: one for each store, driven phase, and rest of the labels.
pub fn sweeps(run: &Run, facts: &[Vec<PhaseFacts<'_>>]) -> Vec<SweepView> {
    let labels = swept(run);
    let Some(row_label) = labels.iter().find(|label| CLIENTS.contains(&label.as_str())).or(labels.first()).cloned()
    else {
        return Vec::new();
    };
    let column_label = labels.iter().find(|label| **label != row_label).cloned().unwrap_or_default();
    let mut groups: IndexMap<(String, &String), Vec<Point>> = IndexMap::new();
    for (trial, facts) in run.trials.iter().zip(facts) {
        let name = name::trial_without(&trial.header, &[REPEAT, &row_label, &column_label]);
        for facts in facts.iter().filter(|facts| facts.phase.header.kind == PhaseKind::Drive) {
            let Ok(rate) = facts.quantity("rate", None) else { continue };
            let label = |label: &str| trial.header.labels.get(label).cloned().unwrap_or_default();
            let point = Point {
                row: label(&row_label),
                column: label(&column_label),
                clients: f64::from(facts.phase.header.clients),
                open: facts.open_loop,
                rate: rate.value,
                late: facts.is_moved("rate", None),
            };
            groups.entry((name.clone(), &facts.phase.header.name)).or_default().push(point);
        }
    }
    groups
        .into_iter()
        .filter(|(_, points)| values(points, |point| &point.row).len() > 1)
        .map(|((name, phase), points)| sweep(name, phase.clone(), &row_label, &column_label, &points))
        .collect()
}

struct Point {
    row: String,
    column: String,
    clients: f64,
    open: bool,
    rate: f64,
    late: bool,
}

/// Fewest measurements whose spread is drawn: a box has five numbers.
const BOXED_MIN: usize = 5;

/// Labels with several values, but stores and repeats.
fn swept(run: &Run) -> Vec<String> {
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (label, value) in run.trials.iter().flat_map(|trial| &trial.header.labels) {
        seen.entry(label).or_default().insert(value);
    }
    let several = seen.into_iter().filter(|(label, values)| values.len() > 1 && !["store", REPEAT].contains(label));
    several.map(|(label, _)| label.to_string()).collect()
}

/// Different values, as numbers where all are, else in the order in which they came.
fn values<'p>(points: &'p [Point], of: impl Fn(&'p Point) -> &'p String) -> Vec<String> {
    let mut values: IndexSet<&String> = points.iter().map(of).collect();
    let number = |value: &str| value.parse::<f64>().ok();
    if values.iter().all(|value| number(value).is_some()) {
        values.sort_by(|a, b| number(a).unwrap_or(0.0).total_cmp(&number(b).unwrap_or(0.0)));
    }
    values.into_iter().cloned().collect()
}

fn numbers(values: &[String]) -> Option<Vec<f64>> {
    values.iter().map(|value| value.parse().ok()).collect()
}

fn sweep(name: String, phase: String, row_label: &str, column_label: &str, points: &[Point]) -> SweepView {
    let rows = values(points, |point| &point.row);
    let columns = values(points, |point| &point.column);
    let at = |row: &str, column: &str| -> Vec<&Point> {
        points.iter().filter(|point| point.row == row && point.column == column).collect()
    };
    let cells: Vec<Vec<Option<SweepCell>>> =
        rows.iter().map(|row| columns.iter().map(|column| cell(&at(row, column))).collect()).collect();
    let single = columns.len() == 1;
    let rates = |row: &String| points.iter().filter(|point| point.row == *row).map(|point| point.rate).collect();
    // Several columns are several configurations.
    let boxes = rows.iter().filter(|_| single).filter_map(|row| boxed(row, rates(row))).collect();
    let (mut overview, mut multiples) = (None, Vec::new());
    if single {
        overview = numbers(&rows).map(|x| {
            let values = cells.iter().map(|row| row.first()?.as_ref().map(|cell| cell.value)).collect();
            Chart::of_points("Throughput", row_label, "1/s", x, vec![Line::new("median", values)])
        });
    } else if let Some(x) = numbers(&columns) {
        let line = |(row, cells): (&String, &Vec<Option<SweepCell>>)| {
            let values = cells.iter().map(|cell| cell.as_ref().map(|cell| cell.value)).collect();
            Line::new(format!("{row_label} {row}"), values)
        };
        let lines: Vec<Line> = rows.iter().zip(&cells).map(line).collect();
        let top = lines.iter().flat_map(|line| &line.values).flatten().copied().fold(0.0, f64::max);
        let alone = |line: &Line| {
            let median = Line { name: "median".to_string(), ..line.clone() };
            Chart { top: Some(top), ..Chart::of_points(&line.name, column_label, "1/s", x.clone(), vec![median]) }
        };
        multiples = lines.iter().map(alone).collect();
        overview = Some(Chart::of_points("Throughput", column_label, "1/s", x, lines));
    }
    let clients_only = single && CLIENTS.contains(&row_label) && points.iter().all(|point| !point.open);
    SweepView {
        name,
        phase,
        unit: "1/s".to_string(),
        row_label: row_label.to_string(),
        rows,
        column_label: column_label.to_string(),
        columns,
        cells,
        boxes,
        chart: overview,
        multiples,
        scale: clients_only.then(|| scale(points)).flatten(),
    }
}

fn cell(points: &[&Point]) -> Option<SweepCell> {
    let rates: Vec<f64> = points.iter().map(|point| point.rate).collect();
    let late = points.iter().any(|point| point.late);
    let value = stat::median(&rates)?;
    Some(SweepCell {
        value,
        text: number::marked(number::with_unit(value, "1/s"), late),
        late,
        n: rates.len() as u64,
        interval: interval::of_median(&rates).map(|interval| (interval.low, interval.high)),
        range: (rates.iter().copied().fold(f64::INFINITY, f64::min), rates.iter().copied().fold(0.0, f64::max)),
    })
}

fn boxed(name: &str, mut values: Vec<f64>) -> Option<BoxView> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    if n < BOXED_MIN {
        return None;
    }
    // Hinges: medians of the halves, the middle one belonging to both.
    let half = n.div_ceil(2);
    let (low, high) = (values.get(..half)?, values.get(n - half..)?);
    let five = [*values.first()?, stat::median(low)?, stat::median(&values)?, stat::median(high)?, *values.last()?];
    Some(BoxView { name: name.to_string(), five, n: n as u64 })
}

fn scale(points: &[Point]) -> Option<ScaleView> {
    let mut measured: Vec<(f64, f64)> = points.iter().map(|point| (point.clients, point.rate)).collect();
    measured.sort_by(|a, b| a.0.total_cmp(&b.0));
    let medians = usl::medians(&measured);
    let mut x: Vec<f64> = medians.iter().map(|(n, _)| *n).collect();
    if x.len() < 3 {
        return None;
    }
    let fit = usl::fit(&measured);
    let (least, most) = (x.first().copied().unwrap_or(1.0), x.last().copied().unwrap_or(1.0));
    let mut marks = Vec::new();
    if let Ok(fit) = &fit {
        marks.extend(fit.peak_clients.map(|x| Mark { x, name: "peak at".to_string() }));
        // No further than was measured.
        x.extend((0..=CURVE_POINTS).map(|step| least + (most - least) * step as f64 / CURVE_POINTS as f64));
        x.sort_by(f64::total_cmp);
        x.dedup();
    }
    let at = |n: &f64| medians.iter().find(|(clients, _)| clients == n).map(|(_, median)| *median);
    let mut lines = vec![Line::new("measured", x.iter().map(at).collect())];
    if let Ok(fit) = &fit {
        lines.push(Line::new("fitted", x.iter().map(|n| Some(fit.at(*n))).collect()));
    }
    let mut chart = Chart::of_points("Scalability", "clients", "1/s", x, lines);
    (chart.points, chart.marks) = (vec![0], marks);
    let sentence = match &fit {
        Ok(fit) => sentence(fit, at(&1.0), most),
        Err(why) => why.clone(),
    };
    Some(ScaleView { fit: fit.ok(), sentence, chart })
}

/// Describes a fit: `one_client` is the rate measured with one client, `most` the highest measured number of clients.
fn sentence(fit: &Fit, one_client: Option<f64>, most: f64) -> String {
    let mut text = format!(
        "By the best fit, one client would get {} ({}); contention σ would be {} %, coherency κ {} %",
        number::with_unit(fit.lambda_per_s, "1/s"),
        one_client.map_or("not measured".to_string(), |rate| format!("measured {}", number::with_unit(rate, "1/s"))),
        number::significant(fit.sigma * 100.0),
        number::significant(fit.kappa * 100.0)
    );
    match (fit.peak_clients, fit.peak_per_s) {
        (Some(1.0), Some(_)) => text.push_str("; every further one costs throughput"),
        (Some(clients), Some(rate)) => text.push_str(&format!(
            "; throughput would peak at {} with {}",
            number::plural(clients.round() as u64, "client", "clients"),
            number::with_unit(rate, "1/s")
        )),
        _ => text.push_str(&format!(
            "; up to {} the points do not pass a peak",
            number::plural(most.round() as u64, "client", "clients")
        )),
    }
    let worst = fit.residuals_percent.iter().copied().fold(0.0, |worst: f64, one| worst.max(one.abs()));
    text.push_str(&format!(
        " (Universal Scalability Law, R² {}, n = {}, off by {} % at most",
        number::significant(fit.r_squared),
        number::count(fit.n),
        number::significant(worst)
    ));
    if !fit.held.is_empty() {
        text.push_str(&format!("; held at an end of its range: {}", number::list(&fit.held)));
    }
    text.push_str(").");
    text
}
