//! The load lines of two searches, by the rates that are carried and those that are not. Rungs are steps of a search and no results: they are not compared.

use plimsoll_record::data::{Goal, Run};

use crate::line::lines;
use crate::number;
use crate::view::{LineState, LineView};

use super::{Group, Matched, Metric, MetricValue, NoiseFloor};

/// Name of the number, and of what stands for its phase.
const LINE: &str = "line";

/// The lines of two runs side by side; `None` where neither is a search.
pub(super) fn of<'a>(a: &'a Run, b: &'a Run, floor: NoiseFloor) -> Option<Matched<'a>> {
    let (spec_a, spec_b) = match (&a.header.outline.line, &b.header.outline.line) {
        (None, None) => return None,
        (Some(spec_a), Some(spec_b)) => (spec_a, spec_b),
        (in_a, _) => {
            let (search, other) = if in_a.is_some() { ("A", "B") } else { ("B", "A") };
            let why = format!("{search} is a search for the load line and {other} is not, so nothing is compared");
            return Some(Matched { unmatched: vec![why], ..Matched::default() });
        }
    };
    let mut all = Matched::default();
    if spec_a.goals != spec_b.goals {
        let word = |goal: &Goal| format!("{} ≤ {}", goal.name(), number::limit(goal.limit, &goal.unit));
        let words = |goals: &[Goal]| goals.iter().map(word).collect::<Vec<_>>().join(" and ");
        let (in_a, in_b) = (words(&spec_a.goals), words(&spec_b.goals));
        all.unmatched
            .push(format!("the lines have different goals, {in_a} in A and {in_b} in B, so nothing is compared"));
        return Some(all);
    }
    let (of_a, of_b) = (lines(a), lines(b));
    // One store against another: nothing else could be meant.
    let alone = of_a.len() == 1 && of_b.len() == 1;
    for line_a in &of_a {
        let Some(line_b) = of_b.iter().find(|line| alone || line.store == line_a.store) else {
            all.unmatched.push(format!("{} is only in A", line_a.store));
            let (trial, metrics) = (line_a.store.clone(), vec![metric(line_a, line_a, floor)]);
            all.only_a.push(Group { trial, phase: LINE.to_string(), given: None, metrics });
            continue;
        };
        let first =
            |run: &'a Run, line: &LineView| run.trials.iter().find(|trial| trial.header.store_label == line.store);
        all.pairs.extend(first(a, line_a).zip(first(b, line_b)));
        let trial = match line_a.store == line_b.store {
            true => line_a.store.clone(),
            false => format!("{} → {}", line_a.store, line_b.store),
        };
        let metric = metric(line_a, line_b, floor);
        all.sentences.push(format!("{trial}: {}", sentence(&metric)));
        all.sentences.extend(cpu_sentence(line_a, line_b).map(|sentence| format!("{trial}: {sentence}")));
        all.groups.push(Group { trial, phase: LINE.to_string(), given: None, metrics: vec![metric] });
    }
    let missing = of_b.iter().filter(|line| !alone && !of_a.iter().any(|known| known.store == line.store));
    all.unmatched.extend(missing.map(|line| format!("{} is only in B", line.store)));
    Some(all)
}

/// Returns the rate that is carried and the one that is not; `None` if they are not shown.
fn seen(line: &LineView) -> Option<[f64; 2]> {
    let [held, failed] = line.result.shown();
    Some([held?.rate_per_s, failed?.rate_per_s])
}

fn cell(line: &LineView) -> MetricValue {
    let text = match seen(line) {
        Some([carries, gives_way]) => {
            let state = if line.result.state == LineState::Decided { "decided" } else { "undecided" };
            let of = |rate| number::with_unit(rate, "1/s");
            format!("{}, gives way at {}, {state}", of(carries), of(gives_way))
        }
        None => line.result.sentence.trim_end_matches('.').to_string(),
    };
    let value = seen(line).map(|[rate, _]| rate);
    MetricValue { value, text, late: false, open: false, is_of_open: false, n: line.result.n, repeats: 1 }
}

fn metric(a: &LineView, b: &LineView, floor: NoiseFloor) -> Metric {
    let change = seen(a).zip(seen(b)).map(|(a, b)| (percent(b[0] / a[0]), interval_percent(a, b)));
    let is_told =
        change.is_some_and(|(change, (low, high))| (low > 0.0 || high < 0.0) && change.abs() > floor.percent(LINE));
    Metric {
        name: LINE.to_string(),
        op: String::new(),
        unit: "1/s".to_string(),
        a: cell(a),
        b: cell(b),
        change_percent: change.map(|(change, _)| change),
        interval_percent: change.map(|(_, interval)| interval),
        method: "rates that are carried and rates that are not",
        significant: is_told.then_some(true),
        lower_is_better: Some(false),
    }
}

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

/// Returns the least and the greatest change from a line of A to one of B, in per cent: each lies between the rate that is
/// carried and the one that is not.
fn interval_percent([a_low, a_high]: [f64; 2], [b_low, b_high]: [f64; 2]) -> (f64, f64) {
    (percent(b_low / a_high), percent(b_high / a_low))
}

/// Compares the servers' processor time per operation: if it differs on one machine, with one server and one plan, the
/// processors were faster or slower.
fn cpu_sentence(a: &LineView, b: &LineView) -> Option<String> {
    let (a_s, b_s) = (a.result.server_cpu_per_op_s?, b.result.server_cpu_per_op_s?);
    let change = number::with_unit(percent(b_s / a_s), "%");
    let busy = |line: &LineView, cpu_s| Some(number::significant(line.result.rate_per_s? * cpu_s));
    let (a_busy, b_busy) = (busy(a, a_s)?, busy(b, b_s)?);
    let [a, b] = [a_s, b_s].map(number::seconds);
    Some(format!(
        "next to the line an operation took {a} of the server's processors in A, and {b} in B ({change}); the line is \
         {a_busy} processors in A, and {b_busy} in B."
    ))
}

fn sentence(metric: &Metric) -> &'static str {
    match (metric.significant, metric.change_percent) {
        (Some(true), Some(change)) if change > 0.0 => "the load line of B is higher.",
        (Some(true), Some(_)) => "the load line of B is lower.",
        (_, Some(_)) => "whether the load line of B is higher or lower is undecided.",
        (_, None) => "there are not two lines to compare.",
    }
}
