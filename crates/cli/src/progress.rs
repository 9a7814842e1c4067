//! What is going on, on stderr: one line that is rewritten in a terminal, one line a phase elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shows progress. All numbers it is given are of the last slice.
pub struct Progress {
    mode: Mode,
    trial: String,
    phase: String,
    started: Instant,
    ends: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Quiet,
    Lines,
    Rewritten,
}

/// What the last slice came to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    /// Operations a second.
    pub ops_per_s: f64,
    /// 99th percentile of the slice's response times; `None` when it had too few operations.
    pub p99_ns: Option<u64>,
    /// Operations that were rejected or unknown, since the phase began.
    pub errors: u64,
}

impl Progress {
    /// Quiet, or as the terminal permits.
    pub fn new(quiet: bool) -> Self {
        let mode = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Mode::Quiet,
            (false, true) => Mode::Rewritten,
            (false, false) => Mode::Lines,
        };
        Self { mode, trial: String::new(), phase: String::new(), started: Instant::now(), ends: None }
    }

    /// A trial begins: `2/5 sqlite, index own`.
    pub fn trial(&mut self, name: String) {
        self.trial = name;
    }

    /// A phase begins that will take `duration`, if that is known.
    pub fn phase(&mut self, name: &str, duration: Option<Duration>) {
        name.clone_into(&mut self.phase);
        self.started = Instant::now();
        self.ends = duration;
        match self.mode {
            Mode::Quiet => {}
            Mode::Lines => crate::say(&format!("{} · {}{}", self.trial, name, takes(duration))),
            Mode::Rewritten => self.rewrite(&format!("{} · {}{}", self.trial, name, takes(duration))),
        }
    }

    /// A slice of the phase ended.
    pub fn pace(&mut self, pace: Pace) {
        if self.mode != Mode::Rewritten {
            return;
        }
        let left = self.ends.map_or(String::new(), |ends| {
            format!(" · {} s left", ends.saturating_sub(self.started.elapsed()).as_secs_f64().ceil())
        });
        let p99 = pace.p99_ns.map_or(String::new(), |ns| format!(" · p99 {}", duration_text(ns)));
        let errors = if pace.errors > 0 { format!(" · {} errors", pace.errors) } else { String::new() };
        let line = format!("{} · {}{left} · {:.0} ops/s{p99}{errors}", self.trial, self.phase, pace.ops_per_s);
        self.rewrite(&line);
    }

    /// Something that takes a while, in a few words.
    pub fn note(&mut self, text: &str) {
        match self.mode {
            Mode::Quiet => {}
            Mode::Lines => crate::say(text),
            Mode::Rewritten => self.rewrite(text),
        }
    }

    /// A line that stays, also when quiet: warnings.
    pub fn say(&mut self, text: &str) {
        self.clear();
        crate::say(text);
    }

    /// A line that stays, unless quiet: what was found on the way.
    pub fn keep(&mut self, text: &str) {
        if self.mode != Mode::Quiet {
            self.say(text);
        }
    }

    /// Takes the rewritten line away.
    pub fn clear(&mut self) {
        if self.mode == Mode::Rewritten {
            self.rewrite("");
        }
    }

    fn rewrite(&self, text: &str) {
        // Cut to the usual width so that a rewritten line never wraps.
        let shown: String = text.chars().take(100).collect();
        let mut stderr = std::io::stderr().lock();
        // Progress that cannot be shown is no reason to stop.
        let _ = write!(stderr, "\r\x1b[K{shown}").and_then(|()| stderr.flush());
    }
}

fn takes(duration: Option<Duration>) -> String {
    duration.map_or(String::new(), |duration| format!(" ({:.0} s)", duration.as_secs_f64()))
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
