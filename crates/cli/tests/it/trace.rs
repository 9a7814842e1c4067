//! `plimsoll trace` and `plimsoll files`, of real processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_trace::{Call, FileTracer, TraceSpec, Tracer, Way};
use serde_json::Value;

use crate::bench::Place;
use crate::servers::Postgres;

/// Lines of JSON.
fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[test]
fn a_command_is_traced_with_what_it_starts() {
    let place = Place::new();
    let file = place.path().join("file");
    let script = |pause_s: &str| {
        let syncs = format!("dd if=/dev/zero of={} bs=8k count=1 conv=fdatasync", file.display());
        format!("sleep {pause_s}; for i in 1 2 3; do {syncs}; done; exit 3")
    };
    // The line of the first second, which a busy machine prints later, has none of the calls.
    let ran = place.run(&["trace", "--threshold", "100ns", "--json", "--", "sh", "-c", &script("2.5")]).expect(0);
    let ran = ran.says("the command ended with exit status: 3");
    let lines = lines(&ran.out);
    let [first, .., all] = &lines[..] else { panic!("{lines:#?}") };
    assert_eq!((&first["calls"], &first["lost"]), (&0.into(), &0.into()));
    assert_eq!((all["times"]["count"].as_u64(), all["lost"].as_u64()), (Some(3), Some(0)), "{all:#}");
    let processes = all["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 3, "{all:#}");
    assert!(processes.iter().all(|process| process["name"] == "dd" && process["calls"][0]["call"] == "fdatasync"));
    assert_eq!(all["slow"].as_array().unwrap().len(), 3);

    let ran = place.run(&["trace", "--threshold", "100ns", "--", "sh", "-c", &script("0.1")]).expect(0);
    ran.says("- Distribution -").says("fdatasync").says("Slowest calls").says("lost: 0");
}

#[test]
fn a_way_that_is_named_is_taken_and_whoever_is_not_there_is_named() {
    let place = Place::new();
    for way in ["bpf", "proc"] {
        let ran = place.run(&["trace", "--way", way, "--for", "200ms", "--json", "--all"]).expect(0);
        let ran = ran.says(&format!("({way})"));
        assert_eq!(lines(&ran.out).last().unwrap()["way"], way);
    }
    place.run(&["trace", "4194305"]).expect(2).says("there is no process 4194305").says("pgrep");
    place.run(&["files", "4194305"]).expect(2).says("there is no process 4194305");
    place.run(&["files", "/nonexistent"]).expect(2).says("/nonexistent: No such file or directory");
    place.run(&["trace"]).expect(2).says("<PID>");
}

#[test]
fn files_of_a_directory_are_listed() {
    let place = Place::new();
    let directory = place.path().join("data");
    std::fs::create_dir(&directory).unwrap();
    let file = directory.join("file");
    let is_seen = Arc::new(AtomicBool::new(false));
    let write = {
        let (file, is_seen) = (file.clone(), Arc::clone(&is_seen));
        std::thread::spawn(move || {
            while !is_seen.load(Ordering::Relaxed) {
                std::fs::write(&file, "x").unwrap();
                std::thread::sleep(Duration::from_millis(50));
            }
        })
    };
    let ran = place.run(&["files", directory.to_str().unwrap(), "--for", "2s", "--json"]);
    is_seen.store(true, Ordering::Relaxed);
    write.join().unwrap();
    let ran = ran.expect(0);
    let seen = &lines(&ran.out)[0];
    let used = &seen["files"][0];
    assert_eq!((used["path"].as_str(), seen["lost"].as_u64()), (file.to_str(), Some(0)), "{seen:#}");
    assert!(used["opens"].as_u64() >= Some(2) && used["writes"].as_u64() >= Some(2), "{seen:#}");
}

#[test]
fn syncs_of_postgresql_are_as_many_as_it_counts_itself() {
    let place = Place::new();
    let server = Postgres::start(place.path());
    let pid = std::fs::read_to_string(server.file("postmaster.pid")).unwrap();
    let pid: u32 = pid.lines().next().unwrap().parse().unwrap();
    server.sql("create table t (n int)");
    // What a session counted is known when it has ended, on a busy machine a while after its client has.
    let counted = || {
        let mut last = None;
        loop {
            std::thread::sleep(Duration::from_millis(200));
            let now = server.sql("select wal_sync from pg_stat_wal").parse::<u64>().unwrap();
            if last.replace(now) == Some(now) {
                break now;
            }
        }
    };
    let files = FileTracer::start(pid).unwrap_or_else(|error| panic!("{error}\n{}", error.next()));
    let spec = TraceSpec { pids: Some(vec![pid]), threshold: Duration::ZERO, way: Some(Way::Bpf) };
    let mut tracer = Tracer::start(&spec).unwrap();
    let before = counted();
    // Where a sync takes some microseconds the session would end before its files are looked up.
    server.sql(
        "do $$ begin for i in 1..300 loop insert into t values (i); commit; end loop; perform pg_sleep(2); end $$",
    );
    let counted = counted() - before;
    let (seen, read) = (files.read().unwrap(), tracer.read().unwrap());
    // On a machine without a free processor some are lost, and counted.
    let lost = seen.lost + read.lost;
    assert!(lost <= 30, "{lost} lost");
    let of_log: u64 = seen
        .files
        .iter()
        .filter(|(path, _)| path.to_string_lossy().contains("/pg_wal/"))
        .map(|(_, used)| used.syncs)
        .sum();
    assert!(counted >= 300 && of_log.abs_diff(counted) <= 5 + lost, "{of_log} seen, {counted} counted");
    let calls = read.processes.iter().flat_map(|process| &process.calls);
    let fdatasyncs: u64 = calls.filter(|calls| calls.call == Call::Fdatasync).map(|calls| calls.times.len()).sum();
    assert!(fdatasyncs.abs_diff(counted) <= 5 + lost, "{fdatasyncs} seen, {counted} counted");
    let of_log = read
        .slow
        .iter()
        .filter(|slow| slow.path.as_ref().is_some_and(|path| path.to_string_lossy().contains("/pg_wal/")));
    assert!(of_log.count() as u64 * 10 >= counted * 9, "{:#?}", read.slow);
}

#[test]
fn a_drive_shows_the_syncs_of_its_server_its_waits_and_the_requests_to_devices() {
    let place = Place::new();
    let load = "drive kv --mix update=1 --set records=500 --on postgres --clients 4 --think 5ms";
    let ran =
        place.line(&format!("{load} --for 3s --warmup 0s --samplers default,fsync,block,offcpu --full")).expect(0);
    ran.says("Sampled times").says("fsync flush time").says("offcpu wait time");
    let sampled = &place.driven()["sampled"][0];
    assert!(sampled["count"].as_u64() > Some(5) && sampled["max_ns"].as_u64() > Some(10_000), "{sampled:#}");
    let report = place.report();
    let panels = report["plots"]["host"].as_array().unwrap();
    assert!(panels.iter().any(|panel| panel["name"] == "Fsync, flush time" && panel["unit"] == "ms"), "{panels:#?}");
    assert!(panels.iter().any(|panel| panel["name"] == "Off CPU, wait time" && panel["unit"] == "ms"), "{panels:#?}");
    let is_of_device = |name: &str| name.starts_with("Block ") && name.ends_with(", write time");
    assert!(panels.iter().any(|panel| panel["name"].as_str().is_some_and(is_of_device)), "{panels:#?}");
    // It is read where it is asked for.
    let plan = place.run(&["drive", "tpcb", "--on", "postgres", "--for", "1s", "--print-plan"]).expect(0);
    assert!(!plan.out.contains("samplers"), "{}", plan.out);
}
