//! Requirements of a private store on this machine: its programs, hosts and disks of its own, and the rights and programs
//! that its faults need. All trials' are looked for before the first trial.

use std::path::Path;

use plimsoll_core::catalogue::LabEntry;
use plimsoll_core::{Catalogue, DiskSpec, Limits, ServerSpec, StoreError, StoreErrorKind};
use plimsoll_lab::PrivilegedFault;
use plimsoll_lab::hosts::{Network, resets_must_be_possible};
use plimsoll_lab::packages::SYSTEM_PATH;
use plimsoll_lab::standing::Lab;
use plimsoll_plan::model::{Plan, PlannedTrial, StoreUse};
use plimsoll_plan::timeline::FaultAction;

use crate::error::TrialError;
use crate::fault_check::recipe;

/// Returns what a private store needs and finds on this machine, in a few words.
///
/// # Errors
/// Fails if something is missing or not permitted, with the package or the right that helps; and if a parameter of the store
/// is wrong.
pub fn found(catalogue: &Catalogue, store: &StoreUse) -> Result<String, TrialError> {
    if store.is_private() || store.server.is_some() {
        plimsoll_lab::limits_must_be_possible(&Limits::of(&store.params)?)?;
    }
    if let Some(server) = &store.server {
        return program(&server.command);
    }
    let Some(kind) = catalogue.store(&store.kind).filter(|_| store.is_private()) else {
        return Ok("attached: nothing is started here".to_owned());
    };
    let found = kind.installed()?;
    if kind.recipe(&store.params)?.is_some_and(|recipe| recipe.spec().hosts > 0) {
        Network::shared()?;
    }
    DiskSpec::of(&store.params).map_or(Ok(()), |disk| plimsoll_lab::must_be_possible(&disk))?;
    Ok(found)
}

/// Looks for the program of a plan's own command.
fn program(command: &str) -> Result<String, TrialError> {
    let name = command.split_whitespace().next().unwrap_or_default();
    let is_there = match Path::new(name) {
        path if path.is_absolute() => path.exists(),
        // Anything else than a plain name is the shell's to resolve.
        _ if name.contains(|letter: char| !(letter.is_alphanumeric() || "-_.+".contains(letter))) => true,
        _ => SYSTEM_PATH.split(':').any(|directory| Path::new(directory).join(name).exists()),
    };
    if is_there {
        return Ok(format!("by the plan's command: {name}"));
    }
    let what = format!("the program {name} of the plan's `command` is not there (looked in {SYSTEM_PATH})");
    Err(TrialError::new(StoreErrorKind::Missing, what).next("install it, or write its path"))
}

/// Looks for the rights, programs and functions of the kernel that the faults of a trial need on its store's servers.
///
/// # Errors
/// `Permission` or `Missing`, with the fault, and the package or the right that helps.
pub(crate) fn faults_possible(catalogue: &Catalogue, trial: &PlannedTrial) -> Result<(), TrialError> {
    if trial.drives().all(|(_, drive)| drive.faults.is_empty()) {
        return Ok(());
    }
    let recipe = recipe(&trial.store, catalogue)?;
    let lab = trial.store.url.as_deref().and_then(|url| catalogue.lab(url));
    for (phase, drive) in trial.drives() {
        // Faults that are drawn often differ in their times only.
        let is_first = |at: usize| drive.faults.iter().take(at).all(|before| before.what != drive.faults[at].what);
        for (_, fault) in drive.faults.iter().enumerate().filter(|(at, _)| is_first(*at)) {
            let found = match (&recipe, &fault.what) {
                (Some(recipe), FaultAction::Work(name, _)) => recipe.work_must_be_installed(name),
                // A lab that is gone is an error when the trial opens it.
                _ if trial.store.lab().is_some() && (lab.is_none() || recipe.is_none()) => Ok(()),
                (Some(recipe), what) => permitted(&recipe.spec(), what, lab),
                (None, FaultAction::Reset(_)) => resets_must_be_possible(false),
                (None, _) => Ok(()),
            };
            found.map_err(|lack| TrialError { what: format!("phase {phase}: {fault}: {}", lack.what), ..lack })?;
        }
    }
    Ok(())
}

/// Fails if a fault of the processes or connections of servers is not permitted here, or in the process of their lab.
fn permitted(spec: &ServerSpec, fault: &FaultAction, lab: Option<&LabEntry>) -> Result<(), StoreError> {
    let fault = match fault {
        FaultAction::Hang(_) => PrivilegedFault::Hang,
        FaultAction::Clock(..) => PrivilegedFault::Clock,
        FaultAction::Reset(_) => PrivilegedFault::Reset,
        _ => return Ok(()),
    };
    match lab.map(|lab| Lab::open(&lab.labs, &lab.name)) {
        None => fault.must_be_permitted(spec),
        Some(Ok(lab)) => lab.must_permit(fault),
        Some(Err(_)) => Ok(()),
    }
}

/// Leaves out the trials of stores that cannot run on this machine, or not with their faults, and adds the reasons to the
/// plan's notices.
///
/// # Errors
/// If no trial is left: what the first store lacks.
pub fn leave_out(plan: &mut Plan, catalogue: &Catalogue) -> Result<(), TrialError> {
    let mut stores: Vec<(StoreUse, Result<(), TrialError>)> = Vec::new();
    // All repeats of a point are alike.
    for trial in plan.trials.iter().filter(|trial| trial.repeat == 0) {
        if stores.iter().all(|(store, _)| *store != trial.store) {
            stores.push((trial.store.clone(), found(catalogue, &trial.store).map(drop)));
        }
        let known = stores.iter_mut().find(|(store, _)| *store == trial.store);
        if let Some((_, found)) = known.filter(|(_, found)| found.is_ok()) {
            *found = faults_possible(catalogue, trial);
        }
    }
    // Mistakes are refused with everything else that is wrong, and not left out.
    let is_missing = |error: &TrialError| matches!(error.kind, StoreErrorKind::Missing | StoreErrorKind::Permission);
    let missing = |store: &StoreUse| {
        let (_, found) = stores.iter().find(|(known, _)| known == store)?;
        found.as_ref().err().filter(|error| is_missing(error))
    };
    let mut notices: Vec<String> = Vec::new();
    for (store, error) in stores.iter().filter_map(|(store, _)| Some((store, missing(store)?))) {
        let next = error.next.as_ref().map_or(String::new(), |next| format!(" → {next}"));
        let notice = format!("Left out: {} cannot run here: {}{next}", store.label, error.line());
        if !notices.contains(&notice) {
            notices.push(notice);
        }
    }
    let Some((_, Err(first))) = stores.iter().find(|(store, _)| missing(store).is_some()) else { return Ok(()) };
    if plan.trials.iter().all(|trial| missing(&trial.store).is_some()) {
        let all = Some(notices.join("\n")).filter(|_| notices.len() > 1);
        return Err(TrialError { detail: all.or_else(|| first.detail.clone()), ..first.clone() });
    }
    plan.retain(|trial| missing(&trial.store).is_none());
    plan.notices.extend(notices);
    Ok(())
}

#[cfg(test)]
#[path = "here_tests.rs"]
mod tests;
