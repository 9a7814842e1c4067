//! `plimsoll runs`: the recordings there are.

use std::fmt::Write;

use plimsoll_core::shown::lines;
use plimsoll_record::data::{Run, RunState};
use plimsoll_record::{Listed, RunSummary};
use plimsoll_report::cells;
use plimsoll_report::document::{Table, numbers, words};

use crate::args::{RunsAction, RunsArgs};
use crate::error::{CliError, exit};
use crate::verbs::report;

/// Lists, shows or removes.
pub fn run(args: &RunsArgs) -> Result<u8, CliError> {
    let runs_dir = plimsoll_record::default_runs_dir()?;
    match args.action.as_ref().unwrap_or(&RunsAction::List) {
        RunsAction::List => {
            let mut runs = plimsoll_record::list(&runs_dir)?;
            runs.sort_by(|a, b| b.id.cmp(&a.id));
            if runs.is_empty() {
                crate::say(&format!("no runs in {}", runs_dir.display()));
            }
            report::print_tables(&[("", "", table(&runs))])
        }
        RunsAction::Show { run } => {
            let recording = plimsoll_record::find(&runs_dir, run)?;
            report::print_text(&plimsoll_analysis::view(&Run::load(&recording)?))?;
            Ok(exit::OK)
        }
        RunsAction::Remove { runs } => {
            for run in runs {
                let elsewhere = plimsoll_trial::data_elsewhere(&runs_dir.join(run));
                plimsoll_record::remove(&runs_dir, run)?;
                // What a kill has left.
                if let Some(place) = elsewhere.filter(|place| place.exists()) {
                    std::fs::remove_dir_all(&place).map_err(|error| CliError::io(place.display(), &error))?;
                }
                crate::print(&format!("removed {run}\n"))?;
            }
            Ok(exit::OK)
        }
    }
}

fn table(runs: &[Listed]) -> Table {
    let mut table = Table::new("Runs", vec![words(""), words(""), words(""), numbers(""), words("")]);
    for run in runs {
        table.row(match &run.summary {
            Ok(summary) => {
                let took = summary.end_ns.map_or("–".to_owned(), |ns| format!("{:.0} s", ns as f64 / 1e9));
                cells![&run.id, &summary.plan_name, summary.stores.join(","), took, state(summary)]
            }
            Err(error) => cells![&run.id, "", "", "", lines(format!("not readable: {error}")).replace('\n', "; ")],
        });
    }
    table
}

fn state(summary: &RunSummary) -> String {
    let mut words = match &summary.state {
        RunState::Unfinished if summary.live => "running".to_owned(),
        RunState::Unfinished => "killed".to_owned(),
        RunState::Complete => "complete".to_owned(),
        RunState::Interrupted => "interrupted".to_owned(),
        RunState::Failed(error) => format!("failed: {}", lines(error.lines().next().unwrap_or_default())),
    };
    if summary.lost > 0 {
        let _ = write!(words, ", {} lost", summary.lost);
    }
    if summary.wrong > 0 {
        let _ = write!(words, ", {} wrong", summary.wrong);
    }
    words
}
