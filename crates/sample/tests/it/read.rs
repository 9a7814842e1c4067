//! A sampler, read as a run reads it.

use std::time::Duration;

use plimsoll_core::{Reading, Sampler, Series};
use plimsoll_sample::{ServerProcesses, open};

pub struct Read {
    pub name: &'static str,
    sampler: Box<dyn Sampler>,
    before: Vec<Reading>,
}

impl Read {
    /// The sampler `name`.
    pub fn open(name: &str, server: &ServerProcesses) -> Self {
        let (mut opened, unavailable) = open(&[name.to_owned()], server);
        assert_eq!(unavailable, [], "{name}");
        Self::new(opened.pop().unwrap())
    }

    pub fn new((name, sampler): (&'static str, Box<dyn Sampler>)) -> Self {
        Self { name, sampler, before: Vec::new() }
    }

    /// Returns the values that are recorded of the next reading, `elapsed` after the last.
    pub fn next(&mut self, elapsed: Duration) -> Vec<(Series, f64)> {
        let readings = self.sampler.sample();
        let found = readings.iter().filter_map(|reading| {
            let earlier = self.before.iter().find(|one| one.is_of(reading));
            let value = reading.since(earlier.map(|one| (one, elapsed.as_secs_f64())))?;
            Some((reading.series(self.name, &reading.subject), value))
        });
        let found = found.collect();
        self.before = readings;
        found
    }

    /// Returns the series of fine readings.
    pub fn fine(&mut self) -> Vec<Series> {
        let readings = self.sampler.fine();
        readings.iter().map(|reading| reading.series(self.name, &reading.subject)).collect()
    }

    /// The named value of the next reading.
    pub fn value(&mut self, elapsed: Duration, subject: &str, name: &str) -> Option<f64> {
        let found = self.next(elapsed);
        let fits = |(series, _): &&(Series, f64)| series.subject == subject && series.name == name;
        found.iter().find(fits).map(|(_, value)| *value)
    }
}
