//! Once warm, an operation allocates nothing.

use plimsoll_core::{Answer, CompletionSink, Op, Outcome, Ticket, Value, ValueBuf, WireSession};
use plimsoll_testkit::allocations::{Counting, count};

use crate::fixture::{ADD, COMPARE, DELETE, LOOK, entry, ready, result};

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
    // The last first, so that the next round has the same numbers again.
    let answers: Vec<u8> = [
        result(5, 0x65, 51),
        result(4, 0x69, 0),
        entry(1),
        result(3, 0x6b, 32),
        result(2, 0x6f, 6),
        entry(1),
        result(1, 0x65, 0),
    ]
    .concat();
    let mut round = || {
        out.clear();
        for (ticket, kind) in (0..).zip([LOOK, COMPARE, DELETE, ADD, LOOK]) {
            params.clear();
            params.push(Value::Int(-1234));
            params.push(Value::Text("a,b"));
            session.start(Ticket(ticket), &Op::new(kind, params.values()), &mut out);
        }
        session.feed(&answers, &mut Vec::new(), &mut done)
    };
    assert_eq!(round(), answers.len());
    let before = count();
    for _ in 0..1_000 {
        round();
    }
    assert_eq!(count() - before, 0);
    assert_eq!(done.0, 5 * 1_001);
}
