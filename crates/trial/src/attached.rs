//! Faults of attached servers, on the clients' side: resets of connections of this process, and connection storms.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plimsoll_core::{Address, Sessions, StoreErrorKind, StoreSpec, Workload};
use plimsoll_drive::addresses_of;
use plimsoll_lab::hosts::{own_peers, reset_own_connections};
use plimsoll_plan::model::{Plan, PlannedTrial, StoreUse};
use plimsoll_plan::timeline::{FaultAction, PlannedFault};

use crate::error::TrialError;
use crate::fault_check::{ALLOW, too_many_connections};
use crate::needs::is_blocking;
use crate::storm::StormTarget;

/// Advice to a fault on the side of clients that do not tell their servers.
const OTHER_CLIENTS: &str = "leave `reset` and `storm` out, or use operations by key: kv";

/// Servers of a drive on an attached store, by the addresses to which its clients connect.
#[derive(Default)]
pub struct ServersInUse {
    /// Addresses of the sessions' first connections, with those of the kernel; none for a Unix socket.
    first: Vec<(Address, Vec<SocketAddr>)>,
    /// Addresses of further servers that have answered since.
    others: Mutex<Vec<Address>>,
}

impl ServersInUse {
    /// Looks up the servers at the [`addresses`] of sessions.
    ///
    /// # Errors
    /// `Unreachable` if a name has no address; `Usage` if the sessions of the store `label` do not tell their servers.
    pub(crate) fn of(addresses: Vec<Address>, label: &str) -> Result<Self, TrialError> {
        let mut first: Vec<(Address, Vec<SocketAddr>)> = Vec::new();
        for address in addresses {
            if !first.iter().any(|(known, _)| *known == address) {
                let found = looked_up(&address)?;
                first.push((address, found));
            }
        }
        if first.is_empty() {
            let what = format!("clients of {label} do not tell to which servers they connect");
            return Err(TrialError::usage(what).next(OTHER_CLIENTS));
        }
        Ok(Self { first, others: Mutex::default() })
    }

    /// Adds servers that have answered.
    pub(crate) fn add<'s>(&self, servers: impl Iterator<Item = &'s Address>) {
        let mut others = self.others();
        for server in servers {
            if !others.contains(server) && !self.first.iter().any(|(known, _)| known == server) {
                others.push(server.clone());
            }
        }
    }

    /// Returns the servers in words: `the server`, `all servers`.
    pub(crate) fn words(&self) -> &'static str {
        if self.first.len() + self.others().len() > 1 { "all servers" } else { "the server" }
    }

    /// Resets the connections of this process to these servers.
    ///
    /// # Errors
    /// `Broken` if there are none; `Unreachable` if a name has no address; those of [`reset_own_connections`].
    pub(crate) fn reset(&self) -> Result<(), TrialError> {
        let others = self.others().clone();
        let others = others.iter().map(looked_up).collect::<Result<Vec<_>, _>>()?;
        let first = self.first.iter().flat_map(|(_, found)| found);
        let servers: Vec<SocketAddr> = first.chain(others.iter().flatten()).copied().collect();
        if reset_own_connections(&servers)? > 0 {
            return Ok(());
        }
        let what = format!("no TCP connection of Plimsoll to {} was open: nothing was reset", self.words());
        let next = "use a URL with a host and a port, and choose a time at which clients are connected";
        Err(TrialError::new(StoreErrorKind::Broken, what).next(next))
    }

    /// Returns the targets of a storm: each server to which a session connects first.
    ///
    /// # Errors
    /// As [`StormTarget::at_socket`].
    pub(crate) fn storm_targets(&self) -> Result<Vec<StormTarget>, TrialError> {
        // Of several addresses of a name, clients have found one that takes connections.
        let peers = own_peers().unwrap_or_default();
        let target = |(address, found): &(Address, Vec<SocketAddr>)| match address {
            Address::Unix(path) => StormTarget::at_socket(path).map(Some),
            Address::Tcp(..) => {
                let in_use = found.iter().find(|one| peers.contains(one));
                Ok(in_use.or(found.first()).copied().map(StormTarget::at_port))
            }
        };
        self.first.iter().filter_map(|one| target(one).transpose()).collect()
    }

    fn others(&self) -> MutexGuard<'_, Vec<Address>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the addresses of the sessions' first connections, as far as sessions tell them before they connect.
pub(crate) fn addresses(sessions: &Sessions) -> Vec<Address> {
    match sessions {
        Sessions::Wire(all) => all.iter().map(|client| client.address.clone()).collect(),
        Sessions::Async(all) => all.iter().filter_map(|session| session.address()).collect(),
        Sessions::Blocking(_) | Sessions::Instant(_) => Vec::new(),
    }
}

/// Returns the kernel's addresses of a server, those of IPv4 as such; none for a Unix socket.
///
/// # Errors
/// `Unreachable` if a name has no address.
fn looked_up(address: &Address) -> Result<Vec<SocketAddr>, TrialError> {
    let Address::Tcp(host, port) = address else { return Ok(Vec::new()) };
    let found = addresses_of(host, *port)?;
    Ok(found.into_iter().map(|one| SocketAddr::new(one.ip().to_canonical(), one.port())).collect())
}

/// Returns true for a fault on the clients' side, which needs no servers that Plimsoll has started.
pub(crate) fn is_of_clients(what: &FaultAction) -> bool {
    matches!(what, FaultAction::Reset(_) | FaultAction::Storm(..))
}

/// Returns the reason that the servers of an attached store at `url` cannot have a fault, and advice.
pub(crate) fn refused(fault: &PlannedFault, plan: &Plan, store: &StoreUse, url: &str) -> Option<(String, String)> {
    let label = &store.label;
    let what = match &fault.what {
        FaultAction::Reset(_) => "this resets connections to a server that Plimsoll has not started",
        FaultAction::Storm(..) => "this opens many connections to a server that Plimsoll has not started",
        _ => {
            let next = "leave `fault` out, name a store whose servers Plimsoll starts (plimsoll list stores), write a \
                        fault on the clients' side: reset all at 10s, storm all connections=100 at 10s for 3s, or \
                        write commands of your own: run \"COMMAND\" heal \"COMMAND\" at 10s for 3s";
            return Some((format!("{label} has no private servers"), next.to_owned()));
        }
    };
    if fault.what.nodes().is_some_and(|nodes| !nodes.is_all()) {
        let what = format!("{label} is attached, and Plimsoll does not know its nodes");
        return Some((what, format!("write {} all, for all servers of the URL", fault.what.verb())));
    }
    if !plan.allow_fault {
        return Some((what.to_owned(), ALLOW.to_owned()));
    }
    too_many_connections(fault, hosts_in(url))
}

/// Refuses a trial on an attached store with faults on the side of clients that do not tell their servers.
///
/// # Errors
/// `Usage` with the phase, the fault and a remedy.
pub(crate) fn possible(trial: &PlannedTrial, workload: &dyn Workload, store: &StoreSpec) -> Result<(), TrialError> {
    if trial.store.is_ours() || !is_blocking(workload, store) {
        return Ok(());
    }
    let mut faults = trial.drives().flat_map(|(phase, drive)| drive.faults.iter().map(move |fault| (phase, fault)));
    let Some((phase, fault)) = faults.find(|(_, fault)| is_of_clients(&fault.what)) else { return Ok(()) };
    let label = &trial.store.label;
    let what =
        format!("phase {phase}: {fault}: clients of {label} block, and do not tell to which servers they connect");
    Err(TrialError::usage(what).next(OTHER_CLIENTS))
}

/// Returns the number of hosts that a URL names, or more.
pub(crate) fn hosts_in(url: &str) -> usize {
    let hosts = url.rsplit_once('@').map_or(url, |(_, hosts)| hosts);
    hosts.matches(',').count() + 1
}

#[cfg(test)]
#[path = "attached_tests.rs"]
mod tests;
