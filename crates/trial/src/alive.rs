//! Watch on servers during a drive, which ends when all of them have ended though nothing was to end them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use plimsoll_core::server::{Nodes, Servers};
use plimsoll_core::{StoreError, StoreErrorKind};

/// Interval between two checks of the user's wish for an end, and of private servers.
const LOOK: Duration = Duration::from_millis(20);
/// Interval between two questions to a lab.
const LAB_LOOK: Duration = Duration::from_millis(500);
/// Time that all servers of a lab may be away: its user may start them again.
const LAB_AWAY: Duration = Duration::from_secs(5);

/// Servers that a phase needs. A cluster may lose nodes: the phase ends when none runs.
pub(crate) struct Alive<'a> {
    servers: Arc<dyn Servers>,
    is_lab: bool,
    /// Ends the phase.
    stop: Arc<AtomicBool>,
    /// Set when the user wants an end.
    user_stop: &'a AtomicBool,
}

impl<'a> Alive<'a> {
    /// Watches `servers`, which belong to a lab if `is_lab`.
    pub fn of(servers: Arc<dyn Servers>, is_lab: bool, user_stop: &'a AtomicBool) -> Self {
        Self { servers, is_lab, stop: Arc::default(), user_stop }
    }

    /// Returns the flag that ends the phase.
    pub fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// Ends the phase if no server runs or the user wants an end. Returns how a server ended, after the phase has
    /// `ended`.
    pub fn follow(&self, ended: &Receiver<()>) -> Option<StoreError> {
        let (mut asked, mut seen) = (Instant::now(), Instant::now());
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(LOOK) {
            if self.user_stop.load(Ordering::SeqCst) {
                self.stop.store(true, Ordering::SeqCst);
                return None;
            }
            if self.is_lab && asked.elapsed() < LAB_LOOK {
                continue;
            }
            asked = Instant::now();
            match self.gone() {
                Some(_) if self.is_lab && seen.elapsed() < LAB_AWAY => {}
                Some(gone) => {
                    self.stop.store(true, Ordering::SeqCst);
                    return Some(gone);
                }
                None => seen = Instant::now(),
            }
        }
        // Sessions may see the end of their server first.
        if self.is_lab || self.user_stop.load(Ordering::SeqCst) { None } else { self.gone() }
    }

    /// Returns how a server ended, if none runs. The question to a lab does not wait for what its user does to nodes.
    fn gone(&self) -> Option<StoreError> {
        if self.is_lab {
            let gone = || StoreError::new(StoreErrorKind::Unreachable, "no server of the lab runs");
            return self.servers.pids().is_empty().then(|| gone().next("plimsoll lab status"));
        }
        let mut first = None;
        for node in self.servers.nodes() {
            let ended = self.servers.check(Nodes::One(node.number)).err()?;
            first.get_or_insert(ended);
        }
        first
    }
}

#[cfg(test)]
#[path = "alive_tests.rs"]
mod tests;
