//! `plimsoll line`: a plan as `drive` puts it together, whose load line is searched for.

use plimsoll_core::Catalogue;

use crate::args::{DriveArgs, LineArgs};
use crate::error::CliError;
use crate::plans;
use crate::verbs::drive;

/// Searches for the load line that `args` ask for; the exit code says whether one was found.
pub fn run(catalogue: &Catalogue, args: &LineArgs) -> Result<u8, CliError> {
    let from = plan_text(catalogue, args)?;
    if args.drive.print_plan {
        return crate::print(&from.text);
    }
    // Of options the stores stand in the plan that they were written down as; a file's are replaced.
    let stores: &[String] = if file(args).is_some() { &args.drive.on } else { &[] };
    drive::run_text(catalogue, from, stores, &args.drive)
}

/// The plan file, where one was named instead of a workload.
fn file(args: &LineArgs) -> Option<&str> {
    args.drive.workload.as_deref().filter(|workload| workload.ends_with(".toml"))
}

/// The first option that a plan file says itself; keys that it may be given beside are `allowed`.
pub(super) fn refused(drive: &DriveArgs, allowed: &[&str]) -> Option<String> {
    let others = [("--goal", !drive.goal.is_empty()), ("--set", !drive.set.is_empty()), ("--no-load", drive.no_load)];
    let other = others.into_iter().find(|(_, given)| *given).map(|(option, _)| option.to_owned());
    drive.plan.first_but(allowed).or(other)
}

fn plan_text(catalogue: &Catalogue, args: &LineArgs) -> Result<plans::PlanText, CliError> {
    let file = file(args);
    let mut from = match file {
        Some(path) => {
            if let Some(option) = refused(&args.drive, &["allow_writes"]) {
                let what = format!("{option} was given beside the plan file {path}");
                return Err(CliError::usage(what).next("write it in the plan"));
            }
            plans::read(path)?
        }
        None => {
            if let Some(key) = ["rate", "ops", "for"].into_iter().find(|key| args.drive.plan.get(key).is_some()) {
                let what = format!("--{key} has no place in a search for the load line");
                return Err(
                    CliError::usage(what).next("the search chooses rates and times; --from and --budget bound them")
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
        return Err(CliError::usage(what).next("say it in one of the two"));
    }
    text.push_str(&args.line.of_line()?);
    Ok(from)
}
