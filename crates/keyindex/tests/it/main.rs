//! Records and their indexes held against a model: orders, random operations, concurrency, crashes, and the calls they make.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should fail there")]

mod allocations;
mod calls;
mod check;
mod concurrent;
#[path = "../../../testkit/src/allocations.rs"]
#[allow(dead_code, reason = "these tests count allocations, and no bytes")]
mod counting;
mod coupons;
mod crash;
mod mem_kv;
mod order;
mod records;
