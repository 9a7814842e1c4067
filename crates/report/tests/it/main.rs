//! The report of runs like those the coupon study records: as text, as a page in a real browser, as JSON.

// A failed unwrap is a failed test. Parameters of the protocol are made where they are passed.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

#[path = "../../../analysis/tests/it/study.rs"]
mod study;

#[path = "../../../analysis/tests/it/recorded.rs"]
mod recorded;

#[path = "../../../analysis/tests/it/driven.rs"]
#[allow(dead_code, reason = "analysis' own tests use all of it")]
mod driven;

#[path = "../../../analysis/tests/it/faulted.rs"]
#[allow(dead_code, reason = "analysis' own tests use all of it")]
mod faulted;

#[path = "../../../analysis/tests/it/compared.rs"]
mod compared;

mod browser;
mod exports;
mod faults;
mod figures;
mod forms;
mod one_value;
mod page;
mod page_compared;
mod pages;
