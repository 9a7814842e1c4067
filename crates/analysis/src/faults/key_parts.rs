//! Parts of the keys that had no answer in the effect of a fault, if the store divides its keys.

use plimsoll_core::{PartTick, TICK_NS};

use super::waits::{Wait, Waits};
use crate::number;
use crate::phase::PhaseFacts;
use crate::view::FaultSilenceView;

/// Parts in a tick, on the run's clock.
struct PartTickAt {
    start_ns: u64,
    end_ns: u64,
    parts: PartTick,
    /// Counted, and before the first fault.
    is_before: bool,
}

/// Returns the waits of the parts that had an answer before `first_ns`, when the first fault of the phase began; `None` if
/// parts of the keys are not known.
pub(super) fn part_waits(facts: &PhaseFacts<'_>, first_ns: u64) -> Option<Waits> {
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
    ticks.last()?;
    let before = || ticks.iter().filter(|tick| tick.is_before);
    let answered = before().fold(0u64, |bits, tick| bits | tick.parts.answered);
    let known: Vec<u64> = (0..of).map(|part| 1u64 << part).filter(|bit| answered & bit != 0).collect();
    let usual_ns = known.iter().flat_map(|bit| waits(before(), *bit)).map(|wait| wait.length_ns()).max();
    let each: Vec<Vec<Wait>> = known.iter().map(|bit| waits(ticks.iter(), *bit)).collect();
    let of = each.len() as u64;
    Some(Waits::new(usual_ns.unwrap_or(0), each, of, planned_end_ns))
}

/// Returns the waits of the part with this bit: from a tick in which an operation was sent to the next one with an
/// answer. The last one may be to the end of the ticks.
fn waits<'t>(ticks: impl Iterator<Item = &'t PartTickAt>, bit: u64) -> Vec<Wait> {
    let (mut waits, mut since_ns, mut end_ns) = (Vec::new(), None::<u64>, 0);
    for tick in ticks {
        if tick.parts.answered & bit != 0 {
            let wait = |from_ns| Wait { from_ns, to_ns: tick.start_ns, is_open: false };
            waits.extend(since_ns.take().map(wait));
        }
        if tick.parts.asked & bit != 0 {
            since_ns.get_or_insert(tick.start_ns);
        }
        end_ns = tick.end_ns;
    }
    waits.extend(since_ns.map(|from_ns| Wait { from_ns, to_ns: end_ns, is_open: true }));
    waits
}

/// Returns `no answer for 21 of 64 parts of the keys for up to 2.10 s`; `None` if all had answers.
pub(super) fn words(view: FaultSilenceView) -> Option<String> {
    let [silent, of] = [view.silent, view.of].map(number::count);
    let up_to = if view.longest_open { "more than" } else { "up to" };
    let longest = number::seconds(view.longest_s);
    (view.silent > 0).then(|| format!("no answer for {silent} of {of} parts of the keys for {up_to} {longest}"))
}
