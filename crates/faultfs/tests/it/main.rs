//! Tests of fault devices against the real kernel: FUSE, loop devices, file systems. They need root.

#![allow(clippy::unwrap_used, reason = "clippy's exception for tests does not cover their own functions")]

mod death;
mod durability;
mod faults;
mod files;
mod images;
mod protocol;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use plimsoll_faultfs::{DeviceSpec, FaultDevice, FileSystem};

/// A device in a directory that goes with the test.
struct Fixture {
    device: FaultDevice,
    spec: DeviceSpec,
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new(file_system: FileSystem) -> Self {
        Self::with(file_system, false)
    }

    fn with(file_system: FileSystem, keep_log: bool) -> Self {
        let directory = tempdir();
        let size_bytes = match file_system {
            FileSystem::Files => 0,
            FileSystem::Ext4 => 64 << 20,
            FileSystem::Xfs | FileSystem::Btrfs | FileSystem::BtrfsNoDataCow => 320 << 20,
        };
        let spec =
            DeviceSpec { directory: directory.path().to_owned(), size_bytes, file_system, keep_log, files: None };
        Self { device: FaultDevice::start(&spec).unwrap(), spec, directory }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.device.mount_point().join(name)
    }

    /// Ends the device, and looks that nothing of it is left.
    fn close(self) {
        let directory = self.directory.path().canonicalize().unwrap();
        self.device.close().unwrap();
        assert_nothing_left(&directory);
    }
}

fn tempdir() -> tempfile::TempDir {
    tempfile::Builder::new().prefix(&format!("faultfs-test-{}-", std::process::id())).tempdir().unwrap()
}

fn assert_nothing_left(directory: &Path) {
    let left: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
    let text = directory.to_str().unwrap();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(text), "{mounts}");
    assert_eq!(loops_on(directory), Vec::<String>::new());
}

/// The loop devices on files below a directory.
fn loops_on(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/block").unwrap() {
        let path = entry.unwrap().path();
        let backing = fs::read_to_string(path.join("loop/backing_file")).unwrap_or_default();
        if backing.starts_with(directory.to_str().unwrap()) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// Writes a file; with `sync`, also has it and its directory made durable.
fn write(path: &Path, contents: &[u8], sync: bool) {
    let mut file = File::create(path).unwrap();
    file.write_all(contents).unwrap();
    if sync {
        file.sync_all().unwrap();
        File::open(path.parent().unwrap()).unwrap().sync_all().unwrap();
    }
}

/// Returns the step from one tried moment to the next: 1 in a heavy run, `usual` otherwise.
fn step(usual: usize) -> usize {
    if std::env::var_os("PLIMSOLL_HEAVY").is_some() { 1 } else { usual }
}
