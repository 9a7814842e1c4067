//! Schema of a recording: its tables, and the numbers that identify its file.
//!
//! Every table and column is explained in the book's page on recordings; a test holds the two together.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

/// `PRAGMA application_id` of a recording: "Plms".
pub const APPLICATION_ID: i32 = 0x506c_6d73;

/// `PRAGMA user_version`: the version of the tables below. A reader reads no other. What is described stands in documents,
/// so that a new field needs no new format where the old recordings' readers can do without it: `#[serde(default)]`.
pub const FORMAT: i32 = 5;

/// The file's name in a run's directory.
pub const FILE_NAME: &str = "run.sqlite";

/// The file that SQLite keeps beside the recording `path`, whose name has this `end`.
pub(crate) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Outcome of the histogram rows that hold [`plimsoll_core::Slice::unfinished`]; their kind is null.
pub(crate) const UNFINISHED: &str = "unfinished";

/// Prefix of the measure of histogram rows that hold [`plimsoll_core::Disturbance::disturbed`].
pub(crate) const DISTURBED: &str = "disturbed ";

/// Number of the load generator that made the measurements of a recording: there is only one so far.
pub(crate) const GENERATOR: u32 = 0;

/// The tables. What describes a thing is a document (JSON, of the type that `data` has of that name); what is counted, and
/// read by the thousand, are rows.
pub const DDL: &str = "
CREATE TABLE run (
  header TEXT NOT NULL,
  plan TEXT NOT NULL,
  ended TEXT,
  recorder_bytes INTEGER NOT NULL,
  plimsoll_version TEXT AS (header ->> 'plimsoll_version')
) STRICT;

CREATE TABLE series (
  ordinal INTEGER PRIMARY KEY,
  source TEXT NOT NULL,
  subject TEXT NOT NULL,
  name TEXT NOT NULL,
  unit TEXT NOT NULL,
  kind TEXT NOT NULL
) STRICT;

CREATE TABLE sample (
  at_ns INTEGER NOT NULL,
  series INTEGER NOT NULL REFERENCES series (ordinal),
  value REAL NOT NULL,
  PRIMARY KEY (at_ns, series)
) STRICT, WITHOUT ROWID;

CREATE TABLE distribution (
  at_ns INTEGER NOT NULL,
  series INTEGER NOT NULL REFERENCES series (ordinal),
  count INTEGER NOT NULL,
  max_ns INTEGER NOT NULL,
  hdr BLOB NOT NULL,
  PRIMARY KEY (at_ns, series)
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
  ordinal INTEGER PRIMARY KEY,
  from_ns INTEGER NOT NULL,
  until_ns INTEGER NOT NULL,
  trial INTEGER,
  level TEXT NOT NULL,
  class TEXT NOT NULL,
  subject TEXT NOT NULL,
  text TEXT NOT NULL
) STRICT;

CREATE TABLE fault (
  trial INTEGER NOT NULL,
  phase INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  kind TEXT NOT NULL,
  subject TEXT NOT NULL,
  fault TEXT NOT NULL,
  planned_ns INTEGER NOT NULL,
  begun_ns INTEGER NOT NULL,
  taken_ns INTEGER,
  healing_ns INTEGER,
  healed_ns INTEGER,
  error TEXT,
  PRIMARY KEY (trial, ordinal),
  FOREIGN KEY (trial, phase) REFERENCES phase (trial, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE trial (
  ordinal INTEGER PRIMARY KEY,
  header TEXT NOT NULL,
  end_ns INTEGER,
  store_label TEXT AS (header ->> 'store_label'),
  workload TEXT AS (header ->> 'workload')
) STRICT;

CREATE TABLE phase (
  trial INTEGER NOT NULL REFERENCES trial (ordinal),
  ordinal INTEGER NOT NULL,
  header TEXT NOT NULL,
  ended TEXT,
  name TEXT AS (header ->> 'name'),
  kind TEXT AS (header ->> 'kind'),
  PRIMARY KEY (trial, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE result (
  trial INTEGER NOT NULL,
  phase INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  name TEXT NOT NULL,
  subject TEXT NOT NULL,
  value REAL,
  n INTEGER NOT NULL,
  PRIMARY KEY (trial, phase, ordinal),
  FOREIGN KEY (trial, phase) REFERENCES phase (trial, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE slice (
  trial INTEGER NOT NULL,
  phase INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  generator INTEGER NOT NULL,
  warmup INTEGER NOT NULL,
  start_ns INTEGER NOT NULL,
  end_ns INTEGER NOT NULL,
  wall_ns INTEGER NOT NULL,
  due_unsent INTEGER NOT NULL,
  in_flight INTEGER NOT NULL,
  oldest_age_ns INTEGER NOT NULL,
  lag_p50_ns INTEGER NOT NULL,
  lag_p99_ns INTEGER NOT NULL,
  lag_max_ns INTEGER NOT NULL,
  worker_cpu_ns INTEGER NOT NULL,
  drain INTEGER NOT NULL,
  voluntary_switches INTEGER NOT NULL,
  involuntary_switches INTEGER NOT NULL,
  disturbed_ns INTEGER,
  ticks BLOB,
  PRIMARY KEY (trial, phase, ordinal, generator),
  FOREIGN KEY (trial, phase) REFERENCES phase (trial, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE pause (
  trial INTEGER NOT NULL,
  phase INTEGER NOT NULL,
  slice INTEGER NOT NULL,
  generator INTEGER NOT NULL,
  start_ns INTEGER NOT NULL,
  end_ns INTEGER NOT NULL,
  cpu INTEGER NOT NULL,
  FOREIGN KEY (trial, phase, slice, generator) REFERENCES slice (trial, phase, ordinal, generator)
) STRICT;

CREATE TABLE histogram (
  trial INTEGER NOT NULL,
  phase INTEGER NOT NULL,
  slice INTEGER NOT NULL,
  generator INTEGER NOT NULL,
  kind INTEGER,
  outcome TEXT NOT NULL,
  measure TEXT NOT NULL,
  count INTEGER NOT NULL,
  max_ns INTEGER NOT NULL,
  hdr BLOB NOT NULL,
  UNIQUE (trial, phase, slice, generator, kind, outcome, measure),
  FOREIGN KEY (trial, phase, slice, generator) REFERENCES slice (trial, phase, ordinal, generator)
) STRICT;

CREATE TABLE answers (
  trial INTEGER NOT NULL,
  phase INTEGER NOT NULL,
  found TEXT NOT NULL,
  FOREIGN KEY (trial, phase) REFERENCES phase (trial, ordinal)
) STRICT;

CREATE TABLE ledger (
  trial INTEGER NOT NULL,
  phase INTEGER NOT NULL,
  found TEXT NOT NULL,
  FOREIGN KEY (trial, phase) REFERENCES phase (trial, ordinal)
) STRICT;
";

/// The table of operations that were kept one by one. A recording has it only if they were, so that recordings with it and
/// without it have one format.
pub const OPERATIONS_DDL: &str = "
CREATE TABLE IF NOT EXISTS operations (
  trial INTEGER NOT NULL,
  phase INTEGER NOT NULL,
  generator INTEGER NOT NULL,
  count INTEGER NOT NULL,
  until_ns INTEGER,
  times BLOB NOT NULL,
  PRIMARY KEY (trial, phase, generator),
  FOREIGN KEY (trial, phase) REFERENCES phase (trial, ordinal)
) STRICT;
";

/// Makes a table of what slices have beside their histograms.
macro_rules! table_of_slices {
    ($name:literal, $columns:literal) => {
        concat!(
            "\nCREATE TABLE IF NOT EXISTS ",
            $name,
            " (
  trial INTEGER NOT NULL,
  phase INTEGER NOT NULL,
  slice INTEGER NOT NULL,
  generator INTEGER NOT NULL,
  ",
            $columns,
            ",
  PRIMARY KEY (trial, phase, slice, generator),
  FOREIGN KEY (trial, phase, slice, generator) REFERENCES slice (trial, phase, ordinal, generator)
) STRICT, WITHOUT ROWID;
"
        )
    };
}

/// The table of affected clients. A recording has it only if they were looked for, as with [`OPERATIONS_DDL`].
pub const AFFECTED_DDL: &str =
    table_of_slices!("affected", "clients INTEGER NOT NULL, count INTEGER NOT NULL, bits BLOB NOT NULL");

/// The table of parts of the keys. A recording has it only if sessions knew them, as with [`OPERATIONS_DDL`].
pub const KEY_PARTS_DDL: &str = table_of_slices!("key_parts", "parts INTEGER NOT NULL, ticks BLOB NOT NULL");

/// The table of silences of clients. A recording has it only if they were looked for, as with [`OPERATIONS_DDL`].
pub const SILENCES_DDL: &str = table_of_slices!("silences", "count INTEGER NOT NULL, times BLOB NOT NULL");

/// The table of servers that answered. A recording has it only if there were several, as with [`OPERATIONS_DDL`].
pub const SERVER_TICKS_DDL: &str = table_of_slices!("server_ticks", "names TEXT NOT NULL, ticks BLOB NOT NULL");

/// The table of parts of planned faults. A recording has it only if it has faults, as with [`OPERATIONS_DDL`].
pub const FAULT_DETAIL_DDL: &str = "
CREATE TABLE IF NOT EXISTS fault_detail (
  trial INTEGER NOT NULL REFERENCES trial (ordinal),
  ordinal INTEGER NOT NULL,
  detail TEXT NOT NULL,
  PRIMARY KEY (trial, ordinal)
) STRICT, WITHOUT ROWID;
";

/// The table of fine readings. A recording has it only if it has some, as with [`OPERATIONS_DDL`].
pub const FINE_DDL: &str = "
CREATE TABLE IF NOT EXISTS fine_sample (
  at_ns INTEGER NOT NULL,
  series INTEGER NOT NULL REFERENCES series (ordinal),
  value REAL NOT NULL,
  PRIMARY KEY (at_ns, series)
) STRICT, WITHOUT ROWID;
";

/// Returns true if a recording has the table `name`, which not all have.
pub(crate) fn has_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    connection.query_row(sql, [name], |row| row.get(0))
}
