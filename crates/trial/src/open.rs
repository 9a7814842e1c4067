//! The stores of a run: what is said and refused before anything is done to them, how they are opened, and how they are
//! left.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{Catalogue, OpenOptions, Store, Target, Waits, Workload};
use plimsoll_drive::RealTime;
use plimsoll_lab::OpenStore;
use plimsoll_plan::model::{Plan, PlannedTrial, StoreUse};
use plimsoll_record::data::{EventClass, Level};

use crate::ab;
use crate::attached;
use crate::client_hosts;
use crate::data::StoreDir;
use crate::drive_spec;
use crate::durability;
use crate::error::TrialError;
use crate::fault_check;
use crate::found;
use crate::here;
use crate::lost_primary::lost_primaries;
use crate::needs::needs;
use crate::phase::RunContext;
use crate::precheck;
use crate::run::RunSpec;
use crate::scenarios;
use crate::sink::{Sink, Told};
use crate::writes;

/// A store that is open.
pub struct Open {
    /// Use of the store, as planned.
    pub store_use: StoreUse,
    /// Store with its private servers.
    pub store: OpenStore,
    waits: Waits,
    /// Dropped after the store.
    _directory: Option<StoreDir>,
}

impl Open {
    /// Returns true if it is the store of `store_use`, and usable.
    pub fn is_of(&self, store_use: &StoreUse) -> bool {
        self.store_use == *store_use && !self.store.is_spent()
    }
}

/// Announces the changes to attached stores before they are made, and primaries that stay lost. Refuses a run that is
/// known to fail.
///
/// # Errors
/// Names the part of the plan that cannot be, and a remedy.
pub fn announce(
    plan: &Plan,
    catalogue: &Catalogue,
    spec: &RunSpec<'_>,
    directory: &Path,
    sink: &dyn Sink,
) -> Result<(), TrialError> {
    let mut said = BTreeSet::new();
    let mut before: Option<&StoreUse> = None;
    let run_id = |label: &str| match spec.ab {
        Some(_) => ab::side_run_id(&run_id_of(directory), label),
        None => run_id_of(directory),
    };
    precheck::plan(plan)?;
    fault_check::possible(plan, catalogue)?;
    needs(catalogue, plan)?.must_fit()?;
    // All repeats of a point are alike.
    for trial in plan.trials.iter().filter(|trial| trial.repeat == 0) {
        let Some(kind) = catalogue.store(&trial.store.kind) else { continue };
        let workload = make_workload(catalogue, trial)?;
        drive_spec::can_ask(trial, &*workload, kind.spec())?;
        precheck::trial(plan, trial, &*workload, kind.spec())?;
        client_hosts::possible(trial, &*workload, kind)?;
        attached::possible(trial, &*workload, kind.spec())?;
        here::faults_possible(catalogue, trial)?;
        let changes = writes::allowed(plan, trial, &*workload, kind.spec())?;
        if trial.store.lab().is_some() {
            continue;
        }
        // What is missing for a private server, or cannot be, is said before anything is loaded anywhere.
        if trial.store.is_private() && before.replace(&trial.store) != Some(&trial.store) {
            here::found(catalogue, &trial.store)?;
        }
        if trial.store.server.is_some() {
            precheck::power_node(trial, None)?;
            continue;
        }
        if trial.store.url.is_none() {
            precheck::power_node(trial, kind.recipe(&trial.store.params)?.as_deref())?;
            continue;
        }
        let mut lines = kind.announce(&options(&trial.store, directory, run_id(&trial.store.label), spec))?;
        if trial.takes_as_is(plan.start) {
            // Nothing is made there.
            lines.truncate(1);
        }
        lines.push(writes::announced(trial.takes_as_is(plan.start), &changes, kind.spec()));
        for line in lines {
            let line = format!("{}: {line}", trial.store.label);
            if said.insert(line.clone()) {
                sink.take(&Told::Notice(line));
            }
        }
    }
    lost_primaries(catalogue, plan).into_iter().for_each(|notice| sink.take(&Told::Notice(notice)));
    Ok(())
}

/// Sink that drops everything.
struct Silent;

impl Sink for Silent {
    fn take(&self, _told: &Told) {}
}

/// Refuses a plan that [`crate::run`] would refuse before it starts anything.
///
/// # Errors
/// Names the part of the plan that cannot be, and a remedy.
pub fn possible(plan: &Plan, catalogue: &Catalogue, runs_dir: &Path) -> Result<(), TrialError> {
    let stop = Arc::default();
    announce(plan, catalogue, &RunSpec::new(runs_dir, &stop, &RealTime), runs_dir, &Silent)
}

/// Opens a store; what it makes is marked with `run_id`.
///
/// # Errors
/// What the store says.
pub fn open_store(context: &RunContext<'_>, store_use: &StoreUse, run_id: String) -> Result<Open, TrialError> {
    let kind = context
        .catalogue
        .store(&store_use.kind)
        .ok_or_else(|| TrialError::usage(format!("there is no store `{}`", store_use.kind)))?;
    let limits = context.plan.timeouts;
    let (setup, work) = (Duration::from_nanos(limits.setup_ns), Duration::from_nanos(limits.work_ns));
    let waits = Waits::new(setup, work, Arc::clone(context.spec.stop));
    let mut options =
        OpenOptions { waits: waits.clone(), ..options(store_use, context.directory(), run_id, context.spec) };
    let mut directory = None;
    if let Target::Private { data_dir, .. } | Target::Described { data_dir, .. } = &mut options.target {
        let made = StoreDir::make(data_dir, context.plan.dir.is_some())?;
        made.path().clone_into(data_dir);
        directory = Some(made);
    }
    let store = plimsoll_lab::open(kind, options, &mut |text| context.sinks.show(&Told::Note(text.to_owned())))?;
    Ok(Open { store_use: store_use.clone(), store, waits, _directory: directory })
}

/// Makes `open` the store of `store_use`, and returns it: the open one, or a new one.
///
/// # Errors
/// As [`open_store`] and [`leave`].
pub fn reach<'o>(
    context: &mut RunContext<'_>,
    open: &'o mut Option<Open>,
    store_use: &StoreUse,
) -> Result<&'o mut Open, TrialError> {
    if let Some(before) = open.take_if(|open| !open.is_of(store_use)) {
        let is_spent = before.store.is_spent();
        leave(context, before, is_spent)?;
    }
    match open {
        Some(open) => Ok(open),
        None => {
            context.sinks.show(&Told::Note(format!("opening {}", store_use.label)));
            context.ledger = None;
            Ok(open.insert(open_store(context, store_use, run_id_of(context.directory()))?))
        }
    }
}

/// The id of the run that is recorded in `directory`.
pub fn run_id_of(directory: &Path) -> String {
    directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Options to open a store with. The data directory of a private server is that of all stores of the run.
fn options(store_use: &StoreUse, directory: &Path, run_id: String, spec: &RunSpec<'_>) -> OpenOptions {
    let target = match &store_use.url {
        _ if store_use.lab().is_some() => Target::Lab {
            labs: plimsoll_lab::standing::beside(spec.runs_dir),
            name: store_use.lab().unwrap_or_default().to_owned(),
        },
        _ if store_use.server.is_some() => Target::Described {
            server: store_use.server.clone().unwrap_or_default(),
            data_dir: directory.join("data"),
            log_dir: directory.to_owned(),
        },
        Some(url) => {
            let (url, password) = (spec.login_of)(url);
            Target::Attach { url, password }
        }
        None => {
            let data_dir = directory.join("data");
            // What it links to has been asked for.
            let said = data_dir.is_symlink();
            Target::Private { data_dir, said, log_dir: directory.to_owned() }
        }
    };
    OpenOptions { target, params: store_use.params.clone(), run_id, waits: Default::default() }
}

/// Makes a store remove its data. If that fails after another failure, or after the user wanted an end, the remains
/// are reported without an error.
pub fn leave(context: &RunContext<'_>, open: Open, failed: bool) -> Result<(), TrialError> {
    let Open { store_use, store, waits, _directory } = open;
    let failed = failed || store.is_spent();
    waits.leave(failed);
    if failed && store_use.is_private() {
        // One that is not closed but dropped knows that something failed, and keeps its server's log.
        drop(store);
        return Ok(());
    }
    let Err(error) = store.close() else { return Ok(()) };
    if !failed && !context.is_stopped() {
        return Err(error);
    }
    let next = error.next.as_ref().map(|next| format!("\n  → {next}")).unwrap_or_default();
    context.sinks.show(&Told::Notice(format!("warning: {error}{next}")));
    let text = format!("{error}{}", next.replace('\n', ""));
    Ok(context.sinks.event(None, Level::Warning, EventClass::Store, &store_use.label, text)?)
}

/// Returns the workload of `trial` on `store`, and the trial, adjusted to foreign data if they are taken as they are.
///
/// # Errors
/// A workload that cannot be made of what the plan says, or that does not fit.
pub fn fitted(
    context: &RunContext<'_>,
    trial: &PlannedTrial,
    store: &mut dyn Store,
) -> Result<(Option<PlannedTrial>, Arc<dyn Workload>), TrialError> {
    let workload = make_workload(context.catalogue, trial)?;
    let as_is = trial.takes_as_is(context.plan.start);
    store.set_read_only(as_is && !context.plan.allow_writes);
    let set = durability::found(context, store, trial, &*workload)?;
    let trial = set.as_ref().unwrap_or(trial);
    let fitted = if as_is { found::fitted(context, store, trial, &workload)? } else { None };
    let fitted = fitted.or_else(|| set.clone());
    let workload = fitted.as_ref().map_or(Ok(workload), |fitted| make_workload(context.catalogue, fitted))?;
    Ok((fitted, workload))
}

/// Returns the number of records that the load of `trial` inserts; `None` for a workload that cannot be made.
pub fn record_count(catalogue: &Catalogue, trial: &PlannedTrial) -> Option<u64> {
    make_workload(catalogue, trial).ok().map(|workload| workload.record_count())
}

/// Makes the workload of `trial`.
///
/// # Errors
/// A workload that cannot be made of what the plan says.
pub fn make_workload(catalogue: &Catalogue, trial: &PlannedTrial) -> Result<Arc<dyn Workload>, TrialError> {
    let spec = catalogue
        .workload(&trial.workload.name)
        .ok_or_else(|| TrialError::usage(format!("there is no workload `{}`", trial.workload.name)))?;
    let made = (spec.make)(trial.seed, &trial.workload.params, &trial.workload.scripts);
    let made = made.map_err(|error| TrialError { next: error.help, ..TrialError::usage(error.what) })?;
    scenarios::named(made, trial)
}
