use std::path::PathBuf;
use std::time::{Duration, Instant};

use plimsoll_record::Distribution;
use plimsoll_record::data::{Run, RunState};

use crate::{synthetic, writer};

/// Slices of a trial of the example.
const TRIAL_SLICES: u32 = 50;

#[test]
fn a_kill_at_any_moment_loses_no_committed_slice() {
    let place = tempfile::tempdir().unwrap();
    let (mut longest, mut unsaid) = (0, 0);
    let step = if std::env::var_os("PLIMSOLL_HEAVY").is_some() { 1 } else { 4 };
    for moment in (step as u64 - 1..20).step_by(step) {
        let (mut child, mut lines) = writer(place.path());
        let first = lines.next().expect("the run's directory");
        let directory = PathBuf::from(first.strip_prefix("run ").expect("the run's directory"));
        // After so many slices, of which a trial has fifty; where a kill falls within a commit is chance.
        let written = lines.by_ref().filter(|line| line.starts_with("committed ")).nth(5 * moment as usize);
        let wait = Duration::from_micros((moment * 7_919) % 25_000);
        let killer = std::thread::spawn(move || {
            std::thread::sleep(wait);
            child.kill().expect("it was still alive");
            child.wait().expect("it can be waited for")
        });
        // A line is one write to a pipe: whole, or not there.
        let last = lines.filter(|line| line.starts_with("committed ")).last().or(written);
        let status = killer.join().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
        let committed = last.map_or(0, |line| {
            let numbers: Vec<u32> = line.split(' ').skip(1).filter_map(|number| number.parse().ok()).collect();
            numbers.first().map_or(0, |trial| trial * TRIAL_SLICES + numbers.get(1).map_or(0, |ordinal| ordinal + 1))
        });

        assert!(!plimsoll_record::is_live(&directory));
        let start = Instant::now();
        let run = Run::load(&directory).unwrap();
        assert_eq!((&run.state, run.end_ns), (&RunState::Unfinished, None));
        let mut found = 0;
        for (trial, read) in run.trials.iter().enumerate() {
            for slice in read.phases.iter().flat_map(|phase| &phase.slices) {
                assert_eq!(slice.ordinal, found % TRIAL_SLICES, "trial {trial}");
                assert_eq!(run.samples[found as usize], synthetic::sample(trial as u32, slice.ordinal));
                found += 1;
            }
        }
        // What is read of a slice's end goes before it.
        assert!((found..=found + 1).contains(&(run.samples.len() as u32)), "{found}, {}", run.samples.len());
        // One slice may be committed and not yet said to be.
        assert!(found == committed || found == committed + 1, "{found} read back, {committed} committed");
        unsaid += found - committed;
        longest = longest.max(found);
        if let Some(slice) = run.trials.last().and_then(|trial| trial.phases.last()).and_then(|all| all.slices.last()) {
            for (read, made) in slice.histograms.iter().zip(synthetic::slice(slice.ordinal).histograms) {
                assert_eq!(read.histogram, Distribution::from(&made.histogram));
            }
        }
        assert!(start.elapsed() < Duration::from_secs(20));
    }
    assert!(longest > TRIAL_SLICES, "no kill came after a checkpoint: the longest run had {longest} slices");
    println!("up to {longest} slices; {unsaid} kills fell between a commit and the word of it");
}
