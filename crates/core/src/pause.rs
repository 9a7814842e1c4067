//! Pauses of the machine: times in which a processor ran none of this program's threads although it should have.

/// Lateness of a witness that counts as a pause: 1 ms.
pub const PAUSE_MIN_NS: u64 = 1_000_000;
/// Shortest aftermath of a pause: 10 ms.
pub const AFTERMATH_MIN_NS: u64 = 10_000_000;
/// Length of an aftermath, in lengths of its pause: operations due in a pause are worked off beside new ones. A store
/// at the utilization u takes u / (1 - u) times the pause for it: four times at 80 %.
pub const AFTERMATH_TIMES: u64 = 4;
/// Longest time before a pause at which a disturbed operation can have been due: 50 ms. An operation that was due
/// earlier and had no answer yet waits for the store, not for the machine.
pub const BEFORE_NS: u64 = 50_000_000;
/// Most pauses that are kept of one slice.
pub const PAUSES_MAX: usize = 256;

/// A time in which a processor stood still: no thread ran on it, not even one of real-time priority. Times are
/// nanoseconds since the run's start on CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pause {
    /// Moment at which the witness should have woken up. The pause began then, or less than one period of the witness
    /// earlier.
    pub start_ns: u64,
    /// Moment at which the witness woke up.
    pub end_ns: u64,
    /// The processor.
    pub cpu: u32,
}

impl Pause {
    /// Length of the pause in nanoseconds; up to one period of the witness less than the true length.
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Start of the time in which due operations may be disturbed: see [`BEFORE_NS`]. Without this bound, the machine
    /// would be blamed for slow operations of a store with a growing queue, since all of them wait through some
    /// pause.
    pub fn from_ns(&self) -> u64 {
        self.start_ns.saturating_sub(BEFORE_NS)
    }

    /// End of the aftermath, in which the operations that queued up are worked off. Operations that are due between
    /// [`Pause::from_ns`] and this moment, and end after the pause, are disturbed.
    pub fn until_ns(&self) -> u64 {
        self.end_ns.saturating_add(self.length_ns().saturating_mul(AFTERMATH_TIMES).max(AFTERMATH_MIN_NS))
    }
}

/// Time between `from_ns` and `to_ns` that is in a pause of `min_ns` or longer on any processor.
pub fn paused_ns(pauses: &[Pause], min_ns: u64, from_ns: u64, to_ns: u64) -> u64 {
    covered_ns(pauses.iter().filter(|pause| pause.length_ns() >= min_ns), |pause| pause.end_ns, from_ns, to_ns)
}

/// Time between `from_ns` and `to_ns` that is in any of `pauses`, where each lasts until its `end_ns`. Overlaps count
/// once.
pub fn covered_ns<'a>(
    pauses: impl Iterator<Item = &'a Pause>,
    end_ns: impl Fn(&Pause) -> u64,
    from_ns: u64,
    to_ns: u64,
) -> u64 {
    let mut spans: Vec<_> = pauses.map(|pause| (pause.start_ns, end_ns(pause).min(to_ns))).collect();
    spans.sort_unstable();
    let (mut sum_ns, mut seen_ns) = (0, from_ns);
    for (start_ns, end_ns) in spans {
        sum_ns += end_ns.saturating_sub(start_ns.max(seen_ns));
        seen_ns = seen_ns.max(end_ns);
    }
    sum_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_of_several_processors_count_once() {
        let pause = |start_ns, end_ns, cpu| Pause { start_ns, end_ns, cpu };
        let all = [pause(10, 20, 0), pause(15, 25, 1), pause(40, 42, 0), pause(90, 120, 1)];
        assert_eq!(paused_ns(&all, 0, 0, 100), 15 + 2 + 10);
        assert_eq!(paused_ns(&all, 5, 0, 100), 25);
        assert_eq!(paused_ns(&all, 0, 12, 18), 6);
        assert_eq!(paused_ns(&[], 0, 0, 100), 0);
    }

    #[test]
    fn an_aftermath_is_four_times_as_long_as_the_pause_and_not_below_ten_milliseconds() {
        let pause = |ms: u64| Pause { start_ns: 0, end_ns: ms * 1_000_000, cpu: 0 };
        assert_eq!(pause(2).until_ns(), 12_000_000);
        assert_eq!(pause(30).until_ns(), 150_000_000);
    }
}
