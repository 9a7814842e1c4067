//! `plimsoll report --format parquet`: a directory with a file for each table.

use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use plimsoll_analysis::slices::slices;
use plimsoll_analysis::{RunView, operations, samples, spans};
use plimsoll_record::data::Run;
use plimsoll_report::columnar;
use plimsoll_trial::{TrialError, write_error};

use super::{ELSEWHERE, Output, must_not_overwrite};

/// Names of the tables. A file has the name of its table.
const TABLES: [&str; 10] =
    ["slices", "histograms", "operations", "series", "samples", "fine_samples", "spans", "answers", "phases", "goals"];

/// Advice if the output is a file.
const NO_FILE: &str = "--format parquet writes several files: give --output a directory, or the name of a new one";

/// Writes the tables of `run` into `directory`, which is created if it is missing in its parent. Prints its path, and
/// the phases of which operations are missing.
pub fn deliver(recording: &Path, directory: &Path, run: &Run, view: &RunView) -> Result<u8, TrialError> {
    if directory == Path::new("-") {
        let text = "--format parquet writes several files, which standard output cannot take";
        return Err(TrialError::usage(text).next("--output DIRECTORY"));
    }
    let paths = TABLES.map(|table| directory.join(format!("{table}.parquet")));
    let outputs = paths.each_ref().map(|path| ("--output", Some(path.as_path())));
    must_not_overwrite(&[recording], &outputs)?;
    let failed = |path: &Path, error: &std::io::Error| write_error(path.display(), error).next(ELSEWHERE);
    let is_new = match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && directory.is_dir() => false,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(write_error(directory.display(), &error).next(NO_FILE));
        }
        made => made.map(|()| true).map_err(|error| failed(directory, &error))?,
    };
    // No table takes its place before all are complete.
    let complete = |(table, path): (&str, &PathBuf)| {
        let output = Output::create(path).and_then(|output| write(table, &output.file, run, view).map(|()| output));
        output.map(|output| (path.clone(), output)).map_err(|error| failed(path, &error))
    };
    let outputs: Result<Vec<_>, _> = TABLES.into_iter().zip(&paths).map(complete).collect();
    if outputs.is_err() && is_new {
        let _ = std::fs::remove_dir(directory);
    }
    for (path, output) in outputs? {
        output.keep().map_err(|error| failed(&path, &error))?;
    }
    let cut: String = operations::cut_short(run).iter().map(|text| format!("  {text}\n")).collect();
    crate::print(&format!("{}\n{cut}", directory.display()))
}

fn write(table: &str, file: &File, run: &Run, view: &RunView) -> std::io::Result<()> {
    match table {
        "slices" => columnar::slices(file, slices(run)),
        "histograms" => columnar::histograms(file, slices(run)),
        "operations" => columnar::operations(file, operations::operations(run)),
        "series" => columnar::series(file, samples::series(run)),
        "samples" => columnar::samples(file, samples::samples(run)),
        "fine_samples" => columnar::fine_samples(file, samples::fine_samples(run)),
        "spans" => columnar::spans(file, &spans::spans(run)),
        "answers" => columnar::answers(file, view),
        "phases" => columnar::phases(file, view),
        _ => columnar::goals(file, view),
    }
}
