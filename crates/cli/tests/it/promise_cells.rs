//! Parallel cells of promises: independent, over when decided, resumed after a kill, and nothing left behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::bench::{Guarded, Place, wait_for};

/// The promises of a run, which ends with a line of JSON.
fn promises(out: &str) -> Vec<Value> {
    let report: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    report["report"]["promises"].as_array().cloned().unwrap_or_default()
}

/// The words of a command as a shell cuts it, without the program.
fn words(command: &str) -> Vec<String> {
    let pieces = command.split('\'').enumerate().flat_map(|(at, piece)| match at % 2 {
        0 => piece.split_whitespace().map(str::to_owned).collect(),
        _ => vec![piece.to_owned()],
    });
    pieces.skip(1).collect()
}

#[test]
fn a_promise_that_is_broken_needs_no_more_cuts_and_its_command_breaks_it_again() {
    let place = Place::new();
    let args = ["promise", "sqlite", "--json", "--durability", "at-end", "--survivors", "none", "--for", "1s"];
    let ran = place.run(&[&args[..], &["--cuts", "3", "--jobs", "1"]].concat()).expect(1);
    assert!(ran.err.contains("1 cell, at most 3 power cuts, 1 at once (--jobs)"), "{}", ran.err);
    let one = &promises(&ran.out)[0];
    assert_eq!((&one["state"], &one["cuts"], &one["cuts_not_needed"]), (&"lost".into(), &1.into(), &2.into()), "{one}");
    let again = words(one["repeat"].as_str().unwrap());
    let again: Vec<&str> = again.iter().map(String::as_str).collect();
    let repeated = place.run(&[&again[..], &["--json", "--quiet"]].concat()).expect(1);
    let again = &promises(&repeated.out)[0];
    assert_eq!((&again["state"], &again["cuts"], &again["repeat"]), (&"lost".into(), &1.into(), &one["repeat"]));
    let all = place.run(&[&args[..], &["--cuts", "2", "--all-cuts", "--quiet"]].concat()).expect(1);
    let all = &promises(&all.out)[0];
    assert_eq!((&all["cuts"], &all["cuts_not_needed"]), (&2.into(), &0.into()), "{all}");
}

#[test]
fn a_cell_that_fails_leaves_the_others_be() {
    let place = Place::new();
    let args = ["promise", "sqlite", "--durability", "durable", "--survivors", "none", "--cuts", "2", "--for", "15s"];
    let ran = place.run(&[&args[..], &["--disk", "xfs,ext4", "--disk-size", "64MiB", "--json"]].concat()).expect(2);
    let failed = "failed: sqlite · disk=xfs: the disk that can lose power";
    assert!(ran.err.contains(failed) && ran.err.contains("its 1 other cut is skipped"), "{}", ran.err);
    let found = promises(&ran.out);
    let states: Vec<&str> = found.iter().map(|one| one["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["not tried", "kept"], "{found:?}");
}

#[test]
fn a_run_that_was_killed_goes_on_with_what_it_has() {
    let place = Place::new();
    let options = ["sqlite", "--durability", "durable", "--survivors", "none,torn", "--cuts", "3", "--for", "15s"];
    let args = [&["promise", "--json", "--jobs", "2"][..], &options].concat();
    let mut child = Guarded(place.command(&args).spawn().unwrap());
    let lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let done = |line: &String| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["type"] == "cells" && line["done"].as_u64().unwrap() >= 2
    };
    assert!(lines.into_iter().any(|line| done(&line)), "it ended by itself");
    // It was said that something is done before it was recorded, at most a moment.
    std::thread::sleep(Duration::from_millis(300));
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    // A run with other options is not resumed; the message names the run's own command.
    let other = [&["promise", "--resume", "last", "--seed", "9"][..], &options].concat();
    place.run(&other).expect(2).says("has other options than these\n  → its command was: ");
    place
        .run(&["promise", "--resume", "last", "--disk", "xfs"])
        .expect(2)
        .says("has its own options\n  → name its stores");
    let ran = place.run(&["promise", "--json", "--resume", "last"]).expect(0);
    assert!(ran.err.contains("resuming run ") && ran.err.contains("of 6 cuts are recorded"), "{}", ran.err);
    let first = ran.out.lines().find(|line| line.contains("\"cells\"")).unwrap();
    let first: Value = serde_json::from_str(first).unwrap();
    assert!(first["done"].as_u64().unwrap() >= 2, "{first}");
    let found = promises(&ran.out);
    assert!(found.len() == 2 && found.iter().all(|one| one["state"] == "kept" && one["cuts"] == 3), "{found:?}");
    let report: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    assert_eq!(report["report"]["trials"].as_array().unwrap().len(), 6);
    let one = place.only_run();
    assert!(!one.join("data").exists());
    place.run(&["promise", "--resume", "last"]).expect(2).says("is complete\n  → leave --resume out");
    place.run(&["promise", "--resume", "20200101"]).expect(10);
    // A recording elsewhere names a directory that is not its own.
    let copy = place.path().join("copy");
    fs::create_dir(&copy).unwrap();
    fs::copy(one.join("run.sqlite"), copy.join("run.sqlite")).unwrap();
    place.run(&["promise", "--resume", copy.to_str().unwrap()]).expect(2).says("in a directory with its id");
}

/// Returns mounts, loop devices and processes with `below` in their names.
fn left(below: &Path) -> Vec<String> {
    let below = below.to_str().unwrap();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut left: Vec<String> = mounts.lines().filter(|line| line.contains(below)).map(str::to_owned).collect();
    for device in fs::read_dir("/sys/block").unwrap().flatten() {
        let file = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
        left.extend(file.contains(below).then_some(file));
    }
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let words = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        left.extend(words.contains(below).then_some(words));
    }
    left
}

/// Returns the directories of the disks of runs in `place`.
fn disks(place: &Place) -> Vec<PathBuf> {
    let data = place.all_runs().into_iter().map(|run| run.join("data"));
    let stores = data.flat_map(|data| fs::read_dir(data).into_iter().flatten().flatten());
    stores.filter_map(|store| store.path().join("disk").canonicalize().ok()).collect()
}

#[test]
fn nothing_is_left_of_several_cells_when_the_program_is_killed_at_any_moment() {
    let kills = std::env::var("PLIMSOLL_KILLS").map_or(5, |kills| kills.parse::<u64>().unwrap());
    let place = Place::new();
    let mut met = 0;
    for kill in 0..kills {
        let args = ["promise", "postgres,sqlite", "--quiet", "--cuts", "3", "--durability", "durable", "--jobs", "3"];
        let mut child = Guarded(place.command(&args).spawn().unwrap());
        let mounted = || disks(&place).iter().filter(|disk| !left(disk).is_empty()).count();
        // While they are made for some, and then from when there are several.
        if kill % 3 != 2 {
            wait_for("disks", Duration::from_secs(60), || mounted() > 1);
        }
        std::thread::sleep(Duration::from_millis(kill * 517 % 3_000));
        met += usize::from(mounted() > 1);
        let disks = disks(&place);
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        for disk in disks.iter().map(PathBuf::as_path).chain([place.path()]) {
            let mut still = Vec::new();
            wait_for(&format!("the end of {}", disk.display()), Duration::from_secs(30), || {
                still = left(disk);
                still.is_empty()
            });
        }
    }
    assert!(met as u64 > kills / 3, "only {met} of {kills} kills met several disks");
    // Files go with the next start.
    place
        .run(&["promise", "sqlite", "--quiet", "--cuts", "1", "--durability", "durable", "--survivors", "none"])
        .expect(0);
    for run in place.all_runs() {
        assert!(!run.join("data").exists(), "{}", run.display());
    }
}
