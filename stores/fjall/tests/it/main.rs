//! fjall as a store under test: its life, its key-value interface, and its durable commits.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should fail there")]

mod durable;
mod key_values;
mod life;
