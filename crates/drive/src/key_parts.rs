//! Parts of the keys that a worker asked for and had answers of, by the ticks of a slice.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use plimsoll_core::{KEY_PARTS_MAX, KeyParts, PartTick, TICK_NS};

/// Ticks that fill the room behind a worker's, so that another worker's are not in the same cache line.
const TICKS_BEHIND: usize = 128 / size_of::<PartBits>();

/// Bits of the parts that were asked and not answered since, and of those that were answered.
type PartBits = [AtomicU64; 2];

/// Parts by the ticks of a slice, of one worker.
#[derive(Debug)]
pub(crate) struct PartTicks {
    /// Number of parts.
    of: u8,
    /// Bits of each tick; empty if ticks are not counted, or the sessions do not know the parts.
    ticks: Vec<PartBits>,
}

impl PartTicks {
    /// Returns ticks of so many parts. Either number may be 0.
    pub fn new(of: u8, tick_count: usize) -> Self {
        let mut ticks: Vec<PartBits> = Vec::new();
        if of > 0 && tick_count > 0 {
            ticks.reserve_exact(tick_count + TICKS_BEHIND);
            ticks.resize_with(tick_count, PartBits::default);
        }
        Self { of: of.min(KEY_PARTS_MAX), ticks }
    }

    /// Returns the tick of a time after the slice's start. After the last tick it is that one.
    #[inline]
    fn tick(&self, at_ns: u64) -> Option<&PartBits> {
        let last = self.ticks.len().checked_sub(1)?;
        self.ticks.get(((at_ns / TICK_NS) as usize).min(last))
    }

    /// Notes that an operation for `part` was sent.
    #[inline]
    pub fn ask(&self, at_ns: u64, part: u8) {
        if let Some([asked, _]) = self.tick(at_ns) {
            asked.store(asked.load(Relaxed) | bit(part), Relaxed);
        }
    }

    /// Notes that an operation for `part` was answered.
    #[inline]
    pub fn answer(&self, at_ns: u64, part: u8) {
        if let Some([asked, answered]) = self.tick(at_ns) {
            asked.store(asked.load(Relaxed) & !bit(part), Relaxed);
            answered.store(answered.load(Relaxed) | bit(part), Relaxed);
        }
    }

    /// Moves the bits into `all`: those of other workers of the phase, or none. Leaves none. Without ticks `all` stays as
    /// it is.
    pub fn drain_into(&self, all: &mut Option<KeyParts>) {
        if self.ticks.is_empty() {
            return;
        }
        let none = || KeyParts { of: self.of, ticks: vec![PartTick::default(); self.ticks.len()] };
        let all = all.get_or_insert_with(none);
        for (tick, [asked, answered]) in all.ticks.iter_mut().zip(&self.ticks) {
            tick.asked |= take(asked);
            tick.answered |= take(answered);
        }
    }
}

fn bit(part: u8) -> u64 {
    1u64 << (part % KEY_PARTS_MAX)
}

fn take(bits: &AtomicU64) -> u64 {
    let taken = bits.load(Relaxed);
    if taken != 0 {
        bits.store(0, Relaxed);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_asked_until_it_is_answered_and_workers_are_added_up() {
        const MS_NS: u64 = 1_000_000;
        let [one, other] = [(); 2].map(|()| PartTicks::new(64, 3));
        one.ask(MS_NS, 0);
        one.ask(2 * MS_NS, 63);
        one.answer(9 * MS_NS, 0);
        // Answered in a later tick, and asked again.
        one.answer(12 * MS_NS, 63);
        one.ask(13 * MS_NS, 63);
        other.ask(13 * MS_NS, 5);
        // In a slice that was taken late.
        other.answer(95 * MS_NS, 5);
        let mut all = None;
        [&one, &other].into_iter().for_each(|ticks| ticks.drain_into(&mut all));
        let (first, last) = (1u64, 1u64 << 63);
        let tick = |asked, answered| PartTick { asked, answered };
        let ticks = vec![tick(last, first), tick(last | 1 << 5, last), tick(0, 1 << 5)];
        assert_eq!(all, Some(KeyParts { of: 64, ticks }));
        let mut again = None;
        one.drain_into(&mut again);
        assert_eq!(again, Some(KeyParts { of: 64, ticks: vec![PartTick::default(); 3] }));
        for none in [PartTicks::new(0, 3), PartTicks::new(64, 0)] {
            none.ask(0, 1);
            let mut all = None;
            none.drain_into(&mut all);
            assert_eq!(all, None);
        }
    }
}
