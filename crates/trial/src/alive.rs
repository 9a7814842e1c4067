//! Servers that end while a phase is driven though nothing was to end them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use plimsoll_core::StoreError;
use plimsoll_core::server::{Nodes, Servers};

/// Time between two looks at the servers and at the user's wish for an end.
const LOOK: Duration = Duration::from_millis(20);
/// Time that servers of a lab may be away: its user may start them again.
const LAB_AWAY: Duration = Duration::from_secs(5);

/// Servers whose end ends a drive: all of them, so that a cluster may lose nodes.
pub(crate) struct Alive<'a> {
    servers: Arc<dyn Servers>,
    away_max: Duration,
    /// Ends the phase.
    stop: Arc<AtomicBool>,
    /// Set when the user wants an end.
    user_stop: &'a AtomicBool,
}

impl<'a> Alive<'a> {
    /// Watches `servers`, which belong to a lab if `is_lab`.
    pub fn of(servers: Arc<dyn Servers>, is_lab: bool, user_stop: &'a AtomicBool) -> Self {
        let away_max = if is_lab { LAB_AWAY } else { Duration::ZERO };
        Self { servers, away_max, stop: Arc::default(), user_stop }
    }

    /// Returns the flag that ends the phase.
    pub fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// Ends the phase if all servers have ended or the user wants an end. Returns how a server ended, after the phase
    /// has `ended`.
    pub fn follow(&self, ended: &Receiver<()>) -> Option<StoreError> {
        let mut away_since = None;
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(LOOK) {
            let gone = self.gone();
            let since = match &gone {
                Some(_) => *away_since.get_or_insert_with(Instant::now),
                None => {
                    away_since = None;
                    Instant::now()
                }
            };
            let gone = gone.filter(|_| since.elapsed() >= self.away_max);
            if gone.is_some() || self.user_stop.load(Ordering::SeqCst) {
                self.stop.store(true, Ordering::SeqCst);
                return gone;
            }
        }
        None
    }

    /// Returns how the last server ended, if none runs.
    fn gone(&self) -> Option<StoreError> {
        let mut gone = None;
        for node in self.servers.nodes() {
            gone = Some(self.servers.check(Nodes::One(node.number)).err()?);
        }
        gone
    }
}
