//! `plimsoll run`: plan, run, report.

use std::path::Path;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Parser;
use plimsoll_analysis::ab::AbSpec;
use plimsoll_analysis::view::VerdictState;
use plimsoll_core::{Catalogue, shown};
use plimsoll_drive::RealTime;
use plimsoll_plan::model::Plan;
use plimsoll_record::data::{Phase, PhaseKind, PhaseState, Run, RunState};
use plimsoll_trial::{Cells, ForkedSink, RunSpec, Sink, TrialError};

use crate::args::{Cli, OutputArgs, PlannedArgs, RunArgs, Telling, Verb};
use crate::browser;
use crate::calibration::Calibration;
use crate::error::{self, exit};
use crate::gadget::Gadget;
use crate::interrupt;
use crate::listen::{self, Listening};
use crate::live::LiveDisplay;
use crate::options;
use crate::plans::{self, Passwords};
use crate::progress::Progress;
use crate::secrets;
use crate::verbs::{again, drive, honesty, report};

/// Most characters of a tag.
const TAG_MAX: usize = 40;

/// Runs `plimsoll run`. Returns the exit code: whether every goal held.
pub fn run(catalogue: &Catalogue, args: &RunArgs) -> Result<u8, TrialError> {
    let mut passwords = Passwords::of_options(args.password_file.as_deref(), &[])?;
    if let Some(wanted) = &args.resume {
        return resume(catalogue, args, wanted, &mut passwords);
    }
    let (mut plan, text) = plans::load(catalogue, &args.planned, &mut passwords)?;
    plans::leave_out(catalogue, &mut plan, &args.planned)?;
    run_plan(catalogue, &plan, &text, &How::strict(args.strict), &passwords, &args.telling)
}

/// Continues the run `wanted`: with the options of `args` if these name a plan, else with its own.
fn resume(catalogue: &Catalogue, args: &RunArgs, wanted: &str, passwords: &mut Passwords) -> Result<u8, TrialError> {
    let runs_dir = plimsoll_record::default_runs_dir()?;
    let newest = if again::NEWEST.contains(&wanted) { "latest" } else { wanted };
    let run = again::unfinished(&runs_dir, wanted, &plimsoll_record::find(&runs_dir, newest)?)?;
    let refused = |what: &str, next: String| {
        Err(TrialError::usage(format!("--resume {wanted}: the run {} {what}", run.header.id)).next(next))
    };
    let outline = &run.header.outline;
    if !outline.cells.is_empty() {
        return refused("is one of `plimsoll promise`", format!("plimsoll promise --resume {}", run.header.id));
    }
    if outline.line.is_some() || outline.ab.is_some() {
        let next = format!("start it again: {}", again::command(&run));
        return refused("decides each step by those before it, and cannot be continued", next);
    }
    let is_named = args.planned.plan.plan.is_some();
    let own = match Cli::try_parse_from(&run.header.command_line).map(|parsed| parsed.verb) {
        _ if is_named => Verb::Run(Box::new(args.clone())),
        _ if args.planned != PlannedArgs::default() || args.strict => {
            return refused("has its own options", "name its plan, too, or give --resume alone".to_owned());
        }
        Ok(verb) => verb,
        Err(_) => {
            return refused("has a command line that cannot be read", "give its options beside --resume".to_owned());
        }
    };
    // The recorded command line has `***` for passwords.
    let masked = &mut Passwords::default();
    let of_urls = if is_named { &mut *passwords } else { masked };
    let ((plan, text), strict) = match &own {
        Verb::Run(before) => {
            let (mut plan, text) = plans::load(catalogue, &before.planned, of_urls)?;
            plans::leave_out(catalogue, &mut plan, &before.planned)?;
            ((plan, text), before.strict)
        }
        Verb::Drive(before) => (drive::planned(catalogue, before, of_urls)?, before.strict),
        _ => return refused("is none of `plimsoll run` or `plimsoll drive`", "start it again".to_owned()),
    };
    again::must_be(&run, &plan)?;
    again::await_healing()?;
    let how = How { before: Some(&run), ..How::strict(strict) };
    run_plan(catalogue, &plan, &text, &how, passwords, &args.telling)
}

/// Options of running a plan.
#[derive(Debug, Default)]
pub struct How<'a> {
    /// Decision between the plan's two trials, in turn.
    pub ab: Option<&'a AbSpec>,
    /// Cells: separate trials.
    pub cells: Option<&'a Cells<'a>>,
    /// Run of the same plan that is continued.
    pub before: Option<&'a Run>,
    /// A phase in which the generator was late is void.
    pub strict: bool,
}

impl How<'_> {
    /// Runs trial after trial.
    pub fn strict(strict: bool) -> Self {
        How { strict, ..How::default() }
    }
}

/// Runs the plan in `text`. Returns the exit code: whether every goal held, or the decision.
pub fn run_plan(
    catalogue: &Catalogue,
    plan: &Plan,
    text: &str,
    how: &How<'_>,
    passwords: &Passwords,
    telling: &Telling,
) -> Result<u8, TrialError> {
    let every = telling.output.progress.as_deref().map(|given| options::time("progress", given)).transpose()?;
    let tag = tag(&telling.output)?;
    let runs_dir = plimsoll_record::default_runs_dir()?;
    let listening = listen::start(telling.listen.as_deref())?;
    let stop = interrupt::of_run();
    honesty::sweep(&runs_dir);
    let spec = RunSpec {
        text,
        runs_dir: &runs_dir,
        ab: how.ab,
        cells: how.cells,
        before: how.before,
        login_of: &|url| passwords.of(url),
        strict: how.strict,
        stop: &stop,
        driver: &RealTime,
        tag,
        command_line: secrets::shown_command_line(),
        environment: Calibration::load(&runs_dir).iter().flat_map(Calibration::lines).collect(),
    };
    let progress = Progress::new(telling.output.quiet, every, telling.output.json.then(|| Arc::clone(&stop)));
    let work = |sink: &dyn Sink| plimsoll_trial::run(plan, catalogue, &spec, sink);
    let ended = displayed(telling, &progress, listening.as_ref(), work)?;
    let interrupted = stop.load(Ordering::SeqCst);
    let concluded = conclude(&ended.recording, ended.result, &telling.output);
    listening.into_iter().for_each(Listening::end);
    match concluded? {
        (state, None) => Ok(code_of(state, interrupted)),
        // Cells are independent: a broken promise outweighs an error.
        (VerdictState::Fail, Some(error)) if how.cells.is_some() => {
            crate::say(&error::text(&error));
            Ok(exit::GOAL_MISSED)
        }
        (_, Some(error)) => Err(error),
    }
}

/// Calls `work` with the receivers of a run's events: the displays that `telling` names, and `progress`. On return the
/// terminal is the report's again, also after an error.
///
/// # Errors
/// A display that cannot be opened, and those of `work`.
pub(super) fn displayed<T>(
    telling: &Telling,
    progress: &Progress,
    listening: Option<&Listening>,
    work: impl FnOnce(&dyn Sink) -> Result<T, TrialError>,
) -> Result<T, TrialError> {
    let queued = listening.map(|listening| slice::from_ref(&listening.queued)).unwrap_or_default();
    let display = telling.live.then(|| LiveDisplay::new(progress));
    let direct: &dyn Sink = match &display {
        Some(display) => display,
        None => progress,
    };
    let gadget = Gadget::open(telling.gadget.as_deref(), direct)?;
    work(&ForkedSink { direct: &gadget, queued })
}

/// Returns the tag of a run; empty without one.
pub(super) fn tag(output: &OutputArgs) -> Result<&str, TrialError> {
    let tag = output.tag.as_deref().unwrap_or_default();
    if tag.chars().count() > TAG_MAX || tag.chars().any(|c| c.is_control() || c.is_whitespace()) {
        let what = format!("--tag {}", shown::clean(tag));
        return Err(TrialError::usage(what).next(format!("a tag is one word of at most {TAG_MAX} characters")));
    }
    Ok(tag)
}

/// Returns the exit code of a complete or interrupted run.
pub(super) fn code_of(state: VerdictState, interrupted: bool) -> u8 {
    match state {
        // A promise that was seen to break is broken, however the run ended.
        VerdictState::Fail => exit::GOAL_MISSED,
        _ if interrupted => exit::INTERRUPTED,
        VerdictState::Pass | VerdictState::Measured => exit::OK,
        VerdictState::Incomplete => exit::GOAL_MISSED,
        VerdictState::Undecided => exit::UNDECIDED,
    }
}

/// Report and page; what they say, and what kept the run from its end.
pub(super) fn conclude(
    path: &Path,
    result: Result<(), TrialError>,
    output: &OutputArgs,
) -> Result<(VerdictState, Option<TrialError>), TrialError> {
    let reported = Run::load(path).map_err(TrialError::from).and_then(|mut run| {
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
        if output.json {
            let end = serde_json::json!({"type": "end", "page": page, "recording": path, "report": view});
            crate::print(&format!("{end}\n"))?;
        } else {
            if output.full {
                report::print_text(&view)?;
                crate::print("\n")?;
            } else {
                report::print_short(&view)?;
            }
            crate::print(&format!("page       {}\nrecording  {}\n", page.display(), path.display()))?;
        }
        if output.open {
            browser::open(&page);
        }
        Ok(view.verdict.state)
    });
    match (result, reported) {
        (Err(error), Ok(state)) => Ok((state, Some(error))),
        (Err(error), Err(_)) | (Ok(()), Err(error)) => Err(error),
        (Ok(()), Ok(state)) => Ok((state, None)),
    }
}

/// Returns true if the error is all there is to report: the run ended before it began, or on a mistake in the request
/// before the first operation that would have counted.
fn is_all_there_is(error: &TrialError, run: &Run) -> bool {
    let counts = |phase: &Phase| {
        matches!(phase.header.kind, PhaseKind::Ask | PhaseKind::Drive)
            && !(phase.slices.is_empty() && phase.end.asked.is_empty())
    };
    run.trials.is_empty()
        || (error::code(error.kind) == exit::USAGE && !run.trials.iter().flat_map(|trial| &trial.phases).any(counts))
}

/// Shortens a text that a report prints right above the error: the error itself contains it in full.
fn leave_to_the_error(run: &mut Run) {
    const BELOW: &str = "see the error below";
    let RunState::Failed(why) = std::mem::replace(&mut run.state, RunState::Failed(BELOW.to_owned())) else { return };
    for phase in run.trials.iter_mut().flat_map(|trial| &mut trial.phases) {
        if phase.end.state == PhaseState::Failed(why.clone()) {
            phase.end.state = PhaseState::Failed(BELOW.to_owned());
        }
    }
}
