//! Response times of operations: the table, the histogram in characters, and the steps within operations.

use std::collections::BTreeSet;

use plimsoll_analysis::number;
use plimsoll_analysis::view::{
    BucketView, EventClass, LatencyView, NodeView, PercentileView, PhaseKind, PhaseView, ResultName, ResultView, RowOp,
    RowOutcome, RunView, TrialView,
};
use plimsoll_core::{Measure, Outcome};

use super::results::bad;
use super::{Body, Cell, Column, ColumnOf, NONE, Table, Text, Tone, numbers, or_none, words};
use crate::cells;

/// Phases of which it is said what was seen of the machine's pauses where there is little room.
const PAUSES_MAX: usize = 6;

/// Reports the times of new connections, the number that were lost, and the number that could not be opened.
fn connections((trial, phase): (&TrialView, &PhaseView)) -> Option<String> {
    let result = |what| phase.results.iter().find(|result| result.what == what && result.n > 0);
    let mut parts = Vec::new();
    if let Some(connects) = result(ResultName::Connects) {
        parts.push(format!("{} new connections", connects.text));
        let times = [
            ("mean", ResultName::ConnectMean),
            ("p50", ResultName::ConnectP50),
            ("p95", ResultName::ConnectP95),
            ("p99", ResultName::ConnectP99),
        ];
        parts.extend(times.into_iter().filter_map(|(name, what)| Some(format!("{name} {}", result(what)?.text))));
    }
    let lost = result(ResultName::LostConnections).filter(|lost| lost.value > 0.0);
    parts.extend(lost.map(|lost| {
        let lost = number::plural(lost.value as u64, "connection was lost", "connections were lost");
        match phase.lost_connections_s {
            Some((first_s, last_s)) => match [first_s, last_s].map(|seconds| format!("{seconds:.2} s")) {
                [first, last] if first == last => format!("{lost}, {first} after the phase began"),
                [first, last] => format!("{lost}, from {first} to {last} after the phase began"),
            },
            None => format!("{lost}, at times that are not recorded"),
        }
    }));
    let failed = result(ResultName::FailedConnects).filter(|failed| failed.value > 0.0);
    parts.extend(failed.map(|failed| format!("{} connections could not be opened", failed.text)));
    (!parts.is_empty()).then(|| format!("{} {}: {}", trial.name, phase.name, parts.join(" · ")))
}

/// Reports operations and their tries, if failed ones were sent again.
fn tries((trial, phase): (&TrialView, &PhaseView)) -> Option<String> {
    let result = |what| phase.results.iter().find(|result| result.what == what).map(|result| result.value as u64);
    let (retries, given_up) = (result(ResultName::Retries)?, result(ResultName::GivenUp)?);
    let tries = phase.ops.as_ref().map_or(0, |ops| ops.count);
    let operations = number::plural(tries.saturating_sub(retries), "operation", "operations");
    let (tries, retries, given_up) = (number::count(tries), number::count(retries), number::count(given_up));
    let name = format!("{} {}", trial.name, phase.name);
    Some(format!("{name}: {operations} in {tries} tries: {retries} retries, {given_up} given up"))
}

/// Reports the operations that circuit breakers kept from being sent.
fn broken((trial, phase): (&TrialView, &PhaseView)) -> Option<String> {
    let result = |what| phase.results.iter().find(|result| result.what == what).map(|result| result.value as u64);
    let (opened, rejected) = (result(ResultName::BreakerOpened)?, result(ResultName::BreakerRejected)?);
    // Each try is counted by itself.
    let retries = result(ResultName::Retries).unwrap_or(0);
    let ops = phase.ops.as_ref().map_or(0, |ops| ops.count).saturating_sub(retries);
    let opened = number::plural(opened, "time", "times");
    let mut text = format!("{} {}: circuit breakers opened {opened}", trial.name, phase.name);
    if rejected > 0 {
        let share = number::with_unit(100.0 * rejected as f64 / ops.max(1) as f64, "%");
        let (rejected, ops) = (number::count(rejected), number::count(ops));
        text.push_str(&format!("; {rejected} of {ops} operations were not sent ({share})"));
    }
    Some(text)
}

/// Reports the answers of each status, and the sizes of their bodies.
fn answers((trial, phase): (&TrialView, &PhaseView)) -> Option<String> {
    let of = |what| phase.results.iter().filter(move |result| result.what == what);
    let status = |result: &ResultView| {
        let status = result.name.rsplit(' ').next().unwrap_or_default();
        format!("{} × {status}", number::count(result.n))
    };
    let statuses: Vec<String> = of(ResultName::AnswerStatus).map(status).collect();
    let mut text = format!("{} {}: answers {}", trial.name, phase.name, statuses.join(", "));
    let sizes = of(ResultName::BodyMedianBytes).zip(of(ResultName::BodyMaxBytes));
    for (median, max) in sizes {
        let n = number::count(median.n);
        text.push_str(&format!("; bodies: median {}, max {}, n {n}", median.text, max.text));
    }
    text.push_str("; warm-up included");
    (!statuses.is_empty()).then_some(text)
}

/// Reports the operations that found nothing, and those that were tried again.
fn outcomes((trial, phase): (&TrialView, &PhaseView)) -> Option<String> {
    let operations = |n| number::plural(n, "operation", "operations");
    let missed = phase.not_found.iter().map(|one| {
        let (count, n, share) = (number::count(one.count), number::count(one.n), number::with_unit(one.percent, "%"));
        format!("{}: {count} of {n} found nothing ({share})", one.op)
    });
    let retried = phase.retried.iter().map(|one| {
        let (all, failed) = (operations(one.succeeded + one.failed), number::count(one.failed));
        let succeeded = number::count(one.succeeded);
        format!("{}: {all} retried after a conflict, {succeeded} then succeeded, {failed} failed", one.op)
    });
    let parts: Vec<String> = missed.chain(retried).collect();
    (!parts.is_empty()).then(|| format!("{} {}: {}", trial.name, phase.name, parts.join(" · ")))
}

/// Most driven phases that have a histogram each.
const HISTOGRAMS_MAX: usize = 3;

/// Characters of the longest bar of a histogram.
const BAR_MAX: f64 = 40.0;

/// Latency of the driven phases, as seen and undisturbed, and what was seen of the machine's pauses.
pub fn latencies<'a>(view: &RunView, full: bool) -> Body<'a> {
    let driven = || phases(view, full).filter(|(_, phase)| phase.kind == PhaseKind::Drive);
    let errors = |phase: &PhaseView| phase.ops.as_ref().map_or(0.0, |ops| ops.error_percent);
    let any_errors = driven().any(|(_, phase)| errors(phase) > 0.0);
    let rows = || driven().flat_map(|(trial, phase)| phase.latencies.iter().map(move |row| (trial, phase, row)));
    // Of a sweep, whose trials have long names, there is no room for all percentiles.
    let columns = [
        whose(driven()),
        vec![words("op"), numbers("n"), numbers("rate"), numbers("mean").spare(1), numbers("sd").spare(4)],
        vec![numbers("p50"), numbers("p90").spare(5), numbers("p95").spare(3), numbers("p99")],
        vec![numbers("p99.9").spare(2), numbers("max"), numbers("errors").when(any_errors)],
    ];
    let mut table = Table::new("Latency under load", columns.concat());
    let mut any_disturbed = false;
    for (trial, phase, row) in rows() {
        let late = |text: String| number::marked(text, row.late);
        let times = |[mean_ns, stddev_ns]: [f64; 2], percentiles: &[PercentileView], max_ns: u64| {
            let mut cells = cells![late(number::seconds(mean_ns / 1e9)), late(number::seconds(stddev_ns / 1e9))];
            cells.extend(percentiles.iter().map(|one| percentile(one, row.late)));
            cells.push(late(number::nanoseconds(max_ns)).into());
            cells
        };
        let rate = late(number::with_unit(row.rate_per_s, "1/s"));
        let mut cells = cells![&trial.name, &phase.name, op_name(row, phase.open_loop), number::count(row.count), rate];
        cells.extend(times([row.mean_ns, row.stddev_ns], &row.percentiles, row.max_ns));
        let is_first = phase.latencies.first() == Some(row);
        cells.push(Cell::from(if is_first { number::with_unit(errors(phase), "%") } else { String::new() }));
        table.row(cells);
        if let Some(undisturbed) = row.undisturbed.as_ref().filter(|other| is_disturbed(row, &other.percentiles)) {
            any_disturbed = true;
            let op = Text::from("  ").then(Tone::Dim, "undisturbed");
            let mut cells = cells![Tone::Dim.text(&trial.name), Tone::Dim.text(&phase.name), op];
            cells.extend(cells![number::count(undisturbed.count), ""]);
            let moments = [undisturbed.mean_ns, undisturbed.stddev_ns];
            cells.extend(times(moments, &undisturbed.percentiles, undisturbed.max_ns));
            cells.push(Cell::from(""));
            table.row(cells);
        }
    }
    let mut note = "without warm-up; sd: standard deviation; – needs 10 samples above it: p99 1,000".to_string();
    if any_disturbed {
        note.push_str("; undisturbed: without operations that a pause of the machine held up");
    }
    let mut body = Body::noted(note);
    if table.rows.is_empty() {
        return body;
    }
    body.table(table);
    if let Some(late) = &view.late {
        body.text(Tone::Open.text("* ").then(Tone::Plain, &late.text));
        body.text(Tone::Dim.text(format!("→ {}", late.next)));
    }
    pauses(view, driven(), full, &mut body);
    driven().filter_map(outcomes).for_each(|text| body.text(Tone::Dim.text(text)));
    driven().filter_map(connections).for_each(|text| body.text(Tone::Dim.text(text)));
    driven().filter_map(tries).for_each(|text| body.text(Tone::Dim.text(text)));
    driven().filter_map(broken).for_each(|text| body.text(Tone::Dim.text(text)));
    driven().filter_map(answers).for_each(|text| body.text(Tone::Dim.text(text)));
    body
}

/// Lists the times that samplers took individually.
pub fn sampled<'a>(view: &RunView, full: bool) -> Body<'a> {
    let note = "times of single operations of the server and of devices, as samplers saw them";
    timed(view, full, ("Sampled times", "what", note), |phase| &phase.sampled)
}

/// A table of what took how long, under a label; what a row is of stands under `head`.
pub(super) fn timed<'a>(
    view: &RunView,
    full: bool,
    (label, head, note): (&str, &str, &'static str),
    rows: impl Fn(&PhaseView) -> &Vec<NodeView>,
) -> Body<'a> {
    let driven = || phases(view, full).filter(|(_, phase)| !rows(phase).is_empty());
    let columns = [
        whose(driven()),
        vec![words(head), numbers("n").spare(3), numbers("rate"), numbers("mean").spare(4)],
        vec![numbers("p50"), numbers("p90").spare(5), numbers("p95"), numbers("p99")],
        vec![numbers("p99.9").spare(1), numbers("max").spare(2)],
    ];
    let mut table = Table::new(label, columns.concat());
    for (trial, phase) in driven() {
        let late = |text: String| number::marked(text, phase.late.is_some());
        for node in rows(phase) {
            let rate = late(number::with_unit(node.rate_per_s, "1/s"));
            let mut cells = cells![&trial.name, &phase.name, &node.name, number::count(node.count), rate];
            cells.push(late(number::seconds(node.mean_ns / 1e9)).into());
            cells.extend(node.percentiles.iter().map(|one| percentile(one, phase.late.is_some())));
            cells.push(late(number::nanoseconds(node.max_ns)).into());
            table.row(cells);
        }
    }
    if table.rows.is_empty() {
        return Body::default();
    }
    let mut body = Body::noted(note);
    body.table(table);
    body
}

/// The columns that say whose a row is. Those that are the same in all rows are left out.
pub(super) fn whose<'v>(phases: impl Iterator<Item = (&'v TrialView, &'v PhaseView)>) -> Vec<Column> {
    let (mut trials, mut names) = (BTreeSet::new(), BTreeSet::new());
    for (trial, phase) in phases {
        trials.insert(&trial.name);
        names.insert(&phase.name);
    }
    vec![words("trial").when(trials.len() > 1), words("phase").when(names.len() > 1)]
}

/// Distributions of times, in characters; of few phases only.
pub fn histograms<'a>(view: &RunView) -> Body<'a> {
    let driven: Vec<_> = phases(view, false).filter(|(_, phase)| phase.kind == PhaseKind::Drive).collect();
    let mut body = Body::noted("of the response times of all operations");
    let drawn = driven.iter().filter(|(_, phase)| driven.len() <= HISTOGRAMS_MAX && !phase.histogram.is_empty());
    for (trial, phase) in drawn {
        let name = format!("{}, {}", trial.name, phase.name);
        if driven.len() > 1 {
            body.heading(name.clone(), "");
        }
        body.table(histogram(name, &phase.histogram));
    }
    body
}

/// True if a time of the row is more than a tenth away from the same time without pauses.
fn is_disturbed(row: &LatencyView, undisturbed: &[PercentileView]) -> bool {
    let times = row.percentiles.iter().zip(undisturbed).filter_map(|(all, other)| Some((all.ns?, other.ns?)));
    times.into_iter().any(|(all, other)| all.abs_diff(other) * 10 > other)
}

fn histogram(name: String, buckets: &[BucketView]) -> Table {
    let most = buckets.iter().map(|bucket| bucket.count).max().unwrap_or(0).max(1);
    let bound = |bucket: &BucketView| match bucket.to_ns {
        Some(to_ns) => format!("< {}", number::nanoseconds(to_ns)),
        None => format!("≥ {}", number::nanoseconds(bucket.from_ns)),
    };
    let columns: [ColumnOf<'_, BucketView>; 5] = [
        (numbers("time"), &|bucket| bound(bucket).into()),
        (numbers("n"), &|bucket| number::count(bucket.count).into()),
        (numbers("share"), &|bucket| format!("{:.2} %", bucket.percent).into()),
        (numbers("up to here"), &|bucket| format!("{:.2} %", bucket.cumulative_percent).into()),
        (words(""), &|bucket| bar(bucket.count as f64 / most as f64 * BAR_MAX).into()),
    ];
    Table::of(name, buckets, &columns)
}

/// A bar of so many characters, to an eighth of one.
fn bar(length: f64) -> String {
    let eighths = if length > 0.0 { ((length * 8.0).round() as usize).max(1) } else { 0 };
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    "█".repeat(eighths / 8) + rest
}

/// Reports the machine's pauses in each phase; of many phases, the worst.
fn pauses<'v>(
    view: &RunView,
    driven: impl Iterator<Item = (&'v TrialView, &'v PhaseView)>,
    full: bool,
    body: &mut Body<'_>,
) {
    let seen = driven.filter_map(|(trial, phase)| Some((trial, phase, phase.pauses.as_ref()?)));
    let mut seen: Vec<_> = seen.collect();
    let left_out = if full { 0 } else { seen.len().saturating_sub(PAUSES_MAX) };
    if left_out > 0 {
        seen.sort_by(|(.., a), (.., b)| b.paused_percent.total_cmp(&a.paused_percent));
        seen.truncate(PAUSES_MAX);
    }
    for (trial, phase, pauses) in seen {
        body.text(Tone::Dim.text(format!("{} {}: {}", trial.name, phase.name, pauses.sentence)));
    }
    if left_out > 0 {
        body.text(format!("and {} more phases with fewer pauses", number::count(left_out as u64)));
    }
    for event in view.events.iter().filter(|event| event.kind == EventClass::Witness) {
        body.text(Tone::Dim.text(&event.text));
    }
}

/// The statements of transactions, under their operations.
pub fn steps<'a>(view: &RunView, full: bool) -> Body<'a> {
    let mut body =
        Body::noted("share: of the operations' own time, – where steps overlap (pipelines); steps are in no total");
    let columns = [
        whose(phases(view, full).filter(|(_, phase)| !phase.steps.is_empty())),
        vec![words("op").spare(6), words("step"), numbers("n").spare(3), numbers("errors").spare(7)],
        vec![numbers("mean"), numbers("sd"), numbers("p50"), numbers("p90").spare(9), numbers("p95"), numbers("p99")],
        vec![numbers("p99.9").spare(10), numbers("max").spare(8), numbers("share").spare(4)],
    ];
    let mut table = Table::new("Steps within operations", columns.concat());
    for (trial, phase) in phases(view, full) {
        for step in &phase.steps {
            let mut cells = cells![&trial.name, &phase.name, &step.op, &step.name, number::count(step.count)];
            let moments = [step.mean_ns, step.stddev_ns].map(|ns| number::seconds(ns / 1e9));
            cells.push(bad(step.errors));
            cells.extend(moments.map(Cell::from));
            cells.extend(step.percentiles.iter().map(|one| percentile(one, false)));
            let share = or_none(step.share_percent.map(|share| number::with_unit(share, "%")));
            cells.extend(cells![number::nanoseconds(step.max_ns), share]);
            table.row(cells);
        }
    }
    body.first_rows(table, full);
    body
}

/// The phases that stand in tables of phases: where there is little room without rungs and turns, which have tables of
/// their own.
pub(super) fn phases(view: &RunView, full: bool) -> impl Iterator<Item = (&TrialView, &PhaseView)> {
    let is_shown =
        move |phase: &PhaseView| full || (view.ab.is_none() && (view.lines.is_empty() || phase.rung.is_none()));
    let all = view.trials.iter().flat_map(|trial| trial.phases.iter().map(move |phase| (trial, phase)));
    all.filter(move |(_, phase)| is_shown(phase))
}

/// The kind, its outcome where it is not ok, and in an open loop whether the wait for a session is in it.
fn op_name(row: &LatencyView, open_loop: bool) -> Text {
    let mut more = String::new();
    match row.outcome {
        RowOutcome::All | RowOutcome::Of(Outcome::Ok) => {}
        RowOutcome::Unfinished => more.push_str(", unfinished"),
        RowOutcome::Of(outcome) => more.push_str(&format!(", {}", outcome.name().replace('_', " "))),
    }
    if open_loop && row.measure == Measure::Service {
        more.push_str(", service time");
    }
    let op = match &row.op {
        RowOp::All => "all operations",
        RowOp::Kind(name) => name,
    };
    Text::from(op).then(Tone::Dim, more)
}

pub(super) fn percentile(one: &PercentileView, late: bool) -> Cell {
    match one.ns {
        Some(ns) => number::marked(number::nanoseconds(ns), late).into(),
        None => Cell::why(NONE, one.missing.as_ref()),
    }
}
