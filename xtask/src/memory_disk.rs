//! A disk in memory for the tests: an ext4 file system over a loop device whose file is in `/dev/shm`.
//!
//! Servers, recordings and crash images of tests are in `/var/tmp` and `/tmp`. On a slow disk they wait for their own flushes
//! and for their neighbours' writes. What a flush means is the file system's and the
//! kernel's affair, and stays the same. The mounts are in a mount namespace of the run, so no other program sees them, and the kernel
//! removes them with its last process.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::memory::available_kib;
use crate::process::line_of;
use crate::setup::free_gb;

/// Environment variable of a run that is in a mount namespace of its own.
const INSIDE: &str = "PLIMSOLL_TEST_MOUNTS";
/// Directories that the file system stands in for.
const PLACES: [&str; 2] = ["/var/tmp", "/tmp"];
/// Gigabytes of the file system. Its file has blocks only for what is in use.
const DISK_GB: u64 = 16;
/// Gigabytes of memory that have to be available: for the file system's contents, for servers and for the tests.
const MEMORY_GB: u64 = 18;

/// File of the file system, without a name once it is mounted.
const IMAGE: &str = "/dev/shm/pt-disk-image";
/// Directory that the file system is mounted on first.
const MOUNTED: &str = "/dev/shm/pt-disk";

/// Starts this program again in a mount namespace of its own, and returns there. Returns the reason if that cannot be,
/// so that tests write to the machine's disk. `kept` is what a run needs of that disk.
pub fn enter(kept: &[&Path]) -> Result<Option<String>> {
    let here = std::fs::read_link("/proc/self/ns/mnt").unwrap_or_default();
    match std::env::var_os(INSIDE) {
        Some(outside) if here == *outside => return Err(format!("{INSIDE} is set outside of a run: unset it")),
        Some(_) => return Ok(None),
        None => {}
    }
    let available_gb = available_kib() >> 20;
    if available_gb < MEMORY_GB {
        return Ok(Some(format!("{available_gb} GB of memory are available, and {MEMORY_GB} GB are needed")));
    }
    if let Some(hidden) = kept.iter().find(|path| PLACES.iter().any(|place| path.starts_with(place))) {
        return Ok(Some(format!("{} would be hidden by a disk in memory", hidden.display())));
    }
    if let Some(free_gb) = free_gb(Path::new("/dev/shm")).filter(|free_gb| *free_gb < DISK_GB / 2) {
        return Ok(Some(format!("/dev/shm has {free_gb} GB, and {} GB are needed", DISK_GB / 2)));
    }
    let namespace = ["--mount", "--propagation", "private"];
    if let Err(why) = line_of(Command::new("unshare").args(namespace).args(["losetup", "--find"])) {
        return Ok(Some(why));
    }
    let own = std::env::current_exe().map_err(|error| format!("path of this program: {error}"))?;
    let mut command = Command::new("unshare");
    command.args(namespace).arg(own).args(std::env::args_os().skip(1));
    Err(format!("unshare: {}", command.env(INSIDE, here).exec()))
}

/// Mounts the file system over [`PLACES`], in the mount namespace of this run.
pub fn mount() -> Result {
    let mut script = format!(
        "set -e; rm -f {IMAGE}; truncate -s {DISK_GB}G {IMAGE}; mkfs.ext4 -qF -m 0 {IMAGE}; mkdir -p {MOUNTED}; \
         mount -o loop,discard {IMAGE} {MOUNTED}; rm {IMAGE}"
    );
    for (number, place) in PLACES.iter().enumerate() {
        script += &format!(
            "; mkdir {MOUNTED}/{number}; chmod 1777 {MOUNTED}/{number}; mount --bind {MOUNTED}/{number} {place}"
        );
    }
    script += &format!("; umount {MOUNTED}; rmdir {MOUNTED}");
    line_of(Command::new("sh").args(["-c", &script])).map(drop)
}
