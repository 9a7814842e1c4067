//! `plimsoll line`: a plan as `drive` puts it together, whose load line is searched for.

use std::path::Path;

use plimsoll_core::Catalogue;

use crate::args::{DriveArgs, LineArgs};
use crate::error::{CliError, exit};
use crate::plans::{self, Passwords};
use crate::verbs::drive;

/// Searches for the load line that `args` ask for; the exit code says whether one was found.
pub fn run(catalogue: &Catalogue, args: &LineArgs) -> Result<u8, CliError> {
    let from = plan_text(catalogue, args)?;
    if args.drive.print_plan {
        return crate::print(&from.text);
    }
    let mut passwords = Passwords::default();
    // Of options the stores stand in the plan that they were written down as; a file's are replaced.
    let stores: &[String] = if file(args).is_some() { &args.drive.on } else { &[] };
    passwords.take_from(&args.drive.on);
    drive::run_text(catalogue, from, stores, &args.drive, passwords)
}

/// The plan file, where one was named instead of a workload.
fn file(args: &LineArgs) -> Option<&str> {
    args.drive.workload.as_deref().filter(|workload| workload.ends_with(".toml"))
}

/// Options of a drive that a plan file says itself.
pub(super) fn refused(drive: &DriveArgs) -> Option<&'static str> {
    let given = [
        ("--clients", drive.clients.is_some()),
        ("--depth", drive.depth.is_some()),
        ("--workers", drive.workers.is_some()),
        ("--mix", drive.mix.is_some()),
        ("--goal", !drive.goal.is_empty()),
        ("--set", !drive.set.is_empty()),
        ("--durability", drive.durability.is_some()),
        ("--op-timeout", drive.op_timeout.is_some()),
        ("--setup-timeout", drive.setup_timeout.is_some()),
        ("--load-timeout", drive.load_timeout.is_some()),
        ("--work-timeout", drive.work_timeout.is_some()),
        ("--arrivals", drive.arrivals.is_some()),
        ("--pin", !drive.pin.is_empty()),
        ("--server-pin", !drive.server_pin.is_empty()),
        ("--dir", drive.dir.is_some()),
        ("--answer-max", drive.answer_max.is_some()),
        ("--no-load", drive.no_load),
    ];
    given.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
}

fn plan_text(catalogue: &Catalogue, args: &LineArgs) -> Result<plans::PlanText, CliError> {
    let file = file(args);
    let mut from = match file {
        Some(path) => {
            if let Some(option) = refused(&args.drive) {
                let what = format!("{option} was given beside the plan file {path}");
                return Err(CliError::new(exit::USAGE, what).next("write it in the plan"));
            }
            plans::read(path)?
        }
        None => {
            if let Some(given) =
                [("--rate", &args.drive.rate), ("--ops", &args.drive.ops), ("--for", &args.drive.duration)]
                    .into_iter()
                    .find_map(|(option, given)| given.as_ref().map(|_| option))
            {
                let what = format!("{option} has no place in a search for the load line", option = given);
                return Err(CliError::new(exit::USAGE, what)
                    .next("the search chooses rates and times; --from and --budget bound them"));
            }
            let (name, text) = drive::plan_text(catalogue, &args.drive)?;
            plans::PlanText { name, text, beside: Path::new("").to_owned() }
        }
    };
    let text = &mut from.text;
    if args.drive.goal.is_empty() && file.is_none() {
        text.push_str("\n[goals]\np99 = \"20ms\"\nerrors = \"0.1%\"\n");
    }
    let has = |text: &str| text.lines().any(|line| line.trim_start().starts_with("[line]"));
    let from_rate = args.from.as_deref().map(drive::rates);
    let bounds = [
        ("from", from_rate.as_deref()),
        ("precision", args.precision.as_deref()),
        ("budget", args.budget.as_deref()),
        ("thorough", args.thorough.then_some("true")),
    ];
    if !has(text) {
        text.push_str("\n[line]\n");
    } else if let Some((key, _)) = bounds.iter().find(|(_, given)| given.is_some()) {
        let what = format!("the plan has a [line] of its own, and --{key} was given too");
        return Err(CliError::new(exit::USAGE, what).next("say it in one of the two"));
    }
    for (key, given) in bounds {
        if let Some(given) = given {
            drive::push(text, key, &drive::value(given));
        }
    }
    Ok(from)
}
