//! Unsynced state of one file: its written pages, with their old contents, and its sizes.
//!
//! A page is on the disk as it was at the last sync, or as it is at the cut, as the page cache has it. The file's size follows: what was
//! written beyond its end is there as far as it survives, and what is missing before it is zeros.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::counters::SECTOR_BYTES;
use crate::files::node::FileNode;
use crate::files::slots::{PAGE_BYTES, Page, Slot, Slots};

/// Pages that are read at once before they are written.
const RUN_PAGES: usize = 256;

/// A page that was written, or cut off.
#[derive(Debug)]
struct Written {
    /// Sequence number of its first write since the last sync.
    seq: u64,
    /// Sectors of the page that were written; none of a page that was cut off.
    sectors: u8,
    /// Synced contents of the page; `None` if there are none, or zeros.
    before: Option<Slot>,
}

/// A size that a file was given, and not by writing.
#[derive(Debug)]
struct Sized {
    seq: u64,
    size_bytes: u64,
    is_shorter: bool,
}

#[derive(Debug)]
pub(crate) struct Unsynced {
    pub(crate) node: Arc<FileNode>,
    durable_bytes: u64,
    sizes: Vec<Sized>,
    pages: BTreeMap<u64, Written>,
    /// Writes since it was synced, and bytes in them.
    pub(crate) writes: u64,
    pub(crate) bytes: u64,
    /// Time of the first of them, on CLOCK_MONOTONIC.
    pub(crate) since_ns: u64,
}

impl Unsynced {
    /// Makes the state of a file that is durable with this size.
    pub(crate) fn new(node: Arc<FileNode>, durable_bytes: u64, since_ns: u64) -> Self {
        Self { node, durable_bytes, sizes: Vec::new(), pages: BTreeMap::new(), writes: 0, bytes: 0, since_ns }
    }

    /// Sectors that were written.
    pub(crate) fn sectors(&self) -> u64 {
        self.pages.values().map(|page| u64::from(page.sectors.count_ones())).sum()
    }

    /// Returns true if durable contents were written over.
    pub(crate) fn replaces(&self) -> bool {
        self.pages.values().any(|page| page.sectors != 0 && page.before.is_some())
    }

    /// Pages that were written: when first, which, and which of their sectors.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (u64, u64, u8)> {
        self.pages.iter().filter(|(_, page)| page.sectors != 0).map(|(number, page)| (page.seq, *number, page.sectors))
    }

    /// Keeps what is in these bytes, which are about to be written. `next_seq` is called for each page that was not written before.
    pub(crate) fn write(
        &mut self,
        offset: u64,
        length: u64,
        slots: &mut Slots,
        next_seq: &mut dyn FnMut() -> u64,
    ) -> io::Result<()> {
        let end = offset.saturating_add(length);
        self.keep(offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES), slots)?;
        let mut at = offset;
        while at < end {
            let number = at / PAGE_BYTES;
            let until = ((number + 1) * PAGE_BYTES).min(end);
            let sectors = sectors_of(at % PAGE_BYTES, until - number * PAGE_BYTES);
            if let Some(page) = self.pages.get_mut(&number) {
                if page.sectors == 0 {
                    page.seq = next_seq();
                }
                page.sectors |= sectors;
            }
            at = until;
        }
        Ok(())
    }

    /// Keeps what is in these pages, where that is not kept: with one read of as many as a chunk has.
    fn keep(&mut self, pages: Range<u64>, slots: &mut Slots) -> io::Result<()> {
        let is_new = |number: &u64| !self.pages.contains_key(number);
        let new: Vec<u64> = pages.filter(is_new).collect();
        for chunk in new.chunk_by(|one, next| one + 1 == *next).flat_map(|run| run.chunks(RUN_PAGES)) {
            let synced = chunk.iter().filter(|number| **number * PAGE_BYTES < self.durable_bytes).count();
            let mut contents = vec![0; synced * PAGE_BYTES as usize];
            if let Some(first) = chunk.first().filter(|_| synced > 0) {
                self.node.read(&mut contents, first * PAGE_BYTES)?;
            }
            let (befores, _) = contents.as_chunks::<{ PAGE_BYTES as usize }>();
            for (at, number) in chunk.iter().enumerate() {
                let before = befores.get(at).map(|page| slots.put(page)).transpose()?;
                self.pages.insert(*number, Written { seq: 0, sectors: 0, before });
            }
        }
        Ok(())
    }

    /// Keeps what is in those of these pages that are no holes: of a file that is made shorter, and long again when that is undone.
    fn keep_data(&mut self, pages: Range<u64>, slots: &mut Slots) -> io::Result<()> {
        let mut at = pages.start;
        while at < pages.end {
            let file = self.node.data()?;
            let data = match rustix::fs::seek(file, SeekFrom::Data(at * PAGE_BYTES)) {
                Ok(offset) => (offset / PAGE_BYTES).max(at),
                Err(Errno::NXIO) => break,
                Err(error) => return Err(error.into()),
            };
            let hole = rustix::fs::seek(file, SeekFrom::Hole(data * PAGE_BYTES))?.div_ceil(PAGE_BYTES);
            let until = hole.max(data + 1).min(pages.end);
            self.keep(data.min(pages.end)..until, slots)?;
            at = until;
        }
        Ok(())
    }

    /// Returns the present contents of a page, with zeros beyond the end.
    fn now(&self, number: u64) -> io::Result<Page> {
        let mut page = [0; PAGE_BYTES as usize];
        self.node.read(&mut page, number * PAGE_BYTES)?;
        Ok(page)
    }

    /// The file is about to become `size_bytes` long, from `now_bytes`.
    pub(crate) fn size(&mut self, seq: u64, now_bytes: u64, size_bytes: u64, slots: &mut Slots) -> io::Result<()> {
        let is_shorter = size_bytes < now_bytes;
        if is_shorter {
            self.keep_data(size_bytes / PAGE_BYTES..self.durable_bytes.min(now_bytes).div_ceil(PAGE_BYTES), slots)?;
            let first = size_bytes / PAGE_BYTES;
            for (number, page) in self.pages.range_mut(first..) {
                // Of the page in which the file ends now the sectors before that.
                page.sectors &= if *number == first { sectors_of(0, size_bytes % PAGE_BYTES) } else { 0 };
            }
        }
        self.sizes.push(Sized { seq, size_bytes, is_shorter });
        Ok(())
    }

    /// The first and the last of the changes that made it shorter: all of them are lost, or none.
    pub(crate) fn shortened(&self) -> Option<(u64, u64)> {
        let mut all = self.sizes.iter().filter(|size| size.is_shorter).map(|size| size.seq);
        let first = all.next()?;
        Some((first, all.next_back().unwrap_or(first)))
    }

    /// Returns true if it has sizes that are not durable.
    pub(crate) fn has_sizes(&self) -> bool {
        !self.sizes.is_empty()
    }

    /// Returns the position from which no synced contents are left, if all shortenings up to `upto` survive.
    fn floor(&self, upto: u64) -> u64 {
        let survive = self.sizes.iter().filter(|size| size.is_shorter && size.seq <= upto);
        survive.map(|size| size.size_bytes).min().unwrap_or(u64::MAX)
    }

    /// Makes its sizes up to `upto` durable.
    pub(crate) fn commit_sizes(&mut self, upto: u64, slots: &mut Slots) -> io::Result<()> {
        let floor = self.floor(upto);
        let durable = self.sizes.iter().take_while(|size| size.seq <= upto).count();
        if let Some(last) = self.sizes.drain(..durable).next_back() {
            self.durable_bytes = last.size_bytes;
        }
        if floor == u64::MAX {
            return Ok(());
        }
        for (number, page) in &mut self.pages {
            let is_nothing = page.sectors == 0 || number * PAGE_BYTES >= floor;
            if let Some(slot) = page.before.take_if(|_| is_nothing) {
                slots.free(slot)?;
            }
            if let Some(slot) = page.before.as_ref().filter(|_| (number + 1) * PAGE_BYTES > floor) {
                let mut kept = slots.get(slot)?;
                kept[(floor - number * PAGE_BYTES) as usize..].fill(0);
                slots.set(slot, &kept)?;
            }
        }
        self.pages.retain(|_, page| page.sectors != 0);
        Ok(())
    }

    /// Drops the unsynced state, which is not to be lost any more.
    pub(crate) fn forget(self, slots: &mut Slots) -> io::Result<()> {
        self.pages.into_values().filter_map(|page| page.before).try_for_each(|slot| slots.free(slot))
    }

    /// Makes the file what a cut leaves: of its sizes those up to `upto`, and of its pages the sectors that `surviving` says.
    pub(crate) fn restore(self, upto: u64, surviving: &dyn Fn(u64) -> u8, slots: &mut Slots) -> io::Result<()> {
        let file = self.node.data()?;
        let now_bytes = file.metadata()?.len();
        // Pages that were written behind what made it shorter are there with that only.
        let is_as_synced = self.shortened().is_some_and(|(_, last)| last > upto);
        let floor = self.floor(upto);
        let sizes = self.sizes.iter().take_while(|size| size.seq <= upto);
        let mut size_bytes = sizes.last().map_or(self.durable_bytes, |size| size.size_bytes);
        let mut left = Vec::with_capacity(self.pages.len());
        for (number, page) in &self.pages {
            let kept = if is_as_synced { 0 } else { surviving(*number) & page.sectors };
            if kept != 0 {
                let end = number * PAGE_BYTES + u64::from(8 - kept.leading_zeros()) * SECTOR_BYTES;
                size_bytes = size_bytes.max(end.min(now_bytes));
            }
            left.push((*number, kept));
        }
        if size_bytes > now_bytes {
            file.set_len(size_bytes)?;
        }
        for (number, kept) in left {
            let page = self.pages.get(&number).filter(|page| page.sectors & !kept != 0 || page.sectors == 0);
            let Some(page) = page else { continue };
            let first = number * PAGE_BYTES;
            if first >= size_bytes {
                continue;
            }
            let mut contents = match &page.before {
                Some(slot) => slots.get(slot)?,
                None => [0; PAGE_BYTES as usize],
            };
            if floor < first + PAGE_BYTES {
                contents[floor.saturating_sub(first) as usize..].fill(0);
            }
            let now = self.now(number)?;
            for sector in (0..8).filter(|sector| kept & (1 << sector) != 0) {
                let bytes = sector * SECTOR_BYTES as usize..(sector + 1) * SECTOR_BYTES as usize;
                contents[bytes.clone()].copy_from_slice(&now[bytes]);
            }
            if contents != now {
                file.write_all_at(&contents[..PAGE_BYTES.min(size_bytes - first) as usize], first)?;
            }
        }
        if file.metadata()?.len() != size_bytes {
            file.set_len(size_bytes)?;
        }
        self.forget(slots)
    }
}

/// The sectors of a page in which these of its bytes are.
fn sectors_of(first: u64, end: u64) -> u8 {
    let sectors = first / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES);
    sectors.fold(0, |set, sector| set | (1 << sector))
}
