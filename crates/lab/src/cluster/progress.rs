//! Long-running operations of the nodes of a cluster, and waits for them that end if one hangs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use plimsoll_core::{Progress, Servers, StoreError, Waits, shown};
use rustix::process::Pid;

use super::{Running, locked};
use crate::ending::end_of;
use crate::orphans::stands_still;

/// Time between two looks while an operation runs.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Age up to which a look is used again, so that several observers ask servers once.
pub(super) const LOOK_AGE: Duration = Duration::from_millis(500);
/// Time-out of each reply of a server.
pub(crate) const ANSWER_BOUND: Duration = Duration::from_millis(500);
/// Seconds by which an operation may seem older than its node: times are rounded.
const AGE_SLACK_S: u64 = 2;
/// Bytes of a log's end that are read for its last line.
const LOG_END_BYTES: u64 = 2048;
/// Most characters of a log line that are shown.
const LINE_LETTERS_MAX: usize = 120;

/// An operation as seen by the latest look.
#[derive(Debug, Clone)]
pub(crate) struct TrackedOperation {
    pub(crate) progress: Progress,
    /// Number of the node that reports it.
    by: usize,
    /// Bytes of the node's log while the node starts: a server that writes there goes on.
    log_bytes: u64,
    /// Bytes of the node's data directory while it starts and the sender of its data does not answer.
    files_bytes: Option<u64>,
    /// Time of its start, as far as known.
    pub(crate) since: Instant,
    /// Time of its last progress.
    pub(crate) moved: Instant,
}

/// Operations seen by the latest look.
#[derive(Default)]
pub(super) struct LatestLook {
    at: Option<Instant>,
    known: Vec<TrackedOperation>,
}

impl TrackedOperation {
    /// Returns the operation that `by` reports now.
    fn new(by: usize, progress: Progress, log_bytes: u64, since: Option<Instant>, now: Instant) -> Self {
        Self { progress, by, log_bytes, files_bytes: None, since: since.unwrap_or(now), moved: now }
    }

    /// Takes over the times of the same operation as it was seen before.
    fn after(self, before: &[TrackedOperation]) -> Self {
        let is_same = |known: &&TrackedOperation| {
            (known.progress.node, &known.progress.what) == (self.progress.node, &self.progress.what)
        };
        let Some(known) = before.iter().find(is_same) else { return self };
        let has_grown = known.files_bytes.zip(self.files_bytes).is_some_and(|(before, now)| before != now);
        let has_moved = has_grown || known.how_far() != self.how_far();
        Self { since: known.since, moved: if has_moved { self.moved } else { known.moved }, ..self }
    }

    /// Returns everything whose change is progress. An amount left may also grow: a server under load goes on.
    fn how_far(&self) -> (&str, Option<u64>, Option<u64>, u64) {
        (self.progress.step.as_str(), self.progress.done, self.progress.left, self.log_bytes)
    }

    /// Returns true if there was no progress for `hung_after`, and something is left to do. An operation whose amounts
    /// are not known never hangs, and neither does one that nothing waits for.
    fn is_hung(&self, hung_after: Duration, now: Instant) -> bool {
        let is_judged = self.progress.has_more() && !self.progress.is_aside;
        is_judged && now.saturating_duration_since(self.moved) >= hung_after
    }

    /// Returns the error of a wait for this operation, which hangs; `wait` is a `join`, a `start` or planned work.
    fn hung(&self, wait: &str, now: Instant) -> StoreError {
        let Progress { node, what, step, left, unit, waits_for, .. } = &self.progress;
        let at = match (self.progress.percent(), left) {
            (Some(percent), _) => format!(" at {} %", percent as u64),
            (None, Some(left)) => format!(" with {} {unit} left", shown::count(*left)),
            (None, None) => String::new(),
        };
        // Planned work has the name of its operation.
        let parts = [what, step].into_iter().filter(|part| !part.is_empty() && *part != wait);
        let what = parts.map(String::as_str).collect::<Vec<_>>().join(", ");
        let still_s = now.saturating_duration_since(self.moved).as_secs();
        let waits_for = if waits_for.is_empty() { String::new() } else { format!(", waiting for {waits_for}") };
        let node = node + 1;
        StoreError::broken(format!("{wait} of node {node} hung{at}: {what}; no progress for {still_s} s{waits_for}"))
    }
}

impl Running {
    /// Returns the operations of the nodes that `is_asked` selects, and of those that a wait needs. Asks them all
    /// together if the latest look is older than `age`.
    pub(super) fn operations(&self, age: Duration, is_asked: impl Fn(usize) -> bool) -> Vec<TrackedOperation> {
        let mut latest = locked(&self.latest_look);
        if latest.at.is_none_or(|at| at.elapsed() >= age) {
            // All observers share this look, so a node that one of them needs is not left out.
            let awaited = self.awaited().clone();
            latest.known = self.look(&latest.known, |number| awaited.contains(&number) || is_asked(number));
            latest.at = Some(Instant::now());
        }
        latest.known.clone()
    }

    /// Asks nodes for their operations, which were `before` at the latest look.
    fn look(&self, before: &[TrackedOperation], is_asked: impl Fn(usize) -> bool) -> Vec<TrackedOperation> {
        let starting = self.starting();
        let added: BTreeMap<usize, Instant> =
            self.members().iter().map(|member| (member.node.number, member.added)).collect();
        let before: Vec<TrackedOperation> =
            before.iter().filter(|known| is_of_present(known, &added)).cloned().collect();
        let answers: Vec<(usize, Vec<Progress>)> = std::thread::scope(|scope| {
            let nodes = self.nodes().into_iter().map(|node| node.number).filter(|number| is_asked(*number));
            let asked: Vec<_> = nodes
                .filter_map(|number| {
                    let ask = move || Some((number, self.progress_of(number).ok()?));
                    std::thread::Builder::new().name("lab".to_owned()).spawn_scoped(scope, ask).ok()
                })
                .collect();
            asked.into_iter().filter_map(|asked| asked.join().ok().flatten()).collect()
        });
        let answered: BTreeSet<usize> = answers.iter().map(|(by, _)| *by).collect();
        let of_node = |(by, all): (usize, Vec<Progress>)| {
            let is_clock_true = self.has_true_clock(by);
            all.into_iter().map(move |progress| (by, timed(progress, is_clock_true)))
        };
        let mut found: Vec<(usize, Progress)> = answers.into_iter().flat_map(of_node).collect();
        // A sender may go on for minutes after its receiver is gone, whose number a later node may have.
        found.retain(|(by, progress)| is_young_enough(*by, progress, &added));
        // What a node sends to one that starts stays as it was while the sender does not answer.
        let is_kept = |known: &&TrackedOperation| {
            let node = known.progress.node;
            known.by != node && starting.contains_key(&node) && !answered.contains(&known.by)
        };
        found.extend(before.iter().filter(is_kept).map(|known| (known.by, known.progress.clone())));
        for number in starting.keys() {
            if !found.iter().any(|(_, progress)| progress.node == *number) {
                let said = self.find(*number).map(|member| last_line(&member.log)).unwrap_or_default();
                found.push((*number, Progress::new(*number, "start").step(said)));
            }
        }
        found.extend(self.works_in_progress().into_iter().map(|progress| (progress.node, progress.aside())));
        found.sort_by(|(_, one), (_, other)| (one.node, &one.what).cmp(&(other.node, &other.what)));
        let now = Instant::now();
        let tracked = found.into_iter().map(|(by, progress)| {
            let since = starting.get(&progress.node).copied();
            let log_bytes = since.map_or(0, |_| self.log_bytes(progress.node));
            // An overloaded sender does not answer, and still sends.
            let is_kept = since.is_some() && by != progress.node && !answered.contains(&by);
            let files_bytes = is_kept.then(|| self.files_bytes(progress.node));
            let one = TrackedOperation::new(by, progress, log_bytes, since, now);
            TrackedOperation { files_bytes, ..one }.after(&before)
        });
        tracked.collect()
    }

    fn progress_of(&self, number: usize) -> Result<Vec<Progress>, StoreError> {
        let (nodes, _guard) = (self.nodes(), self.enter()?);
        self.recipe.progress(self.member(&nodes, number, false)?, &self.waits.with_answer(ANSWER_BOUND))
    }

    /// Returns true if the wall clock of a node is known to be true.
    fn has_true_clock(&self, number: usize) -> bool {
        // A change in progress may be one of the clock.
        self.find(number).is_ok_and(|member| member.server.try_lock().is_ok_and(|server| server.clock().is_none()))
    }

    fn log_bytes(&self, number: usize) -> u64 {
        let log = self.find(number).ok().and_then(|member| member.log.metadata().ok());
        log.map_or(0, |log| log.len())
    }

    /// Returns the progress of planned work, as far as it is known without a request to a server.
    pub(super) fn works_in_progress(&self) -> Vec<Progress> {
        self.nodes().iter().filter_map(|node| self.recipe.work_progress(node.number)).collect()
    }

    pub(super) fn awaited(&self) -> MutexGuard<'_, Vec<usize>> {
        locked(&self.awaited)
    }

    fn files_bytes(&self, number: usize) -> u64 {
        self.find(number).map_or(0, |member| bytes_below(&member.node.data_dir))
    }

    /// Calls `act`, a `wait` for `nodes` to join or start, and looks at their operations once a second meanwhile. If
    /// one of them hangs, the waits that `act` is given end, and the node's server is killed.
    ///
    /// # Errors
    /// Errors of `act`; `Broken` with the position of the operation that hangs.
    pub(super) fn unless_hung<T>(
        &self,
        wait: &str,
        nodes: &[usize],
        act: impl FnOnce(&Waits) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if nodes.is_empty() {
            return act(&self.waits);
        }
        self.awaited().extend(nodes);
        let look = |_: &[TrackedOperation]| {
            let mut seen = self.operations(LOOK_AGE, |_| true);
            seen.retain(|one| nodes.contains(&one.progress.node));
            seen
        };
        let (done, hung) = watched(&self.waits, wait, look, act);
        for number in nodes {
            let mut awaited = self.awaited();
            if let Some(position) = awaited.iter().position(|one| one == number) {
                awaited.swap_remove(position);
            }
        }
        match (done, hung) {
            (Err(_), Some((number, why))) if !self.waits.is_stopped() => {
                let what = format!("{}{}", why.what, self.hindrances());
                let why = StoreError { what, ..why };
                self.on(number, |server| Err(server.end_hung(why)))
            }
            (done, _) => done,
        }
    }

    /// Returns words for the nodes that are paused or whose links are cut, which may be why an operation hangs.
    fn hindrances(&self) -> String {
        let words = self.members().into_iter().filter_map(|member| {
            let pid = locked(&member.server).pid().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
            let number = member.node.number + 1;
            if pid.is_some_and(|pid| stands_still(pid, &[])) {
                return Some(format!("; node {number} is paused"));
            }
            let is_cut = member.host.is_some_and(|host| host.link().is_cut());
            is_cut.then(|| format!("; the link of node {number} is cut"))
        });
        words.collect()
    }

    /// Calls `act`, which does the planned work `name` on a node, and looks at its progress once a second meanwhile. If
    /// it hangs, the waits that `act` is given end. No server is asked, and none is killed.
    ///
    /// # Errors
    /// Errors of `act`; `Broken` with the position of the work if it hangs, and the details of the error of `act`.
    pub(super) fn work_unless_hung<T>(
        &self,
        name: &str,
        number: usize,
        waits: &Waits,
        act: impl FnOnce(&Waits) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let look = |before: &[TrackedOperation]| -> Vec<TrackedOperation> {
            let of = |progress| TrackedOperation::new(number, progress, 0, None, Instant::now()).after(before);
            self.recipe.work_progress(number).map(of).into_iter().collect()
        };
        match watched(waits, name, look, act) {
            (Err(error), Some((_, hung))) if !waits.is_stopped() => Err(StoreError { detail: error.detail, ..hung }),
            (done, _) => done,
        }
    }
}

/// Returns true for an operation of a node that is there, and not of an earlier one with its number.
fn is_of_present(known: &TrackedOperation, added: &BTreeMap<usize, Instant>) -> bool {
    added.get(&known.progress.node).is_some_and(|added| known.since >= *added)
}

/// Returns true if an operation that `by` reports is not older than its node, whose times are `added`.
fn is_young_enough(by: usize, progress: &Progress, added: &BTreeMap<usize, Instant>) -> bool {
    let most_s = |added: &Instant| added.elapsed().as_secs() + AGE_SLACK_S;
    let age_s = progress.for_s.filter(|_| by != progress.node).unwrap_or(0);
    added.get(&progress.node).is_some_and(|added| age_s <= most_s(added))
}

/// Calls `act`, and `look` once a second meanwhile, with the operations that it returned before. If one of them hangs,
/// the waits that `act` is given end. Returns the result of `act`, and the node and the error of an operation that
/// hangs.
fn watched<T>(
    waits: &Waits,
    wait: &str,
    look: impl Fn(&[TrackedOperation]) -> Vec<TrackedOperation> + Send,
    act: impl FnOnce(&Waits) -> Result<T, StoreError>,
) -> (Result<T, StoreError>, Option<(usize, StoreError)>) {
    let (acts, over) = channel::<()>();
    let (given_up, hung_after) = (Arc::new(AtomicBool::new(false)), waits.hung_after());
    let waits = waits.ended_by(Arc::clone(&given_up));
    std::thread::scope(|scope| {
        let watch = move || {
            let mut seen = Vec::new();
            while over.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                seen = look(&seen);
                let now = Instant::now();
                if let Some(hung) = seen.iter().find(|one| one.is_hung(hung_after, now)) {
                    given_up.store(true, Ordering::SeqCst);
                    return Some((hung.progress.node, hung.hung(wait, now)));
                }
            }
            None
        };
        // Without this thread only the limits of `act` end it.
        let watching = std::thread::Builder::new().name("lab".to_owned()).spawn_scoped(scope, watch);
        let done = act(&waits);
        drop(acts);
        (done, watching.ok().and_then(|watching| watching.join().ok()).flatten())
    })
}

/// Returns the progress without its duration if the node that told it has a wrong clock. After a jump, an operation
/// that has just begun would seem older than the node that it is for.
fn timed(progress: Progress, is_clock_true: bool) -> Progress {
    Progress { for_s: progress.for_s.filter(|_| is_clock_true), ..progress }
}

/// Returns the bytes of all files below `directory`.
fn bytes_below(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// Returns the last line of a log; empty if there is none.
fn last_line(log: &Path) -> String {
    let (_, text) = end_of(log, 0, LOG_END_BYTES).unwrap_or_default();
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    shown::clean(&line.unwrap_or_default().chars().take(LINE_LETTERS_MAX).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time without progress after which an operation hangs here.
    const HUNG_AFTER: Duration = Duration::from_secs(30);

    /// Follows an operation that is seen once a second, and returns the second from which on it hangs, and the error.
    fn judged(seen: impl IntoIterator<Item = (Progress, u64)>) -> Option<(usize, String)> {
        let (began, mut known) = (Instant::now(), Vec::new());
        seen.into_iter().enumerate().find_map(|(second, (progress, log_bytes))| {
            let now = began + Duration::from_secs(second as u64);
            let one = TrackedOperation::new(0, progress, log_bytes, None, now).after(&known);
            known = vec![one.clone()];
            one.is_hung(HUNG_AFTER, now).then(|| (second, one.hung("join", now).what))
        })
    }

    #[test]
    fn operations_of_a_node_that_is_gone_are_not_those_of_a_later_one_with_its_number() {
        let now = Instant::now();
        let Some(long_ago) = now.checked_sub(Duration::from_secs(500)) else { return };
        let (old, new) = (BTreeMap::from([(3, long_ago)]), BTreeMap::from([(3, now)]));
        let seen = |by, for_s| [&old, &new].map(|added| is_young_enough(by, &backup(5).running_for(for_s), added));
        assert_eq!(seen(0, 403), [true, false]);
        assert_eq!(seen(0, 1), [true, true]);
        assert_eq!(seen(3, 403), [true, true], "a node's own clock may be wrong");
        assert!(!is_young_enough(0, &backup(5), &BTreeMap::new()), "the node was removed");
        let known = TrackedOperation::new(0, backup(5), 0, Some(long_ago), now);
        assert_eq!([&old, &new, &BTreeMap::new()].map(|added| is_of_present(&known, added)), [true, false, false]);
    }

    #[test]
    fn a_clock_that_jumps_does_not_hide_the_copy_of_a_node_that_joins() {
        let added = BTreeMap::from([(3, Instant::now())]);
        let after_jump = backup(5).running_for(3_600);
        let is_seen = |is_clock_true| is_young_enough(0, &timed(after_jump.clone(), is_clock_true), &added);
        assert!(is_seen(false) && !is_seen(true));
        assert_eq!(timed(backup(5).running_for(4), true).for_s, Some(4));
    }

    fn backup(done: u64) -> Progress {
        Progress::new(3, "base backup").step("streaming files").done(done, Some(100), "B")
    }

    #[test]
    fn an_operation_hangs_if_it_stands_still_with_something_left_and_a_slow_one_does_not() {
        let (told, none) = (|what: Progress| (what, 0), None::<usize>);
        let first = |of: Option<(usize, String)>| of.map(|(second, _)| second);
        // Shares in per cent over 600 s.
        let shares: [(&str, fn(u64) -> u64, Option<usize>); 6] = [
            ("fast", |second| (second * 10).min(100), none),
            ("a per cent in 29 s", |second| (second / 29).min(100), none),
            ("a per cent in 31 s", |second| (second / 31).min(100), Some(30)),
            ("hung at 48 %", |second| second.min(48), Some(78)),
            ("hung at 0 %", |_| 0, Some(30)),
            ("done, and the server still shows it", |_| 100, none),
        ];
        for (name, share, wanted) in shares {
            assert_eq!(first(judged((0..600).map(|second| told(backup(share(second)))))), wanted, "{name}");
        }
        let unknown = Progress::new(3, "start").step("one line");
        assert_eq!(judged((0..600).map(|_| told(unknown.clone()))), None, "no amount is known");
        let behind = |left| Progress::new(3, "catching up").left(left, "write sets");
        assert_eq!(first(judged((0..600).map(|_| told(behind(7))))), Some(30));
        assert_eq!(judged((0..600).map(|second| told(behind(second)))), None, "a load adds to what is left");
        assert_eq!(judged((0..600).map(|second| (backup(97), second / 15))), None, "its log grows");
        assert_eq!(judged((0..600).map(|_| told(backup(48).aside()))), None, "nothing waits for it");
    }

    #[test]
    fn a_copy_whose_sender_does_not_answer_goes_on_as_long_as_files_grow() {
        let began = Instant::now();
        let seen = |files_bytes, at| {
            let one = TrackedOperation::new(0, backup(48), 0, None, at);
            TrackedOperation { files_bytes, ..one }
        };
        let last = seen(None, began);
        let first = seen(Some(7), began + Duration::from_secs(29)).after(&[last]);
        assert_eq!(first.moved, began);
        let at = began + Duration::from_secs(31);
        let still = seen(Some(7), at).after(std::slice::from_ref(&first));
        let grown = seen(Some(8), at).after(std::slice::from_ref(&first));
        assert!(still.is_hung(HUNG_AFTER, at) && !grown.is_hung(HUNG_AFTER, at));
    }

    #[test]
    fn the_error_has_the_position_the_step_and_the_wait() {
        let of = |progress: Progress| judged((0..600).map(|_| (progress.clone(), 0))).unwrap().1;
        let wanted = "join of node 4 hung at 48 %: base backup, streaming files; no progress for 30 s";
        assert_eq!(of(backup(48)), wanted);
        let blocked = of(backup(48).waiting_for("Client: ClientWrite"));
        assert_eq!(blocked, format!("{wanted}, waiting for Client: ClientWrite"));
        // As planned work, which has the name of its operation.
        let work = of(Progress::new(0, "join").step("slot 1234 to node 2").done(12, Some(25), "slots"));
        assert_eq!(work, "join of node 1 hung at 48 %: slot 1234 to node 2; no progress for 30 s");
        let behind = Progress::new(1, "catching up").left(1_207, "write sets");
        assert_eq!(of(behind), "join of node 2 hung with 1,207 write sets left: catching up; no progress for 30 s");
    }

    #[test]
    fn another_operation_of_a_node_begins_anew() {
        let began = Instant::now();
        let later = began + Duration::from_secs(5);
        let first = TrackedOperation::new(0, backup(40), 0, Some(began), began);
        let of = |progress| TrackedOperation::new(0, progress, 0, None, later).after(std::slice::from_ref(&first));
        let (still, moved, other) = (of(backup(40)), of(backup(41)), of(Progress::new(3, "start")));
        assert_eq!((still.since, still.moved), (began, began));
        assert_eq!((moved.since, moved.moved), (began, later));
        assert_eq!((other.since, other.moved), (later, later));
    }
}
