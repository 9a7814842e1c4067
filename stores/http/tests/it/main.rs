//! Tests against a real nginx, or against bytes that a server might send.

#![allow(clippy::unwrap_used, reason = "clippy's exception for tests does not cover their own functions")]

mod allocations;
mod attached;
mod closing;
mod conformance;
mod fixture;
mod hostile;
mod http2;
mod http2_session;
mod private;
mod session;
mod tls;
