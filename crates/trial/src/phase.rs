//! State of a run, and of a trial at work.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_analysis::view::Rung;
use plimsoll_core::waits::TICK;
use plimsoll_core::{Catalogue, Probe, StoreErrorKind, Workload};
use plimsoll_drive::{Io, Witness};
use plimsoll_lab::OpenStore;
use plimsoll_plan::model::{self, Plan};
use plimsoll_record::data::{EventClass, Level};
use plimsoll_sample::ServerProcesses;
use plimsoll_verify::Ledger;

use crate::director::Directed;
use crate::error::TrialError;
use crate::run::RunSpec;
use crate::sink::Sinks;
use crate::state::{DataState, ServersState};

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
    /// Load step that the next drive is, in a search for the load line.
    pub rung: Option<Rung>,
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

    /// Returns true for an error that comes of the user's stop: a wait that it ended, or a server that a fault had ended
    /// and that is not started again.
    pub fn is_of_stop(&self, error: &TrialError) -> bool {
        comes_of_stop(error, self.is_stopped())
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
    /// Probes of the store's counters.
    pub(crate) probes: Vec<Probe>,
    /// Planned trial.
    pub(crate) trial: &'a model::PlannedTrial,
    /// Workload of the trial.
    pub(crate) workload: Arc<dyn Workload>,
    /// Acknowledged writes; `None` when the workload has no truth.
    pub(crate) ledger: Option<Ledger>,
    /// State of the store at the trial's start.
    pub(crate) found: crate::trial::TrialStart,
    /// Condition of the store's data.
    pub(crate) data_state: DataState,
    /// Address of the store, without credentials.
    pub(crate) place: String,
    /// True after the size of its data was looked up.
    pub(crate) is_sized: bool,
    /// Results of faults on its servers and disk.
    pub(crate) directed: Directed,
    /// Start of the phase that was driven last.
    pub(crate) driven_from_ns: u64,
    /// Condition of the store's servers.
    pub(crate) servers_state: ServersState,
    /// True after operations that found the store's disk full.
    pub(crate) was_full: bool,
    /// True after a power cut and recovery: the copies of all nodes must be checked.
    pub(crate) was_cut: bool,
    /// Names of the servers that answered in each phase, by their numbers; none if its operations went to one.
    pub(crate) servers: BTreeMap<u32, Vec<String>>,
}

impl TrialRun<'_, '_> {
    /// Records an event of the store.
    pub(crate) fn event(&self, level: Level, text: String) -> Result<(), TrialError> {
        let label = &self.trial.store.label;
        Ok(self.context.sinks.event(Some(self.trial.ordinal), level, EventClass::Store, label, text)?)
    }

    /// Returns true if its servers, private or of a lab, are several.
    pub(crate) fn is_cluster(&self) -> bool {
        self.store.servers().is_some_and(|servers| servers.nodes().len() > 1)
    }

    /// Asks the store before a drive. Nodes of a cluster may change their roles then, and close connections: `ask` is
    /// repeated while no server can be reached, for up to the plan's `setup_timeout`.
    ///
    /// # Errors
    /// The last error of `ask`.
    pub(crate) fn reached<T>(
        &mut self,
        mut ask: impl FnMut(&mut Self) -> Result<T, TrialError>,
    ) -> Result<T, TrialError> {
        let waits = self.is_cluster() && !self.directed.has_disk_fault;
        let bound = waits.then(|| Duration::from_nanos(self.context.plan.timeouts.setup_ns));
        let stop = Arc::clone(self.context.spec.stop);
        until_reached(bound, &stop, || ask(self))
    }
}

fn comes_of_stop(error: &TrialError, is_stopped: bool) -> bool {
    error.is_interrupt() || is_stopped && error.kind == StoreErrorKind::Unreachable
}

/// Calls `ask` until servers can be reached, for up to `bound`; once without a bound.
fn until_reached<T>(
    bound: Option<Duration>,
    stop: &AtomicBool,
    mut ask: impl FnMut() -> Result<T, TrialError>,
) -> Result<T, TrialError> {
    let began = Instant::now();
    loop {
        match (ask(), bound) {
            (Err(error), Some(bound)) if error.kind == StoreErrorKind::Unreachable && !stop.load(Ordering::SeqCst) => {
                if began.elapsed() >= bound {
                    return Err(asked_for(error, bound));
                }
                std::thread::sleep(TICK);
            }
            (asked, _) => return asked,
        }
    }
}

/// Adds to an error how long the servers were asked again.
fn asked_for(error: TrialError, bound: Duration) -> TrialError {
    let again = format!("asked again for {} s", bound.as_secs_f64());
    let detail = match &error.detail {
        Some(detail) => format!("{detail}; {again}"),
        None => again,
    };
    error.detail(detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed() -> TrialError {
        TrialError::new(StoreErrorKind::Unreachable, "a private node closed the connection")
    }

    /// Fails `failures` times with `error`, then counts its calls.
    fn after(failures: u32, error: &TrialError) -> impl FnMut() -> Result<u32, TrialError> {
        let mut calls = 0;
        move || {
            calls += 1;
            if calls > failures { Ok(calls) } else { Err(error.clone()) }
        }
    }

    #[test]
    fn a_control_connection_that_a_cluster_closes_is_opened_again() {
        let (stop, bound) = (AtomicBool::new(false), Some(Duration::from_secs(60)));
        assert_eq!(until_reached(bound, &stop, after(2, &closed())), Ok(3));
        assert_eq!(until_reached(None, &stop, after(2, &closed())), Err(closed()), "a server alone has one try");
        let other = TrialError::new(StoreErrorKind::Store, "no such table");
        assert_eq!(until_reached(bound, &stop, after(2, &other)), Err(other));
        stop.store(true, Ordering::SeqCst);
        assert_eq!(until_reached(bound, &stop, after(2, &closed())), Err(closed()), "the user ended the run");
    }

    #[test]
    fn a_server_that_cannot_be_reached_after_the_users_stop_is_no_error_and_all_others_are() {
        let stopped = TrialError::new(StoreErrorKind::Interrupted, "stopped by the user");
        let broken = TrialError::new(StoreErrorKind::Broken, "it was ended by signal 9");
        assert!([false, true].iter().all(|is_stopped| comes_of_stop(&stopped, *is_stopped)));
        assert!(comes_of_stop(&closed(), true) && !comes_of_stop(&closed(), false));
        assert!(!comes_of_stop(&broken, true));
    }

    #[test]
    fn a_cluster_that_stays_away_ends_the_run_with_the_time_that_was_waited() {
        let (stop, bound) = (AtomicBool::new(false), Duration::from_millis(50));
        let error = until_reached(Some(bound), &stop, after(u32::MAX, &closed())).unwrap_err();
        assert_eq!(error.to_string(), "a private node closed the connection (asked again for 0.05 s)");
        let refused = asked_for(closed().detail("Connection refused (os error 111)"), Duration::from_secs(15));
        assert_eq!(refused.detail.as_deref(), Some("Connection refused (os error 111); asked again for 15 s"));
    }
}
