//! Limits of the nodes of a lab.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::bench::{Place, wait_for};
use crate::lab::Lab;
use crate::lab_acts::{acts, texts};

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
    let up = format!("lab up redis --keep --restart never --dir {} --set cpus=0.5", base.path().display());
    place.line(&format!("{up} --set memory=64MiB --set write_bps=64MiB")).expect(0).says(" of 64 MiB …  at 0.5");
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
    let acts = acts(&place);
    let limited: Vec<&str> = texts(&acts).into_iter().filter(|text| text.contains("limit")).collect();
    let told = [
        "lab limit redis 1: cpus=0.2",
        "lab limit redis 1: memory=128MiB",
        "lab limit redis: cpus=none",
        "lab limit redis 1: cpus=none",
    ];
    assert_eq!(limited, told);
    let again = "drive kv --mix read=1 --set records=500 --on lab:redis --ops 50 --full";
    place.line(again).expect(0).says("limit memory = 134217728 (not none)");
    limits_are_faults(&place, &written);
    place.line("lab down").expect(0);
}

/// Changes limits of a lab of Redis, which has 128 MiB, by faults. `written` returns the text of a control group's file.
fn limits_are_faults(place: &Place, written: &dyn Fn(&str) -> String) {
    const BOUND: Duration = Duration::from_secs(200);
    let is_second = !written("memory.max").is_empty();
    let (memory, writes) = match is_second {
        true => ("memory.max", "io.max"),
        false => ("memory.limit_in_bytes", "blkio.throttle.write_bps_device"),
    };
    let drive = ["drive", "kv", "--mix", "read=1", "--set", "records=500", "--on", "lab:redis", "--think", "5ms", "-q"];
    let faults = ["limit all memory=96MiB at 500ms for 1s", "limit all write_bps=8MiB at 500ms for 1s"];
    let faults = faults.into_iter().flat_map(|fault| ["--fault", fault]).collect::<Vec<_>>();
    let mut run = place.recording(&[&drive[..], &["--for", "3s"], &faults].concat());
    let mut seen: [Vec<String>; 2] = Default::default();
    while run.0.try_wait().unwrap().is_none() {
        seen.iter_mut().zip([memory, writes]).for_each(|(all, file)| all.push(written(file)));
        std::thread::sleep(Duration::from_millis(20));
    }
    run.ended().expect(0);
    seen.iter_mut().for_each(Vec::dedup);
    assert_eq!(seen[0], ["134217728", "100663296", "134217728"]);
    // The disk, and its limit.
    let is_low = |text: &String| text.split(|it: char| !it.is_ascii_digit()).any(|word| word == "8388608");
    assert_eq!(seen[1].iter().map(is_low).collect::<Vec<_>>(), [false, true, false], "{seen:?}");
    // With less memory than it needs the kernel ends the server.
    let run = place.recording(&[&drive[..], &["--for", "600s", "--fault", "limit all memory=48MiB at 500ms"]].concat());
    wait_for("the limit", BOUND, || written(memory) == "50331648");
    let node = || -> Value {
        let status = place.line("lab status redis --json").expect(0);
        serde_json::from_str::<Value>(&status.out).unwrap()["nodes"][0].clone()
    };
    let socket = format!("{}/redis.sock", node()["socket_dir"].as_str().unwrap());
    let grow = "local all = {} for at = 1, 4096 do all[at] = string.rep('x', 262144) .. at end return #all";
    place.run(&["lab", "exec", "redis", "1", "--", "redis-cli", "-s", &socket, "EVAL", grow, "0"]);
    let why = "the server exceeded its memory limit of 48 MiB";
    wait_for("the server's end", BOUND, || node()["reason"].as_str().is_some_and(|reason| reason.contains(why)));
    run.signal(Signal::INT);
    run.ended();
    let told = "node 1 of lab redis was ended by signal 9 (SIGKILL)";
    assert!(acts(place).iter().any(|act| act.text.starts_with(told)), "{:?}", acts(place));
}
