//! Reads the samplers once a slice, from the run's start to its end, on a thread of its own.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_core::Sampler;
use plimsoll_drive::Clock;
use plimsoll_record::Recorder;
use plimsoll_record::data::Sample;

/// The sampling thread. Ends when dropped.
pub struct Ticker {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Starts to read `samplers` every `slice`. Series are numbered over all samplers, in their order.
    pub fn start(
        mut samplers: Vec<Box<dyn Sampler>>,
        slice: Duration,
        clock: Clock,
        recorder: Arc<Recorder>,
    ) -> Result<Ticker, std::io::Error> {
        let (stop, stopped) = channel::<()>();
        let thread = std::thread::Builder::new().name("sampler".to_owned()).spawn(move || {
            let mut last_ns = clock.now_ns();
            let mut next_ns = last_ns;
            let mut readings = Vec::new();
            loop {
                let now_ns = clock.now_ns();
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
                if !values.is_empty() && recorder.sample(Sample { at_ns: now_ns, values }).is_err() {
                    return;
                }
                // Ticks stand on the grid of the run's start; what was missed is not made up for.
                let slice_ns = slice.as_nanos() as u64;
                next_ns += slice_ns;
                if next_ns <= now_ns {
                    next_ns = now_ns + slice_ns;
                }
                let wait = Duration::from_nanos(next_ns.saturating_sub(clock.now_ns()));
                match stopped.recv_timeout(wait) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        })?;
        Ok(Ticker { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A sampler that panicked has already said so on stderr.
            let _ = thread.join();
        }
    }
}
