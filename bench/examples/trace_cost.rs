//! Cost of being traced: `cargo run --release --manifest-path bench/Cargo.toml --example trace_cost [ROUNDS]`.
//! Loops of fdatasync on a file in memory, and of getppid, which is not traced; without and with a tracer in turn.

#![allow(clippy::print_stdout, reason = "it prints what it measures")]

use std::error::Error;
use std::fs::File;
use std::time::{Duration, Instant};

use plimsoll_trace::{TraceSpec, Tracer, Way};

/// Processor time of one call: of the fastest block of a thousand, since a machine that others use makes all the others slower.
fn ns_each(calls: u32, mut call: impl FnMut()) -> f64 {
    const BLOCK: u32 = 1_000;
    let block = |_| {
        let start = cpu_ns();
        (0..BLOCK).for_each(|_| call());
        (cpu_ns() - start) / f64::from(BLOCK)
    };
    (0..calls / BLOCK).map(block).fold(f64::INFINITY, f64::min)
}

fn cpu_ns() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

fn main() -> Result<(), Box<dyn Error>> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(7), |text| text.parse())?;
    let file = tempfile::tempfile_in("/dev/shm")?;
    let own = std::process::id();
    // Process that is followed: none, this one, or another.
    let cases = [("none", None), ("bpf", Some((Way::Bpf, own))), ("bpf, another process", Some((Way::Bpf, 2)))];
    let mut figures = vec![(Vec::new(), Vec::new(), Vec::new(), Vec::new()); cases.len()];
    for _ in 0..rounds {
        for ((_, traced), (syncs, others, starts, reads)) in cases.iter().zip(&mut figures) {
            let start = Instant::now();
            let spec =
                |way, pid| TraceSpec { pids: Some(vec![pid]), threshold: Duration::from_secs(10), way: Some(way) };
            let mut tracer = traced.map(|(way, pid)| Tracer::start(&spec(way, pid))).transpose()?;
            starts.push(start.elapsed().as_secs_f64() * 1e3);
            syncs.push(ns_each(200_000, || sync(&file)));
            others.push(ns_each(500_000, || {
                let _ = rustix::process::getppid();
            }));
            if let Some(tracer) = &mut tracer {
                std::thread::sleep(Duration::from_millis(50));
                let start = Instant::now();
                let found = tracer.read()?;
                reads.push(start.elapsed().as_secs_f64() * 1e3);
                let wanted = if traced.is_some_and(|(_, pid)| pid == own) { "calls" } else { "calls of others" };
                eprintln!("{} {wanted}, {} lost", found.times().len(), found.lost);
            }
        }
    }
    println!("n = {rounds}, median (least … most)");
    for ((name, _), (syncs, others, starts, reads)) in cases.iter().zip(&mut figures) {
        let shown = |all: &mut Vec<f64>| {
            all.sort_by(f64::total_cmp);
            let at = |place: usize| all.get(place).copied().unwrap_or(0.0);
            format!("{:.1} ({:.1} … {:.1})", at(all.len() / 2), at(0), at(all.len().saturating_sub(1)))
        };
        println!(
            "{name}: fdatasync {} ns, getppid {} ns, start {} ms, read {} ms",
            shown(syncs),
            shown(others),
            shown(starts),
            shown(reads)
        );
    }
    Ok(())
}

fn sync(file: &File) {
    let _ = rustix::fs::fdatasync(file);
}
