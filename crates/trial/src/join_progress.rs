//! Progress of nodes that join or start during a drive, and of planned work, as series of the recording.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use plimsoll_core::sampler::PROGRESS;
use plimsoll_core::{Progress, Reading, Sampler, Servers};

use crate::error::TrialError;
use crate::watch::ReadingRecorder;

/// Time between two readings, and before the first: most starts end earlier, and no server is asked.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// Long-running operations of some nodes.
struct NodeProgress<'s, F> {
    servers: &'s dyn Servers,
    is_meant: F,
    /// Set once the nodes have joined or started, or the work is done: then no server is asked.
    has_ended: &'s AtomicBool,
}

impl<F: Fn(usize) -> bool + Send> Sampler for NodeProgress<'_, F> {
    fn sample(&mut self) -> Vec<Reading> {
        if self.has_ended.load(Ordering::SeqCst) {
            return Vec::new();
        }
        // Servers that do not answer have no progress to record.
        let all = self.servers.in_progress().unwrap_or_default();
        all.iter().filter(|one| (self.is_meant)(one.node)).flat_map(readings).collect()
    }
}

/// Returns the share, rate and rest of an operation, as far as they are known.
fn readings(progress: &Progress) -> impl Iterator<Item = Reading> + use<> {
    let Progress { node, what, done, left, unit, .. } = progress;
    let node = format!("node {}", node + 1);
    let share = progress.percent().map(|share| Reading::level(&node, what, "%", share));
    let rate = done.filter(|_| unit != "%");
    let rate = rate.map(|done| Reading::total(&node, &format!("{what}, rate"), unit, done as f64));
    let left = left.map(|left| Reading::level(&node, &format!("{what}, left"), unit, left as f64));
    [share, rate, left].into_iter().flatten()
}

/// Calls `act`, which makes nodes of `servers` join, start or do planned work, and records the progress of those that
/// `is_meant` selects once a second meanwhile.
///
/// # Errors
/// Errors of `act`.
pub(crate) fn recorded<T>(
    recorder: Option<ReadingRecorder<'_>>,
    servers: &dyn Servers,
    is_meant: impl Fn(usize) -> bool + Send,
    act: impl FnOnce() -> Result<T, TrialError>,
) -> Result<T, TrialError> {
    let Some(recorder) = recorder else { return act() };
    let has_ended = &AtomicBool::new(false);
    let (acts, over) = channel::<()>();
    std::thread::scope(|scope| {
        let follow = move || {
            if over.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                recorder.follow(vec![(PROGRESS, Box::new(NodeProgress { servers, is_meant, has_ended }))], &over);
            }
        };
        // Without this thread the progress is not recorded.
        let _ = std::thread::Builder::new().name("progress".to_owned()).spawn_scoped(scope, follow);
        let done = act();
        has_ended.store(true, Ordering::SeqCst);
        drop(acts);
        done
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_has_a_share_and_a_rate_and_a_backlog_what_is_left() {
        let series = |progress: Progress| {
            let of = |reading: Reading| {
                let series = reading.series(PROGRESS, &reading.subject);
                format!("{} {} {} {}", series.subject, series.name, reading.number(), series.unit)
            };
            readings(&progress).map(of).collect::<Vec<_>>()
        };
        let backup = Progress::new(3, "base backup").done(12, Some(25), "B");
        assert_eq!(series(backup), ["node 4 base backup 48 %", "node 4 base backup, rate 12 B/s"]);
        let behind = Progress::new(1, "catching up").left(7, "write sets");
        assert_eq!(series(behind), ["node 2 catching up, left 7 write sets"]);
        assert!(series(Progress::new(1, "start")).is_empty());
    }
}
