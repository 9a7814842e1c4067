//! `plimsoll completions`, `man` and `schema`: what shells, manuals and editors want to know.

use std::path::Path;

use clap::CommandFactory;
use plimsoll_core::Catalogue;
use plimsoll_trial::{TrialError, write_error};

use crate::args::Cli;
use crate::completion;
use crate::error::exit;

/// Prints what `shell` reads to complete.
pub fn completions(shell: clap_complete::Shell) -> Result<u8, TrialError> {
    let script = completion::registration(&shell.to_string())
        .map_err(|error| TrialError::usage(format!("no completions for {shell}: {error}")))?;
    crate::print(&script)
}

/// Writes the manual pages, one to a verb, into `directory`, which is made if it is not there.
pub fn man(directory: &Path) -> Result<u8, TrialError> {
    let failed = |error: std::io::Error| {
        write_error(directory.display(), &error).next("name a directory that can be made or written to")
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), directory).map_err(failed)?;
    crate::say(&format!(
        "wrote the pages into {}; read one with `man -l {}/plimsoll.1`",
        directory.display(),
        directory.display()
    ));
    Ok(exit::OK)
}

/// Prints the JSON Schema of plans.
pub fn schema(catalogue: &Catalogue) -> Result<u8, TrialError> {
    let text = serde_json::to_string_pretty(&plimsoll_plan::schema(catalogue)).unwrap_or_default();
    crate::print(&format!("{text}\n"))
}
