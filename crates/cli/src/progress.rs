//! What is going on, on stderr: one line that is rewritten in a terminal, one line a phase elsewhere.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_analysis::number;
use plimsoll_analysis::slices::SliceRow;
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
            Told::BeginPhase(header, takes) => self.note(&shown().begin(&header.name, *takes)),
            Told::Slice { row, .. } if self.mode == Mode::Rewritten => rewrite(&shown().line(row)),
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
        let (trial, phase) = (String::new(), String::new());
        let shown = Shown { trial, phase, errors: 0, started: Instant::now(), ends: None };
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
    fn line(&mut self, row: &SliceRow) -> String {
        self.errors += row.rejected + row.unknown;
        let left = self.ends.map_or(String::new(), |ends| {
            format!(" · {} s left", ends.saturating_sub(self.started.elapsed()).as_secs_f64().ceil())
        });
        let p99 = row.percentiles_ns[2].map_or(String::new(), |ns| format!(" · p99 {}", number::nanoseconds(ns)));
        let errors = if self.errors > 0 { format!(" · {} errors", self.errors) } else { String::new() };
        format!("{} · {}{left} · {:.0} ops/s{p99}{errors}", self.trial, self.phase, row.rate_per_s)
    }
}

fn rewrite(text: &str) {
    // Cut to the usual width so that a rewritten line never wraps.
    let shown: String = text.chars().take(100).collect();
    let mut stderr = std::io::stderr().lock();
    // Progress that cannot be shown is no reason to stop.
    let _ = write!(stderr, "\r\x1b[K{shown}").and_then(|()| stderr.flush());
}
