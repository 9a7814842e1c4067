//! Disks of a cluster's nodes: which lose power, and when.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::fault::{Fault, RequestKind};
use plimsoll_core::{CutMoment, Node, NodeChoice, NodeSet, Nodes, ParamValue, Params, StoreErrorKind, Survivors};
use plimsoll_lab::OpenStore;

use crate::store_of_shells::{self, NODES};
use crate::{base, wait_for};

/// Opens a store whose nodes have disks.
fn open(base: &Path) -> OpenStore {
    let text = |value: &str| ParamValue::Text(value.to_owned());
    let params = BTreeMap::from([
        ("disk".to_owned(), text("ext4")),
        ("disk_size".to_owned(), ParamValue::Int(32 << 20)),
        ("disk_flushes".to_owned(), text("honoured")),
    ]);
    store_of_shells::open(base, Params(params))
}

fn write(node: &Node, name: &str) -> File {
    let mut file = File::create(node.data_dir.join(name)).unwrap();
    file.write_all(name.as_bytes()).unwrap();
    file
}

/// Returns the numbers of nodes that have a file with the written text.
fn have(nodes: &[Arc<Node>], name: &str) -> Vec<usize> {
    let has = |node: &&Arc<Node>| fs::read(node.data_dir.join(name)).is_ok_and(|found| found == name.as_bytes());
    nodes.iter().filter(has).map(|node| node.number + 1).collect()
}

/// Returns the number of mounts of Plimsoll's devices below `base`.
fn mounts(base: &Path) -> usize {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    table.lines().filter(|line| line.contains(base.to_str().unwrap())).count()
}

#[test]
fn each_node_has_a_disk_of_its_own_and_those_lose_power_that_are_to() {
    let base = base();
    let mut store = open(base.path());
    let (servers, switch) = (store.servers().unwrap(), store.power_switch().unwrap());
    let nodes = servers.nodes();
    assert_eq!(mounts(base.path()), 2 * NODES, "FUSE and ext4 for each");
    let pids = servers.pids();

    nodes.iter().for_each(|node| drop(write(node, "before")));
    switch.arm(CutMoment::Flush(1), NodeChoice::Number(2)).unwrap();
    assert!(switch.cut().unwrap().is_none());
    let late: Vec<File> = nodes.iter().map(|node| write(node, "late")).collect();
    late[0].sync_all().unwrap();
    assert!(switch.cut().unwrap().is_none(), "another disk was flushed");
    // A flush that did nothing must not be acknowledged.
    late[1].sync_all().unwrap_err();
    let cut = switch.wait_for_cut(Duration::from_secs(60)).unwrap().unwrap();
    assert!(cut.at_risk_writes > 0 && cut.apart_ns == 0, "{cut:?}");
    drop(late);
    switch.kill_servers().unwrap();
    assert_eq!(servers.pids(), [pids[0], pids[2]]);
    let on = store.power_cycle(Survivors::None).unwrap();
    on.came_back.unwrap();
    assert_eq!(on.cut, cut);
    assert_eq!((have(&nodes, "before"), have(&nodes, "late")), (vec![1, 2, 3], vec![1, 3]));
    let after = servers.pids();
    assert!(after[0] == pids[0] && after[1] != pids[1] && after[2] == pids[2], "{pids:?} {after:?}");

    switch.arm(CutMoment::Flush(1), NodeChoice::All).unwrap();
    let later: Vec<File> = nodes.iter().map(|node| write(node, "later")).collect();
    later[2].sync_all().unwrap_err();
    drop(later);
    let is_cut = || store.power_switch().unwrap().cut().unwrap().is_some();
    wait_for("the cut", Duration::from_secs(60), is_cut);
    let on = store.power_cycle(Survivors::None).unwrap();
    on.came_back.unwrap();
    println!("apart: {} us", on.cut.apart_ns / 1_000);
    // Less than a hang takes, however busy the machine is.
    assert!(on.cut.apart_ns > 0 && on.cut.apart_ns < 60_000_000_000, "{:?}", on.cut);
    assert_eq!((have(&nodes, "before"), have(&nodes, "later")), (vec![1, 2, 3], vec![]));

    let absent = switch.arm(CutMoment::Flush(1), NodeChoice::Number(4)).unwrap_err();
    assert_eq!((absent.kind, absent.what.as_str()), (StoreErrorKind::Usage, "there is no node 4"));
    store.close().unwrap();
    assert_eq!(mounts(base.path()), 0);
    let left = |name: &str| fs::symlink_metadata(base.path().join(name)).is_ok();
    assert!(!["disk", "disk-2", "disk-3"].iter().any(|name| left(name)));
}

#[test]
fn the_disk_of_one_node_has_a_fault_alone_until_it_is_mended() {
    let base = base();
    let store = open(base.path());
    let (servers, switch) = (store.servers().unwrap(), store.power_switch().unwrap());
    let nodes = servers.nodes();
    // Far above the time of a flush.
    let median = Duration::from_secs(2);
    let slow = Fault::Delay { on: RequestKind::Flush, median, jitter: Duration::ZERO, seed: 1 };
    let sync_time = |node: &Arc<Node>, name: &str| {
        let (file, from) = (write(node, name), Instant::now());
        file.sync_all().unwrap();
        from.elapsed()
    };
    let are_slow = |name: &str, wanted: [bool; NODES]| {
        for (node, is_slow) in nodes.iter().zip(wanted) {
            // A busy machine may hold up one sync of a disk without a fault.
            let tries = if is_slow { 1 } else { 3 };
            let least = (0..tries).map(|_| sync_time(node, name)).find(|time| *time < median);
            assert_eq!(least.is_none(), is_slow, "{name}: node {}, {least:?}", node.number + 1);
        }
    };
    switch.fault(Nodes::One(1), slow).unwrap();
    are_slow("one", [false, true, false]);
    switch.mend(Nodes::One(0)).unwrap();
    are_slow("other", [false, true, false]);
    switch.mend(Nodes::One(1)).unwrap();
    are_slow("mended", [false; 3]);
    switch.fault(Nodes::All, slow).unwrap();
    switch.mend(Nodes::One(1)).unwrap();
    are_slow("others", [true, false, true]);
    switch.mend(Nodes::All).unwrap();
    are_slow("none", [false; 3]);
    let [ends, beyond] = [[0, 2], [0, 3]].map(|numbers| Nodes::Several(NodeSet::of(&numbers).unwrap()));
    switch.fault(ends, slow).unwrap();
    are_slow("ends", [true, false, true]);
    switch.mend(ends).unwrap();
    are_slow("ends mended", [false; 3]);
    assert_eq!(switch.fault(beyond, slow).unwrap_err().what, "there is no node 4");
    let absent = switch.fault(Nodes::One(3), slow).unwrap_err();
    assert_eq!((absent.kind, absent.what.as_str()), (StoreErrorKind::Usage, "there is no node 4"));
    // As in the middle of a replacement: a fault of the node's disk is looked at and mended then, too.
    servers.remove(1).unwrap();
    switch.fault(Nodes::One(1), slow).unwrap();
    switch.met(Nodes::One(1), slow).unwrap();
    switch.mend(Nodes::One(1)).unwrap();
    store.close().unwrap();
}

#[test]
fn a_full_disk_has_no_room_until_it_is_mended_or_its_power_is_back() {
    let base = base();
    let mut store = open(base.path());
    let (servers, switch) = (store.servers().unwrap(), store.power_switch().unwrap());
    let nodes = servers.nodes();
    let has_room = |node: &Arc<Node>, name: &str| fs::write(node.data_dir.join(name), vec![1; 1 << 20]).is_ok();
    let have_room = |name: &str| nodes.iter().map(|node| has_room(node, name)).collect::<Vec<bool>>();
    let met = |number: usize| switch.met(Nodes::One(number), Fault::Full).unwrap();
    switch.fault(Nodes::One(1), Fault::Full).unwrap();
    assert_eq!(have_room("one"), [true, false, true]);
    assert_eq!([met(0), met(1), met(2)], [0, 1, 0]);
    switch.mend(Nodes::One(1)).unwrap();
    assert_eq!(have_room("mended"), [true; 3]);
    switch.fault(Nodes::All, Fault::Full).unwrap();
    assert_eq!(have_room("all"), [false; 3]);
    // Synced first, so that the cut does not give the room back.
    switch.drive().unwrap();
    store.power_cycle(Survivors::None).unwrap().came_back.unwrap();
    assert_eq!(have_room("after"), [true; 3]);
    store.close().unwrap();
}

#[test]
fn an_owner_of_disks_that_ends_without_closing_leaves_none() {
    let base = base();
    // Dropped as after a failure.
    drop(open(base.path()));
    assert_eq!(mounts(base.path()), 0);
}
