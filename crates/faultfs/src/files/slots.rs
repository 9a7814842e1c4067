//! Storage for old contents of pages until they are not needed: in memory, and beyond a limit in a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The unit in which contents are kept, and may be lost: a page of the page cache.
pub(crate) const PAGE_BYTES: u64 = 4096;
const PAGE: usize = PAGE_BYTES as usize;
/// Pages in memory; what is more goes to the file.
const MEMORY_PAGES_MAX: usize = 16 << 10;
/// Memory is taken in steps of so many.
const CHUNK_PAGES: usize = 256;

/// Contents of a page.
pub(crate) type Page = [u8; PAGE];

/// A page that is kept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Slot(usize);

#[derive(Debug)]
pub(crate) struct Slots {
    chunks: Vec<Vec<u8>>,
    spill: File,
    free: Vec<usize>,
    /// Highest number in use at a time since the storage was empty.
    end: usize,
    memory_pages_max: usize,
}

impl Slots {
    pub(crate) fn new(spill: File) -> Self {
        Self { chunks: Vec::new(), spill, free: Vec::new(), end: 0, memory_pages_max: MEMORY_PAGES_MAX }
    }

    pub(crate) fn put(&mut self, page: &Page) -> io::Result<Slot> {
        let at = self.free.pop().unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        });
        if at / CHUNK_PAGES >= self.chunks.len() && at < self.memory_pages_max {
            self.chunks.push(vec![0; CHUNK_PAGES * PAGE]);
        }
        let slot = Slot(at);
        self.set(&slot, page)?;
        Ok(slot)
    }

    pub(crate) fn set(&mut self, slot: &Slot, page: &Page) -> io::Result<()> {
        match self.memory(slot) {
            Some(kept) => kept.copy_from_slice(page),
            None => self.spill.write_all_at(page, slot.0 as u64 * PAGE_BYTES)?,
        }
        Ok(())
    }

    pub(crate) fn get(&mut self, slot: &Slot) -> io::Result<Page> {
        let mut page = [0; PAGE];
        match self.memory(slot) {
            Some(kept) => page.copy_from_slice(kept),
            None => self.spill.read_exact_at(&mut page, slot.0 as u64 * PAGE_BYTES)?,
        }
        Ok(page)
    }

    // A slot is used once.
    #[allow(clippy::needless_pass_by_value)]
    pub(crate) fn free(&mut self, slot: Slot) -> io::Result<()> {
        self.free.push(slot.0);
        if self.free.len() < self.end {
            return Ok(());
        }
        // Nothing is kept: memory and disk go back, but for what the next few take.
        if self.end > self.memory_pages_max {
            self.spill.set_len(0)?;
        }
        self.chunks.truncate(1);
        self.free.clear();
        self.free.shrink_to(CHUNK_PAGES);
        self.end = 0;
        Ok(())
    }

    fn memory(&mut self, slot: &Slot) -> Option<&mut [u8]> {
        if slot.0 >= self.memory_pages_max {
            return None;
        }
        let first = slot.0 % CHUNK_PAGES * PAGE;
        self.chunks.get_mut(slot.0 / CHUNK_PAGES)?.get_mut(first..first + PAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_what_they_were_in_memory_and_beyond_and_leave_nothing() {
        let file = tempfile::tempfile().unwrap();
        let mut slots = Slots { memory_pages_max: 300, ..Slots::new(file.try_clone().unwrap()) };
        let page = |number: usize| [number as u8; PAGE];
        let kept: Vec<Slot> = (0..1000).map(|number| slots.put(&page(number)).unwrap()).collect();
        assert_eq!(file.metadata().unwrap().len(), 1000 * PAGE_BYTES);
        for (number, slot) in kept.iter().enumerate() {
            assert_eq!(slots.get(slot).unwrap(), page(number), "{number}");
        }
        for slot in kept {
            slots.free(slot).unwrap();
        }
        assert_eq!(file.metadata().unwrap().len(), 0);
        assert_eq!((slots.end, slots.chunks.len(), slots.free.len()), (0, 1, 0));
    }
}
