//! What a recording looks like inside: the tables, and the numbers by which a file is known to be one.
//!
//! Every table and column is explained in the book's page on recordings; a test holds the two together.

/// `PRAGMA application_id` of a recording: "Plms".
pub const APPLICATION_ID: i32 = 0x506c_6d73;

/// `PRAGMA user_version`: the version of the tables below. A reader refuses newer ones, and reads older ones: in
/// format 1 a slice had no `drain` and no switches, and a published value no labels; before format 3 nobody watched the
/// machine's own pauses, and a phase had no `late` and was void where it is late now.
pub const FORMAT: i32 = 3;

/// The file's name in a run's directory.
pub const FILE_NAME: &str = "run.sqlite";

/// Outcome of the histogram rows that hold [`plimsoll_core::Slice::unfinished`]; their kind is null.
pub(crate) const UNFINISHED: &str = "unfinished";

/// Outcome of the histogram rows that hold [`plimsoll_core::Watched::lateness`]; their kind is null.
pub(crate) const WITNESS: &str = "witness";

/// What stands before the measure of histogram rows that hold [`plimsoll_core::Watched::disturbed`].
pub(crate) const DISTURBED: &str = "disturbed ";

/// The tables.
pub const DDL: &str = "
CREATE TABLE run (
  id TEXT NOT NULL PRIMARY KEY,
  plimsoll_version TEXT NOT NULL,
  plan_name TEXT NOT NULL,
  title TEXT NOT NULL,
  question TEXT NOT NULL,
  source TEXT NOT NULL,
  plan_text TEXT NOT NULL,
  plan_json TEXT NOT NULL,
  command_line TEXT NOT NULL,
  seed TEXT NOT NULL,
  slice_ns INTEGER NOT NULL,
  started_wall_ns INTEGER NOT NULL,
  end_ns INTEGER,
  state TEXT NOT NULL,
  reason TEXT,
  recorder_bytes INTEGER NOT NULL
) STRICT;

CREATE TABLE environment (
  ordinal INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  value TEXT NOT NULL
) STRICT;

CREATE TABLE left_out (
  ordinal INTEGER PRIMARY KEY,
  text TEXT NOT NULL
) STRICT;

CREATE TABLE goal (
  ordinal INTEGER PRIMARY KEY,
  what TEXT NOT NULL,
  limit_value REAL,
  unit TEXT NOT NULL
) STRICT;

CREATE TABLE figure (
  ordinal INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  unit TEXT NOT NULL,
  formula TEXT NOT NULL
) STRICT;

CREATE TABLE published (
  figure INTEGER NOT NULL REFERENCES figure (ordinal),
  ordinal INTEGER NOT NULL,
  value REAL,
  measured_on TEXT NOT NULL,
  labels TEXT NOT NULL,
  PRIMARY KEY (figure, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE series (
  ordinal INTEGER PRIMARY KEY,
  sampler TEXT NOT NULL,
  subject TEXT NOT NULL,
  name TEXT NOT NULL,
  unit TEXT NOT NULL
) STRICT;

CREATE TABLE sample (
  at_ns INTEGER NOT NULL,
  series INTEGER NOT NULL REFERENCES series (ordinal),
  value REAL NOT NULL,
  PRIMARY KEY (at_ns, series)
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
  ordinal INTEGER PRIMARY KEY,
  at_ns INTEGER NOT NULL,
  trial INTEGER,
  level TEXT NOT NULL,
  kind TEXT NOT NULL,
  text TEXT NOT NULL
) STRICT;

CREATE TABLE trial (
  ordinal INTEGER PRIMARY KEY,
  store TEXT NOT NULL,
  store_label TEXT NOT NULL,
  place TEXT NOT NULL,
  version TEXT NOT NULL,
  workload TEXT NOT NULL,
  record_count INTEGER NOT NULL,
  record_bytes INTEGER NOT NULL,
  start_ns INTEGER NOT NULL,
  end_ns INTEGER
) STRICT;

CREATE TABLE label (
  trial INTEGER NOT NULL REFERENCES trial (ordinal),
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (trial, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE param (
  trial INTEGER NOT NULL REFERENCES trial (ordinal),
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (trial, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE setting (
  trial INTEGER NOT NULL REFERENCES trial (ordinal),
  ordinal INTEGER NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  default_value TEXT,
  source TEXT NOT NULL,
  PRIMARY KEY (trial, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE op_kind (
  trial INTEGER NOT NULL REFERENCES trial (ordinal),
  ordinal INTEGER NOT NULL,
  name TEXT NOT NULL,
  definition TEXT NOT NULL,
  PRIMARY KEY (trial, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE phase (
  trial INTEGER NOT NULL REFERENCES trial (ordinal),
  ordinal INTEGER NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  durability TEXT,
  clients INTEGER NOT NULL,
  rate_per_s REAL,
  start_ns INTEGER NOT NULL,
  end_ns INTEGER,
  state TEXT NOT NULL,
  reason TEXT,
  data_bytes INTEGER,
  index_bytes INTEGER,
  total_bytes INTEGER,
  late TEXT,
  PRIMARY KEY (trial, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE result (
  trial INTEGER NOT NULL,
  phase INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  name TEXT NOT NULL,
  unit TEXT NOT NULL,
  value REAL,
  n INTEGER NOT NULL,
  PRIMARY KEY (trial, phase, ordinal),
  FOREIGN KEY (trial, phase) REFERENCES phase (trial, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE asked (
  trial INTEGER NOT NULL,
  phase INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  start_ns INTEGER NOT NULL,
  end_ns INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  rows INTEGER NOT NULL,
  PRIMARY KEY (trial, phase, ordinal),
  FOREIGN KEY (trial, phase) REFERENCES phase (trial, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE remark (
  trial INTEGER NOT NULL,
  phase INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  name TEXT NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (trial, phase, ordinal),
  FOREIGN KEY (trial, phase) REFERENCES phase (trial, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE slice (
  trial INTEGER NOT NULL,
  phase INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
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
  PRIMARY KEY (trial, phase, ordinal),
  FOREIGN KEY (trial, phase) REFERENCES phase (trial, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE pause (
  trial INTEGER NOT NULL,
  phase INTEGER NOT NULL,
  slice INTEGER NOT NULL,
  start_ns INTEGER NOT NULL,
  end_ns INTEGER NOT NULL,
  cpu INTEGER NOT NULL,
  FOREIGN KEY (trial, phase, slice) REFERENCES slice (trial, phase, ordinal)
) STRICT;

CREATE TABLE histogram (
  trial INTEGER NOT NULL,
  phase INTEGER NOT NULL,
  slice INTEGER NOT NULL,
  kind INTEGER,
  outcome TEXT NOT NULL,
  measure TEXT NOT NULL,
  count INTEGER NOT NULL,
  max_ns INTEGER NOT NULL,
  hdr BLOB NOT NULL,
  UNIQUE (trial, phase, slice, kind, outcome, measure),
  FOREIGN KEY (trial, phase, slice) REFERENCES slice (trial, phase, ordinal)
) STRICT;

CREATE TABLE answer_check (
  trial INTEGER NOT NULL,
  phase INTEGER NOT NULL,
  op TEXT NOT NULL,
  answers INTEGER NOT NULL,
  expected INTEGER NOT NULL,
  got INTEGER NOT NULL,
  missing INTEGER NOT NULL,
  wrong INTEGER NOT NULL,
  PRIMARY KEY (trial, phase, op),
  FOREIGN KEY (trial, phase) REFERENCES phase (trial, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE ledger_check (
  trial INTEGER NOT NULL,
  phase INTEGER NOT NULL,
  acknowledged INTEGER NOT NULL,
  rejected INTEGER NOT NULL,
  unknown INTEGER NOT NULL,
  read_back INTEGER NOT NULL,
  lost INTEGER NOT NULL,
  lost_first_ns INTEGER,
  lost_last_ns INTEGER,
  loss_upper_bound REAL,
  complete INTEGER NOT NULL,
  sentence TEXT NOT NULL,
  PRIMARY KEY (trial, phase),
  FOREIGN KEY (trial, phase) REFERENCES phase (trial, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE disagreement (
  trial INTEGER NOT NULL,
  phase INTEGER NOT NULL,
  name TEXT NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (trial, phase, name),
  FOREIGN KEY (trial, phase) REFERENCES ledger_check (trial, phase)
) STRICT, WITHOUT ROWID;

CREATE TABLE example (
  trial INTEGER NOT NULL,
  phase INTEGER NOT NULL,
  op TEXT,
  text TEXT NOT NULL,
  FOREIGN KEY (trial, phase) REFERENCES phase (trial, ordinal)
) STRICT;
";
