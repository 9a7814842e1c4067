//! The disk of a private store's data, if it is to be one that can lose power: parameters of every store that keeps
//! data.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::catalogue::{ParamSpec, Params};
use crate::error::StoreError;
use crate::node_set::NodeSet;
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
        /// Btrfs that overwrites data in place, without checksums (mount option `nodatacow`).
        BtrfsNoDataCow = "btrfs-nodatacow",
        /// A directory of files instead of a file system; unsynced data is tracked for each file.
        Files = "files",
    }
}

crate::words! {
    /// Speed of a simulated disk: a time for each request away from the end of the previous one, and a throughput.
    #[derive(Default)]
    pub enum DiskSpeed {
        /// As fast as it can be simulated.
        #[default]
        Full = "full",
        /// A disk of 7,200 revolutions a minute.
        Hdd = "hdd",
        /// An SSD behind SATA.
        Ssd = "ssd",
    }
}

impl DiskSpeed {
    /// Returns the seek time, and the throughput in bytes per second; `None` without a limit.
    pub fn figures(self) -> Option<(Duration, u64)> {
        match self {
            Self::Full => None,
            Self::Hdd => Some((Duration::from_millis(8), 150_000_000)),
            Self::Ssd => Some((Duration::from_micros(100), 500_000_000)),
        }
    }
}

crate::words! {
    /// Layout of a simulated disk, for the times of its requests. The data is stored once, whatever the layout.
    #[derive(Default)]
    pub enum DiskLayout {
        /// A single device.
        #[default]
        Single = "single",
        /// Two devices with the same data: each write goes to both, a read to the one that is free first.
        Mirror = "mirror",
        /// Two devices that take turns every 64 KiB.
        Stripe = "stripe",
    }
}

/// Nodes of a cluster that lose power, or have another fault, together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NodeChoice {
    /// All nodes.
    #[default]
    All,
    /// The primary at the time of the fault, or shortly before. Of several nodes that take writes, the first that runs.
    Primary,
    /// The node with the lowest number that holds data, runs, and is not the primary.
    Replica,
    /// The node with this number, from 1.
    Number(u32),
    /// Several nodes.
    Numbers(NodeSet),
    /// The largest number of nodes below half of all: those with the lowest numbers, without the primary.
    Minority,
    /// All nodes but those of the minority: the smallest number above half.
    Majority,
}

impl NodeChoice {
    /// Parses a word or number of a plan.
    pub fn named(word: &str) -> Option<Self> {
        match word {
            "all" => Some(Self::All),
            "primary" => Some(Self::Primary),
            "replica" => Some(Self::Replica),
            number => number.parse().ok().filter(|number| *number > 0).map(Self::Number),
        }
    }

    /// True for all nodes.
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }

    /// Returns the number of nodes that are meant of a cluster of so many.
    pub fn count(self, nodes: usize) -> usize {
        let minority = nodes.div_ceil(2).saturating_sub(1);
        match self {
            Self::All => nodes,
            Self::Primary | Self::Replica | Self::Number(_) => 1,
            Self::Numbers(all) => all.numbers().count(),
            Self::Minority => minority,
            Self::Majority => nodes - minority,
        }
    }

    /// Returns the numbers, from 1, of nodes that are named by number.
    pub fn numbers(self) -> Vec<u32> {
        match self {
            Self::Number(number) => vec![number],
            Self::Numbers(all) => all.numbers().map(|number| number as u32 + 1).collect(),
            Self::All | Self::Primary | Self::Replica | Self::Minority | Self::Majority => Vec::new(),
        }
    }

    /// Returns true if both surely mean the same node among others.
    pub fn meets(self, other: Self) -> bool {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => true,
            // The primary is always in the majority.
            (Self::Majority, Self::Primary) | (Self::Primary, Self::Majority) => true,
            (Self::Numbers(one), Self::Numbers(other)) => one.meets(other),
            (Self::Numbers(all), Self::Number(number)) | (Self::Number(number), Self::Numbers(all)) => {
                all.has(number as usize - 1)
            }
            (one, other) => one == other,
        }
    }
}

impl fmt::Display for NodeChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Primary => f.write_str("primary"),
            Self::Replica => f.write_str("replica"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Numbers(all) => write!(f, "{all}"),
            Self::Minority => f.write_str("minority"),
            Self::Majority => f.write_str("majority"),
        }
    }
}

impl Serialize for NodeChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

const DISK: &str = "disk";
const SIZE: &str = "disk_size";
const FLUSHES: &str = "disk_flushes";
const FLUSH_TIME: &str = "disk_flush_time";
const IGNORED: &str = "ignored";
const SPEED: &str = "disk_speed";
const LAYOUT: &str = "disk_layout";
/// Reason against a parameter of a simulated disk, and its remedy.
const NO_DISK: &str = "the data is not on a simulated disk with a file system";
const ANY_DISK: &str = "put it on one: disk = \"ext4\"";

/// Parameter of stores whose write-ahead log can be on a disk of its own.
pub const LOG_DISK: ParamSpec = ParamSpec::one_of(
    "log_disk",
    &["none", "full", "hdd", "ssd"],
    "speed of a simulated disk for the log of a private server alone; none: the log is on the disk of the data",
)
.of_private();

/// The parameters, with their names in plans.
pub(crate) const PARAMS: [ParamSpec; 6] = [
    ParamSpec::one_of(
        DISK,
        &["plain", "ext4", "xfs", "btrfs", "btrfs-nodatacow", "files"],
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
    ParamSpec::one_of(
        SPEED,
        &["full", "hdd", "ssd"],
        "speed of the simulated disk: full, hdd (8 ms for a seek, 150 MB/s) or ssd (0.1 ms, 500 MB/s)",
    ),
    ParamSpec::one_of(
        LAYOUT,
        &["single", "mirror", "stripe"],
        "devices that a disk with a speed consists of: one, a mirror of two, or a stripe over two",
    ),
];

/// Appends the parameters of the disk to those of an embedded store, `own`: `ALL` is 6 more than `OWN`.
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
    /// Speed of its devices.
    pub speed: DiskSpeed,
    /// Layout of its devices.
    pub layout: DiskLayout,
    /// Speed of a disk for the write-ahead log alone; `None` if the log is on this disk.
    pub log_disk: Option<DiskSpeed>,
}

impl DiskSpec {
    /// Name of the parameter that selects the disk.
    pub const PARAM: &str = DISK;

    /// Reads the disk from a store's parameters; `None` if the data directory is used as it is.
    pub fn of(params: &Params) -> Option<Self> {
        let file_system = FileSystem::named(params.text(DISK))?;
        let size_bytes = u64::try_from(params.int(SIZE)).unwrap_or_default();
        let flush_time = Duration::from_nanos(u64::try_from(params.int(FLUSH_TIME)).unwrap_or_default());
        Some(Self {
            file_system,
            size_bytes,
            ignores_flushes: params.text(FLUSHES) == IGNORED,
            flush_time,
            speed: DiskSpeed::named(params.text(SPEED)).unwrap_or_default(),
            layout: DiskLayout::named(params.text(LAYOUT)).unwrap_or_default(),
            log_disk: log_disk(params),
        })
    }

    /// Returns whether the write-ahead log is to be on a simulated disk of its own.
    ///
    /// # Errors
    /// `Usage` if the data is not on a simulated disk with a file system.
    pub fn has_log_disk(params: &Params) -> Result<bool, StoreError> {
        let Some(speed) = log_disk(params) else { return Ok(false) };
        match has_file_system(params) {
            true => Ok(true),
            false => Err(StoreError::usage(format!("{}: {NO_DISK}", of_log(speed))).next(ANY_DISK)),
        }
    }

    /// Returns the disk for the write-ahead log: one device with the same file system.
    #[must_use]
    pub fn for_log(self) -> Self {
        Self { speed: self.log_disk.unwrap_or_default(), layout: DiskLayout::Single, log_disk: None, ..self }
    }

    /// Returns the parameter by which the data is on several devices; `None` if they are on one. What power cuts and
    /// faults do to several devices is not simulated.
    pub fn several(&self) -> Option<String> {
        match self.layout {
            DiskLayout::Single => self.log_disk.map(of_log),
            layout => Some(format!("{LAYOUT} = \"{}\"", layout.name())),
        }
    }

    /// Returns parameters that do not go together, and a remedy.
    pub fn mistake(params: &Params) -> Option<(String, &'static str)> {
        let is_slow = DiskSpeed::named(params.text(SPEED)).is_some_and(|speed| speed.figures().is_some());
        if is_slow && !has_file_system(params) {
            return Some((format!("{SPEED} = \"{}\": {NO_DISK}", params.text(SPEED)), ANY_DISK));
        }
        let about_flushes = [(params.int(FLUSH_TIME) > 0, FLUSH_TIME), (params.text(FLUSHES) == IGNORED, FLUSHES)];
        let of_flushes = about_flushes.into_iter().find_map(|(is_set, name)| is_set.then_some(name));
        if let Some(name) = of_flushes.filter(|_| DiskSpec::of(params).is_none()) {
            return Some((format!("{name}: the data is not on a simulated disk"), ANY_DISK));
        }
        let layout = DiskLayout::named(params.text(LAYOUT)).unwrap_or_default();
        let what = format!("{LAYOUT} = \"{}\" has no effect on a disk without a speed", layout.name());
        (layout != DiskLayout::Single && !is_slow)
            .then_some((what, "set disk_speed = \"hdd\" or \"ssd\", or leave `disk_layout` out"))
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
        if self.speed != DiskSpeed::Full {
            settings.push(Setting::new(SPEED, self.speed.name(), Some("full"), "plimsoll"));
            settings.push(Setting::new(LAYOUT, self.layout.name(), Some("single"), "plimsoll"));
        }
        if let Some(speed) = self.log_disk {
            settings.push(Setting::new(LOG_DISK.name, speed.name(), Some("none"), "plimsoll"));
        }
        settings
    }
}

fn has_file_system(params: &Params) -> bool {
    DiskSpec::of(params).is_some_and(|disk| disk.file_system != FileSystem::Files)
}

fn log_disk(params: &Params) -> Option<DiskSpeed> {
    DiskSpeed::named(params.text(LOG_DISK.name))
}

fn of_log(speed: DiskSpeed) -> String {
    format!("{} = \"{}\"", LOG_DISK.name, speed.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::ParamValue;

    fn params(set: &[(&str, &str)]) -> Params {
        Params(set.iter().map(|(name, text)| ((*name).to_owned(), ParamValue::Text((*text).to_owned()))).collect())
    }

    #[test]
    fn the_disk_of_a_log_is_one_device_with_a_speed_of_its_own() {
        let of_data = [(DISK, "xfs"), (SPEED, "hdd"), (LAYOUT, "mirror"), (LOG_DISK.name, "ssd")];
        let disk = DiskSpec::of(&params(&of_data)).unwrap();
        let log = disk.for_log();
        assert_eq!((log.speed, log.layout, log.file_system), (DiskSpeed::Ssd, DiskLayout::Single, FileSystem::Xfs));
        assert_eq!((disk.several().unwrap(), log.several()), ("disk_layout = \"mirror\"".to_owned(), None));
        assert!(DiskSpec::has_log_disk(&params(&of_data)).unwrap());
        assert!(!DiskSpec::has_log_disk(&params(&[(LOG_DISK.name, "none")])).unwrap());
        assert!(DiskSpec::has_log_disk(&params(&[(DISK, "files"), (LOG_DISK.name, "ssd")])).is_err());
    }
}
