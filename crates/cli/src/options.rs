//! Options that are keys of a plan: taken, shown and written down as the plan's own tables of keys say.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use plimsoll_plan::keys::{Key, LINE, OF_DRIVE, PLAN, Takes, Unless};

use crate::error::CliError;

/// What was given for keys of a plan, as it was written: for those of the plan itself and of its drive, or with `OF_LINE`
/// for those of its `[line]`.
#[derive(Debug, Clone, Default)]
pub struct Given<const OF_LINE: bool>(BTreeMap<&'static str, String>);

/// The keys of `tables` that are options.
fn options(tables: &'static [&'static [Key]]) -> impl Iterator<Item = &'static Key> {
    tables.iter().copied().flatten().filter(|key| key.option.is_some())
}

fn all<const OF_LINE: bool>() -> impl Iterator<Item = &'static Key> {
    let (of_plan, of_phase): (&[&[Key]], _) = if OF_LINE { (&[LINE], &[][..]) } else { (&[PLAN], OF_DRIVE) };
    options(of_plan).chain(options(of_phase))
}

fn option_of(key: &'static Key) -> Arg {
    let (name, short) = key.option.unwrap_or((key.name, None));
    let option = Arg::new(key.name).long(name).value_name(key.placeholder());
    let option = match key.takes {
        Takes::Flag => option.action(ArgAction::SetTrue),
        Takes::Word(_, words) if !key.is_swept => option.value_parser(PossibleValuesParser::new(words)),
        _ => option,
    };
    let option = match short {
        Some(letter) => option.short(letter),
        None => option,
    };
    option.help(match key.unless {
        Unless::Is(value) if !matches!(key.takes, Takes::Flag) => {
            format!("{} [default: {}]", key.help, value.trim_matches('"'))
        }
        _ => key.help.to_owned(),
    })
}

impl<const OF_LINE: bool> Args for Given<OF_LINE> {
    fn augment_args(command: Command) -> Command {
        command.args(all::<OF_LINE>().map(option_of))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const OF_LINE: bool> FromArgMatches for Given<OF_LINE> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = all::<OF_LINE>().filter_map(|key| {
            let value = match key.takes {
                Takes::Flag => matches.get_flag(key.name).then(|| "true".to_owned()),
                _ => matches.get_one::<String>(key.name).cloned(),
            };
            Some((key.name, value?))
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Given<false> {
    /// Replaces what was given for the key `name` of a drive; false where a drive has no such option.
    pub fn replace(&mut self, name: &str, value: &str) -> bool {
        let key = options(OF_DRIVE).find(|key| key.name == name);
        key.is_some_and(|key| {
            self.0.insert(key.name, value.to_owned());
            true
        })
    }

    /// What was given for keys of the plan itself, as lines of it.
    pub fn of_plan(&self) -> Result<String, CliError> {
        lines(&[PLAN], &self.0)
    }

    /// What was given for keys of the drive, as lines of its phase.
    pub fn of_drive(&self) -> Result<String, CliError> {
        lines(OF_DRIVE, &self.0)
    }
}

impl Given<true> {
    /// What was given, as lines of a `[line]`.
    pub fn of_line(&self) -> Result<String, CliError> {
        lines(&[LINE], &self.0)
    }
}

impl<const OF_LINE: bool> Given<OF_LINE> {
    /// What was given for the key `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The first option, by the order of the plan's keys, that was given and is none of these keys'.
    pub fn first_but(&self, allowed: &[&str]) -> Option<String> {
        let given = all::<OF_LINE>().find(|key| self.0.contains_key(key.name) && !allowed.contains(&key.name))?;
        given.option.map(|(name, _)| format!("--{name}"))
    }
}

fn lines(tables: &'static [&'static [Key]], given: &BTreeMap<&'static str, String>) -> Result<String, CliError> {
    let mut text = String::new();
    for key in options(tables) {
        if let Some(given) = given.get(key.name) {
            let _ = writeln!(text, "{} = {}", key.name, written(key, given)?);
        }
    }
    Ok(text)
}

/// What was given for `key` as it stands in a plan.
fn written(key: &Key, given: &str) -> Result<String, CliError> {
    Ok(match key.takes {
        Takes::Mix => mix(given)?,
        Takes::Processors => processors(given)?,
        Takes::RateShape => list(&rates(given)),
        Takes::Rate => value(&rates(given)),
        _ if key.is_swept => list(given),
        _ => value(given),
    })
}

/// Processors by number, with commas between them.
fn processors(given: &str) -> Result<String, CliError> {
    match given.split(',').find(|part| part.trim().parse::<u32>().is_err()) {
        None => Ok(format!("[{given}]")),
        Some(part) => Err(CliError::usage(format!("`{part}` is not the number of a processor"))
            .next("write one or more with commas between them, for example 2,3")),
    }
}

/// Shares: `read=70,update=30`; one kind alone needs no share.
fn mix(given: &str) -> Result<String, CliError> {
    let mut shares = Vec::new();
    for part in given.split(',').map(str::trim) {
        let (kind, share) = part.split_once('=').unwrap_or((part, "1"));
        let share: u32 = share.parse().map_err(|_| {
            CliError::usage(format!("`{share}` is not the share of {kind}"))
                .next("write KIND=SHARE with a whole number, for example read=70,update=30")
        })?;
        shares.push(format!("{} = {share}", value(kind)));
    }
    Ok(format!("{{ {} }}", shares.join(", ")))
}

/// Rates; a bare number is one a second, as all other load generators take it.
fn rates(given: &str) -> String {
    let is_bare = |part: &str| part.ends_with(|c: char| c.is_ascii_digit());
    let parts = given.split(',').map(|part| match part.trim() {
        part if is_bare(part) => format!("{part}/s"),
        part => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join(",")
}

/// One value, or several between commas as a list that is swept.
pub fn list(given: &str) -> String {
    let values: Vec<String> = given.split(',').map(|part| value(part.trim())).collect();
    match &values[..] {
        [one] => one.clone(),
        _ => format!("[{}]", values.join(", ")),
    }
}

/// A value as TOML: whole numbers and truth values as they are, everything else in quotes.
pub fn value(given: &str) -> String {
    let is_number = given.parse::<i64>().is_ok() && !given.starts_with('+');
    if is_number || matches!(given, "true" | "false") {
        return given.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in given.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
