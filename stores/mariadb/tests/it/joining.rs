//! A node that joins a Galera cluster: a slow state transfer ends, and one that stands still is called hung.

use std::time::{Duration, Instant};

use plimsoll_core::{Link, Node, StoreErrorKind, Waits};
use plimsoll_lab::Cluster;
use plimsoll_store_mariadb::MariadbRecipe;
use plimsoll_store_mariadb::server::Topology;
use plimsoll_testkit::private::{base, processes_of};
use rustix::process::{Pid, Signal, kill_process};

/// Time without progress after which a join is called hung.
const HUNG_AFTER: Duration = Duration::from_secs(5);

/// Sends a signal to the processes by which rsync receives the data of `node`, and returns their number.
fn signal_receivers(node: &Node, signal: Signal) -> usize {
    let is_rsync = |pid: &String| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim_end() == "rsync")
    };
    let receivers = processes_of(&node.data_dir).into_iter().filter(is_rsync);
    // One that has ended meanwhile receives nothing more.
    let signalled = receivers.filter(|pid| {
        let pid = pid.parse().ok().and_then(Pid::from_raw);
        pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
    });
    signalled.count()
}

/// Proves that a state transfer that stands still is called hung, and a slow one is not.
mod heavy {
    use super::*;

    #[test]
    fn a_state_transfer_that_stands_still_is_called_hung_and_a_slow_one_is_not() {
        let base = base();
        let recipe = MariadbRecipe { topology: Topology::Galera, nodes: 1, ..Default::default() };
        let (bases, logs) = ([base.path().to_owned()], base.path().join("logs"));
        let waits = Waits::default().with_hung_after(HUNG_AFTER);
        let cluster = Cluster::start(Box::new(recipe), &bases, &logs, &waits, &mut |_| {}).unwrap();
        let handle = cluster.handle();
        let slow = |rate| Link { rate_bits_per_s: Some(rate), ..Link::default() };
        // The redo log alone, of 96 MiB, takes 10 s.
        handle.set_link(0, slow(80_000_000)).unwrap();
        let since = Instant::now();
        assert_eq!(cluster.add().unwrap(), 1);
        assert!(since.elapsed() > HUNG_AFTER, "the slow one took only {:?}", since.elapsed());

        // Either node may be the donor.
        [0, 1].into_iter().for_each(|number| handle.set_link(number, slow(40_000_000)).unwrap());
        let joining = std::thread::spawn(move || handle.add());
        let is_sending = || {
            let all = cluster.in_progress().unwrap();
            all.iter().any(|one| one.node == 2 && one.what == "state transfer" && one.percent() > Some(5.0))
        };
        while !is_sending() {
            assert!(!joining.is_finished(), "it joined unseen");
            std::thread::sleep(Duration::from_millis(20));
        }
        let joiner = cluster.nodes().into_iter().find(|node| node.number == 2).unwrap();
        assert!(signal_receivers(&joiner, Signal::STOP) > 0, "it receives by rsync");
        // A connection that was accepted before the first of them stopped has a process of its own.
        signal_receivers(&joiner, Signal::STOP);
        let error = joining.join().unwrap().unwrap_err();
        signal_receivers(&joiner, Signal::CONT);
        assert_eq!(error.kind, StoreErrorKind::Broken, "{error}");
        let says = |text: &str| error.what.contains(text);
        assert!(says("join of node 3 hung at ") && says(" %: state transfer; no progress for "), "{error}");
        assert_eq!(cluster.nodes().len(), 2, "the node is gone");
        cluster.close().unwrap();
    }
}
