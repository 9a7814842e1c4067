//! The reference store conforms and tells the truth; every lie is caught.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod kv_lies;
mod lies;
mod phases;
mod reference;
