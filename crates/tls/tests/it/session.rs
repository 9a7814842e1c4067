//! TLS around a session: what it asks and what it is told are the same as without.

use plimsoll_core::{
    Answer, CompletionSink, Op, OpKind, Outcome, StoreErrorKind, Ticket, Values, WireSession, WireState,
};
use plimsoll_tls::{Roots, TlsClient, TlsOptions, TlsSession};

use crate::fixture::{Authority, serve, server};

/// Greets with `hello`, is ready when it comes back, and asks one byte an operation.
struct Echo {
    state: WireState,
}

impl WireSession for Echo {
    fn open(&mut self, _: &[OpKind], out: &mut Vec<u8>) {
        self.state = WireState::Opening;
        out.extend_from_slice(b"hello");
    }

    fn state(&self) -> &WireState {
        &self.state
    }

    fn limit_answers(&mut self, _: usize) {}

    fn depth_max(&self) -> u32 {
        8
    }

    fn start(&mut self, ticket: Ticket, _: &Op<'_>, out: &mut Vec<u8>) {
        out.push(ticket.0 as u8);
    }

    fn feed(&mut self, bytes: &[u8], _: &mut Vec<u8>, done: &mut dyn CompletionSink) -> usize {
        if self.state == WireState::Opening {
            if bytes.len() < 5 {
                return 0;
            }
            assert_eq!(&bytes[..5], b"hello");
            self.state = WireState::Ready;
            return 5;
        }
        for byte in bytes {
            done.push(Ticket((*byte).into()), Outcome::Ok, &Answer::default());
        }
        bytes.len()
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"bye");
    }
}

#[derive(Default)]
struct Tickets(Vec<u32>);

impl CompletionSink for Tickets {
    fn push(&mut self, ticket: Ticket, _: Outcome, _: &Answer) {
        self.0.push(ticket.0);
    }
}

#[test]
fn a_session_works_inside_tls_and_again_after_it_was_lost() {
    let authority = Authority::default();
    let pair = authority.sign("db.example");
    let client = TlsClient::new(&TlsOptions { roots: Roots::File(authority.root()), ..TlsOptions::default() }).unwrap();
    let echo = Echo { state: WireState::Opening };
    let mut session = TlsSession::new(echo, client, "db.example", "test://server").unwrap();
    for _ in 0..2 {
        let mut server = server(&pair, None, |_| {});
        let (mut out, mut understood, mut done) = (Vec::new(), Vec::new(), Tickets::default());
        session.open(&[], &mut out);
        while *session.state() == WireState::Opening {
            let answer = serve(&mut server, &std::mem::take(&mut out), &mut understood);
            for piece in answer.chunks(3) {
                assert_eq!(session.feed(piece, &mut out, &mut done), piece.len());
            }
        }
        assert_eq!(*session.state(), WireState::Ready);
        for number in 1..=3 {
            session.start(Ticket(number), &Op::new(0, Values::default()), &mut out);
        }
        let answer = serve(&mut server, &std::mem::take(&mut out), &mut understood);
        session.feed(&answer, &mut out, &mut done);
        assert_eq!(done.0, [1, 2, 3]);
        session.close(&mut out);
        serve(&mut server, &out, &mut understood);
        assert_eq!(understood, b"hello\x01\x02\x03bye");
    }
}

#[test]
fn a_session_fails_when_tls_does() {
    let (ours, other) = (Authority::default(), Authority::default());
    let pair = other.sign("db.example");
    let client = TlsClient::new(&TlsOptions { roots: Roots::File(ours.root()), ..TlsOptions::default() }).unwrap();
    let mut session =
        TlsSession::new(Echo { state: WireState::Opening }, client, "db.example", "test://server").unwrap();
    let (mut out, mut understood) = (Vec::new(), Vec::new());
    session.open(&[], &mut out);
    let answer = serve(&mut server(&pair, None, |_| {}), &out, &mut understood);
    out.clear();
    session.feed(&answer, &mut out, &mut Tickets::default());
    let WireState::Failed(error) = session.state() else { panic!("{:?}", session.state()) };
    assert_eq!(error.kind, StoreErrorKind::Authentication);
    assert!(!out.is_empty(), "the server is told why");
}
