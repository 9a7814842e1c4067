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
    /// A key would be longer than what the store keeps; nothing was written.
    #[error("{} would have a key of {key_bytes} bytes, and this store keeps keys of up to {key_bytes_max}: shorten the record's key{}",
        match index { Some(index) => format!("an entry of index {index}"), None => "a record".to_owned() },
        if index.is_some() { " or the indexed values" } else { "" })]
    KeyTooLong {
        /// Position of the index whose key it is; `None` for the record's own.
        index: Option<u8>,
        /// Length that the key would have.
        key_bytes: usize,
        /// The store's limit.
        key_bytes_max: usize,
    },
    /// The store holds bytes that are not a record.
    #[error("a stored record cannot be read: {0}")]
    Corrupt(&'static str),
}
