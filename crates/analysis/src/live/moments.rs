//! Slow moments of a phase in progress: neighbouring slices whose percentile or throughput is far from the usual one,
//! and the series that rose meanwhile.
//!
//! Earlier slices alone decide, so the report, which knows the whole phase, may find more moments, or fewer. No
//! cause is named: a series that rose may have done so by chance, and the report tests that.

use std::collections::VecDeque;

use super::unusual::UnusualValue;
use crate::findings::{cause_name, robust};
use crate::slices::SliceRow;
use crate::{number, stat};

/// Earlier slices that tell the usual values.
const WINDOW: usize = 60;
/// Fewest of them.
const KNOWN: usize = 8;
/// Newest moments that are kept.
const MOMENTS_MAX: usize = 8;
/// Series that are kept of a moment.
const CHANGES_MAX: usize = 4;
/// Newest unusual values that are kept: those of a slice may come before it.
const RECENT_MAX: usize = 64;
/// Percentiles of a slice, best first.
const PERCENTILES: [&str; 3] = ["p99", "p95", "p90"];
/// Ratio to the usual percentile, and share of the usual throughput, from which a slice is slow.
const TIMES: f64 = 2.0;
const SHARE: f64 = 0.7;
/// Standard deviations from the usual value from which a slice is slow, if that is more.
const FAR: f64 = 3.0;
/// Share of the usual throughput below which a slice is slow, however much throughput varies.
const SILENT: f64 = 0.1;
/// Share of the due operations from which the schedule wanted no more.
const DUE: f64 = 0.9;
/// Fewest operations of a usual slice whose throughput says something.
const OPS_MIN: f64 = 50.0;

/// Slow moments of a phase in progress, in bounded memory.
#[derive(Debug, Clone, Default)]
pub struct LiveMoments {
    before: VecDeque<Seen>,
    moments: VecDeque<LiveMoment>,
    recent: VecDeque<UnusualValue>,
}

/// Figures of a slice.
#[derive(Debug, Clone, Copy)]
struct Seen {
    percentiles_ns: [Option<f64>; PERCENTILES.len()],
    rate_per_s: f64,
}

/// A figure of a slow slice.
#[derive(Debug, Clone, Copy)]
struct Slow {
    quantity: &'static str,
    unit: &'static str,
    value: f64,
    usual: f64,
    /// Factor by which the value is worse than the usual one.
    ratio: f64,
    /// True if the slice is usual without the operations that a pause of the machine disturbed.
    paused: bool,
}

/// A slow moment of a phase in progress.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveMoment {
    /// Start of its first slice on the run's clock, in seconds.
    pub start_s: f64,
    /// End of its last slice so far.
    pub end_s: f64,
    /// Figure that is furthest from its usual value: `p99`, `p95`, `p90` or `throughput`.
    pub quantity: &'static str,
    /// Unit of that figure: `ns` or `1/s`.
    pub unit: &'static str,
    /// Worst value of that figure.
    pub value: f64,
    /// Median of the slices before.
    pub usual: f64,
    /// True if every slice is usual without the operations that a pause of the machine disturbed.
    pub paused: bool,
    /// Series that rose far above their usual values, the furthest first.
    pub changes: Vec<UnusualValue>,
    ratio: f64,
    /// Position of its last slice, and the length of the longest.
    last: u32,
    slice_s: f64,
}

impl LiveMoments {
    /// Takes the next slice that counts, of all operation types together, of a schedule with `due_per_s` operations a
    /// second if there is one.
    pub(super) fn slice(&mut self, row: &SliceRow, due_per_s: Option<f64>) {
        // The last slice may be too short.
        let Some(rate_per_s) = row.rate_per_s else { return };
        let slow = self.latency(row).or_else(|| self.throughput(row, rate_per_s, due_per_s));
        if self.before.len() >= WINDOW {
            self.before.pop_front();
        }
        let percentiles_ns = PERCENTILES.map(|name| row.percentile_ns(name).map(|ns| ns.max(1) as f64));
        self.before.push_back(Seen { percentiles_ns, rate_per_s });
        let Some(slow) = slow else { return };
        if self.moments.back().is_none_or(|last| last.last + 1 != row.slice) {
            if self.moments.len() >= MOMENTS_MAX {
                self.moments.pop_front();
            }
            self.moments.push_back(LiveMoment::of(row, &slow));
        }
        if let Some(moment) = self.moments.back_mut() {
            moment.extend(row, &slow);
            self.recent.iter().for_each(|one| moment.add(one));
        }
    }

    /// Takes an unusual value of a series. A fall, and series that the report takes for no cause, change nothing.
    pub(super) fn unusual(&mut self, one: UnusualValue) {
        if one.value <= one.usual || cause_name(&one.series).is_none() {
            return;
        }
        if let Some(moment) = self.moments.back_mut() {
            moment.add(&one);
        }
        if self.recent.len() >= RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(one);
    }

    /// Iterates over the newest moments, oldest first.
    pub(super) fn newest(&self) -> impl DoubleEndedIterator<Item = &LiveMoment> {
        self.moments.iter()
    }

    /// Compares the best percentile that the slice and most of those before have.
    fn latency(&self, row: &SliceRow) -> Option<Slow> {
        let (quantity, ns, usual) = PERCENTILES.iter().enumerate().find_map(|(at, name)| {
            let usual = self.before.iter().filter_map(|seen| seen.percentiles_ns[at]);
            let usual: Vec<f64> = usual.collect();
            let is_usual = usual.len() >= KNOWN && usual.len() * 2 > self.before.len();
            Some((*name, row.percentile_ns(name)?, usual)).filter(|_| is_usual)
        })?;
        let (value, middle) = (ns.max(1) as f64, stat::median(&usual)?);
        let faster: Vec<f64> = usual.iter().map(|ns| (ns / middle).ln()).filter(|log| *log < 0.0).collect();
        let times = (FAR * robust::spread(&faster)).exp().max(TIMES);
        let is_slow = |ns: f64| ns > times * middle;
        let paused = quantity == "p99" && row.undisturbed_p99_ns.is_some_and(|ns| !is_slow(ns as f64));
        let slow = Slow { quantity, unit: "ns", value, usual: middle, ratio: value / middle, paused };
        Some(slow).filter(|_| is_slow(value))
    }

    fn throughput(&self, row: &SliceRow, rate_per_s: f64, due_per_s: Option<f64>) -> Option<Slow> {
        if self.before.len() < KNOWN {
            return None;
        }
        let rates: Vec<f64> = self.before.iter().map(|seen| seen.rate_per_s).collect();
        let usual = stat::median(&rates)?;
        let residuals: Vec<f64> = rates.iter().map(|rate| rate - usual).collect();
        let limit = (usual - FAR * robust::spread(&residuals)).clamp(SILENT * usual, SHARE * usual);
        let is_due = due_per_s.is_none_or(|due| rate_per_s < DUE * due);
        let is_slow = rate_per_s < limit && is_due && usual * (row.end_s - row.start_s) >= OPS_MIN;
        let ratio = usual / rate_per_s;
        let slow = Slow { quantity: "throughput", unit: "1/s", value: rate_per_s, usual, ratio, paused: false };
        Some(slow).filter(|_| is_slow)
    }
}

impl LiveMoment {
    /// Returns the figure as a clause: `p99 480 ms, usually 12.0 ms`.
    pub fn text(&self) -> String {
        let [value, usual] = [self.value, self.usual].map(|value| number::with_unit(value, self.unit));
        format!("{} {value}, usually {usual}", self.quantity)
    }

    /// Makes a moment that begins with a slice.
    fn of(row: &SliceRow, slow: &Slow) -> Self {
        let Slow { quantity, unit, value, usual, ratio, paused } = *slow;
        let (start_s, end_s, slice_s) = (row.start_s, row.end_s, row.end_s - row.start_s);
        let changes = Vec::new();
        Self { start_s, end_s, quantity, unit, value, usual, paused, changes, ratio, last: row.slice, slice_s }
    }

    /// Adds a slice. A percentile tells more than the throughput.
    fn extend(&mut self, row: &SliceRow, slow: &Slow) {
        (self.end_s, self.last) = (row.end_s, row.slice);
        self.slice_s = self.slice_s.max(row.end_s - row.start_s);
        self.paused &= slow.paused;
        let rank = |unit: &str, ratio: f64| (unit == "ns", ratio);
        if rank(slow.unit, slow.ratio) > rank(self.unit, self.ratio) {
            let Slow { quantity, unit, value, usual, ratio, .. } = *slow;
            (self.quantity, self.unit, self.value, self.usual, self.ratio) = (quantity, unit, value, usual, ratio);
        }
    }

    /// Adds an unusual value that was read in the moment. A reading is of the slice that ended shortly before.
    fn add(&mut self, one: &UnusualValue) {
        let at_s = one.at_ns as f64 / 1e9;
        let half_s = self.slice_s / 2.0;
        if at_s <= self.start_s + half_s || at_s > self.end_s + half_s {
            return;
        }
        match self.changes.iter_mut().find(|known| known.series == one.series) {
            Some(known) if known.distance < one.distance => known.clone_from(one),
            Some(_) => {}
            None => self.changes.push(one.clone()),
        }
        self.changes.sort_by(|a, b| b.distance.total_cmp(&a.distance));
        self.changes.truncate(CHANGES_MAX);
    }
}
