//! PostgreSQL as a store.

mod connection;
pub mod sql;
pub mod wire;

pub use connection::Connection;
