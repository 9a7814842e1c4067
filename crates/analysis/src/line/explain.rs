//! Explanations of the line: resources that are exhausted there, or that correlate with the slow seconds.
//!
//! Nothing here proves a cause. A resource is named when it is close to its capacity where goals break and was not
//! where they held, or when the slow seconds are those in which it was used most; otherwise it is said that nothing
//! that is sampled explains it.

use std::collections::BTreeSet;

use plimsoll_core::sampler::{PROGRESS, STORE};
use plimsoll_record::data::{Sample, Series, SeriesKind};

use crate::number;
use crate::phase::PhaseFacts;
use crate::stat::{self, fit};

use super::{Cause, LoadStep, Resource};

/// Share of a capacity from which on a resource counts as used up.
pub const USED_UP: f64 = 0.85;

/// Shares of a capacity that its use, and of time that waiting for it, has to have grown by.
const GROWN: f64 = 0.03;
const WAITING: f64 = 0.10;

/// Rank correlation of a resource with the waits of the same second that is worth naming, and pairs it needs.
const CORRELATED: f64 = 0.5;
const PAIRS_MIN: usize = 12;

/// The resource that is all time of the server's processes.
pub const SERVER_CPU: &str = "the server's CPU";

/// Width around one core within which a server counts as working on one thread.
pub const ONE_CORE: std::ops::RangeInclusive<f64> = 93.0..=104.0;

/// Returns all series sampled during a phase's drive, without the warm-up. The generator's own use explains nothing
/// about the store.
pub(super) fn resources(facts: &PhaseFacts<'_>, samples: &[Sample], series: &[Series]) -> Vec<Resource> {
    let counted = || facts.phase.slices.iter().filter(|slice| !slice.warmup);
    let (Some(first), Some(last)) = (counted().next(), counted().next_back()) else { return Vec::new() };
    let inside: Vec<&Sample> =
        samples.iter().filter(|sample| sample.at_ns > first.start_ns && sample.at_ns <= last.end_ns).collect();
    let waits_s: Vec<Option<f64>> = inside.iter().map(|sample| wait_s(facts, sample.at_ns)).collect();
    let cores = processors(series);
    let mut resources: Vec<Resource> = Vec::new();
    for (position, one) in series.iter().enumerate() {
        let values: Vec<f64> = inside.iter().map(|sample| sample.value(position).unwrap_or(f64::NAN)).collect();
        let is_sampled = values.iter().any(|value| !value.is_nan());
        let Some(resource) = named(one, cores).filter(|_| is_sampled) else { continue };
        // Shares of one and the same resource (user and system) are added up.
        match resources.iter_mut().find(|known| known.name == resource.name && known.unit == resource.unit) {
            Some(known) => known.values.iter_mut().zip(values).for_each(|(sum, value)| *sum += value),
            None => resources.push(Resource { values, waits_s: waits_s.clone(), ..resource }),
        }
    }
    resources
}

/// Returns the number of processors that were sampled; 1 without any.
pub fn processors(series: &[Series]) -> f64 {
    let each = series.iter().filter(|one| one.source == "cpu" && !one.subject.is_empty() && one.name == "user");
    each.count().max(1) as f64
}

/// A resource without its values, named as sentences have it; `None` for what says nothing about a store.
pub fn named(series: &Series, cores: f64) -> Option<Resource> {
    let subject = series.subject.as_str();
    let name = series.spoken();
    let is_use = matches!(series.name.as_str(), "user" | "system");
    let (name, capacity) = match series.source.as_str() {
        "generator" | PROGRESS => return None,
        "cpu" if subject.is_empty() && is_use => ("the machine's CPU".to_string(), Some(100.0)),
        "cpu" => return None,
        // The first lags behind what it averages; the second counts what is started, mostly elsewhere.
        "tasks" if matches!(series.name.as_str(), "load" | "forks") => return None,
        // Use by thread, segments and interrupts are parts of what others measure, and grow with the work.
        "server" if series.name == "busy" => return None,
        "interrupts" => return None,
        "offcpu" if series.name == "waits" => return None,
        "tcp" if matches!(series.name.as_str(), "sent_segments" | "received_segments") => return None,
        "server" if !subject.is_empty() && is_use => (format!("the CPU of {subject}"), Some(100.0 * cores)),
        "server" if series.name == "stopped" => {
            let server = if subject.is_empty() { "the server" } else { subject };
            (format!("the number of stopped processes of {server}"), None)
        }
        "cgroup" if series.name == "frozen" && !subject.is_empty() => {
            (format!("the number of frozen control groups of {subject}"), None)
        }
        // Other sources use the same names, and their values are not to be added up.
        of @ ("server" | "tcp" | "cgroup") if !subject.is_empty() => (format!("{of} of {subject}: {name}"), None),
        "server" if series.name == "run_queue_delay" => ("the server's wait for a processor".to_string(), None),
        "server" if series.unit == "%" && is_use => (SERVER_CPU.to_string(), Some(100.0 * cores)),
        "offcpu" if series.name == "waiting" => ("the server's waits in the kernel".to_string(), None),
        "disk" if series.name == "busy" => (format!("disk {subject}"), Some(100.0)),
        // Of what a store counts, what grows with the work that it is given explains nothing.
        STORE if series.kind == SeriesKind::Total && series.unit == "1/s" => return None,
        STORE if series.kind == SeriesKind::Cycle => (format!("{subject}'s {name}"), None),
        "pressure" => {
            let resource = if subject == "cpu" { "a processor" } else { subject };
            let tasks = if series.name == "all" { ", all tasks at once," } else { "" };
            (format!("{resource}{tasks}"), Some(100.0))
        }
        sampler if subject.is_empty() => (format!("{sampler}: {name}"), None),
        _ => (format!("{subject}: {name}"), None),
    };
    let waiting = series.source == "pressure";
    Some(Resource { name, unit: series.unit.clone(), capacity, waiting, ..Resource::default() })
}

/// Returns the name of a series for a sentence about a store that waits: the hypervisor's share and the generator's
/// wait besides the series that explain a line.
pub fn waits_for(series: &Series) -> Option<String> {
    match (series.source.as_str(), series.name.as_str()) {
        ("cpu", "steal") if series.subject.is_empty() => Some("what the hypervisor took".to_string()),
        ("cpu", "iowait") if series.subject.is_empty() => Some("waiting for disks".to_string()),
        ("generator", "run_queue_delay") => Some("the generator's wait for a processor".to_string()),
        ("disk", name) if name != "busy" && !matches!(series.unit.as_str(), "ms" | "B/s") => None,
        _ => named(series, 1.0).map(|one| if one.waiting { format!("waiting for {}", one.name) } else { one.name }),
    }
}

/// Returns the waiting time of the slowest per cent of the slice that ended at or after `at_ns`; of its slowest
/// operation if it had too few.
fn wait_s(facts: &PhaseFacts<'_>, at_ns: u64) -> Option<f64> {
    let slice = facts.phase.slices.iter().find(|slice| slice.start_ns < at_ns && at_ns <= slice.end_ns)?;
    let times = facts.waited_in(slice, None);
    let slowest_ns = times.percentile("p99").unwrap_or_else(|_| times.max_ns());
    (!times.is_empty()).then_some(slowest_ns as f64 / 1e9)
}

/// Returns the median of all samples of these.
pub(super) fn middle<'a>(of: impl IntoIterator<Item = &'a Resource>) -> Option<f64> {
    let values = of.into_iter().flat_map(|one| &one.values).copied().filter(|value| !value.is_nan());
    stat::median(&values.collect::<Vec<f64>>())
}

/// Returns the explanations of goals that held at `held` and not at `failed`, likeliest first.
pub(super) fn causes(steps: &[LoadStep], held: Option<f64>, failed: f64) -> Vec<Cause> {
    let mut known = BTreeSet::new();
    let all = steps.iter().flat_map(|step| &step.resources);
    let each = all.filter(|resource| known.insert((&resource.name, &resource.unit)));
    let mut causes: Vec<Cause> = each.filter_map(|resource| cause(steps, held, failed, resource)).collect();
    causes.sort_by(|a, b| b.score.total_cmp(&a.score));
    causes
}

fn cause(steps: &[LoadStep], held: Option<f64>, failed: f64, resource: &Resource) -> Option<Cause> {
    let at = |wanted: &dyn Fn(f64) -> bool| {
        let all = steps.iter().filter(|step| step.offered_per_s().is_some_and(wanted)).flat_map(|step| &step.resources);
        all.filter(|one| one.name == resource.name && one.unit == resource.unit).collect::<Vec<&Resource>>()
    };
    let used = middle(at(&|rate| rate == failed))?;
    // Where goals held well below the line: a resource that was used up there already is not what broke them.
    let lowest = steps.iter().filter_map(|step| step.rung.rate_per_s).fold(f64::INFINITY, f64::min);
    let grown = used - middle(at(&|rate| rate == lowest && rate < failed)).unwrap_or(0.0);
    let name = &resource.name;
    let (text, score) = match resource.capacity {
        Some(capacity) if resource.waiting => {
            let grown = Some(grown / capacity).filter(|grown| *grown > WAITING)?;
            let text = format!("waiting for {name} took {} % of the time", number::significant(used));
            (text, 0.5 + 0.3 * grown.min(1.0))
        }
        Some(capacity) if used >= USED_UP * capacity && grown > GROWN * capacity => {
            let share = used / capacity;
            (format!("{name} was {} % in use", number::significant(share * 100.0)), share.min(1.0))
        }
        Some(_) if name == SERVER_CPU && ONE_CORE.contains(&used) && grown > GROWN * 100.0 => {
            (format!("the server used {} cores, as a single thread would", number::significant(used / 100.0)), 0.97)
        }
        _ => {
            // Seconds near the line: those in which it was used most against those that were slow.
            let near = at(&|rate| rate == failed || Some(rate) == held);
            let seconds = near.iter().flat_map(|one| one.values.iter().zip(&one.waits_s));
            let known = seconds.filter(|(value, _)| !value.is_nan());
            let pairs: Vec<(f64, f64)> = known.filter_map(|(value, wait)| Some((*value, (*wait)?))).collect();
            let r = Some(fit::rank_correlation(&pairs)).filter(|r| pairs.len() >= PAIRS_MIN && *r >= CORRELATED)?;
            let (shown, n) = (number::significant(r), pairs.len());
            (format!("the slow seconds went with much of {name} (rank correlation {shown}, n = {n})"), 0.75 * r)
        }
    };
    Some(Cause { text, resource: name.clone(), score })
}
