//! Counts what a thread allocates: on the worker's side of the ledger nothing.

use std::sync::Arc;

use plimsoll_core::{Answer, Op, Outcome, Ticket, Truth, Value, ValueBuf, Version, Workload};
use plimsoll_verify::Ledger;

use crate::counting::{Counting, count};
use crate::toy::{FIND, GET, INSERT, Toy, UPDATE, workload};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Operations of four clients as `op` makes them, with their answers: neither sending nor finishing them allocates.
fn observed(workload: Arc<dyn Workload>, mut op: impl FnMut(u64, &mut ValueBuf) -> (u16, Answer)) {
    let mut ledger = Ledger::new(workload).unwrap();
    let mut observers = ledger.observers(0, 1, 4);
    let observer = &mut observers[0];
    let (mut allocations, mut params) = (0, ValueBuf::with_capacity(16, 2_000));
    // Several chunks of events, and many more of rows and bounds.
    for cycle in 0..30_000u64 {
        params.clear();
        let (kind, answer) = op(cycle, &mut params);
        let op = Op::new(kind, params.values());
        let before = count();
        observer.sent(Ticket(cycle as u32 % 4), cycle * 100, 0, cycle, &op);
        observer.finished(Ticket(cycle as u32 % 4), cycle * 100 + 50, Outcome::Ok, &answer);
        allocations += count() - before;
        if cycle % 1_000 == 0 {
            ledger.drain();
        }
    }
    assert_eq!(allocations, 0);
    drop(observers);
    ledger.drain();
    assert_eq!(ledger.gap(), None);
    assert_eq!((ledger.operations(), ledger.skipped()), (30_000, 0));
}

#[test]
fn an_observer_allocates_nothing() {
    let toy = Arc::new(Toy::new(40));
    // 40 records of which some match.
    let mut answer = Answer { columns: 3, rows: 40, ..Answer::default() };
    (0..40).for_each(|id| toy.row(id, Version::Loaded, &mut answer.values));
    observed(toy.clone(), |cycle, params| {
        let kind = [INSERT, UPDATE, GET, FIND][cycle as usize % 4];
        match kind {
            INSERT => toy.row(cycle % 40, Version::Loaded, params),
            FIND => [Value::Int(cycle as i64 % 7), Value::Null].into_iter().for_each(|bound| params.push(bound)),
            // An alien now and then.
            _ => params.push(Value::Int(cycle as i64 % 45)),
        }
        (kind, answer.clone())
    });
}

/// Tests the ledger that judges while the phase runs.
#[test]
fn an_observer_of_keys_and_values_allocates_nothing() {
    let workload = workload("kv", &[]);
    observed(Arc::clone(&workload), |cycle, params| {
        let kind = [0, 1, 3][cycle as usize % 3];
        let mut row = ValueBuf::new();
        workload.truth().unwrap().row(cycle % 40, Version::Loaded, &mut row);
        let first = if kind == 0 { 1 } else { 0 };
        let mut answer = Answer { columns: 2 - first, rows: 1, ..Answer::default() };
        row.values().slice(first..2).iter().for_each(|value| answer.values.push(value));
        params.push(row.values().get(0));
        match kind {
            1 => params.push(row.values().get(1)),
            3 => params.push(Value::Int(1)),
            _ => {}
        }
        (kind, answer)
    });
}
