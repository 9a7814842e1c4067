//! Write + flush again and again: how long it takes, on an idle device or beside a background writer.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plimsoll_core::StoreError;
use serde::Serialize;

use crate::error::failed;
use crate::times::{Clocked, FlushTimes};
use crate::ways::{Flushing, Point, Writing};
pub use crate::writer::Target;
use crate::writer::{BlockWriter, WriteBlock, lay_out, open};

/// Most bytes that a point writes, for each second that it may take (and no less than for one).
const BYTES_PER_S: u64 = 256 << 20;
/// The background writer: bytes of a write, of its file, and between two flushes.
const LOAD_WRITE: usize = 256 << 10;
const LOAD_FILE: u64 = 64 << 20;
const LOAD_FLUSH: u64 = 4 << 20;

/// Properties of the place that are known before the measurement.
#[derive(Debug, Clone)]
pub struct Site {
    /// Target of the writes.
    pub target: Target,
    /// True if the data is in memory: O_DIRECT has no effect there, whatever open(2) returns.
    pub in_memory: bool,
}

impl Site {
    pub(crate) fn path(&self) -> &Path {
        match &self.target {
            Target::Directory(path) | Target::Device(path) => path,
        }
    }
}

/// Outcome of a point.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The point was measured.
    Measured(Measured),
    /// The way does not exist here, with the reason.
    NotHere(String),
}

/// Measurements of a point.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// Times of write + flush.
    pub times: FlushTimes,
    /// Bytes per second of the background writer, if there was one.
    pub load_bytes_per_s: Option<f64>,
}

/// Measures `point` for so long, or until `stop`; `None` where nothing was seen until then.
pub fn measure(site: &Site, point: Point, takes: Duration, stop: &AtomicBool) -> Result<Option<Outcome>, StoreError> {
    if let Some(why) = impossible(site, point) {
        return Ok(Some(Outcome::NotHere(why)));
    }
    match attempt(site, point, takes, stop) {
        Ok(measured) => Ok(measured.map(Outcome::Measured)),
        Err(error) => match missing(point, &error) {
            Some(why) => Ok(Some(Outcome::NotHere(why))),
            None => Err(failed(site.path().display(), &error)),
        },
    }
}

fn impossible(site: &Site, point: Point) -> Option<String> {
    if matches!(site.target, Target::Device(_)) && (point.writing != Writing::Overwrite || point.loaded) {
        return Some("a device has no files".to_owned());
    }
    if site.in_memory && point.flushing == Flushing::Direct {
        return Some("there is no device behind it".to_owned());
    }
    (point.flushing == Flushing::Direct && !point.size_bytes.is_multiple_of(512))
        .then(|| "O_DIRECT takes multiples of 512 bytes".to_owned())
}

fn attempt(site: &Site, point: Point, takes: Duration, stop: &AtomicBool) -> io::Result<Option<Measured>> {
    let mut writer = BlockWriter::new(&site.target, "file", point.size_bytes, point.writing, point.flushing)?;
    let mut clocked = Clocked::default();
    let most = (BYTES_PER_S as f64 * takes.as_secs_f64().max(1.0) / point.size_bytes as f64) as u64;
    let mut timed = || -> io::Result<()> {
        let deadline = Instant::now() + takes;
        while clocked.n() == 0 || clocked.n() < most && Instant::now() < deadline {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            clocked.note(writer.once()?);
        }
        Ok(())
    };
    let load_bytes_per_s = if point.loaded { Some(beside_load(site, timed)?) } else { timed().map(|()| None)? };
    Ok(clocked.times().map(|times| Measured { times, load_bytes_per_s }))
}

/// Returns the reason if `error` means that this file system has no such call.
fn missing(point: Point, error: &io::Error) -> Option<String> {
    use rustix::io::Errno;
    let may_be_missing = matches!(point.flushing, Flushing::Direct | Flushing::Uring | Flushing::Range)
        || point.writing == Writing::Preallocated;
    match error.raw_os_error().map(Errno::from_raw_os_error)? {
        Errno::INVAL | Errno::NOTSUP | Errno::NOSYS | Errno::SPIPE if may_be_missing => Some(error.to_string()),
        Errno::PERM | Errno::ACCESS if point.flushing == Flushing::Uring => {
            Some(format!("io_uring is not permitted: {error}"))
        }
        _ => None,
    }
}

/// Does `timed` beside a background writer, and says how many bytes a second that wrote.
fn beside_load(site: &Site, timed: impl FnOnce() -> io::Result<()>) -> io::Result<f64> {
    let (done, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let path = site.path().join("load");
    lay_out(&path, LOAD_FILE)?;
    std::thread::scope(|scope| {
        let spawned = std::thread::Builder::new().name("load".to_owned());
        let writer = spawned.spawn_scoped(scope, || load(&path, &done, &written))?;
        let begun = Instant::now();
        let result = timed();
        let rate = written.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
        done.store(true, Ordering::Relaxed);
        let ended = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let _ = std::fs::remove_file(&path);
        result.and(ended).map(|()| rate)
    })
}

/// Overwrites a file from beginning to end, flushed now and then, as a checkpoint or a compaction does; no faster than
/// [`BYTES_PER_S`].
fn load(path: &Path, done: &AtomicBool, written: &AtomicU64) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    let (file, mut block) = (open(path, 0)?, WriteBlock::new(LOAD_WRITE));
    let (begun, mut bytes) = (Instant::now(), 0_u64);
    while !done.load(Ordering::Relaxed) {
        file.write_all_at(block.next(), bytes % LOAD_FILE)?;
        bytes += LOAD_WRITE as u64;
        if bytes % LOAD_FLUSH == 0 {
            rustix::fs::fdatasync(&file)?;
            written.store(bytes, Ordering::Relaxed);
            let due = Duration::from_secs_f64(bytes as f64 / BYTES_PER_S as f64);
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
        }
    }
    Ok(())
}
