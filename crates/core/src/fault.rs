//! Faults of a simulated disk, in the words of its control protocol and of plans.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::disk::{DiskLayout, FileSystem};

/// Share of writes that survive at random in a plan.
const SURVIVING_SHARE: f64 = 0.5;

/// The moment of a power cut, counted from its arming. The flush or write at that moment is answered EIO, or "done"
/// by a device that freezes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum CutMoment {
    /// Immediately.
    Now,
    /// At the arrival of the Nth flush from now, 1 or more. That flush makes nothing durable.
    Flush(u64),
    /// At the arrival of the Nth write from now, 1 or more. That write is at risk like all others that were not
    /// flushed.
    Write(u64),
}

/// The un-flushed writes that survive the cut.
///
/// A write is one request of up to 1 MiB. A discard is kept or lost like a write, in its order among them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub enum Survivors {
    /// None of them.
    None,
    /// All of them.
    All,
    /// Each with the probability `share`, at random.
    Random {
        /// Seed of the random choice: it keeps the same writes of the same sequence.
        seed: u64,
        /// Share from 0 to 1.
        share: f64,
        /// Decides for each sector of a write, so that a write of several may survive in part.
        tear: bool,
    },
    /// The first ones, in the order in which they arrived.
    Prefix {
        /// Number of writes.
        writes: u64,
        /// The next one survives with the first half of its sectors.
        tear: bool,
    },
}

/// The requests that a fault affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// Writes, and discards.
    Write,
    /// Flushes.
    Flush,
    /// Reads.
    Read,
}

/// Number of requests that an error affects, and how they are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorMode {
    /// The next request fails.
    Once,
    /// Every request fails.
    Always,
    /// This many requests are answered "done" but not executed. Not for reads.
    Silent(u64),
}

/// A fault of the device, which lasts until it is cleared. Faults of different kinds add up; a new one of the same
/// kind replaces the old one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// Flushes are acknowledged, but make nothing durable.
    IgnoreFlushes,
    /// Requests fail with EIO and change nothing.
    Eio {
        /// The affected requests.
        on: RequestKind,
        /// Number of requests.
        how: ErrorMode,
    },
    /// Requests are answered late: evenly distributed over `median` ± `jitter`. They take effect when they arrive.
    Delay {
        /// The affected requests.
        on: RequestKind,
        /// The middle of the delays.
        median: Duration,
        /// Half the width of the distribution; at most `median`.
        jitter: Duration,
        /// Seed of the delays: it gives the same delays again.
        seed: u64,
    },
    /// Writes fail with ENOSPC: to a device all of them, as if it were thinly provisioned; to files those that make a
    /// file longer. On a disk of a store that has a file system, the file system is full instead of its device.
    Full,
    /// Some sectors read with one bit flipped, always the same.
    BitRot {
        /// Seed of the choice of sectors and bits.
        seed: u64,
        /// Share of the sectors, from 0 to 1.
        share: f64,
    },
    /// Requests take the time of a slow device, or of several. Not of a directory of files.
    Speed {
        /// Time for a request that does not begin where the previous one ended, or that follows a flush.
        seek: Duration,
        /// Bytes that a device reads or writes in a second.
        bytes_per_s: u64,
        /// Layout of the devices.
        layout: DiskLayout,
    },
}

impl Fault {
    /// All faults, in the syntax that is parsed.
    pub const WORDS: &str = "ignore-flushes, eio write|flush|read once|always|silent N, \
        delay write|flush|read MEDIAN_US JITTER_US SEED, full, bit-rot SEED SHARE or \
        speed SEEK_US BYTES_PER_S single|mirror|stripe";
}

impl Survivors {
    /// Parses a word of a plan; `random` and `torn` keep half of the writes, and get their seed later.
    pub fn named(word: &str) -> Option<Self> {
        let by_lot = |tear| Self::Random { seed: 0, share: SURVIVING_SHARE, tear };
        Some(match word {
            "none" => Self::None,
            "all" => Self::All,
            "random" => by_lot(false),
            "torn" => by_lot(true),
            _ => return None,
        })
    }

    /// The word in a plan, whatever the seed and the share.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::All => "all",
            Self::Random { tear: false, .. } => "random",
            Self::Random { tear: true, .. } => "torn",
            Self::Prefix { .. } => "prefix",
        }
    }

    /// Sets the seed of a random choice; does not change the others.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        match self {
            Self::Random { share, tear, .. } => Self::Random { seed, share, tear },
            other => other,
        }
    }
}

impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FileSystem {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::named(text)
            .ok_or_else(|| format!("unknown file system {text:?}: ext4, xfs, btrfs, btrfs-nodatacow or files"))
    }
}

impl CutMoment {
    /// Returns true if this moment had come after so many writes and flushes, counted from the arming.
    pub fn has_come(self, writes: u64, flushes: u64) -> bool {
        match self {
            Self::Now => true,
            Self::Flush(count) => flushes >= count,
            Self::Write(count) => writes >= count,
        }
    }
}

impl fmt::Display for CutMoment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now => f.write_str("now"),
            Self::Flush(count) => write!(f, "flush {count}"),
            Self::Write(count) => write!(f, "write {count}"),
        }
    }
}

impl FromStr for CutMoment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at = match *words(text) {
            ["now"] => Self::Now,
            ["flush", count] => Self::Flush(number(count)?),
            ["write", count] => Self::Write(number(count)?),
            _ => return Err(unknown(text, "now, flush N or write N")),
        };
        match at {
            Self::Flush(0) | Self::Write(0) => Err("a cut is at the first flush or write, or later".into()),
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
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
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

impl fmt::Display for RequestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Read => "read",
        })
    }
}

impl FromStr for RequestKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
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
            Self::Eio { on, how: ErrorMode::Once } => write!(f, "eio {on} once"),
            Self::Eio { on, how: ErrorMode::Always } => write!(f, "eio {on} always"),
            Self::Eio { on, how: ErrorMode::Silent(count) } => write!(f, "eio {on} silent {count}"),
            Self::Delay { on, median, jitter, seed } => {
                write!(f, "delay {on} {} {} {seed}", median.as_micros(), jitter.as_micros())
            }
            Self::Full => f.write_str("full"),
            Self::BitRot { seed, share } => write!(f, "bit-rot {seed} {share}"),
            Self::Speed { seek, bytes_per_s, layout } => {
                write!(f, "speed {} {bytes_per_s} {}", seek.as_micros(), layout.name())
            }
        }
    }
}

/// The longest delay: a process that waits for a disk cannot be ended, not even by SIGKILL.
pub const DELAY_MAX: Duration = Duration::from_secs(60);
/// The slowest disk, for the same reason: requests may queue.
const SEEK_MAX: Duration = Duration::from_secs(1);
const BYTES_PER_S_MIN: u64 = 1 << 20;

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = match *words(text) {
            ["ignore-flushes"] => Self::IgnoreFlushes,
            ["eio", on, "once"] => Self::Eio { on: on.parse()?, how: ErrorMode::Once },
            ["eio", on, "always"] => Self::Eio { on: on.parse()?, how: ErrorMode::Always },
            ["eio", on, "silent", count] => Self::Eio { on: on.parse()?, how: ErrorMode::Silent(number(count)?) },
            ["delay", on, median_us, jitter_us, seed] => Self::Delay {
                on: on.parse()?,
                median: Duration::from_micros(number(median_us)?),
                jitter: Duration::from_micros(number(jitter_us)?),
                seed: number(seed)?,
            },
            ["full"] => Self::Full,
            ["bit-rot", seed, share] => Self::BitRot { seed: number(seed)?, share: self::share(share)? },
            ["speed", seek_us, bytes_per_s, layout] => Self::Speed {
                seek: Duration::from_micros(number(seek_us)?),
                bytes_per_s: number(bytes_per_s)?,
                layout: DiskLayout::named(layout).ok_or_else(|| unknown(layout, "single, mirror or stripe"))?,
            },
            _ => return Err(unknown(text, Self::WORDS)),
        };
        match fault {
            Self::Eio { on: RequestKind::Read, how: ErrorMode::Silent(_) } => {
                Err("a read cannot fail silently: bit-rot changes its data".into())
            }
            Self::Delay { median, .. } if median > DELAY_MAX => {
                Err("a delay is at most 60 s: a process that waits for the disk cannot be ended".into())
            }
            Self::Speed { seek, .. } if seek > SEEK_MAX => Err("a seek takes at most 1 s".into()),
            Self::Speed { bytes_per_s, .. } if bytes_per_s < BYTES_PER_S_MIN => {
                Err(format!("a disk reads and writes at least {BYTES_PER_S_MIN} bytes per second"))
            }
            Self::Delay { median, jitter, .. } if jitter > median => {
                Err("the jitter of a delay is at most its median".into())
            }
            fault => Ok(fault),
        }
    }
}

fn words(text: &str) -> Box<[&str]> {
    text.split_whitespace().collect()
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is not an integer"))
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("{text:?} is not a share from 0 to 1"))
}

fn unknown(text: &str, known: &str) -> String {
    format!("{text:?}: expected {known}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for text in ["now", "flush 10", "write 1"] {
            assert_eq!(text.parse::<CutMoment>().unwrap().to_string(), text);
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
            "speed 8000 150000000 mirror",
        ] {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn the_words_of_plans_name_survivors_that_get_their_seed_later() {
        let torn = Survivors::named("torn").unwrap();
        assert_eq!(torn.with_seed(7).to_string(), "random 7 0.5 tear");
        assert_eq!(Survivors::named("random").unwrap().with_seed(7).to_string(), "random 7 0.5");
        assert_eq!(Survivors::named("all").unwrap().with_seed(7), Survivors::All);
        assert_eq!(Survivors::named("prefix 3"), None);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in ["", "flush", "flush 0", "write -1", "flush 1 2"] {
            assert!(text.parse::<CutMoment>().is_err(), "{text}");
        }
        for text in ["none tear", "random 1 1.5", "random 1 NaN", "prefix"] {
            assert!(text.parse::<Survivors>().is_err(), "{text}");
        }
        for text in [
            "eio read silent 1",
            "delay write 1 2 0",
            "delay flush 60000001 0 0",
            "bit-rot 1 2",
            "eio trim once",
            "speed 1000001 150000000 single",
            "speed 8000 1000 single",
            "speed 8000 150000000 raid5",
        ] {
            assert!(text.parse::<Fault>().is_err(), "{text}");
        }
    }
}
