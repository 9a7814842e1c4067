//! Several private servers.

#![allow(clippy::print_stdout, reason = "times are worth knowing")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use plimsoll_core::{Layout, OpenOptions, ParamValue, Params, Reading, Target};
use plimsoll_store_nats::kind;

#[test]
fn three_servers_are_one_cluster_before_and_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (data_dir, log_dir) = (dir.path().join("data"), dir.path().join("log"));
    [&data_dir, &log_dir].into_iter().for_each(|place| std::fs::create_dir(place).unwrap());
    let kind = kind();
    let mut params = plimsoll_testkit::params::defaults(kind.spec().params);
    params.0.extend(BTreeMap::from([("nodes".to_owned(), ParamValue::Int(3))]));
    let target = Target::Private { data_dir, said: false, log_dir };
    let options =
        OpenOptions { target, params: Params(params.0), run_id: "cluster".to_owned(), waits: Default::default() };
    let began = Instant::now();
    let mut store = plimsoll_lab::open(&*kind, options, &mut |_| {}).unwrap();
    println!("ready after {:?}", began.elapsed());
    assert_eq!(store.describe().unwrap().place, "private cluster of 3 servers");
    assert_eq!(store.processes().len(), 3);
    store.create(&Layout::default()).unwrap();
    let mut probe = store.probe().unwrap();
    // The bucket as a whole, and both copies that follow its leader.
    let subjects =
        |readings: Vec<Reading>| readings.into_iter().map(|reading| reading.subject).collect::<BTreeSet<_>>().len();
    assert_eq!(subjects(probe().unwrap()), 3);
    store.restart().unwrap();
    store.sessions(2, plimsoll_core::Durability::Buffered).unwrap();
    assert_eq!(subjects(probe().unwrap()), 3, "they are read again");
    let began = Instant::now();
    store.close().unwrap();
    println!("down after {:?}", began.elapsed());
}
