//! What making one operation of `kv` costs, for each distribution: nanoseconds of this thread on a processor.
//!
//! `cargo run --release -p plimsoll-workload --example kv`

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program for a terminal")]

use std::hint::black_box;

use plimsoll_core::{ParamValue, Params, StreamSpec, ValueBuf};
use plimsoll_workload::kv;
use plimsoll_workload::scramble::hash;

const OPS: u64 = 2_000_000;
const RUNS: usize = 9;

/// Time that this thread has been on a processor: what else runs on the machine is not in it.
fn on_cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

fn median_ns(mut run: impl FnMut()) -> f64 {
    let mut all: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start_ns = on_cpu_ns();
            run();
            (on_cpu_ns() - start_ns) as f64 / OPS as f64
        })
        .collect();
    all.sort_by(f64::total_cmp);
    all[RUNS / 2]
}

fn for_each(make: impl Fn(u64) -> u64) {
    for cycle in 0..OPS {
        black_box(make(cycle));
    }
}

fn main() {
    println!("median of {RUNS} runs of {OPS} operations, ns for one");
    println!("| distribution | choice | read | update of 1,000 B |");
    println!("|---|---|---|---|");
    let hashing = median_ns(|| for_each(|cycle| hash(1, 0, cycle)));
    for distribution in ["uniform", "zipfian", "scrambled", "latest", "hotspot"] {
        let chooser = kv::Chooser::new(distribution, 1_000_000, 20, 80).unwrap();
        let choice = median_ns(|| for_each(|cycle| chooser.choose(hash(1, 0, cycle))));
        let spec = kv::spec();
        let value = |name: &str| match name {
            "distribution" => ParamValue::Text(distribution.to_owned()),
            "records" => ParamValue::Int(1_000_000),
            _ => ParamValue::Int(spec.params.iter().find(|one| one.name == name).unwrap().default.parse().unwrap()),
        };
        let params = Params(spec.params.iter().map(|one| (one.name.to_owned(), value(one.name))).collect());
        let workload = (spec.make)(1, &params, &[]).unwrap();
        let cost = |kind: &str| {
            let stream = workload.stream(&StreamSpec::One { kind: kind.to_owned(), clients: 1 }).unwrap();
            let mut params = ValueBuf::new();
            median_ns(|| {
                for cycle in 0..OPS {
                    params.clear();
                    black_box(stream.op(0, cycle, &mut params));
                }
            })
        };
        println!("| {distribution} | {:.1} | {:.1} | {:.1} |", choice - hashing, cost("read"), cost("update"));
    }
}
