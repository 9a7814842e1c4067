//! What is going on, on stderr: one line that is rewritten in a terminal, one line a phase elsewhere.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use plimsoll_core::{KindId, Measure, Slice};
use plimsoll_trial::{Sink, Told};

/// Shows progress.
pub struct Progress {
    mode: Mode,
    shown: Mutex<Shown>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Quiet,
    Lines,
    Rewritten,
}

/// What the line is about.
struct Shown {
    trial: String,
    phase: String,
    /// Of the trial's kinds of operation, whether they are whole ones: steps are parts of operations, not operations.
    is_whole: Vec<bool>,
    /// Operations that were rejected or unknown, since the phase began.
    errors: u64,
    started: Instant,
    ends: Option<Duration>,
}

impl Sink for Progress {
    fn take(&self, told: &Told) {
        let shown = || self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        match told {
            Told::Next(name) => name.clone_into(&mut shown().trial),
            Told::BeginTrial(header) => {
                shown().is_whole = header.kinds.iter().map(|kind| kind.step_of.is_none()).collect();
            }
            Told::BeginPhase(header, takes) => self.note(&shown().begin(&header.name, *takes)),
            Told::Slice { slice, .. } if self.mode == Mode::Rewritten => rewrite(&shown().line(slice)),
            Told::Note(text) => self.note(text),
            Told::Remark(text) if self.mode != Mode::Quiet => self.say(text),
            Told::Notice(text) => self.say(text),
            Told::EndRun(..) => self.clear(),
            _ => {}
        }
    }
}

impl Progress {
    /// Quiet, or as the terminal permits.
    pub fn new(quiet: bool) -> Self {
        let mode = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Mode::Quiet,
            (false, true) => Mode::Rewritten,
            (false, false) => Mode::Lines,
        };
        let (trial, phase, is_whole) = (String::new(), String::new(), Vec::new());
        let shown = Shown { trial, phase, is_whole, errors: 0, started: Instant::now(), ends: None };
        Self { mode, shown: Mutex::new(shown) }
    }

    fn note(&self, text: &str) {
        match self.mode {
            Mode::Quiet => {}
            Mode::Lines => crate::say(text),
            Mode::Rewritten => rewrite(text),
        }
    }

    /// A line that stays.
    fn say(&self, text: &str) {
        self.clear();
        crate::say(text);
    }

    /// Takes the rewritten line away.
    fn clear(&self) {
        if self.mode == Mode::Rewritten {
            rewrite("");
        }
    }
}

impl Shown {
    /// A phase begins that will take so long, if that is known.
    fn begin(&mut self, phase: &str, takes: Option<Duration>) -> String {
        phase.clone_into(&mut self.phase);
        (self.errors, self.started, self.ends) = (0, Instant::now(), takes);
        let takes = takes.map_or(String::new(), |takes| format!(" ({:.0} s)", takes.as_secs_f64()));
        format!("{} · {phase}{takes}", self.trial)
    }

    /// A slice of the phase ended.
    fn line(&mut self, slice: &Slice) -> String {
        let mut merged = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).ok();
        let measure = if slice.histograms.iter().any(|one| one.measure == Measure::Response) {
            Measure::Response
        } else {
            Measure::Service
        };
        let mut ops = 0;
        let is_whole = |kind: KindId| self.is_whole.get(usize::from(kind)).is_none_or(|is_whole| *is_whole);
        for one in slice.histograms.iter().filter(|one| one.measure == measure && is_whole(one.kind)) {
            ops += one.histogram.len();
            if one.outcome.is_error() {
                self.errors += one.histogram.len();
            }
            if let Some(merged) = &mut merged {
                // Equal bounds: nothing is out of range.
                let _ = merged.add(&one.histogram);
            }
        }
        let seconds = (slice.end_ns.saturating_sub(slice.start_ns)) as f64 / 1e9;
        let ops_per_s = if seconds > 0.0 { ops as f64 / seconds } else { 0.0 };
        let left = self.ends.map_or(String::new(), |ends| {
            format!(" · {} s left", ends.saturating_sub(self.started.elapsed()).as_secs_f64().ceil())
        });
        // The 99th percentile of too few operations says nothing.
        let p99 = merged.filter(|merged| merged.len() >= 1_000).map(|merged| merged.value_at_quantile(0.99));
        let p99 = p99.map_or(String::new(), |ns| format!(" · p99 {}", duration_text(ns)));
        let errors = if self.errors > 0 { format!(" · {} errors", self.errors) } else { String::new() };
        format!("{} · {}{left} · {ops_per_s:.0} ops/s{p99}{errors}", self.trial, self.phase)
    }
}

fn rewrite(text: &str) {
    // Cut to the usual width so that a rewritten line never wraps.
    let shown: String = text.chars().take(100).collect();
    let mut stderr = std::io::stderr().lock();
    // Progress that cannot be shown is no reason to stop.
    let _ = write!(stderr, "\r\x1b[K{shown}").and_then(|()| stderr.flush());
}

/// `1.23 ms`: three significant digits in the unit that suits.
pub fn duration_text(ns: u64) -> String {
    let value = ns as f64;
    let (scaled, unit) = match ns {
        0..=999 => (value, "ns"),
        1_000..=999_999 => (value / 1e3, "µs"),
        1_000_000..=999_999_999 => (value / 1e6, "ms"),
        _ => (value / 1e9, "s"),
    };
    let digits = if scaled >= 100.0 {
        0
    } else if scaled >= 10.0 {
        1
    } else {
        2
    };
    format!("{scaled:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::duration_text;

    #[test]
    fn durations_have_three_digits() {
        assert_eq!(duration_text(17), "17.0 ns");
        assert_eq!(duration_text(1_234_000), "1.23 ms");
        assert_eq!(duration_text(450_000_000), "450 ms");
        assert_eq!(duration_text(2_000_000_000), "2.00 s");
    }
}
