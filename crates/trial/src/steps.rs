//! Work of a phase, step by step of the plan: load, ask, drive, settle, cold, restart, check.

mod load;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::{
    AnswerTally, ColdStart, CutMoment, Durability, OpKind, SeriesKind, StoreErrorKind, Stream, StreamSpec, ValueBuf,
    read_probes, waits,
};
use plimsoll_drive::{DriveResult, DriveSpec, Limit, StopReason, Witness};
use plimsoll_plan::model::{self, PhaseStep};
use plimsoll_plan::show_ns;
use plimsoll_plan::timeline::{FaultAction, PlannedFault};
use plimsoll_record::data::{About, Asked, Event, EventClass, Level, PhaseEnd, PhaseResult, PhaseState, ResultName};

use crate::check;
use crate::disturbance;
use crate::drive::Driven;
use crate::drive_spec::{self, mix};
use crate::error::TrialError;
use crate::expected;
use crate::phase::TrialRun;
use crate::pin;
use crate::scenarios;
use crate::sink::Told;
use crate::state::DataState;
pub(crate) use load::{load_depth, load_operations};

impl TrialRun<'_, '_> {
    /// Performs the step of `phase`; `end` receives its results.
    pub(crate) fn step(
        &mut self,
        ordinal: u32,
        phase: &model::PlannedPhase,
        end: &mut PhaseEnd,
    ) -> Result<(), TrialError> {
        match &phase.step {
            PhaseStep::Load { batch, clients, durability } => self.load(ordinal, *batch, *clients, *durability, end),
            PhaseStep::Ask { op, count, op_timeout_ns } => self.ask(ordinal, op, *count, *op_timeout_ns, end),
            PhaseStep::Drive(drive) => self.drive(ordinal, drive, end),
            PhaseStep::Settle => {
                let written = self.written_bytes();
                let started = Instant::now();
                self.store.settle()?;
                end.push(ResultName::Seconds, started.elapsed().as_secs_f64());
                self.push_written(end, written);
                self.size_settled(end)
            }
            PhaseStep::Cold => self.cold(end),
            PhaseStep::Restart => {
                let started = Instant::now();
                self.store.restart()?;
                self.server_is_new()?;
                end.push(ResultName::Seconds, started.elapsed().as_secs_f64());
                Ok(())
            }
            PhaseStep::Power { survivors } => self.power(ordinal, *survivors, end),
            PhaseStep::Check => check::run(self, ordinal, end),
        }
    }

    /// Returns the first cycle of a phase. Phases differ in their operations, also in a trial that continues with its
    /// data.
    fn first_cycle(&self, ordinal: u32) -> u64 {
        // Without a ledger the writers need not be distinguished.
        let Some(ledger) = &self.ledger else { return u64::from(self.trial.ordinal) << 40 | u64::from(ordinal) << 32 };
        // As stamps hold them: 40 bits of a cycle, of which 8 say which phase it is of those on the same data.
        let before = u64::from(ledger.trials_before()) * self.trial.phases.len() as u64;
        (before + u64::from(ordinal)) << 32
    }

    fn ask(
        &mut self,
        ordinal: u32,
        op: &str,
        count: u32,
        op_timeout_ns: u64,
        end: &mut PhaseEnd,
    ) -> Result<(), TrialError> {
        let stream = self.stream(&StreamSpec::One { kind: op.to_owned(), clients: 1 })?;
        let mut params = ValueBuf::new();
        let Some(kind) = stream.op(0, 0, &mut params) else { return Ok(()) };
        let spec = DriveSpec {
            limit: Limit::Ops(u64::from(count)),
            op_timeout: Duration::from_nanos(op_timeout_ns),
            each_max: count as usize,
            ..self.spec()
        };
        let result = self.driven(Driven::measured(ordinal, 1, Durability::AsConfigured, &stream, spec))?;
        let mut each = result.each.clone();
        each.sort_by_key(|op| op.sent_ns);
        let asked = each.iter().map(|op| Asked {
            kind: op.kind,
            start_ns: op.sent_ns,
            end_ns: op.end_ns,
            outcome: op.outcome,
            rows: op.rows,
        });
        end.asked = asked.collect();
        self.push_totals(end, &result);
        ended(&result, end, false)?;
        // Afterwards: before, it would warm what may have to be cold.
        if !self.context.is_stopped() && end.state == PhaseState::Complete {
            let kinds: Vec<OpKind> = self.workload.kinds().to_vec();
            if let Some(words) = self.store.explain(&kinds[usize::from(kind)], params.values())? {
                end.remarks.push((About::Plan, words));
            }
        }
        Ok(())
    }

    /// Waits until servers answer that commands of the user have healed.
    fn await_healed(&mut self, faults: &[PlannedFault]) {
        let is_healed = |fault: &PlannedFault| matches!(fault.what, FaultAction::Command { heal: Some(_), .. });
        if faults.iter().any(is_healed) {
            let bound = Duration::from_nanos(self.context.plan.timeouts.setup_ns);
            disturbance::await_answers(&mut self.probes, bound, || self.context.is_stopped());
        }
    }

    fn drive(&mut self, ordinal: u32, drive: &model::Drive, end: &mut PhaseEnd) -> Result<(), TrialError> {
        let stream = match drive.scenarios.is_empty() {
            true => self.stream(&mix(drive))?,
            false => scenarios::stream(&*self.workload, drive).map_err(TrialError::usage)?,
        };
        let seed = self.trial.seed ^ self.first_cycle(ordinal);
        let networks = drive.client_hosts.map_or(Ok(Vec::new()), |hosts| self.store.client_hosts(hosts))?;
        let first_cycle = self.first_cycle(ordinal);
        let spec = DriveSpec { first_cycle, networks, ..drive_spec::of(drive, seed, &self.spec()) };
        if let Some(disk) = self.store.power_switch() {
            disk.drive()?;
        }
        let written = self.written_bytes();
        let cycles = self.reached(Self::cycles)?;
        let witness_ns = self.context.witness.as_ref().map(Witness::cpu_ns);
        let driven = Driven::measured(ordinal, drive.clients, drive.durability, &stream, spec);
        let power_cut = drive.power_cut.map(|cut| (cut, drive.power_node));
        let faults = (drive.faults.clone(), seed);
        let result = self.driven(Driven { power_cut, faults, ..driven })?;
        self.await_healed(&drive.faults);
        self.record_operations(ordinal, drive, &result)?;
        self.push_not_done(power_cut.map(|(cut, _)| cut), end)?;
        if let Some(seconds) = self.directed.join_s.take() {
            end.push(ResultName::JoinSeconds, seconds);
        }
        end.push(ResultName::Seconds, (result.end_ns - result.measured_from_ns) as f64 / 1e9);
        self.push_totals(end, &result);
        if let model::DriveLimit::DurationNs(ns) = drive.limit {
            let planned_ns = result.planned_end_ns.map_or(ns, |end_ns| end_ns.saturating_sub(result.measured_from_ns));
            end.push(ResultName::PlannedSeconds, planned_ns as f64 / 1e9);
        }
        if self.has_lost_power()? {
            // No server is left to ask. Errors of sessions after that are expected.
            return Ok(());
        }
        // Nothing when its answer is not needed any more.
        let counted = match self.cycles() {
            Err(error) if self.context.is_of_stop(&error) => Ok(BTreeMap::new()),
            // A cluster may not have come to itself yet.
            Err(error) if !drive.faults.is_empty() => self.said(error.line(), end).map(|()| BTreeMap::new()),
            // A node that others have ended, while the rest of the cluster works.
            Err(error) if error.kind == StoreErrorKind::Unreachable && self.is_cluster() => {
                let text = format!("counters of operations were not read at the phase's end: {}", error.line());
                self.event(Level::Info, text).map(|()| BTreeMap::new())
            }
            Err(error) => self.answered(error, end).map(|()| BTreeMap::new()),
            counted => counted,
        };
        for (subject, ended) in counted? {
            let value = (ended - cycles.get(&subject).copied().unwrap_or(0.0)).max(0.0);
            end.results.push(PhaseResult { name: ResultName::Cycles, subject, value, n: 1 });
        }
        if self.context.rung.is_some()
            && !self.context.is_stopped()
            && let Some(cycle) = self.store.cycle()?
        {
            let drove_s = result.end_ns.saturating_sub(result.start_ns) as f64 / 1e9;
            if !cycle.by_work {
                end.push(ResultName::CycleSeconds, cycle.seconds);
            } else if drove_s > 0.0 {
                let operations = cycle.seconds * (result.ops + result.warmup_ops) as f64 / drove_s;
                end.push(ResultName::CycleOperations, operations);
            }
            if cycle.by_work || self.context.rung.as_ref().is_some_and(|rung| rung.ordinal == 0) {
                end.remarks.push((About::Cycle, cycle.words));
            }
        }
        if let (Some(witness), Some(before_ns)) = (&self.context.witness, witness_ns) {
            end.push(ResultName::WitnessCpuSeconds, witness.cpu_ns().saturating_sub(before_ns) as f64 / 1e9);
        }
        end.push(ResultName::Unfinished, result.unfinished as f64);
        push_connections(&result, end);
        end.results.extend(result.answers.iter().flat_map(answers));
        end.results.extend(expected::results(drive, &result));
        push_lag(&result, end);
        end.push(ResultName::InvoluntarySwitches, result.involuntary_switches as f64);
        self.push_written(end, written);
        ended(&result, end, self.context.spec.strict)?;
        // That a rate is not carried is what a rung is there to find out.
        if matches!(end.state, PhaseState::Failed(_))
            && result.stop == StopReason::Backlog
            && self.context.rung.is_some()
        {
            end.state = PhaseState::Complete;
        }
        let is_by_fault = self.directed.healing_ns.take().is_some_and(|healing_ns| {
            // What waited for the server meanwhile may be given up that much later.
            healing_ns.saturating_add(drive.backlog_ns.max(drive.op_timeout_ns)) >= result.end_ns
        });
        if (self.directed.has_disk_fault || is_by_fault)
            && matches!(result.stop, StopReason::Backlog | StopReason::Hung)
            && let PhaseState::Failed(text) = std::mem::replace(&mut end.state, PhaseState::Complete)
        {
            if self.directed.has_disk_fault {
                self.servers_state.hurt();
            } else if result.stop == StopReason::Backlog {
                let mut what =
                    "the load was cut short during a fault: set a larger `backlog` to drive it to its end".to_owned();
                // All clients may wait for servers that are gone, while others would answer.
                if drive.op_timeout_ns >= drive.backlog_ns {
                    let timeout = show_ns(drive.op_timeout_ns);
                    what += &format!(", or an `op_timeout` shorter than {timeout}, for which clients waited at most");
                }
                end.remarks.push((About::NotDone, what));
            }
            self.said(text, end)?;
        }
        if result.lost_connections > 0 {
            self.servers_state.hurt();
        }
        match self.directed.ended.take().filter(|_| !self.context.is_stopped()) {
            // On a broken disk, and with less memory, that is an answer.
            Some(ended) if self.directed.has_disk_fault || drive.faults.iter().any(PlannedFault::is_of_limit) => {
                self.said(format!("a server ended: {}", ended.line()), end)
            }
            ended => ended.map_or(Ok(()), Err),
        }
    }

    /// Records what the plan wanted during a drive that ended before that came. The user's own end of it needs no word.
    fn push_not_done(&mut self, power_cut: Option<CutMoment>, end: &mut PhaseEnd) -> Result<(), TrialError> {
        let mut missed = std::mem::take(&mut self.directed.missed);
        if self.context.is_stopped() {
            return Ok(());
        }
        if let (Some(moment), Some(switch)) = (power_cut, self.store.power_switch()) {
            let text = format!("{moment} had not come when the phase ended: the power was cut then");
            match switch.cut()? {
                Some(cut) if moment.has_come(cut.writes, cut.flushes) => {}
                Some(_) => self.event(Level::Warning, text)?,
                // Sessions were closed before that, and may have made all durable.
                None => missed.push(text),
            }
        }
        for text in missed {
            self.event(Level::Warning, text.clone())?;
            end.remarks.push((About::NotDone, text));
        }
        Ok(())
    }

    fn cold(&mut self, end: &mut PhaseEnd) -> Result<(), TrialError> {
        let started = Instant::now();
        let not_cold = match self.store.cold()? {
            ColdStart::Done { file_bytes, resident_bytes } => {
                self.server_is_new()?;
                end.push(ResultName::Seconds, started.elapsed().as_secs_f64());
                end.push(ResultName::FileBytes, file_bytes as f64);
                end.push(ResultName::ResidentBytes, resident_bytes as f64);
                still_warm(file_bytes, resident_bytes)
            }
            ColdStart::NotPossible(why) => Some(why),
        };
        end.remarks.extend(not_cold.iter().map(|why| (About::NotCold, why.clone())));
        self.data_state = not_cold.map_or(DataState::Ready, DataState::NotCold);
        Ok(())
    }

    /// Updates the sampled processes, and their pinning, after a restart of the server.
    pub(crate) fn server_is_new(&mut self) -> Result<(), TrialError> {
        self.context.server.set(self.store.sites());
        pin::server(&self.store.sites(), &self.context.plan.server_pin)
    }

    /// Returns the parameters that all phases of a run share.
    pub(crate) fn spec(&self) -> DriveSpec {
        let (slice, io, witness) = (self.context.slice(), self.context.io, self.context.witness.clone());
        let open_timeout = Duration::from_nanos(self.context.plan.timeouts.setup_ns);
        DriveSpec { slice, preview: true, io, witness, open_timeout, ..DriveSpec::default() }
    }

    /// Returns the counters of work that the store puts off under load, summed over its nodes; none if the user may not
    /// read them.
    fn cycles(&mut self) -> Result<BTreeMap<String, f64>, TrialError> {
        let mut sums = BTreeMap::new();
        let read = match read_probes(&mut self.probes) {
            Err(error) if error.kind == StoreErrorKind::Permission => Vec::new(),
            read => read?,
        };
        for reading in read.into_iter().filter(|reading| reading.kind() == SeriesKind::Cycle) {
            *sums.entry(reading.name.clone()).or_default() += reading.number();
        }
        Ok(sums)
    }

    fn stream(&self, spec: &StreamSpec) -> Result<Arc<dyn Stream>, TrialError> {
        self.workload.stream(spec).map(Arc::from).map_err(TrialError::usage)
    }

    fn push_totals(&self, end: &mut PhaseEnd, result: &DriveResult) {
        end.push(ResultName::Ops, result.ops as f64);
        let stopped: u64 =
            result.errors.iter().filter(|error| error.code == waits::STOPPED).map(|error| error.count).sum();
        if stopped > 0 {
            end.push(ResultName::Stopped, stopped as f64);
        }
        self.tell_errors(end, result);
    }

    /// Reports the number of occurrences of each error.
    pub(crate) fn tell_errors(&self, end: &mut PhaseEnd, result: &DriveResult) {
        // Errors of sessions after a cut are expected, and errors before it may be faults.
        let level = if self.has_lost_power().unwrap_or(false) { Level::Info } else { Level::Warning };
        let (sinks, trial) = (self.context.sinks, Some(self.trial.ordinal));
        let tell = |(from_ns, until_ns), level, class, subject: String, text| {
            // A recording that cannot take it fails the next call that matters.
            let _ = sinks.tell(Told::Event(Event { from_ns, until_ns, trial, level, class, subject, text }));
        };
        for error in &result.errors {
            if error.code != waits::STOPPED {
                let (subject, value) = (error.code.clone(), error.count as f64);
                end.results.push(PhaseResult { name: ResultName::ErrorCode, subject, value, n: 1 });
            }
            let text = format!("{} × {} {}: {}", error.count, error.outcome.name(), error.code, error.message);
            tell((error.first_ns, error.last_ns), level, EventClass::ErrorCode, error.code.clone(), text);
        }
        for hung in &result.hung {
            let client = hung.client;
            let kinds = self.workload.kinds();
            let name = kinds.get(usize::from(hung.kind)).map_or("operation", |kind| &kind.name);
            let text = format!("{name} of client {client} did not return; its outcome is unknown");
            let span = (hung.sent_ns, hung.end_ns);
            tell(span, Level::Error, EventClass::Drive, format!("client {client}"), text);
        }
    }
}

/// Returns the results of answers with a status: how many have each, and the sizes of their bodies.
fn answers(tally: &AnswerTally) -> Vec<PhaseResult> {
    let of = |name, subject: String, value: u64, n: u64| PhaseResult { name, subject, value: value as f64, n };
    let statuses = tally.statuses().into_iter();
    let mut all: Vec<PhaseResult> =
        statuses.map(|(status, count)| of(ResultName::AnswerStatus, status.to_string(), count, count)).collect();
    let sizes = [(ResultName::BodyMedianBytes, tally.bytes_median()), (ResultName::BodyMaxBytes, tally.bytes_max())];
    all.extend(sizes.into_iter().filter_map(|(name, bytes)| Some(of(name, String::new(), bytes?, tally.count()))));
    all
}

/// Records how connections came and went, and what was sent again or not at all.
fn push_connections(result: &DriveResult, end: &mut PhaseEnd) {
    end.push(ResultName::LostConnections, result.lost_connections as f64);
    end.lost_between_ns = result.lost_between_ns;
    end.push(ResultName::EndedConnections, result.ended_connections as f64);
    end.push(ResultName::FailedConnects, result.failed_connects as f64);
    if result.asked_again > 0 {
        end.push(ResultName::AskedAgain, result.asked_again as f64);
    }
    if let Some(counts) = result.retries {
        end.push(ResultName::Retries, counts.retries as f64);
        end.push(ResultName::GivenUp, counts.given_up as f64);
    }
    if let Some(counts) = result.breaker {
        end.push(ResultName::BreakerOpened, counts.opened as f64);
        end.push(ResultName::BreakerRejected, counts.rejected as f64);
    }
    if let Some(connects) = &result.connects {
        end.push(ResultName::Connects, connects.len() as f64);
        let times = [
            (ResultName::ConnectMean, connects.mean() as u64),
            (ResultName::ConnectP50, connects.value_at_quantile(0.5)),
            (ResultName::ConnectP95, connects.value_at_quantile(0.95)),
            (ResultName::ConnectP99, connects.value_at_quantile(0.99)),
        ];
        let result = |(name, ns)| PhaseResult { name, subject: String::new(), value: ns as f64, n: connects.len() };
        end.results.extend(times.map(result));
    }
}

/// Records the generator's own delays.
fn push_lag(result: &DriveResult, end: &mut PhaseEnd) {
    if result.lag.n > 0 {
        let lag = [
            (ResultName::LagP50, result.lag.p50_ns),
            (ResultName::LagP99, result.lag.p99_ns),
            (ResultName::LagMax, result.lag.max_ns),
        ];
        let result = |(name, ns)| PhaseResult { name, subject: String::new(), value: ns as f64, n: result.lag.n };
        end.results.extend(lag.map(result));
    }
}

/// Checks that a phase of operations was completed; returns its error otherwise. `strict`: one with a late generator
/// is void.
fn ended(result: &DriveResult, end: &mut PhaseEnd, strict: bool) -> Result<(), TrialError> {
    if let StopReason::Refused(error) | StopReason::Lost(error) = &result.stop {
        return Err(error.clone());
    }
    // A store is not judged by what the generator did not do.
    let is_cut_short = matches!(result.stop, StopReason::Cancelled | StopReason::Hung);
    end.late = result.late.clone();
    if let Some(why) = end.late.take_if(|_| strict && !is_cut_short) {
        end.state = PhaseState::Void(why);
        return Ok(());
    }
    let failed = match &result.stop {
        StopReason::Behind => "the generator could not keep up this rate",
        StopReason::Backlog if end.late.is_some() => {
            "operations had been due for longer than the backlog, and the generator was late: whether the store carries \
             this rate is undecided"
        }
        StopReason::Backlog => {
            "the store does not carry this rate: operations had been due for longer than the backlog"
        }
        StopReason::Hung => "an operation did not return within its timeout",
        _ => return Ok(()),
    };
    end.state = PhaseState::Failed(failed.to_owned());
    end.overloaded = result.stop == StopReason::Backlog;
    Ok(())
}

/// Returns the reason that a store is not cold although its files should have left the page cache: more than one byte
/// in a hundred stayed. That is so on a file system that lives in memory, from which nothing can be dropped.
fn still_warm(file_bytes: u64, resident_bytes: u64) -> Option<String> {
    (resident_bytes > file_bytes / 100).then(|| {
        let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
        format!(
            "{:.1} of {:.1} MiB of its files stayed in memory; is the run directory on a tmpfs?",
            mib(resident_bytes),
            mib(file_bytes)
        )
    })
}

#[cfg(test)]
#[path = "steps_tests.rs"]
mod tests;
