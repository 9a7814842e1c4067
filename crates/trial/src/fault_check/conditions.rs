//! Conditions of faults that the readings of a plan cannot meet.

use plimsoll_core::Catalogue;
use plimsoll_core::nearest::nearest;
use plimsoll_core::sampler::{CLIENTS, SILENCE, STORE};
use plimsoll_plan::TIME_NS_MAX;
use plimsoll_plan::model::{Plan, PlannedTrial, StoreUse};
use plimsoll_plan::timeline::{FaultAction, FaultCondition};

use super::recipe;
use crate::error::TrialError;

/// Unit of series that are distributions of times, which have no single value.
const TIMES: &str = "ns";
/// Most readings in a line of a list.
const LISTED: usize = 8;

/// Returns the reason that a condition's reading is not read in trials on `store`, or not compared, and advice.
pub(super) fn no_such_reading(
    condition: &FaultCondition,
    plan: &Plan,
    store: &StoreUse,
    catalogue: &Catalogue,
) -> Option<(String, String)> {
    let (label, source) = (&store.label, condition.source.as_str());
    let counters = || -> Vec<(String, String)> {
        let examples = catalogue.store(&store.kind).map(|kind| kind.counters(&store.params)).unwrap_or_default();
        let series = examples.iter().map(|reading| reading.series(STORE, ""));
        series.map(|series| (series.name, series.unit)).collect()
    };
    let names = |of: &str| -> Vec<(String, String)> {
        let sampler = catalogue.samplers.iter().find(|sampler| sampler.name == of);
        let series =
            sampler.map(|sampler| sampler.series).unwrap_or_default().iter().filter(|(_, unit)| *unit != TIMES);
        let named = series.map(|(name, unit)| ((*name).to_owned(), (*unit).to_owned()));
        if of == STORE { counters() } else { named.collect() }
    };
    let listed = |of: &str| {
        let prefix = if of == STORE { String::new() } else { format!("{of}.") };
        names(of).iter().map(|(name, _)| format!("{prefix}{name}")).collect::<Vec<_>>()
    };
    let known = names(source);
    let is_read = plan.samplers.iter().any(|one| one == source);
    match known.iter().find(|(name, _)| *name == condition.name) {
        Some((_, unit)) if !condition.compares(unit) => {
            let what = format!("{} is measured in another unit", condition.reading());
            Some((what, format!("write a value such as {}", example(unit))))
        }
        Some(_) if is_read => None,
        Some(_) => {
            let what = format!("the plan does not read {}: its `samplers` have no {source}", condition.reading());
            Some((what, format!("add \"{source}\" to `samplers`")))
        }
        None => {
            // The store's own first.
            let (own, others): (Vec<&String>, Vec<&String>) = plan.samplers.iter().partition(|one| *one == STORE);
            // The program shortens long lines.
            let lines = |names: Vec<String>| names.chunks(LISTED).map(|names| names.join(", ")).collect::<Vec<_>>();
            let all = own.into_iter().chain(others).flat_map(|one| lines(listed(one)));
            let all: Vec<String> = all.chain([format!("{CLIENTS}.{SILENCE}")]).collect();
            let what = match condition.name.as_str() {
                "lag" if source == STORE => format!("{label} has no replication lag"),
                _ => format!("{label} and the plan's samplers have no reading {}", condition.reading()),
            };
            // A reading without its source is near in nothing but its name.
            let names = || all.iter().flat_map(|line| line.split(", "));
            let is_same = |known: &&str| known.rsplit('.').next() == Some(condition.name.as_str());
            let meant = names().find(is_same).or_else(|| nearest(condition.reading(), names()));
            let meant = meant.map_or(String::new(), |meant| format!("did you mean `{meant}`? "));
            Some((what, format!("{meant}there are:\n    {}", all.join(",\n    "))))
        }
    }
}

/// Returns the reason that clients have no reading as a condition names it, and advice. The number of a client host may
/// be wrong.
pub(super) fn no_such_silence(condition: &FaultCondition) -> Option<(String, String)> {
    let of_all = format!("{CLIENTS}.{SILENCE}");
    if condition.name != SILENCE {
        return Some((format!("clients have no reading {}", condition.name), format!("there is: {of_all}")));
    }
    if !condition.compares("s") {
        let what = format!("{} is measured in another unit", condition.reading());
        return Some((what, format!("write a value such as {}", example("s"))));
    }
    // Between two answers there is always a time without one.
    if condition.is_met(f64::MIN_POSITIVE, "s") {
        let what = format!("`{condition}` holds from the start");
        return Some((what, format!("write a time that is longer than between two answers: {of_all} > 2s")));
    }
    if !condition.is_met(TIME_NS_MAX as f64 / 1e9, "s") {
        let what = format!("`{condition}` is longer than a phase may be");
        return Some((what, format!("write a time within the phase: {of_all} > 2s")));
    }
    let subject = condition.subject.as_deref().filter(|_| condition.client_host().is_none())?;
    let next = format!("write {of_all}, or {CLIENTS}.host 2.{SILENCE} for the clients of client host 2");
    Some((format!("`{subject}` is no client host"), next))
}

/// Returns the reason that the store's servers have no subject as a condition names it, and advice.
pub(super) fn no_such_subject(
    condition: &FaultCondition,
    trial: &PlannedTrial,
    catalogue: &Catalogue,
) -> Result<Option<(String, String)>, TrialError> {
    let (store, name) = (&trial.store, &condition.name);
    let (given, is_counter) = (condition.subject.as_deref().unwrap_or_default(), condition.source == STORE);
    let own = given.strip_prefix(&store.label).filter(|_| is_counter).map_or(given, str::trim_start);
    let adds = trial.drives().any(|(_, drive)| drive.faults.iter().any(|fault| fault.what == FaultAction::Add));
    let lab = store.url.as_deref().and_then(|url| catalogue.lab(url));
    let nodes = match lab {
        Some(lab) => lab.nodes.clone(),
        None => recipe(store, catalogue)?.map_or_else(Vec::new, |recipe| (1..=recipe.spec().nodes as u32).collect()),
    };
    // Nothing is known of servers that are attached, nor of devices, cores and threads.
    if own.is_empty() || nodes.is_empty() || !is_counter && !own.starts_with("node ") {
        return Ok(None);
    }
    let source = if is_counter { String::new() } else { format!("{}.", condition.source) };
    let (label, alone) = (&store.label, || format!("leave `{given}` out: {source}{name}"));
    // Samplers have parts of nodes: `node 2 eth0`.
    let number = own.strip_prefix("node ").map(|rest| if is_counter { rest } else { first_word(rest) });
    let number = number.and_then(|number| number.parse::<u32>().ok());
    if number.is_none_or(|number| !nodes.contains(&number) && !adds) {
        let numbers: Vec<String> = nodes.iter().map(u32::to_string).collect();
        let next = if nodes.len() == 1 { alone() } else { format!("its nodes are {}", numbers.join(", ")) };
        return Ok(Some((format!("{label} has no {own}"), next)));
    }
    if !is_counter {
        // The processes of an only server have no node's name.
        let is_unnamed = condition.source == "server" && nodes == [1] && !adds;
        return Ok(is_unnamed.then(|| (format!("{label} has one server, whose readings name no node"), alone())));
    }
    let counters = catalogue.store(&store.kind).map(|kind| kind.counters(&store.params)).unwrap_or_default();
    let is_whole = |name: &str| counters.iter().any(|one| one.name == name && one.subject.is_empty());
    let is_of_all = nodes.len() == 1 && !adds || counters.iter().any(|one| !one.subject.is_empty()) && is_whole(name);
    Ok(is_of_all.then(|| (format!("{label} has one reading {name}, and none of each node"), alone())))
}

fn first_word(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

/// Returns a value in the unit of a series, as plans write it.
fn example(unit: &str) -> &'static str {
    match unit {
        "s" => "5s",
        "ms" => "5ms",
        "B" => "64MiB",
        "B/s" => "64MiB/s",
        "1/s" => "500/s",
        "%" => "90%",
        _ => "100",
    }
}
