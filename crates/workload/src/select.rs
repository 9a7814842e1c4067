//! `pgbench -S`: the balance of one account by its primary key.
//!
//! The tables are those of pgbench's initialisation (PostgreSQL documentation, "pgbench", "What is the
//! transaction actually performed in pgbench?"): 1 branch, 10 tellers and 100,000 accounts to a unit of
//! scale, so that figures stand beside pgbench's own on the same data.

use plimsoll_core::{
    Call, Dialect, Extent, Interface, KindId, Layout, OpKind, ParamSpec, ParamType, Statement, Stream, StreamSpec,
    Truth, Value, ValueBuf, ValueType, Workload, WorkloadSpec,
};

use crate::scramble::{below, hash};
use crate::tpcb::{self, ACCOUNT_BYTES, ACCOUNTS_PER_SCALE, TELLERS_PER_SCALE};

/// The workload's name, interfaces, kinds and parameters.
pub fn spec() -> WorkloadSpec {
    WorkloadSpec {
        name: "select",
        summary: "pgbench -S: one account's balance by primary key",
        interfaces: &[Interface::Sql],
        dialects: &[Dialect::Postgres, Dialect::Mysql, Dialect::Sqlite],
        takes_scripts: false,
        kinds: &["select"],
        params: &[ParamSpec {
            name: "scale",
            param_type: ParamType::Int { min: 1, max: 10_000 },
            default: "1",
            summary: "100,000 accounts each, as pgbench's --scale",
        }],
        make: |seed, params, _| Ok(Box::new(Select::new(seed, params.int("scale").max(1) as u64))),
    }
}

struct Select {
    seed: u64,
    accounts: u64,
    layout: Layout,
    kinds: Vec<OpKind>,
}

impl Select {
    fn new(seed: u64, scale: u64) -> Self {
        let kind = OpKind {
            name: "select".into(),
            call: Call::SqlRow("SELECT abalance FROM pgbench_accounts WHERE aid = $1".into()),
            params: vec![ValueType::Int],
            keep_answer: false,
            step_of: None,
        };
        let texts = statements(scale);
        let of = |dialect| texts.iter().map(move |text| Statement::of(dialect, text.as_str()));
        let mysql = tpcb::layout(scale, 100).statements.into_iter();
        let mysql = mysql.filter(|statement| statement.dialect == Some(Dialect::Mysql));
        let statements = of(Dialect::Postgres).chain(of(Dialect::Sqlite)).chain(mysql).collect();
        let layout = Layout { statements, ..Layout::default() };
        Self { seed, accounts: scale * ACCOUNTS_PER_SCALE, layout, kinds: vec![kind] }
    }
}

/// Makes and fills the tables, in SQL that both PostgreSQL and SQLite understand.
fn statements(scale: u64) -> Vec<String> {
    let (tellers, accounts) = (scale * TELLERS_PER_SCALE, scale * ACCOUNTS_PER_SCALE);
    let numbers =
        |n: u64| format!("WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {n})");
    vec![
        "CREATE TABLE pgbench_branches (bid int NOT NULL PRIMARY KEY, bbalance int, filler char(88))".into(),
        "CREATE TABLE pgbench_tellers (tid int NOT NULL PRIMARY KEY, bid int, tbalance int, filler char(84))".into(),
        "CREATE TABLE pgbench_accounts (aid int NOT NULL PRIMARY KEY, bid int, abalance int, filler char(84))".into(),
        "CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22))".into(),
        format!("INSERT INTO pgbench_branches (bid, bbalance) {} SELECT n, 0 FROM numbers", numbers(scale)),
        format!(
            "INSERT INTO pgbench_tellers (tid, bid, tbalance) {} \
             SELECT n, (n - 1) / {TELLERS_PER_SCALE} + 1, 0 FROM numbers",
            numbers(tellers)
        ),
        format!(
            "INSERT INTO pgbench_accounts (aid, bid, abalance, filler) {} \
             SELECT n, (n - 1) / {ACCOUNTS_PER_SCALE} + 1, 0, '' FROM numbers",
            numbers(accounts)
        ),
    ]
}

impl Workload for Select {
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
        match spec {
            StreamSpec::Load { .. } => {
                Err("`select` fills its tables when they are made: leave the load phase out".into())
            }
            StreamSpec::One { kind, .. } if kind == "select" => Ok(self.selects()),
            StreamSpec::Mix { mix, .. } if mix.iter().all(|(kind, _)| kind == "select") => Ok(self.selects()),
            _ => Err("`select` has one kind of operation: `select`".into()),
        }
    }

    fn extent(&self) -> Option<Extent> {
        Some(tpcb::extent())
    }

    fn truth(&self) -> Option<&dyn Truth> {
        None
    }

    fn record_count(&self) -> u64 {
        self.accounts
    }

    fn record_bytes(&self) -> u64 {
        ACCOUNT_BYTES
    }
}

impl Select {
    fn selects(&self) -> Box<dyn Stream> {
        Box::new(Selects { seed: self.seed, accounts: self.accounts })
    }
}

struct Selects {
    seed: u64,
    accounts: u64,
}

impl Stream for Selects {
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
        let aid = 1 + below(hash(self.seed, u64::from(client), cycle), self.accounts);
        params.push(Value::Int(aid as i64));
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_asked_for_evenly_and_exist() {
        let workload = Select::new(7, 2);
        let stream = workload.stream(&StreamSpec::One { kind: "select".into(), clients: 4 }).unwrap();
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

    #[test]
    fn the_statements_name_the_scale() {
        let all = statements(3).join("\n");
        assert!(all.contains("n < 300000)") && all.contains("n < 30)") && all.contains("n < 3)"));
    }
}
