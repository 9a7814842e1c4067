//! Observations of a run that the display shows.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use plimsoll_analysis::live::{Live, LiveGoal, LiveMoment, LivePhase, LiveSums};
use plimsoll_analysis::slices::SliceRow;
use plimsoll_record::data::{FaultSpan, PhaseKind};
use plimsoll_trial::{CellsSoFar, Told};

use super::keys::LiveKeys;

/// Newest slices that are kept: ten minutes of slices of a second.
const KEPT: usize = 600;
/// Most lines of unusual series.
const UNUSUAL_MAX: usize = 8;
/// Most series, or faults, of a slow moment.
const MEANWHILE_MAX: usize = 2;

/// Run in progress, as far as the display shows it.
#[derive(Clone)]
pub struct LiveRun {
    live: Live,
    position: String,
    step: String,
    began: Instant,
    /// Time since the phase began, of a copy that stands still.
    stood_at: Option<Duration>,
    loaded: Option<(u64, u64)>,
    cells: Option<CellsSoFar>,
    changes: u64,
}

/// Contents of the display at one moment.
pub struct LiveFrame<'a> {
    /// The trial, as a person calls it: `2/5 sqlite, index own`.
    pub position: &'a str,
    /// Present activity outside of slices; empty without one.
    pub step: &'a str,
    /// Time since the phase began.
    pub elapsed: Duration,
    /// Planned time of the phase, if it is known.
    pub takes: Option<Duration>,
    /// Number of ended operations of a load, and their total.
    pub loaded: Option<(u64, u64)>,
    /// Cells of a run of cells.
    pub cells: Option<&'a CellsSoFar>,
    /// Name of the phase; `None` before the first one.
    pub phase: Option<&'a str>,
    /// True if the phase has ended.
    pub is_over: bool,
    /// Name of the selected operation type; `None` for all together.
    pub selected: Option<&'a str>,
    /// Sums since the phase began, of all operation types or of the selected one.
    pub done: Option<&'a LiveSums>,
    /// Newest slices, likewise.
    pub newest: Option<&'a VecDeque<SliceRow>>,
    /// Position of the phase's newest slice.
    pub slice: u32,
    /// Length of a silence that goes on, in seconds; `None` without one, and for one operation type.
    pub silence_s: Option<f64>,
    /// Goals of the phase.
    pub goals: &'a [LiveGoal],
    /// Faults of the phase.
    pub faults: &'a [FaultSpan],
    /// A line for each slow moment of the phase, the newest first.
    pub moments: Vec<String>,
    /// A line for each unusual series.
    pub unusual: Vec<String>,
    /// A line for each of several servers.
    pub servers: Vec<String>,
    /// Newest remarks and warnings, the newest last.
    pub remarks: &'a [String],
}

impl LiveFrame<'_> {
    /// Row of the newest slice; `None` if no operation of the selected type ended in it.
    pub fn row(&self) -> Option<&SliceRow> {
        self.newest?.back().filter(|row| row.slice >= self.slice)
    }
}

impl LiveRun {
    /// Makes a run of which nothing is known yet.
    pub fn new() -> Self {
        Self {
            live: Live::new(KEPT),
            position: String::new(),
            step: String::new(),
            began: Instant::now(),
            stood_at: None,
            loaded: None,
            cells: None,
            changes: 0,
        }
    }

    /// Returns a copy whose time stands still.
    pub fn frozen(&self) -> Self {
        Self { stood_at: Some(self.began.elapsed()), ..self.clone() }
    }

    /// Takes an event.
    pub fn take(&mut self, told: &Told) {
        self.changes += 1;
        told.add_to(&mut self.live);
        match told {
            Told::Next(name) => {
                name.clone_into(&mut self.position);
                self.step.clear();
            }
            Told::BeginPhase(..) => {
                self.step.clear();
                (self.began, self.loaded) = (Instant::now(), None);
            }
            Told::Slice { row, .. } => {
                if let Some((done, _)) = self.loaded.as_mut().filter(|_| row.phase_kind == PhaseKind::Load) {
                    *done += row.count;
                }
            }
            Told::Loading(done, of) => self.loaded = Some((*done, *of)),
            Told::Cells(cells) => self.cells = Some(cells.clone()),
            Told::Note(text) => text.clone_into(&mut self.step),
            _ => {}
        }
    }

    /// Returns the number of operation types that can be selected: none if there is only one.
    pub fn type_count(&self) -> usize {
        self.live.phase().map(|phase| phase.types.len()).filter(|count| *count > 1).unwrap_or(0)
    }

    /// Returns the number of events so far: the display is drawn again if it has grown.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the contents of the display, with the newest `remarks`.
    pub fn frame<'a>(&'a self, keys: &LiveKeys, remarks: &'a [String]) -> LiveFrame<'a> {
        let phase = self.live.phase();
        let of_type = |phase: &'a LivePhase| phase.types.iter().nth(keys.selected.checked_sub(1)?);
        let selected = phase.and_then(of_type);
        LiveFrame {
            position: &self.position,
            step: &self.step,
            elapsed: self.stood_at.unwrap_or_else(|| self.began.elapsed()),
            takes: phase.and_then(|phase| phase.takes),
            loaded: self.loaded,
            cells: self.cells.as_ref(),
            phase: phase.map(|phase| phase.header.name.as_str()),
            is_over: phase.is_some_and(|phase| phase.ended.is_some()),
            selected: selected.map(|(name, _)| name.as_str()),
            done: selected.map(|(_, of_type)| &of_type.done).or(phase.map(|phase| &phase.done)),
            newest: selected.map(|(_, of_type)| &of_type.newest).or(phase.map(|phase| &phase.newest)),
            slice: phase.and_then(|phase| phase.newest.back()).map_or(0, |row| row.slice),
            silence_s: phase.filter(|_| selected.is_none()).and_then(LivePhase::silence_s),
            goals: phase.map(|phase| phase.goals.as_slice()).unwrap_or_default(),
            faults: phase.map(|phase| phase.faults.as_slice()).unwrap_or_default(),
            moments: phase.map(moments).unwrap_or_default(),
            unusual: self.live.unusual().lines(UNUSUAL_MAX),
            servers: self.live.unusual().servers(),
            remarks,
        }
    }
}

/// Returns a line for each slow moment of the phase, the newest first: `37.0 s · p99 480 ms, usually 12.0 ms · cpu iowait
/// 41.0 %, usually 2.50 %`.
fn moments(phase: &LivePhase) -> Vec<String> {
    let line = |moment: &LiveMoment| {
        let mut parts = vec![format!("{:.1} s", moment.start_s), moment.text()];
        parts.extend(phase.meanwhile(moment).into_iter().take(MEANWHILE_MAX));
        parts.join(" · ")
    };
    phase.moments().rev().map(line).collect()
}
