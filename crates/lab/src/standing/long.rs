//! What runs long in a lab: looked at when somebody asks, and once a second while there is something.
//!
//! Servers that are measured are asked nothing meanwhile. Who asks gets what was seen last after [`ASK_BOUND`] at the latest,
//! whether the servers have answered or not.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_core::Progress;

use super::request::InProgress;
use crate::cluster::ClusterHandle;

/// Between two looks while something runs long.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long each answer of a server may take.
const ANSWER_BOUND: Duration = Duration::from_millis(500);
/// How long who asks waits for a look.
const ASK_BOUND: Duration = Duration::from_secs(1);
/// So much of a log's end holds its last line.
const LOG_END_BYTES: u64 = 2048;
/// Most letters of that which are shown.
const LINE_LETTERS_MAX: usize = 120;

/// What was seen, and who wants to know.
#[derive(Default)]
pub(super) struct Long {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    known: Vec<Known>,
    /// How often somebody has asked, and up to which of these it was looked.
    asked: u64,
    looked: u64,
    /// A node is being started.
    is_poked: bool,
    is_ended: bool,
}

struct Known {
    progress: Progress,
    since: Instant,
    moved: Instant,
}

impl Long {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something may run long from now on.
    pub(super) fn poke(&self) {
        self.state().is_poked = true;
        self.changed.notify_all();
    }

    /// Nobody looks any more.
    pub(super) fn end(&self) {
        self.state().is_ended = true;
        self.changed.notify_all();
    }

    /// What runs long.
    pub(super) fn now(&self) -> Vec<InProgress> {
        let mut state = self.state();
        state.asked += 1;
        let mine = state.asked;
        self.changed.notify_all();
        let waiting = |state: &mut State| state.looked < mine && !state.is_ended;
        let waited = self.changed.wait_timeout_while(state, ASK_BOUND, waiting);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let shown = |known: &Known| {
            let for_s = known.progress.for_s.unwrap_or(0).max(known.since.elapsed().as_secs());
            let progress = Progress { for_s: Some(for_s), ..known.progress.clone() };
            InProgress { progress, still_s: known.moved.elapsed().as_secs() }
        };
        state.known.iter().map(shown).collect()
    }

    /// Looks, until [`Long::end`], at the nodes that `is_asked`.
    pub(super) fn follow(&self, cluster: &ClusterHandle, is_asked: impl Fn(usize) -> bool) {
        let mut last = Instant::now();
        loop {
            let mut state = self.state();
            let asked = loop {
                let is_due = !state.known.is_empty() || state.is_poked;
                match () {
                    () if state.is_ended => return,
                    () if state.asked > state.looked => break state.asked,
                    () if is_due && last.elapsed() >= LOOK_INTERVAL => break state.asked,
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
            let found = look(cluster, &is_asked);
            let mut state = self.state();
            let before = std::mem::take(&mut state.known);
            state.known = found.into_iter().map(|(progress, since)| Known::after(&before, progress, since)).collect();
            (state.looked, state.is_poked) = (asked, false);
            self.changed.notify_all();
        }
    }
}

impl Known {
    /// What is seen now, of which this was known before.
    fn after(before: &[Known], progress: Progress, since: Option<Instant>) -> Self {
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

/// What all nodes say at once, and since when it is so where that is known here.
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

/// What a log says last; empty where it says nothing.
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
        let first = Known { progress: copied(40), since: began, moved: later };
        let still = Known::after(std::slice::from_ref(&first), copied(40), None);
        assert_eq!((still.since, still.moved), (began, later));
        let moved = Known::after(std::slice::from_ref(&first), copied(41), None);
        assert!(moved.since == began && moved.moved > later);
        let other = Known::after(std::slice::from_ref(&first), Progress::new(3, "start"), Some(later));
        assert_eq!(other.since, later);
    }
}
