//! Replicas that answer what only reads.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{Address, Recipe as _, Servers, StoreError};

use crate::control::Control;
use crate::endpoint::Endpoint;
use crate::facts::Info;
use crate::server::{MASTER, REPLICA, RedisRecipe};

/// Between two looks how far a replica is.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Returns the running private servers except the master, which listens at `master`.
pub(crate) fn of_ours(servers: &dyn Servers, recipe: &RedisRecipe, master: &Address) -> Vec<Endpoint> {
    let running = servers.running();
    let data = running.iter().filter(|node| matches!(recipe.role(node.number), MASTER | REPLICA));
    data.map(|node| recipe.endpoint(node)).filter(|endpoint| endpoint.address != *master).collect()
}

/// Returns the replicas that an attached master names, with the login of the master.
pub(crate) fn of_master(info: &Info, master: &Endpoint) -> Vec<Endpoint> {
    let replica = |number: u64| {
        let line = info.text(&format!("slave{number}"));
        let part = |name: &str| line.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        let (host, port) = (part("ip")?.to_owned(), part("port")?.parse().ok()?);
        let mut endpoint = Endpoint { address: Address::Tcp(host.clone(), port), ..master.clone() };
        endpoint.login.place = format!("{host}:{port}, a replica of {}", master.login.place);
        (part("state") == Some("online")).then_some(endpoint)
    };
    (0..info.number("connected_slaves")).filter_map(replica).collect()
}

/// Waits until they have all that their master has written by now.
///
/// # Errors
/// `Broken` when one does not get there.
pub(crate) fn until_follow(master: &mut Control, replicas: &[Endpoint]) -> Result<(), StoreError> {
    let waits = master.waits().clone();
    let written = Info::read(master)?.number("master_repl_offset");
    replicas.iter().try_for_each(|replica| {
        let mut control = Control::open(replica, &waits)?;
        waits.until(LOOK_INTERVAL, "See whether it follows its master: INFO replication", || {
            let place = &replica.login.place;
            let is_there = Info::read(&mut control)?.number("master_repl_offset") >= written;
            Ok(if is_there { Ok(()) } else { Err(format!("the replica {place} has not caught up")) })
        })
    })
}

/// Returns the error for replicas of a cluster.
///
/// # Errors
/// `Usage`.
pub(crate) fn not_in_cluster() -> StoreError {
    StoreError::usage("reads = replicas and any are for a master and its replicas, and not for Redis Cluster")
        .next("Leave `reads` out, or use --on redis-sentinel.")
}

/// Private servers that sessions read from.
pub(crate) type Ours = (Arc<dyn Servers>, RedisRecipe);
