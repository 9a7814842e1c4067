//! Opening of the store: on private servers, on one of them, or on attached ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plimsoll_core::{Address, Node, Nodes, Servers, StoreError, Waits};
use plimsoll_endpoint::{Link, Reads};

use super::{MariadbStore, database_name, session_settings};
use crate::connection::{Connection, attach, connect};
use crate::conninfo::ConnInfo;
use crate::server::{MariadbRecipe, Topology};
use crate::servers::{Server, SessionServers, told_apart};
use crate::sql::Flavor;
use crate::wire::{AT_PRIMARY, Login};

/// Opens a connection to the only server, or to the first of several that takes writes. Returns its position, too.
fn open_primary(addresses: &[Address], login: &Arc<Login>, waits: &Waits) -> Result<(usize, Connection), StoreError> {
    let mut settings = session_settings();
    settings.extend((addresses.len() > 1).then(|| AT_PRIMARY.to_owned()));
    let mut refused = Err(StoreError::usage("the store has no server"));
    for (position, address) in addresses.iter().enumerate() {
        match connect(address, Arc::clone(login), Arc::default(), &settings, &[], waits) {
            Ok(made) => return Ok((position, made)),
            Err(error) if error.is_interrupt() => return Err(error),
            Err(error) if position == 0 => refused = Err(error),
            Err(_) => {}
        }
    }
    refused
}

impl MariadbStore {
    /// Makes a store on private servers.
    ///
    /// # Errors
    /// When the first cannot be asked for its version.
    pub(crate) fn private(
        servers: Arc<dyn Servers>,
        recipe: MariadbRecipe,
        reads: Reads,
        waits: &Waits,
        run_id: &str,
    ) -> Result<MariadbStore, StoreError> {
        // A node of Galera is as good as any other; where replicas follow a primary, it has to be that.
        let all = servers.running();
        let running = recipe.servers_of(all.clone());
        let first = match recipe.topology {
            Topology::Galera => running.first().cloned().unwrap_or_else(|| servers.first()),
            _ => servers.first(),
        };
        let login = recipe.login(&first);
        let (all, addresses) = match recipe.topology {
            // The primary may be any of them, and any of them may be away.
            Topology::Replicas => {
                let all = recipe.sessions_at(&recipe.servers_of(servers.nodes()));
                (all.clone(), all)
            }
            _ => {
                let running = if running.is_empty() { std::slice::from_ref(&first) } else { &all[..] };
                (recipe.sessions_at(running), vec![recipe.address(&first)])
            }
        };
        let replicas = if reads == Reads::Primary { Vec::new() } else { recipe.replicas(&running) };
        reads.must_have(replicas.len(), "Make some: --on mariadb-replicas")?;
        let mut store = Self::open(Some((servers, recipe)), first.number, addresses, login, None, waits, run_id)?;
        let server = |address| Server { address, login: Arc::clone(&store.login) };
        let (all, replicas) = (all.into_iter().map(server).collect(), replicas.into_iter().map(server).collect());
        store.sessions_at = SessionServers { all, replicas, reads };
        Ok(store)
    }

    /// A store on one of our servers, beside which others know nothing of it.
    ///
    /// # Errors
    /// As [`MariadbStore::private`].
    pub(crate) fn instance(
        servers: Arc<dyn Servers>,
        recipe: MariadbRecipe,
        node: Arc<Node>,
        waits: &Waits,
        run_id: &str,
    ) -> Result<MariadbStore, StoreError> {
        let (login, addresses) = (recipe.login(&node), vec![recipe.address(&node)]);
        let store = Self::open(Some((servers, recipe)), node.number, addresses, login, None, waits, run_id)?;
        Ok(Self { instance: Some(node), ..store })
    }

    /// Makes a store on an attached server. Of several, the first that takes writes is the control plane's.
    ///
    /// # Errors
    /// When it cannot be asked for its version.
    pub(crate) fn attach(
        info: ConnInfo,
        reads: Reads,
        waits: &Waits,
        run_id: &str,
        progress: &mut dyn FnMut(&str),
    ) -> Result<MariadbStore, StoreError> {
        let ConnInfo { address, login, others, connect_timeout } = info;
        if others.is_empty() && reads == Reads::Primary {
            return Self::open(None, 0, vec![address], login, connect_timeout, waits, run_id);
        }
        let servers = std::iter::once((address, login)).chain(others);
        let servers = servers.map(|(address, login)| Server { address, login: Arc::new(login) }).collect();
        let connecting = waits.with_answer(connect_timeout);
        let sessions_at = match reads {
            Reads::Primary => SessionServers { all: servers, replicas: Vec::new(), reads },
            _ => told_apart(servers, reads, &connecting, progress)?,
        };
        let mut last = StoreError::usage("the URL names no host");
        for Server { address, login } in &sessions_at.all {
            match Self::open(None, 0, vec![address.clone()], (**login).clone(), connect_timeout, waits, run_id) {
                Ok(store) => return Ok(Self { sessions_at, ..store }),
                Err(error) if error.is_nobody_there() => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    fn open(
        server: Option<(Arc<dyn Servers>, MariadbRecipe)>,
        first: usize,
        addresses: Vec<Address>,
        login: Login,
        connect_timeout: Option<Duration>,
        waits: &Waits,
        run_id: &str,
    ) -> Result<MariadbStore, StoreError> {
        let (login, connecting) = (Arc::new(login), waits.with_answer(connect_timeout));
        let (addresses, primary_at): (Arc<[Address]>, _) = (addresses.into(), Arc::new(AtomicUsize::new(0)));
        // Of several, one may be away: the primary is asked for, and their state is of interest only without it.
        let checked = server.as_ref().filter(|_| addresses.len() == 1);
        let checked = checked.map(|(servers, _)| (Arc::clone(servers), Nodes::One(first)));
        let connect = {
            let (addresses, login, primary_at) = (Arc::clone(&addresses), Arc::clone(&login), Arc::clone(&primary_at));
            let (connecting, waits, is_attached) = (connecting.clone(), waits.clone(), server.is_none());
            move || {
                let (position, mut made) = match is_attached {
                    true => (0, attach(&addresses[0], Arc::clone(&login), &session_settings(), &connecting)?),
                    false => open_primary(&addresses, &login, &connecting)?,
                };
                primary_at.store(position, Ordering::Relaxed);
                made.set_waits(waits.clone());
                Ok(made)
            }
        };
        let only = Server { address: addresses[0].clone(), login: Arc::clone(&login) };
        let mut store = MariadbStore {
            control: Link::new(checked, connect),
            server,
            instance: None,
            sessions_at: SessionServers::only(only),
            addresses,
            primary_at,
            login,
            connecting,
            waits: waits.clone(),
            flavor: Flavor::MariaDb,
            log: None,
            database: database_name(run_id),
            has_database: false,
            read_only: false,
            copy: None,
            layout: Arc::default(),
        };
        store.flavor = Flavor::of_version(&store.control.get()?.value("SELECT VERSION()")?);
        Ok(store)
    }
}
