//! A store that lies: the reference store with one kind of lie, told now and then.
//!
//! The ledger has to catch every kind. Lies are told by sessions, each with a seed of its own; how many were
//! told is counted, so that a test can say that one was.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_core::{
    Answer, BlockingSession, IndexMode, Op, OpKind, OpenOptions, Outcome, RecordsCall, Store, StoreError, StoreKind,
    StoreSpec,
};

use crate::owned::{Owned, Row};
use crate::reference::{Reference, ReferenceStore, SPEC, Shared, give, open};

/// Lie of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lie {
    /// A write is acknowledged and not done.
    Lose,
    /// A record is kept twice.
    Duplicate,
    /// A write is acknowledged, and done only after later ones.
    Reorder,
    /// Returns a record that was overwritten or deleted.
    Resurrect,
    /// A read by key shows what was there before.
    Stale,
    /// A record is written, and the index does not hear of it.
    ForgetIndex,
    /// A record's content is spoilt.
    Corrupt,
    /// A write is refused and done.
    Deny,
    /// Returns a record that was never written.
    Invent,
}

impl Lie {
    /// Every kind of lie.
    pub const ALL: [Lie; 9] = [
        Lie::Lose,
        Lie::Duplicate,
        Lie::Reorder,
        Lie::Resurrect,
        Lie::Stale,
        Lie::ForgetIndex,
        Lie::Corrupt,
        Lie::Deny,
        Lie::Invent,
    ];
}

/// Operations of one session between a write and its late consequence.
pub(crate) const LATER: u32 = 3;

/// Lies of one kind, told now and then.
pub(crate) struct Lies<L> {
    pub lie: L,
    one_in: u64,
    draws: u64,
    /// Seed of the next session.
    seed: Arc<AtomicU64>,
    told: Arc<AtomicU64>,
}

impl<L: Copy> Lies<L> {
    /// Lies at one in `one_in` opportunities, as `seed` chooses.
    pub fn new(lie: L, one_in: u64, seed: u64) -> Self {
        Self { lie, one_in: one_in.max(1), draws: 0, seed: Arc::new(seed.into()), told: Arc::default() }
    }

    /// Returns the lies of the next session.
    pub fn session(&self) -> Self {
        let seed = self.seed.fetch_add(1, Ordering::Relaxed);
        Self { seed: Arc::new(seed.into()), told: Arc::clone(&self.told), ..*self }
    }

    /// Returns a handle to these lies.
    pub fn shared(&self) -> Self {
        Self { seed: Arc::clone(&self.seed), told: Arc::clone(&self.told), ..*self }
    }

    /// True at one in so many opportunities: then a lie has been told.
    pub fn is_told(&mut self) -> bool {
        self.draws += 1;
        let seed = self.seed.load(Ordering::Relaxed);
        let is_told = plimsoll_workload::scramble::hash(seed, self.draws, 0).is_multiple_of(self.one_in);
        self.told.fetch_add(u64::from(is_told), Ordering::Relaxed);
        is_told
    }

    pub fn told(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }
}

/// A kind of store that lies.
pub struct Lying {
    lies: Lies<Lie>,
    spec: StoreSpec,
}

impl Lying {
    /// A store that tells `lie` at one in `one_in` opportunities, as `seed` chooses.
    pub fn new(lie: Lie, one_in: u64, seed: u64) -> Self {
        let spec = StoreSpec {
            name: "lying",
            summary: "the reference store with one kind of lie",
            dialect: None,
            index_modes: &[IndexMode::Own],
            ..SPEC
        };
        Self { lies: Lies::new(lie, one_in, seed), spec }
    }

    /// Returns the number of lies so far.
    pub fn told(&self) -> u64 {
        self.lies.told()
    }
}

impl StoreKind for Lying {
    fn spec(&self) -> &StoreSpec {
        &self.spec
    }

    fn open(&self, options: OpenOptions, _progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        let shared = open(&options)?;
        let lies = self.lies.shared();
        let open = Box::new(move |shared: &Shared| -> Box<dyn BlockingSession> {
            Box::new(Liar { honest: Reference::new(shared), lies: lies.session(), pending: Vec::new() })
        });
        Ok(Box::new(ReferenceStore { shared, open }))
    }
}

/// Effect of an operation that is delayed by a lie.
struct Pending {
    /// Operations until then.
    after: u32,
    collection: usize,
    what: Late,
}

enum Late {
    /// An acknowledged update is done.
    Update { key: Owned, fields: Vec<u16>, values: Row },
    /// An old record is put back.
    Put(Row),
}

struct Liar {
    honest: Reference,
    lies: Lies<Lie>,
    pending: Vec<Pending>,
}

impl Liar {
    /// Applies the due ones of the delayed effects; all of them if `all` is true.
    fn catch_up(&mut self, all: bool) {
        if self.pending.is_empty() {
            return;
        }
        let mut tables = self.honest.shared.write();
        self.pending.retain_mut(|pending| {
            pending.after = pending.after.saturating_sub(1);
            if pending.after > 0 && !all {
                return true;
            }
            let table = &mut tables[pending.collection];
            match &pending.what {
                Late::Update { key, fields, values } => drop(table.update(key, fields, values)),
                Late::Put(row) => table.put(row),
            }
            false
        });
    }

    fn insert(&mut self, collection: usize, op: &Op<'_>, answer: &mut Answer) -> Outcome {
        let outcome = self.honest.execute(op, answer);
        let wanted =
            matches!(self.lies.lie, Lie::Lose | Lie::Duplicate | Lie::ForgetIndex | Lie::Corrupt | Lie::Invent);
        if outcome != Outcome::Ok || !wanted || !self.lies.is_told() {
            return outcome;
        }
        let Some(row) = self.honest.rows(op).into_iter().next() else { return outcome };
        let mut tables = self.honest.shared.write();
        let table = &mut tables[collection];
        let key = table.key_of(&row);
        match self.lies.lie {
            Lie::Lose => drop(table.delete(&key)),
            Lie::Duplicate => table.double(row),
            Lie::ForgetIndex => table.unlink(&row),
            Lie::Corrupt => table.put(&spoilt(row, table.key_field())),
            Lie::Invent => {
                let field = table.key_field();
                let mut invented = row;
                invented[field] = match &invented[field] {
                    Owned::Text(key) => Owned::Text(format!("{key}?").into()),
                    _ => Owned::Int(-1),
                };
                table.put(&invented);
            }
            _ => {}
        }
        outcome
    }

    fn update(&mut self, collection: usize, fields: &[u16], op: &Op<'_>, answer: &mut Answer) -> Outcome {
        let told = !matches!(self.lies.lie, Lie::Duplicate | Lie::Stale | Lie::Invent) && self.lies.is_told();
        let key = Owned::from(op.params.get(0));
        let values: Row = op.params.iter().skip(1).map(Owned::from).collect();
        let before = self.honest.shared.read()[collection].get(&key).cloned();
        let Some(before) = before.filter(|_| told) else { return self.honest.execute(op, answer) };
        match self.lies.lie {
            Lie::Lose => return Outcome::Ok,
            Lie::Reorder => {
                let what = Late::Update { key, fields: fields.to_vec(), values };
                self.pending.push(Pending { after: LATER, collection, what });
                return Outcome::Ok;
            }
            _ => {}
        }
        let outcome = self.honest.execute(op, answer);
        let mut tables = self.honest.shared.write();
        let table = &mut tables[collection];
        let now = table.get(&key).cloned().unwrap_or_else(|| before.clone());
        match self.lies.lie {
            Lie::Resurrect => self.pending.push(Pending { after: LATER, collection, what: Late::Put(before) }),
            Lie::ForgetIndex => table.unlink(&now),
            Lie::Corrupt => table.put(&spoilt(now, table.key_field())),
            Lie::Deny => return answer.fail(Outcome::Rejected, "denied", "the store lies"),
            _ => {}
        }
        outcome
    }

    fn delete(&mut self, collection: usize, op: &Op<'_>, answer: &mut Answer) -> Outcome {
        let told = matches!(self.lies.lie, Lie::Lose | Lie::Resurrect | Lie::Deny) && self.lies.is_told();
        let key = Owned::from(op.params.get(0));
        let before = self.honest.shared.read()[collection].get(&key).cloned();
        let Some(before) = before.filter(|_| told) else { return self.honest.execute(op, answer) };
        if self.lies.lie == Lie::Lose {
            return Outcome::Ok;
        }
        let outcome = self.honest.execute(op, answer);
        if self.lies.lie == Lie::Resurrect {
            self.pending.push(Pending { after: LATER, collection, what: Late::Put(before) });
            return outcome;
        }
        answer.fail(Outcome::Rejected, "denied", "the store lies")
    }

    /// Answers with what was there before, where that is known.
    fn read(&mut self, collection: usize, op: &Op<'_>, answer: &mut Answer) -> Outcome {
        let before = self.honest.shared.read()[collection].before(&Owned::from(op.params.get(0))).cloned();
        match before {
            Some(before) if self.lies.lie == Lie::Stale && self.lies.is_told() => {
                give(answer, true, std::iter::once(&before))
            }
            _ => self.honest.execute(op, answer),
        }
    }
}

/// The row with its first text that is no key spoilt, or else its last value.
fn spoilt(mut row: Row, key: usize) -> Row {
    let is_text = |(field, value): (usize, &Owned)| field != key && matches!(value, Owned::Text(_));
    let field = row.iter().enumerate().position(is_text).unwrap_or(row.len() - 1);
    row[field] = match &row[field] {
        Owned::Text(text) => Owned::Text(format!("{text}~").into()),
        _ => Owned::Null,
    };
    row
}

impl BlockingSession for Liar {
    fn prepare(&mut self, kinds: &[OpKind]) -> Result<(), StoreError> {
        self.honest.prepare(kinds)
    }

    fn execute(&mut self, op: &Op<'_>, answer: &mut Answer) -> Outcome {
        self.catch_up(false);
        match self.honest.call(op) {
            Some((collection, RecordsCall::Insert)) => self.insert(collection, op, answer),
            Some((collection, RecordsCall::Update { fields })) => self.update(collection, &fields, op, answer),
            Some((collection, RecordsCall::Delete)) => self.delete(collection, op, answer),
            Some((collection, RecordsCall::Get)) => self.read(collection, op, answer),
            Some(_) => self.honest.execute(op, answer),
            None => Outcome::Ok,
        }
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.catch_up(true);
    }
}
