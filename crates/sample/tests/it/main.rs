//! Samplers on the real `/proc` of this host.

#![allow(clippy::unwrap_used, reason = "a panic is how a test says no")]

mod book;
mod environment;
mod host;
mod processes;
