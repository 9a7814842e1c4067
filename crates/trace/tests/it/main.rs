//! Real processes that sync real files, and requests to a real device.

#![allow(clippy::unwrap_used, reason = "a panic is how a test says no")]

mod blocks;
mod child;
mod files;
mod waits;
mod ways;
