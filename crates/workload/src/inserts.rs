//! Rows inserted one statement each, with so many statements to a transaction: what a commit costs.
//!
//! A load's `batch` is the number of statements between two commits, and so is the parameter `statements` of a driven
//! `transaction`. One statement alone has no BEGIN and COMMIT around it: the store commits it by itself, as it does for
//! a program that knows nothing of transactions. The rows are the same whatever the batch.

use plimsoll_core::{
    Answer, Call, Dialect, Interface, KindId, Layout, LayoutStatement, OpKind, Outcome, ParamSpec, Params, Step, Steps,
    Stream, StreamSpec, Value, ValueBuf, ValueType, Values, Workload, WorkloadSpec,
};

use crate::oltp::{C_BYTES, write_c};
use crate::scramble::below;
use crate::script::Xoroshiro;
use crate::shares::{Lot, shares};

const NAMES: &[&str] = &["insert", "transaction"];
const INSERT: KindId = 0;
const TRANSACTION: KindId = 1;
const BEGIN: KindId = 2;
const STATEMENT: KindId = 3;
const COMMIT: KindId = 4;
const ROLLBACK: KindId = 5;

const CHOICE_SALT: u64 = 0x1256;
/// Most statements of a transaction: what a load's `batch` may be.
const STATEMENTS_MAX: i64 = 10_000_000;

const PARAMS: &[ParamSpec] = &[
    ParamSpec::int("rows", 0..=1_000_000_000, "10000", "rows that the load inserts, its batch of them to a commit"),
    ParamSpec::int("statements", 1..=STATEMENTS_MAX, "100", "statements of a driven `transaction`, one row each"),
];

/// The workload's name, interfaces, kinds and parameters.
pub fn spec() -> WorkloadSpec {
    WorkloadSpec {
        name: "inserts",
        summary: "rows inserted one statement each, many statements to a commit: what a commit costs",
        interfaces: &[Interface::Sql],
        dialects: &[Dialect::Postgres, Dialect::Mysql, Dialect::Sqlite],
        kinds: NAMES,
        params: PARAMS,
        presets: &[],
        make: |seed, params, _| Ok(Box::new(Inserts::new(seed, params))),
    }
}

struct Inserts {
    seed: u64,
    rows: u64,
    statements: u64,
    layout: Layout,
    kinds: Vec<OpKind>,
}

impl Inserts {
    fn new(seed: u64, params: &Params) -> Self {
        let table = |dialect, id: &str| {
            let text = format!("CREATE TABLE inserts (id {id}, k INTEGER NOT NULL, c CHAR(120) NOT NULL)");
            LayoutStatement::of(dialect, text)
        };
        let statements = vec![
            table(Dialect::Postgres, "SERIAL PRIMARY KEY"),
            table(Dialect::Mysql, "INTEGER NOT NULL AUTO_INCREMENT PRIMARY KEY"),
            table(Dialect::Sqlite, "INTEGER PRIMARY KEY AUTOINCREMENT"),
        ];
        let insert = || Call::Sql("INSERT INTO inserts (k, c) VALUES ($1, $2)".to_owned());
        let row = [ValueType::Int, ValueType::Text];
        let step = |name: &str, call: Call, params: &[ValueType]| OpKind {
            step_of: Some(TRANSACTION),
            ..OpKind::new(format!("{}/{name}", NAMES[usize::from(TRANSACTION)]), call, params)
        };
        let words = |text: &str| Call::Sql(text.to_owned());
        let kinds = vec![
            OpKind::new(NAMES[usize::from(INSERT)], insert(), &row),
            OpKind::new(NAMES[usize::from(TRANSACTION)], Call::Steps, &[]),
            step("begin", words("BEGIN"), &[]),
            step("insert", insert(), &row),
            step("commit", words("COMMIT"), &[]),
            step("rollback", words("ROLLBACK"), &[]),
        ];
        let at_least = |name: &str, least: i64| params.int(name).max(least) as u64;
        Self {
            seed,
            rows: at_least("rows", 0),
            statements: at_least("statements", 1),
            layout: Layout { statements, ..Layout::default() },
            kinds,
        }
    }
}

impl Workload for Inserts {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn kinds(&self) -> &[OpKind] {
        &self.kinds
    }

    fn stream(&self, spec: &StreamSpec) -> Result<Box<dyn Stream>, String> {
        let (seed, asks) = match spec {
            StreamSpec::Load { batch, clients } => {
                let (batch, clients) = (u64::from(*batch).max(1), u64::from(*clients).max(1));
                (self.seed, Asks::Load { rows: self.rows, batch, clients })
            }
            _ => {
                let lot = Lot::new(self.seed ^ CHOICE_SALT, &shares("inserts", NAMES, spec)?);
                (self.seed, Asks::Drive { lot, statements: self.statements })
            }
        };
        Ok(Box::new(InsertStream { seed, asks }))
    }

    fn record_count(&self) -> u64 {
        self.rows
    }

    fn record_bytes(&self) -> u64 {
        4 + C_BYTES
    }
}

struct InsertStream {
    seed: u64,
    asks: Asks,
}

enum Asks {
    Load { rows: u64, batch: u64, clients: u64 },
    Drive { lot: Lot, statements: u64 },
}

impl Stream for InsertStream {
    /// Parameters of a transaction are whose rows they are, its first one's number, and how many it has.
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
        let (whose, first, count, kind) = match &self.asks {
            Asks::Load { rows, batch, clients } => {
                let first = (cycle * clients + u64::from(client)) * batch;
                let count = rows.saturating_sub(first).min(*batch);
                // All records of a load are the same client's, regardless of the sender.
                (0, first, count, if *batch == 1 { INSERT } else { TRANSACTION })
            }
            Asks::Drive { lot, statements } => {
                let kind = lot.draw(client, cycle)?;
                (client.saturating_add(1), cycle.wrapping_mul(*statements), *statements, kind)
            }
        };
        if kind == INSERT {
            write_row(self.seed, whose, first, params);
        } else {
            [u64::from(whose), first, count].into_iter().for_each(|number| params.push(Value::Int(number as i64)));
        }
        (count > 0).then_some(kind)
    }

    fn steps(&self, _client: u32) -> Option<Box<dyn Steps>> {
        let has_steps = match &self.asks {
            Asks::Load { batch, .. } => *batch > 1,
            Asks::Drive { lot, .. } => lot.has(TRANSACTION),
        };
        has_steps.then(|| Box::new(Transaction { seed: self.seed, ..Transaction::default() }) as Box<dyn Steps>)
    }
}

fn write_row(seed: u64, whose: u32, number: u64, params: &mut ValueBuf) {
    let mut random = Xoroshiro::of_operation(seed, whose, number);
    params.push(Value::Int(below(random.next(), 1 << 31) as i64));
    params.push_text_with(|c| write_c(&mut random, c));
}

/// A client's transaction, statement by statement.
#[derive(Default)]
struct Transaction {
    seed: u64,
    whose: u32,
    /// The row that is next, and the one behind the last.
    next: u64,
    end: u64,
    at: At,
    failed: Option<Outcome>,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum At {
    #[default]
    Begin,
    Rows,
    Commit,
    Rollback,
    End,
}

impl Steps for Transaction {
    fn begin(&mut self, _cycle: u64, _kind: KindId, params: Values<'_>) {
        let number = |index| if let Value::Int(number) = params.get(index) { number as u64 } else { 0 };
        (self.whose, self.next) = (number(0) as u32, number(1));
        (self.end, self.at, self.failed) = (self.next.wrapping_add(number(2)), At::Begin, None);
    }

    fn next(&mut self, params: &mut ValueBuf) -> Step {
        let kind = match self.at {
            At::Begin => BEGIN,
            At::Rows => {
                write_row(self.seed, self.whose, self.next, params);
                STATEMENT
            }
            At::Commit => COMMIT,
            At::Rollback => ROLLBACK,
            At::End => return Step::End { kind: TRANSACTION, outcome: self.failed.unwrap_or(Outcome::Ok) },
        };
        Step::Send { kind, more: false }
    }

    fn answered(&mut self, outcome: Outcome, _answer: &Answer) {
        if outcome.is_error() && self.failed.is_none() {
            self.failed = Some(outcome);
            // Only what has begun, and was not ended by its own commit, is taken back.
            self.at = if self.at == At::Rows { At::Rollback } else { At::End };
            return;
        }
        self.at = match self.at {
            At::Begin => At::Rows,
            At::Rows => {
                self.next = self.next.wrapping_add(1);
                if self.next == self.end { At::Commit } else { At::Rows }
            }
            At::Commit | At::Rollback | At::End => At::End,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::defaults;

    /// Returns all operations of a load of 25 rows: the texts of their statements, and their rows.
    fn loaded(batch: u32, clients: u32) -> (Vec<Vec<KindId>>, Vec<Vec<String>>) {
        let mut params = defaults(PARAMS);
        params.0.insert("rows".to_owned(), plimsoll_core::ParamValue::Int(25));
        let stream = Inserts::new(7, &params).stream(&StreamSpec::Load { batch, clients }).unwrap();
        let (mut operations, mut rows) = (Vec::new(), Vec::new());
        for client in 0..clients {
            for cycle in 0.. {
                let mut params = ValueBuf::new();
                let Some(kind) = stream.op(client, cycle, &mut params) else { break };
                let mut row = |params: Values<'_>| rows.push(params.iter().map(|value| format!("{value:?}")).collect());
                if kind == INSERT {
                    row(params.values());
                    operations.push(vec![kind]);
                    continue;
                }
                let (sent, outcome) = run(&mut *stream.steps(client).unwrap(), params.values(), None, &mut row);
                assert_eq!(outcome, Outcome::Ok);
                operations.push(sent);
            }
        }
        rows.sort();
        (operations, rows)
    }

    /// A transaction, whose step `refused` is rejected.
    fn run(
        steps: &mut dyn Steps,
        params: Values<'_>,
        refused: Option<usize>,
        row: &mut dyn FnMut(Values<'_>),
    ) -> (Vec<KindId>, Outcome) {
        steps.begin(0, TRANSACTION, params);
        let mut sent = Vec::new();
        loop {
            let mut params = ValueBuf::new();
            match steps.next(&mut params) {
                Step::Send { kind, more: false } => {
                    if kind == STATEMENT {
                        row(params.values());
                    }
                    let outcome = if refused == Some(sent.len()) { Outcome::Rejected } else { Outcome::Ok };
                    sent.push(kind);
                    steps.answered(outcome, &Answer::default());
                }
                Step::End { outcome, .. } => return (sent, outcome),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_load_has_a_commit_after_each_batch_and_the_same_rows_whatever_the_batch() {
        let (alone, rows) = loaded(1, 1);
        assert_eq!(alone, vec![vec![INSERT]; 25]);
        assert_eq!(rows.len(), 25);
        let batch = |statements: usize| [&[BEGIN][..], &vec![STATEMENT; statements], &[COMMIT]].concat();
        assert_eq!(loaded(10, 1), (vec![batch(10), batch(10), batch(5)], rows.clone()));
        assert_eq!(loaded(10, 2), (vec![batch(10), batch(5), batch(10)], rows.clone()));
        assert_eq!(loaded(1_000, 1), (vec![batch(25)], rows));
    }

    #[test]
    fn a_statement_that_fails_has_its_transaction_taken_back() {
        let mut steps = Transaction { seed: 7, ..Transaction::default() };
        let mut params = ValueBuf::new();
        [0, 0, 3].into_iter().for_each(|number| params.push(Value::Int(number)));
        let mut sent = |refused| run(&mut steps, params.values(), refused, &mut |_| {});
        assert_eq!(sent(Some(2)), (vec![BEGIN, STATEMENT, STATEMENT, ROLLBACK], Outcome::Rejected));
        assert_eq!(sent(Some(4)), (vec![BEGIN, STATEMENT, STATEMENT, STATEMENT, COMMIT], Outcome::Rejected));
        assert_eq!(sent(Some(0)), (vec![BEGIN], Outcome::Rejected));
        assert_eq!(sent(None).1, Outcome::Ok);
    }

    #[test]
    fn driven_transactions_have_as_many_statements_as_the_parameter_says() {
        let workload = Inserts::new(7, &defaults(PARAMS));
        let stream = workload.stream(&StreamSpec::One { kind: "transaction".into(), clients: 2 }).unwrap();
        let mut firsts = Vec::new();
        for (client, cycle) in [(0, 0), (0, 1), (1, 0)] {
            let mut params = ValueBuf::new();
            stream.op(client, cycle, &mut params);
            let mut rows = Vec::new();
            let mut row = |params: Values<'_>| rows.push(format!("{:?}", params.get(1)));
            let (sent, _) = run(&mut *stream.steps(client).unwrap(), params.values(), None, &mut row);
            assert_eq!(sent.len(), 102);
            firsts.extend(rows);
        }
        firsts.sort();
        firsts.dedup();
        assert_eq!(firsts.len(), 300, "no two rows are alike");
    }
}
