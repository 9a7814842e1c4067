//! PostgreSQL as a store.

mod connection;
mod sql;
pub mod wire;

pub use connection::Connection;
