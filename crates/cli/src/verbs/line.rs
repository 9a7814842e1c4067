//! `plimsoll line`: a plan as `drive` puts it together, whose load line is searched for.

use plimsoll_core::Catalogue;
use plimsoll_plan::keys::LINE;
use plimsoll_trial::TrialError;

use crate::args::{DriveArgs, LineArgs};
use crate::plans::{self, PlanText};
use crate::verbs::drive;

/// Runs `plimsoll line`. Returns the exit code: whether a load line was found.
pub fn run(catalogue: &Catalogue, args: &LineArgs) -> Result<u8, TrialError> {
    // Of options the stores stand in the plan that they were written down as; a file's are replaced.
    let stores: &[String] = if file(args).is_some() { &args.drive.on } else { &[] };
    drive::run_text(catalogue, plan_text(catalogue, args)?, stores, &args.drive)
}

/// Returns the plan file, if named instead of a workload.
fn file(args: &LineArgs) -> Option<&str> {
    args.drive.workload.as_deref().filter(|workload| workload.ends_with(".toml"))
}

/// Returns the text of a plan file. Fails if options other than those `allowed` are given beside the file.
pub(super) fn file_text(path: &str, drive: &DriveArgs, allowed: &[&str]) -> Result<PlanText, TrialError> {
    let others = [
        ("--goal", !drive.goal.is_empty()),
        ("--set", !drive.set.is_empty()),
        ("--no-load", drive.no_load),
        ("--file", !drive.file.is_empty()),
        ("--csv", !drive.csv.is_empty()),
        ("--nodes", drive.nodes.is_some()),
    ];
    let other = others.into_iter().find(|(_, given)| *given).map(|(option, _)| option.to_owned());
    match drive.plan.first_but(allowed).or(other) {
        None => plans::read(path),
        Some(option) => {
            Err(TrialError::usage(format!("{option} was given beside the plan file {path}"))
                .next("write it in the plan"))
        }
    }
}

fn plan_text(catalogue: &Catalogue, args: &LineArgs) -> Result<PlanText, TrialError> {
    let file = file(args);
    let mut from = match file {
        Some(path) => file_text(path, &args.drive, &["allow_writes", "allow_fault"])?,
        None => {
            if let Some(key) = ["rate", "ops", "for"].into_iter().find(|key| args.drive.plan.get(key).is_some()) {
                let what = format!("--{key} is not an option of `plimsoll line`");
                return Err(
                    TrialError::usage(what).next("the search chooses rates and times; --from and --budget bound them")
                );
            }
            drive::plan_text(catalogue, &args.drive)?
        }
    };
    let text = &mut from.text;
    if args.drive.goal.is_empty() && file.is_none() {
        text.push_str("\n[goals]\np99 = \"20ms\"\nerrors = \"0.1%\"\n");
    }
    let has = |text: &str| text.lines().any(|line| line.trim_start().starts_with("[line]"));
    if !has(text) {
        text.push_str("\n[line]\n");
    } else if let Some(option) = args.line.first_but(&[]) {
        let what = format!("the plan has a [line] of its own, and {option} was given too");
        return Err(TrialError::usage(what).next("give it in one of the two"));
    }
    args.line.write(&[LINE], &mut from)?;
    Ok(from)
}
