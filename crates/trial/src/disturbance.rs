//! Faults from outside of servers: connection storms, noisy neighbours, and commands of the user.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_core::{Node, Probe, Servers, StoreError, StoreErrorKind};
use plimsoll_lab::hosts::ThreadNetwork;
use plimsoll_lab::{Neighbour, UserCommand};
use plimsoll_plan::timeline::NeighbourUse;
use plimsoll_plan::without_secrets;

use crate::error::TrialError;
use crate::storm::{Storm, StormTarget};

/// Time between two looks whether servers answer.
const ANSWER_LOOK: Duration = Duration::from_millis(100);

/// Storms, neighbours and commands of a phase, by the positions of their faults in the trial. All end when this is dropped.
#[derive(Default)]
pub(crate) struct Disturbances {
    /// Network of the drive's sessions; `None` for that of each thread.
    network: Option<Arc<ThreadNetwork>>,
    present: Mutex<BTreeMap<u32, Disturbance>>,
}

enum Disturbance {
    Storm(Storm),
    Neighbours(Vec<Neighbour>),
    Command(UserCommand),
}

impl Disturbances {
    /// Returns none, to be begun from the network of the calling thread.
    pub(crate) fn from_here() -> Self {
        Self { network: ThreadNetwork::of_this_thread().ok().map(Arc::new), ..Self::default() }
    }

    /// Begins a storm of `connections` on each of `targets`.
    ///
    /// # Errors
    /// As [`Storm::begin`].
    pub(crate) fn storm(&self, fault: u32, targets: Vec<StormTarget>, connections: u32) -> Result<(), TrialError> {
        let storm = Storm::begin(targets, connections, self.network.clone())?;
        self.present().insert(fault, Disturbance::Storm(storm));
        Ok(())
    }

    /// Begins to use a resource of each of `nodes` of `servers`, which are bound to `server_pin`.
    ///
    /// # Errors
    /// `Broken` if a neighbour cannot begin, with its reason; `Usage` if a node has no link.
    pub(crate) fn neighbours(
        &self,
        fault: u32,
        servers: &dyn Servers,
        nodes: &[Arc<Node>],
        resource: NeighbourUse,
        server_pin: &[u32],
    ) -> Result<(), TrialError> {
        let mut neighbours = Vec::new();
        for (at, node) in nodes.iter().enumerate() {
            match resource {
                NeighbourUse::Disk => {
                    let count = nodes.iter().filter(|one| file_system(one) == file_system(node)).count();
                    neighbours.push((node.number, Neighbour::writing(&node.data_dir, count)?));
                }
                // Nodes on one host have one link.
                NeighbourUse::Network(_) if nodes[..at].iter().any(|other| other.address == node.address) => {}
                NeighbourUse::Network(rate_bits_per_s) => {
                    let host = servers.namespace(node.number)?.ok_or_else(|| no_link(node))?;
                    let load = self.network.as_ref().ok_or_else(|| no_link(node))?;
                    neighbours.push((node.number, Neighbour::sending(&host, &load.path(), rate_bits_per_s)?));
                }
                NeighbourUse::Processors(busy) => {
                    let processors = processors_of(node, server_pin);
                    for _ in 0..busy {
                        neighbours.push((node.number, Neighbour::busy(&processors)?));
                    }
                }
            }
        }
        // All start together, and are waited for then.
        for (number, neighbour) in &neighbours {
            let named =
                |error: StoreError| StoreError { what: format!("node {}: {}", number + 1, error.what), ..error };
            neighbour.begun().map_err(named)?;
        }
        let neighbours = neighbours.into_iter().map(|(_, neighbour)| neighbour).collect();
        self.present().insert(fault, Disturbance::Neighbours(neighbours));
        Ok(())
    }

    /// Runs the command that begins a fault. `heal` is the command that heals it; without one the fault ends with the
    /// first. Once `stop` is set, that is killed.
    ///
    /// # Errors
    /// As [`UserCommand::begun`]. The fault can be healed nevertheless.
    pub(crate) fn command(
        &self,
        fault: u32,
        begin: &str,
        heal: Option<&str>,
        stop: &AtomicBool,
    ) -> Result<(), TrialError> {
        let command = UserCommand::start(begin, heal)?;
        let begun = command.begun(|| stop.load(Ordering::SeqCst));
        if heal.is_some() {
            self.present().insert(fault, Disturbance::Command(command));
        }
        begun.map_err(hide_secrets)
    }

    /// Ends the storm or the neighbours of a fault, or runs the command that heals it. Returns a sentence about a storm,
    /// and false if some of its connections were never open together with the others.
    ///
    /// # Errors
    /// `Broken` if a neighbour does not end, or the command failed.
    pub(crate) fn end(&self, fault: u32) -> Result<Option<(String, bool)>, TrialError> {
        let present = self.present().remove(&fault);
        match present {
            Some(Disturbance::Storm(storm)) => Ok(Some(storm.end())),
            Some(Disturbance::Neighbours(all)) => {
                all.into_iter().map(Neighbour::end).fold(Ok(()), Result::and).map(|()| None)
            }
            Some(Disturbance::Command(command)) => command.heal().map(|()| None).map_err(hide_secrets),
            None => Ok(None),
        }
    }

    fn present(&self) -> MutexGuard<'_, BTreeMap<u32, Disturbance>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until no probe finds its server away, but not after `bound` or a stop by the user: commands that heal may end
/// before servers answer.
pub(crate) fn await_answers(probes: &mut [Probe], bound: Duration, is_stopped: impl Fn() -> bool) {
    let until = Instant::now() + bound;
    let is_away = |probe: &mut Probe| probe().is_err_and(|error| error.kind == StoreErrorKind::Unreachable);
    while probes.iter_mut().any(is_away) && Instant::now() < until && !is_stopped() {
        std::thread::sleep(ANSWER_LOOK);
    }
}

/// Returns the error without secrets in the output of a command, and in the command that the advice repeats.
fn hide_secrets(error: StoreError) -> TrialError {
    let [detail, next] = [error.detail, error.next].map(|text| text.map(|text| without_secrets(&text)));
    StoreError { what: error.what, kind: error.kind, detail, next }
}

/// Returns the number of the file system with the node's data.
fn file_system(node: &Node) -> Option<u64> {
    std::fs::metadata(&node.data_dir).ok().map(|found| found.dev())
}

/// Returns the error for a node without a link.
fn no_link(node: &Node) -> TrialError {
    let what = format!("node {} is on this machine's own network, which has no links", node.number + 1);
    TrialError::usage(what).next("use a store with several nodes: plimsoll list stores")
}

/// Returns the list of the processors that a node's server may use; empty for all.
fn processors_of(node: &Node, server_pin: &[u32]) -> String {
    let pinned = || server_pin.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    node.limits.cpuset.clone().unwrap_or_else(pinned)
}

#[cfg(test)]
#[path = "disturbance_tests.rs"]
mod tests;
