//! Counts what each thread allocates, and proves that operations allocate nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use plimsoll_core::{Answer, Observer, Op, Outcome, Ticket};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is being torn down has no counter any more, and nobody asks for it.
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

/// Watches a worker's thread from operation `from` to operation `to`.
pub struct AllocationWatch {
    pub from: u64,
    pub to: u64,
    seen: u64,
    at_from: u64,
    /// Allocations and releases in between, once they are known; `u64::MAX` before.
    pub found: Arc<AtomicU64>,
}

impl AllocationWatch {
    pub fn between(from: u64, to: u64) -> (Box<dyn Observer>, Arc<AtomicU64>) {
        let found = Arc::new(AtomicU64::new(u64::MAX));
        (Box::new(Self { from, to, seen: 0, at_from: 0, found: found.clone() }), found)
    }
}

impl Observer for AllocationWatch {
    fn sent(&mut self, _: Ticket, _: u64, _: u32, _: u64, _: &Op<'_>) {}

    fn finished(&mut self, _: Ticket, _: u64, _: Outcome, _: &Answer) {
        self.seen += 1;
        if self.seen == self.from {
            self.at_from = ALLOCATIONS.get();
        } else if self.seen == self.to {
            self.found.store(ALLOCATIONS.get() - self.at_from, SeqCst);
        }
    }
}

#[test]
fn the_counter_counts() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(vec![1u8; 100]));
    assert_eq!(ALLOCATIONS.get() - before, 2);
}
