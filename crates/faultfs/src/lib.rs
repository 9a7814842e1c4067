//! A lying disk under an unmodified server.
#![warn(missing_docs)]

mod control;
mod crash_image;
mod daemon;
mod device;
mod disk;
mod error;
mod extents;
mod fault;
mod fuse;
mod image;
mod log;
mod loop_device;
#[cfg(test)]
mod model;
mod random;
mod remove;
mod survivors;

pub use control::{Control, HELP};
pub use crash_image::{CrashPoint, ImageMount, crash_images};
pub use device::{DeviceSpec, FaultDevice};
pub use error::FaultError;
pub use fault::{AtRisk, Counters, Cut, CutAt, Fault, FileSystem, How, On, SECTOR_BYTES, Survivors};
pub use log::{LogEntry, LogKind, log_entries};
pub use remove::sweep_orphans;
