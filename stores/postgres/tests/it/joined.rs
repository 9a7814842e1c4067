//! Reads of several clients under one Sync: what they come to is what they come to alone.

use plimsoll_core::{Answer, Durability, IndexMode, OpKind, Outcome, Value, ValueType};

use crate::fixture::{Server, SqlServer as _, Wire, layout, sql};

#[test]
fn reads_and_their_syncs() {
    plimsoll_testkit::steps!(
        reads_that_go_out_together_end_in_one_sync,
        a_read_that_fails_leaves_its_neighbours_as_they_would_be_alone,
        a_write_shares_no_sync_and_stands_whatever_its_neighbours_come_to,
    );
}

const READ: u16 = 0;
const DIVIDE: u16 = 1;
const ADD: u16 = 2;
const KEPT: u16 = 3;

fn kinds() -> Vec<OpKind> {
    let unkept = |kind: OpKind| OpKind { keep_answer: false, ..kind };
    vec![
        unkept(sql("read", "SELECT code FROM items WHERE code = $1", &[ValueType::Text])),
        unkept(sql("divide", "SELECT 1 / $1::int", &[ValueType::Int])),
        sql("add", "INSERT INTO items (code, count) VALUES ($1, $2)", &[ValueType::Text, ValueType::Int]),
        sql("kept", "SELECT count(*) FROM items", &[]),
    ]
}

/// A session over two records, `a` and `b`.
fn open(server: &Server) -> Wire {
    let mut store = server.attach("postgres").open().expect("attached");
    store.create(&layout(IndexMode::None)).expect("created");
    let mut wire = plimsoll_testkit::sql::wire(&mut *store, Durability::Durable, &kinds());
    std::mem::forget(store);
    for code in ["a", "b"] {
        assert_eq!(wire.ask(ADD, &[Value::Text(code), Value::Int(1)]).0, Outcome::Ok);
    }
    wire
}

/// Syncs in what was sent last.
fn syncs(wire: &Wire) -> usize {
    wire.sent().windows(5).filter(|bytes| *bytes == b"S\0\0\0\x04").count()
}

/// Tickets in the order of operations, with what each came to.
fn by_ticket(mut answers: Vec<(u32, Outcome, Answer)>) -> Vec<(Outcome, u64, String)> {
    answers.sort_by_key(|(ticket, ..)| *ticket);
    answers.into_iter().map(|(_, outcome, answer)| (outcome, answer.rows, answer.code)).collect()
}

fn ok(rows: u64) -> (Outcome, u64, String) {
    (Outcome::Ok, rows, String::new())
}

fn reads_that_go_out_together_end_in_one_sync() {
    let server = Server::start();
    let mut wire = open(&server);
    let words = [[Value::Text("a")], [Value::Text("-")], [Value::Text("b")]];
    let reads: Vec<_> = words.iter().map(|word| (READ, &word[..], true)).collect();
    for _ in 0..3 {
        assert_eq!(by_ticket(wire.pipeline(&reads)), [ok(1), ok(0), ok(1)]);
        assert_eq!(syncs(&wire), 1);
    }
    // One that ends it by itself, one alone, and one whose answer is kept.
    assert_eq!(by_ticket(wire.pipeline(&[reads[0], (READ, &words[1], false)])), [ok(1), ok(0)]);
    assert_eq!(syncs(&wire), 1);
    assert_eq!(by_ticket(wire.pipeline(&reads[..1])), [ok(1)]);
    assert_eq!(syncs(&wire), 1);
    let kept = wire.pipeline(&[reads[0], (KEPT, &[], true), reads[2]]);
    assert_eq!(kept[1].2.values.values().get(0), Value::Int(2));
    assert_eq!(syncs(&wire), 3, "what is kept has a Sync of its own, and so have those on both sides of it");
}

fn a_read_that_fails_leaves_its_neighbours_as_they_would_be_alone() {
    let server = Server::start();
    let mut wire = open(&server);
    let by = [[Value::Int(1)], [Value::Int(0)]];
    let failed = || (Outcome::Rejected, 0, "22012".to_owned());
    for zero in 0..4 {
        let params: Vec<&[Value<'_>]> = (0..4).map(|at| &by[usize::from(at == zero)][..]).collect();
        let ops: Vec<_> = params.iter().map(|params| (DIVIDE, *params, true)).collect();
        let expected: Vec<_> = (0..4).map(|at| if at == zero { failed() } else { ok(1) }).collect();
        assert_eq!(by_ticket(wire.pipeline(&ops)), expected);
        assert_eq!(syncs(&wire), 4, "one together, and one for each that was asked again");
    }
    // Nothing is left over: the next ones share a Sync again, and more than one may fail.
    let ops = [(DIVIDE, &by[1][..], true), (DIVIDE, &by[0][..], true), (DIVIDE, &by[1][..], true)];
    assert_eq!(by_ticket(wire.pipeline(&ops)), [failed(), ok(1), failed()]);
    assert_eq!(by_ticket(wire.pipeline(&[ops[1], ops[1]])), [ok(1), ok(1)]);
}

fn a_write_shares_no_sync_and_stands_whatever_its_neighbours_come_to() {
    let server = Server::start();
    let mut wire = open(&server);
    let (c, d) = ([Value::Text("c"), Value::Int(1)], [Value::Text("d"), Value::Int(1)]);
    let (zero, a) = ([Value::Int(0)], [Value::Text("a")]);
    let ops: [(u16, &[Value<'_>], bool); 7] = [
        (READ, &a, true),
        (ADD, &c, true),
        (DIVIDE, &zero, true),
        (READ, &a, true),
        (ADD, &c, true),
        (ADD, &d, true),
        (READ, &a, true),
    ];
    let refused = |code: &str| (Outcome::Rejected, 0, code.to_owned());
    let expected = [ok(1), ok(0), refused("22012"), ok(1), refused("23505"), ok(0), ok(1)];
    assert_eq!(by_ticket(wire.pipeline(&ops)), expected);
    let (_, answer) = wire.ask(KEPT, &[]);
    assert_eq!(answer.values.values().get(0), Value::Int(4), "a, b, c, d");
}
