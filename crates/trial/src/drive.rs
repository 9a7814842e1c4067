//! The drive of a phase: its sessions and observers, the threads beside it, and the end of all of them.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use plimsoll_core::{
    Answer, Call, CutMoment, Durability, KvCall, NodeChoice, Observer, Op, OpKind, Outcome, Probe, RecordsCall,
    Sessions, StoreErrorKind, Stream, Ticket,
};
use plimsoll_drive::{
    Clock, Drive, DriveError, DriveResult, DriveSpec, Driver, Entered, ErrorCount, Limit, StopReason,
};
use plimsoll_lab::OpenStore;
use plimsoll_plan::model;
use plimsoll_plan::timeline::PlannedFault;
use plimsoll_sample::STORE;
use plimsoll_verify::Ledger;

use crate::alive::Alive;
use crate::attached::{ServersInUse, addresses, is_of_clients};
use crate::director::{Directed, Director};
use crate::ended_ops::{self, NewestAnswers};
use crate::error::{TrialError, io_error};
use crate::phase::{RunContext, TrialRun};
use crate::power::{self, Power};
use crate::slices::SliceRecorder;
use crate::watch::{ReadingRecorder, StoreCounters};

/// Time between two looks at what workers have written down for the ledger.
const DRAIN: Duration = Duration::from_millis(20);

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
    /// Faults of the store's servers and disk during the drive, and the seed of their moments.
    pub faults: (Vec<PlannedFault>, u64),
    /// Number of operations that ended, counted if a fault waits for it.
    pub ended_ops: Arc<AtomicU64>,
    /// Times of the newest answers, noted if a fault waits for silent clients.
    pub answers: Arc<NewestAnswers>,
    /// Servers of the clients, looked up if an attached store has faults on their side.
    pub in_use: Arc<ServersInUse>,
    /// Receiver of the answers, of drives that are not measured; with one client only.
    pub listen: Option<Listener>,
    /// Moment at which disks lose power, and the nodes.
    pub power_cut: Option<(CutMoment, NodeChoice)>,
}

impl Driven {
    /// Returns true if the ledger hears of the operations.
    fn keeps_books(&self) -> bool {
        self.measured || self.reads_back
    }

    /// Makes a measured drive, whose answers have no other receiver.
    pub fn measured(
        ordinal: u32,
        clients: u32,
        durability: Durability,
        stream: &Arc<dyn Stream>,
        spec: DriveSpec,
    ) -> Self {
        let (stream, faults) = (Arc::clone(stream), (Vec::new(), 0));
        Self {
            ordinal,
            clients,
            durability,
            stream,
            spec,
            measured: true,
            reads_back: false,
            faults,
            ended_ops: Arc::default(),
            answers: Arc::default(),
            in_use: Arc::default(),
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

/// Threads beside a drive. Each gets a channel that closes when these are dropped.
struct Beside<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    open: Vec<Sender<()>>,
}

impl<'scope, 'env> Beside<'scope, 'env> {
    fn new(scope: &'scope Scope<'scope, 'env>) -> Self {
        Self { scope, open: Vec::new() }
    }

    /// Starts a thread called `name`; `what` names it in an error.
    fn start<T: Send + 'scope>(
        &mut self,
        name: &str,
        what: &'static str,
        work: impl FnOnce(&Receiver<()>) -> T + Send + 'scope,
    ) -> Result<ScopedJoinHandle<'scope, T>, DriveError> {
        let (open, closed) = channel();
        self.open.push(open);
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread.spawn_scoped(self.scope, move || work(&closed)).map_err(|error| DriveError::System { what, error })
    }
}

/// Waits for a thread. Panics if it panicked.
pub(crate) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Work of the threads beside a drive.
struct Attendants<'a> {
    /// Counters of the store, one source for each server that is asked.
    counters: Vec<StoreCounters<'a>>,
    ledger: Option<&'a mut Ledger>,
    power: Option<Power<'a>>,
    alive: Option<Alive<'a>>,
    director: Option<Director<'a>>,
    faults: (Vec<PlannedFault>, u64),
    /// Planned length of the drive; `None` if operations are counted.
    length: Option<Duration>,
    /// The run's clock, and the phase, for the ledger.
    clock: &'a Clock,
    phase: u16,
}

/// Results of a drive and of the work beside it.
struct Attended {
    result: Result<DriveResult, DriveError>,
    /// End of the store's servers.
    gone: Option<TrialError>,
    /// Results of the trial's faults; `None` if the phase had none.
    directed: Option<Directed>,
}

impl<'a> Attendants<'a> {
    /// Prepares the threads beside `driven`. `readers` are the probes and the ledger, if they follow the drive.
    /// `directed` is taken if the drive has faults.
    ///
    /// # Errors
    /// The store's disk cannot lose power, and was to; a lab with faults has a node that does not run.
    fn of(
        context: &'a RunContext<'a>,
        store: &OpenStore,
        trial: &'a model::PlannedTrial,
        readers: (&'a mut [Probe], Option<&'a mut Ledger>),
        directed: &mut Directed,
        driven: &mut Driven,
    ) -> Result<Self, TrialError> {
        let (stop, length) = (context.spec.stop, longest(&driven.spec));
        let power = driven.power_cut.map(|cut| Power::armed(store, cut, length, stop)).transpose()?;
        let faults = std::mem::take(&mut driven.faults);
        let has_faults = !faults.0.is_empty();
        // What a phase does to its servers or their disks may end them.
        let may_end = power.is_some() || has_faults || directed.has_disk_fault;
        let watched = store.servers().filter(|_| !may_end);
        // Before the director takes what a refusal must leave: nodes and programs that the trial has to take back.
        store.servers().filter(|_| has_faults).map_or(Ok(()), |servers| servers.lease())?;
        let director = has_faults.then(|| Director::of(context, trial, driven, store, std::mem::take(directed)));
        let (probes, ledger) = readers;
        Ok(Self {
            counters: counters(context, trial, probes),
            ledger,
            power,
            alive: watched.map(|servers| Alive::of(servers, store.is_in_lab(), stop)),
            director,
            faults,
            length,
            clock: &context.sinks.clock,
            phase: driven.ordinal as u16,
        })
    }

    /// Returns the flag by which one of them ends the phase; `None` if none may.
    fn stop(&self) -> Option<&Arc<AtomicBool>> {
        let with_commands = self.director.as_ref().filter(|_| self.faults.0.iter().any(PlannedFault::is_of_user));
        let of_servers = self.power.as_ref().map(Power::stop).or(self.alive.as_ref().map(Alive::stop));
        of_servers.or(with_commands.map(Director::phase_stop))
    }

    /// Runs the drive and the threads beside it.
    fn attend(self, driver: &dyn Driver, drive: Drive<'_>, slices: &mut SliceRecorder<'_>) -> Attended {
        let Self { counters, mut ledger, power, alive, director, faults, length, clock, phase } = self;
        let drain = &|ledger: &mut Ledger| match &power {
            Some(power) => power.drain(ledger, phase, clock),
            None => ledger.drain(),
        };
        let (mut gone, mut directed) = (None, None);
        let timer = driver.timer(clock);
        let result = std::thread::scope(|scope| {
            // `longer` ends with the scope, `during` with the drive.
            let (mut longer, mut during) = (Beside::new(scope), Beside::new(scope));
            for counters in counters {
                let watch = counters.watch;
                let follow = move |over: &Receiver<()>| watch.follow(vec![(STORE.name, Box::new(counters))], over);
                longer.start("counters", "the thread that reads counters", follow)?;
            }
            if let Some(ledger) = &mut ledger {
                let keep = move |over: &Receiver<()>| keep_books(ledger, over, drain);
                longer.start("ledger", "the thread that keeps the ledger", keep)?;
            }
            if let Some(power) = &power {
                longer.start("power", "the thread that watches the disk's power", |over| power.follow(over))?;
            }
            let alive = alive.map(|alive| {
                during.start("servers", "the thread that watches servers", move |over| alive.follow(over))
            });
            let alive = alive.transpose()?;
            let director = director.map(|director| {
                let (faults, seed) = faults;
                let length_ns = length.map(|length| length.as_nanos() as u64);
                let entered = Entered::of(&*timer);
                let run = move |over: &Receiver<()>| {
                    let _entered = entered;
                    director.run(&faults, length_ns, seed, over)
                };
                during.start("director", "the thread that carries out faults", run)
            });
            let director = director.transpose()?;
            let result = driver.drive(drive, &mut |slice| slices.take(slice));
            drop(during);
            gone = alive.and_then(joined);
            // All faults are healed before the phase ends.
            directed = director.map(|director| {
                timer.leave();
                let directed = joined(director);
                timer.enter();
                directed
            });
            result
        });
        if let Some(ledger) = ledger {
            match power {
                Some(_) => power::drained(ledger, drain),
                None => drain(ledger),
            }
        }
        Attended { result, gone, directed }
    }
}

impl TrialRun<'_, '_> {
    /// Drives the phase and hands its slices on.
    pub(crate) fn driven(&mut self, mut driven: Driven) -> Result<DriveResult, TrialError> {
        let (clients, durability) = (driven.clients, driven.durability);
        let sessions = self.reached(|trial| trial.store.sessions(clients, durability))?;
        let observers = self.prepare(&mut driven, &sessions)?;
        let Self { context, probes, ledger, workload, trial, store, directed, .. } = self;
        let (context, store, trial) = (&**context, &**store, *trial);
        let probes: &mut [Probe] = if driven.measured { &mut probes[..] } else { &mut [] };
        let readers = (probes, ledger.as_mut().filter(|_| driven.keeps_books()));
        let attendants = Attendants::of(context, store, trial, readers, directed, &mut driven)?;
        let loads = driven.spec.limit == Limit::Exhausted;
        let mut slices = SliceRecorder::new(context, (trial, driven.ordinal), store, driven.measured, loads);
        slices.in_use = Arc::clone(&driven.in_use);
        let drive = Drive {
            clock: &context.sinks.clock,
            spec: &driven.spec,
            sessions,
            kinds: workload.kinds(),
            stream: driven.stream,
            observers,
            stop: Arc::clone(attendants.stop().unwrap_or(context.spec.stop)),
        };
        let Attended { result, gone, directed } = attendants.attend(context.spec.driver, drive, &mut slices);
        let (failed, servers) = (slices.failed, slices.servers);
        self.servers.insert(driven.ordinal, servers);
        self.directed = directed.unwrap_or_else(|| std::mem::take(&mut self.directed));
        if let Ok(result) = &result {
            self.was_full |= result.errors.iter().any(|error| error.disk_full);
        }
        let of_fault = self.directed.failed.take().filter(|error| !self.context.is_of_stop(error));
        match failed.or(of_fault).or(gone) {
            Some(error) => Err(error),
            None => result.map_err(|error| drive_error(&self.trial.store.label, error)),
        }
    }

    /// Completes the parameters of a drive, and returns its observers, which count operations if faults wait for them.
    fn prepare(&mut self, driven: &mut Driven, sessions: &Sessions) -> Result<Vec<Box<dyn Observer>>, TrialError> {
        if self.store.servers().is_none() && driven.faults.0.iter().any(|fault| is_of_clients(&fault.what)) {
            driven.in_use = Arc::new(ServersInUse::of(addresses(sessions), &self.trial.store.label)?);
        }
        driven.spec.answer_max = self.answer_max();
        driven.spec.ticks = !driven.faults.0.is_empty();
        driven.spec.started = Arc::default();
        let observers = self.observers(driven, sessions);
        if !driven.faults.0.iter().any(ended_ops::are_awaited) {
            return Ok(observers);
        }
        let workers = driven.spec.worker_count(sessions);
        driven.answers = Arc::new(NewestAnswers::of(driven.spec.networks.len()));
        Ok(ended_ops::counting(observers, workers, &driven.ended_ops, &driven.answers))
    }

    /// Returns the observers of a drive: its listener, or those of the ledger.
    fn observers(&mut self, driven: &mut Driven, sessions: &Sessions) -> Vec<Box<dyn Observer>> {
        if let Some(listen) = driven.listen.take() {
            return vec![Box::new(listen)];
        }
        let Some(ledger) = self.ledger.as_mut().filter(|_| driven.keeps_books()) else { return Vec::new() };
        let (phase, workers) = (driven.ordinal as u16, driven.spec.worker_count(sessions));
        // A ticket is the number of a client within its worker.
        let tickets = driven.spec.clients(sessions.len() as u32) as usize;
        match driven.reads_back {
            true => ledger.observers_reading_back(phase, workers, tickets),
            false => ledger.observers(phase, workers, tickets),
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
        usize::try_from(self.context.plan.answer_max_bytes.unwrap_or(room)).unwrap_or(usize::MAX)
    }

    /// Returns `error` as one of a full disk, if a store that failed had reported that its disk was full.
    pub(crate) fn maybe_of_full_disk(&self, error: TrialError) -> TrialError {
        let may_be = matches!(error.kind, StoreErrorKind::Broken | StoreErrorKind::Store);
        let kind = if self.was_full && may_be { StoreErrorKind::DiskFull } else { error.kind };
        TrialError { kind, ..error }
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
            )
            .next("see why in the server's log, or raise load_timeout (--load-timeout)"));
        }
        // A full disk may be the cause of more frequent errors.
        let full = of_full_disk(&result.errors);
        match full.or(result.errors.first()) {
            None => Ok(()),
            Some(error) => Err(TrialError::new(
                if full.is_some() { StoreErrorKind::DiskFull } else { StoreErrorKind::Store },
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

/// Returns the first of `errors` by which the store reported a full disk.
fn of_full_disk(errors: &[ErrorCount]) -> Option<&ErrorCount> {
    errors.iter().find(|error| error.disk_full)
}

/// Returns the longest time of a drive; `None` if its operations are counted.
fn longest(spec: &DriveSpec) -> Option<Duration> {
    match spec.limit {
        Limit::Duration(length) => Some(spec.warmup + length),
        Limit::Ops(_) | Limit::Exhausted => None,
    }
}

/// Returns the readers of a store's counters, if the plan samples them.
fn counters<'a>(
    context: &RunContext<'a>,
    trial: &'a model::PlannedTrial,
    probes: &'a mut [Probe],
) -> Vec<StoreCounters<'a>> {
    if !context.plan.samplers.iter().any(|name| name == STORE.name) {
        return Vec::new();
    }
    let watch = ReadingRecorder { sinks: context.sinks, label: &trial.store.label, slice: context.slice() };
    let (trial, is_alone) = (trial.ordinal, probes.len() == 1);
    probes.iter_mut().map(|probe| StoreCounters { watch, probe, trial, is_alone, has_failed: false }).collect()
}

/// Drains the ledger every 20 ms, before any worker can fill its pages, until `closed` closes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_found_behind_errors_that_are_more_frequent() {
        let error = |disk_full, count| ErrorCount {
            outcome: Outcome::Rejected,
            code: "BROKEN".to_owned(),
            message: "no more writes because an earlier one failed".to_owned(),
            disk_full,
            count,
            first_ns: 0,
            last_ns: 0,
        };
        let found = |all: &[ErrorCount]| of_full_disk(all).map(|error| error.count);
        assert_eq!(found(&[error(false, 9_000), error(false, 3)]), None);
        assert_eq!(found(&[error(false, 9_000), error(true, 3)]), Some(3));
    }
}
