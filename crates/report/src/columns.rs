//! Columns of tables for other programs: CSV, JSON Lines and Parquet.

use plimsoll_analysis::slices::SliceRow;

/// Value of a row in a column, by its type. A missing value is `None`.
pub enum ColumnValue<R> {
    /// Text.
    Text(fn(&R) -> Option<&str>),
    /// Whole number.
    Whole(fn(&R) -> Option<i64>),
    /// Number, and the digits after its point where it is written as text.
    Real(fn(&R) -> Option<f64>, usize),
    /// Yes or no; as a number 1 or 0.
    Flag(fn(&R) -> bool),
}

use ColumnValue::{Flag, Real, Text, Whole};

/// Column: name, and the value of a row.
pub type Column<R> = (&'static str, ColumnValue<R>);

/// Returns a count or a time as a column's value.
pub fn whole(value: u64) -> Option<i64> {
    i64::try_from(value).ok()
}

/// Columns of slices, in their order.
pub const SLICES: [Column<SliceRow>; 31] = [
    ("trial", Text(|row| Some(&row.trial))),
    ("store", Text(|row| Some(&row.store))),
    ("phase", Text(|row| Some(&row.phase))),
    ("phase_kind", Text(|row| Some(row.phase_kind.name()))),
    ("slice", Whole(|row| Some(i64::from(row.slice)))),
    ("warmup", Flag(|row| row.warmup)),
    ("start_s", Real(|row| Some(row.start_s), 6)),
    ("end_s", Real(|row| Some(row.end_s), 6)),
    ("wall_ns", Whole(|row| Some(row.wall_ns))),
    ("op", Text(|row| Some(&row.op))),
    ("measure", Text(|row| Some(row.measure))),
    ("count", Whole(|row| whole(row.count))),
    ("rejected", Whole(|row| whole(row.rejected))),
    ("unknown", Whole(|row| whole(row.unknown))),
    ("unfinished", Whole(|row| whole(row.unfinished))),
    ("rate_per_s", Real(|row| row.rate_per_s, 3)),
    ("mean_ns", Real(|row| Some(row.mean_ns), 0)),
    ("stddev_ns", Real(|row| Some(row.stddev_ns), 0)),
    ("p50_ns", Whole(|row| row.percentile_ns("p50").and_then(whole))),
    ("p90_ns", Whole(|row| row.percentile_ns("p90").and_then(whole))),
    ("p95_ns", Whole(|row| row.percentile_ns("p95").and_then(whole))),
    ("p99_ns", Whole(|row| row.percentile_ns("p99").and_then(whole))),
    ("p999_ns", Whole(|row| row.percentile_ns("p999").and_then(whole))),
    ("max_ns", Whole(|row| whole(row.max_ns))),
    ("due_unsent", Whole(|row| whole(row.due_unsent))),
    ("in_flight", Whole(|row| whole(row.in_flight))),
    ("lag_p99_ns", Whole(|row| whole(row.lag_p99_ns))),
    ("worker_cpu_ns", Whole(|row| whole(row.worker_cpu_ns))),
    ("disturbed", Whole(|row| row.disturbed.and_then(whole))),
    ("undisturbed_p99_ns", Whole(|row| row.undisturbed_p99_ns.and_then(whole))),
    ("disturbed_ns", Whole(|row| row.disturbed_ns.and_then(whole))),
];
