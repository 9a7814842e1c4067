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
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Instant;

    use super::*;

    /// Sink that waits before each event until the test lets it go on, and then writes it down.
    struct Slow {
        may_go_on: Mutex<Receiver<()>>,
        seen: Mutex<Vec<String>>,
    }

    impl Sink for Slow {
        fn take(&self, told: &Told) {
            // The test's end lets all go on.
            let _ = self.may_go_on.lock().unwrap().recv();
            self.seen.lock().unwrap().push(match told {
                Told::Next(name) | Told::Note(name) => name.clone(),
                Told::Lost(lost) => format!("{lost} lost"),
                other => panic!("{other:?}"),
            });
        }
    }

    fn slow() -> (Arc<Slow>, Sender<()>, QueuedSink) {
        let (go_on, may_go_on) = channel();
        let slow = Arc::new(Slow { may_go_on: Mutex::new(may_go_on), seen: Mutex::default() });
        let queued = QueuedSink::start("slow", Arc::clone(&slow) as Arc<dyn Sink + Send>).unwrap();
        (slow, go_on, queued)
    }

    #[test]
    fn a_sink_that_blocks_for_ever_delays_nothing_and_its_losses_are_counted() {
        let (slow, _go_on, queued) = slow();
        let begun = Instant::now();
        let events = WAITING_MAX + 1_000;
        (0..events).for_each(|number| queued.take(&Told::Note(number.to_string())));
        let missing = queued.end(Duration::from_millis(50));
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        assert!((events as u64 - 1..=events as u64).contains(&missing), "all but one that it may hold: {missing}");
        assert!(slow.seen.lock().unwrap().is_empty());
    }

    #[test]
    fn a_slow_sink_loses_its_oldest_readings_and_no_headers_and_is_told_how_many() {
        let (slow, go_on, queued) = slow();
        queued.take(&Told::Next("trial".to_owned()));
        (0..WAITING_MAX + 9).for_each(|number| queued.take(&Told::Note(number.to_string())));
        drop(go_on);
        let lost = queued.end(Duration::from_secs(60));
        let seen = slow.seen.lock().unwrap();
        let told_of = |line: &String| line.strip_suffix(" lost").map(|lost| lost.parse::<u64>().unwrap());
        assert!((9..=10).contains(&lost), "{lost}: the thread may hold the first event already, or not");
        assert_eq!(seen.iter().filter_map(told_of).sum::<u64>(), lost, "{seen:?}");
        let received = seen.iter().filter(|line| told_of(line).is_none()).count();
        assert_eq!(received as u64 + lost, WAITING_MAX as u64 + 10, "everything is received or counted");
        assert!(seen.contains(&"trial".to_owned()), "{seen:?}");
        assert_eq!(seen.last(), Some(&(WAITING_MAX + 8).to_string()));
    }

    #[test]
    fn a_sink_beside_slow_ones_receives_each_event_at_once() {
        let (direct, go_on, _of_direct) = slow();
        drop(go_on);
        let (_slow, _go_on, queued) = slow();
        let forked = ForkedSink { direct: &*direct, queued: &[queued] };
        ["one", "two"].iter().for_each(|name| forked.take(&Told::Next((*name).to_owned())));
        assert_eq!(*direct.seen.lock().unwrap(), ["one", "two"]);
    }
}
