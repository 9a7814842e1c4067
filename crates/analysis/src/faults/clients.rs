//! Clients that had no answer in the effect of a fault.

use std::collections::BTreeMap;

use super::waits::{Wait, Waits};
use crate::number;
use crate::phase::PhaseFacts;
use crate::view::FaultSilenceView;

/// Returns the times without an answer of the clients of a phase whose first fault began at `first_ns`; `None` if they were
/// not looked for.
pub(super) fn waits(facts: &PhaseFacts<'_>, first_ns: u64) -> Option<Waits> {
    let slices = &facts.phase.slices;
    let of = slices.iter().filter_map(|slice| slice.affected.as_ref()).map(|all| u64::from(all.of())).max()?;
    slices.iter().find(|slice| slice.silences.is_some())?;
    let end_ns = slices.last()?.end_ns;
    let planned_end_ns = slices.iter().rfind(|slice| !slice.drain).map_or(end_ns, |slice| slice.end_ns);
    let (mut each, mut usual_ns) = (BTreeMap::<u32, Vec<Wait>>::new(), 0);
    for slice in slices {
        for one in slice.silences.iter().flatten() {
            let wait =
                Wait { from_ns: one.from_ns, to_ns: one.until_ns.unwrap_or(end_ns), is_open: one.until_ns.is_none() };
            if !facts.is_warmup(slice) && !slice.drain && wait.to_ns <= first_ns {
                usual_ns = wait.length_ns().max(usual_ns);
            }
            each.entry(one.client).or_default().push(wait);
        }
    }
    Some(Waits::new(usual_ns, each.into_values().collect(), of, planned_end_ns))
}

/// Returns `no answer to 12 of 64 clients for up to 2.10 s (median 2.05 s)`; `None` if all had answers.
pub(super) fn words(view: FaultSilenceView) -> Option<String> {
    let [silent, of] = [view.silent, view.of].map(number::count);
    let up_to = if view.longest_open { "more than" } else { "up to" };
    let [median, longest] = [view.median_s, view.longest_s].map(number::seconds);
    let median = if view.silent > 1 { format!(" (median {median})") } else { String::new() };
    (view.silent > 0).then(|| format!("no answer to {silent} of {of} clients for {up_to} {longest}{median}"))
}
