//! Reads what a user asks for, in TOML, into trials that are ready to run.
//!
//! Every error points at line and column and says what was meant. Reads nothing and opens nothing:
//! text in, [`model::Plan`] out, checked against the catalogue of what there is.

pub mod model;
