//! Tests of the lab against the real operating system.

#![allow(clippy::unwrap_used, reason = "clippy's exception for tests does not cover their own functions")]

mod death;
mod page_cache;
mod private_server;
