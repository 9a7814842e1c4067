//! Figures that are read once a slice.

use serde::{Deserialize, Serialize};

/// One series of figures that a sampler reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesSpec {
    /// What it is of: `cpu0`, `vda`, `lo`, `server`; empty when there is only one.
    pub subject: String,
    /// What is measured, with no unit: `user`, `flushes`, `flush_time`.
    pub name: String,
    /// Unit of the values: `%`, `B/s`, `1/s`, `B`, `ms`, `tasks`.
    pub unit: String,
}

/// One value of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// Position in [`Sampler::series`].
    pub series: u32,
    /// The value in the series' unit, over the time since the reading before.
    pub value: f64,
}

/// Why a sampler has nothing to read here. Said once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// Reads figures of the host, a process or a store.
pub trait Sampler: Send {
    /// Name as in plans: `cpu`, `disk`.
    fn name(&self) -> &'static str;

    /// All series it can give. Fixed after construction.
    fn series(&self) -> &[SeriesSpec];

    /// Appends a reading for each series that has one. `elapsed_ns` is the time since the last call; the
    /// first call may have nothing to compare with and append nothing.
    fn sample(&mut self, elapsed_ns: u64, readings: &mut Vec<Reading>);
}
