//! The disk that a store of our own keeps its data on, where that is to be one which can lose power: parameters of every
//! store that keeps data.

use crate::catalogue::{ParamSpec, Params};
use crate::store::Setting;

crate::words! {
    /// A file system on such a disk.
    pub enum FileSystem {
        /// ext4.
        Ext4 = "ext4",
        /// XFS.
        Xfs = "xfs",
        /// Btrfs.
        Btrfs = "btrfs",
    }
}

const DISK: &str = "disk";
const SIZE: &str = "disk_size";
const FLUSHES: &str = "disk_flushes";
const IGNORED: &str = "ignored";

/// The parameters, by their names in a plan.
pub(crate) const PARAMS: [ParamSpec; 3] = [
    ParamSpec::one_of(
        DISK,
        &["plain", "ext4", "xfs", "btrfs"],
        "plain: the data directory as it is; else a disk of Plimsoll's own with this file system, which can lose power",
    )
    .of_private(),
    ParamSpec::bytes(SIZE, "1GiB", "size of that disk; it takes as much room as is written to it").of_private(),
    ParamSpec::one_of(FLUSHES, &["honoured", IGNORED], "ignored: that disk says that a flush is done and does nothing")
        .of_private(),
];

/// `own` parameters of a store inside Plimsoll, and those of its disk: `ALL` is 3 more than `OWN`.
pub const fn with_disk<const OWN: usize, const ALL: usize>(own: [ParamSpec; OWN]) -> [ParamSpec; ALL] {
    assert!(ALL == OWN + PARAMS.len(), "three parameters are added");
    let mut all = [PARAMS[0]; ALL];
    let mut at = 0;
    while at < ALL {
        all[at] = if at < OWN { own[at] } else { PARAMS[at - OWN] };
        at += 1;
    }
    all
}

/// A disk of Plimsoll's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    /// The file system on it.
    pub file_system: FileSystem,
    /// Its size.
    pub size_bytes: u64,
    /// It says of flushes that they are done, and does nothing.
    pub ignores_flushes: bool,
}

impl Disk {
    /// The parameter that says so.
    pub const PARAM: &str = DISK;

    /// That of a store's parameters; `None` where its data directory is as it is.
    pub fn of(params: &Params) -> Option<Self> {
        let file_system = FileSystem::named(params.text(DISK))?;
        let size_bytes = u64::try_from(params.int(SIZE)).unwrap_or_default();
        Some(Self { file_system, size_bytes, ignores_flushes: params.text(FLUSHES) == IGNORED })
    }

    /// What it is, as settings of the store.
    pub fn settings(&self) -> Vec<Setting> {
        let mut settings = vec![
            Setting::new(DISK, self.file_system.name(), Some("plain"), "plimsoll"),
            Setting::new(SIZE, self.size_bytes.to_string(), None, "plimsoll"),
        ];
        if self.ignores_flushes {
            settings.push(Setting::new(FLUSHES, IGNORED, Some("honoured"), "plimsoll"));
        }
        settings
    }
}
