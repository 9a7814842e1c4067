//! Counts what each thread allocates, and proves that operations on a session allocate nothing.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use plimsoll_core::{
    Answer, CompletionSink, IndexMode, Op, OpKind, Outcome, Ticket, Value, ValueType, WireSession, WireState,
};
use plimsoll_store_mariadb::wire::{Login, MySession};
use plimsoll_testkit::allocations::{Counting, count};

use crate::fixture::{Server, TIMEOUT, create, layout, login, sql, values};
use crate::records::{GET, INSERT, record};

#[global_allocator]
static COUNTING: Counting = Counting;

struct Finished(Option<Outcome>);

impl CompletionSink for Finished {
    fn push(&mut self, _: Ticket, outcome: Outcome, _: &Answer) {
        self.0 = Some(outcome);
    }
}

#[test]
fn an_operation_allocates_nothing() {
    let server = Server::start();
    let layout = layout(IndexMode::Own);
    create(&mut server.control(), &layout);
    let login = Login { database: Some(server.database.clone()), ..login("root", None) };
    let mut session = MySession::new(Arc::new(login), Arc::new(layout), Vec::new());
    let mut kinds = crate::records::kinds();
    kinds.push(sql("select", "SELECT code, made, ratio FROM items WHERE code = $1 OR $1 = 'x'", &[ValueType::Text]));
    kinds.push(OpKind { call: plimsoll_core::Call::SqlText, ..sql("text", "", &[ValueType::Text]) });
    let mut socket = UnixStream::connect(server.socket()).expect("connected");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let (mut out, mut input, mut buffer) = (Vec::with_capacity(1 << 16), Vec::with_capacity(1 << 16), vec![0; 1 << 16]);
    let mut turn = |session: &mut MySession, out: &mut Vec<u8>, done: &mut Finished| {
        socket.write_all(out).expect("sent");
        out.clear();
        let count = socket.read(&mut buffer).expect("an answer in time");
        assert!(count > 0, "the server closed the connection: {:?}", session.state());
        input.extend_from_slice(&buffer[..count]);
        let used = session.feed(&input, out, done);
        input.drain(..used);
    };
    session.open(&kinds, &mut out);
    while *session.state() == WireState::Opening {
        turn(&mut session, &mut out, &mut Finished(None));
    }
    let batch: Vec<Value<'_>> = ["a", "b", "c"].iter().flat_map(|code| record(code, Some(1))).collect();
    // The batch is in its second round refused, and rolled back.
    let ops = [
        (INSERT, values(&batch), [Outcome::Ok, Outcome::Rejected]),
        (GET, values(&[Value::Text("a")]), [Outcome::Ok; 2]),
        (2, values(&[Value::Text("a"), Value::Null, Value::Bytes(b"x")]), [Outcome::Ok; 2]),
        (5, values(&[Value::Int(0), Value::Null]), [Outcome::Ok; 2]),
        (9, values(&[Value::Text("a")]), [Outcome::Ok; 2]),
        (10, values(&[Value::Text("SELECT * FROM items")]), [Outcome::Ok; 2]),
    ];
    let mut run = |round: usize| {
        for (kind, params, expected) in &ops {
            let mut done = Finished(None);
            session.start(Ticket(0), &Op::new(*kind, params.values()), &mut out);
            while done.0.is_none() {
                turn(&mut session, &mut out, &mut done);
            }
            assert_eq!(done.0, Some(expected[round.min(1)]), "kind {kind} in round {round}");
        }
    };
    // Buffers grow in the first rounds.
    run(0);
    run(1);
    let before = count();
    (2..102).for_each(&mut run);
    // What is refused makes words of the server's, three pieces of text each time.
    let refused = 100 * 4;
    let allocated = count() - before;
    assert!(allocated <= refused, "{allocated} allocations in 600 operations, 100 of them refused");
}
