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
    Call, Dialect, Extent, Interface, KindId, Layout, OpKind, ParamSpec, ParamType, Params, Steps, Stream, StreamSpec,
    Truth, ValueBuf, Workload, WorkloadError, WorkloadSpec,
};

use self::distribution::Distribution;
use self::operations::{Counts, Shared, operations};
use self::steps::{Cursor, OltpSteps};
use crate::scramble::{below, hash};
use crate::script::{MAX_TRIES, Random};

const CHOICE_SALT: u64 = 0x017c;

const fn count(name: &'static str, default: &'static str, summary: &'static str) -> ParamSpec {
    ParamSpec { name, param_type: ParamType::Int { min: 0, max: 1_000 }, default, summary }
}

const PARAMS: &[ParamSpec] = &[
    ParamSpec {
        name: "tables",
        param_type: ParamType::Int { min: 1, max: 100 },
        default: "1",
        summary: "number of tables; each has statements of its own",
    },
    ParamSpec {
        name: "table_size",
        param_type: ParamType::Int { min: 1, max: 100_000_000 },
        default: "10000",
        summary: "rows of each table",
    },
    ParamSpec {
        name: "distribution",
        param_type: ParamType::OneOf(distribution::NAMES),
        default: "special",
        summary: "which rows are asked for, as sysbench's --rand-type",
    },
    ParamSpec {
        name: "zipfian_exponent",
        param_type: ParamType::Text,
        default: "0.8",
        summary: "exponent of `zipfian`, as sysbench's --rand-zipfian-exp",
    },
    ParamSpec {
        name: "pareto_h",
        param_type: ParamType::Text,
        default: "0.2",
        summary: "part of the rows that 1 - h of the questions go to in `pareto`, as sysbench's --rand-pareto-h",
    },
    ParamSpec {
        name: "range_size",
        param_type: ParamType::Int { min: 1, max: 1_000_000 },
        default: "100",
        summary: "rows of a range",
    },
    count("point_selects", "10", "point selects of read_only and read_write"),
    count("simple_ranges", "1", "range selects of read_only and read_write"),
    count("sum_ranges", "1", "SELECT SUM(k) of read_only and read_write"),
    count("order_ranges", "1", "SELECT … ORDER BY of read_only and read_write"),
    count("distinct_ranges", "1", "SELECT DISTINCT of read_only and read_write"),
    count("index_updates", "1", "updates of k in read_write and write_only"),
    count("non_index_updates", "1", "updates of c in read_write and write_only"),
    count("delete_inserts", "1", "rows deleted and inserted again in read_write and write_only"),
    ParamSpec {
        name: "skip_trx",
        param_type: ParamType::Bool,
        default: "false",
        summary: "read_only, read_write and write_only without BEGIN and COMMIT",
    },
    MAX_TRIES,
];

/// The workload's name, interfaces, kinds and parameters.
pub fn spec() -> WorkloadSpec {
    WorkloadSpec {
        name: "oltp",
        summary: "sysbench's OLTP operations: reads, writes and both on sbtest tables",
        interfaces: &[Interface::Sql],
        dialects: &[Dialect::Postgres, Dialect::Mysql, Dialect::Sqlite],
        takes_scripts: false,
        kinds: operations::NAMES,
        params: PARAMS,
        make: |seed, params, _| Ok(Box::new(Oltp::new(seed, params)?)),
    }
}

struct Oltp {
    layout: Layout,
    kinds: Vec<OpKind>,
    shared: Arc<Shared>,
    rows: u64,
}

impl Oltp {
    fn new(seed: u64, params: &Params) -> Result<Self, WorkloadError> {
        let at_least_1 = |name: &str| params.int(name).max(1) as u64;
        let counted = |name: &str| params.int(name).clamp(0, 1_000) as usize;
        let number = |name: &str, fits: fn(f64) -> bool, help: &str| {
            let text = params.text(name);
            text.parse().ok().filter(|value| fits(*value)).ok_or_else(|| WorkloadError {
                what: format!("`{name}` is `{text}`"),
                place: None,
                help: Some(help.to_owned()),
            })
        };
        let exponent =
            number("zipfian_exponent", |e| e > 0.0 && e <= 100.0, "a number above 0: zipfian_exponent = \"0.8\"")?;
        let pareto_h = number("pareto_h", |h| h > 0.0 && h < 1.0, "a number between 0 and 1: pareto_h = \"0.2\"")?;
        let (tables, table_size) = (at_least_1("tables"), at_least_1("table_size"));
        let counts = Counts {
            point_selects: counted("point_selects"),
            ranges: ["simple_ranges", "sum_ranges", "order_ranges", "distinct_ranges"].map(counted),
            index_updates: counted("index_updates"),
            non_index_updates: counted("non_index_updates"),
            delete_inserts: counted("delete_inserts"),
            skip_trx: params.bool("skip_trx"),
        };
        let tries_max = params.int("max_tries").clamp(1, 1_000) as u32;
        let (operations, kinds) = operations(&counts, tables as usize, tries_max);
        if kinds.len() > usize::from(KindId::MAX) {
            return Err(WorkloadError {
                what: format!("{tables} tables need {} statements", kinds.len()),
                place: None,
                help: Some("ask fewer tables".to_owned()),
            });
        }
        let shared = Shared {
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
    fn interfaces(&self) -> &[Interface] {
        &[Interface::Sql]
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn kinds(&self) -> &[OpKind] {
        &self.kinds
    }

    fn stream(&self, spec: &StreamSpec) -> Result<Box<dyn Stream>, String> {
        let one;
        let mix = match spec {
            StreamSpec::Load { .. } => return Err("`oltp` fills its tables when they are made".into()),
            StreamSpec::One { kind, .. } => {
                one = vec![(kind.clone(), 1)];
                &one
            }
            StreamSpec::Mix { mix, .. } => mix,
        };
        let (mut shares, mut total) = (Vec::new(), 0);
        for (name, share) in mix.iter().filter(|(_, share)| *share > 0) {
            let Some(operation) = operations::NAMES.iter().position(|known| known == name) else {
                return Err(format!("`oltp` has no kind `{name}`, only {}", operations::NAMES.join(", ")));
            };
            total += u64::from(*share);
            shares.push((total, operation));
        }
        if total == 0 {
            return Err("the mix gives no kind a share".into());
        }
        let any_steps = shares.iter().any(|(_, operation)| !self.shared.operations[*operation].is_plain);
        Ok(Box::new(OltpStream { shared: Arc::clone(&self.shared), shares, any_steps }))
    }

    fn extent(&self) -> Option<Extent> {
        let kind = OpKind {
            name: "rows".to_owned(),
            call: Call::Sql("SELECT max(id) FROM sbtest1".to_owned()),
            params: Vec::new(),
            keep_answer: true,
            step_of: None,
        };
        Some(Extent {
            param: "table_size",
            of: ["row in sbtest1 (highest id)", "rows in sbtest1 (highest id)"],
            exact: false,
            kind,
            by_record: false,
        })
    }

    fn truth(&self) -> Option<&dyn Truth> {
        None
    }

    fn record_count(&self) -> u64 {
        self.rows
    }

    fn record_bytes(&self) -> u64 {
        tables::ROW_BYTES
    }
}

struct OltpStream {
    shared: Arc<Shared>,
    /// Upper ends of the operations' shares.
    shares: Vec<(u64, usize)>,
    any_steps: bool,
}

impl Stream for OltpStream {
    #[inline]
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
        let operation = match self.shares.as_slice() {
            [(_, only)] => *only,
            shares => {
                let total = shares.last().map_or(0, |(end, _)| *end);
                let choice = below(hash(self.shared.seed ^ CHOICE_SALT, u64::from(client), cycle), total);
                shares.iter().find(|(end, _)| choice < *end)?.1
            }
        };
        if let Some(operation) = self.shared.operations.get(operation).filter(|operation| operation.is_plain)
            && let Some(statement) = operation.statements.first()
        {
            let mut cursor = Cursor::new(Random::of_operation(self.shared.seed, client, cycle));
            cursor.write(&self.shared, statement.what, false, params);
        }
        Some(operation as KindId)
    }

    fn steps(&self, client: u32) -> Option<Box<dyn Steps>> {
        self.any_steps.then(|| Box::new(OltpSteps::new(Arc::clone(&self.shared), client)) as Box<dyn Steps>)
    }
}

#[cfg(test)]
mod tests;
