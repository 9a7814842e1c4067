//! Removing a device: mounts, what frees itself with them, and files. Also one whose daemon was killed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_core::mounts::{MOUNTS_FILE, mounts};
use rustix::fs::FlockOperation;
use rustix::mount::UnmountFlags;

use crate::control::SOCKET;
use crate::device::{BASE, FILES, FUSE, IMAGE, IMAGES, LOG, MARK, MOUNT, UNDO};
use crate::fuse::SOURCE;
use crate::loop_device::unmount;

/// Time that processes may still use a mount before it is detached.
const USE_BOUND: Duration = Duration::from_secs(5);

/// Contents of the mark in a directory that the device made, and that goes with it.
pub(crate) const MADE: &[u8] = b"made";

/// Removes what is in a device's directory. Its power is off, or its daemon is dead: nothing here waits for a disk.
pub(crate) fn remove(directory: &Path) -> io::Result<()> {
    let mut limit = USE_BOUND;
    let below = mount_points(|_, at| at.starts_with(directory.join(IMAGES)));
    for at in below.into_iter().rev().chain([directory.join(MOUNT), directory.join(FUSE)]) {
        if !unmount(&at, limit)? {
            // Who is in one keeps the other busy.
            limit = Duration::ZERO;
            // It is out of everybody's way then, and goes with the last one who has a file open in it.
            rustix::mount::unmount(&at, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?;
        }
    }
    let is_there = |done: &io::Error| done.kind() != io::ErrorKind::NotFound;
    // The mark is last: by it a sweep finds the remains if this process is killed.
    let files = [IMAGE, BASE, LOG, SOCKET].map(|name| fs::remove_file(directory.join(name)));
    let directories = [MOUNT, FUSE].map(|name| fs::remove_dir(directory.join(name)));
    let trees = [IMAGES, FILES, UNDO].map(|name| fs::remove_dir_all(directory.join(name)));
    for done in files.into_iter().chain(directories).chain(trees) {
        done.or_else(|error| if is_there(&error) { Err(error) } else { Ok(()) })?;
    }
    let is_made = fs::read(directory.join(MARK)).is_ok_and(|mark| mark == MADE);
    fs::remove_file(directory.join(MARK)).or_else(|error| if is_there(&error) { Err(error) } else { Ok(()) })?;
    if is_made {
        // It stays with what others put there.
        let _ = fs::remove_dir(directory);
    }
    Ok(())
}

/// The mark of a device in `directory`, if there is one; locked, if neither its owner nor its daemon is alive.
pub(crate) fn mark(directory: &Path) -> Option<(File, bool)> {
    let mark = File::open(directory.join(MARK)).ok()?;
    let is_ours = mark.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.uid() == 0);
    let is_free = rustix::fs::flock(&mark, FlockOperation::NonBlockingLockExclusive).is_ok();
    is_ours.then_some((mark, is_free))
}

/// Removes devices whose owner and daemon were both killed, and says where they were. They are found by their FUSE mounts.
pub fn sweep_orphans() -> Vec<PathBuf> {
    mounted_devices().into_iter().filter(|directory| sweep(directory)).collect()
}

/// Returns the directories of all devices that are mounted here.
pub fn mounted_devices() -> Vec<PathBuf> {
    let mounts = mount_points(|source, _| source == SOURCE);
    mounts.iter().filter_map(|at| Some(at.parent()?.to_owned())).collect()
}

/// Returns the mount points, in order, that `is_meant` selects by source and place (proc_pid_mountinfo(5)).
pub(crate) fn mount_points(is_meant: impl Fn(&str, &Path) -> bool) -> Vec<PathBuf> {
    let table = fs::read_to_string(MOUNTS_FILE).unwrap_or_default();
    let meant = mounts(&table).filter(|mount| is_meant(&mount.source, &mount.mount_point));
    meant.map(|mount| mount.mount_point).collect()
}

/// Removes the device in `directory` if it was left.
pub(crate) fn sweep(directory: &Path) -> bool {
    let Some((_locked, true)) = mark(directory) else { return false };
    // A process that waits for an answer of a stopped or partly removed daemon gets an error (fuse: abort on a forced
    // unmount).
    for at in mount_points(|source, at| source == SOURCE && at.starts_with(directory)) {
        let _ = rustix::mount::unmount(at, UnmountFlags::FORCE | UnmountFlags::NOFOLLOW);
    }
    remove(directory).is_ok()
}
