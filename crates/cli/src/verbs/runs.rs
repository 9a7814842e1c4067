//! `plimsoll runs`: the recordings there are.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use plimsoll_analysis::{RunView, number};
use plimsoll_core::shown::{clean, lines};
use plimsoll_record::data::RunState;
use plimsoll_record::{Listed, RunSummary};
use plimsoll_report::document::{Cell, ColumnOf, Table, numbers, words};
use plimsoll_trial::TrialError;
use serde_json::{Value, json};

use crate::args::{RunsAction, RunsArgs, RunsList};
use crate::error::exit;
use crate::options;
use crate::verbs::report;

/// Columns of a list besides a run's summary.
struct Came {
    verdict: String,
    rate: String,
    rate_per_s: Option<f64>,
    p99: String,
    p99_ns: Option<u64>,
}

/// Lists, shows or removes.
pub fn run(args: &RunsArgs) -> Result<u8, TrialError> {
    match &args.action {
        None => list(&args.list),
        Some(RunsAction::List(args)) => list(args),
        Some(RunsAction::Show { run }) => {
            report::print_text(&plimsoll_analysis::view(&report::load(run, false)?.1))?;
            Ok(exit::OK)
        }
        Some(RunsAction::Remove { runs, failed, older_than, dry_run }) => {
            let mut wanted = runs.clone();
            if *failed || older_than.is_some() {
                wanted.extend(outdated(*failed, older_than.as_deref())?);
            }
            if wanted.is_empty() {
                crate::say("no such runs");
            }
            wanted.iter().try_for_each(|run| remove(run, *dry_run))?;
            Ok(exit::OK)
        }
    }
}

fn list(args: &RunsList) -> Result<u8, TrialError> {
    let runs_dir = plimsoll_record::default_runs_dir()?;
    let mut runs = plimsoll_record::list(&runs_dir, |run| came(&plimsoll_analysis::view(run)))?;
    if runs.is_empty() {
        crate::say(&format!("no runs in {}", runs_dir.display()));
    }
    if let Some(tag) = &args.tag {
        runs.retain(|run| is_tagged(run, tag));
        if runs.is_empty() {
            crate::say(&format!("no run has the tag {}", clean(tag)));
        }
    }
    if args.json {
        crate::print(&runs.iter().map(|run| format!("{}\n", object(run))).collect::<String>())
    } else {
        report::print_tables(&[("", "", table(&runs))])
    }
}

/// Returns the result of a run: its verdict, and rate and p99 if a single phase was driven.
fn came(view: &RunView) -> Came {
    let one = match &view.summary[..] {
        [one] => Some(one),
        _ => None,
    };
    let rate = one.and_then(|one| one.parts.iter().find(|part| part.name == one.unit));
    let p99 = one.and_then(|one| one.percentiles.iter().find(|percentile| percentile.name == "p99"));
    Came {
        verdict: serde_json::to_value(view.verdict.state)
            .map_or(String::new(), |word| word.as_str().unwrap_or_default().to_owned()),
        rate: rate.map_or(String::new(), |part| part.text.clone()),
        rate_per_s: one.and_then(|one| one.rate_per_s),
        p99: p99.map_or(String::new(), |percentile| {
            let text = percentile.ns.map_or("–".to_owned(), number::nanoseconds);
            number::marked(text, percentile.ns.is_some() && one.is_some_and(|one| one.late))
        }),
        p99_ns: p99.and_then(|percentile| percentile.ns),
    }
}

/// Returns the runs, newest first, as `runs --json` prints them; only those with the tag, if there is one.
pub fn listed(tag: Option<&str>) -> Result<Value, TrialError> {
    let runs = plimsoll_record::list(&plimsoll_record::default_runs_dir()?, |run| came(&plimsoll_analysis::view(run)))?;
    let has_tag = |run: &&Listed<Came>| tag.is_none_or(|tag| is_tagged(run, tag));
    Ok(json!({ "runs": runs.iter().filter(has_tag).map(object).collect::<Value>() }))
}

fn is_tagged<T>(run: &Listed<T>, tag: &str) -> bool {
    run.summary.as_ref().is_ok_and(|(summary, _)| summary.tag == tag)
}

fn object(run: &Listed<Came>) -> Value {
    match &run.summary {
        Ok((summary, came)) => json!({
            "id": run.id, "plan": summary.plan_name, "tag": summary.tag, "stores": summary.stores,
            "started_wall_ns": summary.started_wall_ns, "took_ns": summary.end_ns, "state": state(summary),
            "verdict": came.verdict, "rate_per_s": came.rate_per_s, "p99_ns": came.p99_ns,
            "lost": summary.lost, "wrong": summary.wrong,
        }),
        Err(error) => json!({"id": run.id, "state": "unreadable", "error": error.to_string()}),
    }
}

fn table(runs: &[Listed<Came>]) -> Table {
    let of = |run: &Listed<Came>, text: &dyn Fn(&RunSummary, &Came) -> String| -> Cell {
        run.summary.as_ref().map_or(String::new(), |(summary, came)| text(summary, came)).into()
    };
    let took = |summary: &RunSummary| summary.end_ns.map_or("–".to_owned(), |ns| format!("{:.0} s", ns as f64 / 1e9));
    let verdict = |live: bool, came: &Came| if live { String::new() } else { came.verdict.to_uppercase() };
    let ended = |run: &Listed<Came>| match &run.summary {
        Ok((summary, _)) => state(summary),
        Err(error) => lines(format!("not readable: {error}")).replace('\n', "; "),
    };
    let columns: [ColumnOf<'_, Listed<Came>>; 9] = [
        (words("run"), &|run| (&run.id).into()),
        (words("plan"), &|run| of(run, &|summary, _| summary.plan_name.clone())),
        (words("stores"), &|run| of(run, &|summary, _| summary.stores.join(","))),
        (numbers("took"), &|run| of(run, &|summary, _| took(summary))),
        (numbers("rate"), &|run| of(run, &|_, came| came.rate.clone())),
        (numbers("p99"), &|run| of(run, &|_, came| came.p99.clone())),
        (words("verdict"), &|run| of(run, &|summary, came| verdict(summary.live, came))),
        (words("tag"), &|run| of(run, &|summary, _| clean(&summary.tag))),
        (words("how it ended"), &|run| ended(run).into()),
    ];
    Table::of("Runs", runs, &columns)
}

fn state(summary: &RunSummary) -> String {
    let mut words = match &summary.state {
        RunState::Running => "running".to_owned(),
        RunState::Unfinished if summary.live => "running".to_owned(),
        RunState::Unfinished => "killed".to_owned(),
        RunState::Complete => "complete".to_owned(),
        RunState::Interrupted => "interrupted".to_owned(),
        RunState::Failed(error) => format!("failed: {}", lines(error.lines().next().unwrap_or_default())),
    };
    match summary.lost {
        Some(0) => {}
        Some(lost) => {
            let _ = write!(words, ", {} lost", number::count(lost));
        }
        None => words.push_str(", losses not known"),
    }
    if summary.wrong > 0 {
        let _ = write!(words, ", {} wrong", number::count(summary.wrong));
    }
    words
}

/// Returns runs that are over and, if requested, failed or began longer ago. For unreadable runs the name gives the
/// time.
fn outdated(failed: bool, older_than: Option<&str>) -> Result<Vec<String>, TrialError> {
    let age = older_than.map(|given| options::time("older-than", given)).transpose()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let began_before = age.map(|age| now.saturating_sub(age).as_nanos() as i64);
    let newest = began_before.map(|ns| plimsoll_record::run_id(ns, 0));
    let runs = plimsoll_record::list(&plimsoll_record::default_runs_dir()?, |_| ())?;
    let is_wanted = |run: &Listed<()>| {
        let is_over = run.summary.as_ref().map_or(true, |(summary, ())| !summary.live);
        let has_failed = match &run.summary {
            Ok((summary, ())) => matches!(summary.state, RunState::Failed(_) | RunState::Unfinished),
            Err(_) => true,
        };
        is_over && (!failed || has_failed) && newest.as_ref().is_none_or(|newest| run.id < *newest)
    };
    Ok(runs.into_iter().filter(is_wanted).map(|run| run.id).collect())
}

fn remove(run: &str, dry_run: bool) -> Result<(), TrialError> {
    let runs_dir = plimsoll_record::default_runs_dir()?;
    let latest = (run == "latest").then(|| plimsoll_record::find(&runs_dir, run)).transpose()?;
    let run = latest.as_deref().and_then(|path| path.file_name()?.to_str()).unwrap_or(run);
    if dry_run {
        plimsoll_record::find(&runs_dir, run)?;
        return crate::print(&format!("would remove {run}\n")).map(drop);
    }
    let directory = plimsoll_record::removable(&runs_dir, run)?;
    // What a kill has left. A link may lead to a disk that is not there.
    if directory.join("data").exists() {
        plimsoll_trial::remove_data(&directory)?;
    }
    plimsoll_record::remove(&runs_dir, run)?;
    crate::print(&format!("removed {run}\n")).map(drop)
}
