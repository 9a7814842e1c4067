//! Sectors covered by un-flushed writes and discards, with the position of the newest contents of each.

use std::collections::BTreeMap;

use crate::counters::SECTOR_BYTES;

/// Sectors that follow one another and have one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The first sector.
    pub start: u64,
    /// The sector after the last one.
    pub end: u64,
    /// Position of the first sector's contents in the log; `None` for zeros.
    pub data: Option<u64>,
}

impl Extent {
    /// The part of it in `start..end`, which overlaps it.
    pub(crate) fn part(self, start: u64, end: u64) -> Self {
        let (start, end) = (start.max(self.start), end.min(self.end));
        Self { start, end, data: self.data.map(|data| data + (start - self.start) * SECTOR_BYTES) }
    }
}

/// Extents that do not overlap, by their first sector.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    by_start: BTreeMap<u64, Extent>,
    sectors: u64,
}

impl Extents {
    /// Returns the number of sectors that are covered.
    pub(crate) fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Inserts `new` over the present extents.
    pub(crate) fn insert(&mut self, new: Extent) {
        let covered: Vec<Extent> = self.overlapping(new.start, new.end).collect();
        for old in covered {
            self.by_start.remove(&old.start);
            self.sectors -= old.end - old.start;
            for (start, end) in [(old.start, new.start), (new.end, old.end)] {
                if start < end {
                    self.put(old.part(start, end));
                }
            }
        }
        self.put(new);
    }

    fn put(&mut self, extent: Extent) {
        self.sectors += extent.end - extent.start;
        self.by_start.insert(extent.start, extent);
    }

    /// Returns the extents that overlap `start..end`, in order.
    pub(crate) fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = Extent> + '_ {
        let before = self.by_start.range(..start).next_back().filter(|(_, extent)| extent.end > start);
        before.into_iter().chain(self.by_start.range(start..end)).map(|(_, extent)| *extent)
    }

    /// Iterates over all extents, in order.
    pub(crate) fn all(&self) -> impl Iterator<Item = Extent> + '_ {
        self.by_start.values().copied()
    }

    pub(crate) fn clear(&mut self) {
        self.by_start.clear();
        self.sectors = 0;
    }
}
