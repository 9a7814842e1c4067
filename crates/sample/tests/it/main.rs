//! Samplers on the real `/proc` of this host.

#![allow(clippy::unwrap_used, reason = "a panic is how a test says no")]

mod book;
mod environment;
mod host;
mod processes;
mod read;

/// Returns the place of a node's server.
fn site(node: usize, pid: u32) -> plimsoll_core::NodeSite {
    plimsoll_core::NodeSite { node, pid, directory: "/".into() }
}

/// A directory on a device: what lies in memory only is written nowhere.
fn directory_on_a_device() -> tempfile::TempDir {
    let prefix = format!("sample-test-{}-", std::process::id());
    let place = tempfile::Builder::new().prefix(&prefix).tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let found = plimsoll_sample::environment::file_system(place.path()).unwrap();
    assert!(!found.volatile, "{found}: this test writes to a device; set CARGO_TARGET_DIR to a directory on one");
    place
}
