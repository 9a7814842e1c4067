//! When operations are due, and which slice a moment belongs to: pure functions of an index or a time.

/// Evenly spaced arrivals at a rate: operation `i` is due at `start + i / rate`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrivals {
    start_ns: u64,
    /// Nanoseconds between two, times 2^32.
    period_32: u128,
}

impl Arrivals {
    /// At `rate_per_s`, which is more than zero, beginning at `start_ns`.
    pub fn even(rate_per_s: f64, start_ns: u64) -> Self {
        Self { start_ns, period_32: ((1e9 / rate_per_s) * 4_294_967_296.0) as u128 }
    }

    /// When operation `index` is due.
    #[inline]
    pub fn at(&self, index: u64) -> u64 {
        self.start_ns.saturating_add(((u128::from(index) * self.period_32) >> 32) as u64)
    }

    /// How many are due before `now_ns`.
    pub fn due_before(&self, now_ns: u64) -> u64 {
        let Some(elapsed_ns) = now_ns.checked_sub(self.start_ns) else { return 0 };
        let mut count = ((u128::from(elapsed_ns) << 32) / self.period_32.max(1)) as u64;
        // The division rounds; the definition does not.
        while self.at(count) < now_ns {
            count += 1;
        }
        while count > 0 && self.at(count - 1) >= now_ns {
            count -= 1;
        }
        count
    }
}

/// How a phase is cut into slices: `slice_ns` long from the phase's start, and again from the end of its
/// warm-up. The last slice before a planned end stays open while the last answers come in, for at most
/// one slice more; a drain that takes longer gets slices of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    pub start_ns: u64,
    pub warmup_end_ns: u64,
    pub slice_ns: u64,
    pub end_ns: Option<u64>,
}

impl Grid {
    fn warmup_slices(&self) -> u32 {
        slices(self.warmup_end_ns - self.start_ns, self.slice_ns)
    }

    /// Start of slice `ordinal`.
    pub fn start(&self, ordinal: u32) -> u64 {
        let warmup = self.warmup_slices();
        if ordinal < warmup {
            return self.start_ns + u64::from(ordinal) * self.slice_ns;
        }
        let measured = ordinal - warmup;
        let planned = self.end_ns.map(|end_ns| (end_ns, slices(end_ns - self.warmup_end_ns, self.slice_ns).max(1)));
        match planned {
            Some((end_ns, count)) if measured >= count => end_ns + u64::from(measured - count + 1) * self.slice_ns,
            _ => self.warmup_end_ns + u64::from(measured) * self.slice_ns,
        }
    }

    /// End of slice `ordinal`: the start of the next.
    pub fn end(&self, ordinal: u32) -> u64 {
        self.start(ordinal + 1)
    }

    /// The slice that `now_ns` lies in, or `from` when it lies before that one.
    pub fn at(&self, now_ns: u64, from: u32) -> u32 {
        let mut ordinal = from;
        if now_ns >= self.end(ordinal) {
            let skipped = (now_ns - self.start(ordinal)) / self.slice_ns;
            // Slices at the seams have other lengths, so the division is only near; two back is always before.
            ordinal = ordinal.saturating_add(skipped as u32).saturating_sub(2).max(from);
            while now_ns >= self.end(ordinal) {
                ordinal += 1;
            }
        }
        ordinal
    }

    /// True when slice `ordinal` lies in the warm-up.
    pub fn is_warmup(&self, ordinal: u32) -> bool {
        ordinal < self.warmup_slices()
    }
}

fn slices(length_ns: u64, slice_ns: u64) -> u32 {
    u32::try_from(length_ns.div_ceil(slice_ns)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_arrivals_do_not_drift_and_count_back() {
        for rate_per_s in [0.1, 1.0, 3.0, 999.0, 20_000.0, 1e6] {
            let arrivals = Arrivals::even(rate_per_s, 1_000);
            for seconds in [0u64, 1, 10, 3_600] {
                let index = (seconds as f64 * rate_per_s) as u64;
                let exact_ns = 1_000.0 + index as f64 * 1e9 / rate_per_s;
                assert!((arrivals.at(index) as f64 - exact_ns).abs() <= 2.0, "{rate_per_s}/s, index {index}");
                let at_ns = arrivals.at(index);
                assert_eq!(arrivals.due_before(at_ns), index, "due before its own moment");
                assert_eq!(arrivals.due_before(at_ns + 1), index + 1);
            }
            assert_eq!(arrivals.due_before(0), 0);
        }
    }

    #[test]
    fn slices_are_cut_at_the_end_of_the_warmup_and_the_last_one_stays_open() {
        let grid = Grid { start_ns: 100, warmup_end_ns: 1_600, slice_ns: 1_000, end_ns: Some(4_100) };
        let bounds: Vec<_> = (0..7).map(|k| (grid.start(k), grid.end(k), grid.is_warmup(k))).collect();
        assert_eq!(
            bounds,
            [
                (100, 1_100, true),
                (1_100, 1_600, true),
                (1_600, 2_600, false),
                (2_600, 3_600, false),
                (3_600, 5_100, false),
                (5_100, 6_100, false),
                (6_100, 7_100, false),
            ]
        );
        for now_ns in 0..9_000 {
            let ordinal = grid.at(now_ns, 0);
            assert!(now_ns < grid.end(ordinal) && (ordinal == 0 || now_ns >= grid.start(ordinal)), "{now_ns}");
            assert_eq!(grid.at(now_ns, 3), ordinal.max(3));
        }
    }

    #[test]
    fn a_phase_without_an_end_is_cut_evenly() {
        let grid = Grid { start_ns: 7, warmup_end_ns: 7, slice_ns: 10, end_ns: None };
        assert_eq!((grid.start(0), grid.end(0), grid.start(5)), (7, 17, 57));
        assert!(!grid.is_warmup(0));
        assert_eq!(grid.at(1_000_000_007, 0), 100_000_000);
    }
}
