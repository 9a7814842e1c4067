//! Figures that are read once a slice: of the host, of a process, of a store and its nodes.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The source of what a store counts of its own work.
pub const STORE: &str = "store";

/// The source of how late the witness of the machine's pauses wakes up.
pub const WITNESS: &str = "witness";

/// The source of what each server answered, where operations go to several.
pub const ANSWERS: &str = "answers";

crate::words! {
    /// What the values of a series are.
    pub enum SeriesKind {
        /// How it stands.
        Level = "level",
        /// Of what only grows, its growth by the second; of time that only grows, its share in per cent.
        Total = "total",
        /// How often a store ended a piece of the work that it puts off under load: a checkpoint, a flush, a compaction.
        /// A trial that saw none of them has not seen the whole store.
        Cycle = "cycle",
        /// How long each of what happened took.
        Distribution = "distribution",
    }
}

/// A series of figures, as it is recorded. Its values are of the time since the reading before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// Who reads it: `cpu`, `disk`, [`STORE`].
    pub source: String,
    /// What it is of: `cpu0`, `vda`, a store, one of its nodes; empty when there is only one.
    pub subject: String,
    /// What is measured, with no unit: `user`, `flushes`, `flush_time`.
    pub name: String,
    /// Unit of the values: `%`, `B/s`, `1/s`, `B`, `ms`, `tasks`; empty for things and cycles.
    pub unit: String,
    /// What the values are.
    pub kind: SeriesKind,
}

/// What was read of one series, as it stands where it is counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// As [`Series::subject`]; of a store's counters, which of its nodes.
    pub subject: String,
    /// As [`Series::name`].
    pub name: String,
    /// Unit of what was read: of a total `s`, `B` or nothing.
    pub unit: String,
    /// The value.
    pub found: Found,
}

/// What was read.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// See [`SeriesKind::Level`].
    Level(f64),
    /// The sum since some beginning, and which beginning: values from another one are not subtracted.
    Total(f64, u64),
    /// The number since some beginning.
    Cycle(f64),
    /// Nanoseconds, since the reading before.
    Distribution(Box<Histogram<u64>>),
}

impl Reading {
    /// How something stands.
    pub fn level(subject: &str, name: &str, unit: &str, value: f64) -> Self {
        Self::new(subject, name, unit, Found::Level(value))
    }

    /// What only grows.
    pub fn total(subject: &str, name: &str, unit: &str, value: f64) -> Self {
        Self::new(subject, name, unit, Found::Total(value, 0))
    }

    /// How often a cycle ended.
    pub fn cycle(subject: &str, name: &str, unit: &str, value: f64) -> Self {
        Self::new(subject, name, unit, Found::Cycle(value))
    }

    /// What was read, of which series.
    pub fn new(subject: &str, name: &str, unit: &str, found: Found) -> Self {
        Self { subject: subject.to_owned(), name: name.to_owned(), unit: unit.to_owned(), found }
    }

    /// What the values of its series are.
    pub fn kind(&self) -> SeriesKind {
        match self.found {
            Found::Level(_) => SeriesKind::Level,
            Found::Total(..) => SeriesKind::Total,
            Found::Cycle(_) => SeriesKind::Cycle,
            Found::Distribution(_) => SeriesKind::Distribution,
        }
    }

    /// The value; of a distribution, how many it holds.
    pub fn number(&self) -> f64 {
        match &self.found {
            Found::Level(value) | Found::Total(value, _) | Found::Cycle(value) => *value,
            Found::Distribution(times) => times.len() as f64,
        }
    }

    /// Whether `other` was read of the same series.
    pub fn is_of(&self, other: &Reading) -> bool {
        self.name == other.name && self.subject == other.subject
    }

    /// The series that it is recorded in.
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

    /// What is recorded of it, after `before` was read `elapsed_s` earlier. `None` where that says nothing: nothing was
    /// read before, or it was counted from another beginning.
    pub fn since(&self, before: Option<(&Reading, f64)>) -> Option<f64> {
        let growth = |before: &Reading| match (&self.found, &before.found) {
            (Found::Total(now, beginning), Found::Total(before, same)) if beginning == same => Some(now - before),
            (Found::Cycle(now), Found::Cycle(before)) => Some(now - before),
            _ => None,
        };
        let (before, elapsed_s) = match &self.found {
            Found::Level(value) => return Some(*value).filter(|value| value.is_finite()),
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

/// Why a sampler has nothing to read here. Said once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// Reads figures of the host, a process or a store.
pub trait Sampler: Send {
    /// Reads everything that can be read now.
    fn sample(&mut self) -> Vec<Reading>;
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
    fn what_says_nothing_is_left_out() {
        let total = |value| Reading::total("", "writes", "", value);
        assert_eq!(total(700.0).since(None), None, "nothing was read before");
        assert_eq!(total(5.0).since(Some((&total(700.0), 2.0))), None, "it is counted anew");
        assert_eq!(total(9.0).since(Some((&total(5.0), 0.0))), None, "no time has passed");
        let another = Reading { found: Found::Total(9.0, 1), ..total(9.0) };
        assert_eq!(another.since(Some((&total(5.0), 1.0))), None, "another beginning");
        assert_eq!(Reading::level("", "load", "", f64::NAN).since(None), None);
    }
}
