//! Many crashes from one run: images of what a cut at any place of a kept log would have left.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_core::FileSystem;
use plimsoll_core::fault::Survivors;
use rustix::mount::UnmountFlags;

use crate::counters::SECTOR_BYTES;
use crate::device::{mount_repaired, private};
use crate::error::FaultError;
use crate::extents::Extent;
use crate::image;
use crate::log::{LogEntry, LogKind, log_entries};
use crate::loop_device::unmount;
use crate::survivors::surviving;

/// Time that processes may still use a mounted image that is dropped, before it is detached.
const USE_BOUND: Duration = Duration::from_secs(5);

/// The size of a device is a multiple of it.
pub(crate) const BLOCK_BYTES: u64 = 8 * SECTOR_BYTES;
/// Most bytes at the end of a device that its file system does not use: mkfs leaves out a last group that is too small.
const UNUSED_BYTES: u64 = 16 << 20;

/// A cut that did not happen, but could have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CrashPoint {
    /// Number of log records that had arrived.
    pub entries: usize,
    /// Survivors of the writes that are un-flushed there.
    pub survivors: Survivors,
}

/// Writes an image for each point into the directory `into`, in the order of `points`. Images are files of their own, sparse, and
/// depend on nothing.
///
/// # Errors
/// Where the log is shorter than a point says, an image is there already, or the disk is full.
pub fn crash_images(log: &Path, base: &Path, points: &[CrashPoint], into: &Path) -> Result<Vec<PathBuf>, FaultError> {
    let name = |index: usize| into.join(format!("{index:06}.img"));
    let durable_path = into.join(format!(".plimsoll-durable-{}", std::process::id()));
    let durable = private().create_new(true).open(&durable_path).map_err(FaultError::at(&durable_path))?;
    // Only this process uses it.
    fs::remove_file(&durable_path).map_err(FaultError::at(&durable_path))?;
    let mut replay = Replay::new(log, base, durable)?;
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|index| points[*index].entries);
    for index in order {
        let path = name(index);
        let image = private().create_new(true).open(&path).map_err(FaultError::at(&path))?;
        replay.image(&points[index], &image)?;
    }
    Ok((0..points.len()).map(name).collect())
}

/// Refuses a base that the log was not made with: a part of one, one with more behind it, or that of another device.
fn must_be_whole(base: &Path, entries: &[LogEntry]) -> Result<(), FaultError> {
    let bytes = fs::metadata(base).map_err(FaultError::at(base))?.len();
    let file_system = image::file_system(base)?;
    let within = image::file_system_bytes(base, file_system)?;
    let written = entries.iter().map(|entry| (entry.first_sector + entry.sectors).saturating_mul(SECTOR_BYTES)).max();
    let what = match bytes {
        _ if !bytes.is_multiple_of(BLOCK_BYTES) => format!("{bytes} bytes are not a multiple of {BLOCK_BYTES}"),
        _ if bytes < within => format!("{bytes} bytes are only a part of its {file_system}, which has {within}"),
        _ if bytes - within > UNUSED_BYTES => {
            format!("{bytes} bytes are too many for its {file_system}, which has {within}")
        }
        _ if written.is_some_and(|end| end > bytes) => format!("the log has writes behind its {bytes} bytes"),
        _ => return Ok(()),
    };
    Err(FaultError::Usage(format!("{}: {what}; use the whole base with which the log was made", base.display())))
}

/// A log that is gone through once, from its beginning: images are made in its order.
#[derive(Debug)]
pub(crate) struct Replay {
    /// Path, for error messages.
    path: PathBuf,
    log: File,
    entries: Vec<LogEntry>,
    /// State after the first `done` of them: durable data, and un-flushed writes.
    durable: File,
    unflushed: Vec<Extent>,
    done: usize,
}

impl Replay {
    /// Begins with `base`, which is copied into `durable`, an empty file.
    pub(crate) fn new(log: &Path, base: &Path, durable: File) -> Result<Self, FaultError> {
        let entries = log_entries(log)?;
        must_be_whole(base, &entries)?;
        let base_file = File::open(base).map_err(FaultError::at(base))?;
        image::copy_into(&base_file, &durable).map_err(FaultError::at(base))?;
        let log_file = File::open(log).map_err(FaultError::at(log))?;
        Ok(Self { path: log.to_owned(), log: log_file, entries, durable, unflushed: Vec::new(), done: 0 })
    }

    /// Makes of `image`, an empty file, what a cut at `point` leaves, which is at or behind the one before. Says how many writes were at risk
    /// there.
    pub(crate) fn image(&mut self, point: &CrashPoint, image: &File) -> Result<u64, FaultError> {
        let Some(new) = self.entries.get(self.done..point.entries) else {
            let (path, there, wanted) = (self.path.display(), self.entries.len(), point.entries);
            return Err(FaultError::Usage(format!("{path}: the log has {there} records, not {wanted}")));
        };
        let made = new.iter().try_for_each(|entry| replay(*entry, &mut self.unflushed, &self.log, &self.durable));
        let made = made.and_then(|()| {
            self.done = point.entries;
            image::copy_into(&self.durable, image)?;
            let operations = self.unflushed.iter().map(|extent| (extent.end - extent.start, extent.data.is_some()));
            surviving(operations, point.survivors).into_iter().try_for_each(|piece| {
                let whole = self.unflushed[piece.operation];
                let first = whole.start + piece.first;
                image::apply(&self.log, image, whole.part(first, first + piece.sectors))
            })
        });
        made.map_err(FaultError::at(&self.path))?;
        Ok(self.unflushed.iter().filter(|extent| extent.data.is_some()).count() as u64)
    }
}

fn replay(entry: LogEntry, unflushed: &mut Vec<Extent>, log: &File, durable: &File) -> std::io::Result<()> {
    let data = match entry.kind {
        LogKind::Write => Some(entry.data),
        LogKind::Discard => None,
        LogKind::Flush => return unflushed.drain(..).try_for_each(|extent| image::apply(log, durable, extent)),
    };
    unflushed.push(Extent { start: entry.first_sector, end: entry.first_sector + entry.sectors, data });
    Ok(())
}

/// An image that is mounted, by a loop device of its own. Many can be at a time.
#[derive(Debug)]
pub struct ImageMount(PathBuf);

impl ImageMount {
    /// Makes the directory `at`, and mounts the image there; that has the file system recover. An ext4 that cannot be mounted is repaired first.
    ///
    /// # Errors
    /// When the file system cannot be mounted, which after a crash is a finding.
    pub fn new(image: &Path, file_system: FileSystem, at: &Path) -> Result<Self, FaultError> {
        fs::create_dir(at).map_err(FaultError::at(at))?;
        let mounted = mount_repaired(image, file_system, at);
        if mounted.is_err() {
            let _ = fs::remove_dir(at);
        }
        mounted.map(|()| Self(at.to_owned()))
    }

    /// Returns the mount point.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ImageMount {
    fn drop(&mut self) {
        if !matches!(unmount(&self.0, USE_BOUND), Ok(true)) {
            let _ = rustix::mount::unmount(&self.0, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        }
        let _ = fs::remove_dir(&self.0);
    }
}
