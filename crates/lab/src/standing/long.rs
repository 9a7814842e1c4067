//! Long-running operations of a lab: looked for on request, and once a second while there are any. On request, each
//! node is also asked if it is ready.
//!
//! Servers under measurement are not asked otherwise. A request is answered after at most [`ASK_BOUND`], with the
//! latest operations, and without states of nodes, if the servers have not replied by then.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_core::{Progress, StoreError};

use super::request::OperationStatus;
use crate::cluster::ClusterHandle;

/// Time between two looks while an operation runs.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Time-out of each reply of a server.
const ANSWER_BOUND: Duration = Duration::from_millis(500);
/// Longest time that a request waits for a look: several replies of a slow server.
pub(super) const ASK_BOUND: Duration = Duration::from_secs(3);
/// Bytes of a log's end that are read for its last line.
const LOG_END_BYTES: u64 = 2048;
/// Most characters of a log line that are shown.
const LINE_LETTERS_MAX: usize = 120;

/// States of ready nodes in their own words, and the reasons of those that are not ready, by their numbers.
pub(super) type Said = BTreeMap<usize, Result<String, String>>;

/// Shared state of the thread that looks, and of the requests.
#[derive(Default)]
pub(super) struct Long {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    known: Vec<TrackedOperation>,
    said: Said,
    /// Number of requests, and the number of them that the last look answered.
    asked: u64,
    looked: u64,
    /// True if a node is being started.
    is_poked: bool,
    is_ended: bool,
}

struct TrackedOperation {
    progress: Progress,
    since: Instant,
    moved: Instant,
}

impl Long {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the next look happen now: an operation may have begun.
    pub(super) fn poke(&self) {
        self.state().is_poked = true;
        self.changed.notify_all();
    }

    /// Ends the looks.
    pub(super) fn end(&self) {
        self.state().is_ended = true;
        self.changed.notify_all();
    }

    /// Returns the operations that run now, and what nodes said of themselves; `None` if not all have answered in time.
    pub(super) fn now(&self) -> (Vec<OperationStatus>, Option<Said>) {
        let mut state = self.state();
        state.asked += 1;
        let mine = state.asked;
        self.changed.notify_all();
        let waiting = |state: &mut State| state.looked < mine && !state.is_ended;
        let waited = self.changed.wait_timeout_while(state, ASK_BOUND, waiting);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let shown = |known: &TrackedOperation| {
            let for_s = known.progress.for_s.unwrap_or(0).max(known.since.elapsed().as_secs());
            let progress = Progress { for_s: Some(for_s), ..known.progress.clone() };
            OperationStatus { progress, still_s: known.moved.elapsed().as_secs() }
        };
        (state.known.iter().map(shown).collect(), (state.looked >= mine).then(|| state.said.clone()))
    }

    /// Looks, until [`Long::end`], at the nodes that `is_asked` selects.
    pub(super) fn follow(&self, cluster: &ClusterHandle, is_asked: impl Fn(usize) -> bool + Sync) {
        let mut last = Instant::now();
        loop {
            let mut state = self.state();
            let (asked, is_request) = loop {
                let is_due = !state.known.is_empty() || state.is_poked;
                match () {
                    () if state.is_ended => return,
                    () if state.asked > state.looked => break (state.asked, true),
                    () if is_due && last.elapsed() >= LOOK_INTERVAL => break (state.asked, false),
                    () => {}
                }
                let waited = match is_due {
                    true => self.changed.wait_timeout(state, LOOK_INTERVAL.saturating_sub(last.elapsed())),
                    false => self.changed.wait_timeout(state, Duration::from_secs(3_600)),
                };
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            };
            drop(state);
            last = Instant::now();
            let (found, said) = std::thread::scope(|scope| {
                let said = is_request.then(|| scope.spawn(|| said(cluster, &is_asked)));
                (look(cluster, &is_asked), said.and_then(|said| said.join().ok()))
            });
            let mut state = self.state();
            if is_request {
                state.said = said.unwrap_or_default();
            }
            let before = std::mem::take(&mut state.known);
            state.known =
                found.into_iter().map(|(progress, since)| TrackedOperation::after(&before, progress, since)).collect();
            (state.looked, state.is_poked) = (asked, false);
            self.changed.notify_all();
        }
    }
}

impl TrackedOperation {
    /// Combines new progress with earlier progress of the same operation.
    fn after(before: &[TrackedOperation], progress: Progress, since: Option<Instant>) -> Self {
        let now = Instant::now();
        let same =
            before.iter().find(|known| (known.progress.node, &known.progress.what) == (progress.node, &progress.what));
        let how_far = |of: &Progress| (of.step.clone(), of.done, of.left);
        let moved = match same {
            Some(known) if how_far(&known.progress) == how_far(&progress) => known.moved,
            _ => now,
        };
        let since = same.map(|known| known.since).or(since).unwrap_or(now);
        Self { progress, since, moved }
    }
}

/// Asks all nodes together if they are ready. Returns their states in their own words, or why they are not ready.
fn said(cluster: &ClusterHandle, is_asked: impl Fn(usize) -> bool) -> Said {
    let starting = cluster.starting();
    let nodes = cluster.nodes().into_iter().map(|node| node.number);
    let nodes = nodes.filter(|number| is_asked(*number) && !starting.contains_key(number));
    std::thread::scope(|scope| {
        let ask = |number| (number, scope.spawn(move || cluster.ready(number, ANSWER_BOUND)));
        let asked: Vec<_> = nodes.map(ask).collect();
        let told = |asked: Result<String, StoreError>| asked.map_err(|error| error.line());
        asked.into_iter().filter_map(|(number, asked)| Some((number, told(asked.join().ok()?)))).collect()
    })
}

/// Asks all nodes together, and returns their operations, with the start times known here.
fn look(cluster: &ClusterHandle, is_asked: impl Fn(usize) -> bool) -> Vec<(Progress, Option<Instant>)> {
    let starting = cluster.starting();
    let mut found: Vec<Progress> = std::thread::scope(|scope| {
        let nodes = cluster.nodes().into_iter().map(|node| node.number).filter(|number| is_asked(*number));
        let asked: Vec<_> = nodes
            .filter_map(|number| {
                let ask = move || cluster.progress(number, ANSWER_BOUND).unwrap_or_default();
                std::thread::Builder::new().name("lab".to_owned()).spawn_scoped(scope, ask).ok()
            })
            .collect();
        asked.into_iter().filter_map(|asked| asked.join().ok()).flatten().collect()
    });
    for number in starting.keys() {
        if !found.iter().any(|progress| progress.node == *number) {
            let said = cluster.files(*number).map(|(log, _)| last_line(&log)).unwrap_or_default();
            found.push(Progress::new(*number, "start").step(said));
        }
    }
    found.sort_by(|one, other| (one.node, &one.what).cmp(&(other.node, &other.what)));
    found
        .into_iter()
        .map(|progress| (starting.get(&progress.node).copied(), progress))
        .map(|(at, it)| (it, at))
        .collect()
}

/// Returns the last line of a log; empty if there is none.
fn last_line(log: &Path) -> String {
    let mut end = Vec::new();
    let read = File::open(log).and_then(|mut file| {
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_END_BYTES)))?;
        file.take(LOG_END_BYTES).read_to_end(&mut end)
    });
    let text = String::from_utf8_lossy(&end);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).filter(|_| read.is_ok());
    plimsoll_core::shown::clean(&line.unwrap_or_default().chars().take(LINE_LETTERS_MAX).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_move_is_known_to_stand_still_and_since_when_it_runs() {
        let (began, later) = (Instant::now() - Duration::from_secs(9), Instant::now() - Duration::from_secs(4));
        let copied = |done| Progress::new(3, "base backup").done(done, Some(100), "B");
        let first = TrackedOperation { progress: copied(40), since: began, moved: later };
        let still = TrackedOperation::after(std::slice::from_ref(&first), copied(40), None);
        assert_eq!((still.since, still.moved), (began, later));
        let moved = TrackedOperation::after(std::slice::from_ref(&first), copied(41), None);
        assert!(moved.since == began && moved.moved > later);
        let other = TrackedOperation::after(std::slice::from_ref(&first), Progress::new(3, "start"), Some(later));
        assert_eq!(other.since, later);
    }
}
