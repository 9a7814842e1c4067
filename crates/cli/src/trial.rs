//! One trial: its phases, in order, on one store, into the recording.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_analysis::line::CYCLE_RESULT;
use plimsoll_core::{Cold, CounterSort, Durability, OpKind, Store, StoreSpec, Stream, StreamSpec, ValueBuf, Workload};
use plimsoll_drive::{DriveResult, DriveSpec, Limit, StopReason};
use plimsoll_plan::model::{self, Start, Step};
use plimsoll_record::data::{Asked, Event, PhaseEnd, PhaseHeader, PhaseState, TrialHeader};
use plimsoll_verify::Ledger;

use crate::check;
use crate::error::{CliError, exit};
use crate::phase::{Bench, Driven, Keep, TrialRun, push};
use crate::pin;
use crate::written::Written;

/// How much earlier than an operation is due a spinning worker wakes up.
const SPIN: Duration = Duration::from_micros(50);
/// Longest a load or a check may leave one operation unanswered.
const BULK_OP_TIMEOUT: Duration = Duration::from_secs(120);

/// What a trial finds.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    /// What the plan wants it to start from.
    pub start: Start,
    /// The store holds what this trial's load would make, left by the trial before.
    pub data: bool,
}

/// Runs the trial on a store of the kind that `spec` describes. Stops early, without error, when the user wants an end.
///
/// # Errors
/// What the store or the recording failed with; the recording says in which phase.
pub fn run(
    bench: &mut Bench<'_>,
    store: &mut dyn Store,
    spec: &StoreSpec,
    trial: &model::Trial,
    workload: Arc<dyn Workload>,
    found: Found,
) -> Result<(), CliError> {
    bench.server.set(store.processes());
    pin::server(store, bench.server_pin)?;
    let description = store.describe()?;
    let mut params = workload_params(trial);
    let start = if found.data { found.start } else { Start::Fresh };
    params.insert("start".to_owned(), start_words(start, found.start).to_owned());
    bench.recorder.begin_trial(TrialHeader {
        ordinal: trial.ordinal,
        store: trial.store.kind.clone(),
        store_label: trial.store.label.clone(),
        place: description.place,
        version: description.version,
        settings: description.settings,
        workload: trial.workload.name.clone(),
        params,
        labels: trial.labels.clone(),
        kinds: workload.kinds().to_vec(),
        record_count: workload.record_count(),
        record_bytes: workload.record_bytes(),
        start_ns: bench.clock.now_ns(),
    })?;
    // What keeps nothing has nothing to be held against.
    let ledger = if spec.keeps_data { Ledger::new(Arc::clone(&workload)) } else { None };
    let embedded = spec.schemes.is_empty();
    // What is to be taken as it is has been made by somebody else.
    if !trial.loads() && !found.data && found.start != Start::AsIs {
        store.create(workload.layout())?;
    }
    let mut run = TrialRun {
        bench,
        store,
        embedded,
        trial,
        workload,
        ledger,
        answers_checked: false,
        not_cold: None,
        found,
        to_settle: found.start == Start::Settled,
    };
    let phases = run.phases();
    // A phase that failed makes no wrong answer before it right.
    let checked = run.check_answers();
    phases.and(checked)?;
    run.bench.recorder.end_trial(trial.ordinal, run.bench.clock.now_ns())?;
    Ok(())
}

fn workload_params(trial: &model::Trial) -> std::collections::BTreeMap<String, String> {
    let shown = |value: &plimsoll_core::ParamValue| match value {
        plimsoll_core::ParamValue::Bool(value) => value.to_string(),
        plimsoll_core::ParamValue::Int(value) => value.to_string(),
        plimsoll_core::ParamValue::Text(value) => value.clone(),
    };
    let own = trial.workload.params.0.iter().map(|(name, value)| (name.clone(), shown(value)));
    let stores =
        trial.store.params.0.iter().map(|(name, value)| (format!("{}.{name}", trial.store.kind), shown(value)));
    own.chain(stores).collect()
}

impl TrialRun<'_, '_> {
    /// One phase after the other, until one fails or the user wants an end.
    fn phases(&mut self) -> Result<(), CliError> {
        for (ordinal, phase) in self.trial.phases.iter().enumerate() {
            self.phase(ordinal as u32, phase)?;
            if self.bench.interrupt.is_set() {
                break;
            }
        }
        Ok(())
    }

    fn phase(&mut self, ordinal: u32, phase: &model::Phase) -> Result<(), CliError> {
        match &phase.step {
            Step::Load { .. } if self.found.data => return Ok(()),
            Step::Settle | Step::Cold | Step::Restart => self.to_settle = false,
            Step::Ask { .. } | Step::Drive(_) if self.to_settle => self.settle_first()?,
            _ => {}
        }
        // A question to a store that was to be cold and is not would be a wrong figure.
        if let (Some(why), Step::Ask { .. }) = (self.not_cold.take(), &phase.step) {
            let text = format!("{} was left out: {} could not be made cold: {why}", phase.name, self.trial.store.label);
            self.bench.progress.say(&text);
            self.bench.recorder.event(Event {
                at_ns: self.bench.clock.now_ns(),
                trial: Some(self.trial.ordinal),
                level: "info".to_owned(),
                kind: "store".to_owned(),
                text,
            })?;
            return Ok(());
        }
        let (durability, clients, rate_per_s) = shape(&phase.step);
        self.bench.progress.phase(&phase.name, duration(&phase.step));
        self.bench.recorder.begin_phase(PhaseHeader {
            trial: self.trial.ordinal,
            ordinal,
            name: phase.name.clone(),
            kind: kind_name(&phase.step).to_owned(),
            durability: durability.map(|durability| durability.name().to_owned()),
            clients,
            rate_per_s,
            start_ns: self.bench.clock.now_ns(),
        })?;
        let mut end = PhaseEnd { state: PhaseState::Complete, ..PhaseEnd::default() };
        let result = self.step(ordinal, phase, &mut end);
        end.end_ns = self.bench.clock.now_ns();
        if let Err(error) = &result {
            end.state = PhaseState::Failed(error.one_line());
        } else if end.state == PhaseState::Complete && self.bench.interrupt.is_set() {
            end.state = PhaseState::Interrupted;
        }
        let recorded = self.bench.recorder.end_phase(self.trial.ordinal, ordinal, end);
        result?;
        Ok(recorded?)
    }

    fn step(&mut self, ordinal: u32, phase: &model::Phase, end: &mut PhaseEnd) -> Result<(), CliError> {
        match &phase.step {
            Step::Load { batch, clients, durability } => self.load(ordinal, *batch, *clients, *durability, end),
            Step::Ask { op, count, op_timeout_ns } => self.ask(ordinal, op, *count, *op_timeout_ns, end),
            Step::Drive(drive) => self.drive(ordinal, drive, end),
            Step::Settle => {
                let written = Written::before(&*self.store, self.embedded, self.bench.recorder);
                let started = Instant::now();
                self.store.settle()?;
                push(end, "seconds", "s", started.elapsed().as_secs_f64(), 1);
                if let Some(bytes) = written.bytes_since(&*self.store, self.embedded, self.bench.recorder) {
                    push(end, "device_bytes", "B", bytes as f64, 1);
                }
                end.footprint = Some(self.store.footprint()?);
                Ok(())
            }
            Step::Cold => self.cold(end),
            Step::Restart => {
                let started = Instant::now();
                self.store.restart()?;
                self.server_is_new()?;
                push(end, "seconds", "s", started.elapsed().as_secs_f64(), 1);
                Ok(())
            }
            Step::Check => check::run(self, ordinal, end),
        }
    }

    /// Operations of one phase are others than those of another, also of a trial that goes on with its data.
    fn first_cycle(&self, ordinal: u32) -> u64 {
        // As stamps hold them: 40 bits of a cycle, and a plan has at most 200 phases. Without a ledger there are no
        // stamps, and trials may go on where others ended.
        let trial = if self.workload.truth().is_none() { u64::from(self.trial.ordinal) } else { 0 };
        trial << 40 | u64::from(ordinal) << 32
    }

    /// The store's own tidying before the first operation that counts.
    fn settle_first(&mut self) -> Result<(), CliError> {
        self.to_settle = false;
        let started = Instant::now();
        self.bench.progress.note(&format!("{} settles", self.trial.store.label));
        self.store.settle()?;
        self.bench.recorder.event(Event {
            at_ns: self.bench.clock.now_ns(),
            trial: Some(self.trial.ordinal),
            level: "info".to_owned(),
            kind: "store".to_owned(),
            text: format!("settled before the first operation, {:.1} s", started.elapsed().as_secs_f64()),
        })?;
        Ok(())
    }

    fn load(
        &mut self,
        ordinal: u32,
        batch: u32,
        clients: u32,
        durability: Durability,
        end: &mut PhaseEnd,
    ) -> Result<(), CliError> {
        let written = Written::before(&*self.store, self.embedded, self.bench.recorder);
        let making = Instant::now();
        self.store.create(self.workload.layout())?;
        if filled_by_statements(&*self.workload) {
            self.store.after_load(self.workload.layout())?;
            return self.end_load(making.elapsed().as_secs_f64(), durability, &written, end);
        }
        let stream: Arc<dyn Stream> =
            self.workload.stream(&StreamSpec::Load { batch, clients }).map(Arc::from).map_err(no_stream)?;
        let written = Written::before(&*self.store, self.embedded, self.bench.recorder);
        let spec = DriveSpec { limit: Limit::Exhausted, op_timeout: BULK_OP_TIMEOUT, ..self.spec() };
        let result = self.driven(Driven {
            ordinal,
            clients,
            durability,
            stream: Arc::clone(&stream),
            spec,
            measured: true,
            keep: Keep::Nothing,
        })?;
        // Opening the sessions is not part of the load: the drive's own clock says when the first insert was due.
        let mut seconds = (result.end_ns - result.start_ns) as f64 / 1e9;
        if result.stop != StopReason::Cancelled {
            let finishing = Instant::now();
            self.store.after_load(self.workload.layout())?;
            seconds += finishing.elapsed().as_secs_f64();
        }
        self.end_load(seconds, durability, &written, end)?;
        self.push_totals(end, &result);
        if result.stop != StopReason::Cancelled {
            self.must_have_succeeded("load", &result)?;
        }
        Ok(())
    }

    /// The one sync of `at-end`, and what the load came to.
    fn end_load(
        &mut self,
        mut seconds: f64,
        durability: Durability,
        written: &Written,
        end: &mut PhaseEnd,
    ) -> Result<(), CliError> {
        if durability == Durability::AtEnd {
            let syncing = Instant::now();
            self.store.sync()?;
            let sync_seconds = syncing.elapsed().as_secs_f64();
            seconds += sync_seconds;
            push(end, "sync_seconds", "s", sync_seconds, 1);
        }
        push(end, "seconds", "s", seconds, 1);
        let records = self.workload.record_count();
        if records > 0 {
            push(end, "records", "", records as f64, 1);
        }
        if let Some(bytes) = written.bytes_since(&*self.store, self.embedded, self.bench.recorder) {
            push(end, "device_bytes", "B", bytes as f64, 1);
        }
        Ok(())
    }

    fn ask(
        &mut self,
        ordinal: u32,
        op: &str,
        count: u32,
        op_timeout_ns: u64,
        end: &mut PhaseEnd,
    ) -> Result<(), CliError> {
        let stream: Arc<dyn Stream> = self
            .workload
            .stream(&StreamSpec::One { kind: op.to_owned(), clients: 1 })
            .map(Arc::from)
            .map_err(no_stream)?;
        let mut params = ValueBuf::new();
        let Some(kind) = stream.op(0, 0, &mut params) else { return Ok(()) };
        let rows = Keep::row_counts(count);
        let spec = DriveSpec {
            limit: Limit::Ops(u64::from(count)),
            op_timeout: Duration::from_nanos(op_timeout_ns),
            keep_each: true,
            ..self.spec()
        };
        let result = self.driven(Driven {
            ordinal,
            clients: 1,
            durability: Durability::Durable,
            stream: Arc::clone(&stream),
            spec,
            measured: true,
            keep: rows.clone(),
        })?;
        let mut each = result.each.clone();
        each.sort_by_key(|op| op.sent_ns);
        let rows = rows.taken_counts();
        end.asked = each
            .iter()
            .enumerate()
            .map(|(position, op)| Asked {
                kind: op.kind,
                start_ns: op.sent_ns,
                end_ns: op.end_ns,
                outcome: op.outcome,
                rows: rows.get(position).copied().unwrap_or(0),
            })
            .collect();
        self.push_totals(end, &result);
        ended(&result, end)?;
        // Afterwards: before, it would warm what may have to be cold.
        if !self.bench.interrupt.is_set() && end.state == PhaseState::Complete {
            let kinds: Vec<OpKind> = self.workload.kinds().to_vec();
            if let Some(words) = self.store.explain(&kinds[usize::from(kind)], params.values())? {
                end.remarks.push(("plan of the store".to_owned(), words));
            }
        }
        Ok(())
    }

    fn drive(&mut self, ordinal: u32, drive: &model::Drive, end: &mut PhaseEnd) -> Result<(), CliError> {
        let stream: Arc<dyn Stream> = self.workload.stream(&mix(drive)).map(Arc::from).map_err(no_stream)?;
        let spec = DriveSpec {
            limit: match drive.limit {
                model::Limit::DurationNs(ns) => Limit::Duration(Duration::from_nanos(ns)),
                model::Limit::OpsPerClient(ops) => Limit::Ops(ops),
            },
            warmup: Duration::from_nanos(drive.warmup_ns),
            pace: pace(drive, self.trial.seed ^ self.first_cycle(ordinal)),
            op_timeout: Duration::from_nanos(drive.op_timeout_ns),
            depth: drive.depth,
            backlog: Duration::from_nanos(drive.backlog_ns),
            wake: match drive.wake {
                model::Wake::Precise => plimsoll_drive::Wake::Precise,
                model::Wake::Spin => plimsoll_drive::Wake::Spin(SPIN),
                model::Wake::Coarse => plimsoll_drive::Wake::Coarse,
            },
            io: match drive.io {
                model::Io::Auto => self.bench.io,
                model::Io::Epoll => plimsoll_drive::Io::Epoll,
                model::Io::IoUring => plimsoll_drive::Io::Uring,
            },
            pin: drive.pin.clone(),
            workers: drive.workers,
            first_cycle: self.first_cycle(ordinal),
            ..self.spec()
        };
        let written = Written::before(&*self.store, self.embedded, self.bench.recorder);
        let cycles = cycles(self.store)?;
        let result = self.driven(Driven {
            ordinal,
            clients: drive.clients,
            durability: drive.durability,
            stream: Arc::clone(&stream),
            spec,
            measured: true,
            keep: Keep::Nothing,
        })?;
        push(end, "seconds", "s", (result.end_ns - result.measured_from_ns) as f64 / 1e9, 1);
        self.push_totals(end, &result);
        if let model::Limit::DurationNs(ns) = drive.limit {
            push(end, "planned_seconds", "s", ns as f64 / 1e9, 1);
        }
        for (name, ended) in self::cycles(self.store)? {
            let before = cycles.iter().find(|(other, _)| *other == name).map_or(0.0, |(_, before)| *before);
            push(end, &format!("{CYCLE_RESULT}{name}"), "", (ended - before).max(0.0), 1);
        }
        push(end, "unfinished", "", result.unfinished as f64, 1);
        push(end, "lost_connections", "", result.lost_connections as f64, 1);
        if result.lag.n > 0 {
            push(end, "lag_p50", "ns", result.lag.p50_ns as f64, result.lag.n);
            push(end, "lag_p99", "ns", result.lag.p99_ns as f64, result.lag.n);
            push(end, "lag_max", "ns", result.lag.max_ns as f64, result.lag.n);
        }
        push(end, "involuntary_switches", "", result.involuntary_switches as f64, 1);
        if let Some(bytes) = written.bytes_since(&*self.store, self.embedded, self.bench.recorder) {
            push(end, "device_bytes", "B", bytes as f64, 1);
        }
        ended(&result, end)?;
        // That a rate is not carried is what a rung is there to find out.
        if result.stop == StopReason::Backlog && self.trial.labels.contains_key("rung") {
            end.state = PhaseState::Complete;
        }
        Ok(())
    }

    fn cold(&mut self, end: &mut PhaseEnd) -> Result<(), CliError> {
        let started = Instant::now();
        match self.store.cold()? {
            Cold::Done { file_bytes, resident_bytes } => {
                self.server_is_new()?;
                push(end, "seconds", "s", started.elapsed().as_secs_f64(), 1);
                push(end, "file_bytes", "B", file_bytes as f64, 1);
                push(end, "resident_bytes", "B", resident_bytes as f64, 1);
                self.not_cold = still_warm(file_bytes, resident_bytes);
            }
            Cold::NotPossible(why) => self.not_cold = Some(why),
        }
        end.remarks.extend(self.not_cold.iter().map(|why| ("not possible".to_owned(), why.clone())));
        Ok(())
    }

    /// After its server has been started again.
    fn server_is_new(&mut self) -> Result<(), CliError> {
        self.bench.server.set(self.store.processes());
        pin::server(self.store, self.bench.server_pin)
    }

    fn spec(&self) -> DriveSpec {
        DriveSpec { slice: self.bench.slice, io: self.bench.io, ..DriveSpec::default() }
    }

    fn push_totals(&mut self, end: &mut PhaseEnd, result: &DriveResult) {
        push(end, "ops", "", result.ops as f64, 1);
        for error in &result.errors {
            let text = format!("{} × {} {}: {}", error.count, error.outcome.name(), error.code, error.message);
            // A recording that cannot take it fails the next call that matters.
            let _ = self.bench.recorder.event(Event {
                at_ns: result.end_ns,
                trial: Some(self.trial.ordinal),
                level: "warning".to_owned(),
                kind: "error-code".to_owned(),
                text,
            });
        }
        for hung in &result.hung {
            let _ = self.bench.recorder.event(Event {
                at_ns: result.end_ns,
                trial: Some(self.trial.ordinal),
                level: "error".to_owned(),
                kind: "drive".to_owned(),
                text: format!(
                    "operation {} of client {} did not return; its outcome is unknown",
                    hung.cycle, hung.client
                ),
            });
        }
    }
}

/// What the store counts of the work that it puts off under load.
fn cycles(store: &mut dyn Store) -> Result<Vec<(&'static str, f64)>, CliError> {
    let counters = store.counters()?;
    Ok(counters
        .into_iter()
        .filter(|counter| counter.sort == CounterSort::Cycle)
        .map(|counter| (counter.name, counter.value))
        .collect())
}

/// The drive's own words for when operations start. A ramp takes as long as its phase.
fn pace(drive: &model::Drive, seed: u64) -> plimsoll_drive::Pace {
    use plimsoll_drive::{Arrivals, Pace, Shape};
    let time = Duration::from_nanos;
    let model::Pace::Open { rate, arrivals } = &drive.pace else { return Pace::Closed };
    let shape = match rate {
        model::Rate::Recorded(times) => return Pace::Recorded(times.as_slice().into()),
        model::Rate::Constant(rate) => Shape::Constant { rate_per_s: *rate },
        model::Rate::Ramp(from, to) => {
            let over = match drive.limit {
                model::Limit::DurationNs(ns) => time(ns),
                // At the rates in between, this is how long that many operations take.
                model::Limit::OpsPerClient(ops) => {
                    Duration::from_secs_f64((ops * u64::from(drive.clients)) as f64 * 2.0 / (from + to))
                }
            };
            Shape::Ramp { from_per_s: *from, to_per_s: *to, over }
        }
        model::Rate::Steps { rates, each_ns } => {
            Shape::Steps(rates.iter().map(|rate| (time(*each_ns), *rate)).collect())
        }
        model::Rate::Spike { base, peak, at_ns, for_ns } => {
            Shape::Spike { base_per_s: *base, peak_per_s: *peak, at: time(*at_ns), length: time(*for_ns) }
        }
        model::Rate::Sine { mean, amplitude, period_ns } => {
            Shape::Sine { mean_per_s: *mean, amplitude_per_s: *amplitude, period: time(*period_ns) }
        }
    };
    let arrivals = match arrivals {
        model::Arrivals::Even => Arrivals::Even,
        model::Arrivals::Poisson => Arrivals::Poisson { seed },
    };
    Pace::Open { shape, arrivals }
}

/// Whether a phase of operations came to its end, or what it ended with instead.
fn ended(result: &DriveResult, end: &mut PhaseEnd) -> Result<(), CliError> {
    if let StopReason::Refused(error) | StopReason::Lost(error) = &result.stop {
        return Err(error.clone().into());
    }
    // A store is not judged by what the generator did not do.
    let is_cut_short = matches!(result.stop, StopReason::Cancelled | StopReason::Hung);
    if let Some(why) = result.void.as_ref().filter(|_| !is_cut_short) {
        end.state = PhaseState::Void(why.clone());
        return Ok(());
    }
    let failed = match &result.stop {
        StopReason::Backlog => {
            "the store does not carry this rate: operations had been due for longer than the backlog"
        }
        StopReason::Hung => "an operation did not return within its timeout",
        _ => return Ok(()),
    };
    end.state = PhaseState::Failed(failed.to_owned());
    Ok(())
}

/// Why a store whose files should have left the page cache is not cold: more than one byte in a hundred stayed.
/// That is so on a file system that lives in memory, from which nothing can be dropped.
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

/// Whether `workload` has what every phase of `trial` asks for, and the store speaks it; an error says which has not.
pub fn can_ask(trial: &model::Trial, workload: &dyn Workload, store: &StoreSpec) -> Result<(), CliError> {
    for phase in &trial.phases {
        let spec = match &phase.step {
            Step::Load { batch, clients, .. } if !filled_by_statements(workload) => {
                StreamSpec::Load { batch: *batch, clients: *clients }
            }
            Step::Ask { op, .. } => StreamSpec::One { kind: op.clone(), clients: 1 },
            Step::Drive(drive) => mix(drive),
            _ => continue,
        };
        workload.stream(&spec).map_err(|why| CliError::new(exit::USAGE, format!("phase {}: {why}", phase.name)))?;
        if let Some((kind, interface)) = unspoken(&spec, workload, store) {
            let (phase, store) = (&phase.name, store.name);
            let what = format!("phase {phase}: the store `{store}` does not speak `{interface}`, which `{kind}` needs");
            return Err(CliError::new(exit::USAGE, what).next("name another store, or leave this kind out"));
        }
    }
    Ok(())
}

/// The operations of a drive. Each place in a pipeline is a client of its own.
fn mix(drive: &model::Drive) -> StreamSpec {
    StreamSpec::Mix { mix: drive.mix.clone(), clients: drive.clients.saturating_mul(drive.depth) }
}

/// A kind that `spec` asks for, and the interface it needs that the store does not speak. A workload may have kinds that
/// not every store of its own interfaces can do.
fn unspoken<'w>(spec: &StreamSpec, workload: &'w dyn Workload, store: &StoreSpec) -> Option<(&'w str, &'static str)> {
    let asked = |name: &str| match spec {
        StreamSpec::Load { .. } => false,
        StreamSpec::One { kind, .. } => kind == name,
        StreamSpec::Mix { mix, .. } => mix.iter().any(|(kind, share)| kind == name && *share > 0),
    };
    workload.kinds().iter().filter(|kind| asked(&kind.name)).find_map(|kind| {
        let interface = kind.interface().filter(|interface| !store.interfaces.contains(interface))?;
        Some((kind.name.as_str(), interface.name()))
    })
}

/// Whether making the layout is the whole load: its statements fill what they make, or there is nothing to fill.
fn filled_by_statements(workload: &dyn Workload) -> bool {
    workload.layout().collections.is_empty() && workload.stream(&StreamSpec::Load { batch: 1, clients: 1 }).is_err()
}

/// What a trial starts from, in words.
fn start_words(start: Start, wanted: Start) -> &'static str {
    match (start, wanted) {
        (Start::Fresh, Start::Settled) => "fresh, settled",
        (start, _) => start.name(),
    }
}

fn no_stream(why: String) -> CliError {
    CliError::new(exit::USAGE, why)
}

fn kind_name(step: &Step) -> &'static str {
    match step {
        Step::Load { .. } => "load",
        Step::Ask { .. } => "ask",
        Step::Drive(_) => "drive",
        Step::Settle => "settle",
        Step::Cold => "cold",
        Step::Restart => "restart",
        Step::Check => "check",
    }
}

/// Durability, clients and rate, as far as the step has them.
fn shape(step: &Step) -> (Option<Durability>, u32, Option<f64>) {
    match step {
        Step::Load { clients, durability, .. } => (Some(*durability), *clients, None),
        Step::Ask { .. } => (None, 1, None),
        Step::Drive(drive) => {
            let rate = match &drive.pace {
                model::Pace::Closed => None,
                model::Pace::Open { rate, .. } => rate.constant(),
            };
            (Some(drive.durability), drive.clients, rate)
        }
        Step::Settle | Step::Cold | Step::Restart => (None, 0, None),
        Step::Check => (None, 1, None),
    }
}

fn duration(step: &Step) -> Option<Duration> {
    match step {
        Step::Drive(model::Drive { limit: model::Limit::DurationNs(ns), warmup_ns, .. }) => {
            Some(Duration::from_nanos(ns + warmup_ns))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::still_warm;

    #[test]
    fn files_that_stay_in_memory_are_not_cold() {
        assert_eq!(still_warm(0, 0), None);
        assert_eq!(still_warm(41_758_325, 8_192), None);
        // As seen on a tmpfs: SQLite's one file, and fjall's with a journal of 64 MiB that is mostly a hole.
        assert!(still_warm(1_363_968, 1_363_968).is_some_and(|why| why.starts_with("1.3 of 1.3 MiB")));
        assert!(still_warm(67_808_013, 2_093_056).is_some());
    }
}
