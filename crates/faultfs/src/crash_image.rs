//! Many crashes from one run: images of what a cut at any place of a kept log would have left.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_core::FileSystem;
use plimsoll_core::fault::Survivors;
use rustix::mount::UnmountFlags;

use crate::error::FaultError;
use crate::extents::Extent;
use crate::image;
use crate::log::{LogEntry, LogKind, log_entries};
use crate::loop_device::{mount_file, unmount};
use crate::survivors::surviving;

/// How long somebody may still use a mounted image that is dropped, before it is taken away under him.
const USE_BOUND: Duration = Duration::from_secs(5);

/// A cut that did not happen, but could have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CrashPoint {
    /// How many records of the log had arrived.
    pub entries: usize,
    /// What survives of the writes that are un-flushed there.
    pub survivors: Survivors,
}

/// Writes an image for each point into the directory `into`, in the order of `points`. Images are files of their own, sparse, and
/// depend on nothing.
///
/// # Errors
/// Where the log is shorter than a point says, or the disk is full.
pub fn crash_images(log: &Path, base: &Path, points: &[CrashPoint], into: &Path) -> Result<Vec<PathBuf>, FaultError> {
    let entries = log_entries(log)?;
    let log_file = File::open(log).map_err(FaultError::at(log))?;
    let name = |index: usize| into.join(format!("{index:06}.img"));
    let durable_path = into.join("durable");
    image::copy(base, &durable_path).map_err(FaultError::at(&durable_path))?;
    let durable = File::options().write(true).open(&durable_path).map_err(FaultError::at(&durable_path))?;
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|index| points[*index].entries);
    let (mut unflushed, mut done) = (Vec::new(), 0);
    for index in order {
        let CrashPoint { entries: until, survivors } = points[index];
        let Some(new) = entries.get(done..until) else {
            let what = format!("{}: it has {} records, and not {until}", log.display(), entries.len());
            return Err(FaultError::Usage(what));
        };
        for entry in new {
            replay(*entry, &mut unflushed, &log_file, &durable).map_err(FaultError::at(&durable_path))?;
        }
        done = until;
        let path = name(index);
        let made = image::copy(&durable_path, &path).and_then(|()| {
            let image = File::options().write(true).open(&path)?;
            let operations = unflushed.iter().map(|extent: &Extent| (extent.end - extent.start, extent.data.is_some()));
            surviving(operations, survivors).into_iter().try_for_each(|piece| {
                let whole = unflushed[piece.operation];
                let first = whole.start + piece.first;
                image::apply(&log_file, &image, whole.part(first, first + piece.sectors))
            })
        });
        made.map_err(FaultError::at(&path))?;
    }
    fs::remove_file(&durable_path).map_err(FaultError::at(&durable_path))?;
    Ok((0..points.len()).map(name).collect())
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
    /// Makes the directory `at`, and mounts the image there; that has the file system recover.
    ///
    /// # Errors
    /// When the file system cannot be mounted, which after a crash is a finding.
    pub fn new(image: &Path, file_system: FileSystem, at: &Path) -> Result<Self, FaultError> {
        fs::create_dir(at).map_err(FaultError::at(at))?;
        let mounted = mount_file(image, file_system, at);
        if mounted.is_err() {
            let _ = fs::remove_dir(at);
        }
        mounted.map(|()| Self(at.to_owned()))
    }

    /// Where it is mounted.
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
