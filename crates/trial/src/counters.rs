//! What a store counts of its own work, read once a slice beside a phase's operations, on a thread of its own: a store
//! that does not answer must not keep anybody from his slices.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use plimsoll_core::{Counter, CounterSort, SeriesSpec, Store};
use plimsoll_record::RecordError;
use plimsoll_record::data::{CYCLES, EventClass, Level, STORE_COUNTERS, Sample, SamplerSeries};

use crate::sink::{Sinks, Told};

/// Reads the counters of one phase.
pub struct CounterReader<'a> {
    /// Whoever is told.
    pub sinks: &'a Sinks<'a>,
    /// Position of the trial.
    pub trial: u32,
    /// How reports call the store.
    pub label: &'a str,
    /// Time between two readings.
    pub slice: Duration,
}

/// A reading: when, and each counter's value.
struct Read {
    at_ns: u64,
    counters: Vec<Counter>,
}

impl CounterReader<'_> {
    /// Reads until `stopped` is, and once more then. A store that counts nothing is not asked twice; that one could not
    /// be read is said once.
    pub fn follow(&self, store: &mut dyn Store, stopped: &Receiver<()>) {
        let mut positions = BTreeMap::new();
        let mut before: Option<Read> = None;
        let mut has_failed = false;
        let mut is_answered;
        let slice_ns = self.slice.as_nanos() as u64;
        let mut next_ns = self.sinks.clock.now_ns();
        loop {
            let read = store.counters();
            is_answered = read.is_ok();
            match read {
                Ok(counters) if counters.is_empty() => return,
                Ok(counters) => {
                    let now = Read { at_ns: self.sinks.clock.now_ns(), counters };
                    if self.record(before.as_ref(), &now, &mut positions).is_err() {
                        // A recording that cannot take it says so at the phase's end.
                        return;
                    }
                    before = Some(now);
                }
                Err(error) if !has_failed => {
                    has_failed = true;
                    let text = format!("what {} counts could not be read: {error}", self.label);
                    // A recording that cannot take it says so itself.
                    let _ = self.sinks.event(Some(self.trial), Level::Info, EventClass::Sampler, self.label, text);
                }
                Err(_) => {}
            }
            if slice_ns == 0 {
                return;
            }
            next_ns = (next_ns + slice_ns).max(self.sinks.clock.now_ns());
            let wait = Duration::from_nanos(next_ns.saturating_sub(self.sinks.clock.now_ns()));
            match stopped.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // Who has just been silent is not waited for again.
        if is_answered && let Ok(counters) = store.counters() {
            let now = Read { at_ns: self.sinks.clock.now_ns(), counters };
            let _ = self.record(before.as_ref(), &now, &mut positions);
        }
    }

    fn record(
        &self,
        before: Option<&Read>,
        now: &Read,
        positions: &mut BTreeMap<&'static str, u32>,
    ) -> Result<(), RecordError> {
        let mut values = Vec::with_capacity(now.counters.len());
        for counter in &now.counters {
            let Some(value) = value_of(self.slice, before, now, counter) else { continue };
            let position = match positions.get(counter.name) {
                Some(position) => *position,
                None => {
                    let position = self.sinks.series(self.series(counter))?;
                    positions.insert(counter.name, position);
                    position
                }
            };
            values.push((position, value));
        }
        if values.is_empty() {
            return Ok(());
        }
        self.sinks.tell(Told::Sample(Sample { at_ns: now.at_ns, values }))
    }

    fn series(&self, counter: &Counter) -> SamplerSeries {
        let unit = match counter.unit {
            "bytes" => "B",
            unit => unit,
        };
        let unit = match counter.sort {
            CounterSort::Level => unit.to_owned(),
            CounterSort::Cycle => CYCLES.to_owned(),
            CounterSort::Total if unit.is_empty() => "1/s".to_owned(),
            CounterSort::Total => format!("{unit}/s"),
        };
        let spec = SeriesSpec { subject: self.label.to_owned(), name: counter.name.to_owned(), unit };
        SamplerSeries { sampler: STORE_COUNTERS.to_owned(), spec }
    }
}

/// A counter over the time since the reading before; of a level, as it is. `None` where that says nothing: there was no
/// reading before, the server has begun to count anew, or hardly any time has passed.
fn value_of(slice: Duration, before: Option<&Read>, now: &Read, counter: &Counter) -> Option<f64> {
    if counter.sort == CounterSort::Level {
        return Some(counter.value);
    }
    let before = before?;
    let earlier = before.counters.iter().find(|other| other.name == counter.name)?;
    let growth = counter.value - earlier.value;
    let elapsed = Duration::from_nanos(now.at_ns.saturating_sub(before.at_ns));
    match counter.sort {
        _ if growth < 0.0 => None,
        CounterSort::Cycle => Some(growth),
        _ => (elapsed * 4 >= slice).then(|| growth / elapsed.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Duration = Duration::from_secs(1);

    fn read(at_s: f64, sort: CounterSort, value: f64) -> Read {
        let counter = Counter { name: "checkpoints", unit: "", sort, value };
        Read { at_ns: (at_s * 1e9) as u64, counters: vec![counter] }
    }

    fn value(sort: CounterSort, before: Option<(f64, f64)>, now: (f64, f64)) -> Option<f64> {
        let now = read(now.0, sort, now.1);
        let before = before.map(|(at_s, value)| read(at_s, sort, value));
        value_of(SLICE, before.as_ref(), &now, &now.counters[0])
    }

    #[test]
    fn a_total_is_a_rate_a_cycle_its_number_and_a_level_itself() {
        assert_eq!(value(CounterSort::Total, Some((1.0, 100.0)), (3.0, 700.0)), Some(300.0));
        assert_eq!(value(CounterSort::Cycle, Some((1.0, 4.0)), (3.0, 6.0)), Some(2.0));
        assert_eq!(value(CounterSort::Level, None, (3.0, 6.0)), Some(6.0));
    }

    #[test]
    fn what_says_nothing_is_left_out() {
        for sort in [CounterSort::Total, CounterSort::Cycle] {
            assert_eq!(value(sort, None, (3.0, 700.0)), None, "nothing was read before");
            assert_eq!(value(sort, Some((1.0, 700.0)), (3.0, 5.0)), None, "the server counts anew");
        }
        assert_eq!(value(CounterSort::Total, Some((1.0, 0.0)), (1.2, 9.0)), None, "a fifth of a slice makes no rate");
        assert_eq!(value(CounterSort::Cycle, Some((1.0, 0.0)), (1.2, 1.0)), Some(1.0), "but a cycle is one");
    }
}
