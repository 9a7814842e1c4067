//! The result in words.

use crate::latency;
use crate::number;

use super::{AbMetricView, AbSpec, AbView, Decision};

/// Writes a sentence for each metric that was to be decided, and one for each undecided condition.
pub(super) fn sentence(spec: &AbSpec, view: &AbView) -> String {
    let asked: Vec<&AbMetricView> = view.metrics.iter().filter(|metric| metric.asked).collect();
    let mut said: Vec<String> = Vec::new();
    for (at, metric) in asked.iter().enumerate() {
        let sides =
            if at == 0 { [side("B", &view.sides[1]), side("A", &view.sides[0])] } else { ["B".into(), "A".into()] };
        said.push(of_metric(spec, view, metric, &sides));
    }
    for rule in &view.rules {
        let after = |n: Option<u64>| n.map_or(String::new(), |n| format!(" (known after {n} pairs)"));
        said.push(match rule.met {
            Some(true) => format!("`{}` is met{}.", rule.rule, after(rule.known_after)),
            Some(false) => format!("`{}` is not met{}.", rule.rule, after(rule.known_after)),
            None => format!("Whether `{}` is met is undecided.", rule.rule),
        });
    }
    said.join(" ")
}

fn side(letter: &str, words: &str) -> String {
    if words.is_empty() { letter.to_string() } else { format!("{letter} ({words})") }
}

fn of_metric(spec: &AbSpec, view: &AbView, metric: &AbMetricView, [b, a]: &[String; 2]) -> String {
    let pairs = |n: u64| number::plural(n, "pair", "pairs");
    let interval = interval_words(metric);
    let values = format!("{} against {}", metric.b.text, metric.a.text);
    let change = metric.change_percent.unwrap_or(0.0);
    let name = &metric.name;
    match metric.decision {
        Decision::More | Decision::Less => {
            let after = pairs(metric.decided_after.unwrap_or(metric.pairs));
            format!("{} than {a}: {values}, {interval}; decided after {after}.", compared(name, b, change))
        }
        Decision::Same => format!(
            "No difference in {name} larger than {} between {b} and {a}: {values}, {interval}; decided after {}.",
            number::with_unit(spec.difference * 100.0, "%"),
            pairs(metric.decided_after.unwrap_or(metric.pairs))
        ),
        Decision::Open => open(spec, view, metric, b, a, &interval),
    }
}

/// Describes results that do not decide.
fn open(spec: &AbSpec, view: &AbView, metric: &AbMetricView, b: &str, a: &str, interval: &str) -> String {
    let name = &metric.name;
    let spent = format!("{} in {}", number::plural(metric.pairs, "pair", "pairs"), number::seconds(view.seconds));
    let matters = number::with_unit(spec.difference * 100.0, "%");
    match metric.interval_percent {
        _ if metric.pairs == 0 => format!("Whether {name} of {b} and {a} differs is not decided: no pair measured it."),
        None => format!(
            "Whether {name} of {b} and {a} differs is not decided: {} are too few, and at least {} are needed.",
            number::plural(metric.pairs, "pair", "pairs"),
            super::fewest_pairs(spec)
        ),
        Some((low, high)) if low > 0.0 || high < 0.0 => format!(
            "{} than {a} ({interval}); whether by {matters} is not decided after {spent}.",
            compared(name, b, metric.change_percent.unwrap_or(low))
        ),
        Some(_) => {
            format!("Whether {name} of {b} and {a} differs by {matters} is not decided after {spent}: {interval}.")
        }
    }
}

/// `B is 12 % faster`, without its end: ` than A`.
fn compared(name: &str, b: &str, change: f64) -> String {
    let size = number::with_unit(change.abs(), "%");
    let more = change > 0.0;
    match name {
        "rate" => format!("{b} is {size} {}", if more { "faster" } else { "slower" }),
        "errors" => format!("{b} has {size} {} errors", if more { "more" } else { "fewer" }),
        "cpu" => format!("{b} takes {size} {} processor time for an operation", if more { "more" } else { "less" }),
        _ => format!("{} of {b} is {size} {}", latency::written(name), if more { "longer" } else { "shorter" }),
    }
}

/// `change +3.2 % (95 % interval +1.1 % to +5.4 %)`.
fn interval_words(metric: &AbMetricView) -> String {
    let signed = crate::compare::rule::signed_percent;
    match (metric.change_percent, metric.interval_percent) {
        (Some(change), Some((low, high))) => {
            format!("change {} (95 % interval {} to {})", signed(change), signed(low), signed(high))
        }
        (Some(change), None) => format!("change {}, no interval yet", signed(change)),
        _ => "not measured".to_string(),
    }
}
