//! Sinks that may be slow: each has a bounded queue and a thread of its own.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::error::{TrialError, io_error};
use crate::sink::{Sink, Told};

/// Most events that wait for a sink.
const WAITING_MAX: usize = 512;

/// Sink behind a bounded queue, with a thread of its own. It never delays the sender: of a full queue the oldest
/// reading is lost, and the sink receives the number of losses ([`Told::Lost`]).
#[derive(Debug)]
pub struct QueuedSink(Arc<Shared>);

/// Sink that passes each event to `direct`, and through their queues to `queued`.
pub struct ForkedSink<'a> {
    /// Sink for which the sender waits.
    pub direct: &'a dyn Sink,
    /// Sinks for which the sender does not wait.
    pub queued: &'a [QueuedSink],
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Told>,
    /// Number of lost events.
    lost: u64,
    /// Number of lost events that the sink was told of.
    told_lost: u64,
    /// Set when no more events come.
    is_closed: bool,
    /// Set when the sink has received everything.
    is_over: bool,
}

impl QueuedSink {
    /// Starts the thread of `sink`, called `name`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(name: &str, sink: Arc<dyn Sink + Send>) -> Result<Self, TrialError> {
        let shared = Arc::<Shared>::default();
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name(name.to_owned());
        let started = thread.spawn(move || of_thread.pass_on(&*sink));
        started.map_err(|error| io_error(format!("the thread {name}"), &error))?;
        Ok(Self(shared))
    }

    /// Waits until the sink has received everything, at most for `limit`. Returns the number of events that it has not
    /// received.
    pub fn end(&self, limit: Duration) -> u64 {
        let queue = self.0.close();
        let ended = self.0.changed.wait_timeout_while(queue, limit, |queue| !queue.is_over);
        let (queue, _) = ended.unwrap_or_else(PoisonError::into_inner);
        queue.lost + queue.waiting.len() as u64
    }
}

impl Drop for QueuedSink {
    fn drop(&mut self) {
        drop(self.0.close());
    }
}

impl Sink for QueuedSink {
    fn take(&self, told: &Told) {
        let told = told.clone();
        let mut queue = self.0.queue();
        if queue.waiting.len() >= WAITING_MAX {
            // Headers stay if possible: what follows them belongs to them.
            let oldest = queue.waiting.iter().position(is_reading).unwrap_or(0);
            queue.waiting.remove(oldest);
            queue.lost += 1;
        }
        queue.waiting.push_back(told);
        drop(queue);
        self.0.changed.notify_all();
    }
}

impl Sink for ForkedSink<'_> {
    fn take(&self, told: &Told) {
        self.direct.take(told);
        self.queued.iter().for_each(|queued| queued.take(told));
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) -> MutexGuard<'_, Queue> {
        let mut queue = self.queue();
        queue.is_closed = true;
        self.changed.notify_all();
        queue
    }

    /// Passes events to the sink until no more come.
    fn pass_on(&self, sink: &dyn Sink) {
        loop {
            let is_idle = |queue: &mut Queue| queue.waiting.is_empty() && !queue.is_closed;
            let waited = self.changed.wait_while(self.queue(), is_idle);
            let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
            let Some(told) = queue.waiting.pop_front() else {
                queue.is_over = true;
                self.changed.notify_all();
                return;
            };
            let lost = queue.lost - queue.told_lost;
            queue.told_lost = queue.lost;
            drop(queue);
            if lost > 0 {
                sink.take(&Told::Lost(lost));
            }
            sink.take(&told);
        }
    }
}

/// Returns true for an event that later ones do not need to be understood.
fn is_reading(told: &Told) -> bool {
    matches!(
        told,
        Told::Slice { .. }
            | Told::Preview { .. }
            | Told::Sample(_)
            | Told::Loading(..)
            | Told::Cells(_)
            | Told::Note(_)
            | Told::Remark(_)
    )
}

#[cfg(test)]
#[path = "queued_tests.rs"]
mod tests;
