//! Columns of time, and the heat map of response times over them.

use std::collections::VecDeque;

use plimsoll_analysis::number;
use plimsoll_analysis::slices::SliceRow;

/// Fine buckets of response time in an octave.
const STEPS: usize = 4;
/// Fine buckets in all: up to 2^44 ns, nearly five hours.
const BUCKETS: usize = 44 * STEPS;
/// Shades of a cell, and the least share of the fullest cell that has each.
const SHADES: [(f64, char); 4] = [(0.4, '█'), (0.1, '▓'), (0.01, '▒'), (0.0, '░')];

/// Time axis: slices in columns, the newest of the phase in the last one.
#[derive(Debug, Clone, Copy)]
pub struct Columns {
    /// Number of slices in a column.
    pub zoom: usize,
    /// Number of columns.
    pub width: usize,
    /// Position of the phase's newest slice, in which a type may have no operations.
    pub last: u32,
}

impl Columns {
    /// Returns the rows of `newest` that have a column, with it. Columns begin at multiples of the zoom: a new slice
    /// never moves others between columns.
    fn of(self, newest: &VecDeque<SliceRow>) -> impl Iterator<Item = (usize, &SliceRow)> {
        let position = move |slice: u32| slice as usize / self.zoom.max(1);
        newest.iter().filter_map(move |row| {
            let back = position(self.last).saturating_sub(position(row.slice));
            Some((self.width.checked_sub(back + 1)?, row))
        })
    }

    /// Returns the mean throughput of each column in thousandths of an operation a second; `None` without slices that
    /// have one.
    pub fn rates(self, newest: &VecDeque<SliceRow>) -> Vec<Option<u64>> {
        let mut sums = vec![(0.0, 0u32); self.width];
        for (column, rate) in self.of(newest).filter_map(|(column, row)| Some((column, row.rate_per_s?))) {
            sums[column].0 += rate;
            sums[column].1 += 1;
        }
        let mean = |(sum, count): &(f64, u32)| (*count > 0).then(|| (sum * 1_000.0 / f64::from(*count)) as u64);
        sums.iter().map(mean).collect()
    }

    /// Returns at most `height` rows of the heat map, from the longest response times to the shortest: the least
    /// response time of the row as text, and a shade for each column.
    pub fn heat(self, newest: &VecDeque<SliceRow>, height: usize) -> Vec<(String, String)> {
        let mut counts = vec![[0u64; BUCKETS]; self.width];
        let mut all = [0u64; BUCKETS];
        for (column, row) in self.of(newest) {
            for (ns, count) in &row.times_ns {
                let bucket = bucket(*ns);
                counts[column][bucket] += count;
                all[bucket] += count;
            }
        }
        let used = |bucket: &usize| all[*bucket] > 0;
        let (Some(low), Some(high)) = ((0..BUCKETS).find(&used), (0..BUCKETS).rev().find(&used)) else {
            return Vec::new();
        };
        let buckets = high - low + 1;
        let each = buckets.div_ceil(height.max(1));
        let cell = |column: &[u64; BUCKETS], row: usize| -> u64 {
            column[low + row * each..(low + (row + 1) * each).min(high + 1)].iter().sum()
        };
        let rows = 0..buckets.div_ceil(each);
        let cells: Vec<Vec<u64>> = rows.map(|row| counts.iter().map(|column| cell(column, row)).collect()).collect();
        let most = cells.iter().flatten().copied().max().unwrap_or(0);
        let named = |(row, cells): (usize, &Vec<u64>)| {
            let label = number::nanoseconds(least_ns(low + row * each));
            (label, cells.iter().map(|count| shade(*count, most)).collect::<String>())
        };
        cells.iter().enumerate().rev().map(named).collect()
    }
}

/// Returns the fine bucket of a response time.
fn bucket(ns: u64) -> usize {
    let ns = ns.clamp(1, 1 << 60);
    let octave = ns.ilog2();
    // The two bits below the highest one.
    let step = ((ns << 2) >> octave) & 3;
    (octave as usize * STEPS + step as usize).min(BUCKETS - 1)
}

/// Returns the least response time of a fine bucket.
fn least_ns(bucket: usize) -> u64 {
    (((STEPS + bucket % STEPS) as u64) << (bucket / STEPS)) >> 2
}

fn shade(count: u64, most: u64) -> char {
    let share = count as f64 / most.max(1) as f64;
    match SHADES.iter().find(|(least, _)| share >= *least) {
        Some((_, shade)) if count > 0 => *shade,
        _ => ' ',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::tests::slice;

    #[test]
    fn buckets_begin_where_they_say_and_are_a_fifth_apart_at_most() {
        for ns in [1, 2, 3, 7, 8, 999, 1_000, 123_456, 5_000_000, 3_600_000_000_000] {
            let (low, next) = (least_ns(bucket(ns)), least_ns(bucket(ns) + 1));
            assert!(low <= ns && (ns < next || next == low), "{ns}: {low} to {next}");
        }
        assert!((8..40 * STEPS).all(|at| least_ns(at + 1) * 4 <= least_ns(at) * 5));
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn the_newest_slice_is_at_the_right_and_a_rare_long_time_is_seen() {
        let quick = |at| slice(at, &[(1_000_000, 990)]);
        let newest: VecDeque<SliceRow> = [quick(0), quick(1), slice(2, &[(1_000_000, 990), (90_000_000, 1)])].into();
        let rows = Columns { zoom: 1, width: 6, last: 2 }.heat(&newest, 30);
        assert_eq!(rows.first().map(|(_, cells)| cells.as_str()), Some("     ░"), "{rows:?}");
        assert_eq!(rows.last().map(|(_, cells)| cells.as_str()), Some("   ███"), "{rows:?}");
        let few = Columns { zoom: 2, width: 2, last: 2 }.heat(&newest, 4);
        assert!(few.len() <= 4 && few.last().is_some_and(|(_, cells)| cells == "██"), "{few:?}");
        assert_eq!(Columns { zoom: 2, width: 3, last: 2 }.rates(&newest), [None, Some(990_000), Some(991_000)]);
        // Slices without operations of the type are empty columns, also the newest ones.
        assert_eq!(Columns { zoom: 1, width: 2, last: 3 }.rates(&newest), [Some(991_000), None]);
        assert!(Columns { zoom: 1, width: 6, last: 0 }.heat(&VecDeque::new(), 5).is_empty());
    }
}
