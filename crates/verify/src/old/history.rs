//! All that the ledger has gathered: pure data, to be judged.

use std::sync::Arc;

use plimsoll_core::Workload;

use crate::old::log::{ALIEN, Chunk, Part, Watch};

/// Most bytes that a trial's history may take before the ledger stops writing it down.
const HISTORY_BYTES_MAX: usize = 2 << 30;

/// What the ledger holds, from which a [`crate::old::Judge`] tells right from wrong.
pub struct History {
    pub(crate) workload: Arc<dyn Workload>,
    pub(crate) watches: Arc<[Watch]>,
    /// One for each observer that there was.
    pub(crate) parts: Vec<Part>,
    bytes: usize,
    unwritten_chunks: u64,
    /// Operations that observers could not write down.
    pub(crate) overflows: u64,
    /// Observers that have not handed over their last chunk.
    pub(crate) at_work: u64,
}

impl History {
    pub(crate) fn new(workload: Arc<dyn Workload>, watches: Arc<[Watch]>) -> Self {
        Self { workload, watches, parts: Vec::new(), bytes: 0, unwritten_chunks: 0, overflows: 0, at_work: 0 }
    }

    /// Why nothing can be vouched for, in one sentence; `None` when everything was written down.
    pub fn gap(&self) -> Option<String> {
        if self.overflows > 0 {
            return Some(format!("{} operations came faster than the ledger was drained", self.overflows));
        }
        if self.unwritten_chunks > 0 {
            return Some(format!("the ledger was full at {} MiB", HISTORY_BYTES_MAX >> 20));
        }
        (self.at_work > 0).then(|| format!("{} workers were still at work when the ledger was read", self.at_work))
    }

    /// Operations written down.
    pub fn operations(&self) -> u64 {
        self.parts.iter().map(|part| part.events.len() as u64).sum()
    }

    /// Records that were loaded or that anybody tried to write: their numbers are below this.
    pub fn records(&self) -> u64 {
        let written = self.parts.iter().flat_map(|part| {
            let events = part.events.iter().filter(|event| self.watches[usize::from(event.kind)].writes());
            events.map(|event| event.id).filter(|id| *id != ALIEN)
        });
        // Those in inserts of whole records are below the workload's own number.
        written.max().map_or(0, |id| u64::from(id) + 1).max(self.workload.record_count())
    }

    pub(crate) fn take(&mut self, part: usize, chunk: &Chunk) {
        // Positions count from a part's beginning, so nothing may follow what was left out.
        if self.unwritten_chunks > 0 || self.bytes > HISTORY_BYTES_MAX {
            self.unwritten_chunks += 1;
            return;
        }
        let part = &mut self.parts[part];
        let before = part.bytes();
        part.take(chunk);
        self.bytes += part.bytes() - before;
    }
}
