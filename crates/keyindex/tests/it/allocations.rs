//! Once warm, operations on records allocate nothing of their own.

use plimsoll_core::{Answer, BlockingSession, IndexMode, Kv, KvCapabilities, KvError, Op, Outcome, Value, ValueBuf};
use plimsoll_keyindex::records::Records;

use crate::counting::{Counting, count};
use crate::coupons::{GET, INDEXED, INSERT, SCAN, SET_USED, kinds, layout};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Twenty coupons in sorted arrays that are never moved: an update is thrown away, so that the store itself allocates
/// nothing.
struct Fixed(Vec<(Vec<u8>, Vec<u8>)>);

impl Kv for Fixed {
    fn capabilities(&self) -> KvCapabilities {
        KvCapabilities { atomic_batch: true, snapshot_scan: true, key_bytes_max: usize::MAX }
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, KvError> {
        value.clear();
        let found = self.0.binary_search_by(|(known, _)| known.as_slice().cmp(key));
        value.extend_from_slice(found.map_or(&[][..], |at| &self.0[at].1));
        Ok(found.is_ok())
    }

    fn get_many(&mut self, keys: &[&[u8]], visit: &mut dyn FnMut(usize, &[u8])) -> Result<(), KvError> {
        for (position, key) in keys.iter().enumerate() {
            if let Ok(at) = self.0.binary_search_by(|(known, _)| known.as_slice().cmp(key)) {
                visit(position, &self.0[at].1);
            }
        }
        Ok(())
    }

    fn put(&mut self, _: &[u8], _: &[u8]) -> Result<(), KvError> {
        Ok(())
    }

    fn delete(&mut self, _: &[u8]) -> Result<(), KvError> {
        Ok(())
    }

    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> std::ops::ControlFlow<()>,
    ) -> Result<(), KvError> {
        for (key, value) in &self.0 {
            if low <= key.as_slice() && high.is_none_or(|high| key.as_slice() < high) && visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

#[test]
fn operations_allocate_nothing_once_they_are_warm() {
    let records = Records::new(&layout(IndexMode::Keyindex)).unwrap();
    let mut filling = records.session(crate::mem_kv::MemKv::atomic());
    filling.prepare(&kinds()).unwrap();
    let (mut params, mut answer) = (ValueBuf::new(), Answer::default());
    for n in 0..20i64 {
        let code = format!("coupon number {n:04}");
        [Value::Text("a note"), Value::Text(&code), Value::Int(n % 5), Value::Timestamp(n)]
            .into_iter()
            .for_each(|value| params.push(value));
    }
    assert_eq!(filling.execute(&Op::new(INSERT, params.values()), &mut answer), Outcome::Ok);
    let pairs = filling.kv().pairs().into_iter().collect();
    let mut session = records.session(Fixed(pairs));
    session.prepare(&kinds()).unwrap();

    let mut batch = ValueBuf::new();
    for n in 0..10 {
        let code = format!("new coupon {n}");
        [Value::Null, Value::Text(&code), Value::Int(7 - n), Value::Null]
            .into_iter()
            .for_each(|value| batch.push(value));
    }
    let mut round = |params: &mut ValueBuf| {
        let mut run = |kind, values: &[Value<'_>], rows| {
            params.clear();
            values.iter().for_each(|value| params.push(*value));
            answer.clear();
            assert_eq!(session.execute(&Op::new(kind, params.values()), &mut answer), Outcome::Ok);
            assert_eq!(answer.rows, rows);
        };
        run(GET, &[Value::Text("coupon number 0007")], 1);
        run(SET_USED, &[Value::Text("coupon number 0007"), Value::Int(3)], 0);
        run(INDEXED, &[Value::Int(1), Value::Int(3)], 8);
        run(SCAN, &[Value::Int(1), Value::Int(3)], 8);
        answer.clear();
        assert_eq!(session.execute(&Op::new(INSERT, batch.values()), &mut answer), Outcome::Ok);
    };
    round(&mut params);
    round(&mut params);
    let before = count();
    round(&mut params);
    assert_eq!(count() - before, 0, "allocations");
}
