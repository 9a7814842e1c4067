//! Figures that are read once a slice: of the host, a process, a store and its nodes.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Source name of a store's counters of its own work.
pub const STORE: &str = "store";

/// Name of the series of a store's sessions that wait for locks.
pub const WAITING_FOR_LOCKS: &str = "waiting_for_locks";

/// Beginning of the names of series of a store's sessions that wait for one object: `waiting for a row of accounts, held
/// by a session that ran …`.
pub const WAITING_FOR: &str = "waiting for ";
/// Words between the object and its holder in names that begin with [`WAITING_FOR`].
pub const HELD_BY: &str = ", held by ";
/// Holder in names that begin with [`WAITING_FOR`], if the server does not name it: of a metadata lock, for example.
pub const UNNAMED_HOLDER: &str = "a session that the server does not name";

/// Source name of the wake-up latency of the witness of the machine's pauses.
pub const WITNESS: &str = "witness";

/// Source name of each server's answers, if operations go to several.
pub const ANSWERS: &str = "answers";

/// Name of the reading of [`STORE`] that is a node's term, which each election raises by one.
pub const TERM: &str = "raft_term";

/// Source name of what the clients of a drive notice, which conditions of faults read.
pub const CLIENTS: &str = "clients";

/// Name of the reading of [`CLIENTS`] that is the time since their newest answer, in seconds.
pub const SILENCE: &str = "silence";

/// Name of the fact about a machine that has its network interfaces with their speeds: `eth0 1000 Mbit/s, eth1 …`.
pub const INTERFACES: &str = "network interfaces";

/// Name of the fact about a machine that has the kernel's driver of idle processors: [`HALTPOLL`], `intel_idle`, `none`.
pub const IDLE_DRIVER: &str = "idle driver";
/// Idle driver of virtual machines: a processor polls for [`HALT_POLL_NS`] at most, and halts.
pub const HALTPOLL: &str = "haltpoll";
/// Name of the fact about a machine with the driver [`HALTPOLL`] that has its parameter of this name, in nanoseconds.
pub const HALT_POLL_NS: &str = "guest_halt_poll_ns";

/// Time between two fine readings, which samplers make around faults.
pub const FINE_INTERVAL: Duration = Duration::from_millis(50);

/// Source name of the progress of nodes that join or start during a drive.
pub const PROGRESS: &str = "progress";

crate::words! {
    /// Meaning of the values of a series.
    #[derive(Default)]
    pub enum SeriesKind {
        /// The current level.
        #[default]
        Level = "level",
        /// The growth per second of a counter; for a counter of time, its share in per cent.
        Total = "total",
        /// Number of ended pieces of work that a store defers under load: checkpoints, flushes, compactions. A trial
        /// without any has not seen the store's full cost.
        Cycle = "cycle",
        /// Durations of events.
        Distribution = "distribution",
    }
}

/// A series of figures, as it is recorded. Each value covers the time since the reading before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Series {
    /// Reader of the series: `cpu`, `disk`, [`STORE`].
    pub source: String,
    /// Object of the series: `cpu0`, `vda`, a store, one of its nodes; empty if there is only one.
    pub subject: String,
    /// Name of the measured quantity, without a unit: `user`, `flushes`, `flush_time`; or words.
    pub name: String,
    /// Unit of the values: `%`, `B/s`, `1/s`, `B`, `ms`, `tasks`; empty for counts and cycles.
    pub unit: String,
    /// Meaning of the values.
    pub kind: SeriesKind,
}

impl Series {
    /// Returns the name in words: `flush time`. Names in a name that consists of words are left as they are.
    pub fn spoken(&self) -> String {
        if self.name.contains(' ') { self.name.clone() } else { self.name.replace('_', " ") }
    }
}

/// A value read for one series, as its source counts it.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Subject, as [`Series::subject`]; for a store's counters, the node.
    pub subject: String,
    /// Name, as [`Series::name`].
    pub name: String,
    /// Unit of the value: of a total `s`, `B` or nothing.
    pub unit: String,
    /// The value.
    pub found: SampleValue,
}

/// A value that was read.
#[derive(Debug, Clone, PartialEq)]
pub enum SampleValue {
    /// See [`SeriesKind::Level`].
    Level(f64),
    /// Sum since some start, and an identifier of that start: values with different starts are not subtracted.
    Total(f64, u64),
    /// Number since some start.
    Cycle(f64),
    /// Nanoseconds, since the reading before.
    Distribution(Box<Histogram<u64>>),
}

impl Reading {
    /// Creates a reading of a level.
    pub fn level(subject: &str, name: &str, unit: &str, value: f64) -> Self {
        Self::new(subject, name, unit, SampleValue::Level(value))
    }

    /// Creates a reading of a counter.
    pub fn total(subject: &str, name: &str, unit: &str, value: f64) -> Self {
        Self::new(subject, name, unit, SampleValue::Total(value, 0))
    }

    /// Creates a reading of the number of ended cycles.
    pub fn cycle(subject: &str, name: &str, unit: &str, value: f64) -> Self {
        Self::new(subject, name, unit, SampleValue::Cycle(value))
    }

    /// Creates a reading of a value.
    pub fn new(subject: &str, name: &str, unit: &str, found: SampleValue) -> Self {
        Self { subject: subject.to_owned(), name: name.to_owned(), unit: unit.to_owned(), found }
    }

    /// Meaning of the values of its series.
    pub fn kind(&self) -> SeriesKind {
        match self.found {
            SampleValue::Level(_) => SeriesKind::Level,
            SampleValue::Total(..) => SeriesKind::Total,
            SampleValue::Cycle(_) => SeriesKind::Cycle,
            SampleValue::Distribution(_) => SeriesKind::Distribution,
        }
    }

    /// The value; for a distribution, the number of its samples.
    pub fn number(&self) -> f64 {
        match &self.found {
            SampleValue::Level(value) | SampleValue::Total(value, _) | SampleValue::Cycle(value) => *value,
            SampleValue::Distribution(times) => times.len() as f64,
        }
    }

    /// True if `other` is a reading of the same series.
    pub fn is_of(&self, other: &Reading) -> bool {
        self.name == other.name && self.subject == other.subject
    }

    /// The series in which it is recorded.
    pub fn series(&self, source: &str, subject: &str) -> Series {
        let kind = self.kind();
        let unit = match (kind, self.unit.as_str()) {
            (SeriesKind::Total, "") => "1/s".to_owned(),
            (SeriesKind::Total, "s") => "%".to_owned(),
            (SeriesKind::Total, unit) => format!("{unit}/s"),
            (_, unit) => unit.to_owned(),
        };
        Series { source: source.to_owned(), subject: subject.to_owned(), name: self.name.clone(), unit, kind }
    }

    /// The value to record, given the reading `before` it, made `elapsed_s` earlier. `None` if there is no such
    /// reading, or it counted from another start.
    pub fn since(&self, before: Option<(&Reading, f64)>) -> Option<f64> {
        let growth = |before: &Reading| match (&self.found, &before.found) {
            (SampleValue::Total(now, beginning), SampleValue::Total(before, same)) if beginning == same => {
                Some(now - before)
            }
            (SampleValue::Cycle(now), SampleValue::Cycle(before)) => Some(now - before),
            _ => None,
        };
        let (before, elapsed_s) = match &self.found {
            SampleValue::Level(value) => return Some(*value).filter(|value| value.is_finite()),
            _ => before?,
        };
        let growth = growth(before).filter(|growth| *growth >= 0.0)?;
        match self.kind() {
            SeriesKind::Cycle => Some(growth),
            _ if elapsed_s <= 0.0 => None,
            _ if self.unit == "s" => Some(growth * 100.0 / elapsed_s),
            _ => Some(growth / elapsed_s),
        }
    }
}

/// The reason why a sampler has nothing to read here. Reported once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// Reads figures of the host, a process or a store.
pub trait Sampler: Send {
    /// Reads everything that can be read now.
    fn sample(&mut self) -> Vec<Reading>;

    /// Reads, around a fault, the figures that are cheap to read and change within [`FINE_INTERVAL`]. The readings of
    /// [`Sampler::sample`] are the same as without this. Without an implementation there are no such figures.
    fn fine(&mut self) -> Vec<Reading> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_is_a_rate_a_time_a_share_a_cycle_its_number_and_a_level_itself() {
        let total = |unit, value| Reading::total("", "writes", unit, value);
        assert_eq!(total("", 700.0).since(Some((&total("", 100.0), 2.0))), Some(300.0));
        assert_eq!(total("s", 1.5).since(Some((&total("s", 1.0), 2.0))), Some(25.0));
        let cycle = |value| Reading::cycle("", "checkpoints", "", value);
        assert_eq!(cycle(6.0).since(Some((&cycle(4.0), 2.0))), Some(2.0));
        assert_eq!(Reading::level("", "dirty", "B", 6.0).since(None), Some(6.0));
        let units = [total("", 0.0), total("s", 0.0), total("B", 0.0), cycle(0.0)];
        assert_eq!(units.map(|one| one.series(STORE, "").unit), ["1/s", "%", "B/s", ""]);
    }

    #[test]
    fn a_name_of_words_keeps_the_names_in_it() {
        let spoken = |name| Reading::level("", name, "", 0.0).series(STORE, "").spoken();
        assert_eq!(spoken("flush_time"), "flush time");
        assert_eq!(spoken("waiting for a row of my_table"), "waiting for a row of my_table");
    }

    #[test]
    fn what_says_nothing_is_left_out() {
        let total = |value| Reading::total("", "writes", "", value);
        assert_eq!(total(700.0).since(None), None, "nothing was read before");
        assert_eq!(total(5.0).since(Some((&total(700.0), 2.0))), None, "it is counted anew");
        assert_eq!(total(9.0).since(Some((&total(5.0), 0.0))), None, "no time has passed");
        let another = Reading { found: SampleValue::Total(9.0, 1), ..total(9.0) };
        assert_eq!(another.since(Some((&total(5.0), 1.0))), None, "another beginning");
        assert_eq!(Reading::level("", "load", "", f64::NAN).since(None), None);
    }
}
