//! Options that are keys of a plan: taken, shown and written down as the plan's own tables of keys say.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use plimsoll_core::{ParamSpec, ParamType};
use plimsoll_plan::keys::{GOALS, Key, KeyDefault, KeyType, LINE, OF_DRIVE, OF_REQUEST, PLAN};
use plimsoll_plan::{Dimension, parse_count};
use plimsoll_trial::TrialError;

use crate::plans::PlanText;

/// Values given for keys of a plan, as written: keys of the plan itself, of its drive and of its request, or with
/// `OF_LINE` those of its `[line]`. A key that may be given several times has a line for each value.
#[derive(Debug, Clone, Default)]
pub struct Given<const OF_LINE: bool>(BTreeMap<&'static str, String>);

/// The keys of `tables` that are options.
fn options(tables: &'static [&'static [Key]]) -> impl Iterator<Item = &'static Key> {
    tables.iter().copied().flatten().filter(|key| key.option.is_some())
}

fn all<const OF_LINE: bool>() -> impl Iterator<Item = &'static Key> {
    let tables: &[&[&[Key]]] = if OF_LINE { &[&[LINE]] } else { &[&[PLAN], OF_DRIVE, OF_REQUEST] };
    tables.iter().flat_map(|tables| options(tables))
}

/// Returns the text of a fault. Several faults are lines of one value, so a fault has no line ends.
fn one_line(fault: &str) -> Result<String, &'static str> {
    let fault = fault.trim();
    let has_line_end = fault.contains(['\n', '\r']);
    if has_line_end { Err("a line end in a fault: write it in one line") } else { Ok(fault.to_owned()) }
}

fn option_of(key: &'static Key) -> Arg {
    let (name, short) = key.option.unwrap_or((key.name, None));
    let option = Arg::new(key.name).long(name).value_name(key.placeholder());
    let option = match key.takes {
        KeyType::Flag => option.action(ArgAction::SetTrue),
        KeyType::Faults => option.action(ArgAction::Append).value_parser(one_line),
        KeyType::Headers | KeyType::Tables(_) => option.action(ArgAction::Append),
        KeyType::Word(_, words) if !key.is_swept => option.value_parser(PossibleValuesParser::new(words)),
        _ => option,
    };
    // A time with a sign is refused as a time, and not as an unknown option.
    let takes_time = matches!(key.takes, KeyType::Time(..) | KeyType::Warmup | KeyType::Think | KeyType::Backoff);
    let option = if takes_time { option.allow_hyphen_values(true) } else { option };
    let option = match short {
        Some(letter) => option.short(letter),
        None => option,
    };
    option.help(match key.unless {
        KeyDefault::Is(value) if !matches!(key.takes, KeyType::Flag) => {
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
                KeyType::Flag => matches.get_flag(key.name).then(|| "true".to_owned()),
                KeyType::Headers | KeyType::Faults | KeyType::Tables(_) => {
                    matches.get_many::<String>(key.name).map(|all| all.cloned().collect::<Vec<_>>().join("\n"))
                }
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
    /// Replaces the value of the key `name` of a drive; false if a drive has no such option.
    pub fn replace(&mut self, name: &str, value: &str) -> bool {
        let key = options(OF_DRIVE).find(|key| key.name == name);
        key.is_some_and(|key| {
            self.0.insert(key.name, value.to_owned());
            true
        })
    }
}

impl<const OF_LINE: bool> Given<OF_LINE> {
    /// Returns the value given for the key `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns true if a value was given for any key of `tables`.
    pub fn has(&self, tables: &'static [&'static [Key]]) -> bool {
        options(tables).any(|key| self.0.contains_key(key.name))
    }

    /// The first option, by the order of the plan's keys, that was given and is none of these keys'.
    pub fn first_but(&self, allowed: &[&str]) -> Option<String> {
        let given = all::<OF_LINE>().find(|key| self.0.contains_key(key.name) && !allowed.contains(&key.name))?;
        given.option.map(|(name, _)| format!("--{name}"))
    }

    /// Writes the given keys of `tables` as lines of a plan.
    pub fn write(&self, tables: &'static [&'static [Key]], plan: &mut PlanText) -> Result<(), TrialError> {
        for key in options(tables) {
            if let Some(given) = self.get(key.name) {
                let option = key.option.map_or(key.name, |(name, _)| name);
                let from = if matches!(key.takes, KeyType::Flag) {
                    format!("--{option}")
                } else {
                    format!("--{option} {}", given.replace('\n', &format!(" --{option} ")))
                };
                plan.line(key.name, &written(key, given, &format!("--{option} "))?, &from);
            }
        }
        Ok(())
    }
}

/// Writes the value given for `key`, as `typed` behind its name, as it stands in a plan.
///
/// # Errors
/// Fails if a time has no unit, or `given` is no value of this type.
pub fn written(key: &Key, given: &str, typed: &str) -> Result<String, TrialError> {
    if matches!(key.takes, KeyType::Time(..) | KeyType::Warmup | KeyType::Think | KeyType::Backoff) {
        with_unit(typed, given)?;
    }
    Ok(match key.takes {
        KeyType::Mix => mix(given)?,
        KeyType::Processors => processors(given)?,
        KeyType::RateShape if given.contains('=') => shape(given),
        KeyType::RateShape => list(&each(given, rate)),
        KeyType::Stages | KeyType::Samplers => texts(given),
        KeyType::Rate => value(&rate(given)),
        // pgbench opens one for each transaction, and has no number for it.
        KeyType::Whole(..) if key.name == "reconnect" => {
            list(&each(given, |one| if one.trim() == "each" { "1".to_owned() } else { count(one) }))
        }
        KeyType::Whole(..) if key.is_swept => list(&each(given, count)),
        KeyType::Whole(..) | KeyType::Repeats => value(&count(given)),
        KeyType::Text | KeyType::Statuses => quoted(given),
        KeyType::Tables(keys) => tables(key.name, keys, given)?,
        KeyType::Faults if given.lines().all(|line| line.trim().is_empty()) => {
            return Err(
                TrialError::usage(format!("{typed}'': the fault is missing")).next("write 'kill primary at 40%'")
            );
        }
        KeyType::Headers | KeyType::Faults => {
            format!("[{}]", given.lines().map(quoted).collect::<Vec<_>>().join(", "))
        }
        _ if key.is_swept => list(given),
        _ => value(given),
    })
}

/// Tables of these keys, each on a line: `readers clients=8 mix=read rate=500/s`.
fn tables(what: &str, keys: &[Key], given: &str) -> Result<String, TrialError> {
    let table = |line: &str| {
        let mut words = line.split_whitespace();
        let mut pairs = vec![format!("name = {}", quoted(words.next().unwrap_or_default()))];
        for word in words {
            let known = word.split_once('=').and_then(|(name, value)| {
                keys.iter().find(|key| key.name == name && name != "name").map(|key| (key, value))
            });
            let Some((key, value)) = known else {
                let names: Vec<&str> = keys.iter().map(|key| key.name).filter(|name| *name != "name").collect();
                let what = format!("--{what} {line}: `{word}` is not one of its keys");
                let next = format!("write a name, then KEY=VALUE with spaces between them: {}", names.join(", "));
                return Err(TrialError::usage(what).next(next));
            };
            let pair = format!("{} = ", key.name);
            if pairs.iter().any(|known| known.starts_with(&pair)) {
                return Err(TrialError::usage(format!("--{what} {line}: `{}` is given twice", key.name))
                    .next("leave one of them out"));
            }
            pairs.push(pair + &written(key, value, &format!("{}=", key.name))?);
        }
        Ok(format!("{{ {} }}", pairs.join(", ")))
    };
    let tables = given.lines().map(table).collect::<Result<Vec<_>, _>>()?;
    Ok(format!("[{}]", tables.join(", ")))
}

/// Processors by number, with commas between them.
fn processors(given: &str) -> Result<String, TrialError> {
    match given.split(',').find(|part| part.trim().parse::<u32>().is_err()) {
        None => Ok(format!("[{given}]")),
        Some(part) => Err(TrialError::usage(format!("`{part}` is not the number of a processor"))
            .next("write one or more with commas between them, for example 2,3")),
    }
}

/// Writes shares of operation types (`read=70,update=30`) as a table; a type alone needs no share.
///
/// # Errors
/// Fails if a share is not a whole number.
pub fn mix(given: &str) -> Result<String, TrialError> {
    let mut shares = Vec::new();
    for part in given.split(',').map(str::trim) {
        let (kind, share) = part.split_once('=').unwrap_or((part, "1"));
        let share: u32 = share.parse().map_err(|_| {
            TrialError::usage(format!("`{share}` is not the share of {kind}"))
                .next("write TYPE=SHARE with a whole number, for example read=70,update=30")
        })?;
        shares.push(format!("{} = {share}", value(kind)));
    }
    Ok(format!("{{ {} }}", shares.join(", ")))
}

/// Writes the limit of a goal as it stands in a plan. A bare time stays as given: seconds or milliseconds may be meant.
pub fn goal(name: &str, given: &str) -> String {
    let takes = GOALS.iter().find(|key| key.name == name).map(|key| key.takes);
    value(&if matches!(takes, Some(KeyType::Rate)) { rate(given) } else { given.to_owned() })
}

/// The value, or values, of a parameter as they stand in a plan. A text is one value, whatever it holds.
pub fn param(spec: Option<&ParamSpec>, given: &str) -> String {
    match spec.map(|spec| spec.param_type) {
        Some(ParamType::Text) => quoted(given),
        Some(ParamType::Int { .. }) => list(&each(given, count)),
        _ => list(given),
    }
}

/// Applies `of` to each of the values between commas.
fn each(given: &str, of: fn(&str) -> String) -> String {
    given.split(',').map(of).collect::<Vec<_>>().join(",")
}

/// A rate; a bare number is one a second, as all other load generators take it.
fn rate(given: &str) -> String {
    let given = given.trim();
    if parse_count(given).is_some() || given.parse::<f64>().is_ok() { format!("{given}/s") } else { given.to_owned() }
}

/// Refuses times without a unit: tools differ in whether a bare number is of seconds or of milliseconds. `typed` stands
/// before the times on the command line: `--for `.
///
/// # Errors
/// Fails if any of the times between commas has no unit, and says what to write.
pub fn with_unit(typed: &str, given: &str) -> Result<(), TrialError> {
    let is_bare = |one: &str| one.parse::<f64>().is_ok_and(|number| number.is_finite() && number.is_sign_positive());
    if !given.split(',').any(|one| is_bare(one.trim())) {
        return Ok(());
    }
    let seconds =
        given.split(',').map(str::trim).map(|one| if is_bare(one) { format!("{one}s") } else { one.to_owned() });
    let write =
        format!("write {typed}{} for seconds; other units are ms, min and h", seconds.collect::<Vec<_>>().join(","));
    Err(TrialError::usage(format!("{typed}{given}: a time needs a unit")).next(write))
}

/// Parses the quantity of an option of the command line, in the dimension's base unit.
///
/// # Errors
/// Fails if `given` is not such a quantity.
pub fn quantity(option: &str, given: &str, dimension: Dimension) -> Result<f64, TrialError> {
    if dimension == Dimension::Time && !given.contains(',') {
        with_unit(&format!("--{option} "), given)?;
    }
    plimsoll_plan::parse_quantity(given, dimension)
        .map_err(|(what, next)| TrialError { next, ..TrialError::usage(format!("--{option} {given}: {what}")) })
}

/// Parses the time of an option of the command line.
///
/// # Errors
/// Fails if `given` is not a time above 0.
pub fn time(option: &str, given: &str) -> Result<Duration, TrialError> {
    match quantity(option, given, Dimension::Time)? / 1e9 {
        seconds if seconds > 0.0 && seconds.is_finite() => Ok(Duration::from_secs_f64(seconds.min(1e9))),
        _ => Err(TrialError::usage(format!("--{option} {given}: a time above 0 is needed"))
            .next(format!("write a time, for example --{option} 10s"))),
    }
}

/// Parses the size of an option in bytes; a bare number is one of bytes.
///
/// # Errors
/// Fails if `given` is not a size.
pub fn size(option: &str, given: &str) -> Result<u64, TrialError> {
    let bytes = match given.trim().parse::<u64>() {
        Ok(bytes) => return Ok(bytes),
        Err(_) => quantity(option, given.trim(), Dimension::Size)?,
    };
    Ok(if bytes.is_finite() { bytes as u64 } else { 0 })
}

/// A count in digits: `10K` is 10000.
fn count(given: &str) -> String {
    parse_count(given).map_or(given.trim().to_owned(), |count| count.to_string())
}

/// A rate that changes, by the keys of its table: `sine=1000/s,amplitude=500/s,period=60s`.
fn shape(given: &str) -> String {
    let keys = given.split(',').map(|part| {
        let (key, of) = part.split_once('=').unwrap_or((part, ""));
        format!("{} = {}", quoted(key.trim()), quoted(of.trim()))
    });
    format!("{{ {} }}", keys.collect::<Vec<_>>().join(", "))
}

/// A list of texts that is one value.
fn texts(given: &str) -> String {
    let texts = given.split(',').map(|part| quoted(part.trim()));
    format!("[{}]", texts.collect::<Vec<_>>().join(", "))
}

/// Writes a value, or a list of several between commas, which is swept.
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
    if is_number || matches!(given, "true" | "false") { given.to_owned() } else { quoted(given) }
}

/// A text as TOML.
pub fn quoted(given: &str) -> String {
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
