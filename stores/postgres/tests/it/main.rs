//! Everything here runs against a real PostgreSQL, or against what a real one sent.

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
