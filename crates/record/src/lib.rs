//! The recording: one SQLite file in which a run is kept, complete at any kill.

pub mod data;
