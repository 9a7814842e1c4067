//! Once warm, an operation allocates nothing.

use plimsoll_core::{Answer, CompletionSink, Op, Outcome, Ticket, Value, ValueBuf, WireSession};
use plimsoll_testkit::allocations::{Counting, count};

use crate::fixture::{DELETE, GET, LOOK, NUMBERED, OWN, PUT, SCAN, ready_for_own};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Counted(u64);

impl CompletionSink for Counted {
    fn push(&mut self, _: Ticket, outcome: Outcome, _: &Answer) {
        self.0 += u64::from(outcome == Outcome::Ok);
    }
}

#[test]
fn operations_in_a_pipeline_allocate_nothing() {
    let mut session = ready_for_own();
    let (mut params, mut out, mut done) = (ValueBuf::new(), Vec::new(), Counted(0));
    let replies = b"$3\r\nabc\r\n$3\r\nabc\r\n:1\r\n+OK\r\n+OK\r\n*2\r\n:1\r\n$1\r\na\r\n+PONG\r\n";
    let mut round = || {
        out.clear();
        for (ticket, kind) in (0..).zip([GET, LOOK, DELETE, PUT, NUMBERED, OWN, SCAN]) {
            params.clear();
            params.push(if matches!(kind, NUMBERED | OWN) { Value::Int(-1234) } else { Value::Bytes(b"key") });
            params.push(Value::Text("value"));
            session.start(Ticket(ticket), &Op::new(kind, params.values()), &mut out);
        }
        session.feed(replies, &mut Vec::new(), &mut done)
    };
    assert_eq!(round(), replies.len());
    let before = count();
    for _ in 0..1_000 {
        round();
    }
    assert_eq!(count() - before, 0);
    assert_eq!(done.0, 6 * 1_001);
}
