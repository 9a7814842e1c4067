//! Document of a comparison of two runs.

use plimsoll_analysis::compare::rule::signed_percent;
use plimsoll_analysis::number;
use plimsoll_analysis::view::{self, Comparison, ConfigDifference, EndState, Group, Metric};

use super::{Body, ColumnOf, Document, NONE, Rank, Section, Table, Text, Tone, Verdict, numbers, or_none, words};
use crate::cells;

/// Makes the document of a comparison: the conditions, the differences, then the numbers.
pub fn comparison(comparison: &Comparison) -> Document<'_> {
    let (a, b) = (&comparison.a, &comparison.b);
    let (word, tone) = match (comparison.failed(), comparison.undecided()) {
        (true, _) => ("Fail", Tone::Bad),
        (false, true) => ("Undecided", Tone::Open),
        (false, false) if comparison.rules.is_empty() => ("", Tone::Plain),
        (false, false) => ("Pass", Tone::Good),
    };
    let verdict = Verdict {
        word,
        tone,
        title: b.title.clone(),
        sentence: format!("{} against {}", b.id, a.id),
        ..Verdict::default()
    };
    let mut sections = Vec::new();
    let mut section = |title: &str, body: Body<'static>| {
        let is_said = !body.blocks.is_empty() || !body.note.is_empty();
        sections.extend(is_said.then(|| Section { id: "", title: title.to_string(), rank: Rank::Answer, body }));
    };
    let mut asked = Body::default();
    asked.table(conditions(comparison.rules.iter().map(|rule| {
        let about = format!(" ({})", number::plural(rule.checked, "number", "numbers"));
        let whys = rule.failures.iter().chain(&rule.undecided).collect();
        (rule.word(), Text::from(&rule.rule).then(Tone::Dim, about), whys)
    })));
    section("Conditions", asked);
    let mut runs = Body::default();
    runs.pairs([("A", a), ("B", b)].map(|(name, side)| {
        let state = match side.state {
            EndState::Complete => String::new(),
            state => format!(" · {}", state.name()),
        };
        (Tone::Strong.text(name), format!("{} · run {} · {}{state}", side.title, side.id, side.started))
    }));
    section("Runs", runs);
    let mut config = Body::noted(if comparison.differences.is_empty() { "nothing" } else { "" });
    config.table(differences(&comparison.differences));
    config.list(Tone::Plain, &comparison.unmatched);
    section("Configured differently", config);
    let mut lines = Body::default();
    lines.list(Tone::Strong, comparison.lines.iter().map(|line| Tone::Strong.text(line)));
    section("Load lines", lines);
    for group in &comparison.groups {
        section(&group.trial, numbers_of(group));
    }
    if !comparison.groups.is_empty() {
        section("Marks", Body::noted(legend(comparison)));
    }
    Document { verdict, sections }
}

/// Conditions: a word for what came of each, the condition, and what about it.
pub fn conditions<'v>(rules: impl Iterator<Item = (&'v str, Text, Vec<&'v String>)>) -> Table {
    let mut table = Table::new("Conditions", vec![words(""), words("fails if")]);
    for (word, rule, whys) in rules {
        table.row(cells![
            match word {
                "failed" => Tone::Bad.text("FAILED"),
                "undecided" => Tone::Open.text("UNDECIDED"),
                word => Tone::Good.text(word),
            },
            rule
        ]);
        whys.into_iter().for_each(|why| table.row(cells!["", why]));
    }
    table
}

/// Lists the differences in configuration.
pub fn differences(differences: &[ConfigDifference]) -> Table {
    let mut table = Table::new("Configured differently", ["where", "what", "A", "B"].map(words).to_vec());
    let or_dash = |text: &str| if text.is_empty() { NONE.to_string() } else { text.to_string() };
    for one in differences {
        table.row(cells![&one.place, &one.name, or_dash(&one.a), or_dash(&one.b)]);
    }
    table
}

/// The numbers of a phase in both runs, and why some are missing.
fn numbers_of<'a>(group: &Group) -> Body<'a> {
    let mark = |metric: &Metric| match Comparison::mark(metric) {
        mark @ "better" => Tone::Good.text(mark),
        mark @ "worse" => Tone::Bad.text(mark),
        mark => Tone::Dim.text(mark),
    };
    let columns: [ColumnOf<'_, Metric>; 8] = [
        (words(""), &|metric| metric.name.replace('_', " ").into()),
        (words("op"), &|metric| (&metric.op).into()),
        (numbers("A"), &|metric| value(&metric.a).into()),
        (numbers("B"), &|metric| value(&metric.b).into()),
        (numbers("change"), &|metric| percent(metric.change_percent).into()),
        (numbers("95 % interval"), &|metric| interval(metric.interval_percent).into()),
        (numbers("n"), &|metric| observations(metric).into()),
        (words(""), &|metric| mark(metric).into()),
    ];
    let mut body = Body::noted(&group.phase);
    body.table(Table::of(format!("{}, {}", group.trial, group.phase), &group.metrics, &columns));
    group.given.iter().for_each(|given| body.text(Tone::Dim.text(given)));
    missing(group).into_iter().for_each(|why| body.text(why));
    body
}

/// A number as text; why there is none is said below the table, where it has room.
pub fn value(cell: &view::MetricValue) -> &str {
    if cell.value.is_some() { &cell.text } else { NONE }
}

/// A change.
pub fn percent(change: Option<f64>) -> String {
    or_none(change.map(signed_percent))
}

/// The interval of a change: `−1.20 % to +3.40 %`.
pub fn interval(percent: Option<(f64, f64)>) -> String {
    or_none(percent.map(|(low, high)| format!("{} to {}", signed_percent(low), signed_percent(high))))
}

/// Observations of both, with repeats where there are several.
fn observations(metric: &Metric) -> String {
    let one = |n: u64, repeats: u64| match repeats {
        0 | 1 => number::count(n),
        _ => format!("{} in {repeats}", number::count(n)),
    };
    format!("{} / {}", one(metric.a.n, metric.a.repeats), one(metric.b.n, metric.b.repeats))
}

/// Lists the reasons for missing numbers of a group: each once, with its run, the numbers, and their operation types. What
/// is missing of all types together is missing of each.
fn missing(group: &Group) -> Vec<String> {
    let mut reasons: Vec<(&str, &str, [Vec<String>; 2])> = Vec::new();
    for metric in &group.metrics {
        for (side, cell) in [("A", &metric.a), ("B", &metric.b)].into_iter().filter(|(_, cell)| cell.value.is_none()) {
            let at = reasons.iter().position(|(of, why, _)| *of == side && *why == cell.text);
            let at = at.unwrap_or_else(|| {
                reasons.push((side, &cell.text, Default::default()));
                reasons.len() - 1
            });
            for (known, new) in reasons[at].2.iter_mut().zip([metric.name.replace('_', " "), metric.op.clone()]) {
                if !known.contains(&new) {
                    known.push(new);
                }
            }
        }
    }
    let sentence = |(side, why, [names, types]): (&str, &str, [Vec<String>; 2])| {
        let has = if names.len() == 1 { "is" } else { "are" };
        let of = match types.iter().any(|op| op.is_empty() || op == "all") {
            true => String::new(),
            false => format!(" of {}", number::list(&types)),
        };
        format!("{}{of} {has} missing in {side}: {why}", number::list(&names))
    };
    reasons.into_iter().map(sentence).collect()
}

/// Explains the words of the last column.
fn legend(comparison: &Comparison) -> String {
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
        "~ within noise; ? undecided: seen once, an interval that reaches beyond ± 10 %, an outage that had not ended, \
         or * with a late generator; {floor}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_both_ends_with_their_signs_and_no_dash_between_them() {
        assert_eq!(interval(Some((-1.2, 3.4))), "−1.20 % to +3.40 %");
        assert_eq!(interval(None), NONE);
    }
}
