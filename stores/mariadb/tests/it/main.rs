//! Everything here runs against a real MariaDB, or against what a real one sent.

mod allocations;
mod auth;
mod conformance;
mod conninfo;
mod fixture;
mod hostile;
mod mysql;
mod private;
mod sql;
mod store;
mod tls;
