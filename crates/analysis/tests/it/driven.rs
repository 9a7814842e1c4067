//! A driven phase as it would have been recorded, second by second: for tests of its course.

use plimsoll_core::Slice;
use plimsoll_record::Distribution;
use plimsoll_record::data::{Run, Sample};

use crate::study::{SECOND_NS, complete, series_of, served, times};

/// Second of the run's clock at which the phase begins.
pub const START_S: u64 = 100;

/// The mixed phase of the study's last trial alone, a closed loop of one slice a second in which as many operations
/// ended as `rates` has them, without warm-up.
pub fn driven(rates: &[u64]) -> Run {
    let mut run = complete();
    let mut trial = run.trials.remove(4);
    run.trials.clear();
    run.samples.clear();
    run.events.clear();
    run.series.clear();
    run.header.figures.clear();
    run.header.goals.clear();
    run.header.outline.trials = 1;
    let mut mixed = trial.phases.remove(5);
    mixed.header.ordinal = 0;
    mixed.header.trial = 0;
    mixed.header.start_ns = START_S * SECOND_NS;
    mixed.end.end_ns = (START_S + rates.len() as u64) * SECOND_NS;
    mixed.end.results.clear();
    mixed.slices = rates.iter().enumerate().map(|(at, rate)| slice(at as u32, *rate)).collect();
    trial.header.ordinal = 0;
    trial.header.labels.clear();
    trial.header.start_ns = mixed.header.start_ns;
    trial.end_ns = Some(mixed.end.end_ns);
    trial.answers.clear();
    trial.ledgers.clear();
    run.end_ns = trial.end_ns;
    trial.phases = vec![mixed];
    run.trials = vec![trial];
    run
}

fn slice(ordinal: u32, ops: u64) -> Slice<Distribution> {
    let start_ns = (START_S + u64::from(ordinal)) * SECOND_NS;
    Slice {
        ordinal,
        start_ns,
        end_ns: start_ns + SECOND_NS,
        histograms: vec![served(1, times([(1_000_000, ops)]))],
        ..Slice::default()
    }
}

/// Adds a sampled series to the run: one value for each second of the phase, which is of the second before it.
pub fn sampled(run: &mut Run, source: &str, subject: &str, name: &str, unit: &str, values: &[f64]) {
    let series = run.series.len() as u32;
    run.series.push(series_of(source, subject, name, unit));
    for (second, value) in values.iter().enumerate() {
        let at_ns = (START_S + second as u64 + 1) * SECOND_NS;
        match run.samples.iter_mut().find(|sample| sample.at_ns == at_ns) {
            Some(sample) => sample.values.push((series, *value)),
            None => run.samples.push(Sample { at_ns, values: vec![(series, *value)], ..Sample::default() }),
        }
    }
}
