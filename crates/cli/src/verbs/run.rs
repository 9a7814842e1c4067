//! `plimsoll run`: plan, trials, recording, report.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_analysis::ab::AbSpec;
use plimsoll_analysis::view::VerdictState;
use plimsoll_core::{Catalogue, OpenOptions, Store, Target, Waits};
use plimsoll_drive::{Clock, Io, Witness};
use plimsoll_plan::model::{self, Plan, Start, Step, StoreUse, Trial};
use plimsoll_record::Recorder;
use plimsoll_record::data::{
    Event, FigureSpec, GoalSpec, Phase, PhaseState, PublishedSpec, Run, RunHeader, RunState, SamplerSeries,
};

use crate::ab;
use crate::args::RunArgs;
use crate::calibration::Calibration;
use crate::drive_spec;
use crate::error::{CliError, exit};
use crate::found;
use crate::interrupt::Interrupt;
use crate::line;
use crate::needs::Needs;
use crate::phase::Bench;
use crate::plans::{self, Passwords};
use crate::precheck;
use crate::progress::Progress;
use crate::secrets;
use crate::sockets;
use crate::ticker::Ticker;
use crate::trial::{self, Found};
use crate::verbs::{honesty, report};
use crate::writes;

/// Runs what `args` ask for; the exit code says whether every goal held.
pub fn run(catalogue: &Catalogue, args: &RunArgs) -> Result<u8, CliError> {
    let mut passwords = Passwords::default();
    if let Some(path) = &args.password_file {
        passwords.set_default(secrets::read_password_file(path)?);
    }
    let (mut plan, text) = plans::load(catalogue, &args.plan, &mut passwords)?;
    plan.allow_writes |= args.allow_writes;
    run_plan(catalogue, &plan, &text, None, &passwords, args.quiet, args.strict)
}

/// Runs a plan that came of `text`, or where `ab` is given its two trials in turn; the exit code says whether every goal
/// held, or what was decided. `strict`: a phase in which the generator was late is void.
pub fn run_plan(
    catalogue: &Catalogue,
    plan: &Plan,
    text: &str,
    ab: Option<&AbSpec>,
    passwords: &Passwords,
    quiet: bool,
    strict: bool,
) -> Result<u8, CliError> {
    let io = named_io(plan).unwrap_or(Io::Auto);
    let runs_dir = plimsoll_record::default_runs_dir()?;
    let interrupt = Interrupt::install();
    sweep(&runs_dir);
    let mut progress = Progress::new(quiet);
    let id = plimsoll_record::run_id(wall_ns(), random());
    announce(catalogue, plan, ab.is_some(), &runs_dir.join(&id), passwords, &mut progress)?;

    let clock = Clock::start();
    let started_wall_ns = wall_ns();
    let server = plimsoll_sample::ServerProcesses::default();
    let (samplers, unavailable) = plimsoll_sample::open(&plan.samplers, &server);
    let header = header(plan, text, ab, &id, started_wall_ns, &samplers, environment(&runs_dir, io));
    let recorder = Arc::new(Recorder::create(&runs_dir, &header)?);
    if plimsoll_sample::environment::file_system(&runs_dir).is_some_and(|place| place.volatile) {
        let text = format!("{} keeps nothing through a power cut: durable means nothing there", runs_dir.display());
        progress.say(&format!("warning: {text}"));
        recorder.event(Event {
            at_ns: clock.now_ns(),
            trial: None,
            level: "warning".to_owned(),
            kind: "store".to_owned(),
            text,
        })?;
    }
    for (name, why) in unavailable {
        recorder.event(Event {
            at_ns: clock.now_ns(),
            trial: None,
            level: "info".to_owned(),
            kind: "sampler".to_owned(),
            text: format!("{name}: {why}"),
        })?;
    }
    let witness = match Witness::start(&clock) {
        Ok(witness) => Some(witness),
        Err(text) => {
            let (level, kind) = ("info".to_owned(), "witness".to_owned());
            recorder.event(Event { at_ns: clock.now_ns(), trial: None, level, kind, text })?;
            None
        }
    };
    let slice = Duration::from_nanos(plan.slice_ns);
    let ticker = Ticker::start(samplers, slice, clock, Arc::clone(&recorder))
        .map_err(|error| CliError::io("the sampling thread", &error))?;
    let directory = recorder.directory().to_owned();
    let mut bench = Bench {
        clock: &clock,
        recorder: &recorder,
        interrupt: &interrupt,
        progress: &mut progress,
        server: &server,
        slice,
        timeouts: plan.timeouts,
        io,
        witness,
        store_counters: plan.samplers.iter().any(|name| name == plimsoll_sample::STORE.name),
        ledger: None,
        strict,
        server_pin: &plan.server_pin,
        answer_max_bytes: plan.answer_max_bytes,
    };
    let result = trials(catalogue, plan, ab, &mut bench, &directory, passwords);
    drop(ticker);
    progress.clear();
    let state = match &result {
        Err(error) => RunState::Failed(error.one_line()),
        Ok(()) if interrupt.is_set() => RunState::Interrupted,
        Ok(()) => RunState::Complete,
    };
    let end_ns = clock.now_ns();
    let finished = Arc::into_inner(recorder)
        .ok_or_else(|| CliError::new(exit::RECORDING, "the recording is still in use"))
        .and_then(|recorder| Ok(recorder.finish(state, end_ns)?));
    // The first error is the cause; the recording's own comes after.
    let path = match (finished, &result) {
        (Err(error), Ok(())) => return Err(error),
        (Err(_), Err(_)) => directory,
        (Ok(path), _) => path,
    };
    conclude(&path, result, interrupt.is_set())
}

/// Report, page, exit code.
fn conclude(path: &Path, result: Result<(), CliError>, interrupted: bool) -> Result<u8, CliError> {
    let reported = Run::load(path).map_err(CliError::from).and_then(|mut run| {
        if result.as_ref().is_err_and(|error| is_all_there_is(error, &run)) {
            return Ok(VerdictState::Incomplete);
        }
        let mut view = plimsoll_analysis::view(&run);
        let page = report::page_path(path);
        report::write(&page, &plimsoll_report::html(&view))?;
        if result.is_err() {
            leave_to_the_error(&mut run);
            view = plimsoll_analysis::view(&run);
        }
        report::print_text(&view)?;
        crate::print(&format!("\npage       {}\nrecording  {}\n", page.display(), path.display()))?;
        Ok(view.verdict.state)
    });
    match (result, reported) {
        (Err(error), _) => Err(error),
        (Ok(()), Err(error)) => Err(error),
        // A promise that was seen to break is broken, however the run ended.
        (Ok(()), Ok(VerdictState::Fail)) => Ok(exit::GOAL_MISSED),
        (Ok(()), Ok(_)) if interrupted => Ok(exit::INTERRUPTED),
        (Ok(()), Ok(VerdictState::Pass)) => Ok(exit::OK),
        (Ok(()), Ok(VerdictState::Incomplete)) => Ok(exit::GOAL_MISSED),
        (Ok(()), Ok(VerdictState::Undecided)) => Ok(exit::UNDECIDED),
    }
}

/// Whether there is nothing to report but the error: the run ended before it began, or on a mistake in what was asked
/// before the first operation that would have counted.
fn is_all_there_is(error: &CliError, run: &Run) -> bool {
    let counts = |phase: &Phase| {
        matches!(phase.header.kind.as_str(), "ask" | "drive")
            && !(phase.slices.is_empty() && phase.end.asked.is_empty())
    };
    run.trials.is_empty()
        || (error.code == exit::USAGE && !run.trials.iter().flat_map(|trial| &trial.phases).any(counts))
}

/// What a report printed right above the error says of it: the error itself says it in full.
fn leave_to_the_error(run: &mut Run) {
    const BELOW: &str = "see the error below";
    let RunState::Failed(why) = std::mem::replace(&mut run.state, RunState::Failed(BELOW.to_owned())) else { return };
    for phase in run.trials.iter_mut().flat_map(|trial| &mut trial.phases) {
        if phase.end.state == PhaseState::Failed(why.clone()) {
            phase.end.state = PhaseState::Failed(BELOW.to_owned());
        }
    }
}

/// All trials, and afterwards nothing but the recording is left, however they ended.
fn trials(
    catalogue: &Catalogue,
    plan: &Plan,
    ab: Option<&AbSpec>,
    bench: &mut Bench<'_>,
    directory: &Path,
    passwords: &Passwords,
) -> Result<(), CliError> {
    let mut open = None;
    let mut result = match ab {
        Some(spec) => ab::run(catalogue, plan, spec, bench, directory, passwords),
        None => each_trial(catalogue, plan, bench, directory, passwords, &mut open),
    };
    if let Some(open) = open {
        let left = leave(bench, open, result.is_err());
        result = result.and(left);
    }
    // Wherever a server was waited for when the user wanted an end: that is no error.
    result = result.or_else(|error| if error.code == exit::INTERRUPTED { Ok(()) } else { Err(error) });
    // Stores remove their own files; the directories they were given are ours.
    let data = directory.join("data");
    match std::fs::remove_dir_all(&data) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            result.and(Err(CliError::io(data.display(), &error)))
        }
        _ => result,
    }
}

/// A store that is open.
pub(crate) struct Open {
    store_use: StoreUse,
    pub(crate) store: Box<dyn Store>,
    waits: Waits,
}

/// Has a store remove what it made. Where that fails after another failure, or after the user wanted an end, it is said
/// what is left, and no error.
pub(crate) fn leave(bench: &mut Bench<'_>, open: Open, failed: bool) -> Result<(), CliError> {
    let Open { store_use, store, waits } = open;
    waits.leave(failed);
    if failed && store_use.url.is_none() {
        // One that is not closed but dropped knows that something failed, and keeps its server's log.
        drop(store);
        return Ok(());
    }
    let Err(error) = store.close() else { return Ok(()) };
    if !failed && !bench.interrupt.is_set() {
        return Err(error.into());
    }
    let next = error.next.as_ref().map(|next| format!("\n  → {next}")).unwrap_or_default();
    bench.progress.say(&format!("warning: {error}{next}"));
    let text = format!("{error}{}", next.replace('\n', ""));
    let (at_ns, level, kind) = (bench.clock.now_ns(), "warning".to_owned(), "store".to_owned());
    Ok(bench.recorder.event(Event { at_ns, trial: None, level, kind, text })?)
}

/// One trial after the other; one store serves the consecutive trials that use it. The last one stays in `open`.
fn each_trial(
    catalogue: &Catalogue,
    plan: &Plan,
    bench: &mut Bench<'_>,
    directory: &Path,
    passwords: &Passwords,
    open: &mut Option<Open>,
) -> Result<(), CliError> {
    let line = plan.line.as_ref().map(|line| line::spec(line, &goals(plan)));
    let mut rungs = 0;
    let mut before: Option<&Trial> = None;
    for trial in &plan.trials {
        if bench.interrupt.is_set() {
            break;
        }
        bench.progress.trial(trial_name(plan, trial));
        if open.as_ref().is_none_or(|open| open.store_use != trial.store) {
            if let Some(before) = open.take() {
                leave(bench, before, false)?;
            }
            bench.progress.note(&format!("opening {}", trial.store.label));
            *open = Some(open_store(catalogue, &trial.store, directory, &run_id_of(directory), bench, passwords)?);
            before = None;
            bench.ledger = None;
        }
        let Some(Open { store, .. }) = open else { break };
        let Some(kind) = catalogue.store(&trial.store.kind) else { break };
        let (fitted, workload) = fitted(catalogue, plan, trial, bench, &mut **store)?;
        let planned = trial;
        let trial = fitted.as_ref().unwrap_or(trial);
        if let Some(spec) = &line {
            let search = line::Search { plan, trial, spec, workload: &workload, kind: kind.spec(), first: rungs };
            rungs += search.run(bench, &mut **store, directory)?;
            continue;
        }
        let same = before.is_some_and(|before| before.has_same_data(planned) && before.loads() == planned.loads())
            && trial::ledger_goes_on(&*workload);
        let found = Found { start: plan.start, data: same && plan.start != Start::Fresh };
        trial::run(bench, &mut **store, kind.spec(), trial, workload, found)?;
        before = Some(planned);
    }
    Ok(())
}

/// What `trial` asks of `store`, and the trial as it fits what others have made there, where that is taken as it is.
pub(crate) fn fitted(
    catalogue: &Catalogue,
    plan: &Plan,
    trial: &Trial,
    bench: &mut Bench<'_>,
    store: &mut dyn Store,
) -> Result<(Option<Trial>, Arc<dyn plimsoll_core::Workload>), CliError> {
    let workload = make_workload(catalogue, trial)?;
    let as_is = trial.takes_as_is(plan.start);
    store.set_read_only(as_is && !plan.allow_writes);
    let fitted = if as_is { found::fitted(bench, store, trial, &workload)? } else { None };
    let workload = fitted.as_ref().map_or(Ok(workload), |fitted| make_workload(catalogue, fitted))?;
    Ok((fitted, workload))
}

/// What `plan` takes of this machine.
///
/// # Errors
/// A workload that cannot be made of what the plan says.
pub fn needs(catalogue: &Catalogue, plan: &Plan) -> Result<Needs, CliError> {
    let mut needs = Needs::default();
    for trial in &plan.trials {
        let Some(kind) = catalogue.store(&trial.store.kind) else { continue };
        needs.add(trial, &*make_workload(catalogue, trial)?, kind.spec());
    }
    Ok(needs)
}

fn make_workload(catalogue: &Catalogue, trial: &Trial) -> Result<Arc<dyn plimsoll_core::Workload>, CliError> {
    let spec = catalogue
        .workload(&trial.workload.name)
        .ok_or_else(|| CliError::new(exit::USAGE, format!("there is no workload `{}`", trial.workload.name)))?;
    let made = (spec.make)(trial.seed, &trial.workload.params, &trial.workload.scripts);
    made.map(Arc::from).map_err(|error| {
        let told = CliError::new(exit::USAGE, error.what);
        match error.help {
            Some(help) => told.next(help),
            None => told,
        }
    })
}

/// Opens a store; what it makes is marked with `run_id`.
pub(crate) fn open_store(
    catalogue: &Catalogue,
    store_use: &StoreUse,
    directory: &Path,
    run_id: &str,
    bench: &mut Bench<'_>,
    passwords: &Passwords,
) -> Result<Open, CliError> {
    let kind = catalogue
        .store(&store_use.kind)
        .ok_or_else(|| CliError::new(exit::USAGE, format!("there is no store `{}`", store_use.kind)))?;
    let (setup, work) = (Duration::from_nanos(bench.timeouts.setup_ns), Duration::from_nanos(bench.timeouts.work_ns));
    let waits = Waits::new(setup, work, bench.interrupt.flag());
    let options = OpenOptions { waits: waits.clone(), ..options(store_use, directory, run_id, passwords) };
    if let Target::Private { data_dir, .. } = &options.target {
        std::fs::create_dir_all(data_dir).map_err(|error| CliError::io(data_dir.display(), &error))?;
    }
    let progress = &mut *bench.progress;
    let store = kind.open(options, &mut |text| progress.note(text))?;
    Ok(Open { store_use: store_use.clone(), store, waits })
}

/// The id of the run that is recorded in `directory`.
pub(crate) fn run_id_of(directory: &Path) -> String {
    directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn options(store_use: &StoreUse, directory: &Path, run_id: &str, passwords: &Passwords) -> OpenOptions {
    let target = match &store_use.url {
        Some(url) => Target::Attach { url: url.clone(), password: passwords.of(url) },
        None => {
            Target::Private { data_dir: directory.join("data").join(&store_use.label), log_dir: directory.to_owned() }
        }
    };
    OpenOptions { target, params: store_use.params.clone(), run_id: run_id.to_owned(), waits: Default::default() }
}

/// Says what will be done to attached stores, before anything is.
fn announce(
    catalogue: &Catalogue,
    plan: &Plan,
    in_turn: bool,
    directory: &Path,
    passwords: &Passwords,
    progress: &mut Progress,
) -> Result<(), CliError> {
    let mut said = BTreeSet::new();
    let run_id = |label: &str| match in_turn {
        true => ab::side_run_id(&run_id_of(directory), label),
        false => run_id_of(directory),
    };
    precheck::plan(plan)?;
    needs(catalogue, plan)?.must_fit()?;
    for trial in &plan.trials {
        let Some(kind) = catalogue.store(&trial.store.kind) else { continue };
        let workload = make_workload(catalogue, trial)?;
        drive_spec::can_ask(trial, &*workload, kind.spec())?;
        precheck::trial(plan, trial, &*workload, kind.spec())?;
        let mut lines = kind.announce(&options(&trial.store, directory, &run_id(&trial.store.label), passwords))?;
        let changes = writes::allowed(plan, trial, &*workload, kind.spec())?;
        if trial.store.url.is_some() {
            if trial.takes_as_is(plan.start) {
                // Nothing is made there.
                lines.truncate(1);
            }
            lines.push(writes::announced(trial.takes_as_is(plan.start), &changes, kind.spec()));
            for line in lines {
                let line = format!("{}: {line}", trial.store.label);
                if said.insert(line.clone()) {
                    progress.say(&line);
                }
            }
        } else {
            // What is missing for a private server is said before anything is loaded anywhere.
            kind.installed()?;
        }
    }
    Ok(())
}

fn trial_name(plan: &Plan, trial: &Trial) -> String {
    let mut name = format!("{}/{} {}", trial.ordinal + 1, plan.trials.len(), trial.store.label);
    for (label, value) in trial.labels.iter().filter(|(label, _)| *label != "store") {
        name.push_str(&format!(", {label} {value}"));
    }
    name
}

/// Removes the data of runs whose Plimsoll was killed; their recordings stay. What cannot be removed is left for
/// the next time.
fn sweep(runs_dir: &Path) {
    for run in plimsoll_record::list(runs_dir).unwrap_or_default() {
        let data = run.path.join("data");
        if plimsoll_record::is_live(&run.path) || !data.is_dir() {
            continue;
        }
        for store in std::fs::read_dir(&data).into_iter().flatten().flatten() {
            let _ = plimsoll_lab::sweep_orphans(&store.path());
        }
        if std::fs::remove_dir_all(&data).is_ok() {
            crate::say(&format!("removed the data that the killed run {} had left", run.id));
        }
    }
    honesty::sweep(runs_dir);
}

fn header(
    plan: &Plan,
    text: &str,
    ab: Option<&AbSpec>,
    id: &str,
    started_wall_ns: i64,
    samplers: &[Box<dyn plimsoll_core::Sampler>],
    environment: Vec<(String, String)>,
) -> RunHeader {
    let series = samplers
        .iter()
        .flat_map(|sampler| {
            sampler.series().iter().map(|spec| SamplerSeries { sampler: sampler.name().to_owned(), spec: spec.clone() })
        })
        .collect();
    RunHeader {
        id: id.to_owned(),
        plimsoll_version: env!("CARGO_PKG_VERSION").to_owned(),
        plan_name: plan.name.clone(),
        title: plan.title.clone(),
        question: plan.question.clone(),
        source: plan.source.clone(),
        plan_text: text.to_owned(),
        plan_json: plan_json(plan, ab),
        command_line: secrets::shown_command_line(),
        seed: plan.trials.first().map_or(0, |trial| trial.seed),
        slice_ns: plan.slice_ns,
        started_wall_ns,
        environment,
        left_out: plan.left_out.clone(),
        goals: goals(plan),
        figures: plan
            .figures
            .iter()
            .map(|figure| FigureSpec {
                name: figure.name.clone(),
                unit: figure.unit.clone(),
                formula: figure.formula.clone(),
                published: figure.published.iter().map(published).collect(),
            })
            .collect(),
        series,
    }
}

/// How the plan says that sockets are driven, where all of its drives say the same.
fn named_io(plan: &Plan) -> Option<Io> {
    let steps = plan.trials.iter().flat_map(|trial| &trial.phases).map(|phase| &phase.step);
    let mut named = steps.filter_map(|step| match step {
        Step::Drive(drive) => Some(drive.io),
        _ => None,
    });
    let first = named.next()?;
    let io = match first {
        model::Io::Auto => return None,
        model::Io::Epoll => Io::Epoll,
        model::Io::IoUring => Io::Uring,
    };
    named.all(|other| other == first).then_some(io)
}

fn published(one: &plimsoll_plan::Published) -> PublishedSpec {
    PublishedSpec { value: one.value, of: one.of.clone(), at: one.at.clone() }
}

fn goals(plan: &Plan) -> Vec<GoalSpec> {
    plan.goals
        .iter()
        .map(|goal| GoalSpec { what: goal.what.name().to_owned(), limit: goal.limit, unit: goal.unit.clone() })
        .collect()
}

/// The plan as it was expanded; its `line` is the whole spec of the search, its `ab` that of the comparison.
fn plan_json(plan: &Plan, ab: Option<&AbSpec>) -> String {
    let mut json = serde_json::to_value(plan).unwrap_or_default();
    if let Some(line) = &plan.line {
        json["line"] = serde_json::to_value(line::spec(line, &goals(plan))).unwrap_or_default();
    }
    if let Some(ab) = ab {
        json["ab"] = serde_json::to_value(ab).unwrap_or_default();
    }
    json.to_string()
}

/// The machine, and what is known of how well it measures.
fn environment(runs_dir: &Path, io: Io) -> Vec<(String, String)> {
    let mut all = plimsoll_sample::environment(runs_dir);
    all.push(("sockets".to_owned(), sockets::taken(io)));
    all.extend(Calibration::load(runs_dir).iter().flat_map(Calibration::lines));
    all
}

/// Wall time in nanoseconds since 1970; 0 for a clock that stands before.
fn wall_ns() -> i64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as i64)
}

/// 64 bits that differ from run to run, also of two that start in one nanosecond.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
