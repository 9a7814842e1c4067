//! Private servers that have ended and are started again, beside those that go on.

use std::fs;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{Node, Nodes, Params, StoreError, StoreErrorKind};
use plimsoll_lab::OpenStore;
use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::goes_on;
use crate::store_of_shells::{NODES, open};
use crate::{base, wait_for};

/// Kills the servers of nodes from outside. Returns how the first of them ended, what was done, and the process ids
/// before and after that.
fn revived(store: &mut OpenStore, killed: &[usize]) -> (String, String, Vec<u32>, Vec<u32>) {
    let (servers, before) = (store.servers().unwrap(), store.processes());
    for number in killed {
        kill_process(Pid::from_raw(before[*number].try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
    }
    for number in killed {
        let has_ended = || servers.check(Nodes::One(*number)).is_err();
        wait_for("its end", Duration::from_secs(60), has_ended);
    }
    let revival = store.revive(false).unwrap().unwrap();
    servers.nodes().iter().for_each(|node| assert!(goes_on(node), "node {}", node.number));
    (revival.ended.what, revival.done, before, store.processes())
}

#[test]
fn servers_that_have_ended_are_started_and_the_others_go_on() {
    let base = base();
    let mut store = open(base.path(), Params::default());
    assert!(store.revive(false).unwrap().is_none(), "all run");
    for (killed, words) in [
        (&[1][..], "node 2 was started again"),
        (&[0, 2][..], "nodes 1, 3 were started again"),
        (&[0, 1, 2][..], "the servers were started again"),
    ] {
        let (ended, done, before, after) = revived(&mut store, killed);
        assert_eq!(ended, "shell was ended by signal 9 (SIGKILL), sent by nothing that was watched");
        assert_eq!(done, words);
        let are_new = before.iter().zip(&after).map(|(before, after)| before != after);
        let expected = (0..NODES).map(|number| killed.contains(&number));
        assert!(after.len() == NODES && are_new.eq(expected), "{killed:?}: {before:?} {after:?}");
    }
    let stopped = |node: &Arc<Node>| node.data_dir.join("log").exists();
    assert!(!store.servers().unwrap().nodes().iter().any(stopped), "none was stopped");
    // A server that a command has ended is one that should run.
    store.servers().unwrap().kill(Nodes::One(1)).unwrap();
    assert_eq!(store.revive(false).unwrap().unwrap().done, "node 2 was started again");
    store.close().unwrap();
}

#[test]
fn all_servers_are_restarted_if_one_that_was_started_does_not_join_the_others() {
    let base = base();
    let mut store = open(base.path(), Params::default());
    fs::write(store.servers().unwrap().nodes()[1].data_dir.join("apart"), "").unwrap();
    let (_, done, before, after) = revived(&mut store, &[1]);
    assert_eq!(done, "all servers were restarted: node 2 is not one of them");
    assert!(after.len() == NODES && !after.iter().any(|pid| before.contains(pid)), "{before:?} {after:?}");
    store.close().unwrap();
}

#[test]
fn all_servers_are_restarted_if_one_that_runs_does_not_follow_the_primary() {
    let base = base();
    let mut store = open(base.path(), Params::default());
    let servers = store.servers().unwrap();
    // Ends the former primary, and leaves a replica that does not follow.
    servers.promote(1).unwrap();
    let revival = store.revive(false).unwrap().unwrap();
    assert_eq!(revival.done, "all servers were restarted: a node that runs does not follow the primary");
    let rejoined = servers.nodes().iter().map(|node| node.data_dir.join("rejoined").exists()).collect::<Vec<_>>();
    assert_eq!(rejoined, [true, false, true]);
    store.close().unwrap();
}

#[test]
fn a_server_that_does_not_start_is_an_error_and_the_others_are_restarted_once() {
    let base = base();
    let mut store = open(base.path(), Params::default());
    let (servers, before) = (store.servers().unwrap(), store.processes());
    // Nothing can be started there.
    let gone = servers.nodes()[1].data_dir.clone();
    servers.kill(Nodes::One(1)).unwrap();
    fs::remove_dir_all(gone).unwrap();
    store.revive(false).unwrap_err();
    let stops = fs::read_to_string(servers.nodes()[0].data_dir.join("log")).unwrap();
    assert_eq!(stops, "stopped\n");
    assert!(!store.processes().iter().any(|pid| before.contains(pid)));
    drop(store);
}

#[test]
fn a_lost_connection_is_explained_by_a_server_that_ended_or_by_the_log_of_one_that_crashed() {
    let base = base();
    let store = open(base.path(), Params::default());
    let lost = || StoreError::new(StoreErrorKind::Unreachable, "the private shells closed the connection");
    assert_eq!(store.cause_of(lost()), lost());
    let servers = store.servers().unwrap();
    let log = servers.nodes()[1].data_dir.parent().unwrap().join("log");
    let crash = "PANIC:  could not fsync file: Input/output error";
    let mut log = fs::OpenOptions::new().append(true).open(log).unwrap();
    log.write_all(format!("{crash}\n").as_bytes()).unwrap();
    let explained = store.cause_of(lost());
    assert_eq!((explained.kind, &explained.what), (StoreErrorKind::Broken, &lost().what));
    assert!(explained.detail.is_some_and(|lines| lines.starts_with(crash)));
    assert!(explained.next.is_some_and(|next| next.starts_with("read its log, ")));
    // One that a command has ended should not run.
    servers.kill(Nodes::One(2)).unwrap();
    assert_eq!(store.cause_of(lost()).what, lost().what);
    kill_process(Pid::from_raw(store.processes()[1].try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
    wait_for("its end", Duration::from_secs(60), || servers.check(Nodes::One(1)).is_err());
    let ended = store.cause_of(lost());
    assert_eq!(ended.what, "shell was ended by signal 9 (SIGKILL), sent by nothing that was watched");
    assert!(ended.next.is_some_and(|next| next.starts_with("read its log, ")));
    store.close().unwrap();
}
