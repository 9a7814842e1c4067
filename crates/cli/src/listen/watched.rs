//! State of a run that is watched over HTTP: the newest figures, and sums over the whole run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use plimsoll_analysis::live::{Live, LiveSums};
use plimsoll_analysis::slices::SliceRow;
use plimsoll_record::data::{RunHeader, RunState};
use plimsoll_trial::{CellsSoFar, Sink, Told};

use crate::listen::figures;
use crate::listen::serve::CONNECTIONS_MAX;

/// Shortest time between two events of the page.
const EVENTS_APART: Duration = Duration::from_millis(250);

/// Most readers that wait for an event, open connections and closed ones.
const WAITING_MAX: usize = 2 * CONNECTIONS_MAX;

/// Store, phase and operation type that sums are of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SumsOf {
    /// Label of the store.
    pub store: String,
    /// Name of the phase.
    pub phase: String,
    /// Operation type, or [`plimsoll_analysis::slices::ALL`].
    pub op: String,
}

/// State of the run.
#[derive(Default)]
pub struct WatchedRun {
    /// Header; `None` before the run begins.
    pub header: Option<Box<RunHeader>>,
    /// Name of the trial for people: `2/5 sqlite, index own`.
    pub trial: String,
    /// Newest figures.
    pub live: Live,
    /// Sums over the trials so far. They only grow.
    pub totals: BTreeMap<SumsOf, LiveSums>,
    /// Number of ended operations of a load that tells it, and their total.
    pub loading: Option<(u64, u64)>,
    /// Progress of cells.
    pub cells: Option<CellsSoFar>,
    /// State at the end of the run; `None` while it is in progress.
    pub ended: Option<RunState>,
    /// Observations that were lost because this sink was slow.
    pub lost: u64,
    ended_at: Option<Instant>,
    /// Number of the newest event of the page, and its time.
    news: (u64, Option<Instant>),
    /// Readers that wait for the next one.
    waiting: Vec<Waker>,
}

/// State of the run, and its readers.
#[derive(Default)]
pub struct Watched {
    run: Mutex<WatchedRun>,
    is_asked: AtomicBool,
}

impl Sink for Watched {
    fn take(&self, told: &Told) {
        let mut run = self.run();
        told.add_to(&mut run.live);
        match told {
            Told::BeginRun(header) => run.header = Some(header.clone()),
            Told::EndRun(state, _) => (run.ended, run.ended_at) = (Some(state.clone()), Some(Instant::now())),
            Told::Next(name) => run.trial.clone_from(name),
            Told::BeginPhase(..) => run.loading = None,
            Told::Loading(done, of) => run.loading = Some((*done, *of)),
            Told::Slice { row, types, measured: true } => {
                run.add(row);
                types.iter().for_each(|of_type| run.add(of_type));
                run.equal_seconds(row);
            }
            Told::Cells(cells) => run.cells = Some(cells.clone()),
            Told::Lost(lost) => run.lost += lost,
            _ => {}
        }
        let is_step = matches!(told, Told::BeginPhase(..) | Told::EndPhase(..) | Told::EndRun(..));
        if is_step
            || matches!(
                told,
                Told::Slice { .. } | Told::Preview { .. } | Told::Loading(..) | Told::Cells(_) | Told::Fault(_)
            )
        {
            run.tell(is_step);
        }
    }
}

impl WatchedRun {
    fn add(&mut self, row: &SliceRow) {
        let of = SumsOf { store: row.store.clone(), phase: row.phase.clone(), op: row.op.clone() };
        self.totals.entry(of).or_default().add(row);
    }

    /// Gives the sums of each type the seconds of all: its rate is over the whole time, also without its operations.
    fn equal_seconds(&mut self, row: &SliceRow) {
        let is_of_phase = |of: &SumsOf| of.store == row.store && of.phase == row.phase;
        let mut sums: Vec<_> = self.totals.iter_mut().filter(|(of, _)| is_of_phase(of)).map(|(_, done)| done).collect();
        // Each slice has a row of all types together, so theirs are the most.
        let seconds = sums.iter().map(|done| done.seconds).fold(0.0, f64::max);
        sums.iter_mut().for_each(|done| done.seconds = seconds);
    }

    /// Wakes readers of events, unless the last event was a moment ago and this is no `step` of the run.
    fn tell(&mut self, step: bool) {
        let (number, at) = self.news;
        if step || at.is_none_or(|at| at.elapsed() >= EVENTS_APART) {
            self.news = (number + 1, Some(Instant::now()));
            self.waiting.drain(..).for_each(Waker::wake);
        }
    }
}

impl Watched {
    /// Returns the state of the run for a reader.
    pub fn read(&self) -> MutexGuard<'_, WatchedRun> {
        self.is_asked.store(true, Ordering::Relaxed);
        self.run()
    }

    fn run(&self) -> MutexGuard<'_, WatchedRun> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the figures as a server-sent event, if there is a newer one than number `seen`, or none was seen. `None`
    /// after the last event. A reader that comes late misses events, and gets the newest.
    pub fn poll_event(&self, seen: &mut Option<u64>, context: &Context<'_>) -> Poll<Option<String>> {
        let mut run = self.read();
        let (newest, _) = run.news;
        if seen.is_none_or(|seen| seen < newest) {
            *seen = Some(newest);
            return Poll::Ready(Some(format!("id: {newest}\ndata: {}\n\n", figures::tree(&run))));
        }
        if run.ended.is_some() {
            return Poll::Ready(None);
        }
        // Connections that were closed leave wakers behind.
        if run.waiting.len() >= WAITING_MAX {
            run.waiting.drain(..).for_each(Waker::wake);
        }
        if !run.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            run.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// Returns the time since the end of the run; `None` without an end, or without any reader.
    pub fn since_end(&self) -> Option<Duration> {
        let ended_at = self.run().ended_at.filter(|_| self.is_asked.load(Ordering::Relaxed))?;
        Some(ended_at.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    /// Task of a connection that was closed.
    struct Closed;

    impl Wake for Closed {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn closed_connections_leave_a_bounded_number_of_readers() {
        let watched = Watched::default();
        for _ in 0..10 * WAITING_MAX {
            let waker = Waker::from(Arc::new(Closed));
            assert!(watched.poll_event(&mut Some(0), &Context::from_waker(&waker)).is_pending());
        }
        assert!(watched.run().waiting.len() <= WAITING_MAX);
    }
}
