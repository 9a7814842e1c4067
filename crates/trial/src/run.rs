//! A run from its first word to its last: what is known beforehand, the recording, all trials, and nothing left behind.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plimsoll_analysis::ab::AbSpec;
use plimsoll_analysis::fold::Fold;
use plimsoll_analysis::until::RepeatsFold;
use plimsoll_core::{Catalogue, Password};
use plimsoll_drive::{Driver, Io};
use plimsoll_plan::model::{Plan, PlannedTrial, Start};
use plimsoll_record::Recorder;
use plimsoll_record::data::{EventClass, Level, Outline, Run, RunHeader, RunState};
use plimsoll_record::schema::FILE_NAME;

use crate::ab;
use crate::again;
use crate::cells::{self, Cells};
use crate::data::{self, RunData};
use crate::error::TrialError;
use crate::fine::FineTimes;
use crate::line;
use crate::open::{Open, announce, fitted, leave, reach};
use crate::phase::RunContext;
use crate::sink::{Sink, Sinks, Told};
use crate::sockets;
use crate::trial::{self, TrialStart};
use crate::watch::ReadingRecorder;

/// Options of a run besides its plan.
pub struct RunSpec<'a> {
    /// The plan's own text, for the recording.
    pub text: &'a str,
    /// Directory of recordings.
    pub runs_dir: &'a Path,
    /// The plan's two trials are sides, to be driven in turn until this is decided.
    pub ab: Option<&'a AbSpec>,
    /// The plan's trials are each for itself: cells, to be tried at once.
    pub cells: Option<&'a Cells<'a>>,
    /// Run of the same plan that is continued.
    pub before: Option<&'a Run>,
    /// The URL with its token, and the password, for a store's URL; no password leaves it to the store's own places.
    pub login_of: &'a (dyn Fn(&str) -> (String, Option<Password>) + Sync),
    /// A phase in which the generator was late is void.
    pub strict: bool,
    /// Set when the user wants an end.
    pub stop: &'a Arc<AtomicBool>,
    /// Carries out the drives, and has the run's clock.
    pub driver: &'a dyn Driver,
    /// Command line of the run, without credentials.
    pub command_line: Vec<String>,
    /// The user's word for the run; empty without one.
    pub tag: &'a str,
    /// Facts about the machine besides those that are read here, by name.
    pub environment: Vec<(String, String)>,
}

impl<'a> RunSpec<'a> {
    /// Returns default options: a plan without a text, and URLs of stores as they are.
    pub fn new(runs_dir: &'a Path, stop: &'a Arc<AtomicBool>, driver: &'a dyn Driver) -> Self {
        Self {
            text: "",
            runs_dir,
            ab: None,
            cells: None,
            before: None,
            login_of: &as_given,
            strict: false,
            stop,
            driver,
            command_line: Vec::new(),
            tag: "",
            environment: Vec::new(),
        }
    }
}

/// Returns a store's URL without a login for it.
fn as_given(url: &str) -> (String, Option<Password>) {
    (url.to_owned(), None)
}

/// A run that was recorded.
#[derive(Debug)]
pub struct Ended {
    /// The recording.
    pub recording: PathBuf,
    /// Result of the trials: success if all were completed, or ended by the user.
    pub result: Result<(), TrialError>,
}

/// Runs `plan`, whose stores and workloads stand in `catalogue`; `sink` is told what happens. Stops early, without
/// error, when the user wants an end. What killed runs have left is removed first.
///
/// # Errors
/// What kept it from being recorded: it was refused before anything was started, or the recording failed.
pub fn run(plan: &Plan, catalogue: &Catalogue, spec: &RunSpec<'_>, sink: &dyn Sink) -> Result<Ended, TrialError> {
    sweep(plan, spec.runs_dir, sink);
    let before = spec.before;
    let id = before.map_or_else(|| plimsoll_record::run_id(wall_ns(), random()), |run| run.header.id.clone());
    announce(plan, catalogue, spec, &spec.runs_dir.join(&id), sink)?;

    let clock = spec.driver.clock(before.map_or(0, again::goes_on_ns));
    let started_wall_ns = wall_ns();
    let server = plimsoll_sample::ServerProcesses::default();
    let (samplers, unavailable) = plimsoll_sample::open(&plan.samplers, &server);
    let io = named_io(plan).unwrap_or(Io::Auto);
    let header = before.map_or_else(|| header(plan, spec, id, started_wall_ns, io), |run| run.header.clone());
    let fold = Fold::new(plan.line.is_some() || plan.until.is_some() || spec.ab.is_some());
    let recorder = match before {
        Some(run) => {
            let kept = again::kept(run, plan);
            Recorder::resume(&spec.runs_dir.join(&header.id), &kept, run.series.clone())?
        }
        None => Recorder::create(spec.runs_dir, &header)?,
    };
    let has_faults = plan.trials.iter().flat_map(PlannedTrial::drives).any(|(_, drive)| !drive.faults.is_empty());
    // Of cells no time matters.
    let fine = FineTimes::new(has_faults && spec.cells.is_none());
    let sinks = Sinks { fine, ..Sinks::new(clock, &recorder, sink, fold) };
    sinks.show(&Told::BeginRun(Box::new(header)));
    plan.notices.iter().for_each(|notice| sinks.show(&Told::Notice(notice.clone())));
    if let Some(run) = before {
        let text = again::goes_on_words(run, plan);
        sinks.show(&Told::Notice(text.clone()));
        sinks.event(None, Level::Info, EventClass::Drive, "", text)?;
    }
    let data = data::place(plan, spec);
    if plimsoll_sample::environment::file_system(data).is_some_and(|place| place.volatile) {
        let text = format!("{} keeps no data through a power cut, so `durable` promises nothing there", data.display());
        sinks.show(&Told::Notice(format!("warning: {text}")));
        sinks.event(None, Level::Warning, EventClass::Store, "", text)?;
    }
    for (name, why) in unavailable {
        sinks.event(None, Level::Info, EventClass::Sampler, &name, format!("{name}: {why}"))?;
    }
    let witness = match spec.cells.map_or_else(|| spec.driver.witness(&clock), |_| Ok(None)) {
        Ok(witness) => witness,
        Err(text) => {
            sinks.event(None, Level::Info, EventClass::Witness, "", text)?;
            None
        }
    };
    let mut context = RunContext { witness, ..RunContext::new((plan, catalogue, spec), &sinks, &server, io) };
    let result = std::thread::scope(|scope| {
        let watch = ReadingRecorder { sinks: &sinks, label: "", slice: Duration::from_nanos(plan.slice_ns) };
        let sampling = watch.follow_each(scope, plimsoll_sample::groups(samplers))?;
        let result = trials(&mut context);
        sampling.end();
        result
    });
    let state = match &result {
        Err(error) => RunState::Failed(error.line()),
        Ok(()) if context.is_stopped() => RunState::Interrupted,
        Ok(()) => RunState::Complete,
    };
    let end_ns = clock.now_ns();
    sinks.show(&Told::EndRun(state.clone(), end_ns));
    let directory = recorder.directory().to_owned();
    match (recorder.finish(state, end_ns), result) {
        (Ok(recording), result) => Ok(Ended { recording, result }),
        (Err(error), Ok(())) => Err(error.into()),
        // The first error is the cause; the recording's own comes after.
        (Err(_), result) => Ok(Ended { recording: directory.join(FILE_NAME), result }),
    }
}

/// Runs all trials, and afterwards removes everything but the recording, however they ended.
fn trials(context: &mut RunContext<'_>) -> Result<(), TrialError> {
    let mut open = None;
    let data = RunData::make(context.directory(), context.plan.dir.as_deref())?;
    let mut result = match (context.spec.ab, context.spec.cells) {
        (Some(spec), _) => ab::run(context, spec),
        (None, Some(spec)) => cells::run(context, spec),
        (None, None) => each_trial(context, &mut open),
    };
    if let Some(open) = open {
        let left = leave(context, open, result.is_err());
        result = result.and(left);
    }
    // Wherever a server was waited for when the user wanted an end: that is no error.
    result = result.or_else(|error| if context.is_of_stop(&error) { Ok(()) } else { Err(error) });
    // Stores remove their own files; the directories they were given are ours.
    result.and(data.remove())
}

/// Runs the trials in order, without repeats that are not needed; one store serves the consecutive trials that use it.
/// The last one stays in `open`.
fn each_trial(context: &mut RunContext<'_>, open: &mut Option<Open>) -> Result<(), TrialError> {
    let plan = context.plan;
    let line = plan.line.as_ref().map(|line| line::spec(line, &plan.goals, plan.trials.first()));
    let mut rungs = 0;
    let kept = context.kept();
    let mut repeats = plan.until.map(|until| RepeatsFold::new(until, &plan.figures, &plan.answers));
    if let (Some(repeats), Some(run)) = (&mut repeats, context.spec.before) {
        let trials = run.trials.iter().filter(|trial| kept.contains(&trial.header.ordinal));
        trials.for_each(|trial| repeats.take(trial));
    }
    let mut before: Option<&PlannedTrial> = None;
    for trial in plan.trials.iter().filter(|trial| !kept.contains(&trial.ordinal)) {
        if context.is_stopped() {
            break;
        }
        if repeats.as_ref().is_some_and(|repeats| !repeats.needs(&trial.labels)) {
            continue;
        }
        context.sinks.show(&Told::Next(trial_name(plan, trial)));
        before = before.filter(|_| open.as_ref().is_some_and(|open| open.is_of(&trial.store)));
        let Open { store, .. } = reach(context, open, &trial.store)?;
        let (fitted, workload) = fitted(context, trial, &mut **store)?;
        let planned = trial;
        let trial = fitted.as_ref().unwrap_or(trial);
        if let Some(spec) = &line {
            rungs += line::search(context, store, trial, &workload, spec, rungs)?;
            continue;
        }
        let same = before.is_some_and(|before| before.has_same_data(planned) && before.loads() == planned.loads())
            && trial::goes_on(&*workload);
        let found = TrialStart { start: plan.start, data: same && plan.start != Start::Fresh };
        trial::run(context, store, trial, workload, found)?;
        before = Some(planned);
        if let (Some(repeats), Some((ended, ..))) = (&mut repeats, context.sinks.fold().trial()) {
            repeats.take(ended);
        }
    }
    Ok(())
}

fn trial_name(plan: &Plan, trial: &PlannedTrial) -> String {
    let at_most = if plan.until.is_some() { "≤" } else { "" };
    let mut name = format!("{}/{at_most}{} {}", trial.ordinal + 1, plan.trials.len(), trial.store.label);
    for (label, value) in trial.labels.iter().filter(|(label, _)| *label != "store") {
        name.push_str(&format!(", {label} {value}"));
    }
    name
}

/// Removes the data of runs whose Plimsoll was killed; their recordings stay. What cannot be removed is left for
/// the next time.
fn sweep(plan: &Plan, runs_dir: &Path, sink: &dyn Sink) {
    let told = |id: &str| sink.take(&Told::Notice(format!("removed the data of the killed run {id}")));
    for id in plimsoll_record::ids(runs_dir).unwrap_or_default().into_iter().rev() {
        let path = runs_dir.join(&id);
        let is_over = !plimsoll_record::is_live(&path) && path.join("data").symlink_metadata().is_ok();
        if is_over && remove_data(&path).is_ok() {
            told(&id);
        }
    }
    for (place, _lock) in plan.dir.iter().flat_map(|dir| data::left_in(Path::new(dir))) {
        sweep_stores(&place);
        if std::fs::remove_dir_all(&place).is_ok() {
            told(&data::run_of(&place));
        }
    }
}

/// Removes the data of the run in `directory`, which was killed, with its servers and disks.
///
/// # Errors
/// As the operating system says.
pub fn remove_data(directory: &Path) -> Result<(), TrialError> {
    let data = directory.join("data");
    // A link to anything but a directory made for this run is not followed.
    if let Some(made) = data::data_elsewhere(directory).or_else(|| Some(data).filter(|data| !data.is_symlink())) {
        sweep_stores(&made);
    }
    data::remove(directory)
}

/// Removes servers and disks of killed runs from the directories of stores in `data`.
fn sweep_stores(data: &Path) {
    for store in std::fs::read_dir(data).into_iter().flatten().flatten() {
        plimsoll_lab::sweep_disks(&store.path());
        let _ = plimsoll_lab::sweep_orphans(&store.path());
    }
}

fn header(plan: &Plan, spec: &RunSpec<'_>, id: String, started_wall_ns: i64, io: Io) -> RunHeader {
    let mut environment = plimsoll_sample::environment(data::place(plan, spec));
    environment.push(("sockets".to_owned(), sockets::taken(io)));
    environment.extend_from_slice(&spec.environment);
    RunHeader {
        id,
        plimsoll_version: env!("CARGO_PKG_VERSION").to_owned(),
        plan_name: plan.name.clone(),
        title: plan.title.clone(),
        question: plan.question.clone(),
        answers: plan.answers.clone(),
        worthless: plan.worthless.clone(),
        source: plan.source.clone(),
        plan_text: spec.text.to_owned(),
        plan_json: serde_json::to_string(plan).unwrap_or_default(),
        outline: Outline {
            trials: plan.trials.len() as u32,
            until: plan.until,
            line: plan.line.as_ref().map(|line| line::spec(line, &plan.goals, plan.trials.first())),
            ab: spec.ab.cloned(),
            cells: spec.cells.map_or_else(Vec::new, |cells| cells.cells.to_vec()),
            watched: false,
        },
        command_line: spec.command_line.clone(),
        tag: spec.tag.to_owned(),
        seed: plan.trials.first().map_or(0, |trial| trial.seed),
        slice_ns: plan.slice_ns,
        started_wall_ns,
        environment,
        left_out: plan.left_out.clone(),
        notices: plan.notices.clone(),
        goals: plan.goals.clone(),
        figures: plan.figures.clone(),
    }
}

/// Returns the plan's setting for sockets, if all of its drives agree.
fn named_io(plan: &Plan) -> Option<Io> {
    let mut named = plan.trials.iter().flat_map(PlannedTrial::drives).map(|(_, drive)| drive.io);
    let first = named.next().filter(|io| *io != Io::Auto)?;
    named.all(|other| other == first).then_some(first)
}

/// Wall time in nanoseconds since 1970; 0 for a clock that stands before.
pub(crate) fn wall_ns() -> i64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as i64)
}

/// 64 bits that differ from run to run, also of two that start in one nanosecond.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
