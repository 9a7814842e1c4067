//! Results of a run, in the units of the job.

use serde::Serialize;

use super::{OutageView, PercentileView};

/// Result of a driven part: a phase, the median of its repeats, the best point of a sweep, a load line, a side of a
/// comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct SummaryView {
    /// Name of the part: trial and phase, as far as the run has several; else empty.
    pub place: String,
    /// Operations that did not fail, a second; `None` where nothing was driven.
    pub rate_per_s: Option<f64>,
    /// Unit of `rate_per_s`: `tps`, `requests/s` or `ops/s`.
    pub unit: String,
    /// p50, p95 and p99 of the response times, all operations together.
    pub percentiles: Vec<PercentileView>,
    /// Longest time without any answer, of all phases together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage: Option<OutageView>,
    /// Operations that were tried again after a conflict.
    pub retried: u64,
    /// Requests that the server refused to begin, and that were sent again within the operation's time.
    pub asked_again: u64,
    /// Tries of operations after the first, with `retry`.
    pub retries: u64,
    /// Operations that were not sent because the circuit of their client was open, with `breaker`; also errors.
    pub breaker_rejected: u64,
    /// Operations that were rejected, unknown or never sent; `None` where that is not known.
    pub errors: Option<u64>,
    /// Operations that were due and never sent, among the errors.
    pub never_sent: u64,
    /// Errors as a share of all operations, in per cent.
    pub error_percent: Option<f64>,
    /// Acknowledged writes that are not there; `None` where no ledger was held against the store.
    pub lost: Option<u64>,
    /// Wrong and missing records in answers, and records that the ledger found wrong; `None` where none was checked.
    pub wrong: Option<u64>,
    /// A late generator may have moved rate and times.
    pub late: bool,
    /// Parts of the line as shown, in this order.
    pub parts: Vec<SummaryPart>,
    /// Summary in a line: `1,860 tps · p50 3.90 ms · p95 9.10 ms · p99 16.3 ms · 0 errors · nothing lost`.
    pub text: String,
}

/// A number of a summary.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SummaryPart {
    /// Name of the value: `tps`, `p99`, `errors`.
    pub name: String,
    /// The number as text, of a time without any answer its length.
    pub value: String,
    /// True if the value violates a requirement.
    pub bad: bool,
    /// Name and value as in the line: `p99 16.3 ms`.
    pub text: String,
    /// Time on the run's clock, and the place if it is another one: `at 399 s in cut_off`; empty without any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub at: String,
    /// Faults and commands for servers at the same time; empty without any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub meanwhile: String,
}

/// Operations whose times lie between two bounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BucketView {
    /// Lower bound; 0 if the bucket has everything shorter, too.
    pub from_ns: u64,
    /// Upper bound; `None` if the bucket has everything longer, too.
    pub to_ns: Option<u64>,
    /// Number of operations.
    pub count: u64,
    /// Share of the operations, in per cent.
    pub percent: f64,
    /// Share of those that took no longer, in per cent.
    pub cumulative_percent: f64,
}
