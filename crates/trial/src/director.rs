//! Faults of a driven phase: each is carried out at its time, healed, and recorded.

mod described;
mod due;
mod effects;
mod held;
mod take_back;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use plimsoll_core::fault::Fault;
use plimsoll_core::{Nodes, Servers, StoreErrorKind};
use plimsoll_drive::{Clock, Entered, Timer};
use plimsoll_lab::{OpenStore, PowerSwitch};
use plimsoll_plan::model::PlannedTrial;
use plimsoll_plan::timeline::{FaultAction, PlannedFault};
use plimsoll_record::data::{Event, EventClass, FaultDetail, FaultSpan, Level};
use plimsoll_sample::ServerProcesses;

use crate::attached::ServersInUse;
use crate::disturbance::Disturbances;
use crate::drive::{Driven, joined};
use crate::error::{TrialError, io_error};
use crate::join_progress;
use crate::phase::RunContext;
use crate::readings::NewestOf;
use crate::sink::Told;
use crate::watch::ReadingRecorder;
use described::{detail, kind};
use due::{LEAD_NS, Occurrence, ServerChange};
use effects::Begun;
use held::HeldPart;
pub(crate) use take_back::take_back;

/// Results of the faults of a trial so far.
#[derive(Default)]
pub struct Directed {
    /// Number of faults that began, and of skipped repeats.
    pub begun: u32,
    /// Numbers of nodes that were added.
    pub added: Vec<usize>,
    /// Programs of nodes before the first fault that changed them, by the nodes' numbers.
    pub programs: BTreeMap<usize, PathBuf>,
    /// Number of a node that was removed to be replaced, and in whose place no node came up.
    pub missing: Option<usize>,
    /// Longest time of a join, in seconds.
    pub join_s: Option<f64>,
    /// Faults of disks that are in effect.
    pub on_disk: Vec<FaultOnDisk>,
    /// True after a fault of the disk.
    pub has_disk_fault: bool,
    /// Faults whose time the phase did not reach, in words.
    pub missed: Vec<String>,
    /// First error of a fault; that of a user's stop gives way to others.
    pub failed: Option<TrialError>,
    /// Beginning of the last healing.
    pub healing_ns: Option<u64>,
    /// Ends of the healings in the phase, with the positions of the faults in its list.
    healed_ns: Vec<(usize, u64)>,
    /// Ending of a server that no fault had ended.
    pub ended: Option<TrialError>,
    /// Parts of nodes that have a fault, each with the [series](Occurrence::series) of that.
    held: Vec<(HeldPart, Option<usize>)>,
    /// Time of the last reset of connections.
    reset_ns: Option<u64>,
    /// Commands of the user that are in effect.
    commands: Vec<FaultAction>,
    /// Changes of servers that are under way.
    changing: Vec<ServerChange>,
    /// Number of such changes that have ended: roles may be others since.
    changes: u32,
    /// Delay of all later faults of the phase, because some waited for others to be healed.
    delay_ns: u64,
    /// Faults of the phase that were carried out, without their times.
    carried_out: BTreeSet<String>,
    /// Repeats that were skipped because no node had their role: the fault without its times, and the error.
    skipped: Vec<(String, TrialError)>,
}

/// Fault of disks that is in effect.
#[derive(Debug, Clone, Copy)]
pub struct FaultOnDisk {
    /// Position of the fault in the trial.
    pub ordinal: u32,
    /// Nodes of the disks.
    pub nodes: Nodes,
    /// Kind of the fault.
    pub fault: Fault,
    /// Number of requests that had met such faults before.
    pub met_before: u64,
}

impl FaultOnDisk {
    /// Fails if no request to `disk` has met the fault so far.
    ///
    /// # Errors
    /// `Usage`, with the kind of request that was missing; errors of the disk.
    pub(crate) fn must_be_met(&self, disk: &PowerSwitch) -> Result<(), TrialError> {
        if disk.met(self.nodes, self.fault)? > self.met_before { Ok(()) } else { Err(no_request_met(self.fault)) }
    }
}

/// Returns the error of a fault of a disk that no request has met. The plan causes it: an error of the store would count
/// as an effect of the fault.
pub(crate) fn no_request_met(fault: Fault) -> TrialError {
    let request = match fault {
        Fault::Eio { on, .. } | Fault::Delay { on, .. } => on.to_string(),
        Fault::IgnoreFlushes => "flush".to_owned(),
        Fault::Full => "write that makes a file longer".to_owned(),
        Fault::BitRot { .. } => "read".to_owned(),
        Fault::Speed { .. } => "request".to_owned(),
    };
    TrialError::usage(format!("it did not take effect: no {request} came to the disk during the fault"))
        .next("let it last longer, or choose a load that needs the disk: caches answer reads, and hold writes back")
}

/// A change of servers, until the value is dropped.
struct Changing<'d>(&'d Director<'d>, ServerChange);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let mut directed = self.0.directed();
        if let Some(at) = directed.changing.iter().position(|other| *other == self.1) {
            directed.changing.swap_remove(at);
        }
        directed.changes += 1;
    }
}

/// Command of the user that is in effect, until the value is dropped.
struct CommandInEffect<'d>(&'d Director<'d>, FaultAction);

impl Drop for CommandInEffect<'_> {
    fn drop(&mut self) {
        let mut directed = self.0.directed();
        if let Some(at) = directed.commands.iter().position(|other| *other == self.1) {
            directed.commands.swap_remove(at);
        }
    }
}

impl Directed {
    /// Keeps an error if it is the first.
    fn fail(&mut self, error: TrialError) {
        drop(self.keep(error));
    }

    /// Keeps an error if it is the first, or returns it.
    fn keep(&mut self, error: TrialError) -> Option<TrialError> {
        if self.failed.as_ref().is_some_and(|first| !first.is_interrupt()) {
            return Some(error);
        }
        self.failed = Some(error);
        None
    }

    /// Keeps the error of a fault whose repeats were all skipped.
    fn fail_without_repeats(&mut self) {
        let is_unseen = |(name, _): &&(String, TrialError)| !self.carried_out.contains(name);
        if let Some((_, error)) = self.skipped.iter().find(is_unseen).cloned() {
            self.fail(error);
        }
    }

    /// Forgets the node that was added last, which has left.
    fn remove(&mut self, number: usize) {
        self.added.retain(|other| *other != number);
        self.programs.remove(&number);
    }

    fn add(&mut self, number: usize, seconds: f64) {
        self.added.push(number);
        self.join_s = Some(self.join_s.unwrap_or(0.0).max(seconds));
    }
}

/// Carries out the faults of a phase.
pub struct Director<'a> {
    clock: Clock,
    /// Waits of all threads, by the clock.
    timer: Arc<dyn Timer>,
    /// Reports an event to its receivers.
    tell: Box<dyn Fn(Told) -> Result<(), TrialError> + Sync + Send + 'a>,
    /// Recorder of the progress of nodes that join or start, and of planned work; `None` to record none.
    recorder: Option<ReadingRecorder<'a>>,
    /// Positions of the trial, and of the phase in it.
    place: (u32, u32),
    /// Number of operations of the phase that ended, if a fault waits for it.
    ended_ops: Arc<AtomicU64>,
    /// Length of the phase's warm-up, in nanoseconds.
    warmup_ns: u64,
    /// Start of the phase on the run's clock, in nanoseconds, once all sessions are open.
    started: Arc<OnceLock<u64>>,
    /// Newest readings, for faults with a condition.
    newest: NewestOf<'a>,
    /// Servers with faults, of a store that has some.
    servers: Option<Arc<dyn Servers>>,
    /// Servers of clients, for faults of an attached store.
    in_use: Arc<ServersInUse>,
    /// Simulated disk of the store, if it has one.
    disk: Option<PowerSwitch>,
    /// The processes that the server sampler reads.
    processes: &'a ServerProcesses,
    /// Processors that servers are bound to.
    server_pin: &'a [u32],
    /// Storms, neighbours and commands that are in effect.
    disturbances: Disturbances,
    /// Set once the user wants an end.
    stop: Arc<AtomicBool>,
    /// Ends the phase: set once the user wants an end, or a command of the user has failed.
    phase_stop: Arc<AtomicBool>,
    directed: Mutex<Directed>,
}

impl<'a> Director<'a> {
    /// Makes the director of a phase, on the thread that starts the drive. It continues with `directed`, the results of
    /// the trial so far.
    pub(crate) fn of(
        context: &RunContext<'a>,
        trial: &'a PlannedTrial,
        driven: &Driven,
        store: &OpenStore,
        directed: Directed,
    ) -> Self {
        let sinks = context.sinks;
        let (clock, answers) = (sinks.clock, Arc::clone(&driven.answers));
        Self {
            clock,
            timer: context.spec.driver.timer(&clock),
            tell: Box::new(|told| Ok(sinks.tell(told)?)),
            recorder: Some(ReadingRecorder { sinks, label: &trial.store.label, slice: join_progress::INTERVAL }),
            place: (trial.ordinal, driven.ordinal),
            ended_ops: Arc::clone(&driven.ended_ops),
            warmup_ns: driven.spec.warmup.as_nanos() as u64,
            started: Arc::clone(&driven.spec.started),
            newest: Box::new(move |condition, since_ns| {
                let silence = answers.silence(condition, since_ns, clock.now_ns());
                silence.or_else(|| sinks.readings.of(condition, &trial.store.label, since_ns))
            }),
            servers: store.servers(),
            in_use: Arc::clone(&driven.in_use),
            disk: store.power_switch(),
            processes: context.server,
            server_pin: &context.plan.server_pin,
            disturbances: Disturbances::from_here(),
            stop: Arc::clone(context.spec.stop),
            phase_stop: Arc::default(),
            directed: Mutex::new(directed),
        }
    }

    /// Returns the flag that ends the phase.
    pub(crate) fn phase_stop(&self) -> &Arc<AtomicBool> {
        &self.phase_stop
    }

    /// Carries out each fault at its time, on a thread of its own, and heals it. Once `ended` is closed no more faults
    /// begin, and all are healed.
    pub fn run(self, faults: &[PlannedFault], length_ns: Option<u64>, seed: u64, ended: &Receiver<()>) -> Directed {
        let start_ns = self.phase_start(ended);
        let mut timeline: Vec<Occurrence<'_>> = Vec::new();
        for (position, fault) in faults.iter().enumerate() {
            let moments = fault.moments(length_ns, seed);
            let after_ns = fault.after.and_then(|after| after.by.ns(length_ns));
            timeline.extend(moments.into_iter().map(|moment| Occurrence { position, fault, moment, after_ns }));
        }
        timeline.sort_by_key(|one| one.moment.at_ns);
        let director = &self;
        std::thread::scope(|scope| {
            let (mut open, mut threads) = (Vec::new(), Vec::new());
            for (at, one) in timeline.iter().enumerate() {
                let lookup_ns = start_ns.saturating_add(self.due_ns(one).saturating_sub(LEAD_NS));
                if self.await_end(ended, Some(lookup_ns)) {
                    self.directed().missed.extend(timeline[at..].iter().map(Occurrence::missed));
                    break;
                }
                let (sender, over) = channel();
                let entered = Entered::of(&*director.timer);
                let role_wait_ns = one.role_wait_ns(&timeline[at + 1..]);
                let carry_out = move || {
                    let _entered = entered;
                    director.carry_out(one, role_wait_ns, start_ns, &over);
                };
                let thread = std::thread::Builder::new().name("fault".to_owned());
                match thread.spawn_scoped(scope, carry_out) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => self.directed().fail(io_error("the thread of a fault", &error)),
                }
                open.push(sender);
            }
            self.await_end(ended, None);
            drop(open);
            self.timer.leave();
            threads.into_iter().for_each(joined);
            self.timer.enter();
        });
        // The user's own end needs no error.
        if !self.stop.load(Ordering::SeqCst) {
            self.directed().fail_without_repeats();
        }
        let has_begun = !self.directed().carried_out.is_empty();
        // Private servers end with a run that the user stops.
        let is_needed = |servers: &Arc<dyn Servers>| servers.outlive() || !self.stop.load(Ordering::SeqCst);
        let has_servers = self.servers.as_ref().is_some_and(is_needed);
        if has_begun && has_servers && faults.iter().any(|fault| fault.what.nodes().is_some()) {
            self.make_whole().unwrap_or_else(|error| self.directed().fail(error));
        }
        let directed = self.directed.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (healed_ns, carried_out, skipped) = (Vec::new(), BTreeSet::new(), Vec::new());
        Directed { held: Vec::new(), healed_ns, carried_out, skipped, delay_ns: 0, ..directed }
    }

    /// Notes that a healing starts servers.
    fn change(&self, nodes: Nodes) -> Changing<'_> {
        let change = ServerChange::Start(nodes);
        self.directed().changing.push(change);
        Changing(self, change)
    }

    /// Waits until the servers are one cluster again, in which former primaries follow the present one.
    fn make_whole(&self) -> Result<(), TrialError> {
        let servers = self.servers()?;
        let ended = |error: &TrialError| error.kind != StoreErrorKind::Unreachable;
        self.directed().ended = servers.check(Nodes::All).err().filter(ended);
        let note = "faults are healed: waiting until the servers are one cluster again, for `work_timeout` at most; \
                    Ctrl-C ends the wait, and keeps what was measured";
        (self.tell)(Told::Note(note.to_owned()))?;
        self.start(Nodes::All, |servers| {
            servers.rejoin()?;
            servers.start(Nodes::All)
        })?;
        self.servers_are_new()
    }

    fn directed(&self) -> std::sync::MutexGuard<'_, Directed> {
        self.directed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out one fault, and records it. An error is kept for the end of the phase.
    fn carry_out(&self, one: &Occurrence<'_>, role_wait_ns: u64, start_ns: u64, over: &Receiver<()>) {
        let Occurrence { fault, moment, .. } = *one;
        let due = self.planned(one, start_ns, over).and_then(|planned| {
            let waited = self.wait_for_role(one, planned, role_wait_ns, start_ns, over).ok_or_else(|| one.missed())?;
            Ok((planned, waited))
        });
        let (planned, (chosen, changing, _command)) = match due {
            Ok(due) => due,
            Err(missed) => {
                self.directed().missed.push(missed);
                return;
            }
        };
        let ordinal = {
            let mut directed = self.directed();
            directed.begun += 1;
            directed.begun - 1
        };
        let subject = fault.what.nodes().map_or_else(String::new, |choice| choice.to_string());
        let mut span = FaultSpan {
            trial: self.place.0,
            phase: self.place.1,
            ordinal,
            detail: detail(fault),
            planned_ns: start_ns + planned.at_ns,
            ..FaultSpan::begun(kind(&fault.what), &fault.to_string(), &subject, self.clock.now_ns())
        };
        if let Err(error) = &chosen
            && fault.is_repeated()
            && let Some(why) = one.no_role(error)
        {
            return self.skip(fault, span, why, error);
        }
        self.directed().carried_out.insert(fault.name().to_owned());
        let done = chosen.and_then(|chosen| {
            span.subject = self.subject(&fault.what, chosen.as_ref());
            // Of one server no node is named.
            let several = chosen.as_ref().filter(|chosen| chosen.present.len() > 1);
            span.detail.nodes = several.map(|chosen| chosen.nodes);
            let _held = self.hold(one, chosen.as_ref())?;
            let nodes = chosen.map_or(Nodes::All, |chosen| chosen.nodes);
            // A recording that fails must not keep a fault from being healed.
            let mut recorded = self.record(&span);
            let is_work = matches!(fault.what, FaultAction::Work(..));
            if is_work {
                span.taken_ns = Some(span.begun_ns);
                recorded = recorded.and(self.record(&span));
            }
            let begun = self.begin(&fault.what, nodes, span.ordinal);
            drop(changing);
            let begun = match begun {
                Ok(begun) => begun,
                Err(error) => {
                    if is_work {
                        span.healed_ns = Some(self.clock.now_ns());
                        // Work of several nodes may lose the connection to another one.
                        let lost = error.kind == StoreErrorKind::Unreachable;
                        let nodes = if lost { Nodes::All } else { nodes };
                        // Another fault, or the user, has ended it.
                        if error.kind == StoreErrorKind::Interrupted || self.has_other_fault(nodes) {
                            span.error = Some(error.line());
                            return recorded.and(self.record(&span));
                        }
                    }
                    return Err(self.heal_failed(fault, nodes, span.ordinal, error));
                }
            };
            if let Some(node) = &begun.node {
                span.subject.clone_from(node);
            }
            if let Some(versions) = begun.versions() {
                span.subject = format!("{}, {versions}", span.subject);
            }
            let ended_ns = self.clock.now_ns();
            span.taken_ns.get_or_insert(ended_ns);
            if fault.what.is_brief() && fault.what != FaultAction::Add {
                span.healed_ns = Some(ended_ns);
            }
            recorded = recorded.and(self.record(&span));
            if fault.outlasts_phase() || span.healed_ns.is_some() {
                return recorded;
            }
            // One that began late lasts as long as planned, but not longer than the phase.
            let planned_ns = start_ns + moment.at_ns;
            let late_ns = if fault.lasts.is_some() { span.begun_ns.saturating_sub(planned_ns) } else { 0 };
            self.timer.wait(over, moment.until_ns.map(|until_ns| start_ns.saturating_add(until_ns + late_ns)));
            span.healing_ns = Some(self.clock.now_ns());
            self.directed().healing_ns = span.healing_ns;
            let met = self.must_be_met(span.ordinal);
            self.heal(&fault.what, nodes, &begun, span.ordinal)?;
            span.healed_ns = Some(self.clock.now_ns());
            if met.is_err() {
                span.taken_ns = None;
            }
            recorded.and(self.record(&span)).and(met)
        });
        if let Some(healed_ns) = span.healed_ns {
            self.directed().healed_ns.push((one.position, healed_ns));
        }
        if let Err(error) = done {
            span.error = Some(error.line());
            let told = self.record(&span);
            let failed = TrialError { what: format!("{fault}: {}", error.what), ..error };
            if fault.is_of_user() && !failed.is_interrupt() {
                self.phase_stop.store(true, Ordering::SeqCst);
            }
            let other = self.directed().keep(failed);
            if let Some(other) = other.filter(|other| !other.is_interrupt()) {
                // The run ends with one error, and only the user can heal the fault of a command.
                let advice = other.next.as_ref().filter(|_| fault.is_of_user());
                let advice = advice.map_or_else(String::new, |advice| format!("; {advice}"));
                let _ = self.tell_event(Level::Warning, format!("{}{advice}", other.line()));
            }
            told.unwrap_or_else(|error| self.directed().fail(error));
        }
    }

    /// Records that a repeat was skipped because no node had its role. Keeps the error: all repeats may be skipped.
    fn skip(&self, fault: &PlannedFault, span: FaultSpan, why: &str, error: &TrialError) {
        let detail = FaultDetail { is_skipped: true, ..span.detail };
        let span = FaultSpan { healed_ns: Some(span.begun_ns), error: Some(why.to_owned()), detail, ..span };
        let error = TrialError { what: format!("{fault}: {}", error.what), ..error.clone() };
        self.directed().skipped.push((fault.name().to_owned(), error));
        self.record(&span).unwrap_or_else(|error| self.directed().fail(error));
    }

    /// Heals a fault that did not take effect: some of the nodes may have it. Returns its error, with the advice of the
    /// healing if only the user can heal it.
    fn heal_failed(&self, fault: &PlannedFault, nodes: Nodes, ordinal: u32, error: TrialError) -> TrialError {
        let healed = self.heal(&fault.what, nodes, &Begun::default(), ordinal);
        let Some(of_healing) = healed.err().filter(|_| fault.is_of_user()) else { return error };
        let _ = self.tell_event(Level::Warning, format!("{fault}: {}", of_healing.line()));
        let next = match (error.next, of_healing.next) {
            // Advice for any command that failed is the beginning of that for one that heals.
            (Some(own), Some(other)) if !other.starts_with(&own) => Some(format!("{own}; {other}")),
            (own, other) => other.or(own),
        };
        TrialError { next, ..error }
    }

    fn servers(&self) -> Result<&Arc<dyn Servers>, TrialError> {
        self.servers.as_ref().ok_or_else(|| TrialError::usage("this store has no servers that can have faults"))
    }

    fn disk(&self) -> Result<&PowerSwitch, TrialError> {
        self.disk.as_ref().ok_or_else(|| TrialError::usage("this store's disk cannot have faults"))
    }

    /// Reports an event of this moment.
    fn tell_event(&self, level: Level, text: String) -> Result<(), TrialError> {
        let (now_ns, trial, subject) = (self.clock.now_ns(), Some(self.place.0), String::new());
        let class = EventClass::Drive;
        (self.tell)(Told::Event(Event { from_ns: now_ns, until_ns: now_ns, trial, level, class, subject, text }))
    }

    /// Begins a time with fine readings, or continues it.
    fn begin_fine(&self) {
        if let Some(ReadingRecorder { sinks, .. }) = &self.recorder {
            sinks.fine.begin(self.clock.now_ns());
        }
    }

    fn record(&self, span: &FaultSpan) -> Result<(), TrialError> {
        (self.tell)(Told::Fault(span.clone()))
    }
}

#[cfg(test)]
#[path = "director_tests.rs"]
mod tests;
