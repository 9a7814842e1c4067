//! Real processes that sync real files.

#![allow(clippy::unwrap_used, reason = "a panic is how a test says no")]

mod child;
mod files;
mod ways;
