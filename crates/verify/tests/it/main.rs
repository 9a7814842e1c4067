//! The ledger from outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod allocations;
#[path = "../../../testkit/src/allocations.rs"]
#[allow(dead_code, reason = "these tests count allocations, and no bytes")]
mod counting;
#[allow(dead_code, reason = "the unit tests use all of it")]
mod toy;
