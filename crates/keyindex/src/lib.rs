#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! | module | what |
//! |---|---|
//! | [`records`] | typed records over any store: a session of the `records` interface |
//! | [`encode`] | values as bytes that order as the values do |
//! | [`keyspace`] | where records and index keys stand |
//!
//! It is no database: it has no schema of its own, plans no queries, and joins nothing.

mod check;
pub mod encode;
mod find;
mod indexes;
pub mod keyspace;
mod locks;
pub mod records;
mod rows;

use plimsoll_core::KvError;

/// Error of records and their indexes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IndexError {
    /// The store did not do it, or may not have done it.
    #[error(transparent)]
    Store(#[from] KvError),
    /// The operation itself is wrong; the words say how.
    #[error("{0}")]
    Refused(&'static str),
    /// The store holds bytes that are not a record.
    #[error("a stored record cannot be read: {0}")]
    Corrupt(&'static str),
}
