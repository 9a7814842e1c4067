//! Outcomes of operations beside errors: data that were not found, and operations that were tried again.

use plimsoll_core::Outcome;

use crate::phase::PhaseFacts;
use crate::step;
use crate::view::{NotFoundView, RetriedView};

/// Returns the operations that found nothing, for each type with any.
pub fn not_found(facts: &PhaseFacts<'_>) -> Vec<NotFoundView> {
    let of = |kind| {
        let op = facts.op_name(kind);
        let (count, n) = (facts.count(Some(op), |one| one == Outcome::NotFound), facts.count(Some(op), |_| true));
        (count > 0).then(|| NotFoundView { op: op.to_owned(), count, n, percent: count as f64 * 100.0 / n as f64 })
    };
    facts.kinds().into_iter().filter_map(of).collect()
}

/// Returns the operations that were tried again after a deadlock or a serialization failure, for each type with any.
pub fn retried(facts: &PhaseFacts<'_>) -> Vec<RetriedView> {
    let of = |kind| {
        let (first, is_retried) = step::first_try(&facts.trial.header.kinds, kind);
        let op = Some(facts.op_name(kind)).filter(|_| is_retried)?;
        let failed = facts.count(Some(op), Outcome::is_error);
        let succeeded = facts.count(Some(op), |_| true) - failed;
        Some(RetriedView { op: facts.op_name(first).to_owned(), succeeded, failed })
    };
    facts.kinds().into_iter().filter_map(of).collect()
}
