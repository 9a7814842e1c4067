//! The store against real servers.

// A panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod cluster;
mod conformance;
mod hostile;
