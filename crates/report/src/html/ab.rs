//! The section about two sides in turn.

use plimsoll_analysis::RunView;
use plimsoll_analysis::compare::rule::signed_percent;
use plimsoll_analysis::number;

use crate::comparison::{interval_text, value};

use super::chart::Charts;
use super::markup::{Table, Text, esc, list, numbers, pairs, words};

/// What differs, the numbers of both sides, the pairs.
pub fn ab(view: &RunView, charts: &mut Charts) -> String {
    let Some(ab) = &view.ab else { return String::new() };
    let mut out = String::new();
    // The verdict above says it of a comparison that came to its end.
    if view.verdict.sentence != ab.sentence {
        out.push_str(&format!("<p class=\"finding\">{}</p>\n", Text(&ab.sentence)));
    }
    out.push_str(&pairs([("A", ab.sides[0].as_str()), ("B", ab.sides[1].as_str())].into_iter()));
    let mut differences =
        Table::new("Configured differently", vec![words("where"), words("what"), words("A"), words("B")]);
    for one in &ab.differences {
        let or_none = |text: &str| if text.is_empty() { "–".to_string() } else { esc(text) };
        differences.row(vec![esc(&one.place), esc(&one.name), or_none(&one.a), or_none(&one.b)]);
    }
    if ab.differences.is_empty() {
        out.push_str("<p class=\"note\">Nothing is configured differently.</p>\n");
    } else {
        out.push_str(&differences.html());
    }
    let mut columns = vec![words("")];
    columns.extend(["A", "B", "change", "95 % interval", "pairs", "n of A", "n of B"].map(numbers));
    columns.push(words(""));
    let mut table = Table::new("Both sides: medians of turns", columns);
    for metric in ab.metrics.iter().filter(|metric| metric.asked || metric.pairs > 0) {
        table.row(vec![
            esc(&crate::metric_name(ab, metric)),
            esc(value(&metric.a)),
            esc(value(&metric.b)),
            metric.change_percent.map_or("–".to_string(), signed_percent),
            interval_text(metric.interval_percent),
            number::count(metric.pairs),
            number::count(metric.a.n),
            number::count(metric.b.n),
            esc(&crate::decision(metric)),
        ]);
    }
    let percent = |used: Option<f64>| used.map_or("–".to_string(), |used| number::with_unit(used, "%"));
    let mut cells = vec!["generator CPU".to_string()];
    cells.extend(ab.generator_percent.map(percent));
    cells.extend(["–", "–", "", "", "", ""].map(str::to_string));
    table.row(cells);
    out.push_str(&table.html());
    let rules: Vec<String> = ab
        .rules
        .iter()
        .map(|rule| {
            let word = match rule.met {
                Some(true) => "met",
                Some(false) => "not met",
                None => "cannot be told",
            };
            format!("{}: {word}", rule.rule)
        })
        .collect();
    out.push_str(&list("left-out", &rules));
    for chart in &ab.charts {
        out.push_str(&charts.place(chart));
    }
    out.push_str(&list("left-out", &ab.notes));
    out
}
