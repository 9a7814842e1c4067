//! Runs a trial: its phases, in order, on one store, into the recording.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{
    Catalogue, Durability, ParamSpec, ParamType, ParamValue, Setting, Store, StoreErrorKind, StoreSpec, Workload,
};
use plimsoll_lab::OpenStore;
use plimsoll_plan::model::{self, PhaseStep, Start};
use plimsoll_record::data::{Event, EventClass, Level, PhaseEnd, PhaseHeader, PhaseState, TrialHeader};
use plimsoll_verify::Ledger;

use crate::director::{self, Directed};
use crate::drive_spec::nothing_to_load;
use crate::error::TrialError;
use crate::lab_acts;
use crate::phase::{RunContext, TrialRun};
use crate::pin;
use crate::sink::{Sinks, Told};
use crate::state::{BeforePhase, DataState, ServersState};

/// State that a trial starts from.
#[derive(Debug, Clone, Copy)]
pub struct TrialStart {
    /// Start that the plan requires.
    pub start: Start,
    /// The store holds what this trial's load would make, left by the trial before.
    pub data: bool,
}

/// Runs the trial on a store. Stops early, without error, when the user wants an end.
///
/// # Errors
/// What the store or the recording failed with; the recording says in which phase.
pub fn run(
    context: &mut RunContext<'_>,
    store: &mut OpenStore,
    trial: &model::PlannedTrial,
    workload: Arc<dyn Workload>,
    mut found: TrialStart,
) -> Result<(), TrialError> {
    let keeps_data = store.spec().keeps_data;
    context.server.set(store.sites());
    pin::server(&store.sites(), &context.plan.server_pin)?;
    let mut description = store.describe()?;
    if let Some(in_force) = settings_in_force(&mut **store, trial)? {
        description.settings = in_force;
    }
    description.settings.extend(store.lab_settings());
    let ledger = ledger(context, keeps_data, trial, &workload, &mut found);
    let mut params = workload_params(context.catalogue, trial);
    let start = if found.data { found.start } else { Start::Fresh };
    // What was never loaded has nothing to tidy.
    let has_data = found.data || (trial.loads() && keeps_data && !nothing_to_load(&*workload));
    let to_settle = found.start == Start::Settled && has_data;
    params.insert("start".to_owned(), start_words(start, to_settle).to_owned());
    context.sinks.tell(Told::BeginTrial(TrialHeader {
        ordinal: trial.ordinal,
        store: trial.store.kind.clone(),
        store_label: trial.store.label.clone(),
        place: description.place.clone(),
        version: description.version,
        settings: description.settings,
        failover_time: store.servers().and_then(|servers| servers.failover_time()),
        rarer_cycles: rarer_cycles(store.spec(), &trial.store),
        may_buffer: may_buffer(store.spec(), &trial.store),
        workload: trial.workload.name.clone(),
        params,
        labels: trial.labels.clone(),
        breaks: trial.breaks,
        kinds: workload.kinds().to_vec(),
        record_count: workload.record_count(),
        record_bytes: workload.record_bytes(),
        start_ns: context.sinks.clock.now_ns(),
    }))?;
    if trial.workload.params.0.get("ledger").is_some_and(|value| *value == ParamValue::Text("off".to_owned())) {
        let text = "the ledger is off: neither answers nor acknowledged writes are checked";
        context.sinks.event(Some(trial.ordinal), Level::Warning, EventClass::Ledger, "", text.to_owned())?;
    }
    // Data taken as they are were loaded by another program.
    if !trial.loads() && !found.data && found.start != Start::AsIs {
        store.create(workload.layout())?;
    }
    let mut run = TrialRun {
        context,
        probes: store.probes(),
        store,
        trial,
        workload,
        ledger,
        place: description.place,
        is_sized: !keeps_data,
        directed: Directed::default(),
        driven_from_ns: 0,
        servers_state: ServersState::Whole,
        was_full: false,
        was_cut: false,
        servers: BTreeMap::new(),
        found,
        data_state: if to_settle { DataState::Unsettled } else { DataState::Ready },
    };
    let phases = run.phases().map_err(|error| run.cause_of(run.maybe_of_full_disk(error)));
    let mended = run.give_up_disk();
    // A phase that failed makes no wrong answer before it right.
    let checked = run.check_answers();
    let taken_back = run.take_back();
    let told = lab_acts::tell(run.context.sinks, run.store, (trial.ordinal, &trial.store.label), true);
    // A phase that was cut short leaves data of which only a part was observed.
    run.context.ledger = run.ledger.take().filter(|_| !run.context.is_stopped());
    phases.and(mended).and(checked).and(taken_back).and(told)?;
    let sinks = run.context.sinks;
    Ok(sinks.tell(Told::EndTrial(trial.ordinal, sinks.clock.now_ns()))?)
}

/// The settings of the sessions that `trial` drives; `None` where the store's description has them. Those in which a
/// further durability of the trial differs have its name behind theirs.
fn settings_in_force(store: &mut dyn Store, trial: &model::PlannedTrial) -> Result<Option<Vec<Setting>>, TrialError> {
    let mut all: Option<Vec<Setting>> = None;
    let mut seen = Vec::new();
    for (_, model::Drive { durability, .. }) in trial.drives() {
        if seen.contains(durability) {
            continue;
        }
        seen.push(*durability);
        let Some(found) = store.settings_in_force(*durability)? else { return Ok(None) };
        let Some(all) = &mut all else {
            all = Some(found);
            continue;
        };
        let others = found.into_iter().filter(|setting| !all.contains(setting)).collect::<Vec<_>>();
        all.extend(
            others
                .into_iter()
                .map(|setting| Setting { name: format!("{} ({})", setting.name, durability.name()), ..setting }),
        );
    }
    Ok(all)
}

/// Returns true if a trial may continue with the data of the one before. If each client owns the records that it
/// writes, loading them is part of the measurement: they are loaded again.
pub fn goes_on(workload: &dyn Workload) -> bool {
    workload.truth().is_none_or(plimsoll_core::Truth::sees_contents)
}

/// Returns the ledger of `trial`: a new one, or that of the trial before if it continues with its data. If that one
/// cannot continue, the trial finds nothing. There is no ledger for a store that keeps nothing, nor for data loaded by
/// another program.
fn ledger(
    context: &mut RunContext<'_>,
    keeps_data: bool,
    trial: &model::PlannedTrial,
    workload: &Arc<dyn Workload>,
    found: &mut TrialStart,
) -> Option<Ledger> {
    let before = context.ledger.take();
    let is_theirs = !trial.loads() && found.start == Start::AsIs;
    if !keeps_data || workload.truth().is_none() || is_theirs {
        return None;
    }
    // Stamps have room for so many phases on the same data.
    let phases = trial.phases.len() as u64;
    let before = before.filter(|ledger| found.data && (u64::from(ledger.trials_before()) + 2) * phases <= 256);
    let before = before.and_then(Ledger::next_trial);
    found.data &= before.is_some();
    before.or_else(|| Ledger::new_unless(Arc::clone(workload), &|| context.is_stopped()))
}

/// Returns settings that make maintenance cycles of a private store rarer, by the counter of the cycles.
fn rarer_cycles(spec: &StoreSpec, store: &model::StoreUse) -> BTreeMap<String, String> {
    let is_private = store.url.is_none() && store.server.is_none();
    let settings = spec.rarer_cycles.iter().filter(|_| is_private);
    settings.map(|(counter, setting)| ((*counter).to_owned(), format!("{}.{setting}", spec.name))).collect()
}

/// Returns true if a private store can do both durable and buffered writes.
fn may_buffer(spec: &StoreSpec, store: &model::StoreUse) -> bool {
    let both = [Durability::Durable, Durability::Buffered];
    store.url.is_none() && store.server.is_none() && both.iter().all(|one| spec.durabilities.contains(one))
}

fn workload_params(catalogue: &Catalogue, trial: &model::PlannedTrial) -> BTreeMap<String, String> {
    let shown = |specs: &[ParamSpec], name: &str, value: &ParamValue| match value {
        ParamValue::Bool(value) => value.to_string(),
        ParamValue::Int(value) => {
            let spec = specs.iter().find(|spec| spec.name == name);
            with_unit(*value, spec.map_or(&[], |spec| units(spec.param_type)))
        }
        ParamValue::Text(value) => value.clone(),
    };
    let kind = &trial.store.kind;
    let of_workload = catalogue.preset(&trial.workload.name).map_or(&[][..], |(spec, _)| spec.params);
    let of_store = catalogue.store(kind).map_or(&[][..], |kind| kind.spec().params);
    let own = trial.workload.params.0.iter();
    let own = own.map(|(name, value)| (name.clone(), shown(of_workload, name, value)));
    let stores = trial.store.params.0.iter();
    let scripts = trial.workload.scripts.first();
    let csv = scripts.into_iter().flat_map(|script| &script.csv);
    let csv = csv.map(|csv| (format!("csv {}", csv.file), csv.summary()));
    own.chain(csv).chain(stores.map(|(name, value)| (format!("{kind}.{name}"), shown(of_store, name, value)))).collect()
}

/// The units of a parameter's base unit, the largest first.
fn units(of: ParamType) -> &'static [(&'static str, i64)] {
    match of {
        ParamType::Bytes => &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)],
        ParamType::Duration => &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)],
        _ => &[],
    }
}

/// A number in the largest unit in which it is whole, so that different numbers stay different.
fn with_unit(value: i64, units: &[(&str, i64)]) -> String {
    match units.iter().find(|(_, size)| value % size == 0 && (value != 0 || *size == 1)) {
        Some((unit, size)) => format!("{}{unit}", value / size),
        None => value.to_string(),
    }
}

/// Starts the private servers that have ended and should run, and records that. Returns how the first of them ended, or
/// `None` if all run. `has_failed` is true if an operation failed.
///
/// # Errors
/// Fails if a server cannot be started again, or if the event cannot be recorded.
pub fn revived(
    sinks: &Sinks<'_>,
    store: &mut OpenStore,
    trial: Option<u32>,
    label: &str,
    has_failed: bool,
) -> Result<Option<TrialError>, TrialError> {
    let Some(revival) = store.revive(has_failed)? else { return Ok(None) };
    let text = format!("{}; {}", revival.ended, revival.done);
    sinks.event(trial, Level::Warning, EventClass::Store, label, text)?;
    Ok(Some(revival.ended))
}

impl TrialRun<'_, '_> {
    /// Runs the phases in order, until one fails or the user wants an end. If a private server has died, its
    /// acknowledged writes are checked all the same.
    fn phases(&mut self) -> Result<(), TrialError> {
        let mut failed = None;
        for (ordinal, phase) in self.trial.phases.iter().enumerate() {
            if self.context.is_stopped() || self.servers_state.is_dead() {
                break;
            }
            // What a store without power holds is not what it keeps.
            if failed.is_some() && self.has_lost_power().unwrap_or(true) {
                break;
            }
            let is_check = matches!(phase.step, PhaseStep::Check) && !self.directed.has_disk_fault;
            let died = if is_check { self.revive(failed.is_some()).unwrap_or_else(Some) } else { None };
            if failed.is_some() && died.is_none() {
                continue;
            }
            // That it died is why operations failed.
            failed = died.or(failed);
            let done = self.phase(ordinal as u32, phase);
            failed = failed.or(done.err());
        }
        failed.map_or(Ok(()), Err)
    }

    /// Returns the cause of an error of servers that cannot be reached, unless faults or the user's stop are the cause.
    fn cause_of(&self, error: TrialError) -> TrialError {
        let is_known = self.context.is_stopped() || self.was_cut || self.directed.begun > 0 || self.store.is_spent();
        if error.kind == StoreErrorKind::Unreachable && !is_known { self.store.cause_of(error) } else { error }
    }

    /// Removes the nodes that joined during the trial, and starts others with their former programs. A node leaves only
    /// while all others run, so private servers that have ended are started before.
    fn take_back(&mut self) -> Result<(), TrialError> {
        if self.directed.added.is_empty() && self.directed.programs.is_empty() {
            return Ok(());
        }
        if !self.servers_state.is_dead() && !self.store.is_spent() && !self.context.is_stopped() {
            self.revive(false)?;
        }
        director::take_back(self.context, self.trial, self.store, &self.directed)
    }

    /// Starts the private servers that have ended, and returns how the first of them ended.
    fn revive(&mut self, has_failed: bool) -> Result<Option<TrialError>, TrialError> {
        let (trial, label) = (Some(self.trial.ordinal), &self.trial.store.label);
        let ended = revived(self.context.sinks, self.store, trial, label, has_failed)?;
        if ended.is_some() {
            self.server_is_new()?;
        }
        Ok(ended)
    }

    fn phase(&mut self, ordinal: u32, phase: &model::PlannedPhase) -> Result<(), TrialError> {
        match &phase.step {
            PhaseStep::Load { .. } if self.found.data => return Ok(()),
            PhaseStep::Load { .. } if nothing_to_load(&*self.workload) => {
                return self.store.create(self.workload.layout());
            }
            _ => {}
        }
        match self.data_state.before(phase.step.kind()) {
            BeforePhase::Nothing => {}
            BeforePhase::Settle => self.settle_first()?,
            BeforePhase::Skip(why) => {
                let label = &self.trial.store.label;
                let text = format!("{} was skipped: {label} could not be made cold: {why}", phase.name);
                self.context.sinks.show(&Told::Notice(text.clone()));
                return self.event(Level::Info, text);
            }
        }
        let mut end = PhaseEnd { state: PhaseState::Complete, ..PhaseEnd::default() };
        self.size_first(&phase.step, &mut end)?;
        self.promise(&phase.step, &mut end)?;
        let sinks = self.context.sinks;
        let header = self.header(ordinal, phase);
        if matches!(phase.step, PhaseStep::Drive(_)) {
            self.driven_from_ns = header.start_ns;
        }
        sinks.tell(Told::BeginPhase(header, duration(&phase.step)))?;
        if thinks(&phase.step) {
            sinks.show(&Told::Rests);
        }
        let result = match &phase.step {
            // That brings it back by itself.
            PhaseStep::Power { .. } => Ok(true),
            _ => self.come_back(ordinal, &mut end),
        };
        let result = result.and_then(|is_there| if is_there { self.step(ordinal, phase, &mut end) } else { Ok(()) });
        let result = result.or_else(|error| self.answered(error, &mut end));
        end.end_ns = sinks.clock.now_ns();
        // An answer that was not waited for any more is no error of the phase: the user wanted its end.
        let result = result.or_else(|error| if self.context.is_of_stop(&error) { Ok(()) } else { Err(error) });
        if let Err(error) = &result {
            (end.state, end.overloaded) = (PhaseState::Failed(error.line()), false);
        } else if end.state == PhaseState::Complete && self.context.is_stopped() {
            end.state = PhaseState::Interrupted;
        }
        let recorded = sinks.tell(Told::EndPhase(self.trial.ordinal, ordinal, end));
        result?;
        Ok(recorded?)
    }

    /// Returns the header of a phase for the recording, before it is done. The purpose of a rung is recorded for
    /// drives only.
    fn header(&self, ordinal: u32, phase: &model::PlannedPhase) -> PhaseHeader {
        let drive = match &phase.step {
            PhaseStep::Drive(drive) => Some(drive),
            _ => None,
        };
        let (durability, clients) = match &phase.step {
            PhaseStep::Load { clients, durability, .. } => (Some(*durability), *clients),
            PhaseStep::Drive(drive) => (Some(drive.durability), drive.clients),
            PhaseStep::Ask { .. } | PhaseStep::Check => (None, 1),
            PhaseStep::Settle | PhaseStep::Cold | PhaseStep::Restart | PhaseStep::Power { .. } => (None, 0),
        };
        PhaseHeader {
            trial: self.trial.ordinal,
            ordinal,
            name: phase.name.clone(),
            kind: phase.step.kind(),
            rung: self.context.rung.as_ref().filter(|_| drive.is_some()).map(|rung| rung.purpose),
            durability,
            clients,
            workers: drive.map_or(0, |drive| drive.workers),
            rate_per_s: drive.and_then(|drive| drive.pace.rate()?.constant()),
            stages: drive.map_or(Vec::new(), |drive| drive.all_stages().to_vec()),
            op_timeout_ns: drive.map(|drive| drive.op_timeout_ns),
            connect_timeout_ns: drive
                .map(|drive| drive.connect_timeout_ns.unwrap_or(self.context.plan.timeouts.setup_ns)),
            finds_warmup: drive.is_some_and(|drive| drive.warmup_is_found),
            start_ns: self.context.sinks.clock.now_ns(),
        }
    }

    /// The store's own tidying before the first operation that counts.
    fn settle_first(&mut self) -> Result<(), TrialError> {
        let sinks = self.context.sinks;
        let from_ns = sinks.clock.now_ns();
        sinks.show(&Told::Note(format!("{} settles", self.trial.store.label)));
        self.store.settle()?;
        let until_ns = sinks.clock.now_ns();
        let text = format!("settled before the first operation, {:.1} s", (until_ns - from_ns) as f64 / 1e9);
        Ok(sinks.tell(Told::Event(Event {
            from_ns,
            until_ns,
            trial: Some(self.trial.ordinal),
            level: Level::Info,
            class: EventClass::Store,
            subject: self.trial.store.label.clone(),
            text,
        }))?)
    }
}

/// Describes the state that a trial starts from.
fn start_words(start: Start, to_settle: bool) -> &'static str {
    match (start, to_settle) {
        (Start::Fresh, true) => "fresh, settled",
        (start, _) => start.name(),
    }
}

/// Returns true if clients of the phase think between operations.
fn thinks(step: &PhaseStep) -> bool {
    let PhaseStep::Drive(drive) = step else { return false };
    drive.think.is_some() || drive.scenarios.iter().any(|one| one.think.is_some())
}

fn duration(step: &PhaseStep) -> Option<Duration> {
    match step {
        PhaseStep::Drive(model::Drive { limit: model::DriveLimit::DurationNs(ns), warmup_ns, .. }) => {
            Some(Duration::from_nanos(ns + warmup_ns))
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "trial_tests.rs"]
mod tests;
