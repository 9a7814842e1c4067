//! Findings: causes of slow moments.

use serde::Serialize;

use super::Chart;

/// Explanation of slow moments of one phase, or the statement that nothing explains them. Moments in the effects of the
/// plan's faults are one finding for several phases.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct FindingView {
    /// Rule that made the finding: `pause`, `fault`, `cause`, `unexplained`, `regular`, `level` or
    /// `bound`.
    pub rule: &'static str,
    /// Version of the rule.
    pub version: u32,
    /// Trial and phase; empty if the finding is about several.
    pub place: String,
    /// Finding in one sentence.
    pub sentence: String,
    /// Slow moments that the finding is about, or the time of a new level: start and end of each, on the run's clock.
    pub spans_s: Vec<(f64, f64)>,
    /// Number of slow moments of the phase, or of all phases that the finding is about; 0 for rules about whole phases.
    pub moments: usize,
    /// Share of the time of all these slow moments that lies in those of the finding.
    pub slow_percent: f64,
    /// Series that rose with the moments, or changed with a level, best first; empty for rules without series.
    pub evidence: Vec<EvidenceView>,
    /// Numbers of slow moments by trial and phase; empty unless the finding is about several phases.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<FaultedPhaseView>,
    /// Observation that would speak against the finding.
    pub opposite: String,
    /// Next step for the user.
    pub next: String,
    /// Command that tests the finding; empty if the command of the run is not known.
    pub command: String,
    /// First series of the evidence over time, with the slow moments, or the value at two levels; `null` without one.
    pub chart: Option<Chart>,
    /// True if too much of the phase was slow to be moments: those of the finding are outages by faults.
    #[serde(skip)]
    pub is_of_outages: bool,
}

/// Slow moments of a phase in which faults of the plan took effect, repeats together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FaultedPhaseView {
    /// Name of the trial without its repeat.
    pub trial: String,
    /// Name of the phase.
    pub phase: String,
    /// Number of slow moments in the effects of the faults.
    pub explained: usize,
    /// Number of all slow moments.
    pub moments: usize,
}

/// A series that rose with slow moments, or changed with a level.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct EvidenceView {
    /// Name of the series.
    pub series: String,
    /// Unit of its values.
    pub unit: String,
    /// Median in slices that are not slow, or at the other level; of counters and cycles the mean.
    pub usual: f64,
    /// Median in the slices in which it rose before a slow moment, or at the new level.
    pub seen: f64,
    /// Median time from its rise to the beginning of a moment, or of the level, in whole slices.
    pub lead_s: f64,
    /// Mean deviation at the slow moments, or change with the level, in standard deviations of at most 6.
    pub effect: f64,
    /// False discovery rate; `null` for a series that was high then and not tested, and of a level, whose test has none.
    pub q: Option<f64>,
    /// Number of slow moments before which it rose; 0 of a level.
    pub explained: usize,
    /// Number of moments before which it would be as high by chance; 0 of a level.
    pub by_chance: f64,
}
