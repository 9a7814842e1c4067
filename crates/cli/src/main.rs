//! The program `plimsoll`: verbs, words and exit codes. What runs a plan is `plimsoll-trial`.
//!
//! | file | what |
//! |---|---|
//! | `args`, `habits` | the command line; what other tools' options are called here |
//! | `verbs/` | one file per verb |
//! | `memory` | what is said when there is none left |
//! | `error` | expected errors and their exit codes |
//! | `plans`, `secrets` | from what was typed to a plan; passwords, and keeping them from others |
//! | `progress`, `interrupt` | what goes on beside: the progress line, Ctrl-C |
//! | `catalogue`, `studies` | what a plan may name; the built-in plans |
//! | `calibration` | the generator's ceiling and the noise floor of this machine |

mod args;
mod calibration;
mod catalogue;
mod error;
mod habits;
mod interrupt;
mod memory;
mod options;
mod plans;
mod progress;
mod secrets;
mod studies;
mod verbs;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use plimsoll_core::{Catalogue, shown};

use crate::args::{Cli, Verb};
use crate::error::{CliError, exit};

fn main() -> ExitCode {
    // std reads arguments where the kernel shows them, each time it is asked: ours are copied out, then,
    // while no other thread runs, passwords are taken out of what others can see of us.
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let catalogue = catalogue::assemble();
    if secrets::scrub_command_line() {
        for places in secrets::better_places(&catalogue, &arguments) {
            say(&format!("warning: a password in a URL can be seen by other users; use {places}"));
        }
    }
    interrupt::handle_signals();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        // It repeats the argument that it does not take.
        Err(error) if secrets::shows_password(&error.to_string()) => {
            say(secrets::masked(&error.to_string()).trim_end());
            return ExitCode::from(exit::USAGE);
        }
        Err(error) => {
            let habit = habit(&catalogue, &error, &arguments);
            let text = error.to_string();
            match shown::lines(&text) {
                // Somebody else's argument that is very long or drives the terminal.
                shown if error.use_stderr() && shown.trim_end() != text.trim_end() => say(shown.trim_end()),
                _ => drop(error.print()),
            }
            if let Some(habit) = habit {
                say(&habit);
            }
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    match run(&catalogue, cli.verb) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // A URL may have been given where a file, a run or a number was wanted.
            say(&secrets::masked(&error.to_string()));
            error.exit_code()
        }
    }
}

/// What an unknown option of another tool is called here.
fn habit(catalogue: &Catalogue, error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let at = arguments.iter().position(|given| given.to_string_lossy().starts_with(option.as_str()));
    let given = at.map(|at| arguments[at].to_string_lossy().into_owned());
    let value = at.and_then(|at| arguments.get(at + 1)).map(|value| value.to_string_lossy().into_owned());
    habits::hint(catalogue, given.as_deref().filter(|given| given.contains('=')).unwrap_or(option), value.as_deref())
}

fn run(catalogue: &Catalogue, verb: Verb) -> Result<u8, CliError> {
    match verb {
        Verb::Run(args) => verbs::run::run(catalogue, &args),
        Verb::Drive(args) => verbs::drive::run(catalogue, &args),
        Verb::Line(args) => verbs::line::run(catalogue, &args),
        Verb::Ab(args) => verbs::ab::run(catalogue, &args),
        Verb::Check(args) => verbs::check::run(catalogue, &args),
        Verb::Report(args) => verbs::report::run(&args),
        Verb::Compare(args) => verbs::compare::run(&args),
        Verb::Runs(args) => verbs::runs::run(&args),
        Verb::List { what } => verbs::list::run(catalogue, what),
        Verb::Completions { shell } => verbs::shell::completions(shell),
        Verb::Man { directory } => verbs::shell::man(&directory),
        Verb::Schema => verbs::shell::schema(catalogue),
        Verb::Doctor(args) => verbs::doctor::run(catalogue, &args),
    }
}

/// Writes a line to standard error. When nobody reads it any more, the work goes on.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Writes to standard output. A reader that has gone away (`plimsoll list | head`) is no error.
pub fn print(text: &str) -> Result<u8, CliError> {
    match anstream::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(CliError::io("standard output", &error)),
        _ => Ok(exit::OK),
    }
}
