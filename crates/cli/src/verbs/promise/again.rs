//! Going on with a run of promises that was killed, or stopped.

use std::path::Path;

use clap::Parser;
use plimsoll_plan::model::Plan;
use plimsoll_record::Glance;
use plimsoll_record::data::Run;
use plimsoll_trial::TrialError;

use crate::args::{Cli, PromiseArgs, Verb};
use crate::verbs::again::{self, NEWEST};
use crate::verbs::promise::{NAME, before};

/// Returns the unfinished run `wanted`.
pub fn find(runs_dir: &Path, wanted: &str) -> Result<Run, TrialError> {
    let path = match before::known(runs_dir).first() {
        Some((id, _)) if NEWEST.contains(&wanted) => runs_dir.join(id),
        _ if NEWEST.contains(&wanted) => {
            return Err(TrialError::usage(format!("--resume {wanted}: there is no run of promises here"))
                .next("leave --resume out"));
        }
        _ => plimsoll_record::find(runs_dir, wanted)?,
    };
    let run = again::unfinished(runs_dir, wanted, &path)?;
    if run.header.outline.cells.is_empty() || run.header.plan_name != NAME {
        let what = format!("--resume {wanted}: the run {} is not a run of `plimsoll promise`", run.header.id);
        return Err(TrialError::usage(what).next("continue it by `plimsoll run --resume`"));
    }
    Ok(run)
}

/// Returns the options of `run`, with output and jobs of `now`.
pub fn options(run: &Run, now: &PromiseArgs) -> Result<PromiseArgs, TrialError> {
    let parsed = Cli::try_parse_from(&run.header.command_line).map(|parsed| parsed.verb);
    let bare = Cli::try_parse_from(["plimsoll", "promise"]).map(|parsed| parsed.verb);
    if let Ok(Verb::Promise(bare)) = bare {
        let PromiseArgs { jobs, all_cuts, resume, telling, .. } = now.clone();
        // Of the same type with the same words is the same.
        if format!("{:?}", PromiseArgs { jobs, all_cuts, resume, telling, ..*bare }) != format!("{now:?}") {
            return Err(TrialError::usage(format!("the run {} has its own options", run.header.id))
                .next("name its stores, too, or give --resume alone, with --jobs and --all-cuts at most"));
        }
    }
    match parsed {
        Ok(Verb::Promise(before)) => Ok(PromiseArgs {
            jobs: now.jobs,
            all_cuts: now.all_cuts || before.all_cuts,
            telling: now.telling.clone(),
            ..*before
        }),
        _ => Err(TrialError::usage(format!("the command line of the run {} cannot be read", run.header.id))
            .next("give its options beside --resume")),
    }
}

/// Returns a hint at a run of the same plan that was killed.
pub fn hint(runs_dir: &Path, known: &[(String, Glance)], plan: &Plan) -> Option<String> {
    let (id, run) = known.first()?;
    let is_same = || run.plan_json == serde_json::to_string(plan).unwrap_or_default();
    // A live run belongs to its own process.
    let is_left = || !run.is_complete && !plimsoll_record::is_live(&runs_dir.join(id));
    (!run.trials.is_empty() && is_left() && is_same()).then(|| {
        let (done, of) = (run.trials.len(), plan.trials.len());
        format!(
            "the run {id} with the same options is unfinished, {done} of {of} cuts are there: --resume latest continues it"
        )
    })
}
