//! The disk that a store of our own keeps its data on, where that is to be one which can lose power: parameters of every
//! store that keeps data.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

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
        /// None of its own: files in a directory, of each of which it is known what is not synced.
        Files = "files",
    }
}

/// Which nodes of a cluster lose power together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PowerNode {
    /// All of them.
    #[default]
    All,
    /// The one that takes all writes when the cut is armed.
    Primary,
    /// The one with this number, from 1.
    Number(u32),
}

impl PowerNode {
    /// The one with this word or number, as in plans.
    pub fn named(word: &str) -> Option<Self> {
        match word {
            "all" => Some(Self::All),
            "primary" => Some(Self::Primary),
            number => number.parse().ok().filter(|number| *number > 0).map(Self::Number),
        }
    }

    /// It is all of them.
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }
}

impl fmt::Display for PowerNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Primary => f.write_str("primary"),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

impl Serialize for PowerNode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

const DISK: &str = "disk";
const SIZE: &str = "disk_size";
const FLUSHES: &str = "disk_flushes";
const FLUSH_TIME: &str = "disk_flush_time";
const IGNORED: &str = "ignored";

/// The parameters, by their names in a plan.
pub(crate) const PARAMS: [ParamSpec; 4] = [
    ParamSpec::one_of(
        DISK,
        &["plain", "ext4", "xfs", "btrfs", "files"],
        "plain: the data directory as it is; else one that can lose power, for each node: a disk of Plimsoll's own with this file system, or with files a directory",
    )
    .of_private(),
    ParamSpec::bytes(SIZE, "1GiB", "size of that disk, each; it takes as much room as is written to it").of_private(),
    ParamSpec::one_of(FLUSHES, &["honoured", IGNORED], "ignored: that disk says that a flush is done and does nothing")
        .of_private(),
    ParamSpec::duration(
        FLUSH_TIME,
        "0s",
        "time that a flush of that disk takes at least; one that is ignored takes none",
    )
    .of_private(),
];

/// `own` parameters of a store inside Plimsoll, and those of its disk: `ALL` is 4 more than `OWN`.
pub const fn with_disk<const OWN: usize, const ALL: usize>(own: [ParamSpec; OWN]) -> [ParamSpec; ALL] {
    assert!(ALL == OWN + PARAMS.len(), "four parameters are added");
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
    /// How long a flush takes at least; one that is ignored takes no time.
    pub flush_time: Duration,
}

impl Disk {
    /// The parameter that says so.
    pub const PARAM: &str = DISK;

    /// That of a store's parameters; `None` where its data directory is as it is.
    pub fn of(params: &Params) -> Option<Self> {
        let file_system = FileSystem::named(params.text(DISK))?;
        let size_bytes = u64::try_from(params.int(SIZE)).unwrap_or_default();
        let flush_time = Duration::from_nanos(u64::try_from(params.int(FLUSH_TIME)).unwrap_or_default());
        Some(Self { file_system, size_bytes, ignores_flushes: params.text(FLUSHES) == IGNORED, flush_time })
    }

    /// What it is, as settings of the store.
    pub fn settings(&self) -> Vec<Setting> {
        let mut settings = vec![Setting::new(DISK, self.file_system.name(), Some("plain"), "plimsoll")];
        if self.file_system != FileSystem::Files {
            settings.push(Setting::new(SIZE, self.size_bytes.to_string(), None, "plimsoll"));
        }
        if self.ignores_flushes {
            settings.push(Setting::new(FLUSHES, IGNORED, Some("honoured"), "plimsoll"));
        }
        if !self.flush_time.is_zero() {
            settings.push(Setting::new(FLUSH_TIME, format!("{:?}", self.flush_time), Some("0s"), "plimsoll"));
        }
        settings
    }
}
