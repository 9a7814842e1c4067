//! The report of runs like those the coupon study records: as text, as a page in a real browser, as JSON.

// A failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

#[path = "../../../analysis/tests/it/study.rs"]
mod study;

mod pages;
