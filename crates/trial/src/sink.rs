//! What is told of a run while it goes on, and to whom.

use std::time::Duration;

use plimsoll_core::Slice;
use plimsoll_drive::Clock;
use plimsoll_record::data::{
    AnswerCheck, Event, EventClass, LedgerCheck, Level, PhaseEnd, PhaseHeader, RunHeader, RunState, Sample, Series,
    TrialHeader,
};
use plimsoll_record::{RecordError, Recorder};

/// Something that happened. Times are nanoseconds since the run's start; trials and phases are named by their positions.
#[derive(Debug)]
pub enum Told {
    /// The run begins.
    BeginRun(Box<RunHeader>),
    /// Nothing more happens.
    EndRun(RunState, u64),
    /// The next trial, as a person calls it: `2/5 sqlite, index own`.
    Next(String),
    /// A trial begins: its store is open.
    BeginTrial(TrialHeader),
    /// A trial ends.
    EndTrial(u32, u64),
    /// A phase begins, and how long it will take, where that is known.
    BeginPhase(PhaseHeader, Option<Duration>),
    /// A phase of a trial ends.
    EndPhase(u32, u32, PhaseEnd),
    /// A slice of a phase of a trial. Not measured are those of reading back: they are recorded nowhere.
    Slice {
        /// The trial.
        trial: u32,
        /// The phase.
        phase: u32,
        /// What happened in it.
        slice: Slice,
        /// Whether it counts.
        measured: bool,
    },
    /// A series of which something was read, and its position; again in each phase that reads it.
    Series(u32, Series),
    /// What samplers, or the store's own counters, read.
    Sample(Sample),
    /// Something worth a line on the time axis.
    Event(Event),
    /// Answers against the truth.
    Answers(AnswerCheck),
    /// The ledger's verdict.
    Ledger(LedgerCheck),
    /// What is being done and takes a while, in a few words.
    Note(String),
    /// What was found on the way, in a sentence.
    Remark(String),
    /// What somebody must have read: a warning, or what is done to his data.
    Notice(String),
}

/// Looks on at a run.
pub trait Sink: Sync {
    /// Takes what happened. Whoever tells waits meanwhile; samples, series and events come from other threads than the
    /// rest, at the same time.
    fn take(&self, told: &Told);
}

/// Everybody who is told. A sink only looks on; the recording may fail, and the run with it, and is read again on the way.
pub struct Sinks<'a> {
    /// The run's clock.
    pub clock: Clock,
    /// The recording.
    pub recorder: Recorder,
    /// Who looks on.
    pub sink: &'a dyn Sink,
}

impl Sinks<'_> {
    /// Tells the sink, and has it recorded.
    ///
    /// # Errors
    /// The first thing that went wrong with the recording, now or earlier.
    pub fn tell(&self, told: Told) -> Result<(), RecordError> {
        self.sink.take(&told);
        let recorder = &self.recorder;
        match told {
            Told::BeginTrial(header) => recorder.begin_trial(header),
            Told::EndTrial(trial, at_ns) => recorder.end_trial(trial, at_ns),
            Told::BeginPhase(header, _) => recorder.begin_phase(header),
            Told::EndPhase(trial, phase, end) => recorder.end_phase(trial, phase, end),
            Told::Slice { trial, phase, slice, measured: true } => recorder.slice(trial, phase, slice, None),
            Told::Sample(sample) => recorder.sample(sample),
            Told::Event(event) => recorder.event(event),
            Told::Answers(check) => recorder.answer_check(check),
            Told::Ledger(check) => recorder.ledger_check(check),
            // The recorder knows of these already, or they are for who looks on.
            Told::BeginRun(_) | Told::EndRun(..) | Told::Series(..) | Told::Slice { .. } => Ok(()),
            Told::Next(_) | Told::Note(_) | Told::Remark(_) | Told::Notice(_) => Ok(()),
        }
    }

    /// Tells the sink what is not recorded.
    pub fn show(&self, told: &Told) {
        self.sink.take(told);
    }

    /// Tells of what happens now, to which of its class.
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
        let position = self.recorder.series(&series)?;
        self.show(&Told::Series(position, series));
        Ok(position)
    }
}
