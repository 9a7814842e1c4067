//! Figures of a run in progress in Prometheus' text format, version 0.0.4. Names and units follow Prometheus'
//! conventions; the book lists them.

use std::fmt::Write as _;

use plimsoll_analysis::Times;
use plimsoll_analysis::live::{LiveGoal, LiveSums};
use plimsoll_analysis::slices::ALL;

use crate::listen::watched::{SumsOf, WatchedRun};

/// Upper bounds of the buckets of histograms, in seconds.
const BOUNDS_S: [f64; 22] = [
    1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0,
];

/// Percentiles of the newest slice.
const PERCENTILES: [&str; 5] = ["p50", "p90", "p95", "p99", "p999"];

/// Label and value.
type Label<'a> = (&'a str, &'a str);

/// Returns all metrics of the run.
pub fn text(run: &WatchedRun) -> String {
    let mut out = Metrics::default();
    about(&mut out, run);
    phase(&mut out, run);
    for (prefix, all) in [("plimsoll_operations", true), ("plimsoll_type_operations", false)] {
        let what = if all { "" } else { ", by operation type" };
        let about = format!("Operations that ended, without those of warm-ups{what}.");
        out.begin(&format!("{prefix}_total"), "counter", &about);
        for (of, done) in totals(run, all) {
            for (outcome, count) in [("ok", done.ok()), ("rejected", done.rejected), ("unknown", done.unknown)] {
                out.add("", &[&labels(of)[..], &[("outcome", outcome)]].concat(), count as f64);
            }
        }
    }
    out.begin("plimsoll_unsent_operations_total", "counter", "Operations that were due and never sent.");
    for (of, done) in totals(run, true) {
        out.add("", &labels(of), done.unfinished as f64);
    }
    for (name, all) in [("plimsoll_response_seconds", true), ("plimsoll_type_response_seconds", false)] {
        let what = if all { "all operation types together" } else { "each operation type" };
        out.begin(name, "histogram", &format!("Response times of {what}, without rejected operations."));
        totals(run, all).for_each(|(of, done)| out.histogram(&labels(of), &done.times));
    }
    out.text
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
fn about(out: &mut Metrics, run: &WatchedRun) {
    if let Some(header) = &run.header {
        out.begin("plimsoll_run_info", "gauge", "The run; the value is 1.");
        let version = header.plimsoll_version.as_str();
        let labels = [("id", &*header.id), ("plan", &*header.plan_name), ("tag", &*header.tag), ("version", version)];
        out.add("", &labels, 1.0);
    }
    out.begin("plimsoll_run_ended", "gauge", "1 after the end of the run, 0 before.");
    out.add("", &[], f64::from(u8::from(run.ended.is_some())));
    out.begin("plimsoll_lost_observations_total", "counter", "Observations that these figures lack.");
    out.add("", &[], run.lost as f64);
    if let Some(cells) = &run.cells {
        out.begin("plimsoll_cells", "gauge", "Cells of the run, by their state.");
        let states =
            [("planned", cells.of), ("done", cells.done), ("left_out", cells.left_out), ("broken", cells.broken)];
        for (state, count) in states {
            out.add("", &[("state", state)], f64::from(count));
        }
    }
    out.begin("plimsoll_series", "gauge", "Newest value of a series, in the series' own unit.");
    for (series, value) in run.live.values() {
        let of = [("source", &*series.source), ("subject", &*series.subject), ("name", &*series.name)];
        out.add("", &[&of[..], &[("unit", &*series.unit)]].concat(), value);
    }
}

/// Writes the metrics of the phase that began last.
fn phase(out: &mut Metrics, run: &WatchedRun) {
    let (Some(trial), Some(phase)) = (run.live.trial(), run.live.phase()) else { return };
    let of = [("store", trial.store_label.as_str()), ("phase", phase.header.name.as_str())];
    out.begin("plimsoll_phase_info", "gauge", "Phase that began last; the value is 1 until the phase ends.");
    let kind = [("kind", phase.header.kind.name()), ("trial", run.trial.as_str())];
    out.add("", &[&of[..], &kind].concat(), f64::from(u8::from(phase.ended.is_none())));
    if let Some(takes) = phase.takes {
        out.begin("plimsoll_phase_planned_seconds", "gauge", "Planned duration of the phase.");
        out.add("", &of, takes.as_secs_f64());
    }
    if let Some(row) = phase.newest.back() {
        out.begin("plimsoll_phase_elapsed_seconds", "gauge", "Time from the start of the phase to its newest slice.");
        out.add("", &of, row.end_s - phase.header.start_ns as f64 / 1e9);
        if let Some(rate) = row.rate_per_s {
            out.begin("plimsoll_slice_operations_per_second", "gauge", "Throughput of the newest slice.");
            out.add("", &of, rate);
        }
        let about = "Percentiles of the newest slice, with at least ten samples above.";
        out.begin("plimsoll_slice_response_seconds", "gauge", about);
        for name in PERCENTILES {
            let value = row.percentile_ns(name).map(|ns| ns as f64 / 1e9);
            value.into_iter().for_each(|value| out.add("", &[&of[..], &[("percentile", name)]].concat(), value));
        }
        out.begin("plimsoll_in_flight_operations", "gauge", "Operations sent and not answered.");
        out.add("", &of, row.in_flight as f64);
        out.begin("plimsoll_due_operations", "gauge", "Operations due and not sent.");
        out.add("", &of, row.due_unsent as f64);
    }
    let of_goals = [of[0], ("phase", phase.goals_phase.as_str())];
    goals(out, &of_goals, &phase.goals);
    out.begin("plimsoll_fault_active", "gauge", "1 while a fault of the phase is in effect, 0 after it.");
    for span in &phase.faults {
        let is_active = span.taken_ns.is_some() && span.healed_ns.is_none();
        // A fault may be repeated, with equal words.
        let number = span.ordinal.to_string();
        let fault = [("fault", span.fault.as_str()), ("subject", span.subject.as_str()), ("number", &*number)];
        out.add("", &[&of[..], &fault].concat(), f64::from(u8::from(is_active)));
    }
}

fn goals(out: &mut Metrics, of: &[Label<'_>], goals: &[LiveGoal]) {
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
        out.begin(name, "gauge", about);
        for goal in goals {
            let unit = if goal.unit == "ns" { "s" } else { goal.unit.as_str() };
            let labels = [of, &[("goal", goal.name.as_str()), ("unit", unit)]].concat();
            column(goal).into_iter().for_each(|value| out.add("", &labels, value));
        }
    }
}

/// Text with the samples of one metric after the other.
#[derive(Default)]
struct Metrics {
    text: String,
    /// Name of the metric that was begun last.
    name: String,
    /// Lines that begin it; written before its first sample.
    head: String,
}

impl Metrics {
    /// Begins a metric. A metric without samples is left out.
    fn begin(&mut self, name: &str, kind: &str, about: &str) {
        self.name = name.to_owned();
        self.head = format!("# HELP {name} {about}\n# TYPE {name} {kind}\n");
    }

    /// Adds a sample of the metric; `part` is the end of its name in a histogram.
    fn add(&mut self, part: &str, labels: &[Label<'_>], value: f64) {
        self.text.push_str(&std::mem::take(&mut self.head));
        let pairs: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let pairs = if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) };
        let _ = writeln!(self.text, "{}{part}{pairs} {value}", self.name);
    }

    /// Adds a histogram of the metric, with cumulative buckets.
    fn histogram(&mut self, labels: &[Label<'_>], times: &Times) {
        let (mut counts, mut seen) = (times.counts().iter().peekable(), 0_u64);
        for bound in BOUNDS_S {
            while let Some((_, count)) = counts.next_if(|(ns, _)| *ns as f64 <= bound * 1e9) {
                seen += count;
            }
            self.add("_bucket", &[labels, &[("le", &*bound.to_string())]].concat(), seen as f64);
        }
        self.add("_bucket", &[labels, &[("le", "+Inf")]].concat(), times.len() as f64);
        let sum_ns: f64 = times.counts().iter().map(|(ns, count)| *ns as f64 * *count as f64).sum();
        self.add("_sum", labels, sum_ns / 1e9);
        self.add("_count", labels, times.len() as f64);
    }
}

/// Escapes the value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_the_last_has_all() {
        let mut times = Times::default();
        times.add(&[(900, 3), (40_000, 5), (2_000_000_000, 1), (60_000_000_000, 2)]);
        let mut out = Metrics::default();
        out.begin("x_seconds", "histogram", "Times.");
        out.histogram(&[("store", "a\"b\\")], &times);
        let line = |end: &str| out.text.lines().find(|line| line.contains(end)).unwrap().rsplit(' ').next().unwrap();
        let found = ["le=\"0.000001\"", "le=\"0.00005\"", "le=\"1\"", "le=\"10\"", "+Inf", "_count", "_sum"].map(line);
        assert_eq!(found, ["3", "8", "8", "9", "11", "11", "122.0002027"]);
        assert!(out.text.starts_with("# HELP x_seconds Times.\n# TYPE x_seconds histogram\nx_seconds_bucket{"));
        assert!(out.text.contains("store=\"a\\\"b\\\\\""), "{}", out.text);
    }

    #[test]
    fn a_metric_without_samples_is_left_out() {
        let text = text(&WatchedRun::default());
        assert_eq!(text.lines().filter(|line| line.starts_with("# TYPE")).count(), 2, "{text}");
        assert!(text.contains("\nplimsoll_run_ended 0\n"), "{text}");
    }
}
