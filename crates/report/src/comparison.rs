//! Two runs side by side, as text and as JUnit XML.

use owo_colors::{OwoColorize, Style};
use plimsoll_analysis::compare::rule::signed_percent;
use plimsoll_analysis::compare::{Comparison, Group, Metric};
use plimsoll_analysis::number;
use plimsoll_core::shown::clean;

use crate::terminal::table::{Cell, Side, Table, wrap};

/// See [`crate::comparison`].
pub fn text(comparison: &Comparison, colour: bool, width: usize) -> String {
    let mut out = String::new();
    let bold = |text: &str| if colour { text.style(Style::new().bold()).to_string() } else { text.to_string() };
    let (a, b) = (&comparison.a, &comparison.b);
    for (letter, side) in [("A", a), ("B", b)] {
        let state = if side.state == "complete" { String::new() } else { format!(" · {}", side.state) };
        let about = format!("{} · run {} · {}{state}", side.title, side.id, side.started);
        out.push_str(&format!("{}  {}\n", bold(letter), clean(&about)));
    }
    out.push_str(&format!("\n{}\n", bold("Configured differently")));
    if comparison.differences.is_empty() {
        out.push_str("  nothing\n");
    } else {
        let mut table = Table::new(vec![
            ("where".into(), Side::Left),
            ("what".into(), Side::Left),
            ("A".into(), Side::Left),
            ("B".into(), Side::Left),
        ]);
        let or_none = |text: &str| if text.is_empty() { "–".to_string() } else { text.to_string() };
        for one in &comparison.differences {
            table.row(vec![
                Cell::new(&one.place),
                Cell::new(&one.name),
                Cell::new(or_none(&one.a)),
                Cell::new(or_none(&one.b)),
            ]);
        }
        lines(&table, colour, width, &mut out);
    }
    for unmatched in &comparison.unmatched {
        out.push_str(&format!("  {}\n", clean(unmatched)));
    }
    for line in &comparison.lines {
        out.push_str(&format!("\n{}\n", bold(&clean(line))));
    }
    for group in &comparison.groups {
        out.push_str(&format!("\n{}  {}\n", bold(&clean(&group.trial)), clean(&group.phase)));
        let mut table = Table::new(
            ["", "op"]
                .map(|head| (head.to_string(), Side::Left))
                .into_iter()
                .chain(["A", "B", "change", "95 % interval", "n"].map(|head| (head.to_string(), Side::Right)))
                .chain([(String::new(), Side::Left)])
                .collect(),
        );
        for metric in &group.metrics {
            table.row(vec![
                Cell::new(metric.name.replace('_', " ")),
                Cell::new(&metric.op),
                Cell::new(value(&metric.a)),
                Cell::new(value(&metric.b)),
                Cell::new(metric.change_percent.map_or("–".to_string(), signed_percent)),
                Cell::new(interval(metric)),
                Cell::new(observations(metric)),
                mark(metric),
            ]);
        }
        lines(&table, colour, width, &mut out);
        for missing in missing(group) {
            paragraph(&missing, width, &mut out);
        }
    }
    out.push_str(&format!("\n{}\n", legend(comparison)));
    for rule in &comparison.rules {
        let (word, style) = match rule.word() {
            "failed" => ("FAILED   ", Style::new().red().bold()),
            "undecided" => ("UNDECIDED", Style::new().yellow().bold()),
            _ => ("ok       ", Style::new().green()),
        };
        let word = if colour { word.style(style).to_string() } else { word.to_string() };
        out.push_str(&format!(
            "{word}  {}  {}\n",
            clean(&rule.rule),
            number::plural(rule.checked, "number", "numbers")
        ));
        for why in rule.failures.iter().chain(&rule.undecided) {
            out.push_str(&format!("           {}\n", clean(why)));
        }
    }
    out
}

fn lines(table: &Table, colour: bool, width: usize, out: &mut String) {
    for line in table.lines(colour, width) {
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// A line of two blanks' indent, wrapped to `width`.
fn paragraph(text: &str, width: usize, out: &mut String) {
    for line in wrap(&clean(text), width.saturating_sub(2)) {
        out.push_str(&format!("  {line}\n"));
    }
}

/// A number as text; why there is none is said below the table, where it has room.
pub fn value(cell: &plimsoll_analysis::compare::Cell) -> &str {
    if cell.value.is_some() { &cell.text } else { "–" }
}

/// Why numbers of a group are missing: each reason once, with its run and the numbers it is about.
pub fn missing(group: &Group) -> Vec<String> {
    let mut reasons: Vec<(&str, &str, Vec<String>)> = Vec::new();
    for metric in &group.metrics {
        for (side, cell) in [("A", &metric.a), ("B", &metric.b)].into_iter().filter(|(_, cell)| cell.value.is_none()) {
            let name = metric.name.replace('_', " ");
            match reasons.iter_mut().find(|(of, why, _)| *of == side && *why == cell.text) {
                Some((.., names)) if names.contains(&name) => {}
                Some((.., names)) => names.push(name),
                None => reasons.push((side, &cell.text, vec![name])),
            }
        }
    }
    reasons
        .into_iter()
        .map(|(side, why, names)| {
            let has = if names.len() == 1 { "is" } else { "are" };
            format!("{} {has} missing in {side}: {why}", number::list(&names))
        })
        .collect()
}

/// What the last column's words mean.
pub fn legend(comparison: &Comparison) -> String {
    let floor = &comparison.noise_floor;
    let floor = match floor.throughput_percent.max(floor.p50_percent).max(floor.p99_percent) {
        0.0 => "the machine's noise floor is not known".to_string(),
        _ => format!(
            "noise floor: throughput {} %, p50 {} %, p99 {} %",
            number::significant(floor.throughput_percent),
            number::significant(floor.p50_percent),
            number::significant(floor.p99_percent)
        ),
    };
    format!(
        "~ no more than noise; ? nothing tells: seen once, an interval that reaches beyond ± 10 %, or * with a late generator; {floor}"
    )
}

/// The interval of a change: `−1.20 % … +3.40 %`.
pub fn interval(metric: &Metric) -> String {
    interval_text(metric.interval_percent)
}

/// The same of its ends.
pub fn interval_text(percent: Option<(f64, f64)>) -> String {
    percent.map_or("–".to_string(), |(low, high)| format!("{} … {}", signed_percent(low), signed_percent(high)))
}

/// Observations of both, with repeats where there are several.
pub fn observations(metric: &Metric) -> String {
    let one = |n: u64, repeats: u64| match repeats {
        0 | 1 => number::count(n),
        _ => format!("{} in {repeats}", number::count(n)),
    };
    format!("{} / {}", one(metric.a.n, metric.a.repeats), one(metric.b.n, metric.b.repeats))
}

fn mark(metric: &Metric) -> Cell {
    let word = Comparison::mark(metric);
    let style = match word {
        "better" => Style::new().green(),
        "worse" => Style::new().red(),
        _ => Style::new().dimmed(),
    };
    Cell::styled(word, style)
}

/// See [`crate::junit`].
pub fn junit(comparison: &Comparison) -> String {
    let mut cases = Vec::new();
    if comparison.rules.is_empty() {
        for group in &comparison.groups {
            for metric in group.metrics.iter().filter(|metric| metric.significant.is_some()) {
                let name = format!("{}, {} {}", group.phase, metric.name, metric.op);
                cases.push((group.trial.clone(), name.trim().to_string(), &[][..], &[][..], 1));
            }
        }
    }
    for rule in &comparison.rules {
        let class = "plimsoll.compare".to_string();
        cases.push((class, rule.rule.clone(), &rule.failures, &rule.undecided, rule.checked));
    }
    let failures = cases.iter().filter(|(_, _, failures, ..)| !failures.is_empty()).count();
    let skipped = cases.iter().filter(|(_, _, failed, open, _)| failed.is_empty() && !open.is_empty()).count();
    let suite = format!("{} against {}", comparison.b.id, comparison.a.id);
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites tests=\"{0}\" failures=\"{failures}\">\n  \
         <testsuite name=\"{1}\" tests=\"{0}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\">\n",
        cases.len(),
        xml(&suite)
    );
    for (class, name, failures, undecided, checked) in &cases {
        let open =
            format!("    <testcase classname=\"{}\" name=\"{}\" assertions=\"{checked}\"", xml(class), xml(name));
        match (*failures, *undecided) {
            ([], []) => out.push_str(&format!("{open}/>\n")),
            ([], [..]) => out.push_str(&format!(
                "{open}>\n      <skipped message=\"UNDECIDED: {}\"/>\n    </testcase>\n",
                xml(&undecided.join("\n"))
            )),
            ([first, ..], _) => out.push_str(&format!(
                "{open}>\n      <failure message=\"{}\">{}</failure>\n    </testcase>\n",
                xml(first),
                xml(&failures.join("\n"))
            )),
        }
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

/// A text for XML 1.0, which has no control characters but three.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
