//! sysbench's OLTP workloads: the same tables, statements and distributions as its `oltp_*.lua`.
//!
//! | module | what |
//! |---|---|
//! | `tables` | the tables `sbtest1` …, made and filled on the server |
//! | `distribution` | which rows are asked for |
//! | `operations` | which statements each operation is made of |
//! | `steps` | how an operation of several statements runs |

mod distribution;
mod operations;
mod steps;
mod tables;

use std::sync::Arc;

use plimsoll_core::{
    Call, Dialect, Extent, Interface, KindId, Layout, OpKind, ParamSpec, Params, Preset, Steps, Stream, StreamSpec,
    ValueBuf, Workload, WorkloadError, WorkloadSpec,
};

use self::distribution::Distribution;
use self::operations::{OltpConfig, operations, write_digits};
use self::steps::{OltpCursor, OltpSteps};
use crate::script::{MAX_TRIES, Xoroshiro};
use crate::shares::{Lot, shares};

/// Bytes of what [`write_c`] writes.
pub(crate) const C_BYTES: u64 = 119;

const CHOICE_SALT: u64 = 0x017c;

const fn count(name: &'static str, default: &'static str, summary: &'static str) -> ParamSpec {
    ParamSpec::int(name, 0..=1_000, default, summary)
}

const PARAMS: &[ParamSpec] = &[
    ParamSpec::int("tables", 1..=100, "1", "number of tables; each has statements of its own"),
    ParamSpec::int("table_size", 1..=100_000_000, "10000", "rows of each table"),
    ParamSpec::one_of(
        "distribution",
        distribution::NAMES,
        "distribution of operations over rows, as sysbench's --rand-type",
    ),
    ParamSpec::text("zipfian_exponent", "0.8", "exponent of `zipfian`, as sysbench's --rand-zipfian-exp"),
    ParamSpec::text(
        "pareto_h",
        "0.2",
        "share h of the rows that receive 1 - h of the operations in `pareto`, as sysbench's --rand-pareto-h",
    ),
    ParamSpec::int("range_size", 1..=1_000_000, "100", "rows of a range"),
    count("point_selects", "10", "point selects of read_only and read_write"),
    count("simple_ranges", "1", "range selects of read_only and read_write"),
    count("sum_ranges", "1", "SELECT SUM(k) of read_only and read_write"),
    count("order_ranges", "1", "SELECT … ORDER BY of read_only and read_write"),
    count("distinct_ranges", "1", "SELECT DISTINCT of read_only and read_write"),
    count("index_updates", "1", "updates of k in read_write and write_only"),
    count("non_index_updates", "1", "updates of c in read_write and write_only"),
    count("delete_inserts", "1", "rows deleted and inserted again in read_write and write_only"),
    ParamSpec::flag("skip_trx", "read_only, read_write and write_only without BEGIN and COMMIT"),
    MAX_TRIES,
];

/// sysbench's scripts by their names.
const PRESETS: &[Preset] = &[
    Preset::of("oltp_read_write", "sysbench's script of that name", &[("read_write", 1)]),
    Preset::of("oltp_read_only", "the same", &[("read_only", 1)]),
    Preset::of("oltp_write_only", "the same", &[("write_only", 1)]),
    Preset::of("oltp_point_select", "the same", &[("point_select", 1)]),
    Preset::of("oltp_update_index", "the same", &[("update_index", 1)]),
    Preset::of("oltp_update_non_index", "the same", &[("update_non_index", 1)]),
    Preset::of("oltp_insert", "the same", &[("insert", 1)]),
    Preset::of("oltp_delete", "the same", &[("delete", 1)]),
];

/// The workload's name, interfaces, kinds and parameters.
pub fn spec() -> WorkloadSpec {
    WorkloadSpec {
        name: "oltp",
        summary: "sysbench's OLTP operations: reads, writes and both on sbtest tables",
        interfaces: &[Interface::Sql],
        dialects: &[Dialect::Postgres, Dialect::Mysql, Dialect::Sqlite],
        kinds: operations::NAMES,
        params: PARAMS,
        presets: PRESETS,
        make: |seed, params, _| Ok(Box::new(Oltp::new(seed, params)?)),
    }
}

struct Oltp {
    layout: Layout,
    kinds: Vec<OpKind>,
    shared: Arc<OltpConfig>,
    rows: u64,
}

impl Oltp {
    fn new(seed: u64, params: &Params) -> Result<Self, WorkloadError> {
        let at_least_1 = |name: &str| params.int(name).max(1) as u64;
        let number = |name: &str, fits: fn(f64) -> bool, help: &str| {
            let text = params.text(name);
            text.parse()
                .ok()
                .filter(|value| fits(*value))
                .ok_or_else(|| WorkloadError::new(format!("`{name}` is `{text}`"), help))
        };
        let exponent =
            number("zipfian_exponent", |e| e > 0.0 && e <= 100.0, "a number above 0: zipfian_exponent = \"0.8\"")?;
        let pareto_h = number("pareto_h", |h| h > 0.0 && h < 1.0, "a number between 0 and 1: pareto_h = \"0.2\"")?;
        let (tables, table_size) = (at_least_1("tables"), at_least_1("table_size"));
        let tries_max = params.int("max_tries").clamp(1, 1_000) as u32;
        let (operations, kinds) = operations(params, tables as usize, tries_max);
        if kinds.len() > usize::from(KindId::MAX) {
            let what = format!("{tables} tables need {} statements", kinds.len());
            return Err(WorkloadError::new(what, "ask fewer tables"));
        }
        let shared = OltpConfig {
            seed,
            tables: tables as usize,
            tries_max,
            range_size: params.int("range_size").max(1),
            ids: Distribution::new(params.text("distribution"), table_size, pareto_h, exponent),
            operations,
        };
        let layout = tables::layout(seed, tables, table_size);
        Ok(Self { layout, kinds, shared: Arc::new(shared), rows: tables * table_size })
    }
}

impl Workload for Oltp {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn kinds(&self) -> &[OpKind] {
        &self.kinds
    }

    fn stream(&self, spec: &StreamSpec) -> Result<Box<dyn Stream>, String> {
        let shares = shares("oltp", operations::NAMES, spec)?;
        let any_steps = shares.iter().any(|(operation, _)| !self.shared.operations[usize::from(*operation)].is_plain);
        let lot = Lot::new(self.shared.seed ^ CHOICE_SALT, &shares);
        Ok(Box::new(OltpStream { shared: Arc::clone(&self.shared), lot, any_steps }))
    }

    fn extent(&self) -> Option<Extent> {
        let rows = Call::Sql("SELECT max(id) FROM sbtest1".to_owned());
        Some(Extent {
            param: "table_size",
            of: ["row in sbtest1 (highest id)", "rows in sbtest1 (highest id)"],
            exact: false,
            kind: OpKind::new("rows", rows, &[]).kept(),
            by_record: false,
        })
    }

    fn record_count(&self) -> u64 {
        self.rows
    }

    fn record_bytes(&self) -> u64 {
        tables::ROW_BYTES
    }
}

/// Appends what a row's `c` is: sysbench's groups of digits.
pub(crate) fn write_c(random: &mut Xoroshiro, c: &mut String) {
    write_digits(tables::C_GROUPS, random, c);
}

struct OltpStream {
    shared: Arc<OltpConfig>,
    lot: Lot,
    any_steps: bool,
}

impl Stream for OltpStream {
    #[inline]
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
        let kind = self.lot.draw(client, cycle)?;
        if let Some(operation) = self.shared.operations.get(usize::from(kind)).filter(|operation| operation.is_plain)
            && let Some(statement) = operation.statements.first()
        {
            let mut cursor = OltpCursor::new(Xoroshiro::of_operation(self.shared.seed, client, cycle));
            cursor.write(&self.shared, statement.what, false, params);
        }
        Some(kind)
    }

    fn steps(&self, client: u32) -> Option<Box<dyn Steps>> {
        self.any_steps.then(|| Box::new(OltpSteps::new(Arc::clone(&self.shared), client)) as Box<dyn Steps>)
    }
}

#[cfg(test)]
mod tests;
