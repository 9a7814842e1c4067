//! PostgreSQL as a store.

mod connection;
pub mod conninfo;
pub mod server;
pub mod sql;
pub mod wire;

pub use connection::Connection;
pub use server::PrivatePostgres;
