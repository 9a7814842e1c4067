//! The servers that sessions go to: one that takes writes, or several of a URL in turns; and replicas for what only reads.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::random::{GOLDEN, mix};
use plimsoll_core::{Address, Layout, StoreError, Waits, WireClient, WireSession};
use plimsoll_endpoint::{Branched, Reads};

use crate::connection::Connection;
use crate::reach::Endpoint;
use crate::wire::{GivenUp, PgSession, PrimarySearch, Protocol, around};

/// Operations cancelled in one go; each costs a connection.
const CANCELS_MAX: usize = 8;
/// Between two looks how far a replica is.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Server with the operations that its sessions have given up and that are not cancelled yet.
#[derive(Clone)]
pub(crate) struct Server {
    pub endpoint: Endpoint,
    given_up: Arc<GivenUp>,
}

impl From<Endpoint> for Server {
    fn from(endpoint: Endpoint) -> Self {
        Self { endpoint, given_up: Arc::default() }
    }
}

impl Server {
    /// Makes a session that looks for the primary at the addresses `turns`, if there are any.
    fn client(&self, plan: &SessionPlan<'_>, turns: &Arc<[Address]>) -> Result<WireClient, StoreError> {
        let Endpoint { address, login, tls } = &self.endpoint;
        let mut session = PgSession::new(Arc::clone(login), Arc::clone(plan.layout), plan.settings);
        (session.protocol, session.given_up) = (plan.protocol, Some(Arc::clone(&self.given_up)));
        session.turns = PrimarySearch::new(turns, plan.first);
        // Without TLS there is nothing between the session and its bytes.
        let session: Box<dyn WireSession> = match tls {
            None => Box::new(session),
            tls => Box::new(around(tls.as_ref(), session, &login.place)?),
        };
        let address = turns.get(plan.first).unwrap_or(address).clone();
        Ok(WireClient { address, session })
    }
}

/// Common parts of all sessions of a phase.
pub(crate) struct SessionPlan<'a> {
    pub layout: &'a Arc<Layout>,
    pub settings: &'a str,
    pub protocol: Protocol,
    /// Position of the present primary among the servers at which sessions look for it.
    pub first: usize,
}

/// See the module.
#[derive(Clone)]
pub(crate) struct SessionServers {
    /// Servers of sessions; each session may go to any of them.
    all: Vec<Server>,
    /// Replicas that answer reads.
    replicas: Vec<Server>,
    reads: Reads,
    /// Addresses among which sessions look for the primary; none if it is always the same.
    turns: Arc<[Address]>,
}

impl SessionServers {
    /// Sessions go to `all`, of which there is one at least.
    pub fn new(all: Vec<Endpoint>) -> Self {
        let all = all.into_iter().map(Server::from).collect();
        Self { all, replicas: Vec::new(), reads: Reads::Primary, turns: Arc::default() }
    }

    /// Sessions that write look for the primary at these addresses, in turn.
    pub fn in_turn(self, turns: Arc<[Address]>) -> Self {
        Self { turns, ..self }
    }

    /// Sends reads to `replicas` as `reads` says.
    pub fn reading(self, reads: Reads, replicas: Vec<Endpoint>) -> Self {
        Self { reads, replicas: replicas.into_iter().map(Server::from).collect(), ..self }
    }

    /// The first, which stands for all.
    pub fn first(&self) -> &Endpoint {
        &self.all[0].endpoint
    }

    /// Replicas are asked for what only reads.
    pub fn read_apart(&self) -> bool {
        self.reads != Reads::Primary && !self.replicas.is_empty()
    }

    /// The session with this number.
    pub fn session(&self, number: usize, plan: &SessionPlan<'_>) -> Result<WireClient, StoreError> {
        let replica = |at: usize| self.replicas[at].client(plan, &Arc::default());
        self.reads.session(number, || self.writer(number, plan), self.replicas.len(), replica)
    }

    fn writer(&self, number: usize, plan: &SessionPlan<'_>) -> Result<WireClient, StoreError> {
        let [only] = &*self.all else {
            let count = self.all.len();
            let first = drawn(number, count);
            let clients = (0..count).map(|at| self.all[(first + at) % count].client(plan, &self.turns));
            return clients.collect::<Result<_, _>>().map(Branched::in_turn);
        };
        only.client(plan, &self.turns)
    }

    /// Cancels the statements that sessions have given up after a time-out, so that they do not work and hold locks in
    /// vain. A statement that cannot be cancelled is left: its outcome is unknown either way.
    pub fn cancel_given_up(&self) {
        let of = |server: &Server| {
            for _ in 0..CANCELS_MAX {
                let Some(key) = server.given_up.take() else { return };
                if server.endpoint.cancel(&key).is_err() {
                    return;
                }
            }
        };
        self.all.iter().chain(&self.replicas).for_each(of);
    }

    /// Several servers are asked, which may be replicas.
    pub fn are_several(&self) -> bool {
        self.all.len() > 1 || self.read_apart()
    }

    /// Waits until replicas that are asked have all that the primary has written by now.
    ///
    /// # Errors
    /// `Broken` when one does not get there.
    pub fn until_replicas_follow(
        &self,
        primary: &mut Connection,
        connecting: &Waits,
        waits: &Waits,
    ) -> Result<(), StoreError> {
        let written = primary.value("SELECT pg_current_wal_lsn()")?;
        // A primary replays nothing.
        let question = format!("SELECT coalesce(pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '{written}') >= 0, true)");
        self.all.iter().chain(&self.replicas).try_for_each(|replica| {
            let mut connection = replica.endpoint.open(Arc::default(), "", &[], connecting)?;
            waits.until(LOOK_INTERVAL, "See whether it follows its primary: pg_stat_wal_receiver", || {
                let place = &replica.endpoint.login.place;
                let is_there = connection.value(&question)? == "t";
                Ok(if is_there { Ok(()) } else { Err(format!("the replica {place} has not caught up")) })
            })
        })
    }
}

/// Returns the first of `count` hosts for the session with this number: drawn for it, and the same in each run.
fn drawn(number: usize, count: usize) -> usize {
    (mix((number as u64 + 1).wrapping_mul(GOLDEN)) % count as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_drawn_evenly_and_always_alike() {
        let mut counts = [0; 3];
        (0..3_000).for_each(|number| counts[drawn(number, 3)] += 1);
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
        assert_eq!(
            (0..8).map(|number| drawn(number, 3)).collect::<Vec<_>>(),
            (0..8).map(|number| drawn(number, 3)).collect::<Vec<_>>()
        );
    }
}
