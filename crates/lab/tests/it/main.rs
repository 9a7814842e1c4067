//! Tests of the lab against the real operating system.

#![allow(clippy::unwrap_used, reason = "clippy's exception for tests does not cover their own functions")]

mod cluster;
mod death;
mod hosts;
mod limits;
mod page_cache;
mod power;
mod private_server;
mod standing;

/// Returns a base that every user can reach, unlike the target directory below root's home.
fn base() -> tempfile::TempDir {
    let base = tempfile::Builder::new()
        .prefix(&format!("lab-test-{}-", std::process::id()))
        .tempdir_in(plimsoll_lab::FALLBACK_BASES[0])
        .unwrap();
    std::fs::set_permissions(base.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    base
}
