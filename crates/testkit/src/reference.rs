//! The reference store: records in memory, correct whatever happens at the same time.
//!
//! Every operation holds one lock over everything, so there is nothing to get wrong; it is what other
//! stores, and the ledger, are tried against. It claims every durability and every way of keeping an index so
//! that every plan can be tried on it, and survives nothing.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use plimsoll_core::{
    Access, Answer, BlockingSession, Call, Durability, Footprint, IndexMode, Interface, Layout, Op, OpKind,
    OpenOptions, Outcome, RecordsCall, SessionShape, SessionSpec, Sessions, Store, StoreDescription, StoreError,
    StoreKind, StoreSpec, Values,
};

use crate::owned::{Owned, Row, row};
use crate::table::ReferenceTable;

pub(crate) const SPEC: StoreSpec = StoreSpec {
    name: "reference",
    summary: "records in memory behind one lock: what others are tried against",
    interfaces: &[Interface::Records],
    index_modes: &[IndexMode::None, IndexMode::Own, IndexMode::Keyindex],
    sessions: SessionSpec { descriptors: 0, ..SessionSpec::new(SessionShape::Blocking, 4 << 10) },
    ..StoreSpec::PLAIN
};

/// The reference store.
pub fn kind() -> Box<dyn StoreKind> {
    Box::new(ReferenceKind)
}

struct ReferenceKind;

impl StoreKind for ReferenceKind {
    fn spec(&self) -> &StoreSpec {
        &SPEC
    }

    fn open(&self, options: OpenOptions, _progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        let shared = open(&options)?;
        let open = Box::new(|shared: &Shared| -> Box<dyn BlockingSession> { Box::new(Reference::new(shared)) });
        Ok(Box::new(ReferenceStore { shared, open }))
    }
}

/// Fails: there is no server to attach to.
pub(crate) fn open(options: &OpenOptions) -> Result<Shared, StoreError> {
    options.target.data_dir().map(|_| Shared::default())
}

/// The tables, shared by all sessions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shared(Arc<RwLock<Vec<ReferenceTable>>>);

impl Shared {
    pub fn read(&self) -> RwLockReadGuard<'_, Vec<ReferenceTable>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, Vec<ReferenceTable>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens sessions of one sort: honest ones, or others.
pub(crate) type OpenSession = Box<dyn Fn(&Shared) -> Box<dyn BlockingSession> + Send>;

/// The open store: the same for honest sessions and others.
pub(crate) struct ReferenceStore {
    pub shared: Shared,
    pub open: OpenSession,
}

impl Store for ReferenceStore {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        Ok(StoreDescription {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            place: "embedded".to_owned(),
            settings: Vec::new(),
        })
    }

    fn create(&mut self, layout: &Layout) -> Result<(), StoreError> {
        *self.shared.write() = layout.collections.iter().map(|one| ReferenceTable::new(one, layout.index)).collect();
        Ok(())
    }

    fn sessions(&mut self, count: u32, _durability: Durability) -> Result<Sessions, StoreError> {
        Ok(Sessions::Blocking((0..count).map(|_| (self.open)(&self.shared)).collect()))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        let (data_bytes, index_bytes) = self
            .shared
            .read()
            .iter()
            .map(ReferenceTable::bytes)
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        Ok(Footprint { data_bytes, index_bytes: Some(index_bytes), total_bytes: None })
    }

    fn explain(&mut self, kind: &OpKind, _params: Values<'_>) -> Result<Option<String>, StoreError> {
        let Call::Records { collection, call: RecordsCall::Find { field, access } } = kind.call else {
            return Ok(None);
        };
        let indexed = self.shared.read()[usize::from(collection)].is_indexed(usize::from(field));
        let way = if indexed && access == Access::Indexed { "by the index" } else { "by reading every record" };
        Ok(Some(way.to_owned()))
    }
}

/// An honest session.
pub(crate) struct Reference {
    pub shared: Shared,
    pub kinds: Vec<OpKind>,
}

impl Reference {
    pub fn new(shared: &Shared) -> Self {
        Self { shared: shared.clone(), kinds: Vec::new() }
    }

    /// The collection and call of an operation on records.
    pub fn call(&self, op: &Op<'_>) -> Option<(usize, RecordsCall)> {
        match &self.kinds.get(usize::from(op.kind))?.call {
            Call::Records { collection, call } => Some((usize::from(*collection), call.clone())),
            _ => None,
        }
    }

    /// The rows of an insert.
    pub fn rows(&self, op: &Op<'_>) -> Vec<Row> {
        let columns = self.kinds[usize::from(op.kind)].params.len();
        op.params.rows(columns).map(row).collect()
    }
}

impl BlockingSession for Reference {
    fn prepare(&mut self, kinds: &[OpKind]) -> Result<(), StoreError> {
        if let Some(kind) =
            kinds.iter().find(|kind| matches!(kind.call, Call::Sql(_) | Call::SqlRow(_) | Call::SqlText))
        {
            return Err(kind.refused("the reference store"));
        }
        self.kinds = kinds.to_vec();
        Ok(())
    }

    fn execute(&mut self, op: &Op<'_>, answer: &mut Answer) -> Outcome {
        let Some((collection, call)) = self.call(op) else { return Outcome::Ok };
        let keep = self.kinds[usize::from(op.kind)].keep_answer;
        let param = |position| Owned::from(op.params.get(position));
        match call {
            RecordsCall::Insert => {
                let rows = self.rows(op);
                match self.shared.write()[collection].insert(&rows) {
                    Ok(()) => Outcome::Ok,
                    Err(key) => {
                        answer.fail(Outcome::Rejected, "duplicate", &format!("the key {key:?} is there already"))
                    }
                }
            }
            RecordsCall::Get => match self.shared.read()[collection].get(&param(0)) {
                Some(row) => give(answer, keep, std::iter::once(row)),
                None => Outcome::NotFound,
            },
            RecordsCall::Update { fields } => {
                let values: Row = op.params.iter().skip(1).map(Owned::from).collect();
                found(self.shared.write()[collection].update(&param(0), &fields, &values))
            }
            RecordsCall::Delete => found(self.shared.write()[collection].delete(&param(0))),
            RecordsCall::Find { field, access } => {
                let (low, high, field) = (param(0), param(1), usize::from(field));
                let tables = self.shared.read();
                let table = &tables[collection];
                match access {
                    Access::Indexed if table.is_indexed(field) => {
                        give(answer, keep, table.by_index(field, &low, &high))
                    }
                    _ => give(answer, keep, table.scan(field, &low, &high)),
                }
            }
            RecordsCall::All => give(answer, keep, self.shared.read()[collection].all()),
        }
    }
}

fn found(found: bool) -> Outcome {
    if found { Outcome::Ok } else { Outcome::NotFound }
}

/// Answers with `rows`.
pub(crate) fn give<'a>(answer: &mut Answer, keep: bool, rows: impl Iterator<Item = &'a Row>) -> Outcome {
    for row in rows {
        answer.rows += 1;
        answer.columns = row.len();
        if keep {
            row.iter().for_each(|value| answer.values.push(value.value()));
        }
    }
    Outcome::Ok
}
