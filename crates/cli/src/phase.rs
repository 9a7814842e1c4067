//! What a trial works with, and how one phase is driven: sessions, observers, slices into the recording and onto the
//! progress line.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use plimsoll_core::{
    Answer, Call, Durability, KindId, KvCall, Measure, Observer, Op, OpKind, Outcome, RecordsCall, Slice, Store,
    Stream, Ticket, Workload,
};
use plimsoll_drive::{Clock, Drive, DriveError, DriveResult, DriveSpec, Io, StopReason, Witness};
use plimsoll_plan::model;
use plimsoll_record::Recorder;
use plimsoll_record::data::{PhaseEnd, PhaseResult};
use plimsoll_sample::ServerProcesses;
use plimsoll_verify::Ledger;

use crate::counters::CounterReader;
use crate::error::{CliError, exit};
use crate::interrupt::Interrupt;
use crate::progress::{Pace, Progress};

/// Time between two looks at what workers have written down for the ledger.
const DRAIN: Duration = Duration::from_millis(20);

/// What all trials of a run share.
pub struct Bench<'a> {
    /// The run's clock.
    pub clock: &'a Clock,
    /// The recording.
    pub recorder: &'a Recorder,
    /// Set when the user wants an end.
    pub interrupt: &'a Interrupt,
    /// What is going on, for the user.
    pub progress: &'a mut Progress,
    /// The processes that the server sampler reads.
    pub server: &'a ServerProcesses,
    /// Length of a slice.
    pub slice: Duration,
    /// How long servers may be silent.
    pub timeouts: model::Timeouts,
    /// How the kernel is asked for sockets.
    pub io: Io,
    /// Who watches the machine's own pauses; `None` where they cannot be told apart.
    pub witness: Option<Witness>,
    /// Whether what a store counts of its own work is read.
    pub store_counters: bool,
    /// The ledger of the trial before, for one that goes on with its data.
    pub ledger: Option<Ledger>,
    /// A phase in which the generator was late is void.
    pub strict: bool,
    /// Most bytes that are kept of one answer; `None` leaves it to the workload.
    pub answer_max_bytes: Option<u64>,
    /// Processors for the server; none: it runs where the system puts it.
    pub server_pin: &'a [u32],
}

/// A trial at work.
pub struct TrialRun<'a, 'b> {
    /// What it shares with the run's other trials.
    pub(crate) bench: &'a mut Bench<'b>,
    /// The store, open.
    pub(crate) store: &'a mut dyn Store,
    /// True when the store runs inside this process.
    pub(crate) embedded: bool,
    /// What is to be done.
    pub(crate) trial: &'a model::Trial,
    /// What is asked.
    pub(crate) workload: Arc<dyn Workload>,
    /// What was acknowledged; `None` when the workload has no truth.
    pub(crate) ledger: Option<Ledger>,
    /// Whether the answers have been held against the truth.
    pub(crate) answers_checked: bool,
    /// What it found in the store.
    pub(crate) found: crate::trial::Found,
    /// The store is to be settled before the first operation that counts.
    pub(crate) to_settle: bool,
    /// Where the store runs, without credentials.
    pub(crate) place: String,
    /// How large its data are has been looked at.
    pub(crate) is_sized: bool,
    /// Why the store could not be made cold by the phase before, if it could not.
    pub(crate) not_cold: Option<String>,
}

/// What is to be driven.
pub struct Driven {
    /// Position of the phase in its trial.
    pub ordinal: u32,
    /// Number of sessions.
    pub clients: u32,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// The operations.
    pub stream: Arc<dyn Stream>,
    /// How.
    pub spec: DriveSpec,
    /// Whether it is part of what is measured: the ledger looks on, and slices are recorded. Reading back is not.
    pub measured: bool,
    /// Whether the ledger takes what is read for what the store holds.
    pub reads_back: bool,
    /// What is kept of answers besides.
    pub keep: Keep,
}

/// What is kept of answers besides what the ledger writes down.
#[derive(Clone)]
pub enum Keep {
    /// Nothing.
    Nothing,
    /// The number of rows of each answer, in order. One client only.
    RowCounts(Arc<Mutex<Vec<u64>>>),
    /// The last answer as a whole. One client only.
    Answer(Arc<Mutex<Answer>>),
}

impl Keep {
    /// To keep the row counts of `count` answers.
    pub fn row_counts(count: u32) -> Self {
        Keep::RowCounts(Arc::new(Mutex::new(Vec::with_capacity(count as usize))))
    }

    /// To keep one answer.
    pub fn answer() -> Self {
        Keep::Answer(Arc::default())
    }

    /// The row counts that were kept.
    pub fn taken_counts(&self) -> Vec<u64> {
        match self {
            Keep::RowCounts(counts) => std::mem::take(&mut *counts.lock().unwrap_or_else(PoisonError::into_inner)),
            _ => Vec::new(),
        }
    }

    /// The answer that was kept.
    pub fn taken_answer(&self) -> Answer {
        match self {
            Keep::Answer(answer) => std::mem::take(&mut *answer.lock().unwrap_or_else(PoisonError::into_inner)),
            _ => Answer::default(),
        }
    }
}

/// Passes on to the ledger's observer and keeps what [`Keep`] says.
struct Keeper {
    inner: Option<Box<dyn Observer>>,
    keep: Keep,
}

impl Observer for Keeper {
    fn sent(&mut self, ticket: Ticket, at_ns: u64, client: u32, cycle: u64, op: &Op<'_>) {
        if let Some(inner) = &mut self.inner {
            inner.sent(ticket, at_ns, client, cycle, op);
        }
    }

    fn finished(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, answer: &Answer) {
        if let Some(inner) = &mut self.inner {
            inner.finished(ticket, at_ns, outcome, answer);
        }
        match &self.keep {
            Keep::Nothing => {}
            Keep::RowCounts(counts) => counts.lock().unwrap_or_else(PoisonError::into_inner).push(answer.rows),
            Keep::Answer(kept) => answer.clone_into(&mut kept.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    fn step_sent(&mut self, ticket: Ticket, at_ns: u64, client: u32, cycle: u64, op: &Op<'_>) {
        if let Some(inner) = &mut self.inner {
            inner.step_sent(ticket, at_ns, client, cycle, op);
        }
    }

    fn step_finished(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, answer: &Answer) {
        if let Some(inner) = &mut self.inner {
            inner.step_finished(ticket, at_ns, outcome, answer);
        }
    }
}

impl TrialRun<'_, '_> {
    /// Drives the phase and hands its slices on.
    pub(crate) fn driven(&mut self, driven: Driven) -> Result<DriveResult, CliError> {
        let sessions = self.store.sessions(driven.clients, driven.durability)?;
        let spec = DriveSpec { answer_max: self.answer_max(), ..driven.spec };
        let workers = spec.worker_count(&sessions);
        let mut observers: Vec<Box<dyn Observer>> = match &mut self.ledger {
            Some(ledger) if driven.measured || driven.reads_back => {
                // A ticket is the number of a client within its worker.
                let tickets = spec.clients(sessions.len() as u32) as usize;
                match driven.reads_back {
                    true => ledger.observers_reading_back(driven.ordinal as u16, workers, tickets),
                    false => ledger.observers(driven.ordinal as u16, workers, tickets),
                }
            }
            _ => Vec::new(),
        };
        if !matches!(driven.keep, Keep::Nothing) {
            observers = (0..workers)
                .map(|_| Box::new(Keeper { inner: observers.pop(), keep: driven.keep.clone() }) as Box<dyn Observer>)
                .collect();
        }
        let Self { bench, store, ledger, workload, trial, .. } = self;
        let reader = CounterReader {
            clock: bench.clock,
            recorder: bench.recorder,
            trial: trial.ordinal,
            label: &trial.store.label,
            slice: bench.slice,
        };
        let reads_counters = driven.measured && bench.store_counters;
        let mut errors = 0;
        let mut recording_failed = None;
        let mut on_slice = |slice: Slice| {
            let pace = pace(&slice, workload.kinds(), &mut errors);
            bench.progress.pace(pace);
            if !driven.measured {
                return;
            }
            if let Err(error) = bench.recorder.slice(trial.ordinal, driven.ordinal, slice, None) {
                // The phase ends at once: what is not recorded was not measured.
                recording_failed.get_or_insert(error);
                bench.interrupt.set();
            }
        };
        let drive = Drive {
            clock: bench.clock,
            spec: &spec,
            sessions,
            kinds: workload.kinds(),
            stream: driven.stream,
            observers,
            stop: bench.interrupt.flag(),
        };
        let (stop, stopped) = channel::<()>();
        let (close, closed) = channel::<()>();
        let result = std::thread::scope(|scope| {
            // Dropped at this closure's end, whatever ends it.
            let _stops = (stop, close);
            if reads_counters {
                let thread = std::thread::Builder::new().name("counters".to_owned());
                thread
                    .spawn_scoped(scope, move || reader.follow(&mut **store, &stopped))
                    .map_err(|error| DriveError::System { what: "the thread that reads counters", error })?;
            }
            if let Some(ledger) = ledger.as_mut().filter(|_| driven.measured || driven.reads_back) {
                let thread = std::thread::Builder::new().name("ledger".to_owned());
                thread
                    .spawn_scoped(scope, move || keep_books(ledger, &closed))
                    .map_err(|error| DriveError::System { what: "the thread that keeps the ledger", error })?;
            }
            drive.run(&mut on_slice)
        });
        if let Some(ledger) = ledger.as_mut() {
            ledger.drain();
        }
        match recording_failed {
            Some(error) => Err(error.into()),
            None => result.map_err(drive_error),
        }
    }

    /// Most bytes that are kept of one answer: what the plan says, or enough for the largest that the workload asks for.
    fn answer_max(&self) -> usize {
        let many = |kind: &OpKind| match &kind.call {
            Call::Records { call, .. } => matches!(call, RecordsCall::All | RecordsCall::Find { .. }),
            call => *call == Call::Kv(KvCall::Scan),
        };
        let records = if self.workload.kinds().iter().any(many) { self.workload.record_count() } else { 1 };
        // Records as texts, with their lengths before them, are several times of what they hold.
        let room = records.saturating_mul(8 * self.workload.record_bytes()).saturating_add(16 << 20);
        usize::try_from(self.bench.answer_max_bytes.unwrap_or(room)).unwrap_or(usize::MAX)
    }

    /// A load that lost an operation is no load.
    pub(crate) fn must_have_succeeded(&self, what: &str, result: &DriveResult) -> Result<(), CliError> {
        if let StopReason::Refused(error) | StopReason::Lost(error) = &result.stop {
            return Err(error.clone().into());
        }
        if !result.hung.is_empty() {
            return Err(CliError::new(
                exit::STORE,
                format!("{what} on {}: an operation did not return", self.trial.store.label),
            ));
        }
        match result.errors.first() {
            None => Ok(()),
            Some(error) => Err(CliError::new(
                if FULL_DISKS.contains(&error.code.as_str()) { exit::DISK_FULL } else { exit::STORE },
                format!(
                    "{what} on {}: {} operations were {}",
                    self.trial.store.label,
                    error.count,
                    error.outcome.name()
                ),
            )
            .detail(format!("{} {}", error.code, error.message))),
        }
    }
}

/// What stores call a full disk: keyindex, SQLite, PostgreSQL (`disk_full`), MariaDB (`ER_DISK_FULL`, `ER_RECORD_FILE_FULL`).
const FULL_DISKS: [&str; 5] = ["DISK_FULL", "SQLITE_FULL", "53100", "1021", "1114"];

/// Takes over what workers write down, more often than any of them can fill its pages, until `closed` is.
fn keep_books(ledger: &mut Ledger, closed: &Receiver<()>) {
    loop {
        ledger.drain();
        match closed.recv_timeout(DRAIN) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Adds a result to the end of a phase.
pub fn push(end: &mut PhaseEnd, name: &str, unit: &str, value: f64, n: u64) {
    end.results.push(PhaseResult { name: name.to_owned(), unit: unit.to_owned(), value, n });
}

/// What the progress line shows of a slice. Steps are parts of operations, not operations.
fn pace(slice: &Slice, kinds: &[OpKind], errors: &mut u64) -> Pace {
    let mut merged = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).ok();
    let measure = if slice.histograms.iter().any(|one| one.measure == Measure::Response) {
        Measure::Response
    } else {
        Measure::Service
    };
    let mut ops = 0;
    let is_whole = |kind: KindId| kinds.get(usize::from(kind)).is_none_or(|kind| kind.step_of.is_none());
    for one in slice.histograms.iter().filter(|one| one.measure == measure && is_whole(one.kind)) {
        ops += one.histogram.len();
        if one.outcome.is_error() {
            *errors += one.histogram.len();
        }
        if let Some(merged) = &mut merged {
            // Equal bounds: nothing is out of range.
            let _ = merged.add(&one.histogram);
        }
    }
    let seconds = (slice.end_ns.saturating_sub(slice.start_ns)) as f64 / 1e9;
    Pace {
        ops_per_s: if seconds > 0.0 { ops as f64 / seconds } else { 0.0 },
        p99_ns: merged.filter(|merged| merged.len() >= 1_000).map(|merged| merged.value_at_quantile(0.99)),
        errors: *errors,
    }
}

/// What to say of a drive that could not be.
pub fn drive_error(error: DriveError) -> CliError {
    match error {
        DriveError::Store(error) => error.into(),
        DriveError::System { what, error } => CliError::io(what, &error),
        DriveError::Threads { .. } => {
            CliError::new(exit::EXHAUSTED, error.to_string()).next(crate::needs::threads_words())
        }
        DriveError::Spec(what) => CliError::new(exit::USAGE, what),
        other => CliError::new(exit::STORE, other.to_string()),
    }
}
