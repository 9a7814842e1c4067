//! The disk of a private store's data, if it is to be one that can lose power: parameters of every store that keeps
//! data.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::catalogue::{ParamSpec, Params};
use crate::store::Setting;

crate::words! {
    /// The file system on such a disk.
    pub enum FileSystem {
        /// ext4.
        Ext4 = "ext4",
        /// XFS.
        Xfs = "xfs",
        /// Btrfs.
        Btrfs = "btrfs",
        /// A directory of files instead of a file system; unsynced data is tracked for each file.
        Files = "files",
    }
}

/// Nodes of a cluster that lose power together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PowerNode {
    /// All nodes.
    #[default]
    All,
    /// The primary at the time when the cut is armed.
    Primary,
    /// The node with this number, from 1.
    Number(u32),
}

impl PowerNode {
    /// Parses a word or number of a plan.
    pub fn named(word: &str) -> Option<Self> {
        match word {
            "all" => Some(Self::All),
            "primary" => Some(Self::Primary),
            number => number.parse().ok().filter(|number| *number > 0).map(Self::Number),
        }
    }

    /// True if all nodes lose power.
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

/// The parameters, with their names in plans.
pub(crate) const PARAMS: [ParamSpec; 4] = [
    ParamSpec::one_of(
        DISK,
        &["plain", "ext4", "xfs", "btrfs", "files"],
        "plain: the data directory itself; otherwise, for each node, a simulated disk that can lose power, with this file system, or with `files` a directory",
    ),
    ParamSpec::bytes(SIZE, "1GiB", "size of each simulated disk; it only takes the space that is written"),
    ParamSpec::one_of(
        FLUSHES,
        &["honoured", IGNORED],
        "ignored: the simulated disk acknowledges flushes and does not perform them",
    ),
    ParamSpec::duration(
        FLUSH_TIME,
        "0s",
        "shortest time of a flush of the simulated disk; an ignored flush takes none",
    ),
];

/// Appends the parameters of the disk to those of an embedded store, `own`: `ALL` is 4 more than `OWN`.
pub const fn with_disk<const OWN: usize, const ALL: usize>(own: [ParamSpec; OWN]) -> [ParamSpec; ALL] {
    joined(&[&own, &PARAMS])
}

/// Returns the parameters of all `parts`. Those after a store's own, the first part, are of private servers.
///
/// # Panics
/// If there are not `ALL`.
pub(crate) const fn joined<const ALL: usize>(parts: &[&[ParamSpec]]) -> [ParamSpec; ALL] {
    let mut all = [PARAMS[0]; ALL];
    let (mut part, mut first, mut at) = (0, 0, 0);
    while part < parts.len() {
        while at - first < parts[part].len() {
            let param = parts[part][at - first];
            all[at] = if part == 0 { param } else { param.of_private() };
            at += 1;
        }
        (part, first) = (part + 1, at);
    }
    assert!(at == ALL, "as many parameters as are added");
    all
}

/// A simulated disk that can lose power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpec {
    /// The file system on it.
    pub file_system: FileSystem,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Acknowledges flushes without performing them.
    pub ignores_flushes: bool,
    /// Shortest time of a flush; an ignored flush takes no time.
    pub flush_time: Duration,
}

impl DiskSpec {
    /// Name of the parameter that selects the disk.
    pub const PARAM: &str = DISK;

    /// Reads the disk from a store's parameters; `None` if the data directory is used as it is.
    pub fn of(params: &Params) -> Option<Self> {
        let file_system = FileSystem::named(params.text(DISK))?;
        let size_bytes = u64::try_from(params.int(SIZE)).unwrap_or_default();
        let flush_time = Duration::from_nanos(u64::try_from(params.int(FLUSH_TIME)).unwrap_or_default());
        Some(Self { file_system, size_bytes, ignores_flushes: params.text(FLUSHES) == IGNORED, flush_time })
    }

    /// Describes the disk as settings of the store.
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
