//! Everything here runs against a real Redis, or against what a real one sent.

mod allocations;
mod attached;
mod conformance;
mod durability;
mod fixture;
mod refusals;
mod session;
