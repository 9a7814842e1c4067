//! A lying disk under an unmodified server.
#![warn(missing_docs)]

mod disk;
mod error;
mod extents;
mod fault;
mod image;
mod log;
mod random;
mod survivors;

pub use error::FaultError;
pub use fault::{AtRisk, Counters, Cut, CutAt, Fault, FileSystem, How, On, SECTOR_BYTES, Survivors};
pub use log::{LogEntry, LogKind, log_entries};
