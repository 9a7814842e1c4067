//! Stale records, by server, and duplicates in answers that came in the effect of a fault.

use std::collections::BTreeMap;

use plimsoll_record::data::AnswerCheck;

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
