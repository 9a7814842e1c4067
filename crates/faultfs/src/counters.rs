//! Requests to a device, losses by a cut, and both as words of the control protocol.

use std::fmt;
use std::time::Duration;

/// A sector: the unit that a power cut leaves whole. Linux counts in it, whatever the device's own.
pub const SECTOR_BYTES: u64 = 512;

/// Writes that no honoured flush had made durable when power was cut. All zero makes a cut that proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AtRisk {
    /// Writes; discards are not counted.
    pub writes: u64,
    /// Different sectors in them.
    pub sectors: u64,
    /// Bytes in them; what was written twice counts twice.
    pub bytes: u64,
}

/// Writes to a file that no sync had made durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsyncedFile {
    /// Within the mount, as it is called now, or was at the cut; `(removed)` where it has no name any more.
    pub path: String,
    /// Bytes in sectors that were written.
    pub bytes: u64,
    /// Age of the first of the writes, now or at the cut.
    pub age: Duration,
    /// Number of the writes.
    pub writes: u64,
    /// True if they replace durable contents, and do not only add to them.
    pub replaces: bool,
}

/// A cut that has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Time of the cut, on CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Writes that were not durable.
    pub at_risk: AtRisk,
    /// Writes that had arrived since the cut was armed, with the one that it came with.
    pub writes_seen: u64,
    /// Flushes, likewise.
    pub flushes_seen: u64,
}

/// Counts of requests since the file system was mounted first. Requests without power are not counted.
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
            /// Parses an answer; unknown names in it are skipped.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_of_a_cut_is_read_again() {
        let cut =
            Cut { at_ns: 5, at_risk: AtRisk { writes: 1, sectors: 2, bytes: 3 }, writes_seen: 4, flushes_seen: 6 };
        assert_eq!(Cut::of_answer(&cut.to_string()), Some(cut));
    }
}
