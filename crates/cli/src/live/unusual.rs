//! Series whose newest value is far from their usual one, and the answers of each server.

use std::collections::BTreeMap;

use plimsoll_analysis::number;
use plimsoll_core::sampler::{ANSWERS, STORE};
use plimsoll_record::data::{Sample, Series};

/// Fewest earlier values of a series that has a usual one.
const KNOWN: u32 = 8;
/// Least distance from the mean of the earlier values, in standard deviations, that is unusual.
const DEVIATIONS: f64 = 3.0;
/// Least standard deviation, as a share of the mean: a series that never moved has none.
const STEADY: f64 = 0.02;

/// Series of a run since the phase began, each as a few sums.
#[derive(Debug, Clone, Default)]
pub struct UnusualSeries {
    series: BTreeMap<u32, Course>,
}

#[derive(Debug, Clone)]
struct Course {
    of: Series,
    count: u32,
    mean: f64,
    /// Sum of the squared distances from the mean (Welford's method).
    squares: f64,
    newest: Option<f64>,
    /// Mean before the newest value, and its distance in standard deviations.
    usual: f64,
    distance: f64,
}

impl UnusualSeries {
    /// Takes a series, and its position in samples.
    pub fn series(&mut self, position: u32, series: &Series) {
        self.series.entry(position).or_insert_with(|| Course {
            of: series.clone(),
            count: 0,
            mean: 0.0,
            squares: 0.0,
            newest: None,
            usual: 0.0,
            distance: 0.0,
        });
    }

    /// Takes the values of a moment.
    pub fn sample(&mut self, sample: &Sample) {
        for (position, value) in sample.values.iter().filter(|(_, value)| value.is_finite()) {
            if let Some(course) = self.series.get_mut(position) {
                course.take(*value);
            }
        }
    }

    /// Forgets all values: a phase begins.
    pub fn forget(&mut self) {
        for course in self.series.values_mut() {
            (course.count, course.mean, course.squares) = (0, 0.0, 0.0);
            (course.newest, course.distance) = (None, 0.0);
        }
    }

    /// Returns up to `most` series whose newest value is unusual, the most unusual first: `cpu iowait 41 %, usually
    /// 2 %`.
    pub fn lines(&self, most: usize) -> Vec<String> {
        let is_unusual = |course: &&Course| course.of.source != ANSWERS && course.distance >= DEVIATIONS;
        let mut unusual: Vec<&Course> = self.series.values().filter(is_unusual).collect();
        unusual.sort_by(|a, b| b.distance.total_cmp(&a.distance));
        let line = |course: &&Course| {
            let unit = &course.of.unit;
            let usual = number::with_unit(course.usual, unit);
            Some(format!("{} {}, usually {usual}", course.name(), number::with_unit(course.newest?, unit)))
        };
        unusual.iter().filter_map(line).take(most).collect()
    }

    /// Returns a line for each of several servers: `null 2: rate 1,200/s, mean time 310 µs`.
    pub fn servers(&self) -> Vec<String> {
        let mut servers: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for course in self.series.values().filter(|course| course.of.source == ANSWERS) {
            let Some(newest) = course.newest else { continue };
            let text = format!("{} {}", course.of.name.replace('_', " "), number::with_unit(newest, &course.of.unit));
            servers.entry(&course.of.subject).or_default().push(text);
        }
        servers.iter().map(|(server, texts)| format!("{server}: {}", texts.join(", "))).collect()
    }
}

impl Course {
    fn take(&mut self, value: f64) {
        self.distance = 0.0;
        if self.count >= KNOWN {
            let deviation = (self.squares / f64::from(self.count)).sqrt().max(self.mean.abs() * STEADY);
            self.distance = if deviation > 0.0 { (value - self.mean).abs() / deviation } else { 0.0 };
        }
        self.usual = self.mean;
        self.newest = Some(value);
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / f64::from(self.count);
        self.squares += before * (value - self.mean);
    }

    /// Returns the source, unless it is the store, the subject and the name of the series.
    fn name(&self) -> String {
        let Series { source, subject, .. } = &self.of;
        let (source, name) = (if source == STORE { "" } else { source.as_str() }, self.of.spoken());
        let parts = [source, subject.as_str(), name.as_str()].into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_record::data::SeriesKind;

    use super::*;

    fn series(source: &str, subject: &str, name: &str, unit: &str) -> Series {
        let text = |text: &str| text.to_owned();
        let kind = SeriesKind::Level;
        Series { source: text(source), subject: text(subject), name: text(name), unit: text(unit), kind }
    }

    fn at(values: &[(u32, f64)]) -> Sample {
        Sample { values: values.to_vec(), ..Sample::default() }
    }

    #[test]
    fn a_value_far_from_those_before_is_named_and_a_usual_one_is_not() {
        let mut seen = UnusualSeries::default();
        seen.series(0, &series("cpu", "", "iowait", "%"));
        seen.series(1, &series(STORE, "null", "keys", ""));
        seen.series(2, &series(ANSWERS, "null 2", "rate", "1/s"));
        for second in 0..20 {
            seen.sample(&at(&[(0, 2.0 + f64::from(second % 2)), (1, 100.0), (2, 900.0)]));
        }
        assert!(seen.lines(4).is_empty(), "{:?}", seen.lines(4));
        seen.sample(&at(&[(0, 41.0), (1, 100.0), (2, f64::NAN)]));
        assert_eq!(seen.lines(4), ["cpu iowait 41.0 %, usually 2.50 %"]);
        assert_eq!(seen.servers(), ["null 2: rate 900/s"]);
        seen.forget();
        seen.sample(&at(&[(0, 90.0)]));
        assert!(seen.lines(4).is_empty(), "too few values are known");
    }
}
