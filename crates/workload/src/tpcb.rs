//! pgbench's own three scripts on pgbench's own tables.
//!
//! The tables are those of `pgbench -i -I dtGvp` (PostgreSQL documentation, "pgbench"): 1 branch, 10 tellers and 100,000
//! accounts to a unit of scale, made on the server, primary keys after the rows, no foreign keys. The statements are
//! those of `tpcb-like`, `simple-update` and `select-only`, except that COMMIT stands for END, which not all stores know.

use std::sync::Arc;

use plimsoll_core::{
    Call, Dialect, Extent, Interface, Layout, LayoutStatement, OpKind, ParamSpec, Params, Preset, Script, Stream,
    StreamSpec, Workload, WorkloadError, WorkloadSpec,
};

use crate::numbers::from_1_to;
use crate::script::{Compiled, Language, MAX_TRIES, Source};

/// Accounts to a unit of scale.
const ACCOUNTS_PER_SCALE: u64 = 100_000;
/// Tellers to a unit of scale.
const TELLERS_PER_SCALE: u64 = 10;
/// An account's bytes: three integers, and the filler that pgbench pads to 84.
const ACCOUNT_BYTES: u64 = 3 * 4 + 84;

const VARIABLES: &str = "\\set aid random(1, 100000 * :scale)\n\\set bid random(1, 1 * :scale)\n\
                         \\set tid random(1, 10 * :scale)\n\\set delta random(-5000, 5000)\n";
const BEGIN: &str = "BEGIN;\n";
const ACCOUNT: &str = "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n\
                       SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n";
const TELLER_AND_BRANCH: &str = "UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;\n\
                                 UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;\n";
const HISTORY: &str = "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) \
                       VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);\nCOMMIT;\n";
const SELECT_ONLY: &str =
    "\\set aid random(1, 100000 * :scale)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n";

const TPCB: &str = "tpcb";
const SIMPLE_UPDATE: &str = "simple_update";
const SELECT: &str = "select";
const TPCB_LIKE: &str = "pgbench's built-in script tpcb-like, which it runs by default";

const PARAMS: &[ParamSpec] = &[
    ParamSpec::int("scale", 1..=20_000, "1", "100,000 accounts each, as pgbench's --scale"),
    ParamSpec::int(
        "fillfactor",
        10..=100,
        "100",
        "percent of a page that the load fills where SQL has it, as pgbench's --fillfactor",
    ),
    MAX_TRIES,
];

/// pgbench's built-in scripts by their names.
const PRESETS: &[Preset] = &[
    Preset::of(TPCB, TPCB_LIKE, &[(TPCB, 1)]),
    Preset::of("tpcb-like", TPCB_LIKE, &[(TPCB, 1)]),
    Preset::of("simple-update", "pgbench's built-in script of that name (-N)", &[(SIMPLE_UPDATE, 1)]),
];
const SELECT_ONLY_PRESET: &[Preset] =
    &[Preset::of("select-only", "pgbench's built-in script of that name (-S)", &[(SELECT, 1)])];

/// The workload's name, interfaces, kinds and parameters.
pub fn spec() -> WorkloadSpec {
    WorkloadSpec {
        name: TPCB,
        summary: "pgbench's built-in scripts: tpcb-like, simple-update, select-only",
        interfaces: &[Interface::Sql],
        dialects: &[Dialect::Postgres, Dialect::Mysql, Dialect::Sqlite],
        kinds: &[TPCB, SIMPLE_UPDATE, SELECT],
        params: PARAMS,
        presets: PRESETS,
        make: |seed, params, _| Ok(Box::new(Tpcb::new(TPCB, seed, params)?)),
    }
}

/// The select-only script alone, under the name that it has there.
pub fn select() -> WorkloadSpec {
    WorkloadSpec {
        name: SELECT,
        summary: "pgbench -S: one account's balance by primary key",
        kinds: &[SELECT],
        presets: SELECT_ONLY_PRESET,
        make: |seed, params, _| Ok(Box::new(Tpcb::new(SELECT, seed, params)?)),
        ..spec()
    }
}

struct Tpcb {
    name: &'static str,
    accounts: u64,
    layout: Layout,
    compiled: Arc<Compiled>,
}

impl Tpcb {
    /// The workload `name`: all scripts, or the one of that name.
    fn new(name: &'static str, seed: u64, params: &Params) -> Result<Self, WorkloadError> {
        let scale = params.int("scale").max(1) as u64;
        let script = |name: &str, parts: &[&str]| Script {
            name: name.to_owned(),
            weight: 1,
            text: parts.concat(),
            ..Script::default()
        };
        let scripts = [
            script(TPCB, &[VARIABLES, BEGIN, ACCOUNT, TELLER_AND_BRANCH, HISTORY]),
            script(SIMPLE_UPDATE, &[VARIABLES, BEGIN, ACCOUNT, HISTORY]),
            script(SELECT, &[SELECT_ONLY]),
        ];
        let source = Source {
            seed,
            scale: scale as i64,
            defines: Vec::new(),
            columns: Vec::new(),
            tries_max: params.int("max_tries").clamp(1, 1_000) as u32,
            language: Language::Sql,
            finds_rows: true,
            scripts: if name == TPCB { &scripts } else { &scripts[2..] },
        };
        let layout = layout(scale, params.int("fillfactor").clamp(10, 100));
        Ok(Self { name, accounts: scale * ACCOUNTS_PER_SCALE, layout, compiled: Compiled::shared(&source)? })
    }
}

/// The tables and how they are filled, for each dialect.
fn layout(scale: u64, fillfactor: i64) -> Layout {
    const TABLES: [&str; 4] = ["pgbench_branches", "pgbench_tellers", "pgbench_accounts", "pgbench_history"];
    const KEYS: [&str; 3] = ["bid", "tid", "aid"];
    let (mut statements, mut after_load) = (Vec::new(), Vec::new());
    for dialect in [Dialect::Postgres, Dialect::Mysql, Dialect::Sqlite] {
        // PostgreSQL makes the keys' indexes after the rows; the others keep the rows in the keys' order.
        let (key, time, options) = match dialect {
            Dialect::Postgres => ("int NOT NULL", "timestamp", format!(" WITH (fillfactor = {fillfactor})")),
            Dialect::Mysql => ("int NOT NULL PRIMARY KEY", "datetime", String::new()),
            Dialect::Sqlite => ("integer NOT NULL PRIMARY KEY", "timestamp", String::new()),
        };
        let fill = |table: &str, columns: &str, count: u64| {
            let (names, values) = match table {
                "pgbench_branches" => ("bid, bbalance", "n, 0".to_owned()),
                "pgbench_tellers" => ("tid, bid, tbalance", format!("n, {}, 0", group(dialect, TELLERS_PER_SCALE))),
                _ => ("aid, bid, abalance, filler", format!("n, {}, 0, ''", group(dialect, ACCOUNTS_PER_SCALE))),
            };
            let make = format!("CREATE TABLE {table} ({columns}){options}");
            let rows = from_1_to(dialect, count);
            [make, format!("INSERT INTO {table} ({names}) SELECT {values} FROM {rows}")]
        };
        let mut texts = Vec::new();
        texts.extend(fill(TABLES[0], &format!("bid {key}, bbalance int, filler char(88)"), scale));
        let tellers = format!("tid {key}, bid int, tbalance int, filler char(84)");
        texts.extend(fill(TABLES[1], &tellers, scale * TELLERS_PER_SCALE));
        let accounts = format!("aid {key}, bid int, abalance int, filler char(84)");
        texts.extend(fill(TABLES[2], &accounts, scale * ACCOUNTS_PER_SCALE));
        let history = format!("tid int, bid int, aid int, delta int, mtime {time}, filler char(22)");
        texts.push(format!("CREATE TABLE {} ({history})", TABLES[3]));
        statements.extend(texts.into_iter().map(|text| LayoutStatement::of(dialect, text)));
        let finish: Vec<String> = match dialect {
            Dialect::Postgres => {
                let vacuum = TABLES.iter().map(|table| format!("VACUUM ANALYZE {table}"));
                let keys = TABLES.iter().zip(KEYS);
                vacuum.chain(keys.map(|(table, key)| format!("ALTER TABLE {table} ADD PRIMARY KEY ({key})"))).collect()
            }
            Dialect::Mysql => vec![format!("ANALYZE TABLE {}", TABLES.join(", "))],
            Dialect::Sqlite => vec!["ANALYZE".to_owned()],
        };
        after_load.extend(finish.into_iter().map(|text| LayoutStatement::of(dialect, text)));
    }
    Layout { statements, after_load, ..Layout::default() }
}

/// Returns the expression for the group of `size` that the number `n` is in, from 1.
fn group(dialect: Dialect, size: u64) -> String {
    let divide = if dialect == Dialect::Mysql { "DIV" } else { "/" };
    format!("(n - 1) {divide} {size} + 1")
}

impl Workload for Tpcb {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn kinds(&self) -> &[OpKind] {
        &self.compiled.kinds
    }

    fn stream(&self, spec: &StreamSpec) -> Result<Box<dyn Stream>, String> {
        self.compiled.stream(self.name, spec)
    }

    fn extent(&self) -> Option<Extent> {
        // As pgbench does: the scale is the number of branches.
        let count = Call::Sql("SELECT count(*) FROM pgbench_branches".to_owned());
        Some(Extent {
            param: "scale",
            of: ["row of pgbench_branches", "rows of pgbench_branches"],
            exact: true,
            kind: OpKind::new("branches", count, &[]).kept(),
            by_record: false,
        })
    }

    fn record_count(&self) -> u64 {
        self.accounts
    }

    fn record_bytes(&self) -> u64 {
        ACCOUNT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::{Answer, Outcome, ParamValue, Step, Value, ValueBuf};

    use super::*;
    use crate::tests::defaults;

    #[test]
    fn a_transaction_is_pgbenchs() {
        let workload = Tpcb::new(TPCB, 7, &defaults(spec().params)).unwrap();
        let stream = workload.stream(&StreamSpec::One { kind: "tpcb".into(), clients: 1 }).unwrap();
        let mut params = ValueBuf::new();
        let kind = stream.op(0, 0, &mut params).unwrap();
        let mut steps = stream.steps(0).unwrap();
        steps.begin(0, kind, params.values());
        let mut sent = Vec::new();
        loop {
            params.clear();
            match steps.next(&mut params) {
                Step::Send { kind, more: false } => {
                    let kind = &workload.kinds()[usize::from(kind)];
                    let (Call::Sql(text) | Call::SqlRow(text)) = &kind.call else { panic!("{kind:?}") };
                    assert_eq!(kind.params.len(), params.len());
                    sent.push(text.clone());
                    steps.answered(Outcome::Ok, &Answer::default());
                }
                Step::End { kind: ended, outcome } => {
                    assert_eq!((ended, outcome), (kind, Outcome::Ok));
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(
            sent,
            [
                "BEGIN",
                "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2",
                "SELECT abalance FROM pgbench_accounts WHERE aid = $1",
                "UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2",
                "UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2",
                "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)",
                "COMMIT",
            ]
        );
    }

    #[test]
    fn a_select_is_one_plain_operation() {
        let workload = Tpcb::new(TPCB, 7, &defaults(spec().params)).unwrap();
        assert!(matches!(workload.kinds()[2].call, Call::SqlRow(_)));
        assert_eq!(workload.kinds().len(), 3 + 7 + 1 + 5 + 1);
    }

    #[test]
    fn accounts_are_asked_for_evenly_and_exist() {
        let params = Params([("scale".to_owned(), ParamValue::Int(2))].into());
        let workload = Tpcb::new(SELECT, 7, &params).unwrap();
        assert_eq!(workload.kinds().len(), 1);
        let stream = workload.stream(&StreamSpec::One { kind: SELECT.into(), clients: 4 }).unwrap();
        let mut params = ValueBuf::new();
        let mut sum = 0.0;
        for cycle in 0..10_000 {
            params.clear();
            assert_eq!(stream.op(cycle as u32 % 4, cycle, &mut params), Some(0));
            let Value::Int(aid) = params.values().get(0) else { panic!("an account's number is an integer") };
            assert!((1..=200_000).contains(&aid));
            sum += aid as f64;
        }
        assert!((90_000.0..110_000.0).contains(&(sum / 10_000.0)));
    }
}
