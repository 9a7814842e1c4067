//! The engine that judges afterwards, to be held against.
#![allow(dead_code, unused_imports)]
pub mod answers;
pub mod history;
pub mod ledger;
pub mod log;
pub mod range;
pub mod readback;
pub mod timeline;
pub mod verdict;
pub mod witness;
pub mod words;
