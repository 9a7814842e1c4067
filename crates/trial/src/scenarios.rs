//! Scenarios of one drive: the operation types of each have names of their own, and each client runs those of its
//! scenario.

use std::sync::Arc;

use plimsoll_core::{
    Answer, Extent, KindId, Layout, OpKind, Outcome, Step, Steps, StoreError, Stream, StreamSpec, Truth, ValueBuf,
    Values, Workload,
};
use plimsoll_plan::model::{Drive, PlannedTrial};

use crate::error::TrialError;

/// `workload`, with the operation types of each scenario of `trial` behind its own.
///
/// # Errors
/// An operation type of the workload itself is called as if it were a scenario's, or there are more of them than numbers.
pub fn named(workload: Box<dyn Workload>, trial: &PlannedTrial) -> Result<Arc<dyn Workload>, TrialError> {
    let mut names: Vec<&str> = Vec::new();
    for scenario in trial.drives().flat_map(|(_, drive)| &drive.scenarios) {
        if !names.contains(&scenario.name.as_str()) {
            names.push(&scenario.name);
        }
    }
    if names.is_empty() {
        return Ok(Arc::from(workload));
    }
    let own = workload.kinds().to_vec();
    if let Some((kind, name)) = own.iter().find_map(|kind| Some((kind, names.iter().find(|name| is_of(kind, name))?))) {
        let what = format!("the operation type `{}` has the name of one of the scenario `{name}`", kind.name);
        return Err(TrialError::usage(what).next("give one of the two another name"));
    }
    if KindId::try_from(own.len() * (1 + names.len())).is_err() {
        let what = format!("{} operation types and steps in each of {} scenarios are too many", own.len(), names.len());
        return Err(TrialError::usage(what).next(format!("all scenarios together may have {} of them", KindId::MAX)));
    }
    let mut kinds = own.clone();
    for name in names {
        let first = kinds.len() as KindId;
        kinds.extend(own.iter().map(|kind| OpKind {
            name: format!("{name}/{}", kind.name),
            step_of: kind.step_of.map(|of| first + of),
            ..kind.clone()
        }));
    }
    Ok(Arc::new(Named { workload, kinds }))
}

/// Returns true if an operation type has a name of the scenario.
fn is_of(kind: &OpKind, scenario: &str) -> bool {
    kind.name.strip_prefix(scenario).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns the operations of clients of a drive with scenarios on `workload`, which [`named`] has made.
///
/// # Errors
/// The workload's, of one of them.
pub fn stream(workload: &dyn Workload, drive: &Drive) -> Result<Arc<dyn Stream>, String> {
    let kinds = workload.kinds();
    let clients = drive.clients.saturating_mul(drive.depth);
    let mut parts = Vec::with_capacity(drive.scenarios.len());
    let mut end = 0;
    for scenario in &drive.scenarios {
        let first = kinds
            .iter()
            .position(|kind| is_of(kind, &scenario.name))
            .ok_or_else(|| format!("there is no scenario `{}`", scenario.name))?;
        // Made for all clients, so that no two of them own the same records.
        let stream = workload.stream(&StreamSpec::Mix { mix: scenario.mix.clone(), clients })?;
        end += scenario.clients.saturating_mul(drive.depth);
        parts.push(Part { end, first: first as KindId, stream });
    }
    Ok(Arc::new(Parts(parts)))
}

struct Named {
    workload: Box<dyn Workload>,
    kinds: Vec<OpKind>,
}

impl Workload for Named {
    fn layout(&self) -> &Layout {
        self.workload.layout()
    }

    fn kinds(&self) -> &[OpKind] {
        &self.kinds
    }

    fn stream(&self, spec: &StreamSpec) -> Result<Box<dyn Stream>, String> {
        self.workload.stream(spec)
    }

    fn place(&self, kind: KindId) -> Option<String> {
        self.workload.place(kind % self.workload.kinds().len() as KindId)
    }

    fn extent(&self) -> Option<Extent> {
        self.workload.extent()
    }

    fn record_key(&self, id: u64, params: &mut ValueBuf) {
        self.workload.record_key(id, params);
    }

    fn truth(&self) -> Option<&dyn Truth> {
        self.workload.truth()
    }

    fn record_count(&self) -> u64 {
        self.workload.record_count()
    }

    fn record_bytes(&self) -> u64 {
        self.workload.record_bytes()
    }
}

/// Scenarios in the order of their clients.
struct Parts(Vec<Part>);

struct Part {
    /// Number after that of its last client.
    end: u32,
    /// Position of the first of its operation types.
    first: KindId,
    stream: Box<dyn Stream>,
}

impl Parts {
    fn of(&self, client: u32) -> Option<&Part> {
        self.0.iter().find(|part| client < part.end)
    }
}

impl Stream for Parts {
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
        let part = self.of(client)?;
        part.stream.op(client, cycle, params).map(|kind| part.first + kind)
    }

    fn steps(&self, client: u32) -> Option<Box<dyn Steps>> {
        let part = self.of(client)?;
        part.stream.steps(client).map(|steps| Box::new(Renamed { first: part.first, steps }) as Box<dyn Steps>)
    }
}

/// Steps of operations of a scenario's types.
struct Renamed {
    first: KindId,
    steps: Box<dyn Steps>,
}

impl Steps for Renamed {
    fn begin(&mut self, cycle: u64, kind: KindId, params: Values<'_>) {
        self.steps.begin(cycle, kind - self.first, params);
    }

    fn next(&mut self, params: &mut ValueBuf) -> Step {
        match self.steps.next(params) {
            Step::Send { kind, more } => Step::Send { kind: self.first + kind, more },
            Step::End { kind, outcome } => Step::End { kind: self.first + kind, outcome },
            other => other,
        }
    }

    fn answered(&mut self, outcome: Outcome, answer: &Answer) {
        self.steps.answered(outcome, answer);
    }

    fn failure(&self, answer: &mut Answer) {
        self.steps.failure(answer);
    }

    fn mistake(&self) -> Option<StoreError> {
        self.steps.mistake()
    }
}

#[cfg(test)]
#[path = "scenarios_tests.rs"]
mod tests;
