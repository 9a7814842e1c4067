//! Side by side with fio and pg_test_fsync, in one directory, in turn: is the same write + flush equally long?
//!
//! ```text
//! cargo test -p plimsoll-disk --test it peers -- --ignored --nocapture
//! PEERS_IN=/var/tmp cargo test -p plimsoll-disk --test it peers -- --ignored --nocapture
//! ```
//!
//! Without `PEERS_IN` it is an ext4 on a private device in memory, whose speed does not depend on other programs'
//! writes.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plimsoll_disk::latency::{Outcome, Site, Target, measure};
use plimsoll_disk::scratch::Scratch;
use plimsoll_disk::ways::{Flushing, Point, Writing};

use crate::mounts::Mounted;

/// Rounds of each, and their duration.
const ROUNDS: usize = 41;
const SECONDS: u64 = 1;

/// Mean time of a write + flush, in microseconds.
fn ours(directory: &Path, size_bytes: usize) -> f64 {
    let scratch = Scratch::new(directory).unwrap();
    let site = Site { target: Target::Directory(scratch.path().to_owned()), in_memory: false };
    let point = Point { size_bytes, writing: Writing::Overwrite, flushing: Flushing::Fdatasync, loaded: false };
    let outcome = measure(&site, point, Duration::from_secs(SECONDS), &AtomicBool::new(false)).unwrap().unwrap();
    let Outcome::Measured(measured) = outcome else { panic!("{outcome:?}") };
    measured.times.mean_ns / 1e3
}

/// Returns the result of fio: one file of 16 MiB that is written beforehand, then again in order, with fdatasync after
/// each write.
fn fio(directory: &Path) -> f64 {
    let output = Command::new("fio")
        .args(["--name=plimsoll", "--rw=write", "--bs=4k", "--size=16m", "--overwrite=1", "--fdatasync=1"])
        .args(["--ioengine=psync", "--time_based", "--output-format=terse", "--terse-version=3"])
        .args([format!("--runtime={SECONDS}"), format!("--directory={}", directory.display())])
        .output()
        .expect("fio: install the package fio");
    let said = String::from_utf8(output.stdout).unwrap();
    std::fs::remove_file(directory.join("plimsoll.0.0")).unwrap();
    // Field 49 of the terse form, from 1, is the rate of writes.
    let rate: f64 = said.lines().last().unwrap().split(';').nth(48).unwrap().parse().unwrap();
    1e6 / rate
}

/// Returns the result of pg_test_fsync for one 8 kB write and fdatasync: the first block of a file of 16 MB again and
/// again.
fn pg_test_fsync(directory: &Path) -> f64 {
    let mut versions: Vec<PathBuf> =
        std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|e| e.path()).collect();
    versions.sort();
    let program = versions.pop().expect("install the package postgresql").join("bin/pg_test_fsync");
    let mut child = Command::new(program)
        .args([format!("--secs-per-test={SECONDS}"), format!("--filename={}", directory.join("pg").display())])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.map(|line| line.trim().to_owned()).find(|line| line.starts_with("fdatasync")).unwrap();
    // The rest is not wanted. It removes its file at this signal.
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
    child.wait().unwrap();
    // `fdatasync   259.289 ops/sec    3857 usecs/op`
    let rate: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    1e6 / rate
}

#[test]
#[ignore = "a measurement: needs a quiet machine, and five minutes"]
fn medians_are_within_ten_per_cent_of_fio_and_pg_test_fsync() {
    let (on_disk, in_memory);
    let directory = match std::env::var_os("PEERS_IN") {
        Some(path) => {
            on_disk = tempfile::Builder::new().prefix("peers-").tempdir_in(path).unwrap();
            on_disk.path()
        }
        None => {
            in_memory = Mounted::ext4_in_memory();
            in_memory.path()
        }
    };
    let runs: [(&str, &dyn Fn() -> f64); 4] = [
        ("plimsoll 4 KiB", &|| ours(directory, 4096)),
        ("fio 4 KiB", &|| fio(directory)),
        ("plimsoll 8 KiB", &|| ours(directory, 8192)),
        ("pg_test_fsync 8 KiB", &|| pg_test_fsync(directory)),
    ];
    let mut seen = [const { Vec::new() }; 4];
    for round in 0..ROUNDS {
        // One of a pair directly after the other, either first as often.
        for pair in [0, 2] {
            for at in if round % 2 == 0 { [pair, pair + 1] } else { [pair + 1, pair] } {
                seen[at].push(runs[at].1());
            }
        }
    }
    for ((name, _), all) in runs.iter().zip(&seen) {
        let in_turn: Vec<String> = all.iter().map(|us| format!("{us:.0}")).collect();
        println!("{name:20} median {:6.1} µs, n {ROUNDS}: {}", median(all), in_turn.join(" "));
    }
    let differences = seen.chunks(2).map(|pair| {
        let of_pairs: Vec<f64> = pair[0].iter().zip(&pair[1]).map(|(ours, theirs)| ours / theirs).collect();
        (median(&pair[0]) / median(&pair[1]) - 1.0, median(&of_pairs) - 1.0)
    });
    let differences: Vec<(f64, f64)> = differences.collect();
    for (of_medians, of_pairs) in &differences {
        println!("of medians {:+.1} %, median of pairs {:+.1} %", of_medians * 100.0, of_pairs * 100.0);
    }
    assert!(differences.iter().all(|(of_medians, _)| of_medians.abs() <= 0.1), "{differences:?}");
}

fn median(all: &[f64]) -> f64 {
    let mut sorted = all.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
