//! Counts what each thread allocates, and proves that operations on a session allocate nothing.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use plimsoll_core::{IndexMode, Op, OpKind, Outcome, Ticket, Value, ValueType, WireSession, WireState};
use plimsoll_store_mariadb::wire::MySession;
use plimsoll_testkit::allocations::{Counting, count};
use plimsoll_testkit::pieces::Counted;
use plimsoll_testkit::records::{GET, INSERT, kinds, record};
use plimsoll_testkit::wire::values;

use crate::fixture::{Server, SqlServer as _, TIMEOUT, layout, sql};

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn an_operation_allocates_nothing() {
    let server = Server::start();
    let layout = layout(IndexMode::Own);
    server.create(&layout);
    let mut session = server.session(&layout);
    let mut kinds = kinds();
    kinds.push(sql("select", "SELECT code, made, ratio FROM items WHERE code = $1 OR $1 = 'x'", &[ValueType::Text]));
    kinds.push(OpKind { call: plimsoll_core::Call::SqlText, ..sql("text", "", &[ValueType::Text]) });
    let mut socket = UnixStream::connect(server.socket()).expect("connected");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let (mut out, mut input, mut buffer) = (Vec::with_capacity(1 << 16), Vec::with_capacity(1 << 16), vec![0; 1 << 16]);
    let mut turn = |session: &mut MySession, out: &mut Vec<u8>, done: &mut Counted| {
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
        turn(&mut session, &mut out, &mut Counted::default());
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
            let mut done = Counted::default();
            session.start(Ticket(0), &Op::new(*kind, params.values()), &mut out);
            while done == Counted::default() {
                turn(&mut session, &mut out, &mut done);
            }
            assert_eq!(done.0[expected[round.min(1)] as usize], 1, "kind {kind} in round {round}");
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
