//! The program `plimsoll`: verbs, words and exit codes. What runs a plan is `plimsoll-trial`.
//!
//! | file | what |
//! |---|---|
//! | `args`, `environment`, `habits` | the command line; options from variables; what other tools' options are called here |
//! | `completion` | completion in shells |
//! | `verbs/` | one file per verb |
//! | `measure` | measurements without a recording |
//! | `memory` | message when no memory is left |
//! | `error` | expected errors and their exit codes |
//! | `plans`, `secrets` | plans from arguments; passwords, and hiding them from other users |
//! | `smaller` | a plan's text with other values, as options ask |
//! | `progress`, `interrupt` | progress and JSON Lines; Ctrl-C |
//! | `live/`, `listen/`, `gadget` | the newest figures: in the terminal, over HTTP, on a serial line |
//! | `browser` | opening a page |
//! | `catalogue`, `studies` | names for plans; built-in plans |
//! | `calibration`, `idle` | the generator's ceiling and the noise floor of this machine; the delay of its idle processors |

mod args;
mod browser;
mod calibration;
mod catalogue;
mod completion;
mod environment;
mod error;
mod gadget;
mod habits;
mod idle;
mod interrupt;
mod listen;
mod live;
mod measure;
mod memory;
mod options;
mod plans;
mod progress;
mod secrets;
mod smaller;
mod studies;
mod verbs;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};
use plimsoll_core::catalogue::{LAB, LabEntry};
use plimsoll_core::{Catalogue, shown};
use plimsoll_trial::{TrialError, io_error};

use crate::args::{Cli, Verb};
use crate::error::exit;

fn main() -> ExitCode {
    // std reads arguments each time from the memory that the kernel shows: they are copied first. Then, while no other
    // thread runs, passwords are overwritten in that memory.
    let typed: Vec<OsString> = std::env::args_os().collect();
    let catalogue = catalogue::assemble();
    secrets::scrub_command_line();
    own_hosts(&catalogue, &typed);
    match completion::answer(&catalogue, &typed) {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(error) => error.exit(),
    }
    let (arguments, of_environment) = match environment::with_options(&typed) {
        Ok(all) => all,
        Err(error) => return failed(&error),
    };
    if let Err(error) = secrets::refuse_unclear(&arguments) {
        return failed(&error);
    }
    for option in of_environment {
        say(&plimsoll_plan::without_secrets(&format!("from the environment, {option}")));
    }
    for places in secrets::better_places(&catalogue, &arguments) {
        say(&format!("warning: a password in a URL can be seen by other users; use {places}"));
    }
    interrupt::handle_signals();
    let mut command = args::with_paragraphs(Cli::command());
    let matches = command.try_get_matches_from_mut(&arguments);
    let cli =
        match matches.and_then(|matches| Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))) {
            Ok(cli) => cli,
            Err(mut error) => {
                if let Some(refused) = habit(&catalogue, &error, &arguments).or_else(|| next_step(&error, &arguments)) {
                    say(&plimsoll_plan::without_secrets(&error::text(&refused)));
                    return ExitCode::from(error::code(refused.kind));
                }
                // The hint that a value may stand behind `--` does not help: no value begins with a dash.
                error.remove(clap::error::ContextKind::Suggested);
                let text = error.to_string();
                match shown::lines(plimsoll_plan::without_secrets(&text)) {
                    // It repeats an argument that holds a password, is very long or drives the terminal.
                    shown if error.use_stderr() && shown.trim_end() != text.trim_end() => say(shown.trim_end()),
                    // Help and version are output like any other.
                    _ if !error.use_stderr() => match error.print().or_else(unless_closed) {
                        Ok(()) => {}
                        Err(error) => return failed(&io_error("standard output", &error)),
                    },
                    _ => drop(error.print()),
                }
                return ExitCode::from(error.exit_code() as u8);
            }
        };
    match run(&catalogue, cli.verb) {
        Ok(code) => ExitCode::from(code),
        Err(error) => failed(&error),
    }
}

/// Enters a user namespace for hosts if the user is not root and the command will make hosts: only a process with a
/// single thread can do so. If this fails, the first host reports the error.
fn own_hosts(catalogue: &Catalogue, typed: &[OsString]) {
    if rustix::process::geteuid().is_root() {
        return;
    }
    let words: Vec<&str> = typed.iter().skip(1).filter_map(|word| word.to_str()).collect();
    let makes_lab = words.first() == Some(&"lab") && words.get(1) == Some(&"up");
    // A lab that stands has an owner, to whose hosts this process joins.
    let named =
        |lab: &LabEntry| words.iter().any(|word| word.split(',').any(|word| word.trim_start_matches(LAB) == lab.name));
    let entered =
        ["exec", "shell", "publish"].iter().any(|verb| words.get(1) == Some(verb)) && catalogue.labs.len() == 1;
    if let Some(lab) = catalogue.labs.iter().find(|lab| named(lab) || entered).filter(|_| !makes_lab) {
        let _ = plimsoll_lab::hosts::join_owner(lab.process);
        return;
    }
    let is_cluster = |word: &str| {
        let presets = catalogue.stores.iter().flat_map(|kind| kind.spec().presets);
        word.contains("nodes")
            || word.contains("own_host")
            || presets.into_iter().any(|preset| word.split(',').any(|name| name == preset.name))
    };
    let is_plan = |word: &str| studies::ALL.iter().any(|study| study.name == word) || word.ends_with(".toml");
    // `doctor` tests hosts as a lab would make them.
    let asks = words.first() == Some(&"doctor") && !words.contains(&"--holds");
    // The plan of a resumed run is known only from its recording.
    let resumes = words.iter().any(|word| word.starts_with("--resume"));
    if makes_lab || asks || resumes || words.iter().any(|word| is_cluster(word) || is_plan(word)) {
        let _ = plimsoll_lab::hosts::become_owner();
    }
}

fn failed(error: &TrialError) -> ExitCode {
    // A URL may have been given where a file, a run or a number was wanted.
    say(&plimsoll_plan::without_secrets(&error::text(error)));
    ExitCode::from(error::code(error.kind))
}

/// Returns the answer to an option or a word that another tool knows.
fn habit(catalogue: &Catalogue, error: &clap::Error, arguments: &[OsString]) -> Option<TrialError> {
    let Some(ContextValue::String(refused)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let words: Vec<String> = arguments.iter().map(|given| given.to_string_lossy().into_owned()).collect();
    let hint = habits::hint(catalogue, refused, &words)?;
    Some(TrialError::usage(format!("unexpected argument '{refused}'")).next(hint))
}

/// Returns an error with a next step where clap has none: for options that exclude each other, for an option that only
/// other verbs have, and for a missing or unknown word of a verb with words of its own, such as the question of `ask`.
fn next_step(error: &clap::Error, arguments: &[OsString]) -> Option<TrialError> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => Some(texts.join(", ")),
        _ => None,
    };
    let given = text(ContextKind::InvalidArg);
    if error.kind() == ErrorKind::ArgumentConflict {
        let (one, other) = (given?, text(ContextKind::PriorArg)?);
        let refused = TrialError::usage(format!("{one} cannot be used with {other}"));
        return (one != other).then(|| refused.next("they exclude each other: leave one of them out"));
    }
    let words: Vec<String> = arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let command = Cli::command();
    let verb = command.find_subcommand(words.first()?)?;
    if let Some(option) = given.as_deref().filter(|_| error.kind() == ErrorKind::UnknownArgument)
        && let Some(name) = option.strip_prefix("--")
    {
        let has = |verb: &&clap::Command| verb.get_arguments().any(|argument| argument.get_long() == Some(name));
        let others: Vec<&str> = command.get_subcommands().filter(has).map(clap::Command::get_name).collect();
        if !others.is_empty() {
            let next = match (verb.get_name(), name) {
                ("run" | "check", "print-plan") => {
                    "`plimsoll check STUDY --print` prints the plan of a study or a file".to_owned()
                }
                (verb, _) => format!("`plimsoll {verb}` does not have it; it is an option of {}", others.join(", ")),
            };
            return Some(TrialError::usage(format!("unexpected argument '{option}'")).next(next));
        }
    }
    let known: Vec<&str> = verb.get_subcommands().map(clap::Command::get_name).collect();
    if known.is_empty() || words.iter().any(|word| known.contains(&word.as_str())) {
        return None;
    }
    let what = match error.kind() {
        ErrorKind::MissingSubcommand => format!("`plimsoll {}`: a word is missing", words.join(" ")),
        ErrorKind::InvalidSubcommand => format!("unknown word '{}'", text(ContextKind::InvalidSubcommand)?),
        ErrorKind::UnknownArgument => format!("unknown word '{}'", given.filter(|word| !word.starts_with('-'))?),
        _ => return None,
    };
    let example = if verb.get_name() == "ask" { "; for example: plimsoll ask latest figures" } else { "" };
    let next = format!("`plimsoll {}` takes one of: {}{example}", verb.get_name(), known.join(", "));
    Some(TrialError::usage(what).next(next))
}

fn run(catalogue: &Catalogue, verb: Verb) -> Result<u8, TrialError> {
    match verb {
        Verb::Run(args) => verbs::run::run(catalogue, &args),
        Verb::Drive(args) => verbs::drive::run(catalogue, &args),
        Verb::Promise(args) => verbs::promise::run(catalogue, &args),
        Verb::Line(args) => verbs::line::run(catalogue, &args),
        Verb::Ab(args) => verbs::ab::run(catalogue, &args),
        Verb::Capture(args) => verbs::capture::run(catalogue, &args),
        Verb::Check(args) => verbs::check::run(catalogue, &args),
        Verb::Report(args) => verbs::report::run(&args),
        Verb::Compare(args) => verbs::compare::run(&args),
        Verb::Explain(args) => verbs::explain::run(&args),
        Verb::Ask(args) => verbs::ask::run(&args),
        Verb::Mcp => verbs::mcp::run(),
        Verb::Runs(args) => verbs::runs::run(&args),
        Verb::Lab { action } => verbs::lab::run(catalogue, &action),
        Verb::Faultfs(action) => verbs::faultfs::run(&action),
        Verb::Cost(args) => verbs::cost::run(&args),
        Verb::List { what } => verbs::list::run(catalogue, what),
        Verb::Completions { shell } => verbs::shell::completions(shell),
        Verb::Man { directory } => verbs::shell::man(&directory),
        Verb::Schema => verbs::shell::schema(catalogue),
        Verb::Doctor(args) => verbs::doctor::run(catalogue, &args),
        Verb::Sync(args) => verbs::sync::run(&args),
        Verb::Trace(args) => verbs::trace::run(&args),
        Verb::Files(args) => verbs::files::run(&args),
        Verb::Watch(args) => verbs::watch::run(catalogue, &args),
    }
}

/// Writes a line to standard error; after the live display if that has the terminal. Continues if standard error is
/// closed.
pub fn say(text: &str) {
    if !live::hold(text) {
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }
}

/// Writes to standard output. A reader that has gone away (`plimsoll list | head`) is no error.
pub fn print(text: &str) -> Result<u8, TrialError> {
    print_by(|out| out.write_all(text.as_bytes()))
}

/// Writes to standard output what `write` writes, as [`print()`] does.
pub fn print_by(write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<u8, TrialError> {
    let written = write(&mut anstream::stdout()).or_else(unless_closed);
    written.map(|()| exit::OK).map_err(|error| io_error("standard output", &error))
}

/// Returns `error` unless it is that of a reader that has gone away, or of a terminal that was closed.
fn unless_closed(error: std::io::Error) -> std::io::Result<()> {
    use rustix::fs::{FileType, fstat};
    let is_device = || fstat(std::io::stdout()).is_ok_and(|at| FileType::from_raw_mode(at.st_mode).is_char_device());
    let is_hung_up = error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) && is_device();
    if error.kind() == std::io::ErrorKind::BrokenPipe || is_hung_up { Ok(()) } else { Err(error) }
}
