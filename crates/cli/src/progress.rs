//! Progress: on standard error a line that is rewritten in a terminal, or a line at intervals; on standard output, if
//! requested, JSON Lines.

use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_analysis::slices::SliceRow;
use plimsoll_analysis::{Times, number};
use plimsoll_record::data::PhaseKind;
use plimsoll_trial::{CellsSoFar, Sink, Told};
use serde_json::json;

use crate::{interrupt, live};

/// Interval of lines without a terminal, by default.
pub const EVERY: Duration = Duration::from_secs(10);

/// Shows progress.
pub struct Progress {
    mode: Mode,
    /// Flag set when the reader of JSON Lines closes standard output.
    stop: Option<Arc<AtomicBool>>,
    shown: Mutex<Shown>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Quiet,
    /// A line this often.
    Lines(Duration),
    Rewritten,
}

/// Subject and numbers of the line.
struct Shown {
    trial: String,
    phase: String,
    started: Instant,
    ends: Option<Duration>,
    /// Number of ended operations of a load, and their total.
    loaded: Option<(u64, u64)>,
    /// Time of the last line, with the counts since then.
    told: Instant,
    since: Since,
}

/// Sums over slices.
#[derive(Default)]
struct Since {
    seconds: f64,
    done: u64,
    errors: u64,
    times: Times,
}

impl Sink for Progress {
    fn take(&self, told: &Told) {
        if self.stop.is_some() {
            self.print(told);
        }
        match told {
            Told::Next(name) => name.clone_into(&mut self.shown().trial),
            Told::BeginPhase(header, takes) => self.note(&self.shown().begin(&header.name, *takes)),
            Told::Loading(done, of) => {
                let mut shown = self.shown();
                shown.loaded = Some((*done, *of));
                self.show(&mut shown);
            }
            Told::Slice { row, .. } => {
                let mut shown = self.shown();
                shown.add(row);
                self.show(&mut shown);
            }
            Told::Cells(cells) => self.step(cells_line(cells)),
            Told::Note(text) => self.note(text),
            // The live display holds texts until it ends.
            Told::Remark(text) if self.mode != Mode::Quiet => self.say(text),
            Told::Notice(text) => self.say(text),
            Told::EndRun(..) => self.clear(),
            _ => {}
        }
    }
}

impl Progress {
    /// Is quiet, or writes a line at intervals, or as the terminal permits. JSON Lines go to standard output until it is
    /// closed; then `stop` is set.
    pub fn new(quiet: bool, every: Option<Duration>, stop: Option<Arc<AtomicBool>>) -> Self {
        let mode = match (quiet, every, std::io::stderr().is_terminal()) {
            (true, ..) => Mode::Quiet,
            (false, None, true) => Mode::Rewritten,
            (false, every, _) => Mode::Lines(every.unwrap_or(EVERY)),
        };
        let now = Instant::now();
        let shown = Shown {
            trial: String::new(),
            phase: String::new(),
            started: now,
            ends: None,
            loaded: None,
            told: now,
            since: Since::default(),
        };
        Self { mode, stop, shown: Mutex::new(shown) }
    }

    /// Mode of progress lines: none while the live display has the terminal, or the program aborts.
    fn mode(&self) -> Mode {
        if live::is_on() || interrupt::is_aborting() { Mode::Quiet } else { self.mode }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows the position if the interval is over.
    fn show(&self, shown: &mut Shown) {
        match self.mode() {
            Mode::Rewritten if shown.told.elapsed() >= Duration::from_millis(100) => rewrite(&shown.line()),
            // A slice that ends a moment early is that line's still.
            Mode::Lines(every) if shown.told.elapsed() + every / 20 >= every => crate::say(&shown.line()),
            _ => {}
        }
    }

    /// Shows a line with all there is to show: at once in a terminal, otherwise at the interval.
    pub fn step(&self, line: String) {
        let mut shown = self.shown();
        shown.trial = line;
        match self.mode() {
            Mode::Rewritten => rewrite(&shown.trial),
            Mode::Lines(every) if shown.told.elapsed() >= every => {
                shown.told = Instant::now();
                crate::say(&shown.trial);
            }
            _ => {}
        }
    }

    /// Shows a line at once.
    pub fn note(&self, text: &str) {
        match self.mode() {
            Mode::Quiet => {}
            Mode::Lines(_) => crate::say(text),
            Mode::Rewritten => rewrite(text),
        }
    }

    /// A line that stays.
    fn say(&self, text: &str) {
        self.clear();
        crate::say(text);
    }

    /// Removes the rewritten line.
    pub fn clear(&self) {
        if self.mode() == Mode::Rewritten {
            rewrite("");
        }
    }

    /// Prints an event as a JSON object on a line.
    fn print(&self, told: &Told) {
        let object = match told {
            Told::BeginRun(header) => json!({
                "type": "run", "id": header.id, "plan": header.plan_name, "tag": header.tag,
                "started_wall_ns": header.started_wall_ns, "plimsoll_version": header.plimsoll_version,
            }),
            Told::BeginPhase(header, takes) => json!({
                "type": "phase", "trial": self.shown().trial, "phase": header.name, "kind": header.kind.name(),
                "takes_s": takes.map(|takes| takes.as_secs_f64()),
            }),
            Told::Slice { row, measured: true, .. } => return self.line(&plimsoll_report::json_slice(row)),
            Told::Loading(done, of) if *done > 0 => json!({"type": "loading", "done": done, "of": of}),
            Told::Event(event) => json!({
                "type": "event", "at_s": event.from_ns as f64 / 1e9, "level": event.level.name(), "text": event.text,
            }),
            Told::Fault(span) => json!({
                "type": "fault", "at_s": span.begun_ns as f64 / 1e9, "fault": span.fault, "subject": span.subject,
                "taken": span.taken_ns.is_some(), "healed": span.healed_ns.is_some(), "error": span.error,
            }),
            Told::Cells(cells) => json!({
                "type": "cells", "done": cells.done, "of": cells.of, "left_out": cells.left_out,
                "broken": cells.broken, "left_s": cells.left.map(|left| left.as_secs_f64()),
                "now": cells.now.iter().map(|(name, step)| json!({"name": name, "step": step})).collect::<Vec<_>>(),
            }),
            Told::Remark(text) | Told::Notice(text) => json!({"type": "note", "text": text}),
            _ => return,
        };
        self.line(&object.to_string());
    }

    fn line(&self, line: &str) {
        let mut stdout = std::io::stdout().lock();
        let written = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
        if let (Err(error), Some(stop)) = (written, &self.stop)
            && error.kind() == ErrorKind::BrokenPipe
        {
            stop.store(true, Ordering::SeqCst);
        }
    }
}

impl Shown {
    /// A phase begins that will take so long, if that is known.
    fn begin(&mut self, phase: &str, takes: Option<Duration>) -> String {
        phase.clone_into(&mut self.phase);
        (self.started, self.ends, self.loaded) = (Instant::now(), takes, None);
        (self.told, self.since) = (self.started, Since::default());
        let takes = takes.map_or(String::new(), |takes| format!(" ({:.0} s)", takes.as_secs_f64()));
        format!("{} · {phase}{takes}", self.trial)
    }

    /// A slice of the phase ended.
    fn add(&mut self, row: &SliceRow) {
        self.since.seconds += row.end_s - row.start_s;
        self.since.done += row.count.saturating_sub(row.rejected + row.unknown);
        self.since.errors += row.rejected + row.unknown;
        self.since.times.add(&row.times_ns);
        if let Some((done, _)) = self.loaded.as_mut().filter(|_| row.phase_kind == PhaseKind::Load) {
            *done += row.count;
        }
    }

    /// Returns the position and the numbers since the last line: `1/1 postgres · drive · 20 s · 1,860/s · p50 3.9 ms · …`.
    fn line(&mut self) -> String {
        let since = std::mem::take(&mut self.since);
        self.told = Instant::now();
        let mut parts = vec![self.trial.clone(), self.phase.clone()];
        parts.extend(course(self.started.elapsed(), self.loaded, self.ends));
        if since.seconds > 0.0 {
            parts.push(format!("{}/s", number::count((since.done as f64 / since.seconds).round() as u64)));
            let shown =
                ["p50", "p95", "p99"].into_iter().filter_map(|name| Some((name, since.times.percentile(name).ok()?)));
            parts.extend(shown.map(|(name, ns)| format!("{name} {}", number::nanoseconds(ns))));
            parts.extend((since.errors > 0).then(|| format!("{} errors", number::count(since.errors))));
        }
        parts.join(" · ")
    }
}

/// Returns the position in a phase: elapsed time, share of a load, remaining time. `loaded` is the number of ended
/// operations of a load, and their total; `ends` is the planned time.
pub fn course(taken: Duration, loaded: Option<(u64, u64)>, ends: Option<Duration>) -> Vec<String> {
    let mut parts = vec![format!("{:.0} s", taken.as_secs_f64())];
    let share = loaded.filter(|(_, of)| *of > 0).map(|(done, of)| done.min(of) as f64 / of as f64);
    parts.extend(share.map(|share| format!("{:.0} %", share * 100.0)));
    let left = match (share, ends) {
        (Some(share), _) if share > 0.0 => Some(taken.mul_f64((1.0 - share) / share)),
        (None, Some(ends)) => Some(ends.saturating_sub(taken)),
        _ => None,
    };
    parts.extend(left.map(|left| format!("{} s left", left.as_secs_f64().ceil())));
    parts
}

/// Returns the position of runs of cells: `12/36 · 2 broken · 4 min left · postgres: drive | sqlite: check`.
fn cells_line(cells: &CellsSoFar) -> String {
    let now: Vec<String> = cells.now.iter().map(|(name, step)| format!("{name}: {step}")).collect();
    format!("{} · {}", cells_head(cells), now.join(" | "))
}

/// Returns the position of runs of cells without their steps: `12/36 cuts · 3 left out · 2 broken · 4 min left`.
pub fn cells_head(cells: &CellsSoFar) -> String {
    let mut parts = vec![format!("{}/{} cuts", cells.done, cells.of)];
    parts.extend((cells.left_out > 0).then(|| format!("{} left out", cells.left_out)));
    parts.extend((cells.broken > 0).then(|| format!("{} broken", cells.broken)));
    parts.extend(cells.left.map(|left| format!("{} left", length(left))));
    parts.join(" · ")
}

/// Writes a length of time, rounded.
pub fn length(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s < 90.0 => format!("{:.0} s", s.ceil()),
        s if s < 5_400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3_600.0),
    }
}

/// Rewrites the terminal's last line.
pub fn rewrite(text: &str) {
    // Cut to the usual width so that a rewritten line never wraps.
    let shown: String = text.chars().take(100).collect();
    let mut stderr = std::io::stderr().lock();
    // Progress that cannot be shown is no reason to stop.
    let _ = write!(stderr, "\r\x1b[K{shown}").and_then(|()| stderr.flush());
}
