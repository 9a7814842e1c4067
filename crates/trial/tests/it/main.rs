//! Runs of whole plans on real stores, without the program.

#![allow(clippy::unwrap_used, reason = "clippy's exception for tests does not cover their own functions")]

mod panics;
mod told;
