//! Events of a run, and their receivers.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll_analysis::fold::Fold;
use plimsoll_analysis::live::Live;
use plimsoll_analysis::slices::SliceRow;
use plimsoll_core::Slice;
use plimsoll_drive::Clock;
use plimsoll_record::data::{
    AnswerCheck, Event, EventClass, FaultSpan, LedgerCheck, Level, PhaseEnd, PhaseHeader, RunHeader, RunState, Sample,
    Series, TrialHeader,
};
use plimsoll_record::{RecordError, Recorder, packed};

use crate::fine::FineTimes;
use crate::readings::NewestReadings;

/// Event of a run. Times are nanoseconds since the run's start; trials and phases are named by their positions.
#[derive(Debug, Clone)]
pub enum Told {
    /// The run begins.
    BeginRun(Box<RunHeader>),
    /// End of the run.
    EndRun(RunState, u64),
    /// The next trial, as a person calls it: `2/5 sqlite, index own`, or `2/≤5 sqlite` if results decide the number.
    Next(String),
    /// A trial begins: its store is open.
    BeginTrial(TrialHeader),
    /// A trial ends.
    EndTrial(u32, u64),
    /// A phase begins, and how long it will take, where that is known.
    BeginPhase(PhaseHeader, Option<Duration>),
    /// Clients of the phase that began last think between operations.
    Rests,
    /// A phase of a trial ends.
    EndPhase(u32, u32, PhaseEnd),
    /// A slice of the phase that began last. Not measured are those of reading back: they are recorded nowhere.
    Slice {
        /// Figures of all operation types together.
        row: Box<SliceRow>,
        /// Figures of each operation type of which operations ended.
        types: Vec<SliceRow>,
        /// True if the slice counts.
        measured: bool,
    },
    /// The part so far of the phase's first slice, which follows as a whole.
    Preview {
        /// Figures of all operation types together.
        row: Box<SliceRow>,
        /// Figures of each operation type of which operations ended.
        types: Vec<SliceRow>,
    },
    /// The load that goes on: how many of its operations have ended, and of how many. Those that slices tell of besides come on top.
    Loading(u64, u64),
    /// A series of which something was read, and its position; again in each phase that reads it.
    Series(u32, Series),
    /// Reading of a sampler, or of the store's own counters.
    Sample(Sample),
    /// Fault of a phase: it began, took effect or was healed.
    Fault(FaultSpan),
    /// Mark on the time axis.
    Event(Event),
    /// Answers against the truth.
    Answers(AnswerCheck),
    /// The ledger's verdict.
    Ledger(LedgerCheck),
    /// Progress of a run's cells, independent trials of which several run at once: repeated at every step of one of
    /// them.
    Cells(CellsSoFar),
    /// Activity that takes a while, in a few words.
    Note(String),
    /// Observation during the run, in a sentence.
    Remark(String),
    /// Notice that a person must read: a warning, or a change of the user's data.
    Notice(String),
    /// Number of events that this receiver lost just before, because it was slow.
    Lost(u64),
}

impl Told {
    /// Passes the event to the figures of a run in progress. Events without figures change nothing.
    pub fn add_to(&self, live: &mut Live) {
        match self {
            Told::BeginRun(header) => live.begin_run(header),
            Told::BeginTrial(header) => live.begin_trial(header),
            Told::BeginPhase(header, takes) => live.begin_phase(header, *takes),
            Told::Rests => live.rests(),
            Told::EndPhase(_, _, end) => live.end_phase(end),
            Told::Preview { row, types } => {
                live.slice(row, false);
                types.iter().for_each(|of_type| live.slice(of_type, false));
            }
            Told::Slice { row, types, measured } => {
                live.slice(row, *measured);
                types.iter().for_each(|of_type| live.slice(of_type, *measured));
            }
            Told::Series(position, series) => live.series(*position, series),
            Told::Sample(sample) => live.sample(sample),
            Told::Fault(span) => live.fault(span),
            Told::Event(event) => live.event(event),
            _ => {}
        }
    }
}

/// Progress of cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellsSoFar {
    /// Trials with a result, also those of an earlier part of the run.
    pub done: u32,
    /// Planned trials.
    pub of: u32,
    /// Trials that will have no result: not needed, skipped, failed or interrupted.
    pub left_out: u32,
    /// Cells of which something was seen to be lost.
    pub broken: u32,
    /// Time left, by how long those took that are done; `None` while none is.
    pub left: Option<Duration>,
    /// Activities: cells, and the step of each.
    pub now: Vec<(String, String)>,
}

/// Looks on at a run.
pub trait Sink: Sync {
    /// Receives an event. The sender waits meanwhile; samples, series and events come from other threads than the
    /// rest, concurrently.
    fn take(&self, told: &Told);
}

/// Everybody who is told. A sink only looks on; the recording may fail, and the run with it.
pub struct Sinks<'a> {
    /// The run's clock.
    pub clock: Clock,
    /// The recording.
    pub recorder: &'a Recorder,
    /// Sink of the caller.
    pub sink: &'a dyn Sink,
    /// Results so far: the basis of a search or of a comparison in turn.
    pub fold: Mutex<Fold>,
    /// Newest readings of all series.
    pub readings: NewestReadings,
    /// Times around faults, with fine readings.
    pub fine: FineTimes,
}

impl<'a> Sinks<'a> {
    /// Makes the receivers of a run without faults.
    pub fn new(clock: Clock, recorder: &'a Recorder, sink: &'a dyn Sink, fold: Fold) -> Self {
        let (readings, fine) = Default::default();
        Self { clock, recorder, sink, fold: Mutex::new(fold), readings, fine }
    }
}

impl Sinks<'_> {
    /// Passes an event to the sink and to the recorder.
    ///
    /// # Errors
    /// The first thing that went wrong with the recording, now or earlier.
    pub fn tell(&self, told: Told) -> Result<(), RecordError> {
        self.sink.take(&told);
        let recorder = self.recorder;
        match told {
            Told::BeginTrial(header) => {
                self.fold().begin_trial(header.clone());
                recorder.begin_trial(header)
            }
            Told::EndTrial(trial, at_ns) => recorder.end_trial(trial, at_ns),
            Told::BeginPhase(header, _) => {
                self.fine.begin_phase();
                self.fold().begin_phase(header.clone());
                recorder.begin_phase(header)
            }
            Told::EndPhase(trial, phase, end) => {
                self.fold().end_phase(end.clone());
                recorder.end_phase(trial, phase, end)
            }
            Told::Sample(sample) => {
                self.readings.sample(&sample);
                self.fold().sample(&sample);
                recorder.sample(sample)
            }
            Told::Fault(span) => {
                self.fine.begin(self.clock.now_ns());
                self.fold().fault(span.clone());
                recorder.fault(span)
            }
            Told::Event(event) => recorder.event(event),
            Told::Answers(check) => {
                self.fold().answers(check.clone());
                recorder.answer_check(check)
            }
            Told::Ledger(check) => {
                self.fold().ledger(check.clone());
                recorder.ledger_check(check)
            }
            // The recorder knows of these already, or they are for who looks on.
            Told::BeginRun(_) | Told::EndRun(..) | Told::Series(..) | Told::Slice { .. } | Told::Preview { .. } => {
                Ok(())
            }
            Told::Next(_) | Told::Rests | Told::Loading(..) | Told::Cells(_) => Ok(()),
            Told::Note(_) | Told::Remark(_) | Told::Notice(_) => Ok(()),
            // Each receiver has its own losses.
            Told::Lost(_) => Ok(()),
        }
    }

    /// Passes a slice of a phase of a trial to the sink, and to the recorder if it is `measured`.
    ///
    /// # Errors
    /// As [`Sinks::tell`].
    pub fn slice(&self, trial: u32, phase: u32, slice: Slice, measured: bool) -> Result<(), RecordError> {
        let seen = packed(&slice);
        let rows = self.fold().slice(seen, measured);
        if let Some((row, types)) = rows {
            self.show(&Told::Slice { row: Box::new(row), types, measured });
        }
        if measured { self.recorder.slice(trial, phase, slice) } else { Ok(()) }
    }

    /// Passes the part so far of a phase's first slice to the sink.
    pub fn preview(&self, slice: &Slice) {
        let rows = self.fold().preview(&packed(slice));
        if let Some((row, types)) = rows {
            self.show(&Told::Preview { row: Box::new(row), types });
        }
    }

    /// Returns the results so far.
    pub fn fold(&self) -> MutexGuard<'_, Fold> {
        self.fold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes an event to the sink only.
    pub fn show(&self, told: &Told) {
        self.sink.take(told);
    }

    /// Reports an event of this moment, with its subject in its class.
    ///
    /// # Errors
    /// As [`Sinks::tell`].
    pub fn event(
        &self,
        trial: Option<u32>,
        level: Level,
        class: EventClass,
        subject: &str,
        text: String,
    ) -> Result<(), RecordError> {
        let now_ns = self.clock.now_ns();
        let subject = subject.to_owned();
        self.tell(Told::Event(Event { from_ns: now_ns, until_ns: now_ns, trial, level, class, subject, text }))
    }

    /// The position of `series`, by which samples name it.
    ///
    /// # Errors
    /// As [`Sinks::tell`].
    pub fn series(&self, series: Series) -> Result<u32, RecordError> {
        // Held meanwhile, so that positions come in their order.
        let mut fold = self.fold();
        let position = self.recorder.series(&series)?;
        fold.series(position, &series);
        self.readings.series(position, &series);
        drop(fold);
        self.show(&Told::Series(position, series));
        Ok(position)
    }
}
