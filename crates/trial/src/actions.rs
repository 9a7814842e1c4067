//! Actions on private servers, and on their disk, during a drive; reverted when the trial ends.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use plimsoll_analysis::number;
use plimsoll_core::fault::Fault;
use plimsoll_core::{Catalogue, Recipe, Servers};
use plimsoll_lab::described::DescribedServer;
use plimsoll_lab::{OpenStore, PowerSwitch};
use plimsoll_plan::model::{Action, ActionKind, Drive, Plan, PlannedTrial, StoreUse};
use plimsoll_record::data::{Event, EventClass, Level};
use plimsoll_sample::ServerProcesses;

use crate::error::TrialError;
use crate::phase::RunContext;
use crate::pin;
use crate::sink::{Sinks, Told};

/// Refuses a plan with an action that cannot be, before anything is started.
///
/// # Errors
/// Which store it is, and why.
pub fn possible(plan: &Plan, catalogue: &Catalogue) -> Result<(), TrialError> {
    for trial in &plan.trials {
        let is_on_servers = |drive: &Drive| drive.actions.iter().any(|action| !action.what.is_of_disk());
        let Some((name, _)) = trial.drives().find(|(_, drive)| is_on_servers(drive)) else { continue };
        // A lab says so itself.
        if trial.store.lab().is_some() {
            continue;
        }
        match recipe(&trial.store, catalogue)? {
            Some(recipe) => recipe.takes_more()?,
            None => {
                let what = format!("phase {name}: Plimsoll cannot act on the servers of {}", trial.store.label);
                return Err(TrialError::usage(what).next("leave `action` out, or name a cluster that Plimsoll starts"));
            }
        }
    }
    Ok(())
}

/// Returns the recipe of the store's servers; `None` if they are not private.
fn recipe(store: &StoreUse, catalogue: &Catalogue) -> Result<Option<Box<dyn Recipe>>, TrialError> {
    match (&store.server, &store.url, catalogue.store(&store.kind)) {
        (Some(server), ..) => Ok(Some(Box::new(DescribedServer(server.clone())))),
        (None, None, Some(kind)) => Ok(kind.recipe(&store.params)?),
        _ => Ok(None),
    }
}

/// Executor of a phase's actions.
pub struct Acting<'a> {
    /// Receivers of events.
    sinks: &'a Sinks<'a>,
    /// Position of the trial.
    trial: u32,
    /// Name of the store in reports.
    label: &'a str,
    /// The servers that are acted on, of a store that has some.
    servers: Option<Arc<dyn Servers>>,
    /// Simulated disk of the store, if it has one.
    disk: Option<PowerSwitch>,
    /// The processes that the server sampler reads.
    processes: &'a ServerProcesses,
    /// Processors that servers are bound to.
    server_pin: &'a [u32],
}

/// Results of the actions.
#[derive(Default)]
pub struct Acted {
    /// Numbers of nodes that were added.
    pub added: Vec<usize>,
    /// Longest time of a join, in seconds.
    pub join_s: Option<f64>,
    /// The disk has done something wrong.
    pub has_fault: bool,
    /// Actions whose time the phase did not reach, in words.
    pub missed: Vec<String>,
    /// The first that failed.
    pub failed: Option<TrialError>,
}

impl Acted {
    /// Takes over the results of a phase; the time of a join is that of this phase. Returns the error of the action that
    /// failed.
    pub(crate) fn take(&mut self, mut later: Acted) -> Option<TrialError> {
        self.added.append(&mut later.added);
        self.join_s = later.join_s;
        self.has_fault |= later.has_fault;
        self.missed.append(&mut later.missed);
        later.failed
    }
}

/// Reports an action whose time never came.
fn missed(action: &Action) -> String {
    let at = number::seconds(action.at_ns as f64 / 1e9);
    format!("{} at {at} was not done: the phase had ended", action.what)
}

impl<'a> Acting<'a> {
    /// Makes the executor for the servers and the disk of `store`.
    pub(crate) fn of(context: &RunContext<'a>, trial: &'a PlannedTrial, store: &OpenStore) -> Self {
        Self {
            sinks: context.sinks,
            trial: trial.ordinal,
            label: &trial.store.label,
            servers: store.servers(),
            disk: store.power_switch(),
            processes: context.server,
            server_pin: &context.plan.server_pin,
        }
    }

    /// Performs each action at its time, until one fails or `ended` is closed; an action in progress then is
    /// completed.
    pub fn run(&self, actions: &[Action], ended: &Receiver<()>) -> Acted {
        let (began, mut acted) = (Instant::now(), Acted::default());
        for (at, action) in actions.iter().enumerate() {
            let wait = Duration::from_nanos(action.at_ns).saturating_sub(began.elapsed());
            if ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                acted.missed = actions.iter().skip(at).map(missed).collect();
                break;
            }
            let done = match action.what {
                ActionKind::Add => self.add(&mut acted),
                ActionKind::Fault(fault) => self.fault(fault, &mut acted),
                ActionKind::Mend => self.mend(),
            };
            if let Err(error) = done {
                acted.failed = Some(error);
                break;
            }
        }
        acted
    }

    fn disk(&self) -> Result<&PowerSwitch, TrialError> {
        self.disk.as_ref().ok_or_else(|| TrialError::usage("this store's disk cannot have faults"))
    }

    fn fault(&self, fault: Fault, acted: &mut Acted) -> Result<(), TrialError> {
        // Before it begins: nothing that comes of it is to be earlier.
        let now_ns = self.sinks.clock.now_ns();
        self.disk()?.fault(fault)?;
        acted.has_fault = true;
        self.tell_of(EventClass::Disk, Level::Warning, (now_ns, now_ns), format!("disk: {fault}"))
    }

    fn mend(&self) -> Result<(), TrialError> {
        self.disk()?.mend()?;
        let now_ns = self.sinks.clock.now_ns();
        self.tell_of(EventClass::Disk, Level::Info, (now_ns, now_ns), "disk: mended".to_owned())
    }

    fn add(&self, acted: &mut Acted) -> Result<(), TrialError> {
        let no_servers = || TrialError::usage("nodes cannot be added to this store");
        let servers = self.servers.as_ref().ok_or_else(no_servers)?;
        self.sinks.show(&Told::Note(format!("{}: adding a node", self.label)));
        let (from_ns, since) = (self.sinks.clock.now_ns(), Instant::now());
        let added = servers.add();
        let seconds = since.elapsed().as_secs_f64();
        let number = match added {
            Ok(number) => number,
            Err(error) => {
                self.tell(Level::Error, from_ns, format!("adding a node failed after {seconds:.2} s: {error}"))?;
                return Err(error);
            }
        };
        acted.added.push(number);
        acted.join_s = Some(acted.join_s.unwrap_or(0.0).max(seconds));
        self.processes.set(servers.pids());
        pin::server(&servers.pids(), self.server_pin)?;
        self.tell(Level::Warning, from_ns, format!("node {} joined the cluster after {seconds:.2} s", number + 1))
    }

    /// Records an event from then until now.
    fn tell(&self, level: Level, from_ns: u64, text: String) -> Result<(), TrialError> {
        self.tell_of(EventClass::Servers, level, (from_ns, self.sinks.clock.now_ns()), text)
    }

    fn tell_of(
        &self,
        class: EventClass,
        level: Level,
        (from_ns, until_ns): (u64, u64),
        text: String,
    ) -> Result<(), TrialError> {
        let (trial, subject) = (Some(self.trial), self.label.to_owned());
        Ok(self.sinks.tell(Told::Event(Event { from_ns, until_ns, trial, level, class, subject, text }))?)
    }

    /// Removes the nodes that were added, so that the next trial starts with the same cluster. All other nodes have to
    /// run.
    ///
    /// # Errors
    /// What the recording fails with; that a node does not leave is an event.
    pub fn take_back(&self, added: &[usize]) -> Result<(), TrialError> {
        let Some(servers) = &self.servers else { return Ok(()) };
        for number in added.iter().rev() {
            let from_ns = self.sinks.clock.now_ns();
            match servers.remove(*number) {
                Ok(()) => self.tell(Level::Info, from_ns, format!("node {} left", number + 1))?,
                Err(error) => {
                    self.tell(Level::Warning, from_ns, format!("node {} could not be removed: {error}", number + 1))?;
                }
            }
        }
        self.processes.set(servers.pids());
        Ok(())
    }
}
