//! Writes and reads recordings of a run that never was. What a recording costs, and what the tests kill:
//!
//!     cargo run --release -p plimsoll-record --example recording -- write DIRECTORY SLICES TIMES
//!     cargo run --release -p plimsoll-record --example recording -- read RECORDING
//!
//! `write` puts trials of 50 slices one after the other, of some 1,200 operations TIMES over, says after each slice
//! that it is committed, and at the end what a slice took.

#![allow(clippy::print_stdout, reason = "what is printed is what it is for")]

use std::path::Path;
use std::time::Instant;

use plimsoll_record::data::{PhaseEnd, PhaseState, Run, RunState};

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../tests/it/synthetic.rs"]
mod synthetic;

/// Slices of a trial.
const TRIAL_SLICES: u32 = 50;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["write", directory, slices, times] => {
            let number = |text: &str| text.parse().expect("a number");
            write(Path::new(directory), number(slices), number(times));
        }
        ["read", recording] => read(Path::new(recording)),
        _ => println!("usage: recording write DIRECTORY SLICES TIMES | recording read RECORDING"),
    }
}

fn write(runs_dir: &Path, slices: u32, times: u32) {
    // Made before the run begins: from then on nothing is done but recording.
    let made: Vec<_> = (0..TRIAL_SLICES).map(|ordinal| synthetic::busy_slice(ordinal, times)).collect();
    let moment = std::time::UNIX_EPOCH.elapsed().expect("a time after 1970").as_nanos() as i64;
    let id = plimsoll_record::run_id(moment, std::process::id().into());
    let recorder = synthetic::recorder(runs_dir, &id);
    println!("run {}", recorder.directory().display());
    let mut times_us = Vec::new();
    let mut put = || {
        for trial in 0..slices.div_ceil(TRIAL_SLICES) {
            recorder.begin_trial(synthetic::trial(trial))?;
            recorder.begin_phase(synthetic::phase(trial, 0))?;
            for (slice, ordinal) in made.iter().zip(0..slices - trial * TRIAL_SLICES) {
                let (slice, sample) = (slice.clone(), synthetic::sample(trial, ordinal));
                let start = Instant::now();
                recorder.sample(sample)?;
                recorder.slice(trial, 0, slice)?;
                recorder.flush()?;
                times_us.push(start.elapsed().as_secs_f64() * 1e6);
                println!("committed {trial} {ordinal}");
            }
            recorder.end_phase(trial, 0, PhaseEnd { end_ns: 9, state: PhaseState::Complete, ..PhaseEnd::default() })?;
            recorder.end_trial(trial, 9)?;
        }
        recorder.flush()
    };
    let put = put();
    let bytes = recorder.bytes_written();
    let finished = recorder.finish(RunState::Complete, 9);
    times_us.sort_by(f64::total_cmp);
    let at = |share: f64| times_us.get((times_us.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN);
    println!("slice to commit: n {}, median {:.0} us, p99 {:.0} us", times_us.len(), at(0.5), at(0.99));
    println!("written to the device before the end: {bytes} B");
    println!("put: {put:?}");
    println!("finished: {finished:?}");
}

fn read(path: &Path) {
    let start = Instant::now();
    match Run::load(path) {
        Ok(run) => {
            let slices: usize = run.trials.iter().flat_map(|trial| &trial.phases).map(|phase| phase.slices.len()).sum();
            println!("state: {:?}", run.state);
            println!("slices: {slices}, samples: {}", run.samples.len());
            println!("recorder: {} B", run.recorder_bytes);
            println!("read in {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
        }
        Err(error) => println!("error: {error}"),
    }
}
