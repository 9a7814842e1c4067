//! Storage behind a path: mount, file system, and devices down to those that hold the data.
//!
//! From `/proc/self/mountinfo` and `/sys`. A partition leads to its disk, a dm or md device to those it is made of, a loop
//! device to the file behind it and what that is on, an overlay to its upper directory, btrfs to all its devices.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use plimsoll_core::StoreError;
use plimsoll_core::mounts::{MOUNTS_FILE, Mount, mounts, unescaped};
use rustix::fs::{major, minor};
use serde::Serialize;

use crate::counters::FlushCounters;
use crate::error::at;

/// Number of levels that are followed down.
const DEPTH: u32 = 8;

/// A file system, or a device that was named itself, with the disks below.
#[derive(Debug, Clone, Serialize)]
pub struct StorageLocation {
    /// `ext4`; `None` of a device.
    pub file_system: Option<String>,
    /// Source of the mount, as in mountinfo: `/dev/sda1`, `tmpfs`.
    pub source: String,
    /// Path of the mount.
    pub mount_point: PathBuf,
    /// Options of the mount and of the file system.
    pub options: Vec<String>,
    /// The disks that hold the data. None where there are none, or they cannot be seen from here.
    pub disks: Vec<Disk>,
    /// Storage of the upper directory of an overlay.
    pub upper: Option<Box<StorageLocation>>,
}

/// A disk.
#[derive(Debug, Clone, Serialize)]
pub struct Disk {
    /// Name, as in `/sys/block`.
    pub name: String,
    /// Model that the disk reports, if any.
    pub model: Option<String>,
    /// Type of the disk.
    pub kind: DiskKind,
    /// True if the disk reports that it rotates. Virtual disks often report so without a meaning.
    pub rotational: Option<bool>,
    /// The kernel takes its cache for one that has to be flushed (`write back`); false: for none, so that it sends no flush.
    pub write_back: Option<bool>,
    /// Single writes can be asked to pass the cache.
    pub fua: Option<bool>,
    /// True if the kernel counts flushes of the disk.
    pub counts_flushes: bool,
    /// Storage of the file of a loop device.
    pub below: Option<Box<StorageLocation>>,
}

/// Type of a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskKind {
    /// Hardware, as far as can be told.
    Physical,
    /// A hypervisor's, with its driver or model.
    Virtual(String),
    /// Another machine's.
    Network(String),
    /// Memory of this machine.
    Memory,
    /// The file behind a loop device.
    Loop(PathBuf),
}

impl StorageLocation {
    /// Finds the storage behind `path`.
    pub fn of(path: &Path) -> Result<Self, StoreError> {
        let path = at(path.display(), fs::canonicalize(path))?;
        let about = at(path.display(), fs::metadata(&path))?;
        if about.file_type().is_block_device() {
            let disks = disks(major(about.rdev()), minor(about.rdev()), DEPTH);
            let source = path.display().to_string();
            return Ok(Self { file_system: None, source, mount_point: path, options: vec![], disks, upper: None });
        }
        Self::mounted(&path, DEPTH)
            .ok_or_else(|| StoreError::broken(format!("{}: {MOUNTS_FILE} does not say where it is", path.display())))
    }

    fn mounted(path: &Path, depth: u32) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        let table = fs::read_to_string(MOUNTS_FILE).ok()?;
        let mount = mount_of(&table, path)?;
        let mut options: Vec<_> =
            mount.options.split(',').chain(mount.of_file_system.split(',')).map(unescaped).collect();
        options.dedup();
        let is_overlay = mount.file_system == "overlay";
        let upper_directory = options.iter().find_map(|option| option.strip_prefix("upperdir="));
        let upper = upper_directory.filter(|_| is_overlay).and_then(|upper| {
            let upper = fs::canonicalize(upper).ok()?;
            Self::mounted(&upper, depth).map(Box::new)
        });
        let disks = if mount.file_system == "btrfs" { of_btrfs(&mount.source, depth) } else { Vec::new() };
        let disks = if disks.is_empty() { disks_of(&mount, depth) } else { disks };
        let (file_system, source) = (Some(mount.file_system.to_owned()), mount.source);
        Some(Self { file_system, source, mount_point: mount.mount_point, options, disks, upper })
    }

    /// `ext4 on /dev/sda1`.
    pub fn name(&self) -> String {
        match &self.file_system {
            Some(file_system) if *file_system == self.source => file_system.clone(),
            Some(file_system) => format!("{file_system} on {}", self.source),
            None => self.source.clone(),
        }
    }

    /// Returns true if the data is in memory only.
    pub fn is_memory(&self) -> bool {
        self.file_system.as_deref().is_some_and(|name| matches!(name, "tmpfs" | "ramfs" | "devtmpfs" | "hugetlbfs"))
    }

    /// The counters of all its disks that count.
    pub fn counters(&self) -> FlushCounters {
        FlushCounters::together(self.disks.iter().filter_map(|disk| FlushCounters::of(&disk.name)))
    }
}

/// The mount of `table` (proc_pid_mountinfo(5)) that `path` is in: the longest that it begins with, and of those on the same
/// place the last.
fn mount_of<'t>(table: &'t str, path: &Path) -> Option<Mount<'t>> {
    let holds = |mount: &Mount<'_>| path.starts_with(&mount.mount_point);
    mounts(table).filter(holds).max_by_key(|mount| mount.mount_point.components().count())
}

/// A file system that has a device number of its own (btrfs, zfs, network) may name its device.
fn disks_of(mount: &Mount<'_>, depth: u32) -> Vec<Disk> {
    let (mut major, mut minor) = mount.device;
    if major == 0 {
        let named = fs::metadata(&mount.source).ok().filter(|about| about.file_type().is_block_device());
        let Some(about) = named else { return Vec::new() };
        (major, minor) = (rustix::fs::major(about.rdev()), rustix::fs::minor(about.rdev()));
    }
    disks(major, minor, depth)
}

/// Returns all devices of the btrfs that `source` is one of.
fn of_btrfs(source: &str, depth: u32) -> Vec<Disk> {
    let Some(name) = fs::canonicalize(source).ok().and_then(|path| Some(path.file_name()?.to_owned())) else {
        return Vec::new();
    };
    let mut all =
        fs::read_dir("/sys/fs/btrfs").into_iter().flatten().flatten().map(|entry| entry.path().join("devices"));
    let Some(devices) = all.find(|devices| devices.join(&name).exists()) else { return Vec::new() };
    let entries = fs::read_dir(devices).into_iter().flatten().flatten();
    entries.flat_map(|entry| disks_at(&entry.path(), depth)).collect()
}

fn disks(major: u32, minor: u32, depth: u32) -> Vec<Disk> {
    disks_at(Path::new(&format!("/sys/dev/block/{major}:{minor}")), depth)
}

/// The disks below the device whose directory in `/sys` is `device`.
fn disks_at(device: &Path, depth: u32) -> Vec<Disk> {
    let (Some(depth), Ok(mut device)) = (depth.checked_sub(1), fs::canonicalize(device)) else { return Vec::new() };
    if device.join("partition").exists() {
        device.pop();
    }
    let slaves: Vec<PathBuf> =
        fs::read_dir(device.join("slaves")).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    if !slaves.is_empty() {
        return slaves.iter().flat_map(|slave| disks_at(slave, depth)).collect();
    }
    disk(&device, depth).into_iter().collect()
}

fn disk(device: &Path, depth: u32) -> Option<Disk> {
    let name = device.file_name()?.to_string_lossy().into_owned();
    let said = |file: &str| {
        let text = fs::read_to_string(device.join(file)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let model = match (said("device/vendor").filter(|vendor| !vendor.starts_with("0x")), said("device/model")) {
        (Some(vendor), Some(model)) => Some(format!("{vendor} {model}")),
        (_, model) => model,
    };
    let driver = fs::read_link(device.join("device/driver"))
        .ok()
        .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let backing = said("loop/backing_file").map(PathBuf::from);
    let below = backing
        .as_deref()
        .and_then(|file| StorageLocation::mounted(&fs::canonicalize(file).ok()?, depth))
        .map(Box::new);
    let kind = kind(&name, &device.to_string_lossy(), driver.as_deref(), model.as_deref(), backing);
    let flag = |file: &str| said(file).map(|text| text == "1");
    Some(Disk {
        rotational: flag("queue/rotational"),
        write_back: said("queue/write_cache").map(|text| text == "write back"),
        fua: flag("queue/fua"),
        counts_flushes: FlushCounters::of(&name).is_some(),
        name,
        model,
        kind,
        below,
    })
}

/// Models that hypervisors and clouds give their disks.
const VIRTUAL_MODELS: [&str; 9] =
    ["QEMU", "VBOX", "VMware", "Virtual", "Amazon Elastic Block Store", "nvme_card", "PersistentDisk", "Msft", "Xen"];

fn kind(name: &str, device: &str, driver: Option<&str>, model: Option<&str>, backing: Option<PathBuf>) -> DiskKind {
    if let Some(file) = backing {
        return DiskKind::Loop(file);
    }
    let begins = |prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    if begins("zram") || begins("ram") {
        return DiskKind::Memory;
    }
    if let Some(prefix) = ["nbd", "rbd", "drbd"].into_iter().find(|prefix| begins(prefix)) {
        return DiskKind::Network(prefix.to_owned());
    }
    // The path in /sys of a SCSI disk over iSCSI goes through its session.
    if device.contains("/session") {
        return DiskKind::Network("iSCSI".to_owned());
    }
    match (driver, model) {
        (Some(driver @ ("virtio_blk" | "vbd" | "xen-blkfront")), _) => DiskKind::Virtual(driver.to_owned()),
        (_, Some(model)) if VIRTUAL_MODELS.iter().any(|known| model.contains(known)) => {
            DiskKind::Virtual(model.to_owned())
        }
        _ => DiskKind::Physical,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,nobarrier
40 27 7:3 / /mnt/my\\040disk rw,noatime - xfs /dev/loop3 rw,attr2
41 27 0:50 / /mnt rw - tmpfs none rw
42 27 0:51 / /mnt rw - overlay overlay rw,lowerdir=/a,upperdir=/b,workdir=/c,volatile";

    #[test]
    fn the_innermost_and_last_mount_is_the_one() {
        let of = |path: &str| mount_of(TABLE, Path::new(path)).map(|mount| (mount.file_system, mount.device)).unwrap();
        assert_eq!(of("/var/lib"), ("ext4", (254, 0)));
        assert_eq!(of("/mnt/my disk/x"), ("xfs", (7, 3)));
        assert_eq!(of("/mnt/other"), ("overlay", (0, 51)));
        assert_eq!(of("/mntx"), ("ext4", (254, 0)));
        assert!(mount_of(TABLE, Path::new("/")).unwrap().of_file_system.ends_with("nobarrier"));
    }

    #[test]
    fn kinds_of_disks_are_told_by_driver_model_and_name() {
        let of = |name, driver, model| kind(name, "/sys/devices/x", driver, model, None);
        assert_eq!(of("vda", Some("virtio_blk"), None), DiskKind::Virtual("virtio_blk".to_owned()));
        assert!(matches!(of("sda", Some("sd"), Some("QEMU QEMU HARDDISK")), DiskKind::Virtual(_)));
        assert!(matches!(of("nvme1n1", None, Some("Amazon Elastic Block Store")), DiskKind::Virtual(_)));
        assert_eq!(of("nvme0n1", None, Some("Samsung SSD 980 PRO")), DiskKind::Physical);
        assert_eq!((of("zram0", None, None), of("ram0", None, None)), (DiskKind::Memory, DiskKind::Memory));
        assert_eq!(of("nbd3", None, None), DiskKind::Network("nbd".to_owned()));
        assert!(matches!(
            kind("sdb", "/sys/devices/platform/host3/session1/x", None, None, None),
            DiskKind::Network(_)
        ));
    }
}
