//! Allocations of each thread, for tests that the hot path allocates nothing.
//!
//! ```text
//! #[global_allocator]
//! static ALLOCATOR: plimsoll_testkit::allocations::Counting = plimsoll_testkit::allocations::Counting;
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use plimsoll_core::{Op, Ticket, Value, WireSession};

use crate::pieces::Counted;
use crate::wire::values;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static HELD: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator, which counts what it is asked for.
#[derive(Debug)]
pub struct Counting;

/// Returns the number of allocations of the calling thread so far; 0 if [`Counting`] is not the program's allocator.
pub fn count() -> u64 {
    COUNT.get()
}

/// Returns the bytes that the calling thread took so far and did not give back.
pub fn held_bytes() -> i64 {
    HELD.get()
}

fn hold(bytes: i64) {
    // A thread that is being torn down has no counters any more, and needs none.
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
}

// SAFETY: every call is handed on to the system's allocator as it is; the counter is a thread's own and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        hold(layout.size() as i64);
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        hold(-(layout.size() as i64));
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Rounds after those that warm up.
pub const ROUNDS: u64 = 1_000;

/// Runs `round` some times to warm up, and [`ROUNDS`] times more.
///
/// # Panics
/// If it allocates anything then.
pub fn none(warm_up: u64, mut round: impl FnMut()) {
    (0..warm_up).for_each(|_| round());
    let before = count();
    (0..ROUNDS).for_each(|_| round());
    assert_eq!(count() - before, 0, "allocations in {ROUNDS} rounds");
}

/// Starts operations together and feeds their answers, many times. Returns the outcomes of one round, counted.
///
/// # Panics
/// If it allocates anything once warm, or leaves bytes unused.
pub fn of_pipeline(session: &mut dyn WireSession, ops: &[(u16, [Value<'_>; 2])], answers: &[u8]) -> [u64; 4] {
    let ops: Vec<_> = ops.iter().map(|(kind, params)| (*kind, values(params))).collect();
    let (mut out, mut done) = (Vec::new(), Counted::default());
    none(1, || {
        out.clear();
        for ((kind, params), ticket) in ops.iter().zip(0..) {
            session.start(Ticket(ticket), &Op::new(*kind, params.values()), &mut out);
        }
        assert_eq!(session.feed(answers, &mut Vec::new(), &mut done), answers.len());
    });
    done.0.map(|count| count / (ROUNDS + 1))
}
