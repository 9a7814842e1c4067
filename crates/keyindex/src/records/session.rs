//! A session of the `records` interface.

use std::ops::ControlFlow;

use plimsoll_core::{
    Answer, BlockingSession, Call, Kv, KvError, Op, OpKind, Outcome, RecordsCall, StoreError, StoreErrorKind, Value,
    Values,
};

use super::{Records, pairs};
use crate::IndexError;
use crate::encode::raise_past;
use crate::find::Query;
use crate::indexes::Indexes;
use crate::keyspace::{RECORD_PREFIX_LEN, record_prefix};
use crate::rows::Rows;

/// Operation with everything looked up that does not depend on its parameters.
struct Prepared {
    call: Call,
    collection: usize,
    /// The index that a `Find` goes through, where there is one.
    index: Option<usize>,
    keep: bool,
}

/// Records over one connection to a key-value store. Made by [`Records::session`].
pub struct RecordsSession<K> {
    kv: K,
    records: Records,
    indexes: Vec<Indexes>,
    kinds: Vec<Prepared>,
    query: Query,
    key: Vec<u8>,
    high: Vec<u8>,
    record: Vec<u8>,
    rows: Rows,
}

impl<K: Kv> RecordsSession<K> {
    pub(super) fn new(records: Records, kv: K) -> Self {
        let indexes = (0..records.collections.len()).map(|collection| records.indexes(collection)).collect();
        RecordsSession {
            kv,
            records,
            indexes,
            kinds: Vec::new(),
            query: Query::default(),
            key: Vec::new(),
            high: Vec::new(),
            record: Vec::new(),
            rows: Rows::default(),
        }
    }

    /// The connection.
    pub fn kv(&mut self) -> &mut K {
        &mut self.kv
    }

    fn prepared(&self, kind: &OpKind) -> Result<Prepared, StoreError> {
        let bad = |what: String| Err(StoreError::usage(format!("operation `{}`: {what}", kind.name)));
        let mut prepared = Prepared { call: kind.call.clone(), collection: 0, index: None, keep: kind.keep_answer };
        let (collection, call) = match &kind.call {
            Call::Nothing | Call::Steps | Call::Kv(_) => return Ok(prepared),
            Call::Records { collection, call } => (usize::from(*collection), call),
            _ => return Err(kind.refused("keyindex")),
        };
        prepared.collection = collection;
        let Some(kept) = self.records.collections.get(collection) else {
            return bad(format!("there is no collection number {collection}"));
        };
        let fields = match call {
            RecordsCall::Update { fields } => fields,
            RecordsCall::Find { field, access } => {
                prepared.index = kept.index_for(*field, *access);
                std::slice::from_ref(field)
            }
            _ => &[],
        };
        for field in fields {
            if kept.layout.value_type(usize::from(*field)).is_none() {
                return bad(format!("`{}` has no field number {field}", kept.name));
            }
            if usize::from(*field) == kept.layout.key_field() && matches!(call, RecordsCall::Update { .. }) {
                return bad(format!("the key of `{}` cannot be set", kept.name));
            }
        }
        Ok(prepared)
    }

    fn carry_out(
        &mut self,
        prepared: &Prepared,
        params: Values<'_>,
        answer: &mut Answer,
    ) -> Result<Outcome, IndexError> {
        let Prepared { call, collection, index, keep } = prepared;
        let (collection, keep) = (*collection, *keep);
        let call = match call {
            Call::Records { call, .. } => call,
            Call::Kv(call) => return pairs::execute(&mut self.kv, *call, keep, params, &mut self.record, answer),
            _ => return Ok(Outcome::Ok),
        };
        match call {
            RecordsCall::Insert => self.insert(collection, params),
            RecordsCall::Get => self.get(collection, keep, params.get(0), answer),
            RecordsCall::Update { fields } => self.update(collection, fields, params),
            RecordsCall::Delete => self.delete(collection, params.get(0)),
            RecordsCall::Find { field, .. } => {
                self.find((collection, usize::from(*field), *index, keep), params, answer)
            }
            RecordsCall::All => self.scan(collection, keep, None, answer),
        }
    }

    fn insert(&mut self, collection: usize, params: Values<'_>) -> Result<Outcome, IndexError> {
        let layout = &self.records.collections[collection].layout;
        if params.is_empty() || !params.len().is_multiple_of(layout.width()) {
            return Err(IndexError::Refused("the number of values is not a multiple of the number of fields"));
        }
        self.rows.clear();
        for row in params.rows(layout.width()) {
            if !row.iter().enumerate().all(|(field, value)| layout.accepts(field, value)) {
                return Err(WRONG_TYPE);
            }
            let mut named = true;
            self.rows.push_with(
                |bytes| named = layout.push_key(bytes, row.get(layout.key_field())),
                |bytes| layout.push_record(bytes, row),
            );
            if !named {
                return Err(IndexError::Refused("a key is null"));
            }
        }
        if !self.indexes[collection].insert(&mut self.kv, &self.rows)? {
            return Err(IndexError::Refused("a record with this key is there already"));
        }
        Ok(Outcome::Ok)
    }

    fn get(
        &mut self,
        collection: usize,
        keep: bool,
        key: Value<'_>,
        answer: &mut Answer,
    ) -> Result<Outcome, IndexError> {
        let layout = &self.records.collections[collection].layout;
        answer.columns = layout.width();
        self.key.clear();
        if !layout.push_key(&mut self.key, key) {
            return Err(WRONG_TYPE);
        }
        if !self.indexes[collection].get(&mut self.kv, &self.key, &mut self.record)? {
            return Ok(Outcome::NotFound);
        }
        answer.rows = 1;
        if keep {
            layout.push_row(&self.key, &self.record, &mut answer.values)?;
        }
        Ok(Outcome::Ok)
    }

    fn update(&mut self, collection: usize, fields: &[u16], params: Values<'_>) -> Result<Outcome, IndexError> {
        let layout = &self.records.collections[collection].layout;
        let values = params.slice(1..params.len());
        if values.len() != fields.len() {
            return Err(IndexError::Refused("the number of values is not the number of fields that are set"));
        }
        if !values.iter().zip(fields).all(|(value, field)| layout.accepts(usize::from(*field), value)) {
            return Err(WRONG_TYPE);
        }
        self.key.clear();
        if !layout.push_key(&mut self.key, params.get(0)) {
            return Err(WRONG_TYPE);
        }
        let there = self.indexes[collection]
            .update(&mut self.kv, &self.key, |old, new| layout.push_changed(new, old, fields, values))?;
        Ok(if there { Outcome::Ok } else { Outcome::NotFound })
    }

    fn delete(&mut self, collection: usize, key: Value<'_>) -> Result<Outcome, IndexError> {
        self.key.clear();
        if !self.records.collections[collection].layout.push_key(&mut self.key, key) {
            return Err(WRONG_TYPE);
        }
        let there = self.indexes[collection].delete(&mut self.kv, &self.key)?;
        Ok(if there { Outcome::Ok } else { Outcome::NotFound })
    }

    fn find(
        &mut self,
        (collection, field, index, keep): (usize, usize, Option<usize>, bool),
        params: Values<'_>,
        answer: &mut Answer,
    ) -> Result<Outcome, IndexError> {
        let layout = &self.records.collections[collection].layout;
        let (low, high) = (params.get(0), params.get(1));
        if !layout.accepts(field, low) || !layout.accepts(field, high) {
            return Err(WRONG_TYPE);
        }
        let Some(index) = index else {
            return self.scan(collection, keep, Some((field, low, high)), answer);
        };
        answer.columns = layout.width();
        self.query.range(index, low, high);
        let mut unread = Ok(());
        answer.rows = self.indexes[collection].find(&mut self.kv, &self.query, &mut |key, record| {
            if keep && unread.is_ok() {
                unread = layout.push_row(key, record, &mut answer.values);
            }
        })?;
        unread?;
        Ok(Outcome::Ok)
    }

    /// Reads every record; where a range is asked for, only its field of those outside it.
    fn scan(
        &mut self,
        collection: usize,
        keep: bool,
        range: Option<(usize, Value<'_>, Value<'_>)>,
        answer: &mut Answer,
    ) -> Result<Outcome, IndexError> {
        let layout = &self.records.collections[collection].layout;
        answer.columns = layout.width();
        let prefix = record_prefix(collection as u8);
        self.high.clear();
        self.high.extend_from_slice(&prefix);
        let bounded = raise_past(&mut self.high);
        let mut unread = Ok(());
        let (rows, values) = (&mut answer.rows, &mut answer.values);
        self.kv.scan(&prefix, bounded.then_some(self.high.as_slice()), &mut |key, record| {
            let key = &key[RECORD_PREFIX_LEN..];
            let wanted = match range {
                None => Ok(true),
                Some((field, low, high)) => layout.field(key, record, field).map(|value| value.lies_in(low, high)),
            };
            let read = wanted.and_then(|wanted| {
                *rows += u64::from(wanted);
                if wanted && keep { layout.push_row(key, record, values) } else { Ok(()) }
            });
            match read {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    unread = Err(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        unread?;
        Ok(Outcome::Ok)
    }
}

impl<K: Kv + Send> BlockingSession for RecordsSession<K> {
    fn asked_again(&self) -> u64 {
        self.kv.asked_again()
    }

    fn prepare(&mut self, kinds: &[OpKind]) -> Result<(), StoreError> {
        self.kinds = kinds.iter().map(|kind| self.prepared(kind)).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn execute(&mut self, op: &Op<'_>, answer: &mut Answer) -> Outcome {
        let kinds = std::mem::take(&mut self.kinds);
        let done = match kinds.get(usize::from(op.kind)) {
            Some(prepared) => self.carry_out(prepared, op.params, answer),
            None => Err(IndexError::Refused("this operation type has not been prepared")),
        };
        self.kinds = kinds;
        match done {
            Ok(outcome) => outcome,
            Err(failure) => {
                answer.clear();
                fail(answer, &failure)
            }
        }
    }
}

pub(super) const WRONG_TYPE: IndexError = IndexError::Refused("a value is not of its field's type");

fn fail(answer: &mut Answer, failure: &IndexError) -> Outcome {
    let outcome = match failure {
        IndexError::Refused(what) => answer.fail(Outcome::Rejected, "REFUSED", what),
        // Nothing was written: a writer reads first.
        IndexError::Corrupt(what) => answer.fail(Outcome::Rejected, "CORRUPT", what),
        IndexError::Store(KvError::Rejected(error)) => {
            answer.fail(Outcome::Rejected, error.kind.name(), &error.to_string())
        }
        IndexError::Store(KvError::Unknown(error)) => {
            answer.fail(Outcome::Unknown, error.kind.name(), &error.to_string())
        }
    };
    answer.disk_full = match failure {
        IndexError::Store(KvError::Rejected(error) | KvError::Unknown(error)) => error.kind == StoreErrorKind::DiskFull,
        IndexError::Refused(_) | IndexError::Corrupt(_) => false,
    };
    outcome
}

#[cfg(test)]
mod tests {
    use plimsoll_core::waits;

    use super::*;

    #[test]
    fn a_full_disk_of_the_store_is_told_from_its_other_errors() {
        let mut answer = Answer::default();
        for (kind, disk_full) in [(StoreErrorKind::DiskFull, true), (StoreErrorKind::Broken, false)] {
            fail(&mut answer, &KvError::Unknown(StoreError::new(kind, "not written")).into());
            assert_eq!((answer.disk_full, answer.code.as_str()), (disk_full, kind.name()));
            answer.clear();
        }
    }

    #[test]
    fn what_the_user_wanted_an_end_of_is_stopped_and_no_failure_of_the_store() {
        let mut answer = Answer::default();
        let outcome = fail(&mut answer, &KvError::Unknown(waits::interrupted()).into());
        assert_eq!((outcome, answer.code.as_str()), (Outcome::Unknown, waits::STOPPED));
    }
}
