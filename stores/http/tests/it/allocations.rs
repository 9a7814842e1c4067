//! Once warm, an operation allocates nothing.

use plimsoll_core::{Answer, CompletionSink, Op, Outcome, Ticket, Value, ValueBuf, WireSession};
use plimsoll_testkit::allocations::{Counting, count};

use crate::fixture::{GET, HEAD, LOOK, NUMBERED, PUT, ready};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Counted(u64);

impl CompletionSink for Counted {
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
    let before = count();
    for _ in 0..1_000 {
        round();
    }
    assert_eq!(count() - before, 0);
    assert_eq!(done.0, 5 * 1_001);
}
