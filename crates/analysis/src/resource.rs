//! Sampled resources: names in sentences, capacities, and use in words. The load line and findings have explanations by
//! them.

use std::ops::RangeInclusive;

use plimsoll_core::sampler::{PROGRESS, STORE};
use plimsoll_record::data::{Series, SeriesKind};

use crate::number;

/// Share of a capacity from which on a resource counts as used up.
pub const USED_UP: f64 = 0.85;

/// Name of the resource that is all processor time of the server's processes.
pub const SERVER_CPU: &str = "the server's CPU";

/// Width around one core within which a server counts as working on one thread.
const ONE_CORE: RangeInclusive<f64> = 93.0..=104.0;

/// A sampled resource.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Resource {
    /// Name in a sentence: `the server's CPU`.
    pub name: String,
    /// Unit of values.
    pub unit: String,
    /// Capacity in `unit`; `None` if it is not known.
    pub capacity: Option<f64>,
    /// True if values are shares of time in which a task had to wait for the resource.
    pub waiting: bool,
}

impl Resource {
    /// Describes the use, `used` in its unit: a wait, or a capacity that is used up. Returns `None` for any
    /// other use.
    pub fn words(&self, used: f64) -> Option<String> {
        let (name, share) = (&self.name, used / self.capacity?);
        let percent = number::with_unit(share * 100.0, "%");
        match self.waiting {
            true => Some(format!("waiting for {name} took {percent} of the time")),
            false if share >= USED_UP => Some(format!("{name} was {percent} in use")),
            false if name == SERVER_CPU && ONE_CORE.contains(&used) => {
                Some(format!("the server used {} cores, as a single thread would", number::significant(used / 100.0)))
            }
            false => None,
        }
    }
}

/// Adds `values` to those of the same resource, each by `sum`: user and system time are shares of one.
pub fn add<V>(all: &mut Vec<(Resource, Vec<V>)>, resource: Resource, values: Vec<V>, sum: impl Fn(&mut V, V)) {
    match all.iter_mut().find(|(known, _)| known.name == resource.name && known.unit == resource.unit) {
        Some((_, sums)) => sums.iter_mut().zip(values).for_each(|(to, value)| sum(to, value)),
        None => all.push((resource, values)),
    }
}

/// Returns the number of processors that were sampled; 1 without any.
pub fn processors(series: &[Series]) -> f64 {
    let each = series.iter().filter(|one| one.source == "cpu" && !one.subject.is_empty() && one.name == "user");
    each.count().max(1) as f64
}

/// Returns the resource of a series; `None` if the series says nothing about a store.
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
    Some(Resource { name, unit: series.unit.clone(), capacity, waiting })
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
