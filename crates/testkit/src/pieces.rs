//! Sessions without a socket: operations that are started, and bytes that arrive in pieces.

use std::collections::BTreeMap;

use plimsoll_core::{Answer, CompletionSink, Op, Outcome, Ticket, Value, WireSession, WireState};

use crate::wire::values;

/// Keeps what `of` makes of each answer, in order.
pub struct Kept<T> {
    /// Kept values.
    pub all: Vec<T>,
    of: fn(u32, Outcome, &Answer) -> T,
}

impl<T> Kept<T> {
    /// Returns a sink that has kept nothing.
    pub fn new(of: fn(u32, Outcome, &Answer) -> T) -> Self {
        Self { all: Vec::new(), of }
    }
}

impl<T> CompletionSink for Kept<T> {
    fn push(&mut self, ticket: Ticket, outcome: Outcome, answer: &Answer) {
        self.all.push((self.of)(ticket.0, outcome, answer));
    }
}

/// Outcome and answer of each ticket, as text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seen(pub BTreeMap<u32, String>);

impl CompletionSink for Seen {
    fn push(&mut self, ticket: Ticket, outcome: Outcome, answer: &Answer) {
        let rows: Vec<Vec<Value<'_>>> = answer.row_iter().map(|row| row.iter().collect()).collect();
        let text = format!("{outcome:?} {} {} {} {rows:?}", answer.rows, answer.code, answer.message);
        assert_eq!(self.0.insert(ticket.0, text), None, "ticket {ticket:?} was finished twice");
    }
}

/// Puts off the operations that a server does not begin, and keeps their tickets and the server's codes; and the
/// outcomes of the others.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PuttingOff {
    /// Tickets of operations that are to be sent again, and codes of their refusals.
    pub put_off: Vec<(u32, String)>,
    /// Tickets and outcomes of the others.
    pub finished: Vec<(u32, Outcome)>,
}

impl CompletionSink for PuttingOff {
    fn push(&mut self, ticket: Ticket, outcome: Outcome, _: &Answer) {
        self.finished.push((ticket.0, outcome));
    }

    fn put_off(&mut self, ticket: Ticket, refusal: &Answer) -> bool {
        self.put_off.push((ticket.0, refusal.code.clone()));
        true
    }
}

/// Counts finished operations by outcome, and keeps nothing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counted(pub [u64; 4]);

impl CompletionSink for Counted {
    fn push(&mut self, _: Ticket, outcome: Outcome, _: &Answer) {
        self.0[outcome as usize] += 1;
    }
}

/// Starts operations of these kinds, with the same parameters and tickets from 0. Returns the bytes to send.
pub fn start(session: &mut dyn WireSession, kinds: &[u16], params: &[Value<'_>]) -> Vec<u8> {
    let (params, mut out) = (values(params), Vec::new());
    for (ticket, kind) in (0..).zip(kinds) {
        session.start(Ticket(ticket), &Op::new(*kind, params.values()), &mut out);
    }
    out
}

/// Feeds `bytes` in pieces of these lengths, again and again, as an executor does. Returns the bytes to send, and the
/// number of bytes that were left unused.
pub fn fed(
    session: &mut dyn WireSession,
    bytes: &[u8],
    pieces: &[usize],
    done: &mut dyn CompletionSink,
) -> (Vec<u8>, usize) {
    let (mut input, mut out, mut rest) = (Vec::new(), Vec::new(), bytes);
    for piece in pieces.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (next, after) = rest.split_at((*piece).clamp(1, rest.len()));
        rest = after;
        input.extend_from_slice(next);
        let used = session.feed(&input, &mut out, done);
        assert!(used <= input.len(), "{used} bytes of {} were used", input.len());
        input.drain(..used);
    }
    (out, input.len())
}

/// Returns the error of a session that refused what it was fed.
///
/// # Panics
/// If the session goes on.
pub fn failure(session: &dyn WireSession) -> plimsoll_core::StoreError {
    match session.state() {
        WireState::Failed(error) => error.clone(),
        state => panic!("the session is {state:?}"),
    }
}
