//! Stale records, by server, and duplicates in answers that came in the effect of a fault.

use std::collections::BTreeMap;

use plimsoll_record::data::AnswerCheck;

use super::is_in_effect;
use crate::name;
use crate::number;
use crate::phase::PhaseFacts;
use crate::view::{FaultView, StaleReadsView};

/// Returns the stale records in answers of spans whose start `is_its`, by server, most first.
pub(super) fn reads(facts: &PhaseFacts<'_>, is_its: impl Fn(u64) -> bool) -> Vec<StaleReadsView> {
    let answers = checked(facts).flat_map(|one| &one.stale);
    let mut by_server: BTreeMap<&str, u64> = BTreeMap::new();
    for one in answers.filter(|one| is_its(one.at_ns)) {
        *by_server.entry(&one.server).or_default() += one.records;
    }
    let view = |(server, records): (&str, u64)| StaleReadsView { server: server.to_owned(), records };
    let mut all: Vec<_> = by_server.into_iter().map(view).collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.records));
    all
}

/// Returns words for stale records that were read after the effects of faults, with the first fault that some came after;
/// `None` without any.
pub(super) fn after_effects(facts: &PhaseFacts<'_>, faults: &[FaultView]) -> Option<String> {
    let is_inside = |at_ns: u64| faults.iter().any(|one| is_in_effect(at_ns, one.effect_ns.0, one.effect_ns.1, None));
    let last_before = |at_ns: u64| faults.iter().rfind(|one| one.effect_ns.1 <= at_ns);
    let spans = checked(facts).flat_map(|one| &one.stale).filter(|one| !is_inside(one.at_ns));
    let after: Vec<_> = spans.filter_map(|one| Some((one, last_before(one.at_ns)?))).collect();
    let (_, fault) = after.iter().min_by_key(|(one, _)| one.at_ns)?;
    let records = number::plural(after.iter().map(|(one, _)| one.records).sum(), "stale record", "stale records");
    let fault = name::at(&fault.name, fault.at_s);
    Some(format!("{records} read after the effects of faults, the first after that of {fault}"))
}

/// Returns the number of further copies of records within answers of spans whose start `is_its`.
pub(super) fn duplicates(facts: &PhaseFacts<'_>, is_its: impl Fn(u64) -> bool) -> u64 {
    let spans = checked(facts).flat_map(|one| &one.duplicates).filter(|one| is_its(one.at_ns));
    spans.map(|one| one.records).sum()
}

/// Returns the checked answers of a phase.
fn checked<'a>(facts: &PhaseFacts<'a>) -> impl Iterator<Item = &'a AnswerCheck> + use<'a> {
    let phase = facts.phase.header.ordinal;
    facts.trial.answers.iter().filter(move |one| one.phase == phase)
}

/// Returns `12 stale records read (9 from node 2, 3 from node 3)`; `None` without any.
pub(super) fn words(fault: &FaultView) -> Option<String> {
    let sum = fault.stale_records();
    let known = fault.stale.iter().filter(|one| !one.server.is_empty());
    let by_server: Vec<String> =
        known.map(|one| format!("{} from {}", number::count(one.records), one.server)).collect();
    let by_server = if by_server.is_empty() { String::new() } else { format!(" ({})", by_server.join(", ")) };
    (sum > 0).then(|| format!("{}{by_server}", number::plural(sum, "stale record read", "stale records read")))
}
