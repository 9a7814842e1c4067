//! Real disks, file systems and counters. Mounts need root.

// A broken expectation is what a test is there to show.
#![allow(clippy::unwrap_used)]

mod mounts;
mod peers;
mod places;
mod powercut;

use std::path::Path;

/// A directory on the disk that this is built on.
fn on_disk() -> tempfile::TempDir {
    directory_in(env!("CARGO_TARGET_TMPDIR"))
}

/// A directory in `base`, named after this process.
fn directory_in(base: &str) -> tempfile::TempDir {
    let prefix = format!("disk-test-{}-", std::process::id());
    tempfile::Builder::new().prefix(&prefix).tempdir_in(base).unwrap()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).filter(|name| name != "lost+found").collect()
}
