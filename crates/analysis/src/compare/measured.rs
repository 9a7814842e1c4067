//! The numbers of matching trials.

use std::collections::BTreeMap;

use indexmap::{IndexMap, IndexSet};
use plimsoll_record::data::{PhaseKind, Run, Trial};

use crate::latency::{PERCENTILES, Times};
use crate::name::{self, REPEAT};
use crate::number;
use crate::phase::{PhaseFacts, UNDISTURBED, asked_s};

use super::judge::{Observed, Within, change, resampled};
use super::{Group, Matched, Metric, MetricValue, NoiseFloor};

/// Sentence about the rate of a load that was not driven.
const WATCHED: &str =
    "the load was watched, not driven: its clients decide the rate, which does not say what the server can do";

/// All repeats of one point of the sweep.
struct Point<'a> {
    name: String,
    /// Other clients drove the load.
    watched: bool,
    trials: Vec<(&'a Trial, Vec<PhaseFacts<'a>>)>,
}

/// The points of the sweep by their labels.
fn points(run: &Run) -> IndexMap<BTreeMap<String, String>, Point<'_>> {
    let mut points: IndexMap<_, Point<'_>> = IndexMap::new();
    for one in &run.trials {
        let mut labels = one.header.labels.clone();
        labels.remove(REPEAT);
        labels.insert("store".to_string(), one.header.store_label.clone());
        let new = || Point {
            name: name::trial_without(&one.header, &[REPEAT]),
            watched: run.header.outline.watched,
            trials: Vec::new(),
        };
        points.entry(labels).or_insert_with(new).trials.push((one, PhaseFacts::of(one)));
    }
    points
}

/// The numbers of all points, and of named figures.
pub(super) fn groups<'a>(a: &'a Run, b: &'a Run, floor: NoiseFloor) -> Matched<'a> {
    let (points_a, points_b) = (points(a), points(b));
    let mut all = Matched::default();
    // One store against another: nothing else could be meant.
    let alone = points_a.len() == 1 && points_b.len() == 1;
    for (labels, point_a) in &points_a {
        let point_b = if alone { points_b.values().next() } else { points_b.get(labels) };
        let Some(point_b) = point_b else {
            all.unmatched.push(format!("{} is only in A", point_a.name));
            let mut alone = Matched::default();
            point(&point_a.name, point_a, point_a, floor, &mut alone);
            all.only_a.extend(alone.groups);
            continue;
        };
        all.pairs.extend(point_a.trials.first().zip(point_b.trials.first()).map(|((a, _), (b, _))| (*a, *b)));
        let name = if point_a.name == point_b.name {
            point_a.name.clone()
        } else {
            format!("{} → {}", point_a.name, point_b.name)
        };
        point(&name, point_a, point_b, floor, &mut all);
        all.unmatched.extend(unlike(&name, point_a, point_b));
    }
    let only_b = points_b.iter().filter(|(labels, _)| !alone && !points_a.contains_key(*labels));
    all.unmatched.extend(only_b.map(|(_, point)| format!("{} is only in B", point.name)));
    figures(a, b, floor, &mut all);
    all
}

fn point(name: &str, a: &Point<'_>, b: &Point<'_>, floor: NoiseFloor, all: &mut Matched<'_>) {
    for first in a.trials.first().into_iter().flat_map(|(_, facts)| facts) {
        let phase = first.phase.header.name.as_str();
        let of_a = of_phase(a, phase);
        let (groups, of_b) = match of_phase(b, phase) {
            of_b if of_b.is_empty() => (&mut all.only_a, of_phase(a, phase)),
            of_b => (&mut all.groups, of_b),
        };
        let mut metrics = Vec::new();
        match first.phase.header.kind {
            PhaseKind::Drive => {
                driven(&of_a, &of_b, floor, &mut metrics);
                let rates = metrics.iter_mut().filter(|metric| metric.name == "rate" && (a.watched || b.watched));
                rates.for_each(|rate| rate.lower_is_better = None);
            }
            PhaseKind::Ask => asked(&of_a, &of_b, floor, &mut metrics),
            _ => {}
        }
        if matches!(first.phase.header.kind, PhaseKind::Load | PhaseKind::Settle | PhaseKind::Restart) {
            let one = |all: &[&PhaseFacts<'_>]| quantities(all, "seconds", None, Within::Nothing);
            metrics.push(metric("seconds", "", "s", &one(&of_a), &one(&of_b), floor));
        }
        if !metrics.is_empty() {
            let given = match a.watched || b.watched {
                true => Some(WATCHED.to_string()),
                false => given(of_a.first().copied(), of_b.first().copied()),
            };
            groups.push(Group { trial: name.to_string(), phase: phase.to_string(), given, metrics });
        }
    }
    let space = space(a, b, floor);
    if !space.is_empty() {
        all.groups.push(Group { trial: name.to_string(), phase: "space".to_string(), given: None, metrics: space });
    }
}

/// Returns a sentence about the rates that were given.
fn given(a: Option<&PhaseFacts<'_>>, b: Option<&PhaseFacts<'_>>) -> Option<String> {
    let rate = |facts: Option<&PhaseFacts<'_>>| facts.and_then(|facts| facts.phase.header.rate_per_s);
    let shown = |rate: f64| number::with_unit(rate, "1/s");
    let which = match (rate(a), rate(b)) {
        (None, None) => return None,
        (Some(a), Some(b)) if a == b => format!("{} in both", shown(a)),
        (Some(a), Some(b)) => format!("{} in A and {} in B", shown(a), shown(b)),
        (Some(a), None) => format!("{} in A", shown(a)),
        (None, Some(b)) => format!("{} in B", shown(b)),
    };
    Some(format!("the rate was given, {which}: where it was reached it does not say what the store can do"))
}

/// Lists the operations that only one of two trials has.
fn unlike(name: &str, a: &Point<'_>, b: &Point<'_>) -> Vec<String> {
    let (Some((of_a, in_a)), Some((of_b, in_b))) = (a.trials.first(), b.trials.first()) else { return Vec::new() };
    let mut unlike = Vec::new();
    let (workload_a, workload_b) = (&of_a.header.workload, &of_b.header.workload);
    if workload_a != workload_b {
        unlike.push(format!("{name} ran different workloads: {workload_a} in A, {workload_b} in B"));
    }
    for (side, here, there) in [("A", in_a, in_b), ("B", in_b, in_a)] {
        let asks = |facts: &&PhaseFacts<'_>| matches!(facts.phase.header.kind, PhaseKind::Drive | PhaseKind::Ask);
        let is_alone =
            |facts: &&PhaseFacts<'_>| !there.iter().any(|other| other.phase.header.name == facts.phase.header.name);
        let alone = here.iter().filter(asks).filter(is_alone);
        unlike.extend(alone.map(|facts| format!("{name}, phase {} is only in {side}", facts.phase.header.name)));
    }
    for (side, here, there) in [("A", a, b), ("B", b, a)] {
        unlike.extend(types_only_in(side, here, there).into_iter().map(|types| format!("{name}, {types}")));
    }
    unlike
}

/// Lists the operation types that `here`, which is `side`, has and `there` has not, for each driven phase of both.
fn types_only_in(side: &str, here: &Point<'_>, there: &Point<'_>) -> Vec<String> {
    let types = |point: &Point<'_>, phase: &str| -> IndexSet<String> {
        let phases = of_phase(point, phase);
        phases
            .iter()
            .flat_map(|facts| facts.kinds().into_iter().map(move |kind| facts.op_name(kind).to_string()))
            .collect()
    };
    let phases = here.trials.first().into_iter().flat_map(|(_, facts)| facts).map(|facts| &facts.phase.header);
    let driven = phases.filter(|phase| phase.kind == PhaseKind::Drive);
    let alone = driven.filter_map(|phase| {
        let known = types(there, &phase.name);
        let alone: Vec<String> = types(here, &phase.name).difference(&known).cloned().collect();
        let is_told = !known.is_empty() && !alone.is_empty();
        is_told.then(|| format!("phase {}: {} operations are only in {side}", phase.name, number::list(&alone)))
    });
    alone.collect()
}

fn of_phase<'p, 'a>(point: &'p Point<'a>, name: &str) -> Vec<&'p PhaseFacts<'a>> {
    let in_trial =
        |(_, facts): &'p (&'a Trial, Vec<PhaseFacts<'a>>)| facts.iter().find(|facts| facts.phase.header.name == name);
    point.trials.iter().filter_map(in_trial).collect()
}

type Seen = Result<crate::phase::Quantity, String>;

/// The quantity `name` of one phase in all repeats.
fn quantities(all: &[&PhaseFacts<'_>], name: &str, op: Option<&str>, within: Within) -> Observed {
    let seen = all.iter().map(|facts| (facts.quantity(name, op), facts.is_moved(name, op)));
    observed(seen.collect(), within)
}

/// Returns the observation of each repeat, and true if a late generator may have changed it.
fn observed(repeats: Vec<(Seen, bool)>, within: Within) -> Observed {
    let mut all = Observed { within, ..Observed::default() };
    for (one, late) in repeats {
        match one {
            Ok(quantity) => {
                all.repeats.push(quantity.value);
                all.n += quantity.n;
                all.late |= late;
            }
            Err(why) => all.missing = all.missing.or(Some(why)),
        }
    }
    all
}

fn driven(a: &[&PhaseFacts<'_>], b: &[&PhaseFacts<'_>], floor: NoiseFloor, metrics: &mut Vec<Metric>) {
    let rate = |all: &[&PhaseFacts<'_>]| {
        let first = all.first().map(|facts| facts.rates(false)).unwrap_or_default();
        quantities(all, "rate", None, Within::Series(first))
    };
    metrics.push(metric("rate", "all", "1/s", &rate(a), &rate(b), floor));
    let mut ops: Vec<Option<&str>> = vec![None];
    if let Some(first) = a.first().filter(|first| first.kinds().len() > 1) {
        ops.extend(first.kinds().iter().map(|kind| Some(first.op_name(*kind))));
    }
    for op in ops {
        percentiles(a, b, op, false, floor, metrics);
    }
    percentiles(a, b, None, true, floor, metrics);
    let errors = |all: &[&PhaseFacts<'_>]| quantities(all, "errors", None, Within::Nothing);
    metrics.push(metric("errors", "all", "%", &errors(a), &errors(b), floor));
}

/// Percentiles of kind `op`, or of all kinds together; `undisturbed`, without what pauses of the machine disturbed, where
/// both runs know them.
fn percentiles(
    a: &[&PhaseFacts<'_>],
    b: &[&PhaseFacts<'_>],
    op: Option<&str>,
    undisturbed: bool,
    floor: NoiseFloor,
    metrics: &mut Vec<Metric>,
) {
    let slices = |all: &[&PhaseFacts<'_>]| -> Option<Vec<Times>> {
        let facts = all.first()?;
        let counted = facts.phase.slices.iter().filter(|slice| !facts.is_warmup(slice));
        let seen = |slice| if undisturbed { facts.judged_slice(slice, op) } else { Some(facts.waited_in(slice, op)) };
        counted.map(seen).collect()
    };
    let (Some(slices_a), Some(slices_b)) = (slices(a), slices(b)) else { return };
    if !undisturbed {
        let means = |slices: &[Times]| {
            let seen = slices.iter().filter(|times| !times.is_empty());
            Within::Series(seen.map(|times| times.mean_ns() / 1e9).collect())
        };
        let mean = (quantities(a, "mean", op, means(&slices_a)), quantities(b, "mean", op, means(&slices_b)));
        let of_both = |name| (quantities(a, name, op, Within::Nothing), quantities(b, name, op, Within::Nothing));
        for (name, (a, b)) in [("mean", mean), ("stddev", of_both("stddev"))] {
            if a.value().is_some() || b.value().is_some() {
                metrics.push(metric(name, op.unwrap_or("all"), "s", &a, &b, floor));
            }
        }
    }
    for ((name, _), interval) in PERCENTILES.into_iter().zip(resampled(&slices_a, &slices_b)) {
        let name = format!("{}{name}", if undisturbed { UNDISTURBED } else { "" });
        let one = |all: &[&PhaseFacts<'_>]| quantities(all, &name, op, Within::Resampled(interval));
        let (a, b) = (one(a), one(b));
        let known = [&a, &b].into_iter().filter(|one| one.value().is_some()).count();
        if known > usize::from(undisturbed) {
            metrics.push(metric(&name, op.unwrap_or("all"), "s", &a, &b, floor));
        }
    }
}

fn asked(a: &[&PhaseFacts<'_>], b: &[&PhaseFacts<'_>], floor: NoiseFloor, metrics: &mut Vec<Metric>) {
    let one = |all: &[&PhaseFacts<'_>]| {
        let each = all.iter().flat_map(|facts| &facts.phase.end.asked).filter(|asked| !asked.outcome.is_error());
        quantities(all, "median_seconds", None, Within::Values(each.map(asked_s).collect()))
    };
    metrics.push(metric("median_seconds", "", "s", &one(a), &one(b), floor));
}

fn space(a: &Point<'_>, b: &Point<'_>, floor: NoiseFloor) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for name in ["data_bytes", "index_bytes", "total_bytes"] {
        let one = |point: &Point<'_>| {
            let last = |(_, facts): &(&Trial, Vec<PhaseFacts<'_>>)| {
                let seen = facts.iter().rev().find(|facts| facts.phase.end.footprint.is_some());
                let none = Err("no footprint was measured".to_string());
                (seen.map_or(none, |facts| facts.quantity(name, None)), false)
            };
            observed(point.trials.iter().map(last).collect(), Within::Nothing)
        };
        let (a, b) = (one(a), one(b));
        if a.value().is_some() && b.value().is_some() {
            metrics.push(metric(name, "", "B", &a, &b, floor));
        }
    }
    metrics
}

/// Named figures of the stores of A.
fn figures(a: &Run, b: &Run, floor: NoiseFloor, all: &mut Matched<'_>) {
    let view = |run: &Run| crate::figure::figures(run, &run.trials.iter().map(PhaseFacts::of).collect::<Vec<_>>());
    let (of_a, of_b) = (view(a), view(b));
    let (mut both, mut only_a): (IndexMap<String, Vec<Metric>>, IndexMap<String, Vec<Metric>>) = Default::default();
    for figure in &of_a {
        let other = of_b.iter().find(|other| other.name == figure.name && other.unit == figure.unit);
        for row in &figure.rows {
            let other = other.and_then(|other| other.rows.iter().find(|other| other.labels == row.labels));
            for cell in &row.cells {
                let other = other.and_then(|other| other.cells.iter().find(|other| other.store == cell.store));
                let one = |cell: &crate::view::FigureCell| Observed {
                    repeats: cell.value.into_iter().collect(),
                    n: cell.n,
                    missing: cell.missing.clone(),
                    late: cell.late,
                    within: Within::Nothing,
                };
                if cell.value.is_none() && other.is_none_or(|other| other.value.is_none()) {
                    continue;
                }
                let groups = if other.is_some() { &mut both } else { &mut only_a };
                let of_b = other.unwrap_or(cell);
                let mut metric = metric(&figure.name, "", &figure.unit, &one(cell), &one(of_b), floor);
                open(&mut metric.a, cell);
                open(&mut metric.b, of_b);
                if metric.is_open() {
                    (metric.change_percent, metric.interval_percent, metric.significant) = (None, None, None);
                }
                groups.entry(name::labelled(&cell.store, row.labels.iter())).or_default().push(metric);
            }
        }
    }
    let group = |(trial, metrics)| Group { trial, phase: "figures".to_string(), given: None, metrics };
    all.groups.extend(both.into_iter().map(group));
    all.only_a.extend(only_a.into_iter().map(group));
}

/// Marks a figure of an outage that had not ended, with its text.
fn open(value: &mut MetricValue, cell: &crate::view::FigureCell) {
    (value.open, value.is_of_open) = (cell.open, cell.is_of_open);
    if cell.open {
        value.text.clone_from(&cell.text);
    }
}

fn metric(name: &str, op: &str, unit: &str, a: &Observed, b: &Observed, floor: NoiseFloor) -> Metric {
    let change = change(a, b, floor.percent(name));
    let cell = |one: &Observed| MetricValue::median(&one.repeats, unit, one.missing.as_ref(), one.n, one.late);
    Metric {
        name: name.to_string(),
        op: op.to_string(),
        unit: unit.to_string(),
        a: cell(a),
        b: cell(b),
        change_percent: change.percent,
        interval_percent: change.interval,
        method: change.method,
        significant: change.significant,
        lower_is_better: Some(unit != "1/s"),
    }
}
