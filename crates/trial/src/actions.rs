//! What is done to servers of our own while they are driven, and taken back when the trial ends.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use plimsoll_core::{Catalogue, Recipe, Servers};
use plimsoll_lab::described::DescribedServer;
use plimsoll_plan::model::{Action, ActionKind, Plan, StoreUse};
use plimsoll_record::data::{Event, EventClass, Level};
use plimsoll_sample::ServerProcesses;

use crate::error::TrialError;
use crate::pin;
use crate::sink::{Sinks, Told};

/// Refuses a plan with an action that cannot be, before anything is started.
///
/// # Errors
/// Which store it is, and why.
pub fn possible(plan: &Plan, catalogue: &Catalogue) -> Result<(), TrialError> {
    for trial in &plan.trials {
        let Some((name, _)) = trial.drives().find(|(_, drive)| !drive.actions.is_empty()) else { continue };
        // A lab says so itself.
        if trial.store.lab().is_some() {
            continue;
        }
        match recipe(&trial.store, catalogue)? {
            Some(recipe) => recipe.takes_more()?,
            None => {
                let what = format!("phase {name}: nothing can be done to the servers of {}", trial.store.label);
                return Err(TrialError::usage(what).next("leave `action` out, or name a cluster that is started here"));
            }
        }
    }
    Ok(())
}

/// How the store's servers are made; `None` where they are not ours.
fn recipe(store: &StoreUse, catalogue: &Catalogue) -> Result<Option<Box<dyn Recipe>>, TrialError> {
    match (&store.server, &store.url, catalogue.store(&store.kind)) {
        (Some(server), ..) => Ok(Some(Box::new(DescribedServer(server.clone())))),
        (None, None, Some(kind)) => Ok(kind.recipe(&store.params)?),
        _ => Ok(None),
    }
}

/// Who does the actions of a phase.
pub struct Acting<'a> {
    /// Who is told.
    pub sinks: &'a Sinks<'a>,
    /// Position of the trial.
    pub trial: u32,
    /// How reports call the store.
    pub label: &'a str,
    /// What is acted on.
    pub servers: Arc<dyn Servers>,
    /// The processes that the server sampler reads.
    pub processes: &'a ServerProcesses,
    /// Processors that servers are bound to.
    pub server_pin: &'a [u32],
}

/// What came of them.
#[derive(Default)]
pub struct Acted {
    /// Numbers of nodes that were added.
    pub added: Vec<usize>,
    /// How long the longest of them took, in seconds.
    pub join_s: Option<f64>,
    /// The first that failed.
    pub failed: Option<TrialError>,
}

impl Acting<'_> {
    /// Does each action at its time, until one fails or `ended` is closed; what has begun then goes on to its end.
    pub fn run(&self, actions: &[Action], ended: &Receiver<()>) -> Acted {
        let (began, mut acted) = (Instant::now(), Acted::default());
        for action in actions {
            let wait = Duration::from_nanos(action.at_ns).saturating_sub(began.elapsed());
            if ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                let text = format!("the phase ended before it was time to {} a node", action.what.name());
                acted.failed = self.tell(Level::Warning, self.sinks.clock.now_ns(), text).err();
                break;
            }
            let done = match action.what {
                ActionKind::Add => self.add(&mut acted),
            };
            if let Err(error) = done {
                acted.failed = Some(error);
                break;
            }
        }
        acted
    }

    fn add(&self, acted: &mut Acted) -> Result<(), TrialError> {
        self.sinks.show(&Told::Note(format!("{}: a node joins", self.label)));
        let (from_ns, since) = (self.sinks.clock.now_ns(), Instant::now());
        let added = self.servers.add();
        let seconds = since.elapsed().as_secs_f64();
        let number = match added {
            Ok(number) => number,
            Err(error) => {
                self.tell(
                    Level::Error,
                    from_ns,
                    format!("a node was to join, and failed after {seconds:.2} s: {error}"),
                )?;
                return Err(error.into());
            }
        };
        acted.added.push(number);
        acted.join_s = Some(acted.join_s.unwrap_or(0.0).max(seconds));
        self.processes.set(self.servers.pids());
        pin::server(&self.servers.pids(), self.server_pin)?;
        self.tell(
            Level::Warning,
            from_ns,
            format!("node {} joined: it was a part of the cluster after {seconds:.2} s", number + 1),
        )
    }

    /// Records an event from then until now.
    fn tell(&self, level: Level, from_ns: u64, text: String) -> Result<(), TrialError> {
        let (until_ns, subject) = (self.sinks.clock.now_ns(), self.label.to_owned());
        let (trial, class) = (Some(self.trial), EventClass::Store);
        Ok(self.sinks.tell(Told::Event(Event { from_ns, until_ns, trial, level, class, subject, text }))?)
    }

    /// Has the nodes leave that were added, so that the next trial finds what this one found.
    ///
    /// # Errors
    /// What the recording fails with; that a node does not leave is an event.
    pub fn take_back(&self, added: &[usize]) -> Result<(), TrialError> {
        for number in added.iter().rev() {
            let from_ns = self.sinks.clock.now_ns();
            match self.servers.remove(*number) {
                Ok(()) => self.tell(Level::Info, from_ns, format!("node {} left", number + 1))?,
                Err(error) => {
                    self.tell(Level::Warning, from_ns, format!("node {} does not leave: {error}", number + 1))?;
                }
            }
        }
        self.processes.set(self.servers.pids());
        Ok(())
    }
}
