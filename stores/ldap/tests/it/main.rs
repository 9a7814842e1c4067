//! Tests against a real slapd, or against bytes that a server might send.

#![allow(clippy::unwrap_used, reason = "clippy's exception for tests does not cover their own functions")]

mod allocations;
mod attached;
mod conformance;
mod fixture;
mod hostile;
mod private;
mod session;
mod tls;
