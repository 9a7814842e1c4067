//! Background work of fjall: memtables flushed to tables, tables compacted.
//!
//! A keyspace's writes stand in a memtable. When that is full it is sealed, another takes its place, and it is written to
//! a table; so the cycle is one memtable. fjall counts neither, but numbers memtables from 0 on since it was opened: those
//! before the active one, without those that still wait, have been flushed. What it calls completed compactions are
//! looks whether there is something to compact, and are no cycle.

use std::time::Instant;

use fjall::{AbstractTree as _, Keyspace};
use plimsoll_core::{Cycle, Reading, StoreError};

use crate::errors::is_closed;
use crate::kv::Keyspaces;

/// Flushes so far, and what was written since sessions were opened: what the store and its probe share.
#[derive(Default)]
pub(crate) struct Flushes {
    /// The database, while it is open.
    keyspaces: Option<Keyspaces>,
    /// Count of databases that have been closed.
    before: u64,
    /// Time at which sessions were opened, with the position of each keyspace.
    begun: Option<(Instant, [Written; 2])>,
}

/// Progress of a keyspace.
#[derive(Debug, Clone, Copy)]
struct Written {
    /// Memtables before the active one.
    memtables: u64,
    /// Bytes in the active one.
    bytes: u64,
}

impl Written {
    fn to(keyspace: &Keyspace) -> Self {
        let active = keyspace.tree.active_memtable();
        Written { memtables: active.id(), bytes: active.size() }
    }

    /// Memtables filled since `before`, in parts of one.
    fn since(self, before: Written, memtable_bytes: u64) -> f64 {
        let parts = |written: Written| written.bytes as f64 / memtable_bytes.max(1) as f64;
        self.memtables.saturating_sub(before.memtables) as f64 + parts(self) - parts(before)
    }
}

/// Progress of both keyspaces.
fn written(keyspaces: &Keyspaces) -> [Written; 2] {
    [&keyspaces.records, &keyspaces.index].map(Written::to)
}

/// Memtables that were flushed since the database was opened.
fn flushed(keyspaces: &Keyspaces) -> u64 {
    let of = |keyspace: &Keyspace| {
        // In this order: what is sealed in between counts as waiting.
        let sealed = Written::to(keyspace).memtables;
        sealed.saturating_sub(keyspace.sealed_memtable_count() as u64)
    };
    of(&keyspaces.records) + of(&keyspaces.index)
}

impl Flushes {
    /// A database is open.
    pub fn are_of(&mut self, keyspaces: Keyspaces) {
        self.keyspaces = Some(keyspaces);
    }

    /// The database is about to be closed: the next one begins to count anew.
    pub fn are_over(&mut self) {
        self.before += self.keyspaces.take().map_or(0, |keyspaces| flushed(&keyspaces));
        self.begun = None;
    }

    /// Sessions are opened.
    pub fn begin(&mut self) {
        self.begun = self.keyspaces.as_ref().map(|open| (Instant::now(), written(open)));
    }

    /// Counters to plot beside a load.
    pub fn counters(&self) -> Result<Vec<Reading>, StoreError> {
        let keyspaces = self.keyspaces.as_ref().ok_or_else(is_closed)?;
        let Keyspaces { db, records, index } = keyspaces;
        let level = |name, unit, value: usize| Reading::level("", name, unit, value as f64);
        let flushes = (self.before + flushed(keyspaces)) as f64;
        let tables = records.table_count() + index.table_count();
        let unsorted = records.l0_table_count() + index.l0_table_count();
        Ok(vec![
            Reading::cycle("", "flushes", "", flushes),
            level("memtables", "B", db.write_buffer_size() as usize),
            level("tables", "", tables),
            level("tables_not_compacted", "", unsorted),
            level("compactions_running", "", db.active_compactions()),
            Reading::total("", "time_compacting", "s", db.time_compacting().as_secs_f64()),
        ])
    }

    /// Time until the keyspace that is written to most has filled a memtable, at the pace since sessions were
    /// opened.
    pub fn cycle(&self, memtable_bytes: u64) -> Option<Cycle> {
        let (begun, before) = self.begun.as_ref()?;
        let now = written(self.keyspaces.as_ref()?);
        let filled = now.iter().zip(before).map(|(now, before)| now.since(*before, memtable_bytes));
        let filled = filled.fold(0.0, f64::max);
        let seconds = begun.elapsed().as_secs_f64() / filled;
        seconds.is_finite().then(|| Cycle {
            seconds,
            by_work: true,
            words: format!(
                "max_memtable_size is {} KiB: at this pace a memtable is full, and flushed, every {seconds:.3} s. A smaller \
                 one (memtable) brings a flush into shorter load steps",
                memtable_bytes >> 10
            ),
        })
    }
}
