//! Continuing a run that was killed or stopped: which run it is, and what forbids it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use plimsoll_core::shell_word;
use plimsoll_lab::UserCommand;
use plimsoll_plan::model::Plan;
use plimsoll_record::data::{Run, RunState};
use plimsoll_trial::TrialError;

/// Words that mean the newest run.
pub const NEWEST: [&str; 2] = ["last", "latest"];

/// Time between two looks whether faults of killed runs are healed.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Returns the unfinished run at `path`, which `wanted` names.
///
/// # Errors
/// Fails if it still goes on, cannot be read, is not in `runs_dir`, or is complete. Nothing is changed.
pub fn unfinished(runs_dir: &Path, wanted: &str, path: &Path) -> Result<Run, TrialError> {
    let directory = if path.is_file() { path.parent().unwrap_or(path) } else { path };
    if plimsoll_record::is_live(directory) {
        return Err(plimsoll_record::RecordError::Live(directory.to_owned()).into());
    }
    let run = Run::load(path)?;
    let refused = |what: &str| TrialError::usage(format!("--resume {wanted}: the run {} {what}", run.header.id));
    // The id in a recording names the directory in which the run continues.
    let own = plimsoll_record::ids(runs_dir)?.into_iter().find(|id| *id == run.header.id).map(|id| runs_dir.join(id));
    let is_own = own.is_some_and(|own| own.canonicalize().ok() == directory.canonicalize().ok());
    if !is_own {
        let what = format!("is not in {}, in a directory with its id", runs_dir.display());
        return Err(refused(&what).next("`plimsoll runs` lists the runs"));
    }
    if run.state == RunState::Complete {
        return Err(refused("is complete").next("leave --resume out to start again"));
    }
    Ok(run)
}

/// Waits until the commands that killed runs left have healed their faults.
///
/// # Errors
/// Fails if they do not end. Nothing is changed.
pub fn await_healing() -> Result<(), TrialError> {
    let until = Instant::now() + UserCommand::LEFT_BOUND;
    let mut is_told = false;
    while UserCommand::are_left() {
        if !is_told {
            crate::say("waiting until the commands of a killed run have healed its fault");
            is_told = true;
        }
        if Instant::now() > until {
            let what = "the commands of a killed run still run (processes called plimsoll-command)";
            return Err(TrialError::usage(what).next("end them, heal the fault, and then resume the run"));
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(())
}

/// Fails if `run` has another plan or version.
pub fn must_be(run: &Run, plan: &Plan) -> Result<(), TrialError> {
    let refused = |what: &str| TrialError::usage(format!("the run {} {what}", run.header.id));
    if run.header.plimsoll_version != env!("CARGO_PKG_VERSION") {
        let what = format!("was begun by Plimsoll {}: no other version can continue it", run.header.plimsoll_version);
        return Err(refused(&what).next("leave --resume out"));
    }
    let json = serde_json::to_string(plan).unwrap_or_default();
    if run.header.plan_json != json {
        let (then, now) = (csv_files(&run.header.plan_json), csv_files(&json));
        if let Some((file, was, is)) = then.iter().find_map(|(file, was)| {
            let is = now.get(file).filter(|is| *is != was)?;
            Some((file, was, is))
        }) {
            let what = format!("began with another {file}: {was}, and now {is}");
            return Err(refused(&what).next("restore the file, or leave --resume out"));
        }
        let next = format!(
            "its command was: {}; give the same options and the same files, or leave --resume out",
            command(run)
        );
        return Err(refused("has another plan than these options make").next(next));
    }
    Ok(())
}

/// Returns the digests of the CSV files of a plan, by name.
fn csv_files(plan_json: &str) -> BTreeMap<String, String> {
    let plan: serde_json::Value = serde_json::from_str(plan_json).unwrap_or_default();
    let trials = plan["trials"].as_array().into_iter().flatten();
    let scripts = trials.flat_map(|trial| trial["workload"]["scripts"].as_array().into_iter().flatten());
    let files = scripts.flat_map(|script| script["csv"].as_object().into_iter().flatten());
    files.map(|(file, digest)| (file.clone(), digest.as_str().unwrap_or_default().to_owned())).collect()
}

/// Returns the command line of `run` for a shell.
pub fn command(run: &Run) -> String {
    run.header.command_line.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}
