//! The section about the search for the load line.

use plimsoll_analysis::line::{GoalSeen, LineView, asked_words};
use plimsoll_analysis::{RunView, number};

use super::chart::Charts;
use super::markup::{Table, Text, esc, list, numbers, words};

/// Each search: its sentence, its curves, its rungs.
pub fn lines(view: &RunView, charts: &mut Charts) -> String {
    let several = view.lines.len() > 1;
    view.lines.iter().map(|line| one(line, several, &view.verdict.sentence, charts)).collect()
}

fn one(line: &LineView, several: bool, verdict: &str, charts: &mut Charts) -> String {
    let mut out = String::new();
    if several {
        out.push_str(&format!("<h3>{}</h3>\n", Text(&line.store)));
    }
    // The verdict above says it of a single one.
    if several || !verdict.ends_with(line.result.sentence.get(1..).unwrap_or_default()) {
        out.push_str(&format!("<p class=\"finding\">{}</p>\n", Text(&line.result.sentence)));
    }
    if let Some(words) = &line.result.cycle_words {
        out.push_str(&format!("<p class=\"note\">{}.</p>\n", Text(words)));
    }
    let others: Vec<String> = line.result.causes.iter().skip(1).map(|cause| format!("Also: {}.", cause.text)).collect();
    out.push_str(&list("left-out", &others));
    out.push_str("<div class=\"pair\">");
    out.push_str(&charts.place(&line.done));
    out.push_str(&charts.place(&line.latency));
    out.push_str("</div>\n");
    let mut columns =
        vec![numbers("rung"), words("for"), numbers("asked"), numbers("done"), numbers("time"), numbers("n")];
    let goals: &[GoalSeen] = line.rungs.first().map_or(&[], |rung| &rung.goals);
    columns.extend(
        goals
            .iter()
            .map(|goal| numbers(&format!("{} ≤ {}", goal.what.name(), number::with_unit(goal.limit, &goal.unit)))),
    );
    let has_cycles = line.result.cycles.is_some();
    if has_cycles {
        columns.push(numbers("cycles"));
    }
    columns.push(words(""));
    let mut table = Table::new("Rungs", columns);
    for rung in &line.rungs {
        let mut cells = vec![
            number::count(u64::from(rung.rung.ordinal) + 1),
            esc(rung.rung.purpose.name()),
            esc(&asked_words(&rung.rung)),
            number::with_unit(rung.rate_per_s, "1/s"),
            number::seconds(rung.rung.seconds),
            number::count(rung.n),
        ];
        cells.extend(rung.goals.iter().map(|goal| match (goal.value, &goal.missing) {
            (Some(value), _) => number::with_unit(value, &goal.unit),
            (None, why) => format!("<span title=\"{}\">–</span>", Text(why.as_deref().unwrap_or(""))),
        }));
        let class = match rung.state.as_str() {
            "held" => "pass",
            "failed" => "fail",
            _ => "incomplete",
        };
        if has_cycles {
            cells.push(number::count(rung.cycles as u64));
        }
        cells.push(format!("<span class=\"state {class}\">{}</span>", esc(&rung.state.replace('_', " "))));
        table.row(cells);
    }
    out.push_str(&table.html());
    out.push_str(&list("left-out", &line.notes));
    out
}
