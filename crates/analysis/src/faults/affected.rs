//! Clients that a fault affected: one of their operations failed, or took long.

use plimsoll_core::{ClientSet, Slice};
use plimsoll_record::Distribution;

use crate::number;
use crate::phase::PhaseFacts;
use crate::view::AffectedView;

/// Returns the clients that were affected in slices from `from_ns` to `until_ns`; `None` if they were not looked for.
/// The first fault of the phase began at `first_ns`. The slice in which the next one began, at `next_ns`, belongs to the
/// next one.
pub(super) fn clients(
    facts: &PhaseFacts<'_>,
    from_ns: u64,
    until_ns: u64,
    (first_ns, next_ns): (u64, Option<u64>),
) -> Option<AffectedView> {
    let is_its = |slice: &&Slice<Distribution>| {
        let has_begin = (slice.start_ns..slice.end_ns).contains(&from_ns);
        let is_before_next = next_ns.is_none_or(|next_ns| slice.end_ns <= next_ns);
        has_begin || (slice.start_ns >= from_ns && slice.start_ns < until_ns && is_before_next)
    };
    let mut its = facts.phase.slices.iter().filter(is_its).filter_map(|slice| slice.affected.as_ref());
    let mut all: ClientSet = its.next()?.clone();
    its.for_each(|clients| all.include(clients));
    let before = facts.counted().filter(|slice| slice.end_ns <= first_ns);
    let usual = before.filter_map(|slice| slice.affected.as_ref()).map(ClientSet::len).max();
    Some(AffectedView { clients: all.len(), of: all.of().into(), usual: usual.unwrap_or(0) })
}

/// Returns `12 of 64 clients affected`; `None` if there were no more than usual.
pub(super) fn words(view: AffectedView) -> Option<String> {
    let [clients, of] = [view.clients, view.of].map(number::count);
    (view.clients > view.usual).then(|| format!("{clients} of {of} clients affected"))
}
