//! Once warm, an operation allocates nothing.

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;

use plimsoll_core::{Answer, Done, Op, Outcome, Ticket, Value, ValueBuf, WireSession};

use crate::fixture::{GET, HEAD, LOOK, NUMBERED, PUT, ready};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is handed on to the system's allocator as it is; the counter is a thread's own and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(memory) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, memory: Memory) {
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(pointer, memory) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Counted(u64);

impl Done for Counted {
    fn push(&mut self, _: Ticket, outcome: Outcome, _: &Answer) {
        self.0 += u64::from(outcome != Outcome::Unknown);
    }
}

#[test]
fn operations_in_a_pipeline_allocate_nothing() {
    let mut session = ready();
    let (mut params, mut out, mut done) = (ValueBuf::new(), Vec::new(), Counted(0));
    let answers = b"HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Length: 3\r\n\r\nabc\
        HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
        HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n\
        HTTP/1.1 409 Conflict\r\nContent-Length: 1\r\n\r\nx\
        HTTP/1.1 404 None\r\nContent-Length: 1\r\n\r\nx";
    let mut round = || {
        out.clear();
        for (ticket, kind) in (0..).zip([GET, LOOK, HEAD, PUT, NUMBERED]) {
            params.clear();
            params.push(if kind == NUMBERED { Value::Int(-1234) } else { Value::Text("/a b") });
            params.push(Value::Bytes(b"value"));
            session.start(Ticket(ticket), &Op::new(kind, params.values()), &mut out);
        }
        session.feed(answers, &mut Vec::new(), &mut done)
    };
    assert_eq!(round(), answers.len());
    let before = COUNT.get();
    for _ in 0..1_000 {
        round();
    }
    assert_eq!(COUNT.get() - before, 0);
    assert_eq!(done.0, 5 * 1_001);
}
