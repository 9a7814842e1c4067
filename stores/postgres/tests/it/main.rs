//! Everything here runs against a real PostgreSQL, or against what a real one sent.

mod auth;
mod conninfo;
mod hostile;
mod private;
mod records;
mod server;
mod sql;
mod unknown;
