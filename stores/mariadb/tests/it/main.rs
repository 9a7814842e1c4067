//! Tests against a real MariaDB, or against messages of a real one.

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
