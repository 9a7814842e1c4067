//! Runs of whole plans without the program: on real stores, and on simulated time.

#![allow(clippy::unwrap_used, reason = "clippy's exception for tests does not cover their own functions")]

mod ab;
mod cells;
mod checks;
mod faulted;
mod foreign;
mod line;
mod panics;
mod phases;
mod refused;
mod refused_faults;
mod repeats;
mod resumed;
mod runs;
mod simulation;
mod sites;
mod starts;
mod told;
mod toy;
mod watched;
