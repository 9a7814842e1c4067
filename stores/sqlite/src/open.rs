//! Connections, their pragmas, and which of them differ from SQLite's defaults.

use std::path::Path;
use std::time::{Duration, Instant};

use plimsoll_core::{Durability, ParamValue, Params, Setting, StoreError, Waits};
use rusqlite::{Connection, OpenFlags};

use crate::failure::store_error;

/// The journal mode of a write-ahead log.
const WAL: &str = "wal";
/// `synchronous` follows from the durability.
const BY_DURABILITY: &str = "by-durability";
/// Time that SQLite waits for the write lock before it returns SQLITE_BUSY. By default it does not wait, so that two
/// writers could not work at a time.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// Statements that a connection keeps prepared: more than any workload has.
const STATEMENTS_MAX: usize = 256;

/// Steps of SQLite's machine between two looks whether the user wants an end: well under a millisecond.
const STEPS: i32 = 10_000;

/// Settings of each connection.
#[derive(Debug, Clone)]
pub(crate) struct Pragmas {
    /// Size of its page cache.
    pub cache_bytes: i64,
    /// A write-ahead log, or which rollback journal.
    pub journal_mode: String,
    /// The value of `synchronous`, where that is not to follow from the durability.
    pub synchronous: Option<String>,
}

impl Pragmas {
    /// Returns the settings of the store's parameters.
    pub(crate) fn of(params: &Params) -> Self {
        let word = |name: &str, default: &str| match params.text(name) {
            "" => default.to_owned(),
            word => word.to_owned(),
        };
        let cache_bytes = match params.0.get("cache_size") {
            Some(ParamValue::Int(bytes)) => *bytes,
            _ => 2000 * 1024,
        };
        let synchronous = word("synchronous", BY_DURABILITY);
        Self {
            cache_bytes,
            journal_mode: word("journal_mode", WAL),
            synchronous: (synchronous != BY_DURABILITY).then(|| synchronous.to_uppercase()),
        }
    }

    /// The value of `PRAGMA synchronous` that gives `durability`; `None`, to leave it as it is.
    ///
    /// `FULL` syncs a log or journal at each commit. A journal that ends a transaction by being deleted needs `EXTRA`, which
    /// syncs its directory too: otherwise power loss may bring it back, and undo the commit. `NORMAL` syncs a log at
    /// checkpoints only: a commit survives the process, a power loss may take the last ones but leaves the database whole.
    /// `OFF` never syncs.
    pub(crate) fn synchronous(&self, durability: Durability) -> Option<&str> {
        if let Some(value) = &self.synchronous {
            return Some(value);
        }
        match durability {
            Durability::Durable if self.journal_mode == "delete" => Some("EXTRA"),
            Durability::Durable => Some("FULL"),
            Durability::Buffered => Some("NORMAL"),
            Durability::AtEnd => Some("OFF"),
            Durability::AsConfigured => None,
        }
    }
}

/// Describes the durability of a connection with default settings.
pub(crate) fn promise(connection: &Connection) -> Result<String, StoreError> {
    let now = settings(connection, None)?;
    let value_of = |name: &str| now.iter().find(|setting| setting.name == name).map(|setting| setting.value.as_str());
    // Of the journal's mode only what differs from the default is among them.
    let (value, journal) = (value_of("synchronous").unwrap_or_default(), value_of("journal_mode").unwrap_or("delete"));
    let survives = match value {
        _ if matches!(journal, "off" | "memory") => {
            "keeps no journal on the disk: power loss, or the end of the process, may leave the database damaged"
        }
        "OFF" => "syncs nothing: an acknowledged commit survives the process, not power loss",
        "NORMAL" if journal != WAL => {
            "syncs at the most critical moments of a commit only: power loss at another may damage the database"
        }
        "NORMAL" => {
            "syncs its log at checkpoints: an acknowledged commit survives the process, and power loss may take \
                     those since the last one"
        }
        "FULL" if journal == "delete" => {
            "syncs its journal at each commit, and not the directory that it is deleted from: power loss may bring the \
                     journal back, and undo the last commit"
        }
        _ => "syncs its log at each commit: by these settings an acknowledged commit survives power loss",
    };
    Ok(format!("SQLite (synchronous={value}, journal_mode={journal}) {survives}."))
}

/// Opens the database at `path`, which is made if it is not there, with these pragmas. What runs there
/// ends when the user wants an end, and [`Waits::grace`] after it was seen.
pub(crate) fn open(
    path: &Path,
    pragmas: &Pragmas,
    durability: Durability,
    waits: &Waits,
) -> Result<Connection, StoreError> {
    let failed = |error| store_error(&format!("cannot open {}", path.display()), &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    let waits = waits.clone();
    let mut seen: Option<Instant> = None;
    let is_over = move || waits.is_stopped() && seen.get_or_insert_with(Instant::now).elapsed() >= waits.grace();
    connection.progress_handler(STEPS, Some(is_over)).map_err(failed)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    let synchronous =
        pragmas.synchronous(durability).map_or(String::new(), |value| format!("PRAGMA synchronous = {value};"));
    // Negative: in KiB.
    let cache = -(pragmas.cache_bytes / 1024).max(1);
    let journal = &pragmas.journal_mode;
    connection
        .execute_batch(&format!("PRAGMA journal_mode = {journal}; {synchronous} PRAGMA cache_size = {cache}"))
        .map_err(failed)?;
    Ok(connection)
}

/// Default values of pragmas, from SQLite's documentation.
const DEFAULTS: &[(&str, &str)] = &[
    ("journal_mode", "delete"),
    ("page_size", "4096"),
    ("cache_size", "-2000"),
    ("mmap_size", "0"),
    ("temp_store", "0"),
    ("wal_autocheckpoint", "1000"),
    ("auto_vacuum", "0"),
    ("locking_mode", "normal"),
    ("foreign_keys", "0"),
    ("busy_timeout", "0"),
    ("secure_delete", "0"),
    ("threads", "0"),
];

/// All pragmas of `connection` that differ from SQLite's defaults, and `synchronous`: as it is now, or
/// in words for each durability that `pragmas` are asked for.
pub(crate) fn settings(connection: &Connection, pragmas: Option<&Pragmas>) -> Result<Vec<Setting>, StoreError> {
    let mut settings = Vec::new();
    let value = |name: &str| {
        connection
            .query_row(&format!("PRAGMA {name}"), [], |row| {
                Ok(match row.get_ref(0)? {
                    rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                    other => other.as_str().unwrap_or_default().to_owned(),
                })
            })
            .map_err(|error| store_error(&format!("cannot read the setting {name}"), &error))
    };
    for (name, default) in DEFAULTS {
        let value = value(name)?;
        if value != *default {
            // Foreign keys are switched on when SQLite is compiled; no workload has any.
            let source = if *name == "foreign_keys" { "build" } else { "plimsoll" };
            settings.push(Setting::new(name, value, Some(default), source));
        }
    }
    let synchronous = match pragmas {
        // Their numbers, in the order of SQLite's documentation.
        None => match value("synchronous")?.as_str() {
            "0" => "OFF".to_owned(),
            "1" => "NORMAL".to_owned(),
            "2" => "FULL".to_owned(),
            "3" => "EXTRA".to_owned(),
            other => other.to_owned(),
        },
        Some(pragmas) => [Durability::Durable, Durability::Buffered, Durability::AtEnd]
            .map(|asked| format!("{} for {}", pragmas.synchronous(asked).unwrap_or_default(), asked.name()))
            .join(", "),
    };
    settings.push(Setting::ours("synchronous", synchronous, "FULL"));
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use plimsoll_core::{Answer, Outcome};

    use super::*;
    use crate::failure::fail;

    #[test]
    fn what_a_commit_survives_is_derived_from_the_journal_too() {
        for (journal, synchronous, words) in [
            ("wal", "FULL", "by these settings an acknowledged commit survives power loss"),
            ("delete", "EXTRA", "by these settings an acknowledged commit survives power loss"),
            ("delete", "FULL", "power loss may bring the journal back"),
            ("memory", "FULL", "may leave the database damaged"),
            ("wal", "NORMAL", "power loss may take those since the last one"),
            ("delete", "NORMAL", "at another may damage the database"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let connection = Connection::open(dir.path().join("a")).unwrap();
            let set = format!("PRAGMA journal_mode = {journal}; PRAGMA synchronous = {synchronous}");
            connection.execute_batch(&set).unwrap();
            let said = promise(&connection).unwrap();
            assert!(said.contains(words), "{said}");
        }
    }

    #[test]
    fn what_runs_when_the_user_wants_an_end_goes_on_for_the_grace_and_no_longer() {
        let dir = tempfile::tempdir().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let waits = Waits::new(Duration::from_secs(15), Duration::from_secs(15), Arc::clone(&stop));
        let open = |name: &str, grace| {
            open(
                &dir.path().join(name),
                &Pragmas::of(&Params::default()),
                Durability::Buffered,
                &waits.with_grace(grace),
            )
            .unwrap()
        };
        let patient = open("a", Duration::from_secs(600));
        let short = open("b", Duration::from_millis(50));
        stop.store(true, Ordering::SeqCst);
        let count = |connection: &Connection, to: i64| {
            let rows = format!("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {to}) ");
            connection.query_row(&format!("{rows} SELECT count(*) FROM c"), [], |row| row.get::<_, i64>(0))
        };
        assert_eq!(count(&patient, 100_000).unwrap(), 100_000);
        let error = count(&short, 1 << 50).unwrap_err();
        let mut answer = Answer::default();
        assert_eq!((fail(&mut answer, &error), answer.code.as_str()), (Outcome::Unknown, "stopped"));
    }
}
