//! `plimsoll line`: a plan as `drive` puts it together, whose load line is searched for.

use std::path::Path;

use plimsoll_core::Catalogue;

use crate::args::LineArgs;
use crate::error::{CliError, exit};
use crate::plans;
use crate::verbs::drive;

/// Searches for the load line that `args` ask for; the exit code says whether one was found.
pub fn run(catalogue: &Catalogue, args: &LineArgs) -> Result<u8, CliError> {
    let from = plan_text(args)?;
    if args.drive.print_plan {
        return crate::print(&from.text);
    }
    drive::run_text(catalogue, from, &args.drive)
}

fn plan_text(args: &LineArgs) -> Result<plans::PlanText, CliError> {
    let file = args.drive.workload.as_deref().filter(|workload| workload.ends_with(".toml"));
    let mut from = match file {
        Some(path) => plans::read(path)?,
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
            let (name, text) = drive::plan_text(&args.drive)?;
            plans::PlanText { name, text, beside: Path::new("").to_owned() }
        }
    };
    let text = &mut from.text;
    if args.drive.goal.is_empty() && file.is_none() {
        text.push_str("\n[goals]\np99 = \"20ms\"\nerrors = \"0.1%\"\n");
    }
    let has = |text: &str| text.lines().any(|line| line.trim_start().starts_with("[line]"));
    let bounds = [
        ("from", args.from.as_deref()),
        ("precision", args.precision.as_deref()),
        ("budget", args.budget.as_deref().or(args.thorough.then_some("30min"))),
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
