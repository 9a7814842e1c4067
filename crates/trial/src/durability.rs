//! Durability of writes without a setting: the default, or the present setting of an attached server or of a store
//! without the default's durability.

use plimsoll_core::{Durability, Store, StoreErrorKind, Workload};
use plimsoll_plan::model::{PhaseStep, PlannedTrial};
use plimsoll_record::data::{About, EventClass, Level, PhaseEnd};

use crate::drive_spec::nothing_to_load;
use crate::error::TrialError;
use crate::phase::{RunContext, TrialRun};
use crate::sink::Told;
use crate::writes;

/// Returns `trial` with the settings of its store taken as they are, if that store is attached or cannot be made
/// `durable`, in all phases without a durability of their own in which the store keeps less than the default promises.
/// Returns `None` without such a phase. Reports the change for a trial that writes.
///
/// # Errors
/// What the store says, or the recording.
pub fn found(
    context: &RunContext<'_>,
    store: &mut dyn Store,
    trial: &PlannedTrial,
    workload: &dyn Workload,
) -> Result<Option<PlannedTrial>, TrialError> {
    let spec = context.catalogue.store(&trial.store.kind).map(|kind| kind.spec());
    let can = spec.is_none_or(|spec| spec.durabilities.contains(&Durability::Durable));
    if trial.store.is_ours() && trial.store.server.is_none() && can {
        return Ok(None);
    }
    let mut found = trial.clone();
    let mut short = None;
    for phase in found.phases.iter_mut().filter(|phase| phase.durability_is_default) {
        let (PhaseStep::Load { durability, .. } | PhaseStep::Drive(plimsoll_plan::model::Drive { durability, .. })) =
            &mut phase.step
        else {
            continue;
        };
        match store.demand(*durability) {
            Ok(()) => {}
            Err(error) if matches!(error.kind, StoreErrorKind::Usage | StoreErrorKind::Permission) => {
                short.get_or_insert(*durability);
                *durability = Durability::AsConfigured;
            }
            Err(error) => return Err(error),
        }
    }
    let Some(short) = short else { return Ok(None) };
    let loads = trial.loads() && !nothing_to_load(workload);
    if loads || writes::asked(trial, workload).iter().any(|(_, kind)| kind.writes()) {
        let label = &trial.store.label;
        let text = format!(
            "{label}: the server's settings provide less than `{}` and are used unchanged (as-configured). {}",
            short.name(),
            store.promise()?
        );
        context.sinks.show(&Told::Notice(text.clone()));
        context.sinks.event(Some(trial.ordinal), Level::Info, EventClass::Store, label, text)?;
    }
    Ok(Some(found))
}

impl TrialRun<'_, '_> {
    /// Reports the promise of the settings that a phase takes as they are.
    pub(crate) fn promise(&mut self, step: &PhaseStep, end: &mut PhaseEnd) -> Result<(), TrialError> {
        let (PhaseStep::Load { durability, .. } | PhaseStep::Drive(plimsoll_plan::model::Drive { durability, .. })) =
            step
        else {
            return Ok(());
        };
        if *durability == Durability::AsConfigured {
            end.remarks.push((About::Promise, self.store.promise()?));
        }
        Ok(())
    }
}
