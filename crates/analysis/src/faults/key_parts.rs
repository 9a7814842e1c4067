//! Parts of the keys that had no answer in the effect of a fault, if the store divides its keys.

use plimsoll_core::{AFFECTED_NS, PartTick, TICK_NS};

use crate::number;
use crate::phase::PhaseFacts;
use crate::view::FaultKeyPartsView;

/// Waits for answers of the parts of the keys of a phase.
pub(super) struct PartWaits {
    /// Longest wait of a part before the first fault, and at least [`AFFECTED_NS`].
    usual_ns: u64,
    /// Starts and ends of the waits of each part that had an answer before the first fault.
    parts: Vec<Vec<(u64, u64)>>,
    /// End of the last tick before the drain.
    planned_end_ns: u64,
    /// End of the last tick.
    end_ns: u64,
}

/// Parts in a tick, on the run's clock.
struct PartTickAt {
    start_ns: u64,
    end_ns: u64,
    parts: PartTick,
    /// Counted, and before the first fault.
    is_before: bool,
}

impl PartWaits {
    /// Returns the waits of a phase whose first fault began at `first_ns`; `None` if parts of the keys are not known.
    pub(super) fn of(facts: &PhaseFacts<'_>, first_ns: u64) -> Option<Self> {
        let (mut ticks, mut of, mut planned_end_ns) = (Vec::new(), 0u8, 0);
        for slice in &facts.phase.slices {
            let Some(parts) = &slice.key_parts else { continue };
            of = of.max(parts.of);
            for (start_ns, tick) in (slice.start_ns..).step_by(TICK_NS as usize).zip(&parts.ticks) {
                let end_ns = (start_ns + TICK_NS).min(slice.end_ns.max(start_ns));
                let is_before = !facts.is_warmup(slice) && !slice.drain && end_ns <= first_ns;
                ticks.push(PartTickAt { start_ns, end_ns, parts: *tick, is_before });
            }
            if !slice.drain {
                planned_end_ns = slice.end_ns;
            }
        }
        let end_ns = ticks.last()?.end_ns;
        let before = || ticks.iter().filter(|tick| tick.is_before);
        let answered = before().fold(0u64, |bits, tick| bits | tick.parts.answered);
        let known: Vec<u64> = (0..of).map(|part| 1u64 << part).filter(|bit| answered & bit != 0).collect();
        let usual = known.iter().flat_map(|bit| waits(before(), *bit)).map(|(from, to)| to - from).max();
        let parts = known.iter().map(|bit| waits(ticks.iter(), *bit)).collect();
        Some(Self { usual_ns: usual.unwrap_or(0).max(AFFECTED_NS), parts, planned_end_ns, end_ns })
    }

    /// Returns the parts that were silent from `begun_ns` in waits that began before `effect_end_ns`. A wait that is
    /// unusual only after `limit_ns` is none.
    pub(super) fn silent(&self, begun_ns: u64, effect_end_ns: u64, limit_ns: u64) -> FaultKeyPartsView {
        let limit_ns = limit_ns.min(self.planned_end_ns);
        let unusual = |&(from_ns, to_ns): &(u64, u64)| {
            // Of a wait that had begun before, the rest.
            let from_ns = from_ns.max(begun_ns);
            let is_its = to_ns > begun_ns && from_ns < effect_end_ns;
            let is_unusual = to_ns.min(limit_ns).saturating_sub(from_ns) > self.usual_ns;
            (is_its && is_unusual).then(|| (to_ns - from_ns, to_ns))
        };
        let longest = |waits: &Vec<(u64, u64)>| waits.iter().filter_map(unusual).max();
        let silent: Vec<(u64, u64)> = self.parts.iter().filter_map(longest).collect();
        let (longest_ns, to_ns) = silent.iter().copied().max().unwrap_or_default();
        FaultKeyPartsView {
            silent: silent.len() as u64,
            of: self.parts.len() as u64,
            longest_s: longest_ns as f64 / 1e9,
            longest_open: !silent.is_empty() && to_ns >= self.end_ns,
        }
    }
}

/// Returns the waits of the part with this bit: from a tick in which an operation was sent to the next one with an
/// answer. The last one may be to the end of the ticks.
fn waits<'t>(ticks: impl Iterator<Item = &'t PartTickAt>, bit: u64) -> Vec<(u64, u64)> {
    let (mut waits, mut since_ns, mut end_ns) = (Vec::new(), None::<u64>, 0);
    for tick in ticks {
        if tick.parts.answered & bit != 0 {
            waits.extend(since_ns.take().map(|since_ns| (since_ns, tick.start_ns)));
        }
        if tick.parts.asked & bit != 0 {
            since_ns.get_or_insert(tick.start_ns);
        }
        end_ns = tick.end_ns;
    }
    waits.extend(since_ns.map(|since_ns| (since_ns, end_ns)));
    waits
}

/// Returns `no answer for 21 of 64 parts of the keys for up to 2.10 s`; `None` if all had answers.
pub(super) fn words(view: FaultKeyPartsView) -> Option<String> {
    let [silent, of] = [view.silent, view.of].map(number::count);
    let up_to = if view.longest_open { "more than" } else { "up to" };
    let longest = number::seconds(view.longest_s);
    (view.silent > 0).then(|| format!("no answer for {silent} of {of} parts of the keys for {up_to} {longest}"))
}
