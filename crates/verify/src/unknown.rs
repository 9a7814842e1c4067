//! Fates of writes of unknown outcome, as later answers and the records read back show them.

use std::collections::{BTreeMap, HashMap, HashSet};

use plimsoll_core::TICK_NS;

use crate::ledger::Ledger;
use crate::log::{NEVER, Row, is_absent};
use crate::readback::ReadBack;
use crate::records::Records;
use crate::state::State;

/// Most writes of a trial whose fates are looked for: 32 MB.
const WRITES_MAX: usize = 1_000_000;

/// Fates of writes of unknown outcome that were given up within one tick. Writes are counted by record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnknownWrites {
    /// Start of the tick on the run's clock: a multiple of [`TICK_NS`].
    pub at_ns: u64,
    /// Writes that an answer or the records read back have shown.
    pub written: u64,
    /// Writes that had not happened when the records were read: these show what was there before.
    pub not_written: u64,
    /// Writes of which neither is known: overwritten, repeated, of a record that could not be read, or after the first
    /// million of the trial.
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

/// Writes of unknown outcome of a trial, in bounded memory.
#[derive(Debug)]
pub(crate) struct UnknownLog {
    /// The first ones.
    writes: Vec<UnknownWrite>,
    /// Most of them.
    pub writes_max: usize,
    /// Numbers of those after them, by the start of the tick.
    beyond: BTreeMap<u64, u64>,
}

impl Default for UnknownLog {
    fn default() -> Self {
        Self { writes: Vec::new(), writes_max: WRITES_MAX, beyond: BTreeMap::new() }
    }
}

impl UnknownLog {
    /// Takes a write, or counts it if there is no room.
    pub fn push(&mut self, write: UnknownWrite) {
        if self.writes.len() < self.writes_max {
            self.writes.push(write);
        } else {
            *self.beyond.entry(start_of_tick(write.at_ns)).or_default() += 1;
        }
    }

    /// Forgets all writes.
    pub fn clear(&mut self) {
        self.writes.clear();
        self.beyond.clear();
    }
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
        let UnknownLog { writes, beyond, .. } = &self.records.unknown_writes;
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
        let mut writes: Vec<&UnknownWrite> = writes.iter().collect();
        writes.sort_by_key(|write| write.id);
        for of_record in writes.chunk_by(|one, other| one.id == other.id) {
            let Some(id) = of_record.first().map(|write| write.id) else { continue };
            let row = rows.get(&id).copied().flatten();
            let ending = RecordEnding::of(&self.records, id, row, row.is_some() || found.is_absent(id));
            for write in of_record {
                let tick = tick_at(&mut ticks, start_of_tick(write.at_ns));
                match ending.fate(write) {
                    Fate::Written => tick.written += 1,
                    Fate::NotWritten => tick.not_written += 1,
                    Fate::NotKnown => tick.not_known += 1,
                }
            }
        }
        for (at_ns, count) in beyond {
            tick_at(&mut ticks, *at_ns).not_known += count;
        }
        ticks.into_values().collect()
    }

    /// Returns the number of writes of unknown outcome after the first million of the trial: their fates are not looked for.
    pub fn unknown_beyond(&self) -> u64 {
        self.records.unknown_writes.beyond.values().sum()
    }
}

/// A record as it was read back, and the writes that can have made it so.
struct RecordEnding {
    /// Writes that no answer has shown or acknowledged.
    unseen: HashSet<(i64, u64)>,
    /// Writes that may be those that the record shows.
    shown: HashSet<(i64, u64)>,
    /// Time by which all of these had happened; `None` without any.
    shown_by_ns: Option<u64>,
    /// False if the record could not be read, or has contents that no write gave it.
    is_known: bool,
    /// True if the record may never have been there: it is absent without a delete.
    may_be_empty: bool,
}

impl RecordEnding {
    /// Describes record `id`, which was found as `row`, or absent if it was read.
    fn of(records: &Records, id: u32, row: Option<Row>, is_read: bool) -> Self {
        let is_shown = |state: &&State| match row {
            Some(row) => state.stamp == row.stamp,
            None => is_absent(state.stamp),
        };
        let shown: Vec<&State> = records.alive_in_the_end(id).filter(is_shown).collect();
        let unseen = records.states_of(id).filter(|(_, state)| state.done_ns == NEVER);
        Self {
            unseen: unseen.map(|(_, state)| (state.stamp, state.sent_ns)).collect(),
            shown_by_ns: shown.iter().map(|state| state.done_ns).max(),
            shown: shown.iter().map(|state| (state.stamp, state.sent_ns)).collect(),
            is_known: is_read && !row.is_some_and(|row| records.is_spoilt(row)),
            may_be_empty: row.is_none() && records.acknowledged_of(id).1 == NEVER,
        }
    }

    /// Returns the fate of a write of the record.
    fn fate(&self, write: &UnknownWrite) -> Fate {
        let own = (write.stamp, write.sent_ns);
        // Of writes without an answer only those that an answer has shown are retired.
        if !self.unseen.contains(&own) {
            return Fate::Written;
        }
        if !self.is_known {
            return Fate::NotKnown;
        }
        if self.shown.contains(&own) {
            return if self.shown.len() == 1 && !self.may_be_empty { Fate::Written } else { Fate::NotKnown };
        }
        // If it had happened after all of them, they would not be there any more.
        let is_before = self.shown_by_ns.map_or(self.may_be_empty, |by_ns| by_ns <= write.sent_ns);
        if is_before { Fate::NotWritten } else { Fate::NotKnown }
    }
}

/// Returns the start of the tick of a time.
pub(crate) fn start_of_tick(at_ns: u64) -> u64 {
    at_ns / TICK_NS * TICK_NS
}

/// Returns the counts of the tick that begins at `at_ns`.
fn tick_at(ticks: &mut BTreeMap<u64, UnknownWrites>, at_ns: u64) -> &mut UnknownWrites {
    ticks.entry(at_ns).or_insert(UnknownWrites { at_ns, ..UnknownWrites::default() })
}
