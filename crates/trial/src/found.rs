//! Size of data that Plimsoll did not load: read from the data, and compared with the plan.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use plimsoll_analysis::number;
use plimsoll_core::{
    Answer, Durability, Extent, KindId, Outcome, ParamValue, Store, StoreErrorKind, Stream, Value, ValueBuf, Workload,
};
use plimsoll_drive::{Drive, DriveSpec, Limit, StopReason};
use plimsoll_plan::model::PlannedTrial;

use crate::drive::{self, Listener};
use crate::error::TrialError;
use crate::phase::RunContext;
use crate::sink::Told;

/// Records that are asked for at once.
const PROBES: u64 = 32;

/// `trial` with the parameter that says how large its data are as the data say; `None` where it is right, or does not
/// matter.
///
/// # Errors
/// A size that the plan gives and the data have not: both are named. There are no data. What the store says.
pub fn fitted(
    context: &RunContext<'_>,
    store: &mut dyn Store,
    trial: &PlannedTrial,
    workload: &Arc<dyn Workload>,
) -> Result<Option<PlannedTrial>, TrialError> {
    let Some(extent) = workload.extent() else { return Ok(None) };
    context.sinks.show(&Told::Note(format!("reading the size of the data on {}", trial.store.label)));
    let durability = trial.drives().next().map_or(Durability::AsConfigured, |(_, drive)| drive.durability);
    let label = &trial.store.label;
    let mut asking = Asking { context, store, label, workload, extent: &extent, durability };
    let found = if extent.by_record { asking.records()? } else { asking.number()? };
    if context.is_stopped() {
        return Ok(None);
    }
    let (name, [one, many], place) = (extent.param, extent.of, &trial.store.label);
    let there = number::plural(found, one, many);
    let assumed = trial.workload.params.int(name).unsigned_abs();
    if found == 0 {
        return Err(TrialError::usage(format!("{place} holds no {many}, which the workload needs"))
            .next("leave --no-load (start = \"as-is\") out, or name a database that holds the data"));
    }
    let is_given = trial.workload.given.iter().any(|given| given == name);
    if is_given && (assumed > found || extent.exact && assumed != found) {
        let what = format!("`{name}` is {assumed}, and {place} holds {there}");
        return Err(TrialError::usage(what).next(format!("write {name}={found}, or leave it out")));
    }
    if is_given || assumed == found {
        return Ok(None);
    }
    let are = if found == 1 { "is" } else { "are" };
    context.sinks.show(&Told::Notice(format!("{place}: {name} = {found}, as there {are} {there}")));
    let mut fitted = trial.clone();
    let found = i64::try_from(found).unwrap_or(i64::MAX);
    fitted.workload.params.0.insert(name.to_owned(), ParamValue::Int(found));
    Ok(Some(fitted))
}

struct Asking<'a, 'b> {
    context: &'a RunContext<'b>,
    store: &'a mut dyn Store,
    label: &'a str,
    workload: &'a Arc<dyn Workload>,
    extent: &'a Extent,
    durability: Durability,
}

impl Asking<'_, '_> {
    /// The number that the store answers with.
    fn number(&mut self) -> Result<u64, TrialError> {
        let heard = self.ask(vec![ValueBuf::new()])?;
        Ok(heard.first().map_or(0, |heard| heard.number))
    }

    /// Returns the number of records, numbered from 0 without a gap: each round narrows it down by [`PROBES`].
    fn records(&mut self) -> Result<u64, TrialError> {
        // In steps of two up to the largest number that a workload may have.
        let (mut low, mut high) = (0, 1 << 40);
        let mut asked: Vec<u64> = (0..40).map(|power| (1 << power) - 1).collect();
        while low < high {
            let there = self.are_there(&asked)?;
            if there.len() < asked.len() {
                return Ok(0);
            }
            // Records `0..low` are there, and record `high` is not.
            match there.iter().position(|there| !there) {
                Some(at) => {
                    high = asked[at];
                    low = if at > 0 { asked[at - 1] + 1 } else { low };
                }
                None => low = asked.last().map_or(low, |last| last + 1),
            }
            let stride = (high - low).div_ceil(PROBES).max(1);
            asked = (low..high).step_by(stride as usize).collect();
        }
        Ok(low)
    }

    fn are_there(&mut self, ids: &[u64]) -> Result<Vec<bool>, TrialError> {
        let params = ids.iter().map(|id| {
            let mut params = ValueBuf::new();
            self.workload.record_key(*id, &mut params);
            params
        });
        let params = params.collect();
        Ok(self.ask(params)?.into_iter().map(|heard| heard.is_there).collect())
    }

    /// Asks once with each of `params`, in order.
    fn ask(&mut self, params: Vec<ValueBuf>) -> Result<Vec<Heard>, TrialError> {
        let (tell, heard) = channel();
        let listen = move |outcome, answer: &Answer| {
            let number = match answer.values.values().iter().next() {
                Some(Value::Int(number)) => number.max(0).unsigned_abs(),
                _ => 0,
            };
            let _ = tell.send(Heard { is_there: outcome == Outcome::Ok && answer.rows > 0, number });
        };
        let kinds = [self.extent.kind.clone()];
        let timeouts = self.context.plan.timeouts;
        // For one number the server may have to read a whole table.
        let op_ns = if self.extent.by_record { timeouts.load_ns } else { timeouts.work_ns };
        let (op_timeout, open_timeout) = (Duration::from_nanos(op_ns), Duration::from_nanos(timeouts.setup_ns));
        let io = self.context.io;
        let spec = DriveSpec {
            limit: Limit::Exhausted,
            op_timeout,
            open_timeout,
            io,
            ends_on_loss: true,
            ..DriveSpec::default()
        };
        let drive = Drive {
            clock: &self.context.sinks.clock,
            spec: &spec,
            sessions: self.store.sessions(1, self.durability)?,
            kinds: &kinds,
            stream: Arc::new(Questions(params)),
            observers: vec![Box::new(Listener(Box::new(listen)))],
            stop: Arc::clone(self.context.spec.stop),
        };
        let driver = self.context.spec.driver;
        let result = driver.drive(drive, &mut |_| {}).map_err(|error| drive::drive_error(self.label, error))?;
        if let StopReason::Refused(error) | StopReason::Lost(error) = result.stop {
            return Err(error);
        }
        // An operation that was stopped has no answer, and its result is not used.
        if let Some(error) = result.errors.first().filter(|_| !self.context.is_stopped()) {
            let what = format!("the size of the data could not be read ({})", self.extent.of[1]);
            return Err(TrialError::new(StoreErrorKind::Store, what)
                .detail(format!("{} {}", error.code, error.message))
                .next(format!("write the size in the plan or with --set {}=N", self.extent.param)));
        }
        Ok(heard.try_iter().collect())
    }
}

/// Parts of an answer that are used.
struct Heard {
    is_there: bool,
    /// The first value of the first row; 0 when it is no number.
    number: u64,
}

struct Questions(Vec<ValueBuf>);

impl Stream for Questions {
    fn op(&self, _client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
        params.extend(self.0.get(usize::try_from(cycle).ok()?)?.values());
        Some(0)
    }
}
