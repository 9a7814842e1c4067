//! Sweeps and stalls as reports show them.

use serde::Serialize;

use super::Chart;
use crate::usl::Fit;

/// Throughput of one driven phase over the points of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweepView {
    /// Store, and what else of the labels is the same for all points: `postgres · scale=10`.
    pub name: String,
    /// Name of the phase.
    pub phase: String,
    /// Unit of the cells: operations that did not fail.
    pub unit: String,
    /// Label of the rows.
    pub row_label: String,
    /// Values of the rows.
    pub rows: Vec<String>,
    /// Label of the columns; empty when only one was swept.
    pub column_label: String,
    /// Values of the columns; one that is empty when only one label was swept.
    pub columns: Vec<String>,
    /// Cells, a list for each row with one cell for each column; `null` for a missing trial.
    pub cells: Vec<Vec<Option<SweepCell>>>,
    /// Distribution of each row's measurements over its repeats; of rows with five or more, in a sweep without columns.
    pub boxes: Vec<BoxView>,
    /// Chart of all rows over the columns, or of the only column over the rows; `null` if the values are not numbers.
    pub chart: Option<Chart>,
    /// Charts, one for each row, over the columns, all to one scale.
    pub multiples: Vec<Chart>,
    /// The scalability law, where clients were swept and nothing else.
    pub scale: Option<ScaleView>,
}

/// A point of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweepCell {
    /// Median of its repeats.
    pub value: f64,
    /// Value as text.
    pub text: String,
    /// Repeats.
    pub n: u64,
    /// 95 % interval of the median, with six repeats or more.
    pub interval: Option<(f64, f64)>,
    /// Smallest and largest.
    pub range: (f64, f64),
    /// A late generator may have moved it.
    pub late: bool,
}

/// Five numbers of a group, after Tukey (*Exploratory Data Analysis*, 1977), with whiskers to the extremes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BoxView {
    /// Name of the group.
    pub name: String,
    /// Smallest, lower quartile, median, upper quartile, largest.
    pub five: [f64; 5],
    /// Values in it.
    pub n: u64,
}

/// A scalability law fitted to a sweep over clients.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScaleView {
    /// The fit; `null` when it was refused.
    pub fit: Option<Fit>,
    /// Conclusion, or the reason that there is none.
    pub sentence: String,
    /// Measured points and the curve.
    pub chart: Chart,
}

/// The stalls of one phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StallsView {
    /// Trial and phase.
    pub place: String,
    /// Start and end of each, on the run's clock.
    pub spans_s: Vec<(f64, f64)>,
    /// The phase's mean throughput, stalls included.
    pub mean_per_s: f64,
    /// Rate of the median slice with answers, at least that before the first fault.
    pub usual_per_s: f64,
    /// Description in words.
    pub sentence: String,
}

/// Peaks of latency of one phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PeaksView {
    /// Trial and phase.
    pub place: String,
    /// Percentile that was compared.
    pub percentile: String,
    /// Percentile of the median slice.
    pub usual_ns: u64,
    /// Number of peaks.
    pub count: usize,
    /// The highest, in time order.
    pub worst: Vec<PeakView>,
    /// Sentence about those that are not among `worst`.
    pub further: Option<String>,
}

/// A peak of latency.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PeakView {
    /// Start of its first slice, on the run's clock.
    pub start_s: f64,
    /// End of its last slice.
    pub end_s: f64,
    /// Highest percentile of a slice; a lower bound if that slice has too few operations for it.
    pub ns: u64,
    /// Description in words.
    pub sentence: String,
}
