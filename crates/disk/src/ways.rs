//! Sizes, ways of writing and ways of flushing; and which combinations of them are measured.

use serde::Serialize;

plimsoll_core::words! {
    /// Method of writing a block to a file.
    pub enum Writing {
        /// The file grows with each write.
        Append = "append",
        /// The file was written before; its blocks are written again, one after the other.
        Overwrite = "overwrite",
        /// The file has its size and room by fallocate(2), and its blocks are written for the first time.
        Preallocated = "preallocated",
        /// A new file for each write; its directory is flushed, too, if the method of flushing is a flush.
        NewFile = "new-file",
    }
}

plimsoll_core::words! {
    /// Method of flushing a block.
    pub enum Flushing {
        /// No flush: the data stays in the kernel's memory.
        Nothing = "none",
        /// fsync(2).
        Fsync = "fsync",
        /// fdatasync(2).
        Fdatasync = "fdatasync",
        /// The file is open with O_DSYNC: the write itself flushes.
        Dsync = "o-dsync",
        /// The file is open with O_DIRECT, then fdatasync(2).
        Direct = "o-direct",
        /// sync_file_range(2): the pages go to the device, which is not asked to flush its cache; nor is the journal.
        Range = "sync-file-range",
        /// fdatasync through io_uring (IORING_OP_FSYNC).
        Uring = "io-uring",
    }
}

impl Flushing {
    /// False for what gives no promise that anything survives the loss of power.
    pub fn is_flush(self) -> bool {
        !matches!(self, Flushing::Nothing | Flushing::Range)
    }
}

/// Default sizes of the measured writes, bytes.
pub const SIZES: [usize; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Combination that is measured together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Point {
    /// Bytes of a write.
    pub size_bytes: usize,
    /// Method of writing.
    pub writing: Writing,
    /// Method of flushing.
    pub flushing: Flushing,
    /// Beside a background writer.
    pub loaded: bool,
}

/// Returns every combination.
pub fn every(sizes: &[usize], writings: &[Writing], flushings: &[Flushing]) -> Vec<Point> {
    let mut all = Vec::new();
    for loaded in [false, true] {
        for &size_bytes in sizes {
            for &writing in writings {
                all.extend(flushings.iter().map(|&flushing| Point { size_bytes, writing, flushing, loaded }));
            }
        }
    }
    all
}

/// The combinations that say most: every way of flushing one written file, every way of writing with fdatasync, every
/// size appended, and some of that under load.
pub fn telling(sizes: &[usize]) -> Vec<Point> {
    let Some((&least, larger)) = sizes.split_first() else { return Vec::new() };
    let point = |size_bytes, writing, flushing, loaded| Point { size_bytes, writing, flushing, loaded };
    let mut all: Vec<Point> =
        Flushing::ALL.iter().map(|&flushing| point(least, Writing::Overwrite, flushing, false)).collect();
    let other_ways = Writing::ALL.iter().filter(|writing| **writing != Writing::Overwrite);
    all.extend(other_ways.map(|&writing| point(least, writing, Flushing::Fdatasync, false)));
    all.extend(larger.iter().map(|&size| point(size, Writing::Append, Flushing::Fdatasync, false)));
    for (writing, flushing) in [
        (Writing::Overwrite, Flushing::Nothing),
        (Writing::Overwrite, Flushing::Fdatasync),
        (Writing::Append, Flushing::Fdatasync),
    ] {
        all.push(point(least, writing, flushing, true));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_telling_points_are_all_different_and_few() {
        let points = telling(&SIZES);
        assert_eq!(points.len(), 17);
        assert!(points.iter().enumerate().all(|(at, point)| !points[..at].contains(point)));
        assert_eq!(every(&SIZES, &Writing::ALL, &Flushing::ALL).len(), 5 * 4 * 7 * 2);
    }
}
