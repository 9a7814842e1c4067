#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! | file | what |
//! |---|---|
//! | `fault` | what can be asked, and its words on the control socket |
//! | `power` | when it goes, and what goes wrong |
//! | `disk`, `extents`, `log`, `survivors`, `image` | the device itself, without FUSE |
//! | `model` | what it is held against, in tests |
//! | `fuse`, `loop_device` | how the kernel reaches it |
//! | `daemon`, `control` | the process that it lives in, and how that is told something |
//! | `device`, `remove` | a device from its beginning to its end |
//! | `crash_image` | many crashes from one run |
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
mod power;
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
