//! The ledger and the checkers against a simulated store in virtual time: honest ones are never accused,
//! liars are caught.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod allocations;
mod honest;
mod liars;
mod simulation;
mod toy;
