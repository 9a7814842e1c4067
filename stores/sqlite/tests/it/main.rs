//! SQLite as a store, through the same doors that trials use.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod conforms;
mod phases;
mod place;
mod records;
mod sql;

use plimsoll_core::{BlockingSession, Durability, OpKind};
use plimsoll_testkit::opening::Opening;
use plimsoll_testkit::records::blocking;

/// A store in a directory of its own.
pub(crate) struct Fixture {
    pub(crate) store: plimsoll_lab::OpenStore,
    pub(crate) dir: tempfile::TempDir,
}

pub(crate) fn open() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let store = Opening::private(plimsoll_store_sqlite::kind, dir.path()).open().unwrap();
    Fixture { store, dir }
}

impl Fixture {
    pub(crate) fn session(&mut self, kinds: &[OpKind]) -> Box<dyn BlockingSession> {
        blocking(&mut *self.store, 1, Durability::Buffered, kinds).remove(0)
    }
}
