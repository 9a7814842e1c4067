//! `cargo xtask findings [TRIALS] [--seed N] [--keep] OUT.csv`: whether findings name causes planted in servers.
//!
//! A trial drives a private server for 26 s. A cause is planted from outside in four to six episodes of about a second
//! at random moments, so that the recording has no word of it. The findings are read by `plimsoll ask` and judged.
//! Stores, causes, moments and the seeds of the drives follow from the seed (`drawn`). A trial counts if in the
//! episodes throughput fell, or a percentile rose, by a tenth or more. A trial that fails is reported as such.
//!
//! | module | content |
//! |---|---|
//! | `cause` | causes, where they can be planted, and the names that are right |
//! | `drawn` | trials from a seed |
//! | `planted` | planting a cause |
//! | `server` | a private server's processes, sockets and control groups |
//! | `trial` | one trial |
//! | `judge` | effect, and judgement of the findings |
//! | `table` | table of the results, and CSV |
//! | `others` | `--others DIRECTORY OUT.csv`: data sets of others instead of trials |

use std::path::Path;

use self::drawn::Trial;
use self::table::{CSV_HEADING, Judged};
use crate::Result;
use crate::process::{built, is_interrupted, pass_on_interrupts};

mod cause;
mod drawn;
mod judge;
mod others;
mod planted;
mod server;
mod table;
mod trial;

/// Trials, unless another number is given.
const TRIALS: usize = 300;

/// Options of a call.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    trials: usize,
    seed: u64,
    is_kept: bool,
    csv: String,
}

/// Runs the trials that `arguments` ask for, or asks about data sets of others, and prints the table.
///
/// # Errors
/// Fails if the arguments are wrong, the program cannot be built, or the CSV file cannot be written.
pub fn findings(root: &Path, arguments: &[String]) -> Result {
    if let [option, directory, csv] = arguments
        && option == "--others"
    {
        return others::others(root, directory, csv);
    }
    let options = options(arguments)?;
    let trials = drawn::trials(options.trials, options.seed);
    let program = built(root, "release")?;
    pass_on_interrupts()?;
    let failed = |error: std::io::Error| format!("{}: {error}", options.csv);
    let mut csv = CSV_HEADING.to_owned();
    std::fs::write(&options.csv, &csv).map_err(failed)?;
    let mut results: Vec<(&Trial, Result<Judged>)> = Vec::new();
    for trial in &trials {
        let result = trial::run(&program, trial, options.is_kept);
        if is_interrupted() {
            break;
        }
        println!("{} of {}: {}", trial.number, trials.len(), line(trial, &result));
        csv.push_str(&table::csv_row(trial, &result));
        std::fs::write(&options.csv, &csv).map_err(failed)?;
        results.push((trial, result));
    }
    println!("\n# cargo xtask findings {} --seed {}\n\n{}", options.trials, options.seed, table::table(&results));
    if results.len() < trials.len() {
        println!("Interrupted after {} trials.", results.len());
    }
    Ok(())
}

/// Returns a line about a result.
fn line(trial: &Trial, result: &Result<Judged>) -> String {
    let causes = format!("{} on {}", table::causes(trial), trial.stand.name);
    match result {
        Err(what) => format!("{causes}: failed: {what}"),
        Ok(Judged { moved, judgement, names }) => {
            format!("{causes}: moved {:.0} %, {judgement:?}: {}", moved * 100.0, names.join(", "))
        }
    }
}

fn options(arguments: &[String]) -> Result<Options> {
    let usage = || {
        format!(
            "cargo xtask findings [TRIALS] [--seed N] [--keep] OUT.csv: trials with planted causes; by default \
             {TRIALS} trials of seed 1\n\
             cargo xtask findings --others DIRECTORY OUT.csv: data sets of others"
        )
    };
    let (mut seed, mut is_kept, mut rest) = (1, false, Vec::new());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seed" => seed = words.next().and_then(|seed| seed.parse().ok()).ok_or_else(usage)?,
            "--keep" => is_kept = true,
            option if option.starts_with('-') => return Err(usage()),
            other => rest.push(other),
        }
    }
    let (trials, csv) = match rest[..] {
        [csv] => (TRIALS, csv),
        [trials, csv] => (trials.parse::<usize>().ok().filter(|trials| *trials > 0).ok_or_else(usage)?, csv),
        _ => return Err(usage()),
    };
    Ok(Options { trials, seed, is_kept, csv: csv.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_a_number_a_seed_and_a_file() {
        let options = |words: &[&str]| super::options(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let wanted = |trials, seed, is_kept| Ok(Options { trials, seed, is_kept, csv: "out.csv".to_owned() });
        assert_eq!(options(&["out.csv"]), wanted(300, 1, false));
        assert_eq!(options(&["30", "--seed", "7", "out.csv"]), wanted(30, 7, false));
        assert_eq!(options(&["--keep", "30", "out.csv"]), wanted(30, 1, true));
        let none: [&str; 0] = [];
        for wrong in [
            &none[..],
            &["0", "out.csv"],
            &["out.csv", "--seed"],
            &["--other", "out.csv"],
            &["--others", "out.csv"],
            &["1", "2", "3"],
        ] {
            assert!(options(wrong).unwrap_err().starts_with("cargo xtask findings"), "{wrong:?}");
        }
    }
}
