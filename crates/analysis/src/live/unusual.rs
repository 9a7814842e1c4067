//! Series of a run in progress whose newest value is far from their usual one, and the answers of each server.

use std::collections::BTreeMap;

use plimsoll_core::sampler::{ANSWERS, STORE};
use plimsoll_record::data::{Sample, Series};

use crate::number;

/// Fewest earlier values of a series that has a usual one.
const KNOWN: u32 = 8;
/// Least distance from the mean of the earlier values, in standard deviations, that is unusual.
const DEVIATIONS: f64 = 3.0;
/// Least standard deviation, as a share of the mean: a series that never moved has none.
const STEADY: f64 = 0.02;
/// Distance of the first value that is not 0, in standard deviations.
const FIRST: f64 = 6.0;

/// Value of a series far from its usual one.
#[derive(Debug, Clone, PartialEq)]
pub struct UnusualValue {
    /// The series.
    pub series: Series,
    /// Time of the reading on the run's clock.
    pub at_ns: u64,
    /// The value, in the unit of the series.
    pub value: f64,
    /// Mean of the values before it.
    pub usual: f64,
    /// Distance from that mean in standard deviations.
    pub distance: f64,
}

impl UnusualValue {
    /// Returns the value as a clause: `cpu iowait 41.0 %, usually 2.50 %`.
    pub fn text(&self) -> String {
        text(&self.series, self.value, self.usual)
    }
}

/// Series of a run since the phase began, each as a few sums.
#[derive(Debug, Clone, Default)]
pub struct UnusualSeries {
    series: BTreeMap<u32, Course>,
}

#[derive(Debug, Clone, Default)]
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
        self.series.entry(position).or_insert_with(|| Course { of: series.clone(), ..Course::default() });
    }

    /// Takes the values of a moment.
    pub fn sample(&mut self, sample: &Sample) {
        for (position, value) in sample.values.iter().filter(|(_, value)| value.is_finite()) {
            if let Some(course) = self.series.get_mut(position) {
                course.take(*value);
            }
        }
    }

    /// Returns the unusual values among those of a moment that was taken last.
    pub fn unusual<'a>(&'a self, sample: &'a Sample) -> impl Iterator<Item = UnusualValue> + 'a {
        sample.values.iter().filter_map(move |(position, value)| {
            let course = self.series.get(position).filter(|course| course.is_unusual() && value.is_finite())?;
            Some(UnusualValue {
                series: course.of.clone(),
                at_ns: sample.at_ns,
                value: *value,
                usual: course.usual,
                distance: course.distance,
            })
        })
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
        let mut unusual: Vec<&Course> = self.series.values().filter(|course| course.is_unusual()).collect();
        unusual.sort_by(|a, b| b.distance.total_cmp(&a.distance));
        let line = |course: &&Course| Some(text(&course.of, course.newest?, course.usual));
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
            self.distance = match deviation > 0.0 {
                true => (value - self.mean).abs() / deviation,
                false if value == 0.0 => 0.0,
                false => FIRST,
            };
        }
        self.usual = self.mean;
        self.newest = Some(value);
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / f64::from(self.count);
        self.squares += before * (value - self.mean);
    }

    /// Returns true if the newest value is far from the usual one. Answers of servers are shown apart.
    fn is_unusual(&self) -> bool {
        self.of.source != ANSWERS && self.distance >= DEVIATIONS
    }
}

/// Returns the source, unless it is the store, the subject and the name of a series, with a value and the usual one.
fn text(series: &Series, value: f64, usual: f64) -> String {
    let source = if series.source == STORE { "" } else { series.source.as_str() };
    let name = series.spoken();
    let parts = [source, series.subject.as_str(), name.as_str()].into_iter().filter(|part| !part.is_empty());
    let name = parts.collect::<Vec<_>>().join(" ");
    let [value, usual] = [value, usual].map(|value| number::with_unit(value, &series.unit));
    format!("{name} {value}, usually {usual}")
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
        let high = at(&[(0, 41.0), (1, 100.0), (2, f64::NAN)]);
        seen.sample(&high);
        let unusual: Vec<String> = seen.unusual(&high).map(|one| one.text()).collect();
        assert_eq!(unusual, ["cpu iowait 41.0 %, usually 2.50 %"]);
        assert_eq!(seen.lines(4), ["cpu iowait 41.0 %, usually 2.50 %"]);
        assert_eq!(seen.servers(), ["null 2: rate 900/s"]);
        seen.forget();
        seen.sample(&at(&[(0, 90.0)]));
        assert!(seen.lines(4).is_empty(), "too few values are known");
    }

    #[test]
    fn the_first_value_after_zeros_is_unusual() {
        let mut seen = UnusualSeries::default();
        seen.series(0, &series(STORE, "null", "longest_fork", "s"));
        (0..10).for_each(|_| seen.sample(&at(&[(0, 0.0)])));
        assert!(seen.lines(4).is_empty());
        seen.sample(&at(&[(0, 0.04)]));
        assert_eq!(seen.lines(4), ["null longest fork 40.0 ms, usually 0 s"]);
    }
}
