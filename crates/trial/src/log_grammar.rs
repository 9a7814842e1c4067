//! Grammars of logs that are watched, by their names or by the logs' beginnings.

use std::io::ErrorKind;

use plimsoll_core::production::LogEntry;
use plimsoll_core::{Catalogue, StoreKind, StoreSpec};
use plimsoll_logs::LogFormat;

use crate::error::TrialError;

/// Grammar of a log.
#[derive(Clone, Copy)]
pub(crate) enum Grammar<'a> {
    /// Lines that have an operation each.
    Lines(LogFormat),
    /// Statements, which a store reads.
    Statements(&'a dyn StoreKind),
}

impl<'a> Grammar<'a> {
    /// Finds the grammar with this name: a format, or a store whose servers write logs of statements.
    pub(crate) fn named(name: &str, catalogue: &'a Catalogue) -> Result<Self, TrialError> {
        let format = LogFormat::named(name).filter(|format| *format != LogFormat::Statements);
        let store = catalogue.store(name).filter(|store| has_log(store.spec()));
        let known = format.map(Grammar::Lines).or(store.map(Grammar::Statements));
        known.ok_or_else(|| {
            let formats = LogFormat::ALL.into_iter().filter(|format| *format != LogFormat::Statements);
            let stores = catalogue.stores.iter().map(|store| store.spec()).filter(|spec| has_log(spec));
            let names: Vec<&str> = formats.map(LogFormat::name).chain(stores.map(|spec| spec.name)).collect();
            TrialError::usage(format!("there is no format of logs `{name}`"))
                .next(format!("formats of logs: {}", names.join(", ")))
        })
    }

    /// Recognises the grammar of a log by its beginning.
    pub(crate) fn of_head(head: &[u8], catalogue: &'a Catalogue) -> Option<Self> {
        if let Some(format) = plimsoll_logs::recognise(head) {
            return Some(Grammar::Lines(format));
        }
        for store in &catalogue.stores {
            let (mut head, mut is_timed) = (head, false);
            let read = store.read_log(&mut head, &mut |entry| is_timed |= matches!(entry, LogEntry::Timed(_)));
            if read.is_ok() && is_timed {
                return Some(Grammar::Statements(&**store));
            }
        }
        None
    }

    /// Recognises the grammar of a log that has messages of a server, and no statement yet.
    pub(crate) fn of_messages(head: &[u8], catalogue: &'a Catalogue) -> Option<Self> {
        catalogue.stores.iter().find(|store| store.is_log(head)).map(|store| Grammar::Statements(&**store))
    }

    /// The format of its operations.
    pub(crate) fn format(self) -> LogFormat {
        match self {
            Grammar::Lines(format) => format,
            Grammar::Statements(_) => LogFormat::Statements,
        }
    }

    /// Name of the grammar in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Grammar::Lines(format) => format.name(),
            Grammar::Statements(store) => store.spec().name,
        }
    }
}

/// Returns the reason why a store refuses a log by its beginning: written by syslog, for example.
pub(crate) fn refusal(head: &[u8], catalogue: &Catalogue) -> Option<String> {
    let mut errors = catalogue.stores.iter().filter_map(|store| store.read_log(&mut &*head, &mut |_| {}).err());
    errors.find(|error| error.kind() == ErrorKind::InvalidData).map(|error| error.to_string())
}

/// Returns true for stores whose servers may write logs of statements.
fn has_log(store: &StoreSpec) -> bool {
    store.dialect.is_some() && !store.schemes.is_empty()
}
