//! `plimsoll run`: plan, run, report.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll_analysis::ab::AbSpec;
use plimsoll_analysis::view::VerdictState;
use plimsoll_core::{Catalogue, shown};
use plimsoll_plan::model::Plan;
use plimsoll_record::data::{Phase, PhaseKind, PhaseState, Run, RunState};
use plimsoll_trial::{RunSpec, TrialError};

use crate::args::{RunArgs, Telling};
use crate::calibration::Calibration;
use crate::error::{self, exit};
use crate::interrupt;
use crate::options;
use crate::plans::{self, Passwords};
use crate::progress::Progress;
use crate::secrets;
use crate::verbs::{honesty, report};

/// Most characters of a tag.
const TAG_MAX: usize = 40;

/// Runs what `args` ask for; the exit code says whether every goal held.
pub fn run(catalogue: &Catalogue, args: &RunArgs) -> Result<u8, TrialError> {
    let mut passwords = Passwords::of_options(args.password_file.as_deref(), &[])?;
    let (mut plan, text) = plans::load(catalogue, &args.plan, &mut passwords)?;
    plan.allow_writes |= args.allow_writes;
    plan.dir = args.dir.clone().or(plan.dir);
    run_plan(catalogue, &plan, &text, None, &passwords, &args.telling, args.strict)
}

/// Runs a plan that came of `text`, or where `ab` is given its two trials in turn; the exit code says whether every goal
/// held, or what was decided. `strict`: a phase in which the generator was late is void.
pub fn run_plan(
    catalogue: &Catalogue,
    plan: &Plan,
    text: &str,
    ab: Option<&AbSpec>,
    passwords: &Passwords,
    telling: &Telling,
    strict: bool,
) -> Result<u8, TrialError> {
    let every = telling.progress.as_deref().map(|given| options::time("progress", given)).transpose()?;
    let tag = telling.tag.as_deref().unwrap_or_default();
    if tag.chars().count() > TAG_MAX || tag.chars().any(|c| c.is_control() || c.is_whitespace()) {
        let what = format!("--tag {}", shown::clean(tag));
        return Err(TrialError::usage(what).next(format!("a tag is one word of at most {TAG_MAX} characters")));
    }
    let runs_dir = plimsoll_record::default_runs_dir()?;
    let stop = interrupt::of_run();
    honesty::sweep(&runs_dir);
    let spec = RunSpec {
        text,
        runs_dir: &runs_dir,
        ab,
        cells: None,
        password_of: &|url| passwords.of(url),
        strict,
        stop: &stop,
        tag,
        command_line: secrets::shown_command_line(),
        environment: Calibration::load(&runs_dir).iter().flat_map(Calibration::lines).collect(),
    };
    let progress = Progress::new(telling.quiet, every, telling.json.then(|| Arc::clone(&stop)));
    let ended = plimsoll_trial::run(plan, catalogue, &spec, &progress)?;
    conclude(&ended.recording, ended.result, stop.load(Ordering::SeqCst), telling.json)
}

/// Report, page, exit code.
fn conclude(path: &Path, result: Result<(), TrialError>, interrupted: bool, json: bool) -> Result<u8, TrialError> {
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
        if json {
            let end = serde_json::json!({"type": "end", "page": page, "recording": path, "report": view});
            crate::print(&format!("{end}\n"))?;
        } else {
            report::print_text(&view)?;
            crate::print(&format!("\npage       {}\nrecording  {}\n", page.display(), path.display()))?;
        }
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
fn is_all_there_is(error: &TrialError, run: &Run) -> bool {
    let counts = |phase: &Phase| {
        matches!(phase.header.kind, PhaseKind::Ask | PhaseKind::Drive)
            && !(phase.slices.is_empty() && phase.end.asked.is_empty())
    };
    run.trials.is_empty()
        || (error::code(error.kind) == exit::USAGE && !run.trials.iter().flat_map(|trial| &trial.phases).any(counts))
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
