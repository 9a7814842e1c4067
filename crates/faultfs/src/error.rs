//! Errors of a fault device itself, as opposed to its intended faults.

use std::io;
use std::path::{Path, PathBuf};

use plimsoll_core::{FileSystem, StoreError, StoreErrorKind};

/// Prefix by which the daemon reports [`FaultError::Underlying`].
pub(crate) const UNDERLYING: &str = "the disk under the device failed: ";

/// Error of a fault device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FaultError {
    /// The request is invalid.
    #[error("{0}")]
    Usage(String),
    /// Mounting needs root.
    #[error("a fault device is a loop device with a mount on it, which only root can make; run this as root")]
    NotRoot,
    /// The kernel has no FUSE, or this container may not use it.
    #[error(
        "/dev/fuse: {0}; the kernel needs CONFIG_FUSE_FS (modprobe fuse), a container the device (docker run --device /dev/fuse --privileged)"
    )]
    NoFuse(io::Error),
    /// No loop device is available.
    #[error("{}: {source}; the kernel needs CONFIG_BLK_DEV_LOOP (modprobe loop), a container the devices (docker run --privileged)", path.display())]
    NoLoop {
        /// File that could not be opened or set up.
        path: PathBuf,
        /// Error of the kernel.
        source: io::Error,
    },
    /// A program is not installed.
    #[error("{program} is not installed; apt-get install {package}")]
    Missing {
        /// The program.
        program: &'static str,
        /// The Debian package that it comes in.
        package: &'static str,
    },
    /// The directory holds something.
    #[error("{}: a fault device needs an empty directory; name one that is empty or does not exist", .0.display())]
    NotEmpty(PathBuf),
    /// Another fault device uses the path.
    #[error("{}: another fault device is in use there; name another directory, or end it", .0.display())]
    InUse(PathBuf),
    /// The mount is in use.
    #[error("{0}: still in use after {limit_s} s; end the processes that use it first (plimsoll doctor --holds {0})", path.display())]
    Busy {
        /// Path that cannot be unmounted.
        path: PathBuf,
        /// Time of the attempts, seconds.
        limit_s: u64,
    },
    /// The file system needs more.
    #[error("{size_bytes} bytes are too few for {file_system}; it needs {least_bytes}")]
    TooSmall {
        /// Size that was requested.
        size_bytes: u64,
        /// File system of the device.
        file_system: FileSystem,
        /// Least size that is sufficient.
        least_bytes: u64,
    },
    /// The device has no file system any more, or none that the kernel accepts.
    #[error("{} cannot be mounted as {file_system} at {}: {source}; dmesg says why", device.display(), at.display())]
    NotMountable {
        /// The file that the loop device is on.
        device: PathBuf,
        /// Expected file system.
        file_system: FileSystem,
        /// Intended mount point.
        at: PathBuf,
        /// Error of the kernel.
        source: io::Error,
    },
    /// A program failed.
    #[error("{program} failed: {said}")]
    Failed {
        /// The program.
        program: &'static str,
        /// Standard error of the command.
        said: String,
    },
    /// The daemon is gone, or silent.
    #[error("the fault device at {} does not answer ({source}); end what runs on it and make a new one", directory.display())]
    Gone {
        /// Directory of the device.
        directory: PathBuf,
        /// Error that showed it.
        source: io::Error,
    },
    /// The files that hold the device's data cannot be written or read. Its power is off since then, which is no
    /// evidence about a server.
    #[error("{UNDERLYING}{0}; make room there, and make a new device")]
    Underlying(String),
    /// The daemon does not do it.
    #[error("{0}")]
    Refused(String),
    /// The operating system does not do something.
    #[error("{what}: {source}")]
    Io {
        /// Operation that failed.
        what: String,
        /// Error of the command.
        source: io::Error,
    },
}

impl FaultError {
    /// Returns a function for `map_err` that adds the path.
    pub(crate) fn at<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> Self + '_ {
        move |source| Self::Io { what: path.display().to_string(), source: source.into() }
    }
}

impl From<FaultError> for StoreError {
    fn from(error: FaultError) -> Self {
        use StoreErrorKind as Kind;
        let kind = match &error {
            FaultError::Usage(_)
            | FaultError::TooSmall { .. }
            | FaultError::NotEmpty(_)
            | FaultError::InUse(_)
            | FaultError::Refused(_) => Kind::Usage,
            FaultError::NotRoot => Kind::Permission,
            FaultError::NoFuse(_) | FaultError::NoLoop { .. } | FaultError::Missing { .. } => Kind::Missing,
            FaultError::Gone { .. } => Kind::Unreachable,
            FaultError::Underlying(_) => Kind::DiskFull,
            FaultError::Busy { .. } | FaultError::Failed { .. } | FaultError::NotMountable { .. } => Kind::Broken,
            FaultError::Io { what, source } => return Self::io(what, source),
        };
        // What to do next stands behind the last semicolon.
        let text = error.to_string();
        match text.rsplit_once("; ") {
            Some((what, next)) => Self::new(kind, what).next(next),
            None => Self::new(kind, text),
        }
    }
}
