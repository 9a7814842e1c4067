//! Decisions from pairs, and the stopping rule.

use plimsoll_record::data::{Run, Trial};

use crate::compare;
use crate::stat::median;
use crate::view::{Chart, ConfigDifference, Line, MetricValue};
use crate::{name, number};

use super::evidence::{self, centre, estimate, rejects};
use super::pairs::{AbFold, Pair, first_trials};
use super::{
    AbMetric, AbMetricView, AbPairView, AbRule, AbRuleView, AbSpec, AbView, Decision, Next, SIDES, alpha, sentence,
};

/// Most pairs that a comparison drives.
const PAIRS_MAX: usize = 10_000;

/// Pairs without any usable number after which nothing more is expected.
const USELESS_MAX: usize = 8;

/// Pairs of one metric.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    pub metric: AbMetric,
    /// True for a percentile of operations that no pause of the machine disturbed.
    pub undisturbed: bool,
    /// Number of the pair and the logarithm of B's value over A's.
    pub logs: Vec<(u32, f64)>,
    /// Reason that pairs have no value.
    pub missing: Option<String>,
}

impl Series {
    /// Extracts the metric from pairs: percentiles undisturbed, if pauses were observed in all turns.
    fn of(metric: AbMetric, pairs: &[Pair]) -> Series {
        let watched = pairs.iter().flat_map(|pair| &pair.turns).all(|turn| turn.is_watched);
        Series::with(metric, metric.is_percentile() && watched, pairs)
    }

    fn with(metric: AbMetric, undisturbed: bool, pairs: &[Pair]) -> Series {
        let (mut logs, mut missing) = (Vec::new(), None);
        for pair in pairs {
            match pair.log_ratio(metric, undisturbed) {
                Ok(log) => logs.push((pair.number, log)),
                Err(why) => missing = missing.or(Some(why)),
            }
        }
        Series { metric, undisturbed, logs, missing }
    }

    fn values(&self) -> Vec<f64> {
        self.logs.iter().map(|(_, log)| *log).collect()
    }
}

/// The change in per cent that a log of a ratio is.
fn percent_of(log: f64) -> f64 {
    // The end of an interval is found to that accuracy.
    if log.abs() < 1e-9 { 0.0 } else { log.exp_m1() * 100.0 }
}

/// Decides by the logs of ratios: a difference, when no difference is rejected and the estimate is one that matters;
/// none, when all differences that matter are rejected.
fn decision(logs: &[f64], difference: f64, alpha: f64) -> Decision {
    let matters = difference.ln_1p();
    let Some(value) = centre(logs) else { return Decision::Open };
    if value.abs() < matters {
        let is_same = rejects(logs, matters, alpha) && rejects(logs, -matters, alpha);
        return if is_same { Decision::Same } else { Decision::Open };
    }
    match rejects(logs, 0.0, alpha) {
        true if value > 0.0 => Decision::More,
        true => Decision::Less,
        false => Decision::Open,
    }
}

/// The first decision that the logs of ratios come to, and after how many: what comes later does not take it back.
pub fn decided(logs: &[f64], difference: f64, alpha: f64) -> (Decision, Option<usize>) {
    let fewest = evidence::fewest(alpha);
    let each = (fewest..=logs.len()).map(|n| (decision(&logs[..n], difference, alpha), Some(n)));
    let mut found = each.filter(|(decision, _)| *decision != Decision::Open);
    found.next().unwrap_or((Decision::Open, None))
}

/// Returns true if a condition is met, and the number of pairs after which that was known; `None` if it is undecided.
fn met(rule: &AbRule, logs: &[f64], alpha: f64) -> Option<(bool, usize)> {
    let limit = (rule.percent / 100.0).max(-1.0 + 1e-9).ln_1p();
    let n = (evidence::fewest(alpha)..=logs.len()).find(|n| rejects(&logs[..*n], limit, alpha))?;
    Some(((centre(&logs[..n])? > limit) == rule.above, n))
}

/// Returns true if everything is decided that was to be: the conditions, or without conditions the numbers.
fn is_decided(spec: &AbSpec, all: &[Series]) -> bool {
    let of = |metric: AbMetric| all.iter().find(|one| one.metric == metric).map(Series::values).unwrap_or_default();
    if spec.fail_if.is_empty() {
        spec.metrics.iter().all(|metric| decided(&of(*metric), spec.difference, alpha(spec)).1.is_some())
    } else {
        spec.fail_if.iter().all(|rule| met(rule, &of(rule.metric), alpha(spec)).is_some())
    }
}

/// Time from the first turn's begin to the last one's end, in seconds.
fn spent_s(pairs: &[Pair]) -> f64 {
    let spans = || pairs.iter().flat_map(|pair| &pair.turns).map(|turn| turn.span_ns);
    let from = spans().map(|(from, _)| from).min().unwrap_or(0);
    let to = spans().map(|(_, to)| to).max().unwrap_or(0);
    to.saturating_sub(from) as f64 / 1e9
}

impl AbFold {
    /// Returns the next action.
    pub fn next(&self, spec: &AbSpec) -> Next {
        let pairs = &self.pairs;
        let another = Next::Pair(pairs.iter().map(|pair| pair.number).max().unwrap_or(0) + 1);
        if pairs.is_empty() {
            return another;
        }
        let all: Vec<Series> = spec.metrics.iter().map(|metric| Series::of(*metric, pairs)).collect();
        let useless = pairs.len() >= USELESS_MAX && all.iter().any(|one| one.logs.is_empty());
        let spent = spent_s(pairs);
        let a_pair = spent / pairs.len() as f64;
        if is_decided(spec, &all) || useless || spent + a_pair > spec.budget_s || pairs.len() >= PAIRS_MAX {
            return Next::Done;
        }
        another
    }

    /// The last pair, and what all of them say so far of each number that is to be decided.
    pub fn last(&self, spec: &AbSpec) -> Option<(AbPairView, Vec<AbMetricView>)> {
        let all: Vec<Series> = AbMetric::ALL.iter().map(|metric| Series::of(*metric, &self.pairs)).collect();
        let asked = all.iter().filter(|one| spec.metrics.contains(&one.metric));
        let metrics = asked.map(|one| metric(spec, one, &self.pairs, true)).collect();
        Some((row(spec, self.pairs.last()?, &all), metrics))
    }
}

/// The comparison of `run`; `None` where it is none, or nothing was begun.
pub fn view(run: &Run) -> Option<AbView> {
    let spec = run.header.outline.ab.as_ref()?;
    let [a, b] = first_trials(run)?;
    let pairs = AbFold::of(run).pairs;
    let all: Vec<Series> = AbMetric::ALL.iter().map(|metric| Series::of(*metric, &pairs)).collect();
    let asked = |one: &&Series| spec.metrics.contains(&one.metric);
    let metrics: Vec<AbMetricView> = all
        .iter()
        .flat_map(|one| {
            // Neither hides the other.
            let as_seen = one.undisturbed.then(|| Series::with(one.metric, false, &pairs));
            [Some(metric(spec, one, &pairs, true)), as_seen.map(|seen| metric(spec, &seen, &pairs, false))]
        })
        .flatten()
        .collect();
    let rules = spec.fail_if.iter().map(|rule| of_rule(rule, &all, alpha(spec))).collect();
    let mut view = AbView {
        differences: differences(spec, run, a, b),
        sentence: String::new(),
        decided: is_decided(spec, &all),
        difference_percent: spec.difference * 100.0,
        pairs: pairs.len() as u64,
        seconds: spent_s(&pairs),
        metrics,
        generator_percent: [0, 1].map(|side| {
            median(&pairs.iter().filter_map(|pair| pair.turns[side].generator_percent).collect::<Vec<_>>())
        }),
        rules,
        notes: notes(spec, &all, &pairs, [a, b]),
        rows: pairs.iter().map(|pair| row(spec, pair, &all)).collect(),
        charts: all.iter().filter(asked).filter_map(|one| chart(spec, one)).collect(),
        sides: spec.sides.clone(),
    };
    view.sentence = sentence::sentence(spec, &view);
    Some(view)
}

/// `decides`: it is what the comparison decides on, if it was asked to.
fn metric(spec: &AbSpec, series: &Series, pairs: &[Pair], decides: bool) -> AbMetricView {
    let metric = series.metric;
    let logs = series.values();
    let asked = decides && spec.metrics.contains(&metric);
    let (decision, decided_after) = match asked {
        true => decided(&logs, spec.difference, alpha(spec)),
        false => (Decision::Open, None),
    };
    // What was known when it was decided: others may have gone on.
    let known = estimate(&logs[..decided_after.unwrap_or(logs.len())], alpha(spec));
    let cell = |side: usize| {
        let turns = || pairs.iter().map(|pair| &pair.turns[side]);
        let values: Vec<f64> = turns().filter_map(|turn| turn.value(metric, series.undisturbed).ok()).collect();
        let (n, late) = (turns().map(|turn| turn.ops).sum(), turns().any(|turn| turn.is_moved(metric)));
        MetricValue::median(&values, metric.unit(), series.missing.as_ref(), n, late)
    };
    AbMetricView {
        name: metric.name().to_string(),
        unit: metric.unit().to_string(),
        asked,
        undisturbed: series.undisturbed,
        a: cell(0),
        b: cell(1),
        pairs: logs.len() as u64,
        change_percent: known.map(|known| percent_of(known.value)),
        interval_percent: known.and_then(|known| known.interval).map(|(low, high)| (percent_of(low), percent_of(high))),
        decision,
        decided_after: decided_after.map(|n| n as u64),
    }
}

fn of_rule(rule: &AbRule, all: &[Series], alpha: f64) -> AbRuleView {
    let logs = all.iter().find(|one| one.metric == rule.metric).map(Series::values).unwrap_or_default();
    let found = met(rule, &logs, alpha);
    AbRuleView { rule: rule.text.clone(), met: found.map(|(met, _)| met), known_after: found.map(|(_, n)| n as u64) }
}

fn differences(spec: &AbSpec, run: &Run, a: &Trial, b: &Trial) -> Vec<ConfigDifference> {
    let name = name::trial(&a.header);
    let mut all = compare::side_differences(run, a, b, &spec.plans);
    for one in &mut all {
        // The side's name says nothing of where it is.
        if let Some(phase) = one.place.strip_prefix(&name) {
            let phase = phase.trim_start_matches([',', ' ']);
            one.place = if phase.is_empty() { "side".to_string() } else { phase.to_string() };
        }
    }
    all
}

fn notes(spec: &AbSpec, all: &[Series], pairs: &[Pair], [a, b]: [&Trial; 2]) -> Vec<String> {
    let mut notes = Vec::new();
    if a.header.workload != b.header.workload {
        notes.push(format!("The sides run different workloads: {} and {}.", a.header.workload, b.header.workload));
    } else if a.header.record_count != b.header.record_count {
        notes.push(format!(
            "The sides hold different numbers of records: {} and {}.",
            number::count(a.header.record_count),
            number::count(b.header.record_count)
        ));
    }
    for one in all.iter().filter(|one| spec.metrics.contains(&one.metric) && one.logs.len() < pairs.len()) {
        let without = (pairs.len() - one.logs.len()) as u64;
        notes.push(format!(
            "{} of {} did not measure {}: {}.",
            number::plural(without, "pair", "pairs"),
            number::count(pairs.len() as u64),
            one.metric.name(),
            one.missing.as_deref().unwrap_or("not measured").trim_end_matches('.')
        ));
    }
    let turns = || pairs.iter().flat_map(|pair| &pair.turns);
    let late: Vec<&str> = turns().filter_map(|turn| turn.late.as_deref()).collect();
    if let Some(first) = late.first() {
        notes.push(format!(
            "In {} of {} turns the generator was late, which lengthens response times and lowers rates of either side: {}.",
            number::count(late.len() as u64),
            number::count(turns().count() as u64),
            first.trim_end_matches('.')
        ));
    }
    if spec.plans[0].contains("[goals]") || spec.plans[1].contains("[goals]") {
        notes.push("The plans' goals were not judged: turns are compared with each other.".to_string());
    }
    notes
}

fn row(spec: &AbSpec, pair: &Pair, all: &[Series]) -> AbPairView {
    let asked = || all.iter().filter(|one| spec.metrics.contains(&one.metric));
    let value = |one: &Series, side: usize| pair.turns[side].value(one.metric, one.undisturbed).ok();
    let values = asked().map(|one| [0, 1].map(|side| value(one, side))).collect();
    let left_out = asked().find_map(|one| pair.log_ratio(one.metric, one.undisturbed).err());
    AbPairView { pair: pair.number, first: SIDES[pair.first], values, left_out }
}

/// The change by pair, and what was known after it.
fn chart(spec: &AbSpec, series: &Series) -> Option<Chart> {
    let logs = series.values();
    if logs.is_empty() {
        return None;
    }
    let known: Vec<_> = (1..=logs.len()).map(|n| estimate(&logs[..n], alpha(spec))).collect();
    let interval = |end: fn((f64, f64)) -> f64| -> Vec<Option<f64>> {
        known.iter().map(|known| (*known)?.interval.map(end).map(percent_of)).collect()
    };
    let lines = vec![
        Line::new("this pair", logs.iter().map(|log| Some(percent_of(*log))).collect()),
        Line::new("all so far", known.iter().map(|known| known.map(|known| percent_of(known.value))).collect()),
        Line::new("95 % from", interval(|(low, _)| low)),
        Line::new("95 % to", interval(|(_, high)| high)),
    ];
    Some(Chart {
        name: format!("Change in {}, B against A", series.metric.name()),
        x_name: "Pair".to_string(),
        unit: "%".to_string(),
        x: series.logs.iter().map(|(number, _)| f64::from(*number)).collect(),
        lines: lines.into_iter().filter(|line| line.values.iter().any(Option::is_some)).collect(),
        points: vec![0],
        ..Chart::default()
    })
}
