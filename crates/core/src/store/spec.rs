//! Description of a kind of store, known before any is opened.

use super::{Dialect, Durability, Interface};
use crate::at_risk::{PageGuard, WriteKind, any_file};
use crate::catalogue::ParamSpec;
use crate::error::StoreError;
use crate::layout::{IndexMode, Layout};
use crate::session::{SessionShape, SessionSpec};
use crate::waits;

/// A name for a store with some parameters set: `galera` is MariaDB with such parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorePreset {
    /// The name, as in `--on` and plans.
    pub name: &'static str,
    /// Summary: a line for lists.
    pub summary: &'static str,
    /// Parameters, with values as written in a plan, without quotes.
    pub params: &'static [(&'static str, &'static str)],
    /// Debian packages that it needs besides the store's own.
    pub packages: &'static [&'static str],
}

/// Description of a kind of store, known before any is opened.
#[derive(Debug, Clone)]
pub struct StoreSpec {
    /// Name as in `--on` and plans.
    pub name: &'static str,
    /// Alternative names.
    pub aliases: &'static [&'static str],
    /// Summary: a line for lists.
    pub summary: &'static str,
    /// URL schemes for attached servers (`postgres`, `postgresql`); none for embedded stores.
    pub schemes: &'static [&'static str],
    /// Interfaces it speaks.
    pub interfaces: &'static [Interface],
    /// Durabilities it supports, besides [`Durability::AsConfigured`].
    pub durabilities: &'static [Durability],
    /// The SQL dialect it understands; `None` if it speaks no SQL.
    pub dialect: Option<Dialect>,
    /// Ways in which it can keep secondary indexes.
    pub index_modes: &'static [IndexMode],
    /// Shape and cost of its sessions. A session may keep several operations in flight.
    pub sessions: SessionSpec,
    /// Keeps the data written to it. False for the null store.
    pub keeps_data: bool,
    /// The store's parameters.
    pub params: &'static [ParamSpec],
    /// Names for some sets of their values.
    pub presets: &'static [StorePreset],
    /// Debian packages that a private server needs; empty for a built-in store.
    pub packages: &'static [&'static str],
    /// Grammar of its error codes.
    pub error_codes: ErrorCodes,
    /// Returns the kind of a file by its path below the directory of the store's disk.
    pub write_kind: fn(&str) -> WriteKind,
    /// Settings that protect data pages; `None` if it has no such settings.
    pub page_guard: Option<PageGuard>,
    /// Values of its parameters that make maintenance cycles of a private store rarer, to test if cycles slow operations
    /// down: the counter of the cycles, and parameter and value, `checkpoint_timeout=3600s`.
    pub rarer_cycles: &'static [(&'static str, &'static str)],
    /// Alternatives to a password in the URL, as the end of a sentence.
    pub password_places: &'static str,
    /// Options of other load generators: the option, the generator's name, and Plimsoll's equivalent, in which `#`
    /// stands for the value.
    pub habits: &'static [(&'static str, &'static str, &'static str)],
}

/// Grammar of a store's error codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCodes {
    /// Words in capitals: `SQLITE_BUSY`, `CLUSTERDOWN`.
    Words,
    /// Names of letters: `busy`, `entryAlreadyExists`.
    Names,
    /// Numbers: `1213`.
    Numbers,
    /// SQLSTATEs: `40001`.
    SqlStates,
    /// HTTP statuses: `503`.
    Statuses,
}

/// Error codes of Plimsoll's own with which operations of every store may fail.
const OWN_CODES: [&str; 13] = [
    "closed",
    "connection",
    "content",
    "key",
    "max_payload",
    "other",
    "pipeline aborted",
    "refused",
    "reset",
    "scan",
    "steps",
    "stopped",
    "timeout",
];

impl ErrorCodes {
    /// Returns true if operations may fail with `code`, or with codes of the class `code`, such as `5xx`.
    pub fn has(self, code: &str) -> bool {
        let class = code.strip_suffix("xx").unwrap_or(code);
        let all = |code: &str, is: fn(&u8) -> bool| !code.is_empty() && code.bytes().all(|byte| is(&byte));
        let is_capital = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
        // Scripts and indexes of Plimsoll's own fail with words.
        let is_word = code.starts_with(|c: char| c.is_ascii_uppercase())
            && all(code, |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_');
        let is_own = OWN_CODES.contains(&code);
        is_own
            || match self {
                Self::Words => is_word,
                Self::Names if code == waits::CONNECT => false,
                Self::Names => is_word || all(code, |byte| byte.is_ascii_alphabetic() || b" -".contains(byte)),
                Self::Numbers => is_word || all(class, u8::is_ascii_digit) && (2..=5).contains(&code.len()),
                Self::SqlStates => is_word || all(class, is_capital) && code.len() == 5,
                Self::Statuses => code.len() == 3 && all(class, u8::is_ascii_digit) && class.len() != 2,
            }
    }

    /// Returns an example for messages.
    pub fn example(self) -> &'static str {
        match self {
            Self::Words => "words in capitals, as reports name them under Events",
            Self::Names => "names, such as status.busy",
            Self::Numbers => "numbers, such as status.1213",
            Self::SqlStates => "SQLSTATEs, such as status.40001",
            Self::Statuses => "three digits, or a digit and xx: status.503, status.5xx",
        }
    }
}

impl StoreSpec {
    /// Iterates over the store's names, the name for reports first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let presets = self.presets.iter().map(|preset| preset.name);
        std::iter::once(self.name).chain(self.aliases.iter().copied()).chain(presets)
    }

    /// Returns the preset called `name`; `None` if the name is no preset's.
    pub fn preset(&self, name: &str) -> Option<&'static StorePreset> {
        self.presets.iter().find(|preset| preset.name == name)
    }

    /// Refuses a layout that needs an interface which the store does not speak.
    ///
    /// # Errors
    /// As [`Interface::refused`].
    pub fn must_take(&self, layout: &Layout) -> Result<(), StoreError> {
        let takes_commands = self.interfaces.contains(&Interface::Commands);
        let has = [
            (Interface::Records, layout.collections.is_empty()),
            (Interface::Sql, layout.statements.is_empty() || takes_commands),
        ];
        let foreign = has.iter().find(|(interface, is_empty)| !is_empty && !self.interfaces.contains(interface));
        foreign.map_or(Ok(()), |(interface, _)| {
            Err(interface.refused(&format!("the store `{}`", self.name), "the layout"))
        })
    }

    /// Values that most stores share: all durabilities, and no SQL.
    pub const PLAIN: StoreSpec = StoreSpec {
        name: "",
        aliases: &[],
        summary: "",
        schemes: &[],
        interfaces: &[],
        durabilities: &[Durability::Durable, Durability::Buffered, Durability::AtEnd],
        dialect: None,
        index_modes: &[IndexMode::None],
        sessions: SessionSpec::new(SessionShape::Wire, 0),
        keeps_data: true,
        params: &[],
        presets: &[],
        packages: &[],
        error_codes: ErrorCodes::Words,
        write_kind: any_file,
        page_guard: None,
        rarer_cycles: &[],
        password_places: "--password-file",
        habits: &[],
    };
}
