//! Tests of the lab against the real operating system.

#![allow(clippy::unwrap_used, reason = "clippy's exception for tests does not cover their own functions")]

mod client_hosts;
mod cluster;
mod death;
mod hosts;
mod hung;
mod limits;
mod page_cache;
mod power;
mod private_server;
mod revival;
mod standing;
mod store_of_shells;

use std::time::{Duration, Instant};

use plimsoll_core::{Durability, Footprint, Layout, Removal, Sessions, Store, StoreDescription, StoreError};

/// Returns a base that every user can reach, unlike the target directory below root's home.
fn base() -> tempfile::TempDir {
    let base = tempfile::Builder::new()
        .prefix(&format!("lab-test-{}-", std::process::id()))
        .tempdir_in(plimsoll_lab::FALLBACK_BASES[0])
        .unwrap();
    std::fs::set_permissions(base.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    base
}

/// Waits until it is so, for `bound` at most.
#[track_caller]
fn wait_for(what: &str, bound: Duration, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < bound, "{what} did not happen within {bound:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A store that receives no operations. At its end it fails to remove its own data if it has some.
struct IdleStore {
    leaves: Option<Removal>,
}

impl Store for IdleStore {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        Ok(StoreDescription::default())
    }

    fn create(&mut self, _: &Layout) -> Result<(), StoreError> {
        Ok(())
    }

    fn sessions(&mut self, _: u32, _: Durability) -> Result<Sessions, StoreError> {
        Ok(Sessions::Wire(Vec::new()))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        Ok(Footprint::default())
    }

    fn close(&mut self) -> Result<(), StoreError> {
        match self.leaves.take() {
            Some(removal) => Err(StoreError::broken("no reply").leaves("run-1", Some(removal))),
            None => Ok(()),
        }
    }
}
