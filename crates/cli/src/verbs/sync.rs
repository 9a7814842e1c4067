//! `plimsoll sync`: what write + flush costs, and whether flushes can be real.

mod powercut;
mod shown;

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_core::shown::clean;
use plimsoll_disk::group::{self, WriterGroup};
use plimsoll_disk::judge::{FlushVerdict, Judgement, Probe, judge, probe};
use plimsoll_disk::latency::{Outcome, Site, Target, measure};
use plimsoll_disk::place::StorageLocation;
use plimsoll_disk::scratch::Scratch;
use plimsoll_disk::ways::{Flushing, Point, SIZES, Writing, every, telling};
use plimsoll_sample::environment::hypervisor;
use plimsoll_trial::TrialError;
use serde::Serialize;

use crate::args::SyncArgs;
use crate::error::exit;
use crate::progress::Progress;
use crate::{interrupt, options};

/// Most bytes of a write.
const SIZE_MAX: u64 = 64 << 20;
/// Group commit is measured for this share of the time of a point: it has many numbers of threads.
const SHARE: f64 = 0.5;

/// Results of the command.
#[derive(Debug, Serialize)]
struct Answer {
    path: String,
    judgement: Judgement,
    place: StorageLocation,
    probe: Option<Probe>,
    points: Vec<Row>,
    group: Vec<WriterGroup>,
    interrupted: bool,
}

#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    point: Point,
    outcome: Outcome,
}

/// Carries out the command.
pub fn run(args: &SyncArgs) -> Result<u8, TrialError> {
    if let Some(address) = &args.listen {
        return powercut::listen(args, address);
    }
    if let Some(to) = &args.report_to {
        return powercut::report(args, to);
    }
    if let Some(file) = &args.verify {
        return powercut::verify(args, file);
    }
    let takes = args.takes.as_deref().map_or(Ok(Duration::from_secs(1)), |given| options::time("for", given))?;
    let is_device = std::fs::metadata(&args.path).is_ok_and(|about| about.file_type().is_block_device());
    if is_device && !args.overwrite_device {
        return Err(refused(&args.path)?);
    }
    let points = points(args, is_device)?;
    let stop = interrupt::of_command();
    // Held until the end: dropping removes it.
    let scratch = if is_device { None } else { Some(Scratch::new(&args.path)?) };
    let place = StorageLocation::of(&args.path)?;
    let target = match &scratch {
        Some(scratch) => Target::Directory(scratch.path().to_owned()),
        None => Target::Device(args.path.clone()),
    };
    let site = Site { target, in_memory: place.is_memory() };
    let answer = measured(args, (site, place), &points, takes, &stop)?;
    drop(scratch);
    let code = match answer.judgement.verdict {
        FlushVerdict::CannotBeReal => exit::GOAL_MISSED,
        _ if answer.interrupted => exit::INTERRUPTED,
        _ => exit::OK,
    };
    if args.json {
        crate::print(&plimsoll_report::json(&answer))?
    } else {
        shown::answer(&answer)?
    };
    Ok(code)
}

/// Sizes that were named, or `default`.
fn sizes(args: &SyncArgs, default: &[usize]) -> Result<Vec<usize>, TrialError> {
    let mut sizes = Vec::new();
    for given in &args.size {
        match options::size("size", given)? {
            bytes @ 512..=SIZE_MAX => sizes.push(bytes as usize),
            _ => return Err(TrialError::usage(format!("--size {given}: 512 B to 64 MiB can be written at a time"))),
        }
    }
    Ok(if sizes.is_empty() { default.to_vec() } else { sizes })
}

/// Returns the points to measure. A device has no files: points on it overwrite, without a load beside them.
fn points(args: &SyncArgs, is_device: bool) -> Result<Vec<Point>, TrialError> {
    let sizes = sizes(args, &SIZES)?;
    let (all, few) =
        ((Writing::ALL.to_vec(), Flushing::ALL.to_vec()), (vec![Writing::Overwrite], vec![Flushing::Fdatasync]));
    let (writings, flushings) = if args.all { all } else { few };
    let mut points = if args.all || !args.write.is_empty() || !args.flush.is_empty() {
        every(
            &sizes,
            &named_or(&args.write, Writing::named, writings),
            &named_or(&args.flush, Flushing::named, flushings),
        )
    } else {
        telling(&sizes)
    };
    if is_device {
        let mut on_device: Vec<Point> = Vec::new();
        for point in points.into_iter().map(|point| Point { writing: Writing::Overwrite, loaded: false, ..point }) {
            if !on_device.contains(&point) {
                on_device.push(point);
            }
        }
        points = on_device;
    }
    Ok(points)
}

/// The ways that were named, or `default`.
fn named_or<T>(given: &[String], named: fn(&str) -> Option<T>, default: Vec<T>) -> Vec<T> {
    if given.is_empty() { default } else { given.iter().filter_map(|word| named(word)).collect() }
}

/// Returns the refusal to write to the device at `path`, with all that is known of it without a write.
fn refused(path: &Path) -> Result<TrialError, TrialError> {
    let place = StorageLocation::of(path)?;
    let seen = judge(&place, hypervisor().as_deref(), None);
    let what = format!("{} is a block device: measuring overwrites what is on it", clean(&path.display().to_string()));
    Ok(TrialError::usage(what)
        .detail(seen.reasons.join("\n"))
        .next("add --overwrite-device where nothing on it is needed, or name a directory on it"))
}

fn measured(
    args: &SyncArgs,
    (site, place): (Site, StorageLocation),
    points: &[Point],
    takes: Duration,
    stop: &AtomicBool,
) -> Result<Answer, TrialError> {
    let groups: Vec<(usize, bool)> =
        [false, true].into_iter().flat_map(|shared| group::THREADS.map(|threads| (threads, shared))).collect();
    let directory = match &site.target {
        // Who names ways wants these alone.
        Target::Directory(directory) if args.write.is_empty() && args.flush.is_empty() => Some(directory),
        _ => None,
    };
    let besides = if directory.is_some() { groups.len() } else { 0 };
    let progress = Progress::new(args.quiet, None, None);
    let mut line = Steps { progress, at: 0, of: 1 + points.len() + besides };
    line.step("do flushes reach a device?");
    let probe = probe(&site, &place, stop)?;
    let judgement = judge(&place, hypervisor().as_deref(), probe.as_ref());
    let mut rows = Vec::new();
    for &point in points {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        line.step(&shown::named(point));
        rows.extend(measure(&site, point, takes, stop)?.map(|outcome| Row { point, outcome }));
    }
    let mut group = Vec::new();
    if let Some(directory) = directory {
        let counters = place.counters();
        for (threads, shared) in groups {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            line.step(&format!("group commit, {threads} threads, {}", if shared { "one file" } else { "own files" }));
            group.extend(group::measure(directory, (threads, shared), takes.mul_f64(SHARE), &counters, stop)?);
        }
    }
    line.progress.clear();
    let interrupted = stop.load(Ordering::Relaxed);
    let path = args.path.display().to_string();
    Ok(Answer { path, judgement, place, probe, points: rows, group, interrupted })
}

/// Progress by numbered steps.
struct Steps {
    progress: Progress,
    at: usize,
    of: usize,
}

impl Steps {
    fn step(&mut self, what: &str) {
        self.at += 1;
        let line = format!("{}/{} · {what}", self.at, self.of);
        if self.at == 1 { self.progress.note(&line) } else { self.progress.step(line) }
    }
}
