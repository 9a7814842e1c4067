//! Runs of whole plans without the program: on real stores, and on simulated time.

#![allow(clippy::unwrap_used, reason = "clippy's exception for tests does not cover their own functions")]

mod ab;
mod cells;
mod line;
mod panics;
mod runs;
mod simulation;
mod told;
