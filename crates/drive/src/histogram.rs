//! A worker's histogram: HDR's own bucket layout over counts that the control thread may read meanwhile.
//!
//! One worker writes, by plain loads and stores; the control thread reads and clears only while that
//! worker is known to be writing elsewhere (see [`crate::board`]). The layout is that of `hdrhistogram`,
//! so that what a recording keeps is exactly what was counted.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use hdrhistogram::Histogram;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Longest time that is told apart: one hour. Longer ones are counted as this.
pub(crate) const TOP_NS: u64 = 3_600_000_000_000;

/// Significant digits of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Digits {
    Two,
    Three,
}

impl Digits {
    /// Power of two that holds half the buckets of one size: HDR takes the smallest that tells
    /// `2 × 10^digits` values apart.
    const fn half_magnitude(self) -> u32 {
        match self {
            Digits::Two => 7,
            Digits::Three => 10,
        }
    }

    const fn index(self, value: u64) -> usize {
        let half_magnitude = self.half_magnitude();
        let mask = (2 << half_magnitude) - 1;
        let bucket = u64::BITS - (value | mask).leading_zeros() - (half_magnitude + 1);
        ((bucket as usize) << half_magnitude) + (value >> bucket) as usize
    }

    /// The lowest value that counts at `index`.
    const fn value(self, index: usize) -> u64 {
        let half_magnitude = self.half_magnitude();
        let half = 1usize << half_magnitude;
        if index < 2 * half {
            return index as u64;
        }
        let bucket = (index >> half_magnitude) - 1;
        ((index & (half - 1)) + half) as u64 * (1u64 << bucket)
    }

    /// Returns the number of counts in a histogram.
    pub const fn counts(self) -> usize {
        self.index(TOP_NS) + 1
    }

    /// An empty `hdrhistogram` of the same layout.
    pub fn empty(self) -> Histogram<u64> {
        let digits = if self == Digits::Two { 2 } else { 3 };
        Histogram::new_with_bounds(1, TOP_NS, digits).expect("bounds that hdrhistogram accepts")
    }
}

/// Counts as they come from the system: zeros, and no memory where they are not touched. The allocator clears by hand
/// what it has had back before, which made a client of a few kinds cost 2 MB.
#[derive(Debug)]
struct Counts {
    start: NonNull<AtomicU32>,
    bytes: usize,
}

// SAFETY: they are atomics in a mapping of their own, which is there for as long as the value is.
unsafe impl Send for Counts {}
// SAFETY: as above.
unsafe impl Sync for Counts {}

impl Counts {
    fn zeros(count: usize) -> io::Result<Arc<Self>> {
        let bytes = count * size_of::<AtomicU32>();
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that is there.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        // A huge page for the few counts that are touched would be memory for nothing. Kernels without them say so.
        // SAFETY: it says something of our own mapping, and changes nothing of what it holds.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxNoHugepage) };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Arc::new(Self { start, bytes }))
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no borrow of it is left.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// See the module. Aligned so that no two workers share a cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct WorkerHistogram {
    digits: Digits,
    counts: NonNull<[AtomicU32]>,
    /// Memory that `counts` points into.
    _memory: Arc<Counts>,
    /// Touched range, both included; `low > high` when nothing was recorded.
    low: AtomicU32,
    high: AtomicU32,
}

// SAFETY: what `counts` points to are atomics that live as long as `_memory`.
unsafe impl Send for WorkerHistogram {}
// SAFETY: as above.
unsafe impl Sync for WorkerHistogram {}

impl WorkerHistogram {
    /// Empty ones. Their memory is taken from the system only where it is touched.
    ///
    /// # Errors
    /// The system has no room in this process's addresses.
    pub fn several(digits: &[Digits]) -> io::Result<Vec<Self>> {
        let memory = Counts::zeros(digits.iter().map(|digits| digits.counts()).sum())?;
        let mut at = 0;
        let one = |digits: &Digits| {
            // SAFETY: the counts of all are within the mapping, by the sum above.
            let start = unsafe { memory.start.add(at) };
            at += digits.counts();
            Self {
                digits: *digits,
                counts: NonNull::slice_from_raw_parts(start, digits.counts()),
                _memory: Arc::clone(&memory),
                low: AtomicU32::new(u32::MAX),
                high: AtomicU32::new(0),
            }
        };
        Ok(digits.iter().map(one).collect())
    }

    #[inline(always)]
    fn counts(&self) -> &[AtomicU32] {
        // SAFETY: `several` made it of a mapping that `_memory` keeps, whose zeros are valid atomics.
        unsafe { self.counts.as_ref() }
    }

    /// Counts one value. Only its worker may call this.
    #[inline(always)]
    pub fn record(&self, value_ns: u64) {
        let index = self.digits.index(value_ns.min(TOP_NS));
        let count = &self.counts()[index];
        count.store(count.load(Relaxed).saturating_add(1), Relaxed);
        let index = index as u32;
        if index < self.low.load(Relaxed) {
            self.low.store(index, Relaxed);
        }
        if index > self.high.load(Relaxed) {
            self.high.store(index, Relaxed);
        }
    }

    /// Moves everything counted into `into`, which is made when there is something. Leaves this one empty.
    pub fn drain_into(&self, into: &mut Option<Histogram<u64>>) {
        self.pass_to(into, true);
    }

    /// Adds everything counted so far to `into`, which is made when there is something, and leaves it here. Its worker
    /// may count meanwhile.
    pub fn add_to(&self, into: &mut Option<Histogram<u64>>) {
        self.pass_to(into, false);
    }

    fn pass_to(&self, into: &mut Option<Histogram<u64>>, empties: bool) {
        let (low, high) = (self.low.load(Relaxed), self.high.load(Relaxed));
        if low > high {
            return;
        }
        let target = into.get_or_insert_with(|| self.digits.empty());
        for (offset, count) in self.counts()[low as usize..=high as usize].iter().enumerate() {
            let n = count.load(Relaxed);
            if n > 0 {
                let value = self.digits.value(low as usize + offset);
                target.record_n(value, u64::from(n)).expect("a value of the same layout");
                if empties {
                    count.store(0, Relaxed);
                }
            }
        }
        if empties {
            self.low.store(u32::MAX, Relaxed);
            self.high.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(digits: Digits) -> WorkerHistogram {
        WorkerHistogram::several(&[digits]).unwrap().remove(0)
    }

    fn edges() -> Vec<u64> {
        let mut values = vec![0, 1, 2, 2047, 2048, 2049, TOP_NS - 1, TOP_NS];
        for power in 1..42 {
            values.extend([(1u64 << power) - 1, 1 << power, (1 << power) + 1].map(|v| v.min(TOP_NS)));
        }
        values
    }

    #[test]
    fn counts_stand_where_hdrhistogram_puts_them() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let random = std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> (state % 50)) % (TOP_NS + 1)
        });
        let values: Vec<u64> = edges().into_iter().chain(random.take(50_000)).collect();
        for digits in [Digits::Two, Digits::Three] {
            let ours = histogram(digits);
            let mut theirs = digits.empty();
            assert_eq!(ours.counts().len(), digits.index(TOP_NS) + 1);
            for &value in &values {
                ours.record(value);
                theirs.record(value).unwrap();
                let lowest = digits.value(digits.index(value));
                assert_eq!(lowest, theirs.lowest_equivalent(value), "{value} with {digits:?}");
            }
            let mut drained = None;
            ours.drain_into(&mut drained);
            let drained = drained.unwrap();
            assert_eq!(drained, theirs);
            assert_eq!(drained.len(), values.len() as u64);
            assert_eq!(drained.max(), theirs.max());
            assert_eq!(drained.min(), theirs.min());
        }
    }

    #[test]
    fn a_value_beyond_the_top_counts_as_the_top() {
        let ours = histogram(Digits::Three);
        ours.record(TOP_NS + 1);
        ours.record(u64::MAX);
        ours.record(5);
        let mut drained = None;
        ours.drain_into(&mut drained);
        let drained = drained.unwrap();
        assert_eq!(drained.len(), 3);
        assert_eq!(drained.count_at(TOP_NS), 2);
    }

    #[test]
    fn what_was_drained_is_gone_and_later_values_are_not() {
        let ours = histogram(Digits::Two);
        let mut drained = None;
        ours.drain_into(&mut drained);
        assert!(drained.is_none(), "nothing recorded makes no histogram");
        ours.record(1_000_000);
        ours.drain_into(&mut drained);
        ours.record(7);
        ours.drain_into(&mut drained);
        let mut again = None;
        ours.drain_into(&mut again);
        assert!(again.is_none());
        assert_eq!(drained.unwrap().len(), 2);
    }
}
