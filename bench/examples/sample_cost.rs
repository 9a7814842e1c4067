//! Measures the cost of reading the samplers, and prints their readings.
//!
//!     cargo run --release --manifest-path bench/Cargo.toml --example sample_cost -- [PID ...]
//!
//! PIDs are those of servers, each of which is a node; without them the sampler `server` has nothing to read.

#![allow(clippy::print_stdout, reason = "what is printed is what it is for")]

use std::time::{Duration, Instant};

use plimsoll_core::NodeSite;
use plimsoll_sample::{ServerProcesses, environment, open, specs};

fn main() {
    let server = ServerProcesses::default();
    let pids = std::env::args().skip(1).filter_map(|pid| pid.parse().ok());
    server.set(pids.enumerate().map(|(node, pid)| NodeSite { node, pid, directory: "/".into() }).collect());
    for (name, value) in environment(std::path::Path::new(".")) {
        println!("{name}: {value}");
    }
    let names: Vec<String> = specs().iter().map(|spec| spec.name.to_owned()).collect();
    let (mut samplers, unavailable) = open(&names, &server);
    for (name, reason) in unavailable {
        println!("{name}: {reason}");
    }
    let mut times_us = vec![Vec::new(); samplers.len() + 1];
    let mut series = vec![0; samplers.len()];
    for _ in 0..200 {
        std::thread::sleep(Duration::from_millis(20));
        let start = Instant::now();
        for ((times, (_, sampler)), series) in times_us.iter_mut().zip(&mut samplers).zip(&mut series) {
            let start = Instant::now();
            *series = sampler.sample().len();
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        let all = samplers.len();
        times_us[all].push(start.elapsed().as_secs_f64() * 1e6);
    }
    let names = samplers.iter().map(|(name, _)| *name).zip(series);
    for ((name, series), times) in names.chain([("all", 0)]).zip(&mut times_us) {
        times.sort_by(f64::total_cmp);
        let (median, late) = (times[times.len() / 2], times[times.len() * 9 / 10]);
        println!("{name}: {series} series, n {}, median {median:.1} us, p90 {late:.1} us", times.len());
    }
}
