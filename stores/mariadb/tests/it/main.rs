//! Tests against a real MariaDB, or against messages of a real one.

#![allow(clippy::unwrap_used, reason = "clippy's exception for tests does not cover their own functions")]

mod allocations;
mod auth;
mod conformance;
mod conninfo;
mod fixture;
mod hostile;
mod joining;
mod mysql;
mod private;
mod sql;
mod store;
mod tls;
