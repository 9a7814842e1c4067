//! Planned switchovers: a replica becomes a master by command, and the former master follows it and goes on to run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::{Member, Node, Recipe as _, StoreError, StoreErrorKind, Waits};

use crate::control::Control;
use crate::facts;
use crate::formation::{ADVICE, ASK_BOUND, watched_master};
use crate::server::{MASTER, RedisRecipe, SENTINEL, WATCHED};
use crate::watched;

/// Longest time of a switchover.
const SWITCHOVER_BOUND: Duration = Duration::from_secs(60);
/// Time between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// Time after which a replica of a cluster is asked again. It gives up after 5 s, for example if its master was busy.
const ASK_AGAIN: Duration = Duration::from_secs(6);
/// Longest wait for the reply of the former master, which clients may be cut off from.
const FOLLOW_BOUND: Duration = Duration::from_secs(2);
/// Setting by which Sentinels choose a replica. Those with 0 are never chosen.
const PRIORITY: &str = "replica-priority";
/// Interval, in milliseconds, at which a Sentinel reads the priorities during the preparation, in place of 10 s.
const INFO_PERIOD_MS: &str = "100";

/// Makes a replica the master, by `CLUSTER FAILOVER` or `SENTINEL FAILOVER`.
pub(crate) fn promote(recipe: &RedisRecipe, to: Member<'_>, waits: &Waits) -> Result<(), StoreError> {
    let number = to.number + 1;
    let next = "name a replica: promote replica, plimsoll lab status";
    if recipe.role(to.number) == SENTINEL {
        return Err(StoreError::usage(format!("node {number} is a Sentinel, which cannot be promoted")).next(next));
    }
    if recipe.present_role(&to, waits)? == MASTER {
        return Err(StoreError::usage(format!("node {number} is a master already")).next(next));
    }
    let waits = &waits.with_work(SWITCHOVER_BOUND);
    if recipe.is_cluster() { in_cluster(recipe, &to, waits) } else { by_sentinels(recipe, to, waits) }
}

/// Makes a replica of a cluster take the slots of its master. The master takes no writes until the replica has its
/// data: <https://redis.io/docs/latest/commands/cluster-failover/>.
fn in_cluster(recipe: &RedisRecipe, to: &Node, waits: &Waits) -> Result<(), StoreError> {
    let refused = |error: StoreError| match error.kind {
        StoreErrorKind::Store => error.next("promote a replica of a master that runs: the cluster replaces a lost one"),
        _ => error,
    };
    take_over(recipe, to, waits).map_err(refused)?;
    let mut asked = Instant::now();
    waits.until(LOOK_INTERVAL, ADVICE, || {
        let found = look(recipe, to, waits)?;
        if found.is_err() && asked.elapsed() >= ASK_AGAIN {
            match take_over(recipe, to, waits) {
                // A replica that has just become a master refuses, too: the next look shows it.
                Err(error) if !matches!(error.kind, StoreErrorKind::Store | StoreErrorKind::Unreachable) => {
                    return Err(error);
                }
                _ => asked = Instant::now(),
            }
        }
        Ok(found)
    })
}

/// Asks a replica of a cluster to take the slots of its master.
fn take_over(recipe: &RedisRecipe, to: &Node, waits: &Waits) -> Result<(), StoreError> {
    Control::open(&recipe.endpoint(to), waits)?.command(&[b"CLUSTER", b"FAILOVER"]).map(drop)
}

/// Makes Sentinels replace the master by this replica, although it runs:
/// <https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/>.
fn by_sentinels(recipe: &RedisRecipe, to: Member<'_>, waits: &Waits) -> Result<(), StoreError> {
    let (servers, sentinels) = to.nodes.split_at(recipe.shape.servers().min(to.nodes.len()));
    let asks = waits.with_answer(ASK_BOUND);
    let open = |node: &Arc<Node>| Control::open(&recipe.endpoint(node), &asks).ok();
    let mut sentinel = sentinels.iter().find_map(open).ok_or_else(|| {
        StoreError::new(StoreErrorKind::Unreachable, "no Sentinel answers").next("start or resume a Sentinel")
    })?;
    let former = watched_master(recipe, to.nodes, waits);
    let involved = [Some(to.number), former.as_ref().map(|former| former.number)];
    let others = servers.iter().filter(|node| !involved.contains(&Some(node.number)));
    // A replica that does not answer is not chosen either.
    let asked: Vec<Excluded> = others.filter_map(|node| exclude(recipe, node, &asks)).collect();
    let excluded: Vec<&Excluded> = asked.iter().filter(|one| one.is_confirmed).collect();
    let chosen = match excluded.as_slice() {
        [] => Ok(()),
        excluded => until_known(&mut sentinel, excluded, waits),
    };
    let promoted = chosen
        .and_then(|()| fail_over(&mut sentinel, waits))
        .and_then(|()| waits.until(LOOK_INTERVAL, ADVICE, || look(recipe, &to, waits)));
    // A replica that replies late would stay excluded from all later failovers.
    let restored = asked.iter().map(|one| one.restore(recipe, waits)).fold(Ok(()), Result::and);
    promoted.and(restored)?;
    let brief = waits.with_answer(FOLLOW_BOUND);
    // Sentinels would do that 8 s later, and the former master would take writes until then that are lost.
    let follows = |former: Arc<Node>| follow(recipe, &former, &to, &brief).map(|()| former);
    let former = match former.map(follows) {
        Some(Err(error)) => unless_away(error).map(|()| None)?,
        followed => followed.transpose()?,
    };
    waits.until(LOOK_INTERVAL, ADVICE, || {
        let is_known = watched_master(recipe, to.nodes, waits).is_some_and(|master| master.number == to.number);
        Ok(if is_known { Ok(()) } else { Err("the Sentinels do not name the new master".to_owned()) })
    })?;
    // Sessions would connect to the former master again before they have asked the Sentinels.
    waits.pause(2 * watched::LOOK_INTERVAL)?;
    former.map_or(Ok(()), |former| close_clients(recipe, &former, &brief).or_else(unless_away))
}

/// A replica that Sentinels are not to choose meanwhile.
struct Excluded {
    node: Arc<Node>,
    /// Priority before.
    priority: String,
    /// True if the replica has confirmed the change. Otherwise it may have made it all the same.
    is_confirmed: bool,
}

impl Excluded {
    /// Sets the priority as it was before, unless the replica is away.
    fn restore(&self, recipe: &RedisRecipe, waits: &Waits) -> Result<(), StoreError> {
        set_priority(recipe, &self.node, &self.priority, waits).or_else(unless_away)
    }
}

/// Excludes a replica from the choice of Sentinels; `None` if it does not tell its priority.
fn exclude(recipe: &RedisRecipe, node: &Arc<Node>, waits: &Waits) -> Option<Excluded> {
    let mut control = Control::open(&recipe.endpoint(node), waits).ok()?;
    let priority = facts::config(&mut control, PRIORITY).ok()??;
    let is_confirmed = set_priority(recipe, node, "0", waits).is_ok();
    Some(Excluded { node: Arc::clone(node), priority, is_confirmed })
}

fn set_priority(recipe: &RedisRecipe, node: &Node, priority: &str, waits: &Waits) -> Result<(), StoreError> {
    let mut control = Control::open(&recipe.endpoint(node), waits)?;
    control.command(&[b"CONFIG", b"SET", PRIORITY.as_bytes(), priority.as_bytes()]).map(drop)
}

/// Waits until a Sentinel knows that it is not to choose these replicas.
fn until_known(sentinel: &mut Control, excluded: &[&Excluded], waits: &Waits) -> Result<(), StoreError> {
    // Redis 6 has no such command, and its Sentinels know the priorities after 10 s.
    let says = sentinel.command(&[b"SENTINEL", b"DEBUG"]).map(|says| texts(&says)).unwrap_or_default();
    let period = says.chunks(2).find(|pair| pair[0] == "INFO-PERIOD").and_then(|pair| pair.get(1));
    if period.is_some() {
        set_info_period(sentinel, INFO_PERIOD_MS)?;
    }
    let known = waits.until(LOOK_INTERVAL, ADVICE, || {
        let says = sentinel.command(&[b"SENTINEL", b"REPLICAS", WATCHED.as_bytes()])?;
        let replicas: Vec<Vec<String>> = says.list().iter().map(texts).collect();
        let is_known = |one: &&Excluded| {
            let at = one.node.listens_at(0);
            let (ip, port) = (at.ip().to_string(), at.port().to_string());
            let mut its = replicas.iter().filter(|words| has(words, "ip", &ip) && has(words, "port", &port));
            its.any(|words| has(words, "slave-priority", "0"))
        };
        let what = "a Sentinel does not know which replica is to be promoted";
        Ok(if excluded.iter().all(is_known) { Ok(()) } else { Err(what.to_owned()) })
    });
    let reset = period.map_or(Ok(()), |period| set_info_period(sentinel, period));
    known.and(reset)
}

/// Sets the interval, in milliseconds, at which a Sentinel asks servers for their state.
fn set_info_period(sentinel: &mut Control, period: &str) -> Result<(), StoreError> {
    sentinel.command(&[b"SENTINEL", b"DEBUG", b"INFO-PERIOD", period.as_bytes()]).map(drop)
}

/// Returns true if the fields of a server, each a name and a value, have this one.
fn has(fields: &[String], name: &str, value: &str) -> bool {
    fields.chunks(2).any(|pair| pair == [name, value])
}

/// Begins a failover, once the one before has ended and a replica can be chosen.
fn fail_over(sentinel: &mut Control, waits: &Waits) -> Result<(), StoreError> {
    waits.until(LOOK_INTERVAL, ADVICE, || match sentinel.command(&[b"SENTINEL", b"FAILOVER", WATCHED.as_bytes()]) {
        Ok(_) => Ok(Ok(())),
        Err(error) if error.kind == StoreErrorKind::Store => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    })
}

/// Looks if a node is a master. The inner error describes its present state.
fn look(recipe: &RedisRecipe, node: &Node, waits: &Waits) -> Result<Result<(), String>, StoreError> {
    match recipe.present_role(node, waits) {
        Ok(role) if role == MASTER => Ok(Ok(())),
        Ok(_) => Ok(Err(format!("node {} is still a replica", node.number + 1))),
        // Sentinels close the connections to a server that they give another role.
        Err(error) if error.kind == StoreErrorKind::Unreachable => Ok(Err(error.what)),
        Err(error) => Err(error),
    }
}

/// Makes the former master a replica of the new one.
fn follow(recipe: &RedisRecipe, former: &Node, master: &Node, waits: &Waits) -> Result<(), StoreError> {
    let (at, mut control) = (master.listens_at(0), Control::open(&recipe.endpoint(former), waits)?);
    let (ip, port) = (at.ip().to_string(), at.port().to_string());
    control.command(&[b"REPLICAOF", ip.as_bytes(), port.as_bytes()]).map(drop)
}

/// Closes the connections of clients, as Sentinels do at a server that they give another role.
fn close_clients(recipe: &RedisRecipe, node: &Node, waits: &Waits) -> Result<(), StoreError> {
    Control::open(&recipe.endpoint(node), waits)?.command(&[b"CLIENT", b"KILL", b"TYPE", b"normal"]).map(drop)
}

/// Ignores the error of a server that is away: Sentinels see to it when it is back.
fn unless_away(error: StoreError) -> Result<(), StoreError> {
    if error.kind == StoreErrorKind::Unreachable { Ok(()) } else { Err(error) }
}

fn texts(list: &crate::Node) -> Vec<String> {
    list.list().iter().map(crate::Node::text).collect()
}
