//! Crash images of one run, each mounted and looked at by a command, several at a time.
//!
//! Images are in memory, and their mounts in a mount namespace that ends with this process; the command runs in a process namespace that ends
//! with it, too. So nothing is left, however this process ends.

use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter, Read, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_core::FileSystem;
use rustix::fs::MemfdFlags;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::thread::UnshareFlags;

use crate::counters::SECTOR_BYTES;
use crate::crash_image::{CrashPoint, ImageMount, Replay};
use crate::device::{FUSE, MOUNT};
use crate::error::FaultError;
use crate::fuse::SOURCE;
use crate::image;
use crate::log::{LogEntry, LogKind, log_entries};
use crate::loop_device::LOOK_INTERVAL;
use crate::remove::mount_points;

/// Images whose command could not be run, without another one before, after which it is taken for a mistake.
const NOT_RUN_MAX: usize = 16;
/// Most bytes that are kept of a command's last line.
const SAID_BYTES_MAX: usize = 1024;

/// Images to be checked, and the method.
#[derive(Debug)]
pub struct ImageCheck<'a> {
    /// A log that was kept.
    pub log: &'a Path,
    /// The image on which it begins.
    pub base: &'a Path,
    /// Directory over which images are mounted. Only the command sees them there.
    pub over: &'a Path,
    /// Power cuts to simulate, with their survivors.
    pub points: &'a [CrashPoint],
    /// Command that the shell runs, as root; `{}` in it is replaced by the mount point of the image. The environment
    /// has `PLIMSOLL_CRASH_NS`, the time of the last record before the cut on CLOCK_MONOTONIC,
    /// `PLIMSOLL_CRASH_RECORD`, how many there were, and `PLIMSOLL_CRASH_SURVIVORS`.
    pub command: &'a str,
    /// Required last line of its output, besides exit status 0.
    pub expected: Option<&'a str>,
    /// Number of images that are checked at a time.
    pub jobs: usize,
    /// Time limit of a command.
    pub limit: Duration,
}

/// Result of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageState {
    /// The command ended with 0, and said what it was to say.
    Passed,
    /// The command failed: its end.
    Failed(String),
    /// The file system could not be mounted.
    NotMounted(String),
    /// A command in the check could not be run: the shell's exit status 126 or 127. Nothing is known of the image.
    NotRun(String),
}

/// An image that was looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedImage {
    /// Crash point of the image.
    pub point: CrashPoint,
    /// The time of the last record before the cut, on CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Writes that no flush had made durable; where there are none nothing could be lost.
    pub at_risk_writes: u64,
    /// Result of the check.
    pub state: ImageState,
    /// The last line that the command wrote.
    pub said: String,
}

/// `count` places of a log at which the power could have gone, spread over its records from `from_ns` on: behind a write, and in turn before the
/// flush that follows.
pub fn crash_moments(entries: &[LogEntry], from_ns: u64, count: usize) -> Vec<usize> {
    let is_flush = |index: usize| entries.get(index).is_none_or(|entry| entry.kind == LogKind::Flush);
    let first = entries.partition_point(|entry| entry.at_ns < from_ns);
    let later = entries.len() - first;
    let moment = |number: usize| {
        let at = first + ((number + 1) * later).div_ceil(count);
        let behind = if is_flush(at - 1) { (at + 1).min(entries.len()) } else { at };
        if number.is_multiple_of(2) {
            behind
        } else {
            (behind..=entries.len()).find(|at| is_flush(*at)).unwrap_or(behind)
        }
    };
    if later == 0 { Vec::new() } else { (0..count).map(moment).collect() }
}

/// Makes an image of each point, mounts it, and has the command look at it. Ends early with those that are done when `stop` is set.
///
/// # Errors
/// Where this is not root, the log does not have such a point, there is not enough memory, programs are missing, or the command
/// can be run for no image.
pub fn check_images(check: &ImageCheck<'_>, stop: &AtomicBool) -> Result<Vec<CheckedImage>, FaultError> {
    if !rustix::process::geteuid().is_root() {
        return Err(FaultError::NotRoot);
    }
    for program in ["setpriv", "unshare"] {
        if !Path::new("/usr/bin").join(program).exists() {
            return Err(FaultError::Missing { program, package: "util-linux" });
        }
    }
    let entries = log_entries(check.log)?;
    let file_system = image::file_system(check.base)?;
    must_fit(check, &entries)?;
    let mut order: Vec<usize> = (0..check.points.len()).collect();
    order.sort_by_key(|index| check.points[*index].entries);
    let replay = Replay::new(check.log, check.base, memory().map_err(FaultError::at(check.log))?)?;
    let all = Mutex::new((replay, order.into_iter()));
    let (gone_wrong, ran, not_run) = (AtomicBool::new(false), AtomicBool::new(false), AtomicUsize::new(0));
    let is_over = || stop.load(Ordering::SeqCst) || gone_wrong.load(Ordering::SeqCst);
    let run = || {
        own_mounts(check.over).map_err(FaultError::at(check.over))?;
        must_be_mountable(check.base, file_system, check.over)?;
        let worker = |number: usize| {
            let (all, entries, at) = (&all, &entries, check.over.join(number.to_string()));
            let (is_over, gone_wrong, ran, not_run) = (&is_over, &gone_wrong, &ran, &not_run);
            let work = move || {
                let mut done = Vec::new();
                while !is_over() {
                    let (index, image, at_risk_writes) = {
                        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                        let Some(index) = all.1.next() else { break };
                        let image = memory().map_err(FaultError::at(check.log))?;
                        let at_risk_writes = all.0.image(&check.points[index], &image)?;
                        (index, image, at_risk_writes)
                    };
                    let point = check.points[index];
                    let at_ns = point.entries.checked_sub(1).map_or(0, |last| entries[last].at_ns);
                    let (state, said) = looked_at(check, &point, at_ns, (&image, file_system), &at, is_over)?;
                    if state != ImageState::Passed && is_over() {
                        // Its command was killed for that, and says nothing about the image.
                        break;
                    }
                    if !matches!(state, ImageState::NotRun(_)) {
                        ran.store(true, Ordering::SeqCst);
                    } else if not_run.fetch_add(1, Ordering::SeqCst) + 1 == NOT_RUN_MAX && !ran.load(Ordering::SeqCst) {
                        return Err(cannot_be_run(&said));
                    }
                    done.push((index, CheckedImage { point, at_ns, at_risk_writes, state, said }));
                }
                Ok(done)
            };
            move || work().inspect_err(|_: &FaultError| gone_wrong.store(true, Ordering::SeqCst))
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..check.jobs.max(1)).map(|number| scope.spawn(worker(number))).collect();
            workers.into_iter().map(joined).collect::<Result<Vec<_>, _>>()
        })
    };
    // The namespace is that of a thread, and of those that it starts.
    let done = std::thread::scope(|scope| joined(scope.spawn(run)))?;
    let mut done: Vec<(usize, CheckedImage)> = done.into_iter().flatten().collect();
    done.sort_by_key(|(index, _)| *index);
    if !stop.load(Ordering::SeqCst)
        && let Some((_, first)) = done.first()
        && done.iter().all(|(_, one)| matches!(one.state, ImageState::NotRun(_)))
    {
        return Err(cannot_be_run(&first.said));
    }
    Ok(done.into_iter().map(|(_, checked)| checked).collect())
}

/// Returns the error that the command can be run for no image; the shell has `said` so.
fn cannot_be_run(said: &str) -> FaultError {
    FaultError::Usage(format!("--check cannot be run: {said}; name a command that the shell of root finds"))
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn memory() -> io::Result<File> {
    // The name is what a loop device on it shows.
    let name = format!("crash image of {}", std::process::id());
    Ok(File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?))
}

/// Checks that the durable data and the images of all jobs take at most half of the available memory.
fn must_fit(check: &ImageCheck<'_>, entries: &[LogEntry]) -> Result<(), FaultError> {
    use std::os::unix::fs::MetadataExt;
    let base = fs::metadata(check.base).map_err(FaultError::at(check.base))?;
    let written = entries.iter().filter(|entry| entry.kind == LogKind::Write).map(|entry| entry.sectors * SECTOR_BYTES);
    let image_bytes = (base.blocks() * SECTOR_BYTES + written.sum::<u64>()).min(base.len());
    let needed_bytes = image_bytes * (check.jobs as u64 + 1);
    let table = fs::read_to_string("/proc/meminfo").map_err(FaultError::at(Path::new("/proc/meminfo")))?;
    let available = table
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    match available.map(|kib| kib * 1024) {
        Some(available_bytes) if needed_bytes > available_bytes / 2 => Err(FaultError::Usage(format!(
            "{} images at a time may take {} MiB of memory, and {} MiB are available; look at fewer at a time, or make the device smaller",
            check.jobs,
            needed_bytes >> 20,
            available_bytes >> 20
        ))),
        _ => Ok(()),
    }
}

/// Refuses a `base` that cannot be mounted as it is, for example because a part of it is missing: no image made of it
/// would say anything about a store.
fn must_be_mountable(base: &Path, file_system: FileSystem, over: &Path) -> Result<(), FaultError> {
    let (from, copy) = (File::open(base).map_err(FaultError::at(base))?, memory().map_err(FaultError::at(base))?);
    image::copy_into(&from, &copy).map_err(FaultError::at(base))?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), copy.as_raw_fd());
    match ImageMount::new(Path::new(&path), file_system, &over.join("base")).map(drop) {
        Err(FaultError::NotMountable { source, .. }) => {
            let what = format!("{}: this cannot be mounted as {file_system} ({source})", base.display());
            Err(FaultError::Usage(format!("{what}; use the whole base with which the log was made")))
        }
        mounted => mounted,
    }
}

/// Gives this thread, and those that it starts, a mount namespace, with an empty directory in the place of `over`.
fn own_mounts(over: &Path) -> io::Result<()> {
    // SAFETY: no file descriptor is shared less than before.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS)? };
    rustix::mount::mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    // Devices that lie are not to be held busy from here.
    for at in mount_points(|source, _| source == SOURCE) {
        // One with a loop device on it is below a mount of that; one of files is all there is.
        let above = at.ends_with(FUSE).then(|| at.with_file_name(MOUNT));
        for at in above.into_iter().chain([at]) {
            let _ = rustix::mount::unmount(&at, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        }
    }
    Ok(rustix::mount::mount(c"none", over, c"tmpfs", MountFlags::empty(), Some(c"mode=755,size=1M"))?)
}

/// Mounts an image at `at`, and has the command look at it: what became of it, and what it said last.
fn looked_at(
    check: &ImageCheck<'_>,
    point: &CrashPoint,
    at_ns: u64,
    (image, file_system): (&File, FileSystem),
    at: &Path,
    is_over: &(dyn Fn() -> bool + Sync),
) -> Result<(ImageState, String), FaultError> {
    // By its number alone e2fsck, another process, would not find it.
    let path = format!("/proc/{}/fd/{}", std::process::id(), image.as_raw_fd());
    let _mounted = match ImageMount::new(Path::new(&path), file_system, at) {
        Ok(mounted) => mounted,
        Err(error @ FaultError::NotMountable { .. }) => {
            return Ok((ImageState::NotMounted(error.to_string()), String::new()));
        }
        Err(error) => return Err(error),
    };
    let failed = || FaultError::at(Path::new("/usr/bin/setpriv"));
    let (said, theirs) = io::pipe().map_err(failed())?;
    let (awaited, go) = io::pipe().map_err(failed())?;
    let command = check.command.replace("{}", &at.display().to_string());
    // Whatever it starts dies with the first process of its namespace, that one with `unshare`, and `unshare` with this thread.
    // Each asks for that only after its start, so the shell that they start waits for a word of this thread, or its end.
    let child = Command::new("/usr/bin/setpriv")
        .args([
            "--pdeathsig",
            "KILL",
            "/usr/bin/unshare",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            "echo; read -r _ && exec sh -c \"$0\" </dev/null",
        ])
        .arg(command)
        .env("PLIMSOLL_CRASH_NS", at_ns.to_string())
        .env("PLIMSOLL_CRASH_RECORD", point.entries.to_string())
        .env("PLIMSOLL_CRASH_SURVIVORS", point.survivors.to_string())
        .stdin(awaited)
        .stdout(theirs.try_clone().map_err(failed())?)
        .stderr(theirs)
        // So that Ctrl-C in a terminal does not reach it.
        .process_group(0)
        .spawn();
    let mut child = child.map_err(failed())?;
    let (ended, said) = std::thread::scope(|scope| {
        let reader = scope.spawn(move || last_line(said, go));
        let ended = ended(&mut child, check.limit, is_over);
        (ended, joined(reader))
    });
    let state = match ended.map_err(failed())? {
        // As every shell has it: there is no such command, or it is none.
        Some(status) if matches!(status.code(), Some(126 | 127)) => {
            ImageState::NotRun(format!("not checked, {status}"))
        }
        Some(status) if !status.success() => ImageState::Failed(status.to_string()),
        Some(_) if check.expected.is_some_and(|expected| said != expected) => {
            ImageState::Failed("unexpected answer".to_owned())
        }
        Some(_) => ImageState::Passed,
        None => ImageState::Failed(format!("not done within {} s", check.limit.as_secs_f64())),
    };
    Ok((state, said))
}

/// Waits for the end of a child; returns `None` if it had to be killed.
fn ended(
    child: &mut Child,
    limit: Duration,
    is_over: &dyn Fn() -> bool,
) -> io::Result<Option<std::process::ExitStatus>> {
    let until = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > until || is_over() {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}

/// Returns the last non-empty line from a pipe, after its writers have closed it. Answers the first of them with a line.
fn last_line(mut from: PipeReader, answer: PipeWriter) -> String {
    let (mut kept, mut buffer, mut answer) = (Vec::new(), [0; 4096], Some(answer));
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        // An error means that nothing waits for it.
        let _ = answer.take().map(|mut answer| answer.write_all(b"\n"));
        kept.extend_from_slice(&buffer[..length]);
        kept.drain(..kept.len().saturating_sub(SAID_BYTES_MAX));
    }
    let text = String::from_utf8_lossy(&kept);
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_behind_writes_and_before_flushes() {
        let entry = |at_ns: u64| {
            let kind = if at_ns % 5 == 4 { LogKind::Flush } else { LogKind::Write };
            LogEntry { at_ns, kind, first_sector: 0, sectors: 1, data: 0 }
        };
        let entries: Vec<LogEntry> = (0..100).map(entry).collect();
        let moments = crash_moments(&entries, 50, 10);
        assert_eq!(moments.len(), 10);
        for (number, at) in moments.iter().enumerate() {
            assert!((51..=100).contains(at), "{moments:?}");
            assert!(*at == 100 || entries[*at - 1].kind == LogKind::Write, "{moments:?}");
            assert!(number.is_multiple_of(2) || *at == 100 || entries[*at].kind == LogKind::Flush, "{moments:?}");
        }
        assert!(crash_moments(&entries, 100, 10).is_empty());
    }
}
