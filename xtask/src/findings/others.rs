//! `cargo xtask findings --others DIRECTORY OUT.csv`: whether the right class of resource is named in data sets that
//! others recorded, without training.
//!
//! `DIRECTORY` has files that `others/convert.py` made. The analysis answers by the program `others`, an example of its
//! crate, in three ways (`judge`). It sees series as samplers would have recorded them, and never the anomaly.
//!
//! | module | content |
//! |---|---|
//! | `set` | data sets, read from CSV |
//! | `columns` | columns as series, and their classes of resource |
//! | `expected` | right classes for each anomaly |
//! | `judge` | judgement of an answer |
//! | `table` | tables of the results, and CSV |

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use self::table::Judged;
use crate::Result;
use crate::process::{cargo, run, target};

mod columns;
mod expected;
mod judge;
mod set;
mod table;

const PACKAGE: &str = "plimsoll-analysis";
const EXAMPLE: &str = "others";

/// Asks about all data sets in `directory`, and prints the tables.
///
/// # Errors
/// Fails if there are no data sets, one of them is broken, or the CSV file cannot be written.
pub fn others(root: &Path, directory: &str, csv: &str) -> Result {
    let (mut results, questions): (Vec<Judged>, Vec<String>) = read(Path::new(directory))?.into_iter().unzip();
    run(cargo().args(["build", "--release", "--package", PACKAGE, "--example", EXAMPLE]).current_dir(root))?;
    let program = target(root)?.join("release/examples").join(EXAMPLE);
    let lines = answers(&program, &questions)?;
    let mut text = table::CSV_HEADING.to_owned();
    for (judged, answer) in results.iter_mut().zip(&lines) {
        judged.take(answer).map_err(|what| format!("{}: {what}", judged.file))?;
        text.push_str(&table::csv_rows(judged));
    }
    std::fs::write(csv, text).map_err(|error| format!("{csv}: {error}"))?;
    println!("# cargo xtask findings --others: {} data sets\n", results.len());
    println!("{}\n{}", table::expectations(), table::tables(&results));
    Ok(())
}

/// Reads all files of a directory whose names end with `.csv`, in the order of their names. Each is a result without
/// answers, and a question.
fn read(directory: &Path) -> Result<Vec<(Judged, String)>> {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "csv") {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(format!(
            "{}: has no data sets; make them by xtask/src/findings/others/convert.py (docs/src/planted.md)",
            directory.display()
        ));
    }
    files.sort_unstable();
    let one = |path: &PathBuf| -> Result<(Judged, String)> {
        let failed = |what: &dyn Display| format!("{}: {what}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        asked(file, &text).map_err(|what| failed(&what))
    };
    files.iter().map(one).collect()
}

fn asked(file: String, text: &str) -> Result<(Judged, String)> {
    let set = set::parse(text)?;
    let parts = set.classes.iter().map(|class| expected::expected(&set.source, class)).collect::<Result<_>>()?;
    Ok((Judged { file, parts, ways: Vec::new() }, columns::question(&set)?.to_string()))
}

/// Returns the answers of the analysis, in the order of the questions.
fn answers(program: &Path, questions: &[String]) -> Result<Vec<Value>> {
    let input = program.with_extension("jsonl");
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::write(&input, questions.join("\n")).map_err(|error| failed(&input, error))?;
    let questions_file = std::fs::File::open(&input).map_err(|error| failed(&input, error))?;
    let done = Command::new(program).stdin(questions_file).stderr(Stdio::inherit()).output();
    let done = done.map_err(|error| failed(program, error))?;
    if !done.status.success() {
        return Err(format!("{}: {}", program.display(), done.status));
    }
    let text = String::from_utf8_lossy(&done.stdout);
    let lines = text.lines().map(|line| serde_json::from_str(line).map_err(|error| format!("an answer: {error}")));
    let lines = lines.collect::<Result<Vec<Value>>>()?;
    match lines.len() == questions.len() {
        true => Ok(lines),
        false => Err(format!("{} questions have {} answers", questions.len(), lines.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_data_sets_and_a_broken_one_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let none = read(place.path()).err().unwrap();
        assert!(none.contains("has no data sets; make them by xtask/src/findings/others/convert.py"), "{none}");
        std::fs::write(place.path().join("a.csv"), "abnormal,a\n").unwrap();
        let broken = read(place.path()).err().unwrap();
        assert!(broken.contains("a.csv: the lines `# source:`"), "{broken}");
        let unknown = "# source: dbpa\n# class: drought\n# step_s: 5\nabnormal,a\n0,1\n1,1\n";
        std::fs::write(place.path().join("a.csv"), unknown).unwrap();
        let unknown = read(place.path()).err().unwrap();
        assert!(unknown.ends_with("a.csv: dbpa has no anomaly drought"), "{unknown}");
    }

    #[test]
    fn the_converter_is_where_the_message_says() {
        assert!(crate::root().join("xtask/src/findings/others/convert.py").is_file());
    }
}
