#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! | file | what |
//! |---|---|
//! | [`plimsoll_core::fault`] | what can be asked, and its words on the control socket |
//! | `counters` | what arrived, and what a cut lost |
//! | `at_risk` | writes that a cut can lose, by the files that contain them |
//! | `power` | when it goes, and what goes wrong |
//! | `throttle` | times of requests on a slow device, a mirror or a stripe |
//! | `disk`, `extents`, `log`, `survivors`, `image` | the device itself, without FUSE |
//! | `model` | what it is held against, in tests |
//! | `fuse`, `loop_device` | how the kernel reaches it |
//! | `files` | a directory that can lose power, and no device: what is not synced, how that is undone, how the kernel reaches it |
//! | `shared` | either of them, as FUSE and the control share it |
//! | `daemon`, `control` | the process that it lives in, and how that is told something |
//! | `device`, `remove` | a device from its beginning to its end |
//! | `room` | a mounted file system without room |
//! | `crash_image`, `crash_check` | many crashes from one run; a command that looks at them |
#![warn(missing_docs)]

mod at_risk;
mod control;
mod counters;
mod crash_check;
mod crash_image;
mod daemon;
mod device;
mod disk;
mod error;
mod extents;
mod files;
mod fuse;
mod image;
mod log;
mod loop_device;
#[cfg(test)]
mod model;
mod power;
mod remove;
mod room;
mod shared;
mod survivors;
mod throttle;

pub use at_risk::FilesAtRisk;
pub use control::{Control, HELP};
pub use counters::{AtRisk, Counters, Cut, SECTOR_BYTES, UnsyncedFile};
pub use crash_check::{CheckedImage, ImageCheck, ImageState, check_images, crash_moments};
pub use crash_image::{CrashPoint, ImageMount, crash_images};
pub use device::{DeviceSpec, FaultDevice, cut_own_power, sync};
pub use error::FaultError;
pub use log::{LogEntry, LogKind, log_entries};
pub use plimsoll_core::FileSystem;
pub use plimsoll_core::fault::{CutMoment, ErrorMode, Fault, RequestKind, Survivors};
pub use remove::{mounted_devices, sweep_orphans};
