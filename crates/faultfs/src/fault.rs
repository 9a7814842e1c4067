//! What a device can be asked to do wrong, what was lost by it, and each as words of the control protocol.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use crate::error::FaultError;

/// A sector: the unit that a power cut leaves whole. Linux counts in it, whatever the device's own.
pub const SECTOR_BYTES: u64 = 512;

/// The file system on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    /// ext4, with its journal.
    Ext4,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
}

impl FileSystem {
    /// Which one is in an image, by the magic numbers of their superblocks (fs/ext4/ext4.h, fs/xfs/libxfs/xfs_format.h, fs/btrfs/ctree.h).
    ///
    /// # Errors
    /// Where it is none of them, or cannot be read.
    pub fn of_image(image: &Path) -> Result<Self, FaultError> {
        let file = File::open(image).map_err(FaultError::at(image))?;
        let magic: [(Self, u64, &[u8]); 3] =
            [(Self::Ext4, 0x438, b"\x53\xef"), (Self::Xfs, 0, b"XFSB"), (Self::Btrfs, 0x1_0040, b"_BHRfS_M")];
        let is_there = |(_, at, magic): &(Self, u64, &[u8])| {
            let mut found = vec![0; magic.len()];
            file.read_exact_at(&mut found, *at).is_ok() && found == *magic
        };
        let found = magic.into_iter().find(is_there).map(|(file_system, ..)| file_system);
        found.ok_or_else(|| FaultError::Usage(format!("{}: this is no ext4, XFS or Btrfs", image.display())))
    }

    /// As mount(2) calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FileSystem {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let all = [Self::Ext4, Self::Xfs, Self::Btrfs];
        let found = all.into_iter().find(|known| known.name() == text);
        found.ok_or_else(|| FaultError::Usage(format!("no file system {text:?}: ext4, xfs or btrfs")))
    }
}

/// When the power goes. Counted from the arming; the flush or write that it comes with is answered EIO, or "done" by a device
/// that freezes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutAt {
    /// At once.
    Now,
    /// When the Nth flush from now arrives, 1 or more. It makes nothing durable.
    Flush(u64),
    /// When the Nth write from now arrives, 1 or more. It is at risk like the others that were not flushed.
    Write(u64),
}

/// Which of the writes that no flush made durable are there after the cut.
///
/// A write is what arrives at once, up to 1 MiB. A discard is kept or lost like a write, in its place among them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Survivors {
    /// None of them.
    None,
    /// All of them.
    All,
    /// Each with the probability `share`, by lot.
    Random {
        /// The same seed keeps the same writes of the same sequence.
        seed: u64,
        /// From 0 to 1.
        share: f64,
        /// Draws for each sector of a write, so that a write of many may survive in part.
        tear: bool,
    },
    /// The first ones, in the order in which they arrived.
    Prefix {
        /// How many.
        writes: u64,
        /// The next one survives with the first half of its sectors.
        tear: bool,
    },
}

/// Which requests a fault is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// Writes, and discards.
    Write,
    /// Flushes.
    Flush,
    /// Reads.
    Read,
}

/// How often an error is answered, and whether it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The next request fails.
    Once,
    /// Every request fails.
    Always,
    /// So many requests are answered "done" and are not. Not of reads.
    Silent(u64),
}

/// What the device does wrong, until it is cleared. Faults of different sorts add up; one of a sort replaces the one before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// Flushes are answered "done" and make nothing durable.
    IgnoreFlushes,
    /// Requests fail with EIO and change nothing.
    Eio {
        /// Which.
        on: On,
        /// How often.
        how: How,
    },
    /// Requests are answered late: evenly spread over `median` ± `jitter`. They take effect when they arrive.
    Delay {
        /// Which.
        on: On,
        /// The middle of the delays.
        median: Duration,
        /// How far they spread; at most `median`.
        jitter: Duration,
        /// The same seed gives the same delays.
        seed: u64,
    },
    /// Writes fail with ENOSPC, as on a thinly provisioned device.
    Full,
    /// Some sectors read with one bit flipped, always the same.
    BitRot {
        /// Chooses sectors and bits.
        seed: u64,
        /// Share of the sectors, from 0 to 1.
        share: f64,
    },
}

/// What no honoured flush had made durable when the power went. All zero makes a cut that proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AtRisk {
    /// Writes; discards are not counted.
    pub writes: u64,
    /// Different sectors in them.
    pub sectors: u64,
    /// Bytes in them; what was written twice counts twice.
    pub bytes: u64,
}

/// A cut that has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// When, on CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// What was not durable.
    pub at_risk: AtRisk,
    /// Writes that had arrived since the cut was armed, with the one that it came with.
    pub writes_seen: u64,
    /// Flushes, likewise.
    pub flushes_seen: u64,
}

/// What has arrived since the file system was mounted first. What arrives without power is not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Writes.
    pub writes: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Flushes, also those that were not honoured.
    pub flushes: u64,
    /// Discards, and writes of zeros that come without data.
    pub discards: u64,
    /// Reads.
    pub reads: u64,
    /// Different sectors that no honoured flush has made durable, now.
    pub unflushed_sectors: u64,
}

impl fmt::Display for CutAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now => f.write_str("now"),
            Self::Flush(count) => write!(f, "flush {count}"),
            Self::Write(count) => write!(f, "write {count}"),
        }
    }
}

impl FromStr for CutAt {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let at = match *words(text) {
            ["now"] => Self::Now,
            ["flush", count] => Self::Flush(number(count)?),
            ["write", count] => Self::Write(number(count)?),
            _ => return Err(unknown(text, "now, flush N or write N")),
        };
        match at {
            Self::Flush(0) | Self::Write(0) => {
                Err(FaultError::Usage("a cut is at the first flush or write, or later".into()))
            }
            at => Ok(at),
        }
    }
}

impl fmt::Display for Survivors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let torn = |tear| if tear { " tear" } else { "" };
        match *self {
            Self::None => f.write_str("none"),
            Self::All => f.write_str("all"),
            Self::Random { seed, share, tear } => write!(f, "random {seed} {share}{}", torn(tear)),
            Self::Prefix { writes, tear } => write!(f, "prefix {writes}{}", torn(tear)),
        }
    }
}

impl FromStr for Survivors {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let words = words(text);
        let (words, tear) = match *words {
            [ref words @ .., "tear"] => (words, true),
            ref words => (words, false),
        };
        match *words {
            ["none"] if !tear => Ok(Self::None),
            ["all"] if !tear => Ok(Self::All),
            ["random", seed, share] => Ok(Self::Random { seed: number(seed)?, share: self::share(share)?, tear }),
            ["prefix", writes] => Ok(Self::Prefix { writes: number(writes)?, tear }),
            _ => Err(unknown(text, "none, all, random SEED SHARE [tear] or prefix WRITES [tear]")),
        }
    }
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Read => "read",
        })
    }
}

impl FromStr for On {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        match text {
            "write" => Ok(Self::Write),
            "flush" => Ok(Self::Flush),
            "read" => Ok(Self::Read),
            _ => Err(unknown(text, "write, flush or read")),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::IgnoreFlushes => f.write_str("ignore-flushes"),
            Self::Eio { on, how: How::Once } => write!(f, "eio {on} once"),
            Self::Eio { on, how: How::Always } => write!(f, "eio {on} always"),
            Self::Eio { on, how: How::Silent(count) } => write!(f, "eio {on} silent {count}"),
            Self::Delay { on, median, jitter, seed } => {
                write!(f, "delay {on} {} {} {seed}", median.as_micros(), jitter.as_micros())
            }
            Self::Full => f.write_str("full"),
            Self::BitRot { seed, share } => write!(f, "bit-rot {seed} {share}"),
        }
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let fault = match *words(text) {
            ["ignore-flushes"] => Self::IgnoreFlushes,
            ["eio", on, "once"] => Self::Eio { on: on.parse()?, how: How::Once },
            ["eio", on, "always"] => Self::Eio { on: on.parse()?, how: How::Always },
            ["eio", on, "silent", count] => Self::Eio { on: on.parse()?, how: How::Silent(number(count)?) },
            ["delay", on, median_us, jitter_us, seed] => Self::Delay {
                on: on.parse()?,
                median: Duration::from_micros(number(median_us)?),
                jitter: Duration::from_micros(number(jitter_us)?),
                seed: number(seed)?,
            },
            ["full"] => Self::Full,
            ["bit-rot", seed, share] => Self::BitRot { seed: number(seed)?, share: self::share(share)? },
            _ => {
                let known = "ignore-flushes, eio write|flush|read once|always|silent N, \
                    delay write|flush|read MEDIAN_US JITTER_US SEED, full or bit-rot SEED SHARE";
                return Err(unknown(text, known));
            }
        };
        match fault {
            Self::Eio { on: On::Read, how: How::Silent(_) } => {
                Err(FaultError::Usage("a read cannot fail in silence: bit-rot changes what it gives".into()))
            }
            Self::Delay { median, jitter, .. } if jitter > median => {
                Err(FaultError::Usage("the jitter of a delay is at most its median".into()))
            }
            fault => Ok(fault),
        }
    }
}

/// Names and values of an answer, `NAME=VALUE`, in one order for both ends.
macro_rules! answer {
    ($type:ty: $($name:literal => $($field:ident).+),+) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let pairs = [$(($name, self.$($field).+)),+];
                let text: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
                f.write_str(&text.join(" "))
            }
        }

        impl $type {
            /// What an answer says of it; other names in it are passed over.
            pub(crate) fn of_answer(text: &str) -> Option<Self> {
                let value = |name: &str| {
                    text.split_whitespace().find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == name)?.1.parse().ok())
                };
                let mut found = Self::NOTHING;
                $(found.$($field).+ = value($name)?;)+
                Some(found)
            }
        }
    };
}

impl AtRisk {
    const NOTHING: Self = Self { writes: 0, sectors: 0, bytes: 0 };
}

impl Cut {
    const NOTHING: Self = Self { at_ns: 0, at_risk: AtRisk::NOTHING, writes_seen: 0, flushes_seen: 0 };
}

impl Counters {
    const NOTHING: Self = Self { writes: 0, bytes: 0, flushes: 0, discards: 0, reads: 0, unflushed_sectors: 0 };
}

answer!(AtRisk: "writes_at_risk" => writes, "sectors_at_risk" => sectors, "bytes_at_risk" => bytes);
answer!(Cut: "at_ns" => at_ns, "writes_at_risk" => at_risk.writes, "sectors_at_risk" => at_risk.sectors,
    "bytes_at_risk" => at_risk.bytes, "writes_seen" => writes_seen, "flushes_seen" => flushes_seen);
answer!(Counters: "writes" => writes, "bytes" => bytes, "flushes" => flushes, "discards" => discards,
    "reads" => reads, "unflushed_sectors" => unflushed_sectors);

fn words(text: &str) -> Box<[&str]> {
    text.split_whitespace().collect()
}

pub(crate) fn number(text: &str) -> Result<u64, FaultError> {
    text.parse().map_err(|_| FaultError::Usage(format!("{text:?} is no whole number")))
}

fn share(text: &str) -> Result<f64, FaultError> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| FaultError::Usage(format!("{text:?} is no share: from 0 to 1")))
}

pub(crate) fn unknown(text: &str, known: &str) -> FaultError {
    FaultError::Usage(format!("{text:?}: this is {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for text in ["now", "flush 10", "write 1"] {
            assert_eq!(text.parse::<CutAt>().unwrap().to_string(), text);
        }
        for text in ["none", "all", "random 7 0.5", "random 7 1 tear", "prefix 3", "prefix 3 tear"] {
            assert_eq!(text.parse::<Survivors>().unwrap().to_string(), text);
        }
        for text in [
            "ignore-flushes",
            "eio write once",
            "eio flush always",
            "eio flush silent 3",
            "delay read 100 10 7",
            "full",
            "bit-rot 7 0.001",
        ] {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
        let cut =
            Cut { at_ns: 5, at_risk: AtRisk { writes: 1, sectors: 2, bytes: 3 }, writes_seen: 4, flushes_seen: 6 };
        assert_eq!(Cut::of_answer(&cut.to_string()), Some(cut));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in ["", "flush", "flush 0", "write -1", "flush 1 2"] {
            assert!(text.parse::<CutAt>().is_err(), "{text}");
        }
        for text in ["none tear", "random 1 1.5", "random 1 NaN", "prefix"] {
            assert!(text.parse::<Survivors>().is_err(), "{text}");
        }
        for text in ["eio read silent 1", "delay write 1 2 0", "bit-rot 1 2", "eio trim once"] {
            assert!(text.parse::<Fault>().is_err(), "{text}");
        }
    }
}
