//! Limits of the nodes of a lab.

use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::bench::Place;
use crate::lab::Lab;
use crate::lab_acts::acts;

/// The control groups of the servers below `base`.
pub(crate) fn groups_of(base: &Path) -> Vec<PathBuf> {
    let places = std::fs::read_dir(base).unwrap().flatten();
    let noted = places.filter_map(|place| std::fs::read_to_string(place.path().join("groups")).ok());
    noted.flat_map(|noted| noted.lines().map(PathBuf::from).collect::<Vec<_>>()).collect()
}

#[test]
fn a_node_that_is_limited_has_no_more_and_the_report_says_so() {
    let place = Place::new();
    let limits = "--set postgres.cpus=0.5 --set postgres.memory=256MiB";
    let ran = place
        .line(&format!("drive kv --mix read=1 --set records=500 --on postgres --ops 50 --full {limits}"))
        .expect(0);
    ran.says("limit cpus = 0.5 (not none) … limit memory = 268435456 (not none) … shared_buffers = 64MB");
    let base = Lab::base();
    let up = format!("lab up redis --keep --dir {} --set cpus=0.5 --set memory=64MiB", base.path().display());
    place.line(&up).expect(0).says(" of 64 MiB …  at 0.5");
    let written = |file: &str| {
        let mut of_both =
            groups_of(base.path()).into_iter().filter_map(|group| std::fs::read_to_string(group.join(file)).ok());
        of_both.next_back().unwrap_or_default().trim().to_owned()
    };
    let (quota, none) = match written("cpu.max") {
        cpu_max if cpu_max.is_empty() => ("cpu.cfs_quota_us", ["20000", "-1"]),
        _ => ("cpu.max", ["20000 100000", "max 100000"]),
    };
    let load = "drive kv --mix read=1 --set records=500 --on lab:redis --think 5ms --slice 100ms --for 600s";
    let driven = place.started(&load.split(' ').collect::<Vec<_>>(), 2);
    place.line("lab limit redis 1 cpus=0.2 memory=128MiB").expect(0).says("lab redis: node 1: cpus=0.2 memory=128MiB");
    assert_eq!(written(quota), none[0]);
    place.line("lab status").expect(0).says(" of 128 MiB …  at 0.2");
    // A server that starts again has them still, and so has the next report.
    place.line("lab restart redis").expect(0);
    place.line("lab limit cpus=none").expect(0).says("lab redis: all nodes: cpus=none");
    assert_eq!(written(quota), none[1]);
    place.refuses(&[
        ("lab limit redis", "no limit is given … write cpus=0.5"),
        ("lab limit redis 1 cpu=1", "unknown limit `cpu` … limits: cpus, cpuset, memory"),
        ("lab limit redis 1 cpus=many", "cpus = \"many\" is not a number of processors"),
        ("lab limit redis 1 cpus=5000", "cpus = 5000: not possible on this machine"),
        ("lab limit redis 1 memory=1", "memory=1: "),
        (
            "lab limit redis 1 cpus=none memory=1MiB",
            "memory = 1048576B: too little for a server … already changed, and kept: cpus=none of node 1",
        ),
        ("lab limit redis 1 write_iops=x", "write_iops=x: not a whole number"),
        ("lab limit redis 2 cpus=1", "lab redis has no node `2`"),
    ]);
    driven.signal(Signal::INT);
    driven.ended();
    let texts: Vec<String> =
        acts(&place).into_iter().map(|act| act.text).filter(|text| text.contains("limit")).collect();
    let told = [
        "lab limit redis 1: cpus=0.2",
        "lab limit redis 1: memory=128MiB",
        "lab limit redis: cpus=none",
        "lab limit redis 1: cpus=none",
    ];
    assert_eq!(texts, told);
    let again = "drive kv --mix read=1 --set records=500 --on lab:redis --ops 50 --full";
    place.line(again).expect(0).says("limit memory = 134217728 (not none)");
    place.line("lab down").expect(0);
}
