//! Long-running operations of a lab: looked for on request, and once a second while there are any. On request, each
//! node is also asked if it is ready.
//!
//! Servers under measurement are not asked otherwise. A request is answered after at most [`ASK_BOUND`], with the
//! latest operations, and without states of nodes, if the servers have not replied by then.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_core::{Progress, StoreError};

use super::request::OperationStatus;
use crate::cluster::progress::{ANSWER_BOUND, LOOK_INTERVAL, TrackedOperation};
use crate::cluster::{ClusterHandle, NodeAnswer};

/// Longest time that a request waits for a look: several replies of a slow server.
pub(super) const ASK_BOUND: Duration = Duration::from_secs(3);

/// Answers of ready nodes, and the reasons of those that are not ready, by their numbers.
pub(super) type NodeAnswers = BTreeMap<usize, Result<NodeAnswer, String>>;

/// Shared state of the thread that looks, and of the requests.
#[derive(Default)]
pub(super) struct Long {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    known: Vec<TrackedOperation>,
    said: NodeAnswers,
    /// Number of requests, and the number of them that the last look answered.
    asked: u64,
    looked: u64,
    /// True if a node is being started.
    is_poked: bool,
    is_ended: bool,
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
    pub(super) fn now(&self) -> (Vec<OperationStatus>, Option<NodeAnswers>) {
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
                (cluster.operations(&is_asked), said.and_then(|said| said.join().ok()))
            });
            let mut state = self.state();
            if is_request {
                state.said = said.unwrap_or_default();
            }
            state.known = found;
            (state.looked, state.is_poked) = (asked, false);
            self.changed.notify_all();
        }
    }
}

/// Asks all nodes together if they are ready. Returns their answers, or why they are not ready.
fn said(cluster: &ClusterHandle, is_asked: impl Fn(usize) -> bool) -> NodeAnswers {
    let starting = cluster.starting();
    let nodes = cluster.nodes().into_iter().map(|node| node.number);
    let nodes = nodes.filter(|number| is_asked(*number) && !starting.contains_key(number));
    std::thread::scope(|scope| {
        let ask = |number| (number, scope.spawn(move || cluster.ready(number, ANSWER_BOUND)));
        let asked: Vec<_> = nodes.map(ask).collect();
        let told = |asked: Result<NodeAnswer, StoreError>| asked.map_err(|error| error.line());
        asked.into_iter().filter_map(|(number, asked)| Some((number, told(asked.join().ok()?)))).collect()
    })
}
