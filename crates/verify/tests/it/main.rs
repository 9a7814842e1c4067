//! The ledger and the checkers against a simulated store in virtual time: honest ones are never accused,
//! liars are caught.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod allocations;
#[path = "../../../testkit/src/allocations.rs"]
#[allow(dead_code, reason = "these tests count allocations, and no bytes")]
mod counting;
mod honest;
mod liars;
mod simulation;
mod toy;
