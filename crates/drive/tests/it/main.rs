//! The executors over real threads and real sockets.

// A panic is how a test fails; clippy knows that of test functions but not of what they call.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod allocations;
mod blocking;
mod branched;
#[path = "../../../testkit/src/allocations.rs"]
#[allow(dead_code, reason = "only counts are asked for here")]
mod counting;
mod exact;
mod io;
mod opening;
mod pauses;
mod pipeline;
mod seen;
mod stamps;
mod steps;
mod tasks;
mod toy;
mod wire;
mod wire_faults;
