//! `cargo xtask findings [TRIALS] [--seed N] [--resume] [--keep] OUT.csv`: whether findings name planted causes.
//!
//! A trial drives a private server for 52 s, with two causes for 96 s. Each cause is planted from outside in eight
//! episodes of about a second at random moments, so that the recording has no word of it. The findings are read by
//! `plimsoll ask` and judged. Stores, causes, moments and the seeds of the drives follow from the seed (`drawn`). A
//! trial counts if in the episodes throughput fell, or a percentile rose, by a tenth or more. A trial that fails is
//! reported as such. Each trial adds a row to the CSV file, with which an interrupted run continues.
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

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use self::drawn::Trial;
use self::table::{CSV_HEADING, Judged};
use crate::Result;
use crate::git;
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
    is_resumed: bool,
    is_kept: bool,
    csv: String,
}

/// Runs the trials that `arguments` ask for, or asks about data sets of others, and prints the table.
///
/// # Errors
/// Fails if the arguments are wrong, the program cannot be built, or the CSV file cannot be written, exists although
/// the run is not resumed, or is of other trials.
pub fn findings(root: &Path, arguments: &[String]) -> Result {
    if let [option, directory, csv] = arguments
        && option == "--others"
    {
        return others::others(root, directory, csv);
    }
    let options = options(arguments)?;
    let trials = drawn::trials(options.trials, options.seed);
    let commit = git::commit(root, "HEAD")?;
    let mut results = begun(Path::new(&options.csv), options.is_resumed, &trials, &commit)?;
    let program = built(root, "release")?;
    pass_on_interrupts()?;
    let is_left = |trial: &&Trial| !results.iter().any(|(known, _)| known.number == trial.number);
    let left: Vec<&Trial> = trials.iter().filter(is_left).collect();
    for trial in left {
        let result = trial::run(&program, trial, options.is_kept);
        if is_interrupted() {
            break;
        }
        println!("{} of {}: {}", trial.number, trials.len(), line(trial, &result));
        let row = table::csv_row(trial, &result, &commit);
        let file = OpenOptions::new().append(true).open(&options.csv);
        file.and_then(|mut file| file.write_all(row.as_bytes()))
            .map_err(|error| format!("{}: {error}", options.csv))?;
        results.push((trial, result));
    }
    let call = format!("cargo xtask findings {} --seed {}", options.trials, options.seed);
    println!("\n# {call}\n\n{}", table::table(&results));
    if results.len() < trials.len() {
        let (done, all) = (results.len(), trials.len());
        println!("Interrupted after {done} of {all} trials. To continue: {call} --resume {}", options.csv);
    }
    Ok(())
}

/// Begins the CSV file at `path`, or reads the results of these trials that it has. A row that was not written to its
/// end is removed. Results of other commits than `commit` are reported on the terminal.
fn begun<'t>(
    path: &Path,
    is_resumed: bool,
    trials: &'t [Trial],
    commit: &str,
) -> Result<Vec<(&'t Trial, Result<Judged>)>> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    if !path.exists() {
        return fs::write(path, CSV_HEADING).map(|()| Vec::new()).map_err(failed);
    }
    if !is_resumed {
        return Err(format!("{}: the file exists; continue it with --resume, or name another", path.display()));
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let results = table::read_csv(whole, trials).map_err(|what| format!("{}: {what}", path.display()))?;
    if whole.len() < text.len() {
        fs::write(path, whole).map_err(failed)?;
    }
    let others = whole.lines().skip(1).filter(|row| !row.ends_with(&format!(",{commit}"))).count();
    if others > 0 {
        eprintln!("{}: {others} trials are of other commits than {commit}; a proof has one", path.display());
    }
    Ok(results)
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
            "cargo xtask findings [TRIALS] [--seed N] [--resume] [--keep] OUT.csv: trials with planted causes; by \
             default {TRIALS} trials of seed 1\n\
             cargo xtask findings --others DIRECTORY OUT.csv: data sets of others"
        )
    };
    let (mut seed, mut is_resumed, mut is_kept, mut rest) = (1, false, false, Vec::new());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seed" => seed = words.next().and_then(|seed| seed.parse().ok()).ok_or_else(usage)?,
            "--resume" => is_resumed = true,
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
    Ok(Options { trials, seed, is_resumed, is_kept, csv: csv.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_a_number_a_seed_and_a_file() {
        let options = |words: &[&str]| super::options(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let wanted = |trials, seed, is_resumed, is_kept| {
            Ok(Options { trials, seed, is_resumed, is_kept, csv: "out.csv".to_owned() })
        };
        assert_eq!(options(&["out.csv"]), wanted(300, 1, false, false));
        assert_eq!(options(&["30", "--seed", "7", "out.csv"]), wanted(30, 7, false, false));
        assert_eq!(options(&["--keep", "30", "out.csv"]), wanted(30, 1, false, true));
        assert_eq!(options(&["--resume", "out.csv"]), wanted(300, 1, true, false));
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

    #[test]
    fn a_run_continues_after_its_last_whole_row_and_overwrites_no_other() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("out.csv");
        let (trials, others) = (drawn::trials(3, 1), drawn::trials(3, 2));
        assert_eq!(begun(&path, true, &trials, "c1"), Ok(Vec::new()));
        let row = |at: usize| table::csv_row(&trials[at], &Err("no server".to_owned()), "c1");
        let whole = format!("{CSV_HEADING}{}", row(2));
        fs::write(&path, format!("{whole}{}", &row(0)[..9])).unwrap();
        assert!(begun(&path, false, &trials, "c1").unwrap_err().contains("the file exists; continue it with --resume"));
        let results = begun(&path, true, &trials, "c1").unwrap();
        assert_eq!(results, [(&trials[2], Err("no server".to_owned()))]);
        assert_eq!(fs::read_to_string(&path).unwrap(), whole);
        assert!(begun(&path, true, &others, "c1").unwrap_err().ends_with("line 2: no row of these trials"));
    }
}
