//! Formation of private servers: masters of a cluster, each with an equal part of the slots, replicas of them, and
//! Sentinels that have found one another.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{Node, Recipe as _, StoreError, StoreErrorKind, Waits};

use crate::control::Control;
use crate::server::{MASTER, RedisRecipe, WATCHED};
use crate::slots::SLOTS;

/// Between two looks whether nodes have found each other.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Longest time of a look.
const LOOK_BOUND: Duration = Duration::from_secs(10);
/// Longest time of a Sentinel's reply: another Sentinel knows the same.
pub(crate) const ASK_BOUND: Duration = Duration::from_millis(500);
/// Advice for a formation or a switchover that does not succeed.
pub(crate) const ADVICE: &str = "Read the nodes' logs";

/// Shares the slots out among masters that know no other node, introduces all nodes, and gives each master its replicas.
pub(crate) fn form(recipe: &RedisRecipe, nodes: &[Arc<Node>], waits: &Waits) -> Result<(), StoreError> {
    let (masters, replicas) = nodes.split_at(recipe.shape.masters.min(nodes.len()));
    let count = masters.len();
    for (place, node) in masters.iter().enumerate() {
        let first = |place: usize| usize::from(SLOTS) * place / count;
        let part = [first(place).to_string(), (first(place + 1) - 1).to_string()];
        let mut control = Control::open(&recipe.endpoint(node), waits)?;
        // Nodes with equal epochs would quarrel about them first.
        control.command(&[b"CLUSTER", b"SET-CONFIG-EPOCH", (place + 1).to_string().as_bytes()])?;
        control.command(&[b"CLUSTER", b"ADDSLOTSRANGE", part[0].as_bytes(), part[1].as_bytes()])?;
    }
    let [first, others @ ..] = nodes else { return Ok(()) };
    let mut control = Control::open(&recipe.endpoint(first), waits)?;
    for node in others {
        let (address, ports) = (node.address.to_string(), [0, 1].map(|at| node.listens_at(at).port().to_string()));
        let meet: [&[u8]; 3] = [b"CLUSTER", b"MEET", address.as_bytes()];
        let words: Vec<&[u8]> = meet.into_iter().chain(ports.iter().map(String::as_bytes)).collect();
        control.command(&words)?;
    }
    for node in replicas {
        let master = &masters[node.number % recipe.shape.masters];
        let id = Control::open(&recipe.endpoint(master), waits)?.command(&[b"CLUSTER", b"MYID"])?.text();
        // Who does not know of its master yet says so.
        waits.until(LOOK_INTERVAL, ADVICE, || {
            let mut control = Control::open(&recipe.endpoint(node), waits)?;
            let follows = control.command(&[b"CLUSTER", b"REPLICATE", id.as_bytes()]);
            Ok(follows.map(drop).map_err(|error| format!("a replica does not follow its master: {error}")))
        })?;
    }
    Ok(())
}

/// Waits until every node can be reached and knows who has which slots, all of them, and replicas have what masters have.
pub(crate) fn until_whole(recipe: &RedisRecipe, nodes: &[Arc<Node>], waits: &Waits) -> Result<(), StoreError> {
    let looks = waits.with_answer(LOOK_BOUND);
    nodes.iter().try_for_each(|node| {
        waits.until(LOOK_INTERVAL, ADVICE, || {
            let mut control = Control::open(&recipe.endpoint(node), &looks)?;
            let says = control.command(&[b"CLUSTER", b"INFO"])?.text();
            let masters = control.slots()?.into_iter().map(|range| range.master).collect::<BTreeSet<_>>();
            let is_whole = says.contains("cluster_state:ok") && masters.len() == recipe.shape.masters;
            // A failover changes which nodes are masters.
            let at = node.listens_at(0);
            let is_master = masters.contains(&(at.ip().to_string(), at.port()));
            let is_whole = is_whole && (is_master || follows(&mut control)?);
            let said = || says.split_ascii_whitespace().take(4).collect::<Vec<_>>().join(" ");
            Ok(if is_whole { Ok(()) } else { Err(format!("the private cluster has not come about ({})", said())) })
        })
    })
}

/// Returns the servers among `nodes` that are masters now; those that began as such if there are too few.
pub(crate) fn present_masters(recipe: &RedisRecipe, nodes: &[Arc<Node>], waits: &Waits) -> Vec<Arc<Node>> {
    let looks = waits.with_answer(ASK_BOUND);
    let servers = || nodes.iter().filter(|node| node.number < recipe.shape.servers());
    let is_master = |node: &&Arc<Node>| recipe.present_role(node, &looks).is_ok_and(|role| role == MASTER);
    let present: Vec<_> = servers().filter(is_master).cloned().collect();
    match present.len() < recipe.shape.masters {
        true => servers().filter(|node| recipe.role(node.number) == MASTER).cloned().collect(),
        false => present,
    }
}

/// Returns the present master among `nodes`, according to the first Sentinel that answers; `None` if none does.
pub(crate) fn watched_master(recipe: &RedisRecipe, nodes: &[Arc<Node>], waits: &Waits) -> Option<Arc<Node>> {
    let looks = waits.with_answer(ASK_BOUND);
    let sentinels = nodes.iter().filter(|node| node.number >= recipe.shape.servers());
    let ask = |node: &Arc<Node>| {
        let mut control = Control::open(&recipe.endpoint(node), &looks).ok()?;
        let says = control.command(&[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", WATCHED.as_bytes()]).ok()?;
        let words: Vec<String> = says.list().iter().map(|word| word.text()).collect();
        let is_it = |node: &&Arc<Node>| {
            let at = node.listens_at(0);
            words == [at.ip().to_string(), at.port().to_string()]
        };
        nodes.iter().find(is_it).cloned()
    };
    sentinels.into_iter().find_map(ask)
}

/// Waits until replicas have what their master has, and every Sentinel knows of all servers and all other Sentinels.
pub(crate) fn until_watched(recipe: &RedisRecipe, nodes: &[Arc<Node>], waits: &Waits) -> Result<(), StoreError> {
    let looks = waits.with_answer(LOOK_BOUND);
    let (servers, sentinels) = nodes.split_at(recipe.shape.servers().min(nodes.len()));
    // Which of them is the master, Sentinels may have changed.
    waits.until(LOOK_INTERVAL, ADVICE, || {
        let each = servers.iter().map(|node| follows(&mut Control::open(&recipe.endpoint(node), &looks)?));
        let following = match each.collect::<Result<Vec<bool>, StoreError>>() {
            // Sentinels close the connections to a server that they give another role.
            Err(error) if error.kind == StoreErrorKind::Unreachable => return Ok(Err(error.what)),
            each => each?.into_iter().filter(|follows| *follows).count(),
        };
        let wanted = servers.len() - 1;
        let what = || format!("{following} of {wanted} replicas have what their master has");
        Ok(if following == wanted { Ok(()) } else { Err(what()) })
    })?;
    for node in sentinels {
        waits.until(LOOK_INTERVAL, ADVICE, || {
            let mut control = Control::open(&recipe.endpoint(node), &looks)?;
            let answer = control.command(&[b"SENTINEL", b"MASTER", WATCHED.as_bytes()])?;
            let words: Vec<String> = answer.list().iter().map(|word| word.text()).collect();
            let is =
                |name: &str, count: usize| words.chunks(2).any(|pair| pair == [name.to_owned(), count.to_string()]);
            let knows = is("num-slaves", servers.len() - 1) && is("num-other-sentinels", sentinels.len() - 1);
            Ok(if knows { Ok(()) } else { Err("a Sentinel has not found all others".to_owned()) })
        })?;
    }
    Ok(())
}

/// Reports whether a server is connected to its master and has all data that the master had.
fn follows(control: &mut Control) -> Result<bool, StoreError> {
    let says = control.command(&[b"INFO", b"replication"])?.text();
    Ok(says.contains("role:slave") && says.contains("master_link_status:up"))
}
