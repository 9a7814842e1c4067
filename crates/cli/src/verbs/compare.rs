//! `plimsoll compare`: two recordings side by side.

use std::path::Path;

use plimsoll_analysis::compare;
use plimsoll_analysis::compare::rule::Rule;
use plimsoll_analysis::view::{Comparison, NoiseFloor};
use plimsoll_record::data::{Run, RunState};
use plimsoll_trial::TrialError;

use crate::args::{CompareArgs, CompareFormat};
use crate::error::exit;
use crate::verbs::report;

/// Runs `plimsoll compare`. Returns the exit code: whether a condition of --fail-if was met.
pub fn run(args: &CompareArgs) -> Result<u8, TrialError> {
    let rules = args.fail_if.iter().map(|text| parse(text)).collect::<Result<Vec<_>, _>>()?;
    let floor = args.noise_floor.as_deref().map(noise_floor).transpose()?;
    let ((file_a, a), (file_b, b)) = (report::load(&args.a, args.strict)?, report::load(&args.b, args.strict)?);
    let outputs = [("--output", args.output.as_deref()), ("--junit", args.junit.as_deref())];
    report::must_not_overwrite(&[&*file_a, &*file_b], &outputs)?;
    are_two(&a, &b)?;
    for run in [&a, &b].into_iter().filter(|run| run.state == RunState::Running) {
        crate::say(&format!(
            "warning: run {} is still running, and only measured in part\n  → compare it when it has ended",
            run.header.id
        ));
    }
    let comparison = compare::compare(&a, &b, &rules, floor);
    about_something(&comparison)?;
    in_its_unit(&comparison, &rules)?;
    if let Some(path) = &args.junit {
        report::write(path, &plimsoll_report::junit(&comparison))?;
    }
    let to_stdout = args.output.as_deref().is_none_or(|path| path == Path::new("-"));
    let text = match args.format {
        CompareFormat::Text => plimsoll_report::comparison(&comparison, to_stdout && report::colour(), report::width()),
        CompareFormat::Json => plimsoll_report::json(&comparison),
        CompareFormat::Md => plimsoll_report::comparison_markdown(&comparison),
    };
    report::deliver(args.output.as_deref(), &text)?;
    Ok(match (comparison.failed(), comparison.undecided()) {
        (true, _) => exit::GOAL_MISSED,
        (false, true) => exit::UNDECIDED,
        (false, false) => exit::OK,
    })
}

/// Fails if `a` and `b` are one run.
pub fn are_two(a: &Run, b: &Run) -> Result<(), TrialError> {
    match a.header.id == b.header.id {
        true => Err(TrialError::usage(format!("both are the same run, {}", a.header.id))
            .next("name two; `plimsoll runs` lists the runs")),
        false => Ok(()),
    }
}

fn parse(text: &str) -> Result<Rule, TrialError> {
    Rule::parse(text).map_err(|error| {
        TrialError::usage(format!("--fail-if `{text}` is not a condition")).detail(error.to_string()).next(
            "write a number's name, > or <, and a change or a value: 'p99 > +5%', 'mixed.rate < -3%', 'p99 > 20ms'",
        )
    })
}

fn noise_floor(text: &str) -> Result<NoiseFloor, TrialError> {
    let refused = |what: &str, next: &str| {
        Err(TrialError::usage(format!("--noise-floor `{text}` is {what}")).next(next.to_owned()))
    };
    match text.trim().trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if (0.0..=10.0).contains(&percent) => Ok(NoiseFloor::flat(percent)),
        Ok(percent) if percent > 10.0 => {
            refused("too high to compare anything above it", "10% is the highest: run both on a quieter machine")
        }
        _ => refused("no percentage", "write it as 2%"),
    }
}

/// Fails if a condition matches no number: it could never be met.
fn about_something(comparison: &Comparison) -> Result<(), TrialError> {
    let Some(rule) = comparison.rules.iter().find(|rule| rule.checked == 0 && rule.undecided.is_empty()) else {
        return Ok(());
    };
    let names = compare::names(comparison);
    let next = if names.is_empty() {
        "the runs have no number in common: they need trials of the same stores and labels".to_owned()
    } else {
        let types = compare::operation_types(comparison);
        let of_types = types.first().map_or(String::new(), |first| {
            format!("; times of one operation type are written mean[op={first}]: {}", types.join(", "))
        });
        format!("they have {}{of_types}", names.join(", "))
    };
    Err(TrialError::usage(format!("--fail-if `{}` matches no number that both runs have", rule.rule)).next(next))
}

/// A condition in another unit than the number it names would never be met.
fn in_its_unit(comparison: &Comparison, rules: &[Rule]) -> Result<(), TrialError> {
    let mut misfits = rules.iter().filter_map(|rule| Some((rule, rule.misfit(&comparison.groups)?)));
    match misfits.next() {
        None => Ok(()),
        Some((rule, why)) => {
            Err(TrialError::usage(format!("--fail-if `{rule}` has no unit, or another unit than its number")).next(why))
        }
    }
}
