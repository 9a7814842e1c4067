//! The recording: one SQLite file in which a run is kept, complete at any kill.

pub mod data;
mod distribution;

pub use distribution::Distribution;
