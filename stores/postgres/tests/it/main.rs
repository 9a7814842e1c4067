//! Everything here runs against a real PostgreSQL, or against what a real one sent.

mod auth;
mod hostile;
mod records;
mod server;
mod sql;
mod unknown;
