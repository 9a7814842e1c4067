//! Operations of a client, statement by statement.

use std::sync::Arc;

use plimsoll_core::{Answer, KindId, Outcome, Step, Steps, Value, ValueBuf, Values};

use super::operations::{OltpConfig, Operation, What, write_digits};
use super::tables::{C_GROUPS, PAD_GROUPS};
use crate::script::Xoroshiro;

pub(super) struct OltpSteps {
    shared: Arc<OltpConfig>,
    client: u32,
    operation: usize,
    cursor: OltpCursor,
    /// State of the generator at the beginning of the operation.
    begun: Xoroshiro,
    /// The statement that is next.
    at: usize,
    tries: u32,
    in_block: bool,
    rolling_back: bool,
    /// Outcome of the failure, and true if a retry may succeed.
    failed: Option<(Outcome, bool)>,
    /// A statement did not find its rows.
    missed: bool,
}

/// Values that later statements of an operation take from earlier ones.
pub(super) struct OltpCursor {
    pub(super) random: Xoroshiro,
    table: usize,
    id: i64,
}

impl OltpCursor {
    pub(super) fn new(random: Xoroshiro) -> Self {
        Self { random, table: 0, id: 0 }
    }

    /// Writes the parameters of a statement; returns the position of its table.
    pub(super) fn write(&mut self, shared: &OltpConfig, what: What, new_table: bool, params: &mut ValueBuf) -> usize {
        let random = &mut self.random;
        if new_table {
            self.table = random.uniform(0, shared.tables as i64 - 1) as usize;
        }
        if what != What::InsertSame && what != What::Begin && what != What::Commit {
            self.id = shared.ids.next(random);
        }
        let id = Value::Int(self.id);
        match what {
            What::Begin | What::Commit => {}
            What::PointSelect | What::UpdateIndex | What::Delete => params.push(id),
            What::SimpleRange | What::SumRange | What::OrderRange | What::DistinctRange => {
                params.push(id);
                params.push(Value::Int(self.id + shared.range_size - 1));
            }
            What::UpdateNonIndex => {
                params.push_text_with(|c| write_digits(C_GROUPS, random, c));
                params.push(id);
            }
            What::InsertSame => {
                params.push(id);
                params.push(Value::Int(shared.ids.next(random)));
                params.push_text_with(|c| write_digits(C_GROUPS, random, c));
                params.push_text_with(|pad| write_digits(PAD_GROUPS, random, pad));
            }
            What::Insert => {
                params.push(id);
                params.push_text_with(|c| write_digits(C_GROUPS, random, c));
                params.push_text_with(|pad| write_digits(PAD_GROUPS, random, pad));
            }
        }
        self.table
    }
}

impl OltpSteps {
    pub(super) fn new(shared: Arc<OltpConfig>, client: u32) -> Self {
        let random = Xoroshiro::of_seed(0);
        Self {
            shared,
            client,
            operation: 0,
            cursor: OltpCursor::new(random),
            begun: random,
            at: 0,
            tries: 0,
            in_block: false,
            rolling_back: false,
            failed: None,
            missed: false,
        }
    }

    fn kind(&self, operation: &Operation) -> KindId {
        operation.retried.filter(|_| self.tries > 1).unwrap_or(self.operation as KindId)
    }
}

impl Steps for OltpSteps {
    fn begin(&mut self, cycle: u64, kind: KindId, _params: Values<'_>) {
        self.operation = usize::from(kind);
        self.begun = Xoroshiro::of_operation(self.shared.seed, self.client, cycle);
        self.cursor = OltpCursor::new(self.begun);
        (self.at, self.tries, self.in_block, self.rolling_back, self.failed) = (0, 1, false, false, None);
        self.missed = false;
    }

    fn next(&mut self, params: &mut ValueBuf) -> Step {
        let operation = &self.shared.operations[self.operation];
        if let Some((outcome, again)) = self.failed {
            if let Some(kind) = operation.rollback.filter(|_| self.in_block) {
                (self.in_block, self.rolling_back) = (false, true);
                return Step::Send { kind, more: false };
            }
            if !again || self.tries >= self.shared.tries_max {
                return Step::End { kind: self.kind(operation), outcome };
            }
            self.tries += 1;
            self.cursor = OltpCursor::new(self.begun);
            (self.at, self.failed, self.missed) = (0, None, false);
        }
        let Some(statement) = operation.statements.get(self.at) else {
            let outcome = if self.missed { Outcome::NotFound } else { Outcome::Ok };
            return Step::End { kind: self.kind(operation), outcome };
        };
        let table = self.cursor.write(&self.shared, statement.what, statement.new_table, params);
        let kind = statement.kinds.get(table).or(statement.kinds.first()).copied().unwrap_or(0);
        Step::Send { kind, more: false }
    }

    fn answered(&mut self, outcome: Outcome, answer: &Answer) {
        if std::mem::take(&mut self.rolling_back) {
            return;
        }
        if outcome.is_error() {
            // As in sysbench a key that another transaction has just inserted is a conflict like others.
            let conflict = answer.gave_way || answer.code == "23505";
            self.failed = Some((outcome, outcome == Outcome::Rejected && conflict));
            return;
        }
        self.missed |= outcome == Outcome::NotFound;
        let statement = self.shared.operations[self.operation].statements.get(self.at);
        match statement.map(|statement| statement.what) {
            Some(What::Begin) => self.in_block = true,
            Some(What::Commit) => self.in_block = false,
            _ => {}
        }
        self.at += 1;
    }
}
