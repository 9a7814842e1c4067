//! Independent trials: several at once, each on a store of its own. A cell is tried again until a loss is seen; a cell
//! that fails does not stop the others.
//!
//! Each job is a thread with everything of its own that a trial changes: store, ledger, fold, the server's processes. They share
//! the clock, the recording, which takes entries of any trial, and the user's wish for an end.

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use plimsoll_analysis::fold::Fold;
use plimsoll_analysis::{number, promise};
use plimsoll_core::{Catalogue, StoreErrorKind};
use plimsoll_drive::Io;
use plimsoll_plan::model::{Plan, PlannedTrial, StoreUse};
use plimsoll_record::data::{Cell, EventClass, Level};
use plimsoll_sample::ServerProcesses;

use crate::error::{TrialError, io_error};
use crate::open::{Open, fitted, leave, reach};
use crate::phase::RunContext;
use crate::run::RunSpec;
use crate::sink::{CellsSoFar, Sink, Sinks, Told};
use crate::trial::{self, TrialStart};

/// Options of a run of cells besides its plan.
#[derive(Debug)]
pub struct Cells<'a> {
    /// The cells, each with its trials.
    pub cells: &'a [Cell],
    /// Number of trials that run at once.
    pub jobs: usize,
    /// Trials run also when their cell has lost something already.
    pub all_cuts: bool,
}

/// Runs all trials of the plan.
///
/// # Errors
/// What the first that failed ended with, when all others are done; or what no other can do without.
pub(crate) fn run(context: &RunContext<'_>, spec: &Cells<'_>) -> Result<(), TrialError> {
    let board = Board::new(context, spec);
    let shared = Shared { board: &board, run: (context.plan, context.catalogue, context.spec), io: context.io };
    std::thread::scope(|scope| {
        let sinks = context.sinks;
        let start = |job| {
            let thread = std::thread::Builder::new().name(format!("cell-{job}"));
            thread.spawn_scoped(scope, move || work(&shared, sinks, job))
        };
        let mut jobs = Vec::new();
        for job in 1..=spec.jobs.max(1) {
            match start(job) {
                Ok(started) => jobs.push(started),
                Err(error) => board.fail(io_error("the thread of a cell", &error)),
            }
        }
        for job in jobs {
            job.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
    board.state.into_inner().unwrap_or_else(PoisonError::into_inner).failed.map_or(Ok(()), Err)
}

/// State shared by all jobs.
#[derive(Clone, Copy)]
struct Shared<'a, 'b> {
    board: &'a Board<'b>,
    run: (&'b Plan, &'b Catalogue, &'b RunSpec<'b>),
    io: Io,
}

/// A job: one trial after the other, on one store as long as that is theirs.
fn work(shared: &Shared<'_, '_>, sinks: &Sinks<'_>, job: usize) {
    let Shared { board, run, io } = *shared;
    let (server, own) = (ServerProcesses::default(), JobSink { board, job });
    let sinks = Sinks::new(sinks.clock, sinks.recorder, &own, Fold::default());
    let mut context = RunContext::new(run, &sinks, &server, io);
    let mut open: Option<Open> = None;
    while let Some(trial) = board.take(job, open.as_ref().map(|open| &open.store_use)) {
        let done = one(&mut context, &mut open, trial);
        let has_store = open.is_some();
        if let (Err(_), Some(open)) = (&done, open.take_if(|_| done.is_err())) {
            // It was said what failed.
            let _ = leave(&context, open, true);
        }
        board.done(job, trial, done, has_store, &sinks);
    }
    if let Some(Err(error)) = open.map(|open| leave(&context, open, false)) {
        board.fail(error);
    }
}

/// Runs a trial; returns true if a loss was seen in it.
fn one(context: &mut RunContext<'_>, open: &mut Option<Open>, trial: &PlannedTrial) -> Result<bool, TrialError> {
    let Open { store, .. } = reach(context, open, &trial.store)?;
    // Nothing is left of the trial before.
    context.ledger = None;
    let (fitted, workload) = fitted(context, trial, &mut **store)?;
    let found = TrialStart { start: context.plan.start, data: false };
    trial::run(context, store, fitted.as_ref().unwrap_or(trial), workload, found)?;
    let fold = context.sinks.fold();
    Ok(fold.trial().is_some_and(|(trial, ..)| trial.ledgers.iter().any(promise::is_broken)))
}

/// Trials that are waiting, in progress, and done.
struct Board<'b> {
    spec: &'b Cells<'b>,
    trials: &'b [PlannedTrial],
    run_sink: &'b dyn Sink,
    stop: &'b std::sync::atomic::AtomicBool,
    started: Instant,
    state: Mutex<State<'b>>,
}

#[derive(Default)]
struct State<'b> {
    waiting: Vec<&'b PlannedTrial>,
    /// Trials in progress: the number of the job, the trial, and its present step.
    running: Vec<(usize, &'b PlannedTrial, String)>,
    /// Cells of which something was seen to be lost.
    broken: BTreeSet<usize>,
    /// Trials that this process has ended.
    done: u32,
    /// Trials with a result, also of an earlier process.
    made: u32,
    failed: Option<TrialError>,
}

impl<'b> Board<'b> {
    fn new(context: &RunContext<'b>, spec: &'b Cells<'b>) -> Self {
        let trials = &context.plan.trials;
        let board = Self {
            spec,
            trials,
            run_sink: context.sinks.sink,
            stop: context.spec.stop,
            started: Instant::now(),
            state: Mutex::default(),
        };
        let kept: BTreeSet<u32> = context.kept().into_iter().collect();
        let before = context.spec.before.into_iter().flat_map(|run| &run.trials);
        let whole = before.filter(|trial| kept.contains(&trial.header.ordinal));
        let broken: BTreeSet<usize> = whole
            .filter(|trial| trial.ledgers.iter().any(promise::is_broken))
            .filter_map(|trial| board.cell_of(trial.header.ordinal))
            .collect();
        let is_open = |trial: &PlannedTrial| {
            let is_decided = board.cell_of(trial.ordinal).is_some_and(|cell| broken.contains(&cell));
            !kept.contains(&trial.ordinal) && (spec.all_cuts || !is_decided)
        };
        let waiting = trials.iter().filter(|trial| is_open(trial)).collect();
        *board.state() = State { waiting, broken, made: kept.len() as u32, ..State::default() };
        board
    }

    fn state(&self) -> MutexGuard<'_, State<'b>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cell_of(&self, trial: u32) -> Option<usize> {
        self.spec.cells.iter().position(|cell| cell.cuts.iter().any(|(ordinal, _)| *ordinal == trial))
    }

    fn name(&self, trial: &PlannedTrial) -> String {
        let cell = self.cell_of(trial.ordinal).and_then(|cell| self.spec.cells.get(cell));
        cell.map_or_else(String::new, |cell| cell.name.clone())
    }

    /// Takes the next trial for a job that has the store `open`. Its cell must not be in progress, because a result
    /// may decide it; its store is that one, or one that no job has open.
    fn take(&self, job: usize, open: Option<&StoreUse>) -> Option<&'b PlannedTrial> {
        let mut state = self.state();
        if self.stop.load(std::sync::atomic::Ordering::SeqCst) {
            return None;
        }
        let price = |trial: &PlannedTrial| {
            let others = || state.running.iter().map(|(_, other, _)| *other);
            let is_tried = others().any(|other| self.cell_of(other.ordinal) == self.cell_of(trial.ordinal));
            let store = match open {
                Some(open) if *open == trial.store => 0,
                _ if others().all(|other| other.store != trial.store) => 1,
                _ => 2,
            };
            (is_tried && !self.spec.all_cuts, store)
        };
        let (at, _) = state.waiting.iter().enumerate().min_by_key(|(_, trial)| price(trial))?;
        let trial = state.waiting.remove(at);
        state.running.push((job, trial, "begins".to_owned()));
        self.tell(&state);
        Some(trial)
    }

    /// Reports the present step of a job.
    fn step(&self, job: usize, what: &str) {
        let mut state = self.state();
        if let Some((.., step)) = state.running.iter_mut().find(|(other, ..)| *other == job) {
            what.clone_into(step);
        }
        self.tell(&state);
    }

    /// A trial is over: what is left of its cell may be no longer needed. Where its store could not even be opened, none of
    /// that store is tried any more.
    fn done(
        &self,
        job: usize,
        trial: &PlannedTrial,
        came_to: Result<bool, TrialError>,
        has_store: bool,
        sinks: &Sinks<'_>,
    ) {
        let mut state = self.state();
        state.running.retain(|(other, ..)| *other != job);
        state.done += 1;
        state.made += u32::from(came_to.is_ok());
        let cell = self.cell_of(trial.ordinal);
        match came_to {
            Ok(false) => {}
            Ok(true) => {
                state.broken.extend(cell);
                if !self.spec.all_cuts {
                    state.waiting.retain(|other| self.cell_of(other.ordinal) != cell);
                }
            }
            Err(error) if error.is_interrupt() => {}
            Err(error) => {
                let before = state.waiting.len();
                state.waiting.retain(|other| match error.kind {
                    StoreErrorKind::Recording => false,
                    _ if has_store => self.cell_of(other.ordinal) != cell,
                    _ => other.store != trial.store,
                });
                let left = (before - state.waiting.len()) as u64;
                let goes = match left {
                    0 => String::new(),
                    1 => "; its 1 other cut is skipped".to_owned(),
                    left => format!("; its {} other cuts are skipped", number::count(left)),
                };
                let text = format!("{}: {}{goes}", self.name(trial), error.line());
                // Of the only one the error itself says it.
                if state.done > 1 || !state.waiting.is_empty() || !state.running.is_empty() {
                    self.run_sink.take(&Told::Notice(format!("failed: {text}")));
                }
                // Where it cannot be recorded, that is the error.
                let told = sinks.event(Some(trial.ordinal), Level::Error, EventClass::Store, &trial.store.label, text);
                state.failed.get_or_insert(told.map_or_else(TrialError::from, |()| error));
            }
        }
        self.tell(&state);
    }

    fn fail(&self, error: TrialError) {
        let mut state = self.state();
        if !error.is_interrupt() {
            state.failed.get_or_insert(error);
        }
    }

    fn tell(&self, state: &State<'b>) {
        let left = (state.waiting.len() + state.running.len()) as u32;
        let seconds = (state.done > 0).then(|| self.started.elapsed() / state.done * left);
        self.run_sink.take(&Told::Cells(CellsSoFar {
            done: state.made,
            of: self.trials.len() as u32,
            left_out: (self.trials.len() as u32).saturating_sub(left + state.made),
            broken: state.broken.len() as u32,
            left: seconds,
            now: state.running.iter().map(|(_, trial, step)| (self.name(trial), step.clone())).collect(),
        }));
    }
}

/// Hears what a job tells. What only concerns the trial that goes on is one of several steps here.
struct JobSink<'a, 'b> {
    board: &'a Board<'b>,
    job: usize,
}

impl Sink for JobSink<'_, '_> {
    fn take(&self, told: &Told) {
        match told {
            Told::BeginPhase(header, _) => self.board.step(self.job, &header.name),
            Told::Note(text) => self.board.step(self.job, text),
            Told::Event(_) | Told::Notice(_) => self.board.run_sink.take(told),
            _ => {}
        }
    }
}
