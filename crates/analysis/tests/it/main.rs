//! What a recording means, on runs like those the coupon study records.

// A failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

mod compare;
mod line;
mod recorded;
mod simulated;
mod study;
mod view;
