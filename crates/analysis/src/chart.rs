//! Charts whose horizontal axis is not time: rates, clients, any number that was swept.

use serde::Serialize;

use crate::view::Line;

/// Lines or points over a number.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chart {
    /// What it shows.
    pub name: String,
    /// What the horizontal axis is.
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

/// A place on a chart's horizontal axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mark {
    /// Where.
    pub x: f64,
    /// What is there.
    pub name: String,
}
