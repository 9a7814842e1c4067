//! Commands of a user that begin and heal a fault: `run "systemctl stop db" heal "systemctl start db"`.

use plimsoll_core::quoted::{has_open_quote, quote, unquote};

use super::{FaultAction, Mistake};
use crate::document::short;
use crate::url::without_secrets;

/// Verb of these faults, before the command that begins one.
pub(super) const RUN: &str = "run";
/// Word before the command that heals one.
const HEAL: &str = "heal";
/// Longest command.
const COMMAND_BYTES_MAX: usize = 4_096;
/// Advice for a command with a quote that is not closed.
const OPEN_QUOTE: &str =
    "close it; in a name, write a backslash before it, and single quotes around the command: run '/opt/a\\\"b' at 10s";
const EXAMPLE: &str = "write 'run \"ssh db1 systemctl stop db\" heal \"ssh db1 systemctl start db\" at 10s for 3s'";

/// Splits the commands of a fault from the words behind them. Returns the fault and these words; `None` for another
/// fault.
pub(super) fn split(text: &str) -> Result<Option<(FaultAction, &str)>, Mistake> {
    let Some(words) = after(RUN, text) else { return Ok(None) };
    let (begin, rest) = command(RUN, words)?;
    let Some(words) = after(HEAL, rest) else { return Ok(Some((FaultAction::Command { begin, heal: None }, rest))) };
    let (heal, rest) = command(HEAL, words)?;
    Ok(Some((FaultAction::Command { begin, heal: Some(heal) }, rest)))
}

/// Returns the fault `what` with its words as plans write them, without secrets. No words may be `between` its commands
/// and its times.
pub(super) fn named(what: FaultAction, between: &[&str]) -> Result<(FaultAction, String), Mistake> {
    if let Some(word) = between.first() {
        let mistake = format!("`{}` has no meaning behind a command", short(word));
        return Err((mistake, Some(EXAMPLE.to_owned())));
    }
    let mut name = String::new();
    if let FaultAction::Command { begin, heal } = &what {
        name = format!("{RUN} {}", shown(begin));
        if let Some(heal) = heal {
            name.push_str(&format!(" {HEAL} {}", shown(heal)));
        }
    }
    Ok((what, name))
}

/// Returns a command in quotes, without secrets.
fn shown(command: &str) -> String {
    quote(&without_secrets(command))
}

/// Returns the text behind its first word, if that is `word`.
fn after<'t>(word: &str, text: &'t str) -> Option<&'t str> {
    let rest = text.trim_start().strip_prefix(word)?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| rest.trim_start())
}

/// Splits the command behind `word` from the words behind it.
fn command<'w>(word: &str, words: &'w str) -> Result<(String, &'w str), Mistake> {
    let mistake = |why: &str| (format!("the command of `{word}` cannot be read: {why}"), Some(EXAMPLE.to_owned()));
    let (command, rest) = unquote(words).map_err(mistake)?;
    if command.trim().is_empty() {
        return Err(mistake("it is empty"));
    }
    if command.chars().any(char::is_control) {
        return Err(mistake("it has a line end, a tab or another control character"));
    }
    if has_open_quote(&command) {
        let (what, _) = mistake("a quote in it is not closed");
        return Err((what, Some(OPEN_QUOTE.to_owned())));
    }
    if command.len() > COMMAND_BYTES_MAX {
        let help = Some("write a script, and its path as the command".to_owned());
        return Err((format!("the command of `{word}` is longer than {COMMAND_BYTES_MAX} bytes"), help));
    }
    Ok((command, rest))
}
