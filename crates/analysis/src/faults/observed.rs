//! Observation of faults: the load that was left after one took effect.

use plimsoll_core::OBSERVED_LEAST_NS;
use plimsoll_record::data::{FaultKind, FaultSpan};

use crate::number;
use crate::view::FaultView;

/// Longest time of load that a goal needs after a fault, in seconds: clients notice most faults at once.
const NEEDED_MAX_S: f64 = 1.0;

/// Returns the time of load that was left after a fault had taken effect, in seconds. A fault that ends by itself has
/// effects from its beginning on.
pub(super) fn left_s(span: &FaultSpan, planned_end_ns: u64) -> f64 {
    let ends_itself = span.healing_ns.is_none() && span.healed_ns.is_some() || span.kind == FaultKind::Join;
    let effect_ns = span.taken_ns.filter(|_| !ends_itself).unwrap_or(span.begun_ns);
    planned_end_ns.saturating_sub(effect_ns) as f64 / 1e9
}

/// Returns true if the effect of a fault could be seen.
pub(super) fn is_observed(left_s: f64) -> bool {
    left_s >= OBSERVED_LEAST_NS as f64 / 1e9
}

/// Returns the first fault after which too little load was left to decide a goal on times of `limit_s`, in words; `None` if
/// each was observed. A fault of which another repeat was observed counts as observed. Effects of a disk's fault show in
/// later phases.
pub fn not_observed(faults: &[FaultView], limit_s: f64) -> Option<String> {
    let needed_s = limit_s.clamp(OBSERVED_LEAST_NS as f64 / 1e9, NEEDED_MAX_S);
    let is_seen = |one: &FaultView| one.kind == FaultKind::Disk || one.left_s >= needed_s;
    let is_ever_seen = |one: &FaultView| faults.iter().any(|other| other.fault == one.fault && is_seen(other));
    let unseen = faults.iter().find(|one| one.taken_s.is_some() && !is_ever_seen(one))?;
    let (left, needed) = (number::seconds(unseen.left_s), number::seconds(needed_s));
    Some(format!(
        "the effect of {} was not observed: {left} of load was left after it, and {needed} is needed",
        unseen.name
    ))
}
