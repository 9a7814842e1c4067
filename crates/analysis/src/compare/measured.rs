//! The numbers of matching trials.

use std::collections::BTreeMap;

use plimsoll_record::data::{PhaseKind, Run, Trial};

use crate::latency::{PERCENTILES, Times};
use crate::name::{self, REPEAT};
use crate::number;
use crate::phase::{PhaseFacts, UNDISTURBED, asked_s};

use super::judge::{Observed, Within, change, resampled};
use super::{Cell, Group, Metric, NoiseFloor};

/// All repeats of one point of the sweep.
struct Point<'a> {
    name: String,
    labels: BTreeMap<String, String>,
    trials: Vec<(&'a Trial, Vec<PhaseFacts<'a>>)>,
}

fn points(run: &Run) -> Vec<Point<'_>> {
    let mut points: Vec<Point<'_>> = Vec::new();
    for one in &run.trials {
        let mut labels = one.header.labels.clone();
        labels.remove(REPEAT);
        labels.insert("store".to_string(), one.header.store_label.clone());
        let facts = PhaseFacts::of(one);
        match points.iter_mut().find(|point| point.labels == labels) {
            Some(point) => point.trials.push((one, facts)),
            None => {
                let name = name::trial_without(&one.header, &[REPEAT]);
                points.push(Point { name, labels, trials: vec![(one, facts)] });
            }
        }
    }
    points
}

/// Trials that belong together, first repeats.
pub type Pairs<'a> = Vec<(&'a Trial, &'a Trial)>;

/// The numbers, the trials and phases without a partner, and the first repeats of the points that have one.
pub fn groups<'a>(a: &'a Run, b: &'a Run, floor: NoiseFloor) -> (Vec<Group>, Vec<String>, Pairs<'a>) {
    let (points_a, points_b) = (points(a), points(b));
    let mut groups = Vec::new();
    let (mut unmatched, mut pairs) = (Vec::new(), Vec::new());
    // One store against another: nothing else could be meant.
    let alone = points_a.len() == 1 && points_b.len() == 1;
    for point_a in &points_a {
        let Some(point_b) = points_b.iter().find(|point| alone || point.labels == point_a.labels) else {
            unmatched.push(format!("{} is only in A", point_a.name));
            continue;
        };
        if let (Some((first_a, _)), Some((first_b, _))) = (point_a.trials.first(), point_b.trials.first()) {
            pairs.push((*first_a, *first_b));
        }
        let name = if point_a.name == point_b.name {
            point_a.name.clone()
        } else {
            format!("{} → {}", point_a.name, point_b.name)
        };
        groups.extend(point(&name, point_a, point_b, floor));
        unmatched.extend(unlike(&name, point_a, point_b));
    }
    let both = |point: &&Point<'_>| alone || points_a.iter().any(|known| known.labels == point.labels);
    unmatched.extend(points_b.iter().filter(|point| !both(point)).map(|point| format!("{} is only in B", point.name)));
    groups.extend(figures(a, b, floor));
    (groups, unmatched, pairs)
}

fn point(name: &str, a: &Point<'_>, b: &Point<'_>, floor: NoiseFloor) -> Vec<Group> {
    let mut groups = Vec::new();
    let phases: Vec<&str> = a
        .trials
        .first()
        .map_or(Vec::new(), |(_, facts)| facts.iter().map(|facts| facts.phase.header.name.as_str()).collect());
    for phase in phases {
        let (of_a, of_b) = (of_phase(a, phase), of_phase(b, phase));
        let (Some(first), Some(_)) = (of_a.first(), of_b.first()) else { continue };
        let mut metrics = Vec::new();
        match first.phase.header.kind {
            PhaseKind::Drive => driven(&of_a, &of_b, floor, &mut metrics),
            PhaseKind::Ask => asked(&of_a, &of_b, floor, &mut metrics),
            _ => {}
        }
        if matches!(first.phase.header.kind, PhaseKind::Load | PhaseKind::Settle | PhaseKind::Restart) {
            let one = |all: &[&PhaseFacts<'_>]| quantities(all, "seconds", None, Within::Nothing);
            metrics.push(metric("seconds", "", "s", &one(&of_a), &one(&of_b), floor));
        }
        if !metrics.is_empty() {
            groups.push(Group { trial: name.to_string(), phase: phase.to_string(), metrics });
        }
    }
    let space = space(a, b, floor);
    if !space.is_empty() {
        groups.push(Group { trial: name.to_string(), phase: "space".to_string(), metrics: space });
    }
    groups
}

/// What one of two trials was asked and the other was not.
fn unlike(name: &str, a: &Point<'_>, b: &Point<'_>) -> Vec<String> {
    let (Some((of_a, in_a)), Some((of_b, in_b))) = (a.trials.first(), b.trials.first()) else { return Vec::new() };
    let mut unlike = Vec::new();
    let (workload_a, workload_b) = (&of_a.header.workload, &of_b.header.workload);
    if workload_a != workload_b {
        unlike.push(format!("{name} was asked something else: {workload_a} in A, {workload_b} in B"));
    }
    for (side, here, there) in [("A", in_a, in_b), ("B", in_b, in_a)] {
        let asks = |facts: &&PhaseFacts<'_>| matches!(facts.phase.header.kind, PhaseKind::Drive | PhaseKind::Ask);
        let is_alone =
            |facts: &&PhaseFacts<'_>| !there.iter().any(|other| other.phase.header.name == facts.phase.header.name);
        let alone = here.iter().filter(asks).filter(is_alone);
        unlike.extend(alone.map(|facts| format!("{name}, phase {} is only in {side}", facts.phase.header.name)));
    }
    unlike
}

fn of_phase<'p, 'a>(point: &'p Point<'a>, name: &str) -> Vec<&'p PhaseFacts<'a>> {
    let in_trial =
        |(_, facts): &'p (&'a Trial, Vec<PhaseFacts<'a>>)| facts.iter().find(|facts| facts.phase.header.name == name);
    point.trials.iter().filter_map(in_trial).collect()
}

type Seen = Result<crate::phase::Quantity, String>;

/// The quantity `name` of one phase in all repeats.
fn quantities(all: &[&PhaseFacts<'_>], name: &str, op: Option<&str>, within: Within) -> Observed {
    let seen = all.iter().map(|facts| (facts.quantity(name, op), facts.is_moved(name)));
    observed(seen.collect(), within)
}

/// What was seen in each repeat, and whether a late generator may have moved it.
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
        let slices = |all: &[&PhaseFacts<'_>]| all.first().map(|facts| waits(facts, op)).unwrap_or_default();
        let intervals = resampled(&slices(a), &slices(b));
        for ((name, _), interval) in PERCENTILES.into_iter().zip(intervals) {
            let one = |all: &[&PhaseFacts<'_>]| quantities(all, name, op, Within::Resampled(interval));
            let (a, b) = (one(a), one(b));
            if a.value().is_some() || b.value().is_some() {
                metrics.push(metric(name, op.unwrap_or("all"), "s", &a, &b, floor));
            }
        }
    }
    undisturbed(a, b, floor, metrics);
    let errors = |all: &[&PhaseFacts<'_>]| quantities(all, "errors", None, Within::Nothing);
    metrics.push(metric("errors", "all", "%", &errors(a), &errors(b), floor));
}

/// Percentiles of all kinds together without what pauses of the machine disturbed, where both runs know them.
fn undisturbed(a: &[&PhaseFacts<'_>], b: &[&PhaseFacts<'_>], floor: NoiseFloor, metrics: &mut Vec<Metric>) {
    let slices = |all: &[&PhaseFacts<'_>]| -> Option<Vec<Times>> {
        let facts = all.first()?;
        let counted = facts.phase.slices.iter().filter(|slice| !facts.is_warmup(slice));
        counted.map(|slice| facts.judged_slice(slice, None)).collect()
    };
    let (Some(slices_a), Some(slices_b)) = (slices(a), slices(b)) else { return };
    for ((name, _), interval) in PERCENTILES.into_iter().zip(resampled(&slices_a, &slices_b)) {
        let name = format!("{UNDISTURBED}{name}");
        let one = |all: &[&PhaseFacts<'_>]| quantities(all, &name, None, Within::Resampled(interval));
        let (a, b) = (one(a), one(b));
        if a.value().is_some() && b.value().is_some() {
            metrics.push(metric(&name, "all", "s", &a, &b, floor));
        }
    }
}

/// How long clients waited, slice by slice.
fn waits(facts: &PhaseFacts<'_>, op: Option<&str>) -> Vec<Times> {
    let counted = facts.phase.slices.iter().filter(|slice| !facts.is_warmup(slice));
    counted.map(|slice| facts.waited_in(slice, op)).collect()
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
                let none = Err("no footprint was taken".to_string());
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

/// Named figures of the stores that both runs have.
fn figures(a: &Run, b: &Run, floor: NoiseFloor) -> Vec<Group> {
    let view = |run: &Run| crate::figure::figures(run, &run.trials.iter().map(PhaseFacts::of).collect::<Vec<_>>());
    let (of_a, of_b) = (view(a), view(b));
    let mut groups: Vec<Group> = Vec::new();
    for figure in &of_a {
        let Some(other) = of_b.iter().find(|other| other.name == figure.name && other.unit == figure.unit) else {
            continue;
        };
        for row in &figure.rows {
            let Some(other) = other.rows.iter().find(|other| other.labels == row.labels) else { continue };
            for cell in &row.cells {
                let Some(other) = other.cells.iter().find(|other| other.store == cell.store) else { continue };
                let one = |cell: &crate::view::FigureCell| Observed {
                    repeats: cell.value.into_iter().collect(),
                    n: cell.n,
                    missing: cell.missing.clone(),
                    late: cell.late,
                    within: Within::Nothing,
                };
                if cell.value.is_none() && other.value.is_none() {
                    continue;
                }
                let labels: Vec<String> = row.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let trial = match labels.as_slice() {
                    [] => cell.store.clone(),
                    labels => format!("{} · {}", cell.store, labels.join(", ")),
                };
                let metric = metric(&figure.name, "", &figure.unit, &one(cell), &one(other), floor);
                match groups.iter_mut().find(|group| group.trial == trial) {
                    Some(group) => group.metrics.push(metric),
                    None => groups.push(Group { trial, phase: "figures".to_string(), metrics: vec![metric] }),
                }
            }
        }
    }
    groups
}

fn metric(name: &str, op: &str, unit: &str, a: &Observed, b: &Observed, floor: NoiseFloor) -> Metric {
    let change = change(a, b, floor.percent(name));
    let cell = |observed: &Observed| Cell {
        value: observed.value(),
        text: match (observed.value(), &observed.missing) {
            (Some(value), _) => number::marked(number::with_unit(value, unit), observed.late),
            (None, Some(why)) => why.clone(),
            (None, None) => "–".to_string(),
        },
        late: observed.late,
        n: observed.n,
        repeats: observed.repeats.len() as u64,
    };
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
        lower_is_better: unit != "1/s",
    }
}
