//! Fates of writes without an answer, as answers and the records read back show them.

use std::collections::{BTreeMap, HashMap};

use plimsoll_core::TICK_NS;

use crate::ledger::Ledger;
use crate::log::{NEVER, Row, is_absent};
use crate::readback::ReadBack;
use crate::state::State;

/// Fates of writes of unknown outcome that were given up within one tick. Writes are counted by record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnknownWrites {
    /// Start of the tick on the run's clock: a multiple of [`TICK_NS`].
    pub at_ns: u64,
    /// Writes that an answer or the records read back have shown.
    pub written: u64,
    /// Writes that had not happened when the records were read: these show what was there before.
    pub not_written: u64,
    /// Writes of which neither is known: overwritten, or the record could not be read.
    pub not_known: u64,
}

/// A write of unknown outcome.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnknownWrite {
    pub id: u32,
    pub stamp: i64,
    pub sent_ns: u64,
    /// Time at which it was given up.
    pub at_ns: u64,
}

enum Fate {
    Written,
    NotWritten,
    NotKnown,
}

impl Ledger {
    /// Returns the fates of the writes of unknown outcome, in the order of the times at which they were given up. Empty if
    /// the ledger or the records read back have a gap, and of a trial before this one.
    pub fn unknown_writes(&self, found: &ReadBack) -> Vec<UnknownWrites> {
        let writes = &self.records.unknown_writes;
        if writes.is_empty() || found.gap.is_some() || self.gap().is_some() {
            return Vec::new();
        }
        let mut rows: HashMap<u32, Option<Row>> = writes.iter().map(|write| (write.id, None)).collect();
        for row in &found.rows {
            // As in the verdict, the first of several counts.
            if let Some(first @ None) = rows.get_mut(&row.id) {
                *first = Some(*row);
            }
        }
        let mut ticks: BTreeMap<u64, UnknownWrites> = BTreeMap::new();
        for write in writes {
            let row = rows.get(&write.id).copied().flatten();
            let is_read = row.is_some() || found.is_absent(write.id);
            let at_ns = write.at_ns / TICK_NS * TICK_NS;
            let tick = ticks.entry(at_ns).or_insert(UnknownWrites { at_ns, ..UnknownWrites::default() });
            match self.fate(write, row, is_read) {
                Fate::Written => tick.written += 1,
                Fate::NotWritten => tick.not_written += 1,
                Fate::NotKnown => tick.not_known += 1,
            }
        }
        ticks.into_values().collect()
    }

    /// Returns the fate of a write whose record was found as `row`, or absent.
    fn fate(&self, write: &UnknownWrite, row: Option<Row>, is_read: bool) -> Fate {
        let records = &self.records;
        let is_own = |state: &State| state.stamp == write.stamp && state.sent_ns == write.sent_ns;
        let own = records.states_of(write.id).map(|(_, state)| state).find(|state| is_own(state));
        // Of writes without an answer only those that an answer has shown are retired.
        if own.is_none_or(|own| own.done_ns < NEVER) {
            return Fate::Written;
        }
        if !is_read || row.is_some_and(|row| records.is_spoilt(row)) {
            return Fate::NotKnown;
        }
        let is_shown = |state: &&State| match row {
            Some(row) => state.stamp == row.stamp,
            None => is_absent(state.stamp),
        };
        let shown: Vec<&State> = records.alive_in_the_end(write.id).filter(is_shown).collect();
        // A record that was never there is absent without a delete.
        let may_be_empty = row.is_none() && records.acknowledged_of(write.id).1 == NEVER;
        if shown.iter().any(|state| is_own(state)) {
            return if shown.len() == 1 && !may_be_empty { Fate::Written } else { Fate::NotKnown };
        }
        // If it had happened after all of them, they would not be there any more.
        let is_before = shown.iter().all(|state| state.done_ns <= write.sent_ns);
        if is_before && (may_be_empty || !shown.is_empty()) { Fate::NotWritten } else { Fate::NotKnown }
    }
}
