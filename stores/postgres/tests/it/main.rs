//! Tests against a real PostgreSQL, or against messages of a real one.

mod auth;
mod conformance;
mod conninfo;
mod fixture;
mod hostile;
mod joined;
mod private;
mod protocols;
mod sql;
mod store;
mod tls;
