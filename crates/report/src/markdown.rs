//! Markdown for pull requests: what fits a comment, with the rest folded away.

use plimsoll_analysis::RunView;
use plimsoll_analysis::compare::Comparison;
use plimsoll_analysis::compare::rule::signed_percent;
use plimsoll_analysis::number;
use plimsoll_analysis::view::{GoalState, PhaseKind, VerdictState};

use crate::comparison::{interval, interval_text, legend, missing, observations, value};

/// See [`crate::markdown`].
pub fn run(view: &RunView) -> String {
    let word = match view.verdict.state {
        VerdictState::Pass => "✅ pass",
        VerdictState::Fail => "❌ fail",
        VerdictState::Incomplete => "⚠️ incomplete",
        VerdictState::Undecided => "❔ undecided",
    };
    let mut out = format!("### {} — {word}\n\n{}\n", text(&view.run.title), text(&view.verdict.sentence));
    if view.verdict.reasons.len() > 1 {
        out.push('\n');
        view.verdict.reasons.iter().for_each(|reason| out.push_str(&format!("- {}\n", text(reason))));
    }
    let goals = view.goals.iter().map(|goal| {
        let state = match goal.state {
            GoalState::Held => "held",
            GoalState::Missed => "**missed**",
            GoalState::Undecided => "undecided",
            GoalState::NotMeasured => "not measured",
        };
        vec![text(&goal.text), text(&goal.wanted), text(&goal.got_text), number::count(goal.n), state.to_string()]
    });
    table(&mut out, &["goal", "wanted", "got", "n", ""], goals.collect());
    for line in &view.lines {
        out.push_str(&format!("\n**{}**: {}\n", text(&line.store), text(&line.result.sentence)));
    }
    if let Some(ab) = &view.ab {
        let shown = ab.metrics.iter().filter(|metric| metric.asked || metric.pairs > 0);
        let rows = shown.map(|metric| {
            vec![
                text(&crate::metric_name(ab, metric)),
                text(value(&metric.a)),
                text(value(&metric.b)),
                metric.change_percent.map_or("–".to_string(), signed_percent),
                interval_text(metric.interval_percent),
                number::count(metric.pairs),
                text(&crate::decision(metric)),
            ]
        });
        table(&mut out, &["", "A", "B", "change", "95 % interval", "pairs", ""], rows.collect());
    }
    let mut head = vec!["figure"];
    head.extend(view.stores.iter().map(String::as_str));
    head.push("published");
    let rows = view.figures.iter().flat_map(|figure| {
        figure.rows.iter().map(move |row| {
            let labels: Vec<String> = row.labels.iter().map(|(name, value)| format!(", {name}={value}")).collect();
            let mut cells = vec![text(&format!("{}{}", figure.name, labels.concat()))];
            cells.extend(row.cells.iter().map(|cell| text(&cell.text)));
            let published: Vec<String> =
                figure.published.iter().map(|one| format!("{} {}", one.text, one.of)).collect();
            cells.push(text(&published.join("; ")));
            cells
        })
    });
    table(&mut out, &head, rows.collect());
    let mut rows = Vec::new();
    // Of two sides in turn the table above says it.
    for trial in view.trials.iter().filter(|_| view.ab.is_none()) {
        for phase in trial.phases.iter().filter(|phase| phase.kind == PhaseKind::Drive) {
            if let (Some(ops), Some(row)) = (&phase.ops, phase.latencies.first()) {
                let shown = |value: String| text(&number::marked(value, row.late));
                let mut cells = vec![text(&trial.name), text(&phase.name)];
                cells.push(shown(number::with_unit(ops.rate_per_s, "1/s")));
                let time = |ns| shown(number::nanoseconds(ns));
                cells.extend(row.percentiles.iter().map(|one| one.ns.map_or("–".to_string(), time)));
                cells.push(format!("{} %", number::significant(ops.error_percent)));
                cells.push(number::count(ops.count));
                rows.push(cells);
                if let Some(undisturbed) = row.undisturbed.as_ref().filter(|other| other.count < row.count) {
                    let mut cells = vec![String::new(), "undisturbed".to_string(), String::new()];
                    cells.extend(undisturbed.percentiles.iter().map(|one| one.ns.map_or("–".to_string(), time)));
                    cells.extend([String::new(), number::count(undisturbed.count)]);
                    rows.push(cells);
                }
            }
        }
    }
    table(&mut out, &["trial", "phase", "rate", "p50", "p90", "p99", "p99.9", "errors", "n"], rows);
    if let Some(late) = &view.late {
        out.push_str(&format!("\n\\* {} {}\n", text(&late.text), text(&late.next)));
    }
    let sizes = view.trials.iter().filter_map(|trial| Some((trial, trial.size.as_ref()?)));
    let sizes: Vec<String> =
        sizes.map(|(trial, size)| format!("- {}: {}\n", text(&trial.name), text(&size.sentence))).collect();
    if !sizes.is_empty() {
        out.push_str(&format!("\n{}", sizes.concat()));
    }
    out.push_str(&format!(
        "\n<sub>run {} · {} · Plimsoll {}</sub>\n",
        text(&view.run.id),
        text(&view.run.started),
        text(&view.run.plimsoll_version)
    ));
    out
}

/// See [`crate::comparison_markdown`].
pub fn comparison(comparison: &Comparison) -> String {
    let word = if comparison.failed() {
        "❌"
    } else if comparison.undecided() {
        "❔ undecided:"
    } else {
        "✅"
    };
    let mut out = format!("### {word} {} against {}\n", text(&comparison.b.id), text(&comparison.a.id));
    for rule in &comparison.rules {
        let word = match rule.word() {
            "failed" => "❌",
            "undecided" => "❔",
            _ => "✅",
        };
        out.push_str(&format!("\n{word} `{}`", rule.rule.replace('`', "'")));
        rule.failures
            .iter()
            .chain(&rule.undecided)
            .for_each(|failure| out.push_str(&format!("\n  - {}", text(failure))));
    }
    if !comparison.rules.is_empty() {
        out.push('\n');
    }
    let differences = comparison.differences.iter().map(|one| {
        let or_none = |value: &str| if value.is_empty() { "–".to_string() } else { text(value) };
        vec![text(&one.place), text(&one.name), or_none(&one.a), or_none(&one.b)]
    });
    let differences: Vec<_> = differences.collect();
    if differences.is_empty() {
        out.push_str("\nConfigured alike.\n");
    } else {
        out.push_str("\nConfigured differently:\n");
    }
    table(&mut out, &["where", "what", "A", "B"], differences);
    for unmatched in &comparison.unmatched {
        out.push_str(&format!("\n{}\n", text(unmatched)));
    }
    for line in &comparison.lines {
        out.push_str(&format!("\n**{}**\n", text(line)));
    }
    for group in &comparison.groups {
        out.push_str(&format!("\n**{}**, {}\n", text(&group.trial), text(&group.phase)));
        let rows = group.metrics.iter().map(|metric| {
            vec![
                text(format!("{} {}", metric.name.replace('_', " "), metric.op).trim()),
                text(value(&metric.a)),
                text(value(&metric.b)),
                metric.change_percent.map_or("–".to_string(), signed_percent),
                interval(metric),
                observations(metric),
                match Comparison::mark(metric) {
                    "worse" => "**worse**".to_string(),
                    other => other.replace('~', "\\~"),
                },
            ]
        });
        table(&mut out, &["", "A", "B", "change", "95 % interval", "n", ""], rows.collect());
        missing(group).iter().for_each(|why| out.push_str(&format!("\n{}\n", text(why))));
    }
    out.push_str(&format!("\n<sub>{}</sub>\n", text(&legend(comparison))));
    out
}

fn table(out: &mut String, head: &[&str], rows: Vec<Vec<String>>) {
    if rows.is_empty() {
        return;
    }
    let head: Vec<String> = head.iter().map(|name| text(name)).collect();
    out.push_str(&format!("\n| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len())));
    for row in rows {
        out.push_str(&format!("| {} |\n", row.join(" | ")));
    }
}

/// A text from outside: no markup, no HTML, no line breaks.
fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '@' | '!' => out.extend(['\\', c]),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c if c.is_control() || ('\u{2028}'..='\u{202e}').contains(&c) => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
