//! Nodes of a Galera cluster: how each is started, and when it is one of them.
//!
//! The first begins the cluster; each other asks one that is in it for all its data (a state snapshot transfer, by rsync). Of
//! a cluster that was stopped that node begins it again which went last: it has marked itself in `grastate.dat`. Where none
//! has, since all were killed, each is asked how far its data go (`--wsrep-recover`), and the one that got furthest is marked.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{FailoverTime, Launch, Member, Node, Recipe, StoreError, StoreErrorKind, Waits};
use plimsoll_endpoint::text;
use plimsoll_lab::Program;

use crate::connection::Connection;
use crate::server::MariadbRecipe;

/// Ports of its clients, of the group's messages, of incremental transfers, of snapshots.
pub(crate) const PORTS: [u16; 4] = [3306, 4567, 4568, 4444];
/// The package of the provider, and where it puts it.
const PACKAGE: &str = "galera-4";
const PROVIDERS: [&str; 3] =
    ["/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so", "/usr/lib/libgalera_smm.so"];
/// Between two looks whether all nodes have found one another.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Longest time of a look.
const LOOK_BOUND: Duration = Duration::from_secs(10);

/// Checks that everything is installed that a node needs besides its server.
///
/// # Errors
/// `Missing`, with the line that installs it.
pub(crate) fn installed() -> Result<(), StoreError> {
    provider()?;
    // By it a node gives all its data to one that joins.
    Program { name: "rsync", directories: &[], package: "rsync" }.find().map(drop)
}

/// Finds Galera's library.
///
/// # Errors
/// `Missing`, with the line that installs it.
pub(crate) fn provider() -> Result<PathBuf, StoreError> {
    PROVIDERS.iter().map(PathBuf::from).find(|path| path.is_file()).ok_or_else(|| {
        StoreError::new(StoreErrorKind::Missing, "Galera is not installed")
            .detail(format!("looked for {}", PROVIDERS.join(", ")))
            .next(format!("apt-get install {PACKAGE}"))
    })
}

/// The one that begins the cluster comes first.
pub(crate) fn stage(node: Member<'_>) -> usize {
    let begins = node.nodes.iter().position(|node| is_last_one(node)).unwrap_or(0);
    usize::from(node.number != begins)
}

/// Reports whether the node was the last of its cluster that was stopped.
fn is_last_one(node: &Node) -> bool {
    let state = std::fs::read_to_string(node.data_dir.join("db/grastate.dat")).unwrap_or_default();
    state.lines().any(|line| line.split_whitespace().eq(["safe_to_bootstrap:", "1"]))
}

/// Marks the node that is to begin the cluster again, where none was the last one to be stopped: it has applied most.
///
/// # Errors
/// As `run` says; `Broken` where no node has been a part of the cluster.
pub(crate) fn recover(
    recipe: &MariadbRecipe,
    nodes: &[Arc<Node>],
    run: &dyn Fn(&Node, &Launch) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    if nodes.iter().any(|node| is_last_one(node)) {
        return Ok(());
    }
    let mut furthest: Option<(i64, &Node)> = None;
    for node in nodes {
        let log = node.data_dir.join("recovered.log");
        let mut launch = recipe.launch(Member { nodes, node, is_first: false, primary: 0 })?;
        launch.arguments.extend(["--wsrep-recover".to_owned(), format!("--log-error={}", log.display())]);
        run(node, &launch)?;
        let said = std::fs::read_to_string(&log).map_err(|error| StoreError::io(log.display(), &error))?;
        if let Some(applied) = recovered(&said).filter(|applied| furthest.is_none_or(|(most, _)| *applied > most)) {
            furthest = Some((applied, node));
        }
    }
    let Some((applied, node)) = furthest else {
        let what = "all nodes of the cluster were killed, and none has data that it could begin with";
        return Err(StoreError::new(StoreErrorKind::Broken, what)
            .next("start a new cluster: plimsoll lab down NAME, plimsoll lab up galera"));
    };
    let mark = format!("s/^seqno:.*/seqno: {applied}/; s/^safe_to_bootstrap:.*/safe_to_bootstrap: 1/");
    let state = node.data_dir.join("db/grastate.dat").display().to_string();
    run(node, &Launch::new("sed", "/bin/sed".into(), ["-i", &mark, &state]))
}

/// The transaction up to which a node has applied all, of what `--wsrep-recover` says; `None` where it was in no cluster.
fn recovered(said: &str) -> Option<i64> {
    let position = said.lines().rev().find_map(|line| line.split_once("Recovered position: "))?.1;
    position.trim().rsplit_once(':')?.1.parse().ok().filter(|applied| *applied >= 0)
}

/// Returns the arguments of a node.
pub(crate) fn arguments(node: Member<'_>) -> Result<Vec<String>, StoreError> {
    let [clients, group, incremental, snapshot] = [0, 1, 2, 3].map(|at| node.listens_at(at));
    let others = node.nodes.iter().filter(|other| other.number != node.number || node.nodes.len() == 1);
    let others: Vec<String> = others.map(|other| other.listens_at(1).to_string()).collect();
    let mut arguments = vec![
        "--wsrep-on=ON".to_owned(),
        format!("--wsrep-provider={}", provider()?.display()),
        "--wsrep-cluster-name=plimsoll".to_owned(),
        format!("--wsrep-cluster-address=gcomm://{}", others.join(",")),
        format!("--wsrep-node-name=node-{}", node.number + 1),
        format!("--wsrep-node-address={group}"),
        format!("--wsrep-node-incoming-address={clients}"),
        "--wsrep-sst-method=rsync".to_owned(),
        format!("--wsrep-sst-receive-address={snapshot}"),
        format!("--wsrep-provider-options=gmcast.listen_addr=tcp://{group};ist.recv_addr={incremental}"),
        "--binlog-format=ROW".to_owned(),
        "--innodb-autoinc-lock-mode=2".to_owned(),
        "--skip-log-bin".to_owned(),
    ];
    arguments.extend(node.is_first.then(|| "--wsrep-new-cluster".to_owned()));
    Ok(arguments)
}

/// Returns the time until a cluster of so many nodes takes writes again without one of them, with these settings of its
/// servers; `None` if the others are no majority, or a time-out is not given in seconds.
///
/// A node that was not heard for `evs.suspect_timeout` is dropped if all others agree, and after
/// `evs.inactive_timeout` in any case. Nodes look for it every `evs.inactive_check_period`; at the loss, its last message
/// was sent up to `evs.keepalive_period` ago: <https://galeracluster.com/library/documentation/recovery.html>.
pub(crate) fn failover_time(nodes: usize, settings: &[(String, String)]) -> Option<FailoverTime> {
    // Of options that are given twice the last ones count.
    let given = settings.iter().rfind(|(name, _)| name.replace('_', "-") == "wsrep-provider-options");
    let given = given.map_or("", |(_, options)| options.as_str());
    let given_ms = |option: &str, default_ms: u32| {
        let mut pairs = given.split(';').filter_map(|pair| pair.split_once('='));
        let set = pairs.rfind(|(name, _)| name.trim() == option);
        set.map_or(Some(default_ms), |(_, period)| period_ms(period.trim()))
    };
    let keepalive_ms = given_ms("evs.keepalive_period", 1_000)?;
    // As servers report it; the documentation has PT1S.
    let check_ms = given_ms("evs.inactive_check_period", 500)?;
    let suspect_ms = given_ms("evs.suspect_timeout", 5_000)?;
    let inactive_ms = given_ms("evs.inactive_timeout", 15_000)?;
    let [keepalive_s, check_s, suspect_s, inactive_s] =
        [keepalive_ms, check_ms, suspect_ms, inactive_ms].map(|ms| f64::from(ms) / 1e3);
    let formula = format!(
        "evs.suspect_timeout ({suspect_s} s) to evs.inactive_timeout ({inactive_s} s) after the last message, which is \
         sent every evs.keepalive_period ({keepalive_s} s), and evs.inactive_check_period ({check_s} s)"
    );
    let range_ms = (suspect_ms.saturating_sub(keepalive_ms), inactive_ms.saturating_add(check_ms));
    let source = "https://galeracluster.com/library/documentation/recovery.html";
    (nodes > 2).then(|| FailoverTime::new(formula, source, range_ms, range_ms))
}

/// Returns the milliseconds of a period such as `PT5S`; `None` for one with other units.
fn period_ms(period: &str) -> Option<u32> {
    let seconds: f64 = period.strip_prefix("PT")?.strip_suffix('S')?.parse().ok()?;
    Some((seconds * 1e3).round() as u32)
}

/// Returns the settings of the provider, `name = value; …`, that `given` sets.
pub(crate) fn set_ones(all: &str, given: &[(String, String)]) -> String {
    let given = given.iter().filter(|(name, _)| name.replace('_', "-") == "wsrep-provider-options");
    let given: Vec<&str> = given.map(|(_, options)| options.as_str()).collect();
    let name = |option: &str| option.split('=').next().unwrap_or_default().trim().to_owned();
    let is_set = |option: &&str| given.iter().any(|set| set.split(';').any(|set| name(set) == name(option)));
    all.split(';').map(str::trim).filter(is_set).collect::<Vec<_>>().join("; ")
}

/// Fails unless a node has all data of its cluster and takes writes.
pub(crate) fn ready(connection: &mut Connection) -> Result<(), StoreError> {
    match status(connection, "wsrep_local_state_comment")?.as_str() {
        "Synced" => Ok(()),
        _ => {
            let what = format!("the node is not in the cluster ({})", own_state(connection)?);
            Err(StoreError::new(StoreErrorKind::Unreachable, what))
        }
    }
}

/// Returns the state of a node in Galera's words.
pub(crate) fn own_state(connection: &mut Connection) -> Result<String, StoreError> {
    const NAMES: [&str; 3] = ["wsrep_cluster_status", "wsrep_local_state_comment", "wsrep_cluster_size"];
    let said = NAMES.map(|name| Ok(format!("{name} {}", status(connection, name)?)));
    Ok(said.into_iter().collect::<Result<Vec<_>, StoreError>>()?.join(", "))
}

/// Waits until every node knows all of them.
pub(crate) fn until_whole(recipe: &MariadbRecipe, nodes: &[Arc<Node>], waits: &Waits) -> Result<(), StoreError> {
    let looks = waits.with_answer(LOOK_BOUND);
    nodes.iter().try_for_each(|node| {
        waits.until(LOOK_INTERVAL, "Read the nodes' logs", || {
            let size = status(&mut recipe.open(node, &looks)?, "wsrep_cluster_size")?;
            let is_whole = size == nodes.len().to_string();
            let number = node.number + 1;
            Ok(if is_whole { Ok(()) } else { Err(format!("node {number} knows {size} of {} nodes", nodes.len())) })
        })
    })
}

/// Waits until every node has applied what any of them has.
pub(crate) fn until_applied(recipe: &MariadbRecipe, nodes: &[Arc<Node>], waits: &Waits) -> Result<(), StoreError> {
    let looks = waits.with_answer(LOOK_BOUND);
    let applied = |node: &Arc<Node>| -> Result<i64, StoreError> {
        Ok(status(&mut recipe.open(node, &looks)?, "wsrep_last_committed")?.parse().unwrap_or(-1))
    };
    let most = nodes.iter().map(applied).collect::<Result<Vec<_>, _>>()?.into_iter().max().unwrap_or(0);
    nodes.iter().try_for_each(|node| {
        waits.until(LOOK_INTERVAL, "Read the nodes' logs", || {
            let number = node.number + 1;
            Ok(if applied(node)? >= most { Ok(()) } else { Err(format!("node {number} has not applied all")) })
        })
    })
}

/// Returns a status variable of Galera; empty if the server does not have it.
pub(crate) fn status(connection: &mut Connection, name: &str) -> Result<String, StoreError> {
    // With `wsrep_sync_wait` it would wait for the cluster that it is asked about.
    connection.simple("SET SESSION wsrep_sync_wait = 0")?;
    let answer = connection.simple(&format!("SHOW GLOBAL STATUS LIKE '{name}'"))?;
    Ok(answer.row_iter().next().map(|row| text(row, 1).to_owned()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_a_node_got_is_read_of_what_it_says() {
        let said = "2026-11-24 WSREP: Recovered position: 6f2c-11ee:1207\nmariadbd: ready\n";
        assert_eq!(recovered(said), Some(1207));
        assert_eq!(recovered("WSREP: Recovered position: 00000000-0000-0000-0000-000000000000:-1\n"), None);
        assert_eq!(recovered("no such line"), None);
    }

    #[test]
    fn a_node_is_dropped_between_the_time_outs_that_its_servers_were_given() {
        let of = |nodes: usize, options: &[&str]| {
            let settings = options.iter().map(|one| ("wsrep-provider-options".to_owned(), (*one).to_owned()));
            failover_time(nodes, &settings.collect::<Vec<_>>()).map(|time| (time.killed_s, time.silent_s))
        };
        assert_eq!(of(3, &[]), Some(((4.0, 15.5), (4.0, 15.5))));
        assert_eq!(of(2, &[]), None);
        let given = "gcache.size=32M; evs.suspect_timeout = PT2S;evs.keepalive_period=PT0.5S";
        assert_eq!(of(3, &[given]), Some(((1.5, 15.5), (1.5, 15.5))));
        assert_eq!(of(3, &[given, "evs.inactive_timeout=PT6.5S"]), Some(((4.0, 7.0), (4.0, 7.0))));
        assert_eq!(of(3, &["evs.inactive_timeout=PT1M"]), None);
    }
}
