//! The quick version of a plan: the ends of each sweep, short phases, few operations and records.

use plimsoll_core::ParamSpec;
use plimsoll_plan::timeline::FaultTime;
use plimsoll_plan::{Dimension, GoalKind, Plan, PlannedFault, parse_count, parse_quantity};
use toml_edit::Item;

use super::parts::{Parts, Place, tables};
use crate::plans::Edit;

/// Most of each of these parameters of workloads.
const SIZES: [(&str, u64); 6] =
    [("records", 1_000), ("entries", 1_000), ("rows", 100), ("table_size", 500), ("tables", 2), ("scale", 1)];
/// Longest phase, phase with faults, and warm-up, and smallest budget of a search, nanoseconds and as written.
const LENGTH: (f64, &str) = (1e9, "\"1s\"");
const FAULTED: (f64, &str) = (4e9, "\"4s\"");
const WARMUP: (f64, &str) = (2e8, "\"200ms\"");
const BUDGET: &str = "\"30s\"";
/// Most operations of a client, and repetitions of a question.
const OPS: u64 = 20;
const COUNT: u64 = 2;

/// Returns the changes that make the plan quick.
pub fn edits(parts: &Parts<'_>) -> Vec<Edit> {
    let mut all: Vec<Option<Edit>> = Vec::new();
    if let Some((place, spec)) = &parts.workload {
        all.extend(spec.params.iter().map(|param| of_workload(parts, place, param)));
    }
    for store in &parts.stores {
        let params = store.spec.map_or(&[][..], |spec| spec.params);
        if let Some(place) = &store.place {
            all.extend(params.iter().map(|param| shorter(parts, place, param.name, &str::to_owned)));
        }
    }
    for phase in &parts.phases {
        // A power cut needs its moment, and so does a fault that is not planned by shares of the phase.
        let table = phase.place.table;
        let is_timed = table.contains_key("power_cut") || table.get("fault").is_some_and(|faults| !are_shares(faults));
        let longest = if table.contains_key("fault") { FAULTED } else { LENGTH };
        for key in phase.written() {
            let edit = |most: &dyn Fn(&str) -> String| shorter(parts, &phase.place, key.name, most);
            all.push(match key.name {
                "for" | "warmup" if is_timed => None,
                "stages" if is_timed => None,
                "for" => edit(&at_most_ns(longest)),
                "stages" => stages(parts, &phase.place),
                "warmup" => edit(&at_most_ns(WARMUP)),
                "ops" => edit(&at_most(OPS)),
                "count" => edit(&at_most(COUNT)),
                _ if key.is_swept => edit(&str::to_owned),
                _ => None,
            });
        }
        let scenarios = tables(phase.place.table.get("scenario")).into_iter().filter(|_| !is_timed);
        let staged = scenarios.filter_map(|(table, inline)| Place::after(table, "stages", inline));
        all.extend(staged.map(|place| stages(parts, &place)));
    }
    all.push(shorter(parts, &parts.root, "seed", &str::to_owned));
    // Also instead of a table of conditions.
    all.push(shorter(parts, &parts.root, "repeats", &|_| "1".to_owned()));
    all.push(Place::of_table(parts.root.table.get("line")).and_then(|line| set(&line, "budget", BUDGET.to_owned())));
    all.into_iter().flatten().collect()
}

/// Returns true if all faults are at shares of their phase.
fn are_shares(faults: &Item) -> bool {
    let is_share = |text: &str| {
        let of_phase = |time: FaultTime| time.ns == 0;
        let fault = PlannedFault::parse(text).ok();
        fault.is_some_and(|fault| {
            let is_once = !fault.begins_by_load() && fault.every_ns.is_none() && fault.drawn.is_none();
            is_once && of_phase(fault.at) && fault.lasts.is_none_or(of_phase)
        })
    };
    match faults.as_array() {
        Some(texts) => texts.iter().all(|text| text.as_str().is_some_and(is_share)),
        None => faults.as_str().is_some_and(is_share),
    }
}

/// Leaves out goals for which the quick version has too few operations. A search needs its goals.
pub fn leave_out_goals(plan: &mut Plan) {
    let is_rare = |kind: GoalKind| matches!(kind, GoalKind::Percentile(percentile) if percentile.share_above() < 0.5);
    let rare: Vec<String> = plan.goals.iter().filter(|goal| is_rare(goal.what)).map(|goal| goal.name()).collect();
    if rare.is_empty() || plan.line.is_some() {
        return;
    }
    plan.goals.retain(|goal| !is_rare(goal.what));
    plan.left_out.push(format!("goals {}: the quick version has too few operations for them", rare.join(", ")));
}

fn set(place: &Place<'_>, key: &str, value: String) -> Option<Edit> {
    place.set(key, value, "--quick".to_owned()).ok()
}

fn of_workload(parts: &Parts<'_>, place: &Place<'_>, param: &ParamSpec) -> Option<Edit> {
    let Some((_, most)) = SIZES.iter().find(|(name, _)| *name == param.name) else {
        return shorter(parts, place, param.name, &str::to_owned);
    };
    if place.table.contains_key(param.name) {
        return shorter(parts, place, param.name, &at_most(*most));
    }
    let default = parse_count(param.default)?;
    (default > *most).then(|| set(place, param.name, most.to_string()))?
}

/// Shortens a list to its ends, and applies `most` to each value, as written. `None` if nothing changes.
fn shorter(parts: &Parts<'_>, place: &Place<'_>, key: &str, most: &dyn Fn(&str) -> String) -> Option<Edit> {
    let at = place.value(key)?;
    let before = parts.text.get(at)?;
    let after = match place.elements(key, parts.text) {
        None => most(before),
        Some(elements) => {
            let mut values: Vec<String> = elements.into_iter().map(most).collect();
            values.dedup();
            if values.len() > 2 {
                values.drain(1..values.len() - 1);
            }
            values.dedup();
            format!("[{}]", values.join(", "))
        }
    };
    (after != before).then(|| set(place, key, after))?
}

/// Shortens stages that are longer than a phase in all, each by the same factor.
fn stages(parts: &Parts<'_>, place: &Place<'_>) -> Option<Edit> {
    let elements = place.elements("stages", parts.text)?;
    let stage = |written: &str| {
        let (level, length) = written.trim_matches(['"', '\'']).split_once('@')?;
        Some((level.to_owned(), parse_quantity(length, Dimension::Time).ok()?))
    };
    let stages: Vec<(String, f64)> = elements.into_iter().map(stage).collect::<Option<_>>()?;
    let factor = LENGTH.0 / stages.iter().map(|(_, ns)| ns).sum::<f64>();
    let shorter = |(level, ns): &(String, f64)| format!("\"{level}@{}ms\"", (ns * factor / 1e6).round().max(1.0));
    let all: Vec<String> = stages.iter().map(shorter).collect();
    (factor < 1.0).then(|| set(place, "stages", format!("[{}]", all.join(", "))))?
}

/// Lowers a whole number.
fn at_most(most: u64) -> impl Fn(&str) -> String {
    move |written| match parse_count(&written.replace('_', "")) {
        Some(count) if count > most => most.to_string(),
        _ => written.to_owned(),
    }
}

/// Shortens a time in quotes.
fn at_most_ns((most_ns, text): (f64, &'static str)) -> impl Fn(&str) -> String {
    move |written| match parse_quantity(written.trim_matches(['"', '\'']), Dimension::Time) {
        Ok(ns) if ns > most_ns => text.to_owned(),
        _ => written.to_owned(),
    }
}
