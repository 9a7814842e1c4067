//! Figures of a run in progress as metrics of Prometheus, before they are written in a format. Names and units follow
//! Prometheus' conventions; the book lists them.

use plimsoll_analysis::Times;
use plimsoll_analysis::live::{LiveGoal, LiveSums};
use plimsoll_analysis::slices::ALL;
use plimsoll_record::data::FaultSpan;

use crate::listen::watched::{SumsOf, WatchedRun};

/// Upper bounds of the buckets of classic histograms, in seconds.
const BOUNDS_S: [f64; 22] = [
    1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0,
];

/// Percentiles of the newest slice.
const PERCENTILES: [&str; 5] = ["p50", "p90", "p95", "p99", "p999"];

/// Label and value.
type Label<'a> = (&'a str, &'a str);

/// Metric: all samples of one name.
pub struct MetricFamily<'a> {
    /// Name.
    pub name: String,
    /// Sentence for people.
    pub about: String,
    /// Type.
    pub kind: MetricKind,
    /// Samples, at least one.
    pub samples: Vec<MetricSample<'a>>,
}

/// Type of a metric.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Sum that only grows.
    Counter,
    /// Value that rises and falls.
    Gauge,
    /// Distribution of times.
    Histogram,
}

/// Value with its labels.
pub struct MetricSample<'a> {
    /// Names and values of labels.
    pub labels: Vec<(String, String)>,
    /// Value.
    pub value: MetricValue<'a>,
}

/// Value of a sample.
pub enum MetricValue<'a> {
    /// Of a counter or a gauge.
    Number(f64),
    /// Of a histogram.
    Times(&'a Times),
}

/// Returns the upper bounds of a classic histogram in seconds, each with the number of times up to it.
pub fn buckets(times: &Times) -> impl Iterator<Item = (f64, u64)> {
    let (mut counts, mut seen) = (times.counts().iter().peekable(), 0_u64);
    BOUNDS_S.into_iter().map(move |bound| {
        while let Some((_, count)) = counts.next_if(|(ns, _)| *ns as f64 <= bound * 1e9) {
            seen += count;
        }
        (bound, seen)
    })
}

/// Returns the sum of times in seconds.
pub fn sum_s(times: &Times) -> f64 {
    times.counts().iter().map(|(ns, count)| *ns as f64 * *count as f64).sum::<f64>() / 1e9
}

/// Returns all metrics of the run that have samples.
pub fn families(run: &WatchedRun) -> Vec<MetricFamily<'_>> {
    let mut out = Metrics::default();
    about(&mut out, run);
    phase(&mut out, run);
    for (prefix, all) in [("plimsoll_operations", true), ("plimsoll_type_operations", false)] {
        let what = if all { "" } else { ", by operation type" };
        let about = format!("Operations that ended, without those of warm-ups{what}.");
        out.begin(&format!("{prefix}_total"), MetricKind::Counter, &about);
        for (of, done) in totals(run, all) {
            for (outcome, count) in [("ok", done.ok()), ("rejected", done.rejected), ("unknown", done.unknown)] {
                out.add(&[&labels(of)[..], &[("outcome", outcome)]].concat(), count as f64);
            }
        }
    }
    out.begin("plimsoll_unsent_operations_total", MetricKind::Counter, "Operations that were due and never sent.");
    for (of, done) in totals(run, true) {
        out.add(&labels(of), done.unfinished as f64);
    }
    for (name, all) in [("plimsoll_response_seconds", true), ("plimsoll_type_response_seconds", false)] {
        let what = if all { "all operation types together" } else { "each operation type" };
        out.begin(name, MetricKind::Histogram, &format!("Response times of {what}, without rejected operations."));
        totals(run, all).for_each(|(of, done)| out.push(&labels(of), MetricValue::Times(&done.times)));
    }
    out.end()
}

fn totals(run: &WatchedRun, all: bool) -> impl Iterator<Item = (&SumsOf, &LiveSums)> {
    run.totals.iter().filter(move |(of, _)| (of.op == ALL) == all)
}

/// Returns the labels of sums. Those of all operation types together have no label `op`.
fn labels(of: &SumsOf) -> Vec<Label<'_>> {
    let mut labels = vec![("store", of.store.as_str()), ("phase", of.phase.as_str())];
    labels.extend((of.op != ALL).then_some(("op", of.op.as_str())));
    labels
}

/// Writes the metrics of the run as a whole.
fn about(out: &mut Metrics<'_>, run: &WatchedRun) {
    if let Some(header) = &run.header {
        out.begin("plimsoll_run_info", MetricKind::Gauge, "The run; the value is 1.");
        let version = header.plimsoll_version.as_str();
        let labels = [("id", &*header.id), ("plan", &*header.plan_name), ("tag", &*header.tag), ("version", version)];
        out.add(&labels, 1.0);
    }
    out.begin("plimsoll_run_ended", MetricKind::Gauge, "1 after the end of the run, 0 before.");
    out.add(&[], f64::from(u8::from(run.ended.is_some())));
    out.begin("plimsoll_lost_observations_total", MetricKind::Counter, "Observations that these figures lack.");
    out.add(&[], run.lost as f64);
    if let Some(cells) = &run.cells {
        out.begin("plimsoll_cells", MetricKind::Gauge, "Cells of the run, by their state.");
        let states =
            [("planned", cells.of), ("done", cells.done), ("left_out", cells.left_out), ("broken", cells.broken)];
        for (state, count) in states {
            out.add(&[("state", state)], f64::from(count));
        }
    }
    out.begin("plimsoll_series", MetricKind::Gauge, "Newest value of a series, in the series' own unit.");
    for (series, value) in run.live.values() {
        let of = [("source", &*series.source), ("subject", &*series.subject), ("name", &*series.name)];
        out.add(&[&of[..], &[("unit", &*series.unit)]].concat(), value);
    }
}

/// Writes the metrics of the phase that began last.
fn phase(out: &mut Metrics<'_>, run: &WatchedRun) {
    let (Some(trial), Some(phase)) = (run.live.trial(), run.live.phase()) else { return };
    let of = [("store", trial.store_label.as_str()), ("phase", phase.header.name.as_str())];
    out.begin("plimsoll_phase_info", MetricKind::Gauge, "Phase that began last; the value is 1 until the phase ends.");
    let kind = [("kind", phase.header.kind.name()), ("trial", run.trial.as_str())];
    out.add(&[&of[..], &kind].concat(), f64::from(u8::from(phase.ended.is_none())));
    if let Some(takes) = phase.takes {
        out.begin("plimsoll_phase_planned_seconds", MetricKind::Gauge, "Planned duration of the phase.");
        out.add(&of, takes.as_secs_f64());
    }
    if let Some(row) = phase.newest.back() {
        out.begin(
            "plimsoll_phase_elapsed_seconds",
            MetricKind::Gauge,
            "Time from the start of the phase to its newest slice.",
        );
        out.add(&of, row.end_s - phase.header.start_ns as f64 / 1e9);
        if let Some(rate) = row.rate_per_s {
            out.begin("plimsoll_slice_operations_per_second", MetricKind::Gauge, "Throughput of the newest slice.");
            out.add(&of, rate);
        }
        let about = "Percentiles of the newest slice, with at least ten samples above.";
        out.begin("plimsoll_slice_response_seconds", MetricKind::Gauge, about);
        for name in PERCENTILES {
            let value = row.percentile_ns(name).map(|ns| ns as f64 / 1e9);
            value.into_iter().for_each(|value| out.add(&[&of[..], &[("percentile", name)]].concat(), value));
        }
        out.begin("plimsoll_in_flight_operations", MetricKind::Gauge, "Operations sent and not answered.");
        out.add(&of, row.in_flight as f64);
        out.begin("plimsoll_due_operations", MetricKind::Gauge, "Operations due and not sent.");
        out.add(&of, row.due_unsent as f64);
    }
    let of_goals = [of[0], ("phase", phase.goals_phase.as_str())];
    goals(out, &of_goals, &phase.goals);
    faults(out, &of, &phase.faults);
}

fn faults(out: &mut Metrics<'_>, of: &[Label<'_>], faults: &[FaultSpan]) {
    out.begin("plimsoll_fault_active", MetricKind::Gauge, "1 while a fault of the phase is in effect, 0 after it.");
    for span in faults {
        let is_active = span.taken_ns.is_some() && span.healed_ns.is_none();
        // A fault may be repeated, with equal words.
        let number = (span.ordinal + 1).to_string();
        let fault = [("fault", span.fault.as_str()), ("subject", span.subject.as_str()), ("number", &*number)];
        out.add(&[of, &fault[..]].concat(), f64::from(u8::from(is_active)));
    }
}

fn goals(out: &mut Metrics<'_>, of: &[Label<'_>], goals: &[LiveGoal]) {
    // Prometheus has times in seconds.
    let scale = |goal: &LiveGoal| if goal.unit == "ns" { 1e-9 } else { 1.0 };
    let value = |goal: &LiveGoal| goal.seen.map(|seen| seen * scale(goal));
    let holds = |goal: &LiveGoal| goal.holds.map(|holds| f64::from(u8::from(holds)));
    type Column<'a> = (&'a str, &'a str, &'a dyn Fn(&LiveGoal) -> Option<f64>);
    let margin_about = "Distance from the limit as a share of it; negative if missed.";
    let columns: [Column<'_>; 4] = [
        ("plimsoll_goal_limit", "Limit of a goal.", &|goal| Some(goal.limit * scale(goal))),
        ("plimsoll_goal_value", "Value of a goal's quantity since the phase began.", &value),
        ("plimsoll_goal_margin_ratio", margin_about, &LiveGoal::margin),
        ("plimsoll_goal_held", "1 if the goal holds so far, 0 if not.", &holds),
    ];
    for (name, about, column) in columns {
        out.begin(name, MetricKind::Gauge, about);
        for goal in goals {
            let unit = if goal.unit == "ns" { "s" } else { goal.unit.as_str() };
            let labels = [of, &[("goal", goal.name.as_str()), ("unit", unit)]].concat();
            column(goal).into_iter().for_each(|value| out.add(&labels, value));
        }
    }
}

/// Metrics, one after the other.
#[derive(Default)]
struct Metrics<'a> {
    families: Vec<MetricFamily<'a>>,
}

impl<'a> Metrics<'a> {
    /// Begins a metric.
    fn begin(&mut self, name: &str, kind: MetricKind, about: &str) {
        let (name, about) = (name.to_owned(), about.to_owned());
        self.families.push(MetricFamily { name, about, kind, samples: Vec::new() });
    }

    /// Adds a number to the metric that was begun last.
    fn add(&mut self, labels: &[Label<'_>], value: f64) {
        self.push(labels, MetricValue::Number(value));
    }

    fn push(&mut self, labels: &[Label<'_>], value: MetricValue<'a>) {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        if let Some(family) = self.families.last_mut() {
            family.samples.push(MetricSample { labels, value });
        }
    }

    /// Returns the metrics. Those without samples are left out.
    fn end(mut self) -> Vec<MetricFamily<'a>> {
        self.families.retain(|family| !family.samples.is_empty());
        self.families
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_record::data::FaultKind;

    use super::*;

    #[test]
    fn buckets_are_cumulative() {
        let mut times = Times::default();
        times.add(&[(900, 3), (40_000, 5), (2_000_000_000, 1), (60_000_000_000, 2)]);
        let found: Vec<(f64, u64)> = buckets(&times).collect();
        assert_eq!(found.len(), BOUNDS_S.len());
        for wanted in [(1e-6, 3), (5e-5, 8), (1.0, 8), (10.0, 9)] {
            assert!(found.contains(&wanted), "{wanted:?} is not in {found:?}");
        }
        assert!((sum_s(&times) - 122.000_202_7).abs() < 1e-9);
    }

    #[test]
    fn faults_are_numbered_from_one() {
        let begun = FaultSpan::begun(FaultKind::Kill, "kill node 2 every 5s for 1s", "node 2", 1);
        let first = FaultSpan { taken_ns: Some(2), healing_ns: Some(3), healed_ns: Some(4), ..begun };
        let second = FaultSpan { ordinal: 1, healed_ns: None, ..first.clone() };
        let mut out = Metrics::default();
        faults(&mut out, &[("store", "redis")], &[first, second]);
        let families = out.end();
        let found = families[0].samples.iter().map(|sample| {
            let number = sample.labels.iter().find(|(name, _)| name == "number").map(|(_, number)| number.as_str());
            let MetricValue::Number(value) = sample.value else { panic!("no number") };
            (number.unwrap(), value)
        });
        assert_eq!(found.collect::<Vec<_>>(), [("1", 0.0), ("2", 1.0)]);
    }

    #[test]
    fn a_metric_without_samples_is_left_out() {
        let run = WatchedRun::default();
        let families = families(&run);
        let names: Vec<&str> = families.iter().map(|family| family.name.as_str()).collect();
        assert_eq!(names, ["plimsoll_run_ended", "plimsoll_lost_observations_total"]);
    }
}
