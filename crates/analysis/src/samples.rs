//! Values of sampled series as rows, for calculations in other programs.

use plimsoll_record::data::{Run, Sample, Series};

use crate::latency::Times;

/// Value of a series at one time. Times are nanoseconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SampleRow {
    /// Time of the reading on the run's clock.
    pub at_ns: u64,
    /// Position of the series, as [`series`] gives it.
    pub series: u32,
    /// Value in the series' unit; `None` for a distribution.
    pub value: Option<f64>,
    /// Number of times in a distribution; `None` for a value.
    pub count: Option<u64>,
    /// Median of a distribution; `None` for a value, and with fewer than ten times above it.
    pub p50_ns: Option<u64>,
    /// 99th percentile of a distribution, likewise.
    pub p99_ns: Option<u64>,
    /// Longest time of a distribution; `None` for a value, and without times.
    pub max_ns: Option<u64>,
}

/// Returns every series of a run with its position.
pub fn series(run: &Run) -> impl Iterator<Item = (u32, &Series)> {
    (0..).zip(&run.series)
}

/// Returns every reading of every series, in time order, without fine readings.
pub fn samples(run: &Run) -> impl Iterator<Item = SampleRow> {
    rows(&run.samples)
}

/// Returns every fine reading of every series, in time order.
pub fn fine_samples(run: &Run) -> impl Iterator<Item = SampleRow> {
    rows(&run.fine_samples)
}

fn rows(samples: &[Sample]) -> impl Iterator<Item = SampleRow> {
    samples.iter().flat_map(|sample| {
        let at_ns = sample.at_ns;
        let values = sample.values.iter().map(move |(series, value)| SampleRow {
            at_ns,
            series: *series,
            value: Some(*value),
            ..SampleRow::default()
        });
        let distributions = sample.distributions.iter().map(move |(series, read)| {
            let mut times = Times::default();
            times.add(read.counts());
            SampleRow {
                at_ns,
                series: *series,
                value: None,
                count: Some(times.len()),
                p50_ns: times.percentile("p50").ok(),
                p99_ns: times.percentile("p99").ok(),
                max_ns: (!times.is_empty()).then(|| times.max_ns()),
            }
        });
        values.chain(distributions)
    })
}
