//! Options that are variables of the environment: `PLIMSOLL_CLIENTS=8` is `--clients 8`, unless that is typed.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, CommandFactory};
use plimsoll_trial::TrialError;

use crate::args::{AbArgs, Cli, DriveArgs, LineArgs, RunArgs};

/// Beginning of the variables' names.
const PREFIX: &str = "PLIMSOLL_";
/// Adds the options of a verb to a command.
type AddOptions = fn(Command) -> Command;
/// The verbs whose options may be variables.
const VERBS: [(&str, AddOptions); 4] = [
    ("run", RunArgs::augment_args),
    ("drive", DriveArgs::augment_args),
    ("line", LineArgs::augment_args),
    ("ab", AbArgs::augment_args),
];

/// `arguments` with what the environment says of options that are not typed in them and do not contradict one that is; and for
/// people, which those are.
///
/// # Errors
/// A flag's variable is neither true nor false.
pub fn with_options(arguments: &[OsString]) -> Result<(Vec<OsString>, Vec<String>), TrialError> {
    let none = || Ok((arguments.to_vec(), Vec::new()));
    // The parser of all verbs takes more time than many commands do.
    if !is_any_set(arguments) {
        return none();
    }
    let mut command = Cli::command();
    command.build();
    // Arguments that cannot be parsed are refused as typed.
    let Ok(typed) = command.clone().try_get_matches_from(arguments) else { return none() };
    let Some((verb, typed)) = typed.subcommand().filter(|(verb, _)| VERBS.iter().any(|(name, _)| name == verb)) else {
        return none();
    };
    let Some(command) = command.find_subcommand(verb) else { return none() };
    let (mut said, mut shown) = (Vec::new(), Vec::new());
    for option in command.get_arguments().filter(|option| !option.is_positional()) {
        let Some(name) = option.get_long() else { continue };
        let variable = variable(name);
        let Some(value) = std::env::var(&variable).ok().filter(|value| !value.is_empty()) else { continue };
        if contradicts(command, typed, option) {
            continue;
        }
        let options = match option.get_action() {
            ArgAction::SetTrue if is_true(&variable, &value)? => vec![format!("--{name}")],
            ArgAction::SetTrue => continue,
            // What may be given several times has semicolons between its values.
            ArgAction::Append if option.get_value_delimiter().is_none() => {
                value.split(';').map(|one| format!("--{name}={}", one.trim())).collect()
            }
            ArgAction::Set | ArgAction::Append => vec![format!("--{name}={value}")],
            _ => continue,
        };
        shown.push(format!("{variable}: {}", options.join(" ")));
        said.extend(options.into_iter().map(OsString::from));
    }
    // Behind the verb: what stands behind `--` is no option.
    let behind = arguments.iter().position(|word| word == verb).map_or(arguments.len(), |at| at + 1);
    let (before, after) = arguments.split_at(behind);
    Ok(([before, &said, after].concat(), shown))
}

/// Returns true if a variable is set that is an option of a verb in `arguments`.
fn is_any_set(arguments: &[OsString]) -> bool {
    let is_ours = |name: &OsString| name.to_str().is_some_and(|name| name.starts_with(PREFIX));
    let set: Vec<OsString> = std::env::vars_os().map(|(name, _)| name).filter(is_ours).collect();
    let named = |verb: &str| !set.is_empty() && arguments.iter().any(|word| word == verb);
    let is_set = |option: &Arg| option.get_long().is_some_and(|name| set.iter().any(|set| *set == *variable(name)));
    VERBS.iter().any(|(verb, add)| named(verb) && add(Command::new(*verb)).get_arguments().any(is_set))
}

/// Returns the name of the variable of an option.
fn variable(option: &str) -> String {
    format!("{PREFIX}{}", option.replace('-', "_").to_uppercase())
}

/// Returns true if `option`, or an option that conflicts with it, is typed.
fn contradicts(command: &Command, typed: &ArgMatches, option: &Arg) -> bool {
    let is_typed = |id: &str| typed.value_source(id) == Some(ValueSource::CommandLine);
    let others = || command.get_arguments().filter(|other| is_typed(other.get_id().as_str()));
    is_typed(option.get_id().as_str())
        || command.get_arg_conflicts_with(option).iter().any(|other| is_typed(other.get_id().as_str()))
        || others().any(|other| command.get_arg_conflicts_with(other).iter().any(|one| one.get_id() == option.get_id()))
}

fn is_true(variable: &str, value: &str) -> Result<bool, TrialError> {
    match value {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(TrialError::usage(format!("{variable} is `{value}`")).next("write true or false")),
    }
}
