//! Reads the samplers once a slice, from the run's start to its end, on a thread of its own.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use plimsoll_core::Sampler;
use plimsoll_record::data::Sample;

use crate::sink::{Sinks, Told};

/// Reads `samplers` every `slice` until `stopped` is. Series are numbered over all samplers, in their order.
pub fn follow(mut samplers: Vec<Box<dyn Sampler>>, slice: Duration, sinks: &Sinks<'_>, stopped: &Receiver<()>) {
    let mut last_ns = sinks.clock.now_ns();
    let mut next_ns = last_ns;
    let mut readings = Vec::new();
    loop {
        let now_ns = sinks.clock.now_ns();
        let mut values = Vec::new();
        let mut first_series = 0;
        for sampler in &mut samplers {
            readings.clear();
            sampler.sample(now_ns - last_ns, &mut readings);
            values.extend(readings.iter().map(|reading| (first_series + reading.series, reading.value)));
            first_series += sampler.series().len() as u32;
        }
        last_ns = now_ns;
        // A recording that cannot take it says so at the next phase.
        if !values.is_empty() && sinks.tell(Told::Sample(Sample { at_ns: now_ns, values })).is_err() {
            return;
        }
        // Ticks stand on the grid of the run's start; what was missed is not made up for.
        let slice_ns = slice.as_nanos() as u64;
        next_ns += slice_ns;
        if next_ns <= now_ns {
            next_ns = now_ns + slice_ns;
        }
        let wait = Duration::from_nanos(next_ns.saturating_sub(sinks.clock.now_ns()));
        match stopped.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
