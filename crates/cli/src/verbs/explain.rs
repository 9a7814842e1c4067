//! `plimsoll explain`: a part of a run beside the rest of its phases.

use plimsoll_analysis::selection::{self, Selection};
use plimsoll_analysis::view::SelectionView;
use plimsoll_plan::Dimension;
use plimsoll_record::data::Run;
use plimsoll_trial::TrialError;

use crate::args::{ExplainArgs, SelectionArgs};
use crate::verbs::report;

/// Explains the part of a run that `args` select.
pub fn run(args: &ExplainArgs) -> Result<u8, TrialError> {
    // What is typed is checked before anything is read.
    let selection = parsed(&args.selection)?;
    let view = explained(&report::load(&args.run, false)?.1, &selection)?;
    crate::print(&match args.json {
        true => plimsoll_report::json(&view),
        false => plimsoll_report::selection(&view, report::colour(), report::width()),
    })
}

/// Compares the selected part of `run` with the rest of its phases.
///
/// # Errors
/// Fails if the selection is not in the run, or leaves nothing to compare.
pub fn explained(run: &Run, selection: &Selection) -> Result<SelectionView, TrialError> {
    selection::explain(run, selection).map_err(|refused| TrialError::usage(refused.what).next(refused.next))
}

/// Returns the selection that is typed.
///
/// # Errors
/// Fails if a time cannot be read.
pub fn parsed(args: &SelectionArgs) -> Result<Selection, TrialError> {
    let time = |option: &str, given: &Option<String>, parse: fn(&str, &str) -> Result<u64, TrialError>| {
        given.as_deref().map(|given| parse(option, given)).transpose()
    };
    Ok(Selection {
        trial: args.trial,
        phase: args.phase.clone(),
        from_ns: time("from", &args.from, clock)?,
        to_ns: time("to", &args.to, clock)?,
        above_ns: time("above", &args.above, length)?,
    })
}

/// Parses a time on the run's clock, in nanoseconds: `MM:SS`, `HH:MM:SS`, or a number with a unit.
fn clock(option: &str, given: &str) -> Result<u64, TrialError> {
    if !given.contains(':') {
        return length(option, given);
    }
    let is_number = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
    let number = |part: &str| part.parse::<f64>().ok().filter(|number| is_number(part) && number.is_finite());
    let parts: Option<Vec<f64>> = given.trim().split(':').map(number).collect();
    let seconds = match parts.as_deref() {
        Some([minutes, seconds]) if *seconds < 60.0 => minutes * 60.0 + seconds,
        Some([hours, minutes, seconds]) if *minutes < 60.0 && *seconds < 60.0 => {
            hours * 3_600.0 + minutes * 60.0 + seconds
        }
        _ => {
            return Err(TrialError::usage(format!("--{option} {given} is no time"))
                .next("write it as 00:30, 01:00:30 or 30s, on the run's clock"));
        }
    };
    Ok((seconds * 1e9) as u64)
}

/// Parses a time with a unit, in nanoseconds.
fn length(option: &str, given: &str) -> Result<u64, TrialError> {
    // A time with a unit in every case: a limit of 20 may be one of milliseconds.
    let parsed = plimsoll_plan::parse_quantity(given, Dimension::Time);
    let refused = |(what, next)| TrialError { next, ..TrialError::usage(format!("--{option} {given}: {what}")) };
    match parsed.map_err(refused)? {
        ns if ns >= 0.0 && ns.is_finite() => Ok(ns as u64),
        _ => Err(TrialError::usage(format!("--{option} {given}: a time of 0 or more is needed"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_as_clocks_show_it_and_with_a_unit() {
        for (given, seconds) in [
            ("00:30", 30.0),
            ("1:02.5", 62.5),
            ("90:00", 5_400.0),
            ("01:00:30", 3_630.0),
            ("30s", 30.0),
            ("1.5min", 90.0),
            ("0s", 0.0),
        ] {
            assert_eq!(clock("from", given).unwrap(), (seconds * 1e9) as u64, "{given}");
        }
        for given in ["", ":", "1:", "1:60", "1:60:00", "1:2:3:4", "-1:00", "inf:0", "0:nan", "30", "soon", "-5s"] {
            assert!(clock("from", given).is_err(), "{given}");
        }
    }
}
