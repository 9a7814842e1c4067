//! Measures the cost of write + flush on a directory or a block device, and judges if its flushes can be real.
//!
//! It measures and judges; it prints nothing. Flushes are asked of the kernel directly: a preloaded library that turns
//! fsync into nothing does not change what is measured here.
//!
//! | module | what is in it |
//! |---|---|
//! | [`ways`] | sizes, ways of writing and of flushing, and which of them are measured |
//! | [`times`] | how long something took: n, percentiles, maximum |
//! | [`scratch`] | the directory of our own in which everything is written, and how it is removed |
//! | [`latency`] | write + flush again and again, idle or beside a background writer |
//! | [`group`] | group commit: threads that flush at the same time |
//! | [`place`] | which file system and which devices are behind a path |
//! | [`counters`] | how many flushes the kernel counted on a device |
//! | [`judge`] | whether flushes can be real, with reasons |
//! | [`powercut`] | two machines: blocks acknowledged before the power was cut, and looked for afterwards |
//! | `kernel` | the two system calls that need `unsafe` |

pub mod counters;
mod error;
pub mod group;
pub mod judge;
mod kernel;
pub mod latency;
pub mod place;
pub mod powercut;
pub mod scratch;
pub mod times;
pub mod ways;
mod writer;
