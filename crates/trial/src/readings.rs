//! Newest readings of samplers and of stores' counters, for faults that begin by a condition. Those of clients are in
//! `ended_ops`.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plimsoll_analysis::number;
use plimsoll_core::Series;
use plimsoll_core::sampler::STORE;
use plimsoll_plan::timeline::FaultCondition;
use plimsoll_record::data::Sample;

/// Reading of a series.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SeenReading {
    /// Value, as it is recorded.
    pub value: f64,
    /// Unit of the series.
    pub unit: String,
}

/// Returns the newest reading of a condition, if it was read at a time of the run's clock or later.
pub(crate) type NewestOf<'a> = Box<dyn Fn(&FaultCondition, u64) -> Option<SeenReading> + Sync + Send + 'a>;

/// Series with its newest reading.
#[derive(Debug)]
struct Newest {
    series: Series,
    reading: Option<TimedReading>,
}

/// Value that was read at a time of the run's clock.
#[derive(Debug, Clone, Copy)]
struct TimedReading {
    at_ns: u64,
    /// Time since the reading before; 0 for the first.
    after_ns: u64,
    value: f64,
}

impl TimedReading {
    /// Returns true if `other`, which is not newer, stands until its next reading. Nodes of a store are read at moments
    /// of their own.
    fn is_with(&self, other: &TimedReading) -> bool {
        (self.at_ns - other.at_ns) * 4 <= self.after_ns.max(other.after_ns) * 5
    }
}

/// Newest readings of all series of a run, by the positions of the series.
#[derive(Debug, Default)]
pub struct NewestReadings(Mutex<BTreeMap<u32, Newest>>);

impl NewestReadings {
    /// Adds a series.
    pub(crate) fn series(&self, position: u32, series: &Series) {
        self.locked().entry(position).or_insert_with(|| Newest { series: series.clone(), reading: None });
    }

    /// Takes the values of a sample.
    pub(crate) fn sample(&self, sample: &Sample) {
        let mut all = self.locked();
        for (position, value) in &sample.values {
            if let Some(newest) = all.get_mut(position) {
                let after_ns = newest.reading.map_or(0, |before| sample.at_ns.saturating_sub(before.at_ns));
                newest.reading = Some(TimedReading { at_ns: sample.at_ns, after_ns, value: *value });
            }
        }
    }

    /// Returns the reading of a condition among the newest of its source. `None` if it was read before `since_ns`.
    /// `label` is that of the store, which its counters have before their own subjects.
    pub(crate) fn of(&self, condition: &FaultCondition, label: &str, since_ns: u64) -> Option<SeenReading> {
        let all = self.locked();
        let of_source = all.values().filter_map(|Newest { series, reading }| {
            let subject = own_subject(series, label).filter(|_| series.source == condition.source)?;
            reading.map(|reading| (series, subject, reading))
        });
        let of_source: Vec<_> = of_source.collect();
        let newest = of_source.iter().map(|(.., reading)| *reading).max_by_key(|reading| reading.at_ns)?;
        let is_meant = |(series, subject, reading): &&(&Series, &str, TimedReading)| {
            let is_its = condition.subject.as_deref().is_none_or(|own| own == *subject || own == series.subject);
            // A node that is away keeps its last reading, which is old.
            let is_new = reading.at_ns >= since_ns && newest.is_with(reading);
            is_its && is_new && series.name == condition.name && condition.compares(&series.unit)
        };
        let meant = || of_source.iter().filter(is_meant);
        let whole = meant().find(|(_, subject, _)| subject.is_empty());
        let found = whole.or_else(|| meant().max_by(|(.., one), (.., other)| one.value.total_cmp(&other.value)));
        found.map(|(series, _, reading)| SeenReading { value: reading.value, unit: series.unit.clone() })
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<u32, Newest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until the `newest` reading meets a condition, and returns words for the reading. `is_over` waits a moment, and
/// returns true once there is no more to wait for.
///
/// # Errors
/// Words for the nearest reading, if the condition was not met.
pub(crate) fn awaited(
    condition: &FaultCondition,
    newest: impl Fn() -> Option<SeenReading>,
    mut is_over: impl FnMut() -> bool,
) -> Result<String, String> {
    let was = |seen: &SeenReading| format!("{} was {}", condition.reading(), number::with_unit(seen.value, &seen.unit));
    let mut nearest: Option<SeenReading> = None;
    loop {
        if let Some(seen) = newest() {
            if condition.is_met(seen.value, &seen.unit) {
                return Ok(was(&seen));
            }
            if nearest.as_ref().is_none_or(|known| condition.is_nearer(seen.value, known.value)) {
                nearest = Some(seen);
            }
        }
        if is_over() {
            let nearest = nearest.map(|seen| format!("{} at the nearest", was(&seen)));
            return Err(nearest.unwrap_or_else(|| format!("after the warm-up {} was not read", condition.reading())));
        }
    }
}

/// Returns the subject of a series without the label of the store; `None` for a counter of another store.
fn own_subject<'s>(series: &'s Series, label: &str) -> Option<&'s str> {
    if series.source != STORE {
        return Some(&series.subject);
    }
    let part = series.subject.strip_prefix(label)?;
    if part.is_empty() { Some(part) } else { part.strip_prefix(' ') }
}

#[cfg(test)]
#[path = "readings_tests.rs"]
mod tests;
