//! The servers that sessions go to: one, or several in turn; and replicas for what only reads.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{Address, Layout, StoreError, StoreErrorKind, Waits, WireClient};
use plimsoll_endpoint::{Branched, Reads};

use crate::connection::{Connection, connect};
use crate::wire::{Login, MySession};

/// Between two looks whether a replica has what it is to have.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Server with its login.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub address: Address,
    pub login: Arc<Login>,
}

impl Server {
    /// A connection for what is not measured.
    pub fn open(&self, settings: &[String], waits: &Waits) -> Result<Connection, StoreError> {
        connect(&self.address, Arc::clone(&self.login), Arc::default(), settings, &[], waits)
    }
}

/// Common parts of all sessions of a phase.
pub(crate) struct SessionPlan<'a> {
    /// The database that they are in; `None` for the one of the login.
    pub database: Option<&'a str>,
    pub layout: &'a Arc<Layout>,
    pub settings: &'a [String],
    pub read_only: bool,
    /// Position of the present primary among the servers at which sessions look for it; `None` if each takes writes.
    pub primary: Option<usize>,
}

impl SessionPlan<'_> {
    fn session(&self, login: &Arc<Login>) -> MySession {
        let login = match self.database {
            None => Arc::clone(login),
            Some(database) => Arc::new(Login { database: Some(database.to_owned()), ..(**login).clone() }),
        };
        MySession::new(login, Arc::clone(self.layout), self.settings.to_vec()).read_only(self.read_only)
    }

    fn client(&self, server: &Server) -> WireClient {
        WireClient { address: server.address.clone(), session: Box::new(self.session(&server.login)) }
    }
}

/// See the module.
pub(crate) struct SessionServers {
    /// Each takes writes, as far as anybody has said.
    pub all: Vec<Server>,
    /// Replicas that answer reads.
    pub replicas: Vec<Server>,
    pub reads: Reads,
}

impl SessionServers {
    /// Makes a list of a single server.
    pub fn only(server: Server) -> Self {
        Self { all: vec![server], replicas: Vec::new(), reads: Reads::Primary }
    }

    pub fn sessions(&self, count: u32, plan: &SessionPlan<'_>) -> Result<Vec<WireClient>, StoreError> {
        let same_login = self.all.iter().all(|server| Arc::ptr_eq(&server.login, &self.all[0].login));
        let addresses: Arc<[Address]> = self.all.iter().map(|server| server.address.clone()).collect();
        let servers = self.all.len();
        let writer = |number: usize| {
            let first = plan.primary.unwrap_or(number % servers);
            match servers {
                1 => plan.client(&self.all[0]),
                // Nothing stands between the session and its bytes.
                _ if same_login => {
                    let session = plan.session(&self.all[0].login).in_turn(Arc::clone(&addresses), first);
                    let session = if plan.primary.is_some() { session.at_primary() } else { session };
                    WireClient { address: addresses[first].clone(), session: Box::new(session) }
                }
                _ => {
                    let clients = (0..servers).map(|at| plan.client(&self.all[(first + at) % servers]));
                    Branched::in_turn(clients.collect())
                }
            }
        };
        let session = |number: u32| {
            let number = number as usize;
            let replica = |at: usize| Ok(plan.client(&self.replicas[at]));
            self.reads.session(number, || Ok(writer(number)), self.replicas.len(), replica)
        };
        (0..count).map(session).collect()
    }

    /// Waits until replicas that are asked have all that the primary has written by now.
    ///
    /// # Errors
    /// `Usage` where the primary has no global transaction ids; `Broken` when a replica does not get there.
    pub fn until_replicas_follow(
        &self,
        primary: &mut Connection,
        connecting: &Waits,
        waits: &Waits,
    ) -> Result<(), StoreError> {
        if self.reads == Reads::Primary || self.replicas.is_empty() {
            return Ok(());
        }
        let written = primary.value("SELECT @@GLOBAL.gtid_binlog_pos").map_err(|error| match error.kind {
            StoreErrorKind::Store => StoreError::usage("only MariaDB's replicas are asked for reads")
                .detail(error.what)
                .next("Leave `reads` out."),
            _ => error,
        })?;
        if written.is_empty() {
            let what = "the primary writes no binary log, so the position of its replicas is unknown";
            return Err(StoreError::usage(what).next("Name the primary's replicas, or leave `reads` out."));
        }
        let question = format!("SELECT MASTER_GTID_WAIT('{written}', 0)");
        self.replicas.iter().try_for_each(|replica| {
            let mut connection = replica.open(&[], connecting)?;
            waits.until(LOOK_INTERVAL, "See whether it follows its primary: SHOW SLAVE STATUS", || {
                let is_there = connection.value(&question)? == "0";
                let place = &replica.login.place;
                Ok(if is_there { Ok(()) } else { Err(format!("the replica {place} has not caught up")) })
            })
        })
    }
}

/// Divides the servers of a URL into the one that takes writes and those that follow it: a read-only server takes
/// none. Servers that cannot be reached are reported and left out.
///
/// # Errors
/// None takes writes, or none follows.
pub(crate) fn told_apart(
    servers: Vec<Server>,
    reads: Reads,
    connecting: &Waits,
    progress: &mut dyn FnMut(&str),
) -> Result<SessionServers, StoreError> {
    let (mut all, mut replicas) = (Vec::new(), Vec::new());
    for server in servers {
        let asked = server.open(&[], connecting).and_then(|mut open| open.value("SELECT @@GLOBAL.read_only"));
        match asked {
            Ok(is_replica) if is_replica == "1" => replicas.push(server),
            Ok(_) => all.push(server),
            Err(error) if error.is_nobody_there() => progress(&format!("sessions go without a host: {error}")),
            Err(error) => return Err(error),
        }
    }
    if all.is_empty() {
        return Err(StoreError::usage("none of the URL's hosts takes writes: all are read-only")
            .next("Name the primary, too: mysql://primary,replica/db"));
    }
    reads.must_have(replicas.len(), "Name its replicas in the URL, which are read-only: mysql://primary,replica/db")?;
    Ok(SessionServers { all, replicas, reads })
}
