//! A loop device on a file, and a mount of it. It frees itself when the mount is gone (LO_FLAGS_AUTOCLEAR), however that came.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_core::FileSystem;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::error::FaultError;

/// linux/loop.h
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4c82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4c0a;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;
/// Others may take the device that was free.
const ATTEMPTS: u32 = 50;
/// Between two looks whether something is so.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// `struct loop_info64` of linux/loop.h
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config` of linux/loop.h
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// Mounts the file system in `file` at `at`.
pub(crate) fn mount_file(file: &Path, file_system: FileSystem, at: &Path) -> Result<(), FaultError> {
    let (device, _until_mounted) = attach(file)?;
    let options: Option<&CStr> = match file_system {
        // A log that was not written to its end, or a copy of the image, has a UUID that is known already.
        FileSystem::Xfs => Some(c"nouuid"),
        FileSystem::BtrfsNoDataCow => Some(c"nodatacow"),
        FileSystem::Ext4 | FileSystem::Btrfs | FileSystem::Files => None,
    };
    let kernel_name = match file_system {
        FileSystem::BtrfsNoDataCow => FileSystem::Btrfs.name(),
        other => other.name(),
    };
    let mounted = rustix::mount::mount(&device, at, kernel_name, MountFlags::empty(), options);
    mounted.map_err(|error| match error {
        Errno::NODEV => FaultError::Io {
            what: format!("this kernel has no {kernel_name} (modprobe {kernel_name})"),
            source: error.into(),
        },
        // Of this machine, and no word about what is in the file.
        Errno::NOMEM | Errno::PERM | Errno::BUSY | Errno::MFILE | Errno::NFILE | Errno::AGAIN => FaultError::Io {
            what: format!("{} cannot be mounted at {}", file.display(), at.display()),
            source: error.into(),
        },
        _ => FaultError::NotMountable { device: file.to_owned(), file_system, at: at.to_owned(), source: error.into() },
    })
}

/// A loop device on a file; it is free again as soon as neither the file that is returned nor a mount has it open.
fn attach(file: &Path) -> Result<(PathBuf, File), FaultError> {
    let control_path = Path::new("/dev/loop-control");
    let no_loop = |path: &Path, source| FaultError::NoLoop { path: path.to_owned(), source };
    let read_write = |path: &Path| OpenOptions::new().read(true).write(true).open(path);
    let control = read_write(control_path).map_err(|error| no_loop(control_path, error))?;
    let backing = read_write(file).map_err(FaultError::at(file))?;
    for attempt in 1.. {
        // SAFETY: it takes no argument.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        if number < 0 {
            return Err(no_loop(control_path, io::Error::last_os_error()));
        }
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = read_write(&path).map_err(|error| no_loop(&path, error))?;
        // SAFETY: integers and arrays of them, for all of which zero is a value.
        let mut config: LoopConfig = unsafe { std::mem::zeroed() };
        config.fd = backing.as_raw_fd() as u32;
        config.info.flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
        // SAFETY: the structure that LOOP_CONFIGURE reads, alive during the call.
        if unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) } == 0 {
            return Ok((path, device));
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EBUSY) || attempt == ATTEMPTS {
            return Err(no_loop(&path, error));
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    unreachable!("it returns at the last attempt")
}

/// Unmounts everything at `at` as soon as it is not in use; returns false if it still is after `limit`.
pub(crate) fn unmount(at: &Path, limit: Duration) -> io::Result<bool> {
    let until = Instant::now() + limit;
    loop {
        match rustix::mount::unmount(at, UnmountFlags::NOFOLLOW) {
            // There may be more than one on top of another.
            Ok(()) => {}
            // Not a mount, or not there.
            Err(Errno::INVAL | Errno::NOENT) => return Ok(true),
            Err(Errno::BUSY) if Instant::now() > until => return Ok(false),
            Err(Errno::BUSY) => std::thread::sleep(LOOK_INTERVAL),
            Err(error) => return Err(error.into()),
        }
    }
}
