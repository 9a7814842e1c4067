//! The section about sweeps: table, boxes, charts, the scalability law. Boxes are drawn here, without any script.

use plimsoll_analysis::sweep::{BoxView, SweepView};
use plimsoll_analysis::{RunView, number};

use super::bars;
use super::chart::Charts;
use super::markup::{Table, Text, esc, numbers, words};

/// Each sweep.
pub fn sweeps(view: &RunView, charts: &mut Charts) -> String {
    view.sweeps.iter().map(|sweep| one(view, sweep, charts)).collect()
}

fn one(view: &RunView, sweep: &SweepView, charts: &mut Charts) -> String {
    let mut out = format!("<h3>{} <span class=\"dim\">{}</span></h3>\n", Text(&sweep.name), Text(&sweep.phase));
    if let Some(scale) = &sweep.scale {
        out.push_str(&format!("<p class=\"finding\">{}</p>\n", Text(&scale.sentence)));
    }
    let single = sweep.columns.len() == 1;
    let mut columns = vec![numbers(&sweep.row_label)];
    if single {
        columns.extend(["median", "95 % interval", "least", "most", "n"].map(numbers));
    } else {
        columns.extend(sweep.columns.iter().map(|column| numbers(column)));
    }
    columns.push(words(""));
    let mut table = Table::new("Throughput by point", columns);
    for (row, cells) in sweep.rows.iter().zip(&sweep.cells) {
        let mut all = vec![esc(row)];
        for cell in cells {
            match cell {
                Some(cell) if single => {
                    let rate = |value: f64| number::with_unit(value, "1/s");
                    let interval = cell
                        .interval
                        .map_or("–".to_string(), |(low, high)| format!("{} … {}", rate(low), rate(high)));
                    all.extend([
                        cell.text.clone(),
                        interval,
                        rate(cell.range.0),
                        rate(cell.range.1),
                        number::count(cell.n),
                    ]);
                }
                Some(cell) => {
                    let value = number::marked(number::significant(cell.value), cell.late);
                    all.push(format!("<span title=\"n = {}\">{value}</span>", cell.n))
                }
                None if single => all.extend(std::iter::repeat_n("–".to_string(), 5)),
                None => all.push("–".to_string()),
            }
        }
        all.push(String::new());
        table.row(all);
    }
    if !single {
        out.push_str(&format!(
            "<p class=\"note\">Operations a second; rows: {}, columns: {}; {}.</p>\n",
            Text(&sweep.row_label),
            Text(&sweep.column_label),
            behind(sweep)
        ));
    }
    out.push_str(&table.html());
    let pair = if single { "pair" } else { "wide" };
    out.push_str(&format!("<div class=\"{pair}\">"));
    if let Some(scale) = &sweep.scale {
        out.push_str(&charts.place(&scale.chart));
    } else if !single {
        out.push_str(&bars::grouped(view, sweep));
    } else if let Some(chart) = &sweep.chart {
        out.push_str(&charts.place(chart));
    }
    if sweep.boxes.iter().any(|one| one.n > 1) {
        out.push_str(&boxes(sweep));
    }
    out.push_str("</div>\n");
    if !sweep.multiples.is_empty() {
        let small: String = sweep.multiples.iter().map(|chart| charts.place(chart)).collect();
        out.push_str(&format!("<div class=\"small\">{small}</div>\n"));
    }
    out
}

/// How many trials stand behind a cell.
fn behind(sweep: &SweepView) -> String {
    let n = || sweep.cells.iter().flatten().flatten().map(|cell| cell.n);
    match (n().min().unwrap_or(0), n().max().unwrap_or(0)) {
        (_, 0 | 1) => "one trial each".to_string(),
        (least, most) if least == most => format!("medians of {} trials each", number::count(most)),
        (least, most) => format!("medians of {} to {} trials", number::count(least), number::count(most)),
    }
}

/// Width, height and left margin of a box plot, in its own units.
const SIZE: (f64, f64, f64) = (520.0, 250.0, 62.0);

fn boxes(sweep: &SweepView) -> String {
    let (width, height, left) = SIZE;
    let bottom = height - 28.0;
    let top_value = sweep.boxes.iter().map(|one| one.five[4]).fold(0.0, f64::max) * 1.05;
    let y = |value: f64| bottom - value / top_value.max(f64::MIN_POSITIVE) * (bottom - 8.0);
    let room = (width - left - 8.0) / sweep.boxes.len().max(1) as f64;
    let mut svg = format!(
        "<figure class=\"boxes\"><figcaption>Spread <span>a second, by {label}: all trials of each, box from quartile to quartile</span></figcaption>\
         <svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"Box plot by {label}\">",
        label = Text(&sweep.row_label)
    );
    let step = tick_step(top_value);
    for tick in (0..=10).take_while(|tick| f64::from(*tick) * step <= top_value) {
        let value = step * f64::from(tick);
        svg.push_str(&format!(
            "<path class=\"grid\" d=\"M{left} {0:.1}H{width}\"/><text class=\"tick\" x=\"{1}\" y=\"{2:.1}\">{3}</text>",
            y(value),
            left - 6.0,
            y(value) + 3.5,
            number::significant(value)
        ));
    }
    for (at, one) in sweep.boxes.iter().enumerate() {
        svg.push_str(&one_box(one, left + room * (at as f64 + 0.5), (room * 0.6).min(46.0), &y));
        svg.push_str(&format!(
            "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            left + room * (at as f64 + 0.5),
            height - 10.0,
            Text(&one.name)
        ));
    }
    svg.push_str("</svg></figure>");
    svg
}

/// 1, 2 or 5 times a power of ten, four to nine of them below `top`.
pub(super) fn tick_step(top: f64) -> f64 {
    let rough = (top / 4.0).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(rough.log10().floor());
    let factor = [5.0, 2.0].into_iter().find(|factor| factor * power <= rough).unwrap_or(1.0);
    factor * power
}

fn one_box(one: &BoxView, x: f64, width: f64, y: &dyn Fn(f64) -> f64) -> String {
    let [low, first, median, third, high] = one.five.map(y);
    let from = x - width / 2.0;
    format!(
        "<g class=\"box\"><title>{}: {}, n = {}</title><path d=\"M{x:.1} {low:.1}V{first:.1}M{x:.1} {third:.1}V{high:.1}\"/>\
         <rect x=\"{from:.1}\" y=\"{third:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/>\
         <path class=\"median\" d=\"M{from:.1} {median:.1}h{width:.1}\"/></g>",
        Text(&one.name),
        one.five.map(number::significant).join(", "),
        one.n,
        (first - third).max(0.5),
    )
}
