//! Tests against a real Redis, or against messages of a real one.

#![allow(clippy::unwrap_used, reason = "clippy's exception for tests does not cover their own functions")]

mod allocations;
mod attached;
mod cluster;
mod cluster_allocations;
mod conformance;
mod durability;
mod failover;
mod fixture;
mod refusals;
mod reshard;
mod session;
mod tls;
