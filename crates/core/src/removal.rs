//! Shell commands that messages advise for what a run left in an attached server.
//!
//! Private servers are removed with all their data, so no message advises a command for one.

use std::borrow::Cow;
use std::fmt;

use crate::shown::clean;

/// Joins a note and its command.
const IF_ENDED: &str = "; if that run has ended, ";

/// A shell command that removes what one run left in an attached server.
///
/// Every command names the server and what is removed there: without the one it would act on the server at the
/// client's default address, without the other on everything that server holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    command: String,
    server: String,
    /// Environment variables that the command needs, such as one for a password.
    variables: &'static str,
}

impl Removal {
    /// Returns the command of these words, each quoted for a POSIX shell.
    ///
    /// `server` is the word that names the server: a host, a socket or a URL, never with a password. `name` is the
    /// name of what is removed, or the prefix of several names.
    ///
    /// Returns `None` if `server` is none of the words, if no word contains `name`, if `name` has no letter or digit,
    /// or if a word is empty or contains a control character.
    pub fn new(words: &[&str], server: &str, name: &str) -> Option<Self> {
        let has_name = name.contains(char::is_alphanumeric) && words.iter().any(|word| word.contains(name));
        let command = command(words, server).filter(|_| has_name)?;
        Some(Self { command, server: server.to_owned(), variables: "" })
    }

    /// Names the environment variables that the command needs.
    #[must_use]
    pub fn with(self, variables: &'static str) -> Self {
        Self { variables, ..self }
    }

    /// Passes the output of the command to another one, which must name the same server, or returns `None`.
    #[must_use]
    pub fn pipe(self, words: &[&str]) -> Option<Self> {
        let next = command(words, &self.server)?;
        Some(Self { command: format!("{} | {next}", self.command), ..self })
    }

    /// Runs `next` if this command succeeded.
    #[must_use]
    pub fn then(self, next: &Self) -> Self {
        Self { command: format!("{} && {}", self.command, next.command), ..self }
    }

    /// Returns the note that `what`, made by another run, is still in an attached server.
    pub fn note(what: &str, removal: Option<&Self>) -> String {
        let advice = removal.map(|removal| format!("{IF_ENDED}{removal}")).unwrap_or_default();
        format!("{what} of another run is still there{advice}")
    }

    /// Returns a note without its command, for a store in a lab: a shell outside of the lab's network reaches another
    /// server at the same address, or none.
    pub fn without_command(note: &str) -> &str {
        note.split_once(IF_ENDED).map_or(note, |(what, _)| what)
    }
}

impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.variables.is_empty() {
            write!(f, "with {} set, ", self.variables)?;
        }
        write!(f, "`{}` removes it", self.command)
    }
}

/// Quotes words that name `server`. Returns `None` if they do not, or if one is empty or has a control character.
fn command(words: &[&str], server: &str) -> Option<String> {
    let is_shown = words.iter().all(|word| !word.is_empty() && clean(word) == *word);
    let is_complete = is_shown && words.contains(&server);
    is_complete.then(|| words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" "))
}

/// Reports whether `text` is the id of a run, or of a side of an A/B run: `20261121-210455-9f3a`, `20261121-210455-9f3a-b`.
///
/// Stores may write `_` for each `-`. Only names with such an id are taken for leftovers of a run: a server may hold
/// others that begin with `plimsoll`.
pub fn is_run_id(text: &str) -> bool {
    let is_lower_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    matches!(text.len(), 20 | 22)
        && text.bytes().enumerate().all(|(position, byte)| match position {
            8 | 15 | 20 => matches!(byte, b'-' | b'_'),
            16..20 => is_lower_hex(byte),
            21 => byte.is_ascii_lowercase(),
            _ => byte.is_ascii_digit(),
        })
}

/// Quotes `text` so that a POSIX shell takes it as one word.
pub fn shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+%@".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("'{}'", text.replace('\'', "'\\''"))),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_command_without_a_server_or_a_name_cannot_be_made() {
        let words = ["client", "-h", "db.example", "drop", "run-1"];
        let command = Removal::new(&words, "db.example", "run-1").unwrap();
        assert_eq!(command.to_string(), "`client -h db.example drop run-1` removes it");
        for (words, server, name) in [
            (&words[..], "", "run-1"),
            (&words, "other.example", "run-1"),
            (&words, "db.example", ""),
            (&words, "db.example", "-"),
            (&words, "db.example", "run-2"),
            (&["client", "drop", "run-1"], "db.example", "run-1"),
            (&["client", "-h", "", "drop", "run-1"], "", "run-1"),
            (&["client", "-h", "db.example", "drop", ""], "db.example", ""),
            (&["client", "-h", "db.example", "--match", "*"], "db.example", ""),
            (&["client", "-h", "db.example", "drop", "run-1\n*"], "db.example", "run-1"),
            (&["client", "-h", "db.example", "drop", "run-1\u{202e}"], "db.example", "run-1"),
        ] {
            assert_eq!(Removal::new(words, server, name), None, "{words:?} {server:?} {name:?}");
        }
        assert_eq!(command.clone().pipe(&["xargs", "client", "drop"]), None);
        let both = command.pipe(&["xargs", "client", "-h", "db.example", "drop"]).unwrap();
        assert!(both.to_string().contains(" run-1 | xargs client -h db.example drop`"), "{both}");
    }

    #[test]
    fn only_ids_of_runs_are_taken_for_them() {
        for id in ["20261121-210455-9f3a", "20261121_210455_9f3a", "20261121-210455-9f3a-b", "20261121_210455_9f3a_b"] {
            assert!(is_run_id(id), "{id}");
        }
        for id in [
            "",
            "results",
            "20261121-210455-9f3",
            "20261121-210455-9f3g",
            "20261121-210455-9f3a-",
            "2026112-1210455-9f3a",
        ] {
            assert!(!is_run_id(id), "{id}");
        }
    }

    #[test]
    fn a_shell_takes_every_word_as_it_is() {
        for word in ["plain-1:2", "", " ", "o'clock", "$(id) `id` \"x\" \\n ; & | * ? ~ # ! (", "käse", "-n"] {
            let script = format!("printf %s {}", shell_word(word));
            let printed = Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(printed.stdout).unwrap(), word, "{script}");
        }
    }

    #[test]
    fn a_note_gives_the_command_for_a_run_that_has_ended() {
        let command = Removal::new(&["client", "h:1", "drop", "run 1"], "h:1", "run 1").unwrap().with("PASSWORD");
        assert_eq!(
            Removal::note("run 1", Some(&command)),
            "run 1 of another run is still there; if that run has ended, \
             with PASSWORD set, `client h:1 drop 'run 1'` removes it"
        );
        let bare = Removal::note("run 1", None);
        assert_eq!(bare, "run 1 of another run is still there");
        assert_eq!(Removal::without_command(&Removal::note("run 1", Some(&command))), bare);
        assert_eq!(Removal::without_command(&bare), bare);
    }
}
