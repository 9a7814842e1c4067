//! Bytes in pieces have the effect of the whole, and no bytes can hurt.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use plimsoll_core::{
    Address, Call, IndexMode, Layout, Op, OpKind, Outcome, Ticket, Value, ValueBuf, ValueType, WireSession, WireState,
};

use super::SqlServer;
use crate::draw::{Draw, repeats};
use crate::pieces::{Seen, failure, fed};
use crate::records::{ALL, COUNT, DELETE, FIND, GET, INSERT, NOTHING, SCAN, UPDATE, layout};
use crate::wire::{sql, values};

const TIMEOUT: Duration = Duration::from_secs(20);
const SELECT: u16 = 9;
const TEXT: u16 = 10;

fn kinds() -> Vec<OpKind> {
    let mut kinds = crate::records::kinds();
    kinds.push(sql("select", "SELECT made, body, 1.5, $1 FROM items WHERE code = $1", &[ValueType::Text]));
    kinds.push(OpKind { call: Call::SqlText, ..sql("text", "", &[ValueType::Text]) });
    kinds
}

/// Operations of every kind, among them one that is refused in the middle of its batch.
fn operations() -> Vec<(u16, ValueBuf)> {
    let record = |code, count| {
        [Value::Text(code), count, Value::Float(0.5), Value::Bool(false), Value::Bytes(b"\0"), Value::Timestamp(1)]
    };
    let batch = |codes: &[&'static str]| {
        values(&codes.iter().zip(0..).flat_map(|(code, n)| record(*code, Value::Int(n))).collect::<Vec<_>>())
    };
    vec![
        (INSERT, batch(&["a", "b", "c", "d"])),
        (GET, values(&[Value::Text("b")])),
        (INSERT, batch(&["e", "b", "f"])),
        (GET, values(&[Value::Text("e")])),
        (UPDATE, values(&[Value::Text("a"), Value::Null, Value::Bytes(&[7; 300])])),
        (DELETE, values(&[Value::Text("d")])),
        (DELETE, values(&[Value::Text("d")])),
        (SCAN, values(&[Value::Int(0), Value::Int(10)])),
        (FIND, values(&[Value::Int(1), Value::Null])),
        (ALL, values(&[])),
        (COUNT, values(&[])),
        (NOTHING, values(&[])),
        (SELECT, values(&[Value::Text("a")])),
        (TEXT, values(&[Value::Text("SELECT *, NULL FROM items")])),
        (TEXT, values(&[Value::Text("DELETE FROM items WHERE code = '-'")])),
    ]
}

/// Bytes that a server sent before the first operation, and in reply to each group of operations in flight together.
pub struct Recorded {
    layout: Layout,
    opening: Vec<u8>,
    answers: Vec<Vec<u8>>,
}

impl Recorded {
    /// Makes the tables anew and records a conversation, `chunk` bytes at a time. Returns what was seen too.
    fn new<S: SqlServer>(server: &S, chunk: usize) -> (Seen, Self) {
        let layout = layout(IndexMode::Own);
        server.control().simple("DROP TABLE IF EXISTS items").expect("dropped");
        server.create(&layout);
        let Address::Unix(path) = server.address() else { panic!("the server has a socket") };
        let mut socket = UnixStream::connect(path).expect("connected");
        socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let mut session = server.session(&layout);
        let (mut out, mut input, mut seen) = (Vec::new(), Vec::new(), Seen::default());
        session.open(&kinds(), &mut out);
        let mut turn = |session: &mut S::Session, out: &mut Vec<u8>, seen: &mut Seen, record: &mut Vec<u8>| {
            socket.write_all(out).expect("sent");
            out.clear();
            let mut buffer = vec![0; chunk];
            let count = socket.read(&mut buffer).expect("an answer in time");
            assert!(count > 0, "the server went away: {:?}", session.state());
            record.extend_from_slice(&buffer[..count]);
            input.extend_from_slice(&buffer[..count]);
            let used = session.feed(&input, out, seen);
            input.drain(..used);
        };
        let mut recorded = Self { layout, opening: Vec::new(), answers: Vec::new() };
        while *session.state() == WireState::Opening {
            turn(&mut session, &mut out, &mut seen, &mut recorded.opening);
        }
        assert_eq!(*session.state(), WireState::Ready);
        while seen.0.len() < operations().len() {
            let (mut answer, until) = (Vec::new(), start_group(&mut session, seen.0.len(), &mut out));
            while seen.0.len() < until {
                turn(&mut session, &mut out, &mut seen, &mut answer);
            }
            recorded.answers.push(answer);
        }
        (seen, recorded)
    }

    /// Records a conversation with a real server.
    pub fn of<S: SqlServer>(server: &S) -> Self {
        Self::new(server, 1 << 16).1
    }

    /// Returns a session that has heard a real opening.
    pub fn opened<S: SqlServer>(&self, server: &S) -> S::Session {
        let mut session = server.session(&self.layout);
        session.open(&kinds(), &mut Vec::new());
        fed(&mut session, &self.opening, &[usize::MAX], &mut Seen::default());
        assert_eq!(*session.state(), WireState::Ready);
        session
    }

    /// Starts each group of operations and feeds its answers, until one group stays open.
    /// Returns the number of operations that were started, and of bytes left unused.
    fn replay(
        &self,
        session: &mut impl WireSession,
        answers: &[Vec<u8>],
        pieces: &[usize],
        seen: &mut Seen,
    ) -> [usize; 2] {
        let mut started = 0;
        for answer in answers {
            started = start_group(session, seen.0.len(), &mut Vec::new());
            let (_, left) = fed(session, answer, pieces, seen);
            if seen.0.len() < started || *session.state() != WireState::Ready {
                return [started, left];
            }
        }
        [started, 0]
    }
}

/// Starts as many operations from the one at `first` as may be in flight. Returns the position of the next.
fn start_group(session: &mut impl WireSession, first: usize, out: &mut Vec<u8>) -> usize {
    let ops = operations();
    let until = ops.len().min(first + session.depth_max() as usize);
    for (at, (kind, params)) in ops.iter().enumerate().take(until).skip(first) {
        session.start(Ticket(at as u32), &Op::new(*kind, params.values()), out);
    }
    until
}

fn damaged(draw: &mut Draw, bytes: &[u8], count: u64) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    for _ in 0..count {
        let at = draw.below(bytes.len() as u64) as usize;
        damaged[at] = draw.below(256) as u8;
    }
    damaged
}

/// Feeds sessions with answers of a real server, in pieces, cut, damaged, and replaced by noise. Pieces must have the
/// effect of the whole. Nothing may panic, finish twice, or stay open in a session that failed.
///
/// # Panics
/// If anything is otherwise, or not more than `noticed` of a hundred damages end the session.
pub fn bytes_are_taken_in_pieces<S: SqlServer>(noticed: usize) {
    let server = S::start();
    let (whole, recorded) = Recorded::new(&server, 1 << 16);
    let taken = format!("Rejected 0 {}", S::DIALECT.taken.0);
    assert!(whole.0[&2].starts_with(&taken), "{}", whole.0[&2]);
    assert!(whole.0[&3].starts_with("NotFound"), "the refused batch left nothing: {}", whole.0[&3]);
    assert!(whole.0[&9].starts_with("Ok 3 "), "{}", whole.0[&9]);
    assert_eq!(Recorded::new(&server, 1).0, whole, "byte by byte from a live server");

    let mut draw = Draw::new("pieces");
    for round in 0..repeats(100, 300) {
        let pieces: Vec<usize> = (0..20).map(|_| 1 + draw.below([1, 3, 17, 200, 5_000][round % 5]) as usize).collect();
        let mut session = server.session(&recorded.layout);
        session.open(&kinds(), &mut Vec::new());
        assert_eq!(fed(&mut session, &recorded.opening, &pieces, &mut Seen::default()).1, 0);
        let mut seen = Seen::default();
        let [_, left] = recorded.replay(&mut session, &recorded.answers, &pieces, &mut seen);
        assert_eq!((&seen, left), (&whole, 0), "round {round}, {pieces:?}");
    }

    // Cut off anywhere: at one byte of four, with an offset of this commit, and in a heavy run at each.
    let step = repeats(4, 1);
    let first = draw.below(step as u64) as usize;
    for (group, answer) in recorded.answers.iter().enumerate() {
        for cut in (first..answer.len()).step_by(step) {
            let mut answers = recorded.answers[..=group].to_vec();
            answers[group].truncate(cut);
            let (mut session, mut seen) = (recorded.opened(&server), Seen::default());
            recorded.replay(&mut session, &answers, &[4_096], &mut seen);
            let as_before = seen.0.iter().all(|(ticket, text)| whole.0[ticket] == *text);
            assert!(as_before && *session.state() == WireState::Ready, "group {group}, cut at {cut}: {seen:?}");
        }
    }

    let (mut failures, rounds) = (0, repeats(1_500, 20_000));
    for round in 0..rounds {
        let mut answers = recorded.answers.clone();
        let group = draw.below(answers.len() as u64) as usize;
        let damages = 1 + draw.below(4);
        answers[group] = damaged(&mut draw, &answers[group], damages);
        let (mut session, mut seen) = (recorded.opened(&server), Seen::default());
        let [started, _] = recorded.replay(&mut session, &answers, &[1 + draw.below(1_000) as usize], &mut seen);
        if matches!(session.state(), WireState::Failed(_)) {
            failures += 1;
            assert_eq!(seen.0.len(), started, "round {round}");
        }
    }
    assert!(100 * failures > noticed * rounds, "damage is noticed: {failures} of {rounds}");

    // The opening, damaged too, and noise in the place of either.
    for _ in 0..repeats(500, 20_000) {
        let noise: Vec<u8> = (0..draw.below(200)).map(|_| draw.below(256) as u8).collect();
        for bytes in [&damaged(&mut draw, &recorded.opening, 1), &noise] {
            let mut session = server.session(&recorded.layout);
            session.open(&kinds(), &mut Vec::new());
            fed(&mut session, bytes, &[1_000], &mut Seen::default());
        }
        recorded.replay(&mut recorded.opened(&server), &[noise], &[50], &mut Seen::default());
    }
}

/// Feeds `head`, the beginning of an answer of `bytes`, to a session that keeps 1,000 bytes: it must refuse at once.
///
/// # Panics
/// If it is not.
pub fn refuses_a_larger_answer<S: SqlServer>(server: &S, recorded: &Recorded, head: &[u8], bytes: usize) {
    let mut session = recorded.opened(server);
    session.limit_answers(1_000);
    let (params, mut seen) = (values(&[]), Seen::default());
    session.start(Ticket(0), &Op::new(ALL, params.values()), &mut Vec::new());
    session.feed(head, &mut Vec::new(), &mut seen);
    assert!(seen.0[&0].starts_with(&format!("{:?} 0", Outcome::Unknown)), "{}", seen.0[&0]);
    let words = format!("answers with {bytes} bytes, and at most 1000 are kept of an answer (--answer-max)");
    assert!(failure(&session).to_string().contains(&words), "{}", failure(&session));
}
