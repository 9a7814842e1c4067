//! Slices of a log: of each operation type and outcome a table of response times and numbers of operations.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use hdrhistogram::Histogram;
use plimsoll_core::{KindId, Measure, Outcome, SliceHistogram};

use crate::line::LoggedOp;

/// Most slices of a log whose slices grow longer with it.
pub const SLICES_MAX: i64 = 3_600;
/// Lengths of slices that grow, in seconds. Each is a multiple of the one before.
const LENGTHS_S: [i64; 12] = [1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 7_200, 21_600, 86_400];
/// Longest response time that a recording tells apart: one hour.
pub(crate) const TOP_NS: u64 = 3_600_000_000_000;

/// Response times in nanoseconds, with the number of operations. A time stands for all that a recording does not tell
/// apart from it.
type TimesTable = HashMap<u64, u64, BuildHasherDefault<TimeHasher>>;

/// Hasher of response times. The standard one takes as long as the rest of counting an operation.
#[derive(Debug, Clone, Copy, Default)]
struct TimeHasher(u64);

impl Hasher for TimeHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, ns: u64) {
        // Long times end with zeros, so that the lower half of a product does not tell them apart.
        let product = u128::from(self.0 ^ ns) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

/// Operations of one slice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableSlice {
    /// Start of the slice, in microseconds since 1970.
    pub start_us: i64,
    /// Number of operations without a response time.
    pub untimed: u64,
    /// Number of operations that were rejected or unknown.
    pub failed: u64,
    /// Bytes of all answers.
    pub bytes: u64,
    /// Time in pauses, in nanoseconds.
    pub paused_ns: u64,
    ops: Vec<((KindId, Outcome), TimesTable)>,
    pauses: TimesTable,
}

impl TableSlice {
    /// Number of operations with a response time.
    pub fn timed(&self) -> u64 {
        self.ops.iter().flat_map(|(_, times)| times.values()).sum()
    }

    /// Iterates over the response times in nanoseconds, each with its number of operations, in no order.
    pub fn times(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ops.iter().flat_map(|(_, times)| times.iter().map(|(ns, count)| (*ns, *count)))
    }

    /// Number of pairs of response time and number of operations.
    pub fn pairs(&self) -> usize {
        self.ops.iter().map(|(_, times)| times.len()).sum()
    }

    /// Returns the operations with a response time as a recording has them.
    pub fn histograms(&self) -> Vec<SliceHistogram> {
        let mut all: Vec<SliceHistogram> = self
            .ops
            .iter()
            .map(|((kind, outcome), times)| SliceHistogram {
                kind: *kind,
                outcome: *outcome,
                measure: Measure::Service,
                histogram: dense(times, if *outcome == Outcome::Ok { 3 } else { 2 }),
            })
            .collect();
        all.sort_by_key(|one| (one.kind, one.outcome));
        all
    }

    /// Returns the lengths of the pauses that ended in the slice; `None` without any.
    pub fn pauses(&self) -> Option<Histogram<u64>> {
        (!self.pauses.is_empty()).then(|| dense(&self.pauses, 3))
    }

    fn add(&mut self, op: &LoggedOp) {
        self.bytes = self.bytes.saturating_add(op.bytes);
        self.failed += u64::from(op.outcome.is_error());
        let Some(took_ns) = op.took_ns else {
            self.untimed += 1;
            return;
        };
        let key = (op.kind, op.outcome);
        let at = self.ops.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            self.ops.push((key, TimesTable::default()));
            self.ops.len() - 1
        });
        *self.ops[at].1.entry(bucket(took_ns)).or_default() += 1;
    }

    fn merge(&mut self, other: TableSlice) {
        self.untimed += other.untimed;
        self.failed += other.failed;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.paused_ns = self.paused_ns.saturating_add(other.paused_ns);
        for (key, times) in other.ops {
            match self.ops.iter_mut().find(|(known, _)| *known == key) {
                Some((_, all)) => add_times(all, times),
                None => self.ops.push((key, times)),
            }
        }
        add_times(&mut self.pauses, other.pauses);
    }
}

fn add_times(all: &mut TimesTable, more: TimesTable) {
    for (ns, count) in more {
        *all.entry(ns).or_default() += count;
    }
}

/// Returns the lowest time that a histogram with 3 digits does not tell apart from `ns`.
fn bucket(ns: u64) -> u64 {
    let ns = ns.min(TOP_NS);
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(11);
    ns >> shift << shift
}

fn dense(times: &TimesTable, digits: u8) -> Histogram<u64> {
    // These bounds are the type's own.
    let mut dense = Histogram::new_with_bounds(1, TOP_NS, digits).unwrap_or_else(|_| unreachable!());
    for (ns, count) in times {
        dense.saturating_record_n(*ns, *count);
    }
    dense
}

/// Slices of a log, each with the operations of its time, in any order of the log's lines.
#[derive(Debug, Clone)]
pub struct SliceTable {
    length_us: i64,
    base_us: i64,
    /// True if slices grow longer with the log.
    grows: bool,
    slices: BTreeMap<i64, TableSlice>,
    /// Slice of the newest line, which is not among the others.
    open: Option<(i64, TableSlice)>,
    /// Position of the first slice that was not taken.
    next: i64,
}

impl SliceTable {
    /// Makes the table of a log that is there already: its slices are a second long, or longer if there would be more
    /// than [`SLICES_MAX`].
    pub fn growing() -> Self {
        Self { grows: true, next: i64::MIN, ..Self::of_length(1_000_000, 0) }
    }

    /// Makes the table of a log that grows: its slices have this length, in microseconds, and begin at `base_us`, in
    /// microseconds since 1970.
    pub fn of_length(length_us: i64, base_us: i64) -> Self {
        let (slices, open) = (BTreeMap::new(), None);
        Self { length_us: length_us.max(1), base_us, grows: false, slices, open, next: 0 }
    }

    /// Length of a slice, in microseconds.
    pub fn length_us(&self) -> i64 {
        self.length_us
    }

    /// Adds an operation. Returns false if its slice was taken already, or lies too far ahead: then it counts in the
    /// nearest slice that is left, so that slow operations are not missing among the times.
    pub fn add(&mut self, op: &LoggedOp) -> bool {
        let (slice, is_own) = self.slice(op.at_us);
        slice.add(op);
        is_own
    }

    /// Adds a pause that ended at `at_us`. Returns as [`SliceTable::add`].
    pub fn add_pause(&mut self, at_us: i64, took_ns: u64) -> bool {
        let (slice, is_own) = self.slice(at_us);
        slice.paused_ns = slice.paused_ns.saturating_add(took_ns);
        *slice.pauses.entry(bucket(took_ns)).or_default() += 1;
        is_own
    }

    /// Returns the position of the slice that is left and nearest to the one at `index`.
    fn nearest(&self, index: i64) -> i64 {
        if self.grows { index } else { index.clamp(self.next, self.next.saturating_add(SLICES_MAX)) }
    }

    /// Returns the slice that is left and nearest to a time, and true if it contains the time.
    fn slice(&mut self, at_us: i64) -> (&mut TableSlice, bool) {
        let own = self.index(at_us);
        let mut index = self.nearest(own);
        let is_own = index == own;
        if self.open.as_ref().is_none_or(|(open, _)| *open != index) {
            self.close();
            if self.grows && self.must_grow(index) {
                self.grow(index);
                index = self.index(at_us);
            }
            let start_us = self.start_us(index);
            let slice = self.slices.remove(&index).unwrap_or_else(|| TableSlice { start_us, ..TableSlice::default() });
            self.open = Some((index, slice));
        }
        (&mut self.open.get_or_insert_with(|| (index, TableSlice::default())).1, is_own)
    }

    fn index(&self, at_us: i64) -> i64 {
        at_us.saturating_sub(self.base_us).div_euclid(self.length_us)
    }

    fn start_us(&self, index: i64) -> i64 {
        self.base_us.saturating_add(index.saturating_mul(self.length_us))
    }

    fn close(&mut self) {
        if let Some((index, slice)) = self.open.take() {
            self.slices.insert(index, slice);
        }
    }

    /// First and last position of a slice, with another one at `index`.
    fn ends(&self, index: i64) -> (i64, i64) {
        let first = self.slices.first_key_value().map_or(index, |(first, _)| *first);
        let last = self.slices.last_key_value().map_or(index, |(last, _)| *last);
        (first.min(index), last.max(index))
    }

    fn must_grow(&self, index: i64) -> bool {
        let (first, last) = self.ends(index);
        last.saturating_sub(first) >= SLICES_MAX
    }

    /// Makes slices longer until there is room for one at `index`.
    fn grow(&mut self, index: i64) {
        let (first, last) = self.ends(index);
        let span_us = last.saturating_sub(first).saturating_add(1).saturating_mul(self.length_us);
        let least_us = span_us / (SLICES_MAX - 1) + 1;
        let known = LENGTHS_S.into_iter().map(|seconds| seconds * 1_000_000).find(|length_us| *length_us >= least_us);
        let mut length_us = known.unwrap_or(self.length_us.max(86_400_000_000));
        while length_us < least_us {
            length_us *= 2;
        }
        self.lengthen(length_us);
    }

    /// Makes slices longer, if `length_us` is a multiple of their length in microseconds.
    pub fn lengthen(&mut self, length_us: i64) {
        self.close();
        if length_us <= self.length_us || length_us % self.length_us != 0 {
            return;
        }
        self.length_us = length_us;
        for (_, slice) in std::mem::take(&mut self.slices) {
            let index = self.index(slice.start_us);
            let start_us = self.start_us(index);
            let whole = self.slices.entry(index).or_insert_with(|| TableSlice { start_us, ..TableSlice::default() });
            whole.merge(slice);
        }
    }

    /// Takes the slices that end at `until_us` or before, in order, with empty ones for times without any line.
    pub fn take(&mut self, until_us: i64) -> Vec<TableSlice> {
        self.close();
        let until = self.index(until_us);
        let first = self.slices.first_key_value().map_or(until, |(first, _)| *first);
        let from = if self.next == i64::MIN { first } else { self.next };
        // Far from all lines there is nothing to tell.
        let from = from.max(until.saturating_sub(2 * SLICES_MAX));
        let taken = (from..until).map(|index| {
            let start_us = self.start_us(index);
            self.slices.remove(&index).unwrap_or_else(|| TableSlice { start_us, ..TableSlice::default() })
        });
        let taken = taken.collect();
        self.next = self.next.max(until);
        taken
    }

    /// Takes all slices that are left, in order.
    pub fn take_all(&mut self) -> Vec<TableSlice> {
        self.close();
        match self.slices.last_key_value().map(|(last, _)| *last) {
            Some(last) => self.take(self.start_us(last.saturating_add(1))),
            None => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(at_s: i64, took_ns: u64) -> LoggedOp {
        LoggedOp { at_us: at_s * 1_000_000, took_ns: Some(took_ns), kind: 0, outcome: Outcome::Ok, code: 0, bytes: 1 }
    }

    #[test]
    fn ten_thousand_operations_are_three_pairs() {
        let mut table = SliceTable::growing();
        (0..10_000).for_each(|n| assert!(table.add(&op(7, [1_000_000, 2_000_000, 5_000_000][n % 3]))));
        let slices = table.take_all();
        let [slice] = &slices[..] else { panic!("{slices:?}") };
        assert_eq!((slice.timed(), slice.pairs(), slice.start_us, slice.bytes), (10_000, 3, 7_000_000, 10_000));
        assert_eq!(slice.times().map(|(_, count)| count).sum::<u64>(), 10_000);
        let histograms = slice.histograms();
        let times = &histograms[0].histogram;
        assert_eq!((histograms.len(), times.len(), times.count_at(2_000_000)), (1, 10_000, 3_333));
    }

    #[test]
    fn a_time_is_counted_where_a_histogram_counts_it() {
        for ns in [0, 1, 1_000, 2_047, 2_049, 123_456_789, TOP_NS, u64::MAX] {
            let (mut table, mut plain) = (SliceTable::growing(), dense(&TimesTable::default(), 3));
            table.add(&op(1, ns));
            plain.saturating_record(ns.min(TOP_NS));
            assert_eq!(table.take_all()[0].histograms()[0].histogram, plain, "{ns}");
        }
    }

    #[test]
    fn lines_in_any_order_come_to_the_slices_of_their_times() {
        let mut table = SliceTable::growing();
        [5, 3, 9, 3, 5].into_iter().for_each(|at_s| assert!(table.add(&op(at_s, 1_000))));
        let counts: Vec<u64> = table.take_all().iter().map(TableSlice::timed).collect();
        assert_eq!(counts, [2, 0, 2, 0, 0, 0, 1], "from second 3 to second 9");
        assert!(table.take_all().is_empty());
    }

    #[test]
    fn a_long_log_has_longer_slices_and_the_same_operations() {
        for (step_s, length_s) in [(1, 5), (10, 30), (86_400, 4 * 86_400)] {
            let mut table = SliceTable::growing();
            (0..10_000).for_each(|n| assert!(table.add(&op(1_700_000_000 + n * step_s, 1_000))));
            assert_eq!(table.length_us(), length_s * 1_000_000, "{step_s}");
            let slices = table.take_all();
            assert!(slices.len() as i64 <= SLICES_MAX, "{}", slices.len());
            assert_eq!(slices.iter().map(TableSlice::timed).sum::<u64>(), 10_000);
            assert!(slices.windows(2).all(|pair| pair[1].start_us - pair[0].start_us == length_s * 1_000_000));
        }
    }

    #[test]
    fn what_comes_after_its_slice_was_taken_counts_in_the_next() {
        let mut table = SliceTable::of_length(1_000_000, 100_000_000);
        assert!(!table.add(&op(99, 1)), "before the beginning");
        assert!(table.add(&op(102, 1)));
        let counts: Vec<u64> = table.take(103_500_000).iter().map(TableSlice::timed).collect();
        assert_eq!(counts, [1, 0, 1]);
        assert!(!table.add(&op(102, 1)) && table.add(&op(103, 1)) && !table.add(&op(1_000_000, 1)));
        let left = table.take_all();
        assert_eq!((left[0].start_us, left[0].timed()), (103_000_000, 2));
        assert_eq!((left.len() as i64, left.iter().map(TableSlice::timed).sum::<u64>()), (SLICES_MAX + 1, 3));
    }

    #[test]
    fn pauses_have_lengths_and_a_sum() {
        let mut table = SliceTable::growing();
        assert!(table.add_pause(1_500_000, 3_000_000) && table.add_pause(1_900_000, 5_000_000));
        let slice = &table.take_all()[0];
        assert_eq!((slice.paused_ns, slice.pauses().map(|times| times.len())), (8_000_000, Some(2)));
    }
}
