//! Sentences below the table of faults: what its columns cannot tell.

use std::collections::BTreeMap;

use plimsoll_core::TICK_NS;

use super::stale;
use crate::name;
use crate::number;
use crate::phase::PhaseFacts;
use crate::view::FaultView;

/// Adds to the faults of a phase their silences after the healing, and the waits of clients; and to the last one the stale
/// records and unknown outcomes that belong to no fault.
pub(super) fn add(facts: &PhaseFacts<'_>, faults: &mut [FaultView]) {
    let connect_s = facts.phase.header.connect_timeout_ns.map(|connect_ns| connect_ns as f64 / 1e9);
    for one in faults.iter_mut() {
        let after = one.after_healing.map(|after| {
            format!("{}: no answer for {}, {}", name::at(&one.name, one.at_s), after.length(), after.cause())
        });
        let waits = connect_s.filter(|_| one.may_wait_to_connect).map(|connect_s| {
            format!(
                "Clients wait up to {} to connect to a silent server (`connect_timeout`), so that the store may have \
                 been back before they had answers: set `--connect-timeout 500ms` to see it",
                number::seconds(connect_s)
            )
        });
        one.notes.extend(after.into_iter().chain(waits));
    }
    let stale = stale::after_effects(facts, faults);
    if let Some((last, stale)) = faults.last_mut().zip(stale) {
        last.notes.push(format!("{}: {stale}", name::place(facts)));
    }
    let unknown = outside(facts, faults);
    if let Some(last) = faults.last_mut().filter(|_| unknown > 0) {
        let outcomes = number::plural(unknown, "outcome unknown", "outcomes unknown");
        last.notes.push(format!("{}: {outcomes} in the count of no fault", name::place(facts)));
    }
}

/// Counts the operations of unknown outcome that are in the figures of a phase and in the effect of none of its faults.
fn outside(facts: &PhaseFacts<'_>, faults: &[FaultView]) -> u64 {
    // Faults that began in one tick have all in common.
    let mut effects: BTreeMap<u64, u64> = BTreeMap::new();
    for one in faults {
        let unknown = effects.entry(one.effect_ns.0 / TICK_NS).or_default();
        *unknown = one.unknown.max(*unknown);
    }
    let inside: u64 = effects.values().sum();
    (facts.unknown().value as u64).saturating_sub(inside)
}
