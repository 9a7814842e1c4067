//! Mapping from times to slices: pure functions of a number or a time.

/// Division of a phase into slices of `slice_ns`. Slices start anew at the phase's start, at the end of its warm-up,
/// and at a planned end; the slices in which the last answers arrive are drain.
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

    fn measured_slices(&self, end_ns: u64) -> u32 {
        slices(end_ns - self.warmup_end_ns, self.slice_ns).max(1)
    }

    pub fn start(&self, ordinal: u32) -> u64 {
        let warmup = self.warmup_slices();
        if ordinal < warmup {
            return self.start_ns + u64::from(ordinal) * self.slice_ns;
        }
        let measured = ordinal - warmup;
        match self.end_ns.map(|end_ns| (end_ns, self.measured_slices(end_ns))) {
            Some((end_ns, count)) if measured >= count => end_ns + u64::from(measured - count) * self.slice_ns,
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

    pub fn is_warmup(&self, ordinal: u32) -> bool {
        ordinal < self.warmup_slices()
    }

    /// True when slice `ordinal` lies after the planned end.
    pub fn is_drain(&self, ordinal: u32) -> bool {
        self.end_ns.is_some_and(|end_ns| ordinal >= self.warmup_slices().saturating_add(self.measured_slices(end_ns)))
    }
}

fn slices(length_ns: u64, slice_ns: u64) -> u32 {
    u32::try_from(length_ns.div_ceil(slice_ns)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_cut_at_the_end_of_the_warmup_and_at_the_planned_end() {
        let grid = Grid { start_ns: 100, warmup_end_ns: 1_600, slice_ns: 1_000, end_ns: Some(4_100) };
        let bounds: Vec<_> = (0..7).map(|k| (grid.start(k), grid.end(k), grid.is_warmup(k))).collect();
        assert_eq!(
            bounds,
            [
                (100, 1_100, true),
                (1_100, 1_600, true),
                (1_600, 2_600, false),
                (2_600, 3_600, false),
                (3_600, 4_100, false),
                (4_100, 5_100, false),
                (5_100, 6_100, false),
            ]
        );
        assert_eq!(
            (0..7).map(|k| grid.is_drain(k)).collect::<Vec<_>>(),
            [false, false, false, false, false, true, true]
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
