//! Clusters of shells: how a recipe makes nodes, and the operations on each of them and on all.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_core::{Launch, Member, Node, NodeChoice, Nodes, Recipe, ServerSpec, StoreError, StoreErrorKind, Waits};
use plimsoll_lab::Cluster;

use crate::base;

/// Shells that report that they are ready, count, and stop on a signal.
pub(crate) struct Shells {
    pub(crate) nodes: usize,
    pub(crate) hosts: usize,
    pub(crate) script: &'static str,
}

pub(crate) const COUNTS: &str = "trap 'echo stopped >>log; exit 0' TERM; echo >\"$0/socket\"; \
    while :; do echo >>counts; sleep 0.01 & wait $!; done";

impl Recipe for Shells {
    fn spec(&self) -> ServerSpec {
        ServerSpec {
            nodes: self.nodes,
            hosts: self.hosts,
            ports: &[1001, 1002],
            ..ServerSpec::new("Shell", "nobody", "base-passwd")
        }
    }

    fn files(&self, node: Member<'_>) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        Ok(vec![("inner/".to_owned(), Vec::new()), ("inner/number".to_owned(), node.number.to_string().into_bytes())])
    }

    fn set_up(&self, _: Member<'_>) -> Result<Option<Launch>, StoreError> {
        Ok(Some(Launch::new("sh", "/bin/sh".into(), ["-c", "cat inner/number >set-up"])))
    }

    fn launch(&self, node: Member<'_>) -> Result<Launch, StoreError> {
        Ok(Launch::new("shell", "/bin/sh".into(), ["-c", self.script, &node.socket_dir.display().to_string()]))
    }

    fn ready(&self, node: &Node, _: &Waits) -> Result<(), StoreError> {
        // A slow one answers after so many milliseconds.
        let slow = fs::read_to_string(node.socket_dir.join("slow")).unwrap_or_default();
        std::thread::sleep(Duration::from_millis(slow.parse().unwrap_or(0)));
        let is_there = node.socket_dir.join("socket").exists();
        is_there.then_some(()).ok_or_else(|| StoreError::new(StoreErrorKind::Unreachable, "no socket"))
    }

    fn form(&self, nodes: &[Arc<Node>], _: &Waits) -> Result<(), StoreError> {
        nodes.iter().for_each(|node| fs::write(node.data_dir.join("formed"), "").unwrap());
        Ok(())
    }

    fn stage(&self, node: Member<'_>) -> usize {
        // The first alone, then all others.
        if self.hosts > 0 { node.number.min(1) } else { 0 }
    }

    fn takes_more(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn join(&self, node: Member<'_>, _: &Waits) -> Result<(), StoreError> {
        fs::write(node.data_dir.join("joined"), "").unwrap();
        Ok(())
    }

    fn promotes(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn promote(&self, to: Member<'_>, _: &Waits) -> Result<(), StoreError> {
        fs::write(to.data_dir.join("promoting"), "").unwrap();
        std::thread::sleep(Duration::from_millis(500));
        let since = Instant::now();
        while to.data_dir.join("held").exists() && since.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn follow(&self, _: Member<'_>, _: &Waits) -> Result<(), StoreError> {
        Err(StoreError::usage("it does not run"))
    }

    fn rejoin(&self, _: Member<'_>, _: &Waits) -> Result<Option<Launch>, StoreError> {
        Ok(Some(Launch::new("sh", "/bin/sh".into(), ["-c", "touch rejoined"])))
    }

    fn part(&self, node: Member<'_>, _: &Waits) -> Result<(), StoreError> {
        if node.number == 0 { Err(StoreError::usage("not without the first")) } else { Ok(()) }
    }
}

/// Shells of which the one that was promoted is the primary, while the former one runs.
struct SwitchingOver(Shells);

impl Recipe for SwitchingOver {
    fn spec(&self) -> ServerSpec {
        self.0.spec()
    }

    fn launch(&self, node: Member<'_>) -> Result<Launch, StoreError> {
        self.0.launch(node)
    }

    fn ready(&self, node: &Node, waits: &Waits) -> Result<(), StoreError> {
        self.0.ready(node, waits)
    }

    fn has_primary(&self) -> bool {
        true
    }

    fn primary(&self, nodes: &[Arc<Node>], _: &Waits) -> Result<usize, StoreError> {
        let promoted = nodes.iter().find(|node| node.data_dir.join("promoted").exists());
        Ok(promoted.map_or(0, |node| node.number))
    }

    fn promotes(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn switches_over(&self) -> bool {
        true
    }

    fn promote(&self, to: Member<'_>, _: &Waits) -> Result<(), StoreError> {
        fs::write(to.data_dir.join("promoted"), "").unwrap();
        Ok(())
    }
}

fn start(base: &Path, nodes: usize, script: &'static str) -> Result<Cluster, StoreError> {
    start_on(base, nodes, 0, script)
}

pub(crate) fn start_on(base: &Path, nodes: usize, hosts: usize, script: &'static str) -> Result<Cluster, StoreError> {
    let recipe = Box::new(Shells { nodes, hosts, script });
    Cluster::start(recipe, &[base.to_owned()], &base.join("logs"), &Default::default(), &mut |_| {})
}

fn counts(node: &Node) -> u64 {
    fs::metadata(node.data_dir.join("counts")).map_or(0, |counts| counts.len())
}

/// Returns true if a node continues to count, however busy the machine is.
pub(crate) fn goes_on(node: &Node) -> bool {
    counts_within(node, Duration::from_secs(60))
}

/// Returns true if a node does not count during a time in which it otherwise counts many times.
fn stands_still(node: &Node) -> bool {
    !counts_within(node, Duration::from_millis(500))
}

fn counts_within(node: &Node, bound: Duration) -> bool {
    let (before, since) = (counts(node), Instant::now());
    while since.elapsed() < bound {
        if counts(node) > before {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn a_former_primary_that_is_started_during_a_promotion_rejoins_first() {
    let base = base();
    let cluster = start(base.path(), 2, COUNTS).unwrap();
    let (handle, nodes) = (cluster.handle(), cluster.nodes());
    handle.kill(Nodes::One(0)).unwrap();
    std::thread::scope(|scope| {
        let promotion = scope.spawn(|| handle.promote(1));
        while !nodes[1].data_dir.join("promoting").exists() {
            assert!(!promotion.is_finished(), "it did not begin");
            std::thread::sleep(Duration::from_millis(5));
        }
        handle.start(Nodes::One(0)).unwrap();
        promotion.join().unwrap().unwrap();
    });
    assert!(nodes[0].data_dir.join("rejoined").exists(), "it came back as a second primary");
    cluster.close().unwrap();
}

#[test]
fn a_node_that_does_not_follow_the_primary_is_not_promoted_before_it_has_rejoined() {
    let base = base();
    let cluster = start(base.path(), 3, COUNTS).unwrap();
    let handle = cluster.handle();
    handle.promote(1).unwrap();
    let errors = [handle.promote(2).unwrap_err(), handle.chosen(NodeChoice::Replica).unwrap_err()];
    assert!(errors.iter().all(|error| error.kind == StoreErrorKind::Usage), "{errors:?}");
    handle.rejoin().unwrap();
    assert_eq!(handle.chosen(NodeChoice::Replica).unwrap(), Nodes::One(2));
    handle.promote(2).unwrap();
    cluster.close().unwrap();
}

#[test]
fn a_switchover_ends_no_server_and_the_nodes_name_the_primary() {
    let base = base();
    let recipe = Box::new(SwitchingOver(Shells { nodes: 2, hosts: 0, script: COUNTS }));
    let (bases, logs) = ([base.path().to_owned()], base.path().join("logs"));
    let cluster = Cluster::start(recipe, &bases, &logs, &Default::default(), &mut |_| {}).unwrap();
    let (handle, pids) = (cluster.handle(), cluster.pids());
    let primary = || handle.chosen(NodeChoice::Primary).unwrap();
    assert_eq!(primary(), Nodes::One(0));
    handle.promote(1).unwrap();
    assert_eq!((primary(), cluster.pids()), (Nodes::One(1), pids));
    cluster.nodes().iter().for_each(|node| assert!(goes_on(node), "node {}", node.number));
    cluster.close().unwrap();
}

#[test]
fn a_start_and_a_promotion_that_wait_for_another_promotion_end_at_a_stop() {
    let (base, stop) = (base(), Arc::new(AtomicBool::new(false)));
    let waits = Waits::new(Duration::from_secs(60), Duration::from_secs(600), Arc::clone(&stop));
    let recipe = Box::new(Shells { nodes: 2, hosts: 0, script: COUNTS });
    let bases = [base.path().to_owned()];
    let cluster = Cluster::start(recipe, &bases, &base.path().join("logs"), &waits, &mut |_| {}).unwrap();
    let (handle, nodes) = (cluster.handle(), cluster.nodes());
    let held = nodes[1].data_dir.join("held");
    fs::write(&held, "").unwrap();
    handle.kill(Nodes::One(0)).unwrap();
    std::thread::scope(|scope| {
        let promotion = scope.spawn(|| handle.promote(1));
        while !nodes[1].data_dir.join("promoting").exists() {
            assert!(!promotion.is_finished(), "it did not begin");
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::SeqCst);
        let errors = [handle.start(Nodes::One(0)), handle.promote(1)].map(|waited| waited.unwrap_err().kind);
        assert_eq!(errors, [StoreErrorKind::Interrupted; 2]);
        assert!(!promotion.is_finished(), "they waited for its end");
        fs::remove_file(held).unwrap();
        promotion.join().unwrap().unwrap();
    });
    waits.leave(true);
    cluster.close().unwrap();
}

#[test]
fn nodes_are_made_by_the_recipe_and_removed_when_the_cluster_is_closed() {
    let base = base();
    let cluster = start(base.path(), 3, COUNTS).unwrap();
    let roots: Vec<PathBuf> = cluster.nodes().iter().map(|node| node.data_dir.parent().unwrap().to_owned()).collect();
    let mut ports = Vec::new();
    for (number, node) in cluster.nodes().iter().enumerate() {
        assert_eq!(node.number, number);
        assert_eq!(fs::read_to_string(node.data_dir.join("set-up")).unwrap(), number.to_string());
        assert!(node.data_dir.join("formed").exists() && goes_on(node), "node {number}");
        assert_eq!((node.ports.len(), node.secret.len()), (2, 48));
        ports.extend_from_slice(&node.ports);
    }
    assert_eq!(cluster.pids().len(), 3);
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 6, "each has ports of its own");
    let handle = cluster.handle();
    cluster.close().unwrap();
    assert!(roots.iter().all(|root| !root.exists()), "even while another handle exists");
    assert!(handle.pids().is_empty() || handle.check(Nodes::All).is_err());
    assert!(!base.path().join("logs").exists());
}

#[test]
fn one_node_or_all_are_stopped_killed_and_started_from_any_thread() {
    let base = base();
    let cluster = start(base.path(), 2, COUNTS).unwrap();
    let before = cluster.pids();
    let handle = cluster.handle();
    let acted = std::thread::spawn(move || {
        let killed = handle.kill(Nodes::One(1)).unwrap();
        assert_eq!(handle.check(Nodes::One(1)).unwrap_err().kind, StoreErrorKind::Unreachable);
        handle.check(Nodes::One(0)).unwrap();
        (killed, handle.start(Nodes::One(1)).unwrap())
    });
    let (killed, started) = acted.join().unwrap();
    assert!(killed.from <= killed.until && killed.until <= started.from && started.length() > Duration::ZERO);
    assert_eq!(cluster.pids()[0], before[0]);
    assert_ne!(cluster.pids()[1], before[1]);
    assert!(goes_on(&cluster.nodes()[1]));

    cluster.restart(Nodes::All).unwrap();
    assert!(cluster.pids().iter().all(|pid| !before.contains(pid)));
    for node in cluster.nodes() {
        assert_eq!(fs::read_to_string(node.data_dir.join("log")).unwrap(), "stopped\n", "gracefully");
    }
    assert_eq!(cluster.start(Nodes::One(0)).unwrap_err().kind, StoreErrorKind::Usage, "it runs");
    cluster.stop(Nodes::One(0)).unwrap();
    cluster.run(0, &Launch::new("sh", "/bin/sh".into(), ["-c", "echo >ran"]), Duration::from_secs(100)).unwrap();
    assert!(cluster.first().data_dir.join("ran").exists());
}

#[test]
fn a_paused_node_stands_still_with_all_it_has_started_until_it_is_resumed() {
    let base = base();
    let script = "echo >\"$0/socket\"; sh -c 'while :; do echo >>counts; sleep 0.01; done' & wait";
    let cluster = start(base.path(), 2, script).unwrap();
    assert!(cluster.nodes().iter().all(|node| goes_on(node)));
    cluster.pause(Nodes::One(0)).unwrap();
    assert!(stands_still(&cluster.nodes()[0]) && goes_on(&cluster.nodes()[1]));
    cluster.check(Nodes::All).unwrap();
    cluster.resume(Nodes::One(0)).unwrap();
    assert!(goes_on(&cluster.nodes()[0]));
    cluster.pause(Nodes::All).unwrap();
    cluster.kill(Nodes::One(1)).unwrap();
    cluster.close().unwrap();
}

#[test]
fn a_node_without_clients_neither_hangs_nor_has_a_connection_to_reset() {
    let base = base();
    let cluster = start_on(base.path(), 2, 2, COUNTS).unwrap();
    let hang = cluster.hang(Nodes::All).unwrap_err();
    let what = "Shell has no thread or process for each client, of which one could hang";
    assert_eq!((hang.kind, &*hang.what), (StoreErrorKind::Usage, what));
    let reset = cluster.reset(Nodes::All).unwrap_err();
    let what = "no TCP connection to Shell was open: nothing was reset";
    assert_eq!((reset.kind, &*reset.what), (StoreErrorKind::Broken, what));
    assert_eq!(cluster.reset(Nodes::One(7)).unwrap_err().kind, StoreErrorKind::Usage);
    cluster.close().unwrap();
}

/// On a busy machine a child is often stopped before it has executed its program, and its parent waits for that.
#[test]
fn a_node_that_starts_processes_all_the_time_is_paused_on_a_busy_machine() {
    let base = base();
    let cluster = start(base.path(), 1, "echo >\"$0/socket\"; while :; do /bin/true; echo >>counts; done").unwrap();
    let busy = AtomicBool::new(true);
    std::thread::scope(|scope| {
        for _ in 0..2 * std::thread::available_parallelism().unwrap().get() {
            scope.spawn(|| {
                while busy.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let mut stood = true;
        let paused = (0..20).try_for_each(|_| {
            cluster.pause(Nodes::One(0))?;
            let before = counts(&cluster.first());
            std::thread::sleep(Duration::from_millis(5));
            stood &= counts(&cluster.first()) == before;
            cluster.resume(Nodes::One(0)).map(drop)
        });
        busy.store(false, Ordering::Relaxed);
        paused.unwrap();
        assert!(stood);
    });
    assert!(goes_on(&cluster.first()));
    cluster.close().unwrap();
}

#[test]
fn a_node_that_does_not_start_says_why_and_its_log_is_kept() {
    let base = base();
    let error = start(base.path(), 2, "echo no such thing; exit 2").err().unwrap();
    assert_eq!((error.kind, &*error.what), (StoreErrorKind::Broken, "shell ended with exit status 2"));
    assert_eq!(error.detail.as_deref(), Some("no such thing"));
    let names = || fs::read_dir(base.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names().collect::<Vec<_>>(), ["logs"], "nothing else is left");
    assert!(error.next.unwrap().contains("/logs/shell-"));
}

#[test]
fn nodes_on_hosts_of_their_own_have_addresses_and_usual_ports_and_begin_stage_by_stage() {
    let base = base();
    let cluster = start_on(base.path(), 3, 3, COUNTS).unwrap();
    let nodes = cluster.nodes();
    let mut addresses: Vec<_> = nodes.iter().map(|node| node.address).collect();
    addresses.dedup();
    assert_eq!(addresses.len(), 3);
    assert!(nodes.iter().all(|node| node.ports == [1001, 1002] && goes_on(node)));
    let network = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/net")).unwrap();
    let mut networks: Vec<_> = cluster.pids().into_iter().map(network).collect();
    networks.push(fs::read_link("/proc/thread-self/ns/net").unwrap());
    networks.sort();
    networks.dedup();
    assert_eq!(networks.len(), 4, "each process is in a network of its own, and none in ours");
    let began = |number: usize| fs::metadata(nodes[number].data_dir.join("counts")).unwrap().created().unwrap();
    assert!(began(0) <= began(1) && began(0) <= began(2));
    cluster.close().unwrap();
}

#[test]
fn a_node_joins_and_leaves() {
    let base = base();
    let cluster = start_on(base.path(), 2, 2, COUNTS).unwrap();
    let handle = cluster.handle();
    assert_eq!(handle.add().unwrap(), 2);
    let joined = cluster.nodes()[2].clone();
    assert!(joined.data_dir.join("joined").exists() && goes_on(&joined));
    assert!(!cluster.nodes().iter().take(2).any(|node| node.address == joined.address));
    handle.remove(1).unwrap();
    assert_eq!(cluster.nodes().iter().map(|node| node.number).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(handle.remove(0).unwrap_err().what, "not without the first");
    assert_eq!(handle.remove(1).unwrap_err().what, "there is no node 2");
    assert_eq!(handle.kill(Nodes::One(7)).unwrap_err().kind, StoreErrorKind::Usage);
    cluster.restart(Nodes::All).unwrap();
    assert!(goes_on(&joined));
    // Beside a node that does not run none joins or leaves; that one itself does.
    handle.kill(Nodes::One(2)).unwrap();
    let what = "node 3 of Shell does not run: a node joins or leaves while all others run";
    assert_eq!([handle.add().unwrap_err().what, handle.remove(0).unwrap_err().what], [what; 2]);
    assert_eq!(cluster.nodes().len(), 2);
    handle.remove(2).unwrap();
    cluster.close().unwrap();
    assert!(!joined.data_dir.exists());
}

#[test]
fn a_node_whose_replacement_does_not_come_up_is_missing_and_the_others_go_on() {
    // A server beside whose cluster a file says so ends at once.
    const UNLESS_BROKEN: &str = "[ -e ../../broken ] && exit 3; trap 'exit 0' TERM; echo >\"$0/socket\"; \
        while :; do echo >>counts; sleep 0.01 & wait $!; done";
    let base = base();
    let cluster = start_on(base.path(), 3, 3, UNLESS_BROKEN).unwrap();
    let handle = cluster.handle();
    let third = || cluster.nodes().into_iter().find(|node| node.number == 2).unwrap();
    let former = third();
    fs::write(former.data_dir.join("kept"), "").unwrap();
    handle.replace(2).unwrap();
    let new = third();
    assert!(!new.data_dir.join("kept").exists() && new.data_dir.join("joined").exists(), "it began empty, and joined");
    assert!(goes_on(&new) && new.address == former.address);
    fs::write(base.path().join("broken"), "").unwrap();
    let error = handle.replace(1).unwrap_err();
    let present: Vec<usize> = handle.present().unwrap().iter().map(|node| node.number).collect();
    assert_eq!(present, [0, 2], "{error:?}");
    assert!(cluster.nodes().iter().all(|node| goes_on(node)));
    cluster.close().unwrap();
}
