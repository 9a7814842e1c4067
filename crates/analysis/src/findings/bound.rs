//! Saturation: resources that are used up, or waited for, in most slices of a phase.

use indexmap::IndexMap;
use plimsoll_core::Slice;
use plimsoll_core::sampler::{HELD_BY, STORE, WAITING_FOR, WAITING_FOR_LOCKS};
use plimsoll_record::Distribution;
use plimsoll_record::data::Run;

use super::command::with_less_load;
use super::moments::SlowPhase;
use super::network;
use super::sentence::{Words, next_of_locks};
use super::series;
use crate::number;
use crate::resource::{self, Resource, USED_UP};
use crate::stat;
use crate::view::FindingView;

/// Share of the time in which a task waited for a resource, or of clients that wait for locks, from which the phase is
/// bound by it.
const WAITED: f64 = 0.5;

/// Returns by what a phase is bound: locks, the network, and resources of the machine.
pub fn bound(run: &Run, phase: &SlowPhase<'_, '_>) -> Vec<FindingView> {
    let slices: Vec<&Slice<Distribution>> = phase.slices.iter().map(|(slice, _)| *slice).collect();
    let all = series::values(run, &slices, phase.slice_ns);
    let bounds = [locks(run, phase, &all), network(run, phase, &all), resources(run, phase, &slices, all)];
    bounds.into_iter().flatten().collect()
}

/// Returns the finding that sessions, half as many as the clients or more, wait for locks in most slices. A store counts
/// those of others too.
fn locks(run: &Run, phase: &SlowPhase<'_, '_>, all: &[Vec<Option<f64>>]) -> Option<FindingView> {
    let clients = phase.facts.phase.header.clients;
    let is_meant = |name: &str, source: &str| name == WAITING_FOR_LOCKS && source == STORE;
    let waiting = run.series.iter().zip(all).filter(|(series, _)| is_meant(&series.name, &series.source));
    let sums = waiting.fold(None::<Vec<f64>>, |sums, (_, values)| {
        let values = values.iter().map(|value| value.unwrap_or(0.0));
        Some(match sums {
            Some(sums) => sums.iter().zip(values).map(|(sum, value)| sum + value).collect(),
            None => values.collect(),
        })
    })?;
    let waiting = stat::median(&sums).filter(|waiting| clients > 1 && *waiting >= WAITED * f64::from(clients))?;
    let held = held(run, all);
    let holder = held.as_ref().map(|held| held.holder);
    let (next, command) = with_less_load(run, phase, &next_of_locks(phase.facts, holder), "the waits");
    let words = Words {
        rule: "bound",
        next,
        sentence: format!(
            "in most slices {} sessions of the store waited for locks, beside {clients} clients{}",
            number::significant(waiting),
            held.map_or(String::new(), |held| held.words())
        ),
        opposite: less(run, phase, "as many wait for locks."),
        command,
    };
    Some(words.finding(phase.facts))
}

/// Object for which most sessions waited, and the holder for which most of these did.
struct Held<'r> {
    object: &'r str,
    /// Share of all waits that are for the object, in per cent.
    percent: f64,
    holder: &'r str,
    /// Share of the waits for the object in which this one held it, in per cent.
    held_percent: f64,
}

impl Held<'_> {
    /// Returns the end of a sentence: `; 90.0 % of them waited for a row of t, held by a session that ran COMMIT`.
    fn words(&self) -> String {
        let Held { object, holder, .. } = self;
        let percent = number::with_unit(self.percent, "%");
        let held = match self.held_percent < 100.0 {
            true => format!(", in {} of these cases held by ", number::with_unit(self.held_percent, "%")),
            false => HELD_BY.to_owned(),
        };
        format!("; {percent} of them waited for {object}{held}{holder}")
    }
}

/// Returns the object for which most waited, and its holder; `None` if none is known.
fn held<'r>(run: &'r Run, all: &[Vec<Option<f64>>]) -> Option<Held<'r>> {
    let waits =
        run.series.iter().zip(all).filter(|(series, _)| series.source == STORE).filter_map(|(series, values)| {
            let name = series.name.strip_prefix(WAITING_FOR)?;
            Some((name, values.iter().flatten().sum::<f64>()))
        });
    let (mut waited, mut objects) = (0.0, IndexMap::<&str, IndexMap<&str, f64>>::new());
    for (name, count) in waits {
        waited += count;
        if let Some((object, holder)) = name.split_once(HELD_BY).filter(|_| count > 0.0) {
            *objects.entry(object).or_default().entry(holder).or_default() += count;
        }
    }
    let of_object = |holders: &IndexMap<&str, f64>| holders.values().sum::<f64>();
    let (&object, holders) =
        objects.iter().max_by(|(_, one), (_, other)| of_object(one).total_cmp(&of_object(other)))?;
    let (&holder, most) = holders.iter().max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    let of_object = of_object(holders);
    let held_percent = if holders.len() == 1 { 100.0 } else { most * 100.0 / of_object };
    Some(Held { object, percent: of_object * 100.0 / waited, holder, held_percent })
}

/// Returns the limits of the network by which a phase is bound; `None` without any.
fn network(run: &Run, phase: &SlowPhase<'_, '_>, all: &[Vec<Option<f64>>]) -> Option<FindingView> {
    let texts = network::texts(run, phase, all);
    let next = "Repeat the run over a faster network, or without losses, or with fewer bytes an operation.";
    let (next, command) = with_less_load(run, phase, next, "the traffic");
    let words = Words {
        rule: "bound",
        sentence: format!("in most slices {}", number::list(&texts)),
        opposite: less(run, phase, "the traffic, or the losses, stay as they are: others use the network."),
        next,
        command,
    };
    (!texts.is_empty()).then(|| words.finding(phase.facts))
}

/// Returns the resources by which a phase is bound; `None` without any.
fn resources(
    run: &Run,
    phase: &SlowPhase<'_, '_>,
    slices: &[&Slice<Distribution>],
    all: Vec<Vec<Option<f64>>>,
) -> Option<FindingView> {
    let cores = resource::processors(&run.series);
    let mut used: Vec<(Resource, Vec<Option<f64>>)> = Vec::new();
    for (series, values) in run.series.iter().zip(all) {
        // The time in which all tasks waited is a part of that in which some did.
        if series.source == "pressure" && series.name == "all" {
            continue;
        }
        let Some(resource) = resource::named(series, cores).filter(|one| one.capacity.is_some()) else { continue };
        resource::add(&mut used, resource, values, |sum, value| {
            *sum = sum.map_or(value, |sum| Some(sum + value.unwrap_or(0.0)));
        });
    }
    let mut texts: Vec<String> = used.iter().filter_map(|(resource, values)| text(resource, values)).collect();
    texts.extend(generator(phase, slices));
    let next = "Give the store more of this resource, or take other users of it away.";
    let (next, command) = with_less_load(run, phase, next, "the use");
    let words = Words {
        rule: "bound",
        sentence: format!("in most slices {}", number::list(&texts)),
        opposite: less(run, phase, "the use stays as it is: others use it."),
        next,
        command,
    };
    (!texts.is_empty()).then(|| words.finding(phase.facts))
}

/// Returns what speaks against a bound, if there is less load.
fn less(run: &Run, phase: &SlowPhase<'_, '_>, what: &str) -> String {
    match phase.facts.open_loop {
        _ if run.header.outline.watched => format!("At a time of less load {what}"),
        true => format!("At half of the rate {what}"),
        false if phase.facts.phase.header.clients > 1 => {
            format!("With half of the clients throughput falls by half, or {what}")
        }
        false => format!("With pauses between operations {what}"),
    }
}

/// Describes the use of a resource by which the phase is bound.
fn text(resource: &Resource, values: &[Option<f64>]) -> Option<String> {
    let used = series::middle(values)?;
    let is_bound = !resource.waiting || used >= WAITED * resource.capacity?;
    resource.words(used).filter(|_| is_bound)
}

/// Describes the use of the processors by the generator's workers, if it is nearly all their time.
fn generator(phase: &SlowPhase<'_, '_>, slices: &[&Slice<Distribution>]) -> Option<String> {
    let workers = f64::from(phase.facts.phase.header.workers.max(1));
    let share = |slice: &&Slice<Distribution>| slice.worker_cpu_ns as f64 / slice.length_ns().max(1) as f64 / workers;
    let busy = stat::median(&slices.iter().map(share).collect::<Vec<f64>>()).filter(|busy| *busy >= USED_UP)?;
    Some(format!("the generator's workers were {} busy", number::with_unit(busy * 100.0, "%")))
}
