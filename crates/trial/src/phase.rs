//! State of a trial, and the drive of a phase: sessions, observers, and its slices for the receivers of events.

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use plimsoll_core::sampler::{ANSWERS, WITNESS};
use plimsoll_core::{
    Answer, Call, Catalogue, CutMoment, Durability, KvCall, Observer, Op, OpKind, Outcome, PowerNode, Probe,
    RecordsCall, Series, SeriesKind, ServerAnswers, Slice, StoreErrorKind, Stream, Ticket, Workload,
};
use plimsoll_drive::{Drive, DriveError, DriveResult, DriveSpec, Io, Limit, StopReason, Witness};
use plimsoll_lab::OpenStore;
use plimsoll_plan::model::{self, Plan};
use plimsoll_record::data::{EventClass, Level, Purpose, Sample};
use plimsoll_record::{Distribution, RecordError};
use plimsoll_sample::ServerProcesses;
use plimsoll_verify::Ledger;

use crate::actions::{Acted, Acting};
use crate::alive::Alive;
use crate::error::{TrialError, io_error};
use crate::lab_acts;
use crate::power::{self, Power};
use crate::run::RunSpec;
use crate::sink::{Sinks, Told};
use crate::watch::{ReadingRecorder, StoreCounters};

/// Time between two looks at what workers have written down for the ledger.
const DRAIN: Duration = Duration::from_millis(20);

/// State shared by all trials of a run.
pub struct RunContext<'a> {
    /// Plan of the run.
    pub plan: &'a Plan,
    /// Catalogue of names for the plan.
    pub catalogue: &'a Catalogue,
    /// Options besides the plan.
    pub spec: &'a RunSpec<'a>,
    /// Receivers of run events: the recorder, the fold, and the caller's sink.
    pub sinks: &'a Sinks<'a>,
    /// The processes that the server sampler reads.
    pub server: &'a ServerProcesses,
    /// Kernel interface for sockets.
    pub io: Io,
    /// Witness of the machine's own pauses; `None` if they cannot be detected.
    pub witness: Option<Witness>,
    /// Ledger of the trial before, for a trial that continues with its data.
    pub ledger: Option<Ledger>,
    /// Purpose of the next drive, if it is a rung of a search.
    pub rung: Option<Purpose>,
}

impl<'a> RunContext<'a> {
    /// Makes the context at the run's beginning: nothing was run yet, and no pause is watched for.
    pub fn new(
        (plan, catalogue, spec): (&'a Plan, &'a Catalogue, &'a RunSpec<'a>),
        sinks: &'a Sinks<'a>,
        server: &'a ServerProcesses,
        io: Io,
    ) -> Self {
        Self { plan, catalogue, spec, sinks, server, io, witness: None, ledger: None, rung: None }
    }

    /// True once the user wants an end.
    pub fn is_stopped(&self) -> bool {
        self.spec.stop.load(Ordering::SeqCst)
    }

    /// The run's own directory.
    pub fn directory(&self) -> &'a Path {
        self.sinks.recorder.directory()
    }

    /// Length of a slice.
    pub fn slice(&self) -> Duration {
        Duration::from_nanos(self.plan.slice_ns)
    }
}

/// A trial at work.
pub struct TrialRun<'a, 'b> {
    /// State shared with the run's other trials.
    pub(crate) context: &'a mut RunContext<'b>,
    /// The store, open.
    pub(crate) store: &'a mut OpenStore,
    /// Probe of the store's counters; `None` if it has none.
    pub(crate) probe: Option<Probe>,
    /// Planned trial.
    pub(crate) trial: &'a model::PlannedTrial,
    /// Workload of the trial.
    pub(crate) workload: Arc<dyn Workload>,
    /// Acknowledged writes; `None` when the workload has no truth.
    pub(crate) ledger: Option<Ledger>,
    /// State of the store at the trial's start.
    pub(crate) found: crate::trial::TrialStart,
    /// The store is to be settled before the first operation that counts.
    pub(crate) to_settle: bool,
    /// Address of the store, without credentials.
    pub(crate) place: String,
    /// True after the size of its data was looked up.
    pub(crate) is_sized: bool,
    /// Results of actions on its servers.
    pub(crate) acted: Acted,
    /// Reason that the preceding phase could not make the store cold, if it could not.
    pub(crate) not_cold: Option<String>,
    /// Start of the phase that was driven last.
    pub(crate) driven_from_ns: u64,
    /// The store has failed after its disk had, and is to be opened again.
    pub(crate) is_hurt: bool,
    /// The store did not start again after a power cut; there is nothing more to ask it.
    pub(crate) is_dead: bool,
    /// True after a power cut and recovery: the copies of all nodes must be checked.
    pub(crate) was_cut: bool,
}

/// A drive to be run.
pub struct Driven {
    /// Position of the phase in its trial.
    pub ordinal: u32,
    /// Number of sessions.
    pub clients: u32,
    /// Failures that an acknowledged write survives.
    pub durability: Durability,
    /// The operations.
    pub stream: Arc<dyn Stream>,
    /// Parameters of the drive.
    pub spec: DriveSpec,
    /// True if the drive is measured: the ledger observes it, and slices are recorded. Reading back is not.
    pub measured: bool,
    /// True if the ledger takes the values read for the store's contents.
    pub reads_back: bool,
    /// Actions on the store's servers during the drive.
    pub actions: Vec<model::Action>,
    /// Receiver of the answers, of drives that are not measured; with one client only.
    pub listen: Option<Listener>,
    /// Moment at which disks lose power, and the nodes.
    pub power_cut: Option<(CutMoment, PowerNode)>,
}

impl Driven {
    /// Makes a measured drive, whose answers have no other receiver.
    pub fn measured(
        ordinal: u32,
        clients: u32,
        durability: Durability,
        stream: &Arc<dyn Stream>,
        spec: DriveSpec,
    ) -> Self {
        let (stream, actions) = (Arc::clone(stream), Vec::new());
        Self {
            ordinal,
            clients,
            durability,
            stream,
            spec,
            measured: true,
            reads_back: false,
            actions,
            listen: None,
            power_cut: None,
        }
    }
}

/// Hears every answer, in order.
pub struct Listener(pub Box<dyn FnMut(Outcome, &Answer) + Send>);

impl Observer for Listener {
    fn sent(&mut self, _: Ticket, _: u64, _: u32, _: u64, _: &Op<'_>) {}

    fn finished(&mut self, _: Ticket, _: u64, outcome: Outcome, answer: &Answer) {
        (self.0)(outcome, answer);
    }
}

impl TrialRun<'_, '_> {
    /// Drives the phase and hands its slices on.
    pub(crate) fn driven(&mut self, driven: Driven) -> Result<DriveResult, TrialError> {
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
        if let Some(listen) = driven.listen {
            observers = vec![Box::new(listen)];
        }
        let has_fault = self.acted.has_fault;
        let Self { context, probe, ledger, workload, trial, store, .. } = self;
        let (store, label, loads) = (&*store, &trial.store.label, spec.limit == Limit::Exhausted);
        let (sinks, slice) = (context.sinks, context.slice());
        let watches_store = context.plan.samplers.iter().any(|name| name == plimsoll_sample::STORE.name);
        let probe = probe.as_mut().filter(|_| driven.measured && watches_store);
        let (mut recording_failed, mut acted, mut gone) = (None, Acted::default(), None);
        let mut on_slice = |mut slice: Slice| {
            let (trial, phase, measured) = (trial.ordinal, driven.ordinal, driven.measured);
            let late = slice.watched.as_mut().and_then(|watched| watched.lateness.take()).filter(|_| measured);
            let told = late.map_or(Ok(()), |late| lateness(sinks, slice.end_ns, Distribution::from(&late)));
            // Of a load, whose operations are others, its throughput is enough.
            let servers = std::mem::take(&mut slice.servers).into_iter().filter(|_| measured && !loads);
            let named = servers.map(|server| (format!("{label} {}", store.server_name(&server.by)), server));
            let told = told.and_then(|()| answered(sinks, &slice, named.collect()));
            let told = told.and_then(|()| sinks.slice(trial, phase, slice, measured)).map_err(TrialError::from);
            if let Err(error) = told.and_then(|()| lab_acts::tell(sinks, store, (trial, label), false)) {
                // The phase ends at once: what is not recorded was not measured.
                recording_failed.get_or_insert(error);
                context.spec.stop.store(true, Ordering::SeqCst);
            }
        };
        let power = match driven.power_cut {
            Some(cut) => {
                let length = match spec.limit {
                    Limit::Duration(length) => Some(spec.warmup + length),
                    Limit::Ops(_) | Limit::Exhausted => None,
                };
                Some(Power::armed(store, cut, length, context.spec.stop)?)
            }
            None => None,
        };
        // What a phase does to its servers or their disks may end them.
        let watched = store.servers().filter(|_| power.is_none() && driven.actions.is_empty() && !has_fault);
        let alive = watched.map(|servers| Alive::of(servers, store.is_in_lab(), context.spec.stop));
        let stop = power.as_ref().map(Power::stop).or(alive.as_ref().map(Alive::stop)).unwrap_or(context.spec.stop);
        let drive = Drive {
            clock: &sinks.clock,
            spec: &spec,
            sessions,
            kinds: workload.kinds(),
            stream: driven.stream,
            observers,
            stop: Arc::clone(stop),
        };
        let (stop, stopped) = channel::<()>();
        let (close, closed) = channel::<()>();
        let (end, ended) = channel::<()>();
        let (off, is_over) = channel::<()>();
        let (rest, at_rest) = channel::<()>();
        let drain = &|ledger: &mut Ledger| match &power {
            Some(power) => power.drain(ledger, driven.ordinal as u16, &sinks.clock),
            None => ledger.drain(),
        };
        let acting = (!driven.actions.is_empty()).then(|| Acting {
            sinks,
            trial: trial.ordinal,
            label,
            servers: store.servers(),
            disk: store.power_switch(),
            processes: context.server,
            server_pin: &context.plan.server_pin,
        });
        let result = std::thread::scope(|scope| {
            // Dropped at this closure's end, whatever ends it.
            let _stops = (stop, close, off);
            if let Some(probe) = probe {
                start(scope, "counters", "the thread that reads counters", move || {
                    let watch = ReadingRecorder { sinks, label: &trial.store.label, slice };
                    let counters = StoreCounters { watch, probe, trial: trial.ordinal, has_failed: false };
                    watch.follow(vec![(plimsoll_sample::STORE.name, Box::new(counters))], &stopped);
                })?;
            }
            if let Some(ledger) = ledger.as_mut().filter(|_| driven.measured || driven.reads_back) {
                let keep = move || keep_books(ledger, &closed, drain);
                start(scope, "ledger", "the thread that keeps the ledger", keep)?;
            }
            if let Some(power) = &power {
                let follow = move || power.follow(&is_over);
                start(scope, "power", "the thread that watches the disk's power", follow)?;
            }
            let alive = alive.as_ref().map(|alive| {
                let follow = move || alive.follow(&at_rest);
                start(scope, "servers", "the thread that watches servers", follow)
            });
            let alive = alive.transpose()?;
            let acting = acting.map(|acting| {
                let run = move || acting.run(&driven.actions, &ended);
                start(scope, "actions", "the thread that acts on servers", run)
            });
            let acting = acting.transpose()?;
            let result = drive.run(&mut on_slice);
            drop((end, rest));
            gone = alive.and_then(|alive| alive.join().unwrap_or_else(|panic| resume_unwind(panic)));
            // What has begun is waited for: it is to be known how long it took.
            acted =
                acting.map_or_else(Acted::default, |acting| acting.join().unwrap_or_else(|panic| resume_unwind(panic)));
            result
        });
        self.acted.added.append(&mut acted.added);
        self.acted.join_s = acted.join_s;
        self.acted.missed.append(&mut acted.missed);
        self.acted.has_fault |= acted.has_fault;
        if let Some(ledger) = ledger.as_mut() {
            match power {
                Some(_) => power::drained(ledger, drain),
                None => drain(ledger),
            }
        }
        let failed = recording_failed.or(acted.failed.filter(|error| !error.is_interrupt()));
        let failed = failed.or(gone);
        match failed {
            Some(error) => Err(error),
            None => result.map_err(|error| drive_error(label, error)),
        }
    }

    /// Records an event of the store.
    pub(crate) fn event(&self, level: Level, text: String) -> Result<(), TrialError> {
        let label = &self.trial.store.label;
        Ok(self.context.sinks.event(Some(self.trial.ordinal), level, EventClass::Store, label, text)?)
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
        usize::try_from(self.context.plan.answer_max_bytes.unwrap_or(room)).unwrap_or(usize::MAX)
    }

    /// A load that lost an operation is no load.
    pub(crate) fn must_have_succeeded(&self, what: &str, result: &DriveResult) -> Result<(), TrialError> {
        if let StopReason::Refused(error) | StopReason::Lost(error) = &result.stop {
            return Err(error.clone());
        }
        if !result.hung.is_empty() {
            return Err(TrialError::new(
                StoreErrorKind::Store,
                format!("{what} on {}: an operation did not return", self.trial.store.label),
            ));
        }
        match result.errors.first() {
            None => Ok(()),
            Some(error) => Err(TrialError::new(
                if self.store.spec().full_disk.contains(&error.code.as_str())
                    || error.message.contains("No space left on device")
                {
                    StoreErrorKind::DiskFull
                } else {
                    StoreErrorKind::Store
                },
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

/// Starts a thread of a phase.
fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    what: &'static str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, DriveError> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn_scoped(scope, work).map_err(|error| DriveError::System { what, error })
}

/// Records the delays of the witness's wake-ups in a slice that ended at `at_ns`.
fn lateness(sinks: &Sinks<'_>, at_ns: u64, late: Distribution) -> Result<(), RecordError> {
    let text = |text: &str| text.to_owned();
    let (source, name, unit) = (text(WITNESS), text("lateness"), text("ns"));
    let series = Series { source, subject: String::new(), name, unit, kind: SeriesKind::Distribution };
    let position = sinks.series(series)?;
    let distributions = vec![(position, late)];
    sinks.tell(Told::Sample(Sample { at_ns, distributions, ..Sample::default() }))
}

/// Records the answers of each of several servers in `slice`, by their names.
fn answered(sinks: &Sinks<'_>, slice: &Slice, servers: Vec<(String, ServerAnswers)>) -> Result<(), RecordError> {
    let mut sample = Sample { at_ns: slice.end_ns, ..Sample::default() };
    let seconds = slice.end_ns.saturating_sub(slice.start_ns) as f64 / 1e9;
    for (subject, ServerAnswers { times, .. }) in servers {
        let series = |name: &str, unit: &str, kind: SeriesKind| {
            let (source, name, unit) = (ANSWERS.to_owned(), name.to_owned(), unit.to_owned());
            sinks.series(Series { source, subject: subject.clone(), name, unit, kind })
        };
        let count = times.as_ref().map_or(0, |times| times.len());
        // What came after the planned end belongs to no rate.
        if seconds > 0.0 && !slice.drain {
            sample.values.push((series("rate", "1/s", SeriesKind::Level)?, count as f64 / seconds));
        }
        let Some(times) = times.filter(|_| count > 0) else { continue };
        sample.values.push((series("mean_time", "ms", SeriesKind::Level)?, times.mean() / 1e6));
        let position = series("response_time", "ns", SeriesKind::Distribution)?;
        sample.distributions.push((position, Distribution::from(&times)));
    }
    if sample.values.is_empty() && sample.distributions.is_empty() {
        return Ok(());
    }
    sinks.tell(Told::Sample(sample))
}

/// Takes over what workers write down, more often than any of them can fill its pages, until `closed` is.
fn keep_books(ledger: &mut Ledger, closed: &Receiver<()>, drain: &impl Fn(&mut Ledger)) {
    loop {
        drain(ledger);
        match closed.recv_timeout(DRAIN) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Converts the error of a drive of the store `label` to an error for the user.
pub fn drive_error(label: &str, error: DriveError) -> TrialError {
    match error {
        DriveError::Store(error) => error,
        DriveError::Panicked(panic) => panic.error(&format!("a thread that drives {label}"), "operations"),
        DriveError::System { what, error } => io_error(what, &error),
        DriveError::Threads { .. } => {
            TrialError::new(StoreErrorKind::Exhausted, error.to_string()).next(crate::needs::threads_words())
        }
        DriveError::Spec(what) => TrialError::usage(what),
        other => TrialError::new(StoreErrorKind::Store, other.to_string()),
    }
}
