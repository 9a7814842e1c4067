//! Effects of a server's limits, in the kernel's control groups of this machine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_core::{LimitChange, Limits, Nodes, StoreError, StoreErrorKind};
use plimsoll_lab::{Cluster, Supervisor};

use crate::base;
use crate::cluster::Shells;

/// Starts a server that runs `script` once it is ready.
fn start(base: &Path, limits: &Limits, script: &'static str) -> Result<Cluster, StoreError> {
    let recipe = Box::new(Shells { nodes: 1, hosts: 0, script });
    let (bases, logs) = ([base.to_owned()], base.join("logs"));
    Cluster::start_under(Supervisor::start()?, limits.clone(), recipe, &bases, &logs, &Default::default(), &mut |_| {})
}

/// Returns the control groups of a cluster's first server.
fn groups(cluster: &Cluster) -> Vec<PathBuf> {
    let noted = fs::read_to_string(cluster.first().data_dir.with_file_name("groups")).unwrap();
    noted.lines().map(PathBuf::from).collect()
}

fn closed_without_trace(cluster: Cluster) {
    let groups = groups(&cluster);
    assert!(!groups.is_empty() && groups.iter().all(|group| group.is_dir()), "{groups:?}");
    cluster.close().unwrap();
    assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
}

/// Returns the processor time of a process, in seconds.
fn processor_s(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let ticks = stat.rsplit_once(") ").unwrap().1.split(' ').skip(11).take(2).map(|word| word.parse::<f64>().unwrap());
    ticks.sum::<f64>() / rustix::param::clock_ticks_per_second() as f64
}

/// Waits until a process that never waits has had this share of a processor for some tenths of a second. Other programs
/// may take what it may have, so that it has less in between.
fn until_has(pid: u32, share: f64) {
    let begun = Instant::now();
    loop {
        let (before, since) = (processor_s(pid), Instant::now());
        std::thread::sleep(Duration::from_millis(400));
        if processor_s(pid) - before >= share * since.elapsed().as_secs_f64() {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(100), "it never had {share} processors");
    }
}

/// Fails if a process that never waits has more than a fifth of a processor in two seconds, or never as much.
fn has_a_fifth(pid: u32) {
    let (before, since) = (processor_s(pid), Instant::now());
    until_has(pid, 0.15);
    std::thread::sleep(Duration::from_secs(2).saturating_sub(since.elapsed()));
    let share = (processor_s(pid) - before) / since.elapsed().as_secs_f64();
    assert!(share < 0.25, "it had {share} processors");
}

#[test]
fn a_limit_of_a_server_that_runs_can_be_changed_if_it_has_a_group_for_it() {
    let base = base();
    let limits = Limits { cpus: Some(1.0), ..Limits::default() };
    let cluster = start(base.path(), &limits, "echo >\"$0/socket\"; while :; do :; done").unwrap();
    cluster.handle().change_limit(0, &LimitChange::Cpus(Some(0.2))).unwrap();
    assert_eq!(cluster.first().limits, Limits { cpus: Some(0.2), ..Limits::default() });
    let pid = cluster.pids()[0];
    has_a_fifth(pid);
    cluster.handle().change_limit(0, &LimitChange::Cpus(None)).unwrap();
    assert_eq!(cluster.first().limits, Limits::default());
    until_has(pid, 0.3);
    // In version 2 all limits are of one group.
    if fs::read_to_string("/proc/self/cgroup").unwrap().contains(":memory:") {
        let refused = cluster.handle().change_limit(0, &LimitChange::Memory(Some(64 << 20))).unwrap_err();
        assert_eq!(refused.kind, StoreErrorKind::Usage);
        assert!(refused.to_string().contains("no control group for `memory`"), "{refused}");
        assert_eq!(cluster.first().limits, Limits::default());
    }
    closed_without_trace(cluster);
}

#[test]
fn a_fifth_of_a_processor_is_a_fifth() {
    let base = base();
    let limits = Limits { cpus: Some(0.2), cpuset: Some("0".to_owned()), ..Limits::default() };
    let cluster = start(base.path(), &limits, "echo >\"$0/socket\"; while :; do :; done").unwrap();
    let pid = cluster.pids()[0];
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    assert!(status.contains("Cpus_allowed_list:\t0\n"), "{status}");
    has_a_fifth(pid);
    // A user may remove them, and with them the note of the groups.
    let groups = groups(&cluster);
    fs::remove_dir_all(cluster.handle().files(0).unwrap().1).unwrap();
    cluster.close().unwrap();
    assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
}

#[test]
fn more_memory_than_a_server_may_have_ends_it_and_the_reason_is_said() {
    let base = base();
    let limits = Limits { memory_bytes: Some(16 << 20), ..Limits::default() };
    let script = "echo >\"$0/socket\"; until [ -e grow ]; do sleep 0.05; done; \
        x=0123456789; while :; do x=$x$x; done";
    let cluster = start(base.path(), &limits, script).unwrap();
    fs::write(cluster.first().data_dir.join("grow"), "").unwrap();
    let until = Instant::now() + Duration::from_secs(100);
    let error = loop {
        match cluster.check(Nodes::All) {
            Err(error) => break error,
            Ok(()) => assert!(Instant::now() < until, "it runs on"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(error.kind, StoreErrorKind::Exhausted, "{error}");
    assert!(error.to_string().contains("the server exceeded its memory limit of 16 MiB"), "{error}");
    closed_without_trace(cluster);
}

#[test]
fn a_disk_is_written_at_the_rate_that_a_server_may() {
    let base = base();
    assert_ne!(fs::metadata(base.path()).unwrap().dev() >> 8, 0, "/var/tmp is on no disk");
    let limits = Limits { disk: [None, Some(2 << 20), None, None], ..Limits::default() };
    let script = "echo >\"$0/socket\"; dd if=/dev/zero of=written bs=256k count=16 oflag=direct 2>/dev/null; \
        touch done; sleep 60";
    let since = Instant::now();
    let cluster = start(base.path(), &limits, script).unwrap();
    while !cluster.first().data_dir.join("done").exists() {
        assert!(since.elapsed() < Duration::from_secs(100), "it is not done");
        std::thread::sleep(Duration::from_millis(5));
    }
    let seconds = since.elapsed().as_secs_f64();
    assert!(seconds > 1.5, "4 MiB were written in {seconds} s");
    closed_without_trace(cluster);
}

#[test]
fn limits_that_cannot_be_set_are_refused_and_nothing_is_left() {
    let base = base();
    let wrong = |limits: Limits, text: &str| {
        let error = start(base.path(), &limits, "").map(drop).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        let left: Vec<_> = fs::read_dir(base.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert!(left.iter().all(|name| name == "logs"), "{left:?}");
    };
    wrong(Limits { cpus: Some(9999.0), ..Limits::default() }, "cpus = 9999");
    wrong(Limits { cpuset: Some("4000".to_owned()), ..Limits::default() }, "cannot set a limit of `cpuset`");
}
