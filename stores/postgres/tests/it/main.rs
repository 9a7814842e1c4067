//! Tests against a real PostgreSQL, or against messages of a real one.

#![allow(clippy::unwrap_used, reason = "clippy's exception for tests does not cover their own functions")]

mod auth;
mod conformance;
mod conninfo;
mod fixture;
mod hostile;
mod joined;
mod joining;
mod private;
mod protocols;
mod sql;
mod store;
mod tls;
