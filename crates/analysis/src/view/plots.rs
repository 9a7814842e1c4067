//! Plots on the time axis, percentile curves, and charts over a number that is not time.

use plimsoll_record::data::PhaseKind;
use serde::Serialize;

/// Plots on the time axis, and the percentile curves. Times are seconds on the run's clock.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plots {
    /// End of the axis; it starts at 0.
    pub end_s: f64,
    /// The phases, in time order.
    pub bands: Vec<Band>,
    /// Names of kinds of operation, with `all` first; by position in the lists below.
    pub ops: Vec<String>,
    /// Operations a second, by kind, in phases that drive.
    pub throughput: Panel,
    /// Records a second, in phases that load; drawn apart, as a load may be ten times as fast as what follows.
    pub loading: Panel,
    /// Panels, one for each of `ops`: p50, p90, p95, p99 and maximum of each slice, in seconds.
    pub latency: Vec<Panel>,
    /// Heat maps, one for each of `ops`.
    pub heat: Vec<HeatMap>,
    /// Percentile curves: one for each driven phase, and of it for each kind.
    pub curves: Vec<Curve>,
    /// Counters of stores, except for their cycles.
    pub store: Vec<Panel>,
    /// Ends of a store's own maintenance cycles: checkpoints, flushes.
    pub cycles: Vec<Mark>,
    /// Pauses of the machine, with the aftermath: start and end, in time order, without overlaps.
    pub pauses: Vec<(f64, f64)>,
    /// Actions on servers and disks, in time order.
    pub acts: Vec<ActMark>,
    /// Series of samplers.
    pub host: Vec<Panel>,
    /// Fine readings of samplers around faults, as steps.
    pub fine: Vec<Panel>,
    /// Series of samplers that were zero all the time and so are not in `host`: all of a subject, or some series.
    pub host_zero: Vec<String>,
}

/// A phase on the time axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Band {
    /// Start.
    pub start_s: f64,
    /// End.
    pub end_s: f64,
    /// Position of the trial in [`super::RunView::trials`].
    pub trial: usize,
    /// Short name of the trial.
    pub trial_name: String,
    /// Name of the phase.
    pub phase: String,
    /// Kind of the phase.
    pub kind: PhaseKind,
    /// End of its warm-up, where it had one.
    pub warmup_end_s: Option<f64>,
}

/// An action on servers or a disk, on the time axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ActMark {
    /// Beginning.
    pub start_s: f64,
    /// End; equal to `start_s` for a point. A fault ends when it is healed, or with its phase.
    pub end_s: f64,
    /// Description: for a lab, the command; for a fault, its kind and its subject.
    pub name: String,
}

/// Lines over one time axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Panel {
    /// Title of the panel.
    pub name: String,
    /// Unit of all its lines.
    pub unit: String,
    /// Source of the lines: a sampler's name, or `drive`.
    pub source: String,
    /// True when a line stands for a span (a slice): from its time to the next one's.
    pub steps: bool,
    /// True for the panels that are looked at first.
    pub primary: bool,
    /// Times.
    pub t_s: Vec<f64>,
    /// Lines; each has a value or `null` for each time.
    pub lines: Vec<Line>,
}

/// A line of a panel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Name.
    pub name: String,
    /// Values in the panel's unit; `None` where there is none, or too few samples.
    pub values: Vec<Option<f64>>,
    /// Median of the line, which a legend shows while the pointer is elsewhere.
    pub median: Option<f64>,
    /// Lowest value of each column, if `values` are means of several slices ([`Plots::condensed`]); otherwise empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub low: Vec<Option<f64>>,
    /// Highest value of each column, likewise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub high: Vec<Option<f64>>,
}

impl Line {
    /// A line with its median.
    pub fn new(name: impl Into<String>, values: Vec<Option<f64>>) -> Line {
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        let median = crate::stat::median(&known);
        Line { name: name.into(), values, median, low: Vec::new(), high: Vec::new() }
    }
}

/// Number of operations by slice and response time. Sparse.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeatMap {
    /// Lower edges of the rows in seconds, ascending, and the upper edge of the last.
    pub edges_s: Vec<f64>,
    /// Start and end of the columns (slices).
    pub columns_s: Vec<(f64, f64)>,
    /// Column, row and count of the cells that are not empty.
    pub cells: Vec<(u32, u32, u64)>,
    /// Largest count of a cell.
    pub count_max: u64,
}

/// A percentile curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// Short name of the trial.
    pub trial_name: String,
    /// Name of the phase.
    pub phase: String,
    /// Position in [`Plots::ops`].
    pub op: usize,
    /// Samples behind it.
    pub n: u64,
    /// Share of operations slower, as −log₁₀: 2 is p99. Ascending; ends where fewer than ten samples are above.
    pub nines: Vec<f64>,
    /// Latency in seconds.
    pub seconds: Vec<f64>,
}

/// Lines or points over a number.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Chart {
    /// Title of the chart.
    pub name: String,
    /// Name of the horizontal axis.
    pub x_name: String,
    /// Unit of the horizontal axis; empty for counts.
    pub x_unit: String,
    /// Unit of all lines.
    pub unit: String,
    /// True where the vertical axis is logarithmic.
    pub logarithmic: bool,
    /// Top of the vertical axis where several charts share one; `null` where it is the chart's own.
    pub top: Option<f64>,
    /// Places on the horizontal axis, ascending.
    pub x: Vec<f64>,
    /// Lines; each has a value or `null` for each of `x`.
    pub lines: Vec<Line>,
    /// Positions in `lines` of those that are measured points and not curves.
    pub points: Vec<usize>,
    /// Places worth a vertical line.
    pub marks: Vec<Mark>,
}

impl Chart {
    /// Returns a chart of measured points at `x`, in `unit`. Lines without values are left out.
    pub(crate) fn of_points(name: &str, x_name: &str, unit: &str, x: Vec<f64>, lines: Vec<Line>) -> Chart {
        let lines: Vec<Line> = lines.into_iter().filter(|line| line.values.iter().any(Option::is_some)).collect();
        Chart {
            name: name.to_string(),
            x_name: x_name.to_string(),
            unit: unit.to_string(),
            x,
            points: (0..lines.len()).collect(),
            lines,
            ..Chart::default()
        }
    }
}

/// A place on a chart's horizontal axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mark {
    /// Position of the mark.
    pub x: f64,
    /// Name of the mark.
    pub name: String,
}
