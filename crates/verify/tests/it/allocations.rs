//! Counts what a thread allocates: on the worker's side of the ledger nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use plimsoll_core::{
    Answer, Op, Outcome, ParamType, ParamValue, Params, Ticket, Truth, Value, ValueBuf, Version, Workload,
};
use plimsoll_verify::Ledger;

use crate::toy::{FIND, GET, INSERT, Toy, UPDATE};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is being torn down has no counter any more, and needs none.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are the system allocator's conditions.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// 40 records of which some match.
fn answer(toy: &Toy) -> Answer {
    let mut answer = Answer { columns: 3, rows: 40, ..Answer::default() };
    (0..40).for_each(|id| toy.row(id, Version::Loaded, &mut answer.values));
    answer
}

#[test]
fn an_observer_allocates_nothing() {
    let toy = Arc::new(Toy::new(40));
    let mut ledger = Ledger::new(toy.clone()).unwrap();
    let mut observers = ledger.observers(0, 1, 4);
    let observer = &mut observers[0];
    let answer = answer(&toy);
    let mut allocations = 0;
    let mut params = ValueBuf::with_capacity(16, 0);
    // Several chunks of events, and many more of rows and bounds; an alien in each answer's place now and then.
    for cycle in 0..30_000u64 {
        params.clear();
        let kind = match cycle % 4 {
            0 => INSERT,
            1 => UPDATE,
            2 => GET,
            _ => FIND,
        };
        match kind {
            INSERT => toy.row(cycle % 40, Version::Loaded, &mut params),
            FIND => [Value::Int(cycle as i64 % 7), Value::Null].into_iter().for_each(|bound| params.push(bound)),
            _ => params.push(Value::Int(cycle as i64 % 45)),
        }
        let op = Op::new(kind, params.values());
        let before = ALLOCATIONS.get();
        observer.sent(Ticket(cycle as u32 % 4), cycle * 100, 0, cycle, &op);
        observer.finished(Ticket(cycle as u32 % 4), cycle * 100 + 50, Outcome::Ok, &answer);
        allocations += ALLOCATIONS.get() - before;
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

/// Tests the ledger that judges while the phase runs.
#[test]
fn an_observer_of_keys_and_values_allocates_nothing() {
    let spec = plimsoll_workload::all().into_iter().find(|spec| spec.name == "kv").unwrap();
    let mut params = Params::default();
    for param in spec.params {
        let value = match param.param_type {
            ParamType::Int { .. } => ParamValue::Int(param.default.parse().unwrap()),
            _ => ParamValue::Text(param.default.into()),
        };
        params.0.insert(param.name.into(), value);
    }
    let workload: Arc<dyn Workload> = Arc::from((spec.make)(1, &params, &[]).unwrap());
    let mut ledger = Ledger::new(Arc::clone(&workload)).unwrap();
    let mut observers = ledger.observers(0, 1, 4);
    let observer = &mut observers[0];
    let truth = workload.truth().unwrap();
    let (mut allocations, mut row) = (0, ValueBuf::with_capacity(2, 2_000));
    for cycle in 0..30_000u64 {
        let kind = [0, 1, 3][cycle as usize % 3];
        row.clear();
        truth.row(cycle % 40, Version::Loaded, &mut row);
        let mut answer = Answer { columns: if kind == 0 { 1 } else { 2 }, rows: 1, ..Answer::default() };
        let first = if kind == 0 { 1 } else { 0 };
        row.values().slice(first..2).iter().for_each(|value| answer.values.push(value));
        let mut params = ValueBuf::new();
        params.push(row.values().get(0));
        match kind {
            1 => params.push(row.values().get(1)),
            3 => params.push(Value::Int(1)),
            _ => {}
        }
        let op = Op::new(kind, params.values());
        let before = ALLOCATIONS.get();
        observer.sent(Ticket(cycle as u32 % 4), cycle * 100, 0, cycle, &op);
        observer.finished(Ticket(cycle as u32 % 4), cycle * 100 + 50, Outcome::Ok, &answer);
        allocations += ALLOCATIONS.get() - before;
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
