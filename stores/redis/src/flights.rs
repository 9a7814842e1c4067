//! Operations on a cluster that have not been answered, and what answers make of them.

use plimsoll_core::{Answer, CompletionSink, Op, Outcome, Ticket, Value, ValueBuf};

use crate::slots::{self, Redirection};

/// Most redirections of an operation. With more the nodes of the cluster do not agree.
const REDIRECTIONS_MAX: u8 = 16;
/// The ticket of the question for the map.
pub(crate) const MAP: Ticket = Ticket(u32::MAX);

/// An operation that has not been answered.
pub(crate) struct Flight {
    ticket: Ticket,
    pub kind: u16,
    pub slot: u16,
    /// The node that has it, by its place.
    pub node: u16,
    pub is_sent: bool,
    /// ASK has sent it where it is.
    pub asks: bool,
    redirections: u8,
    pub is_free: bool,
    pub params: ValueBuf,
}

/// All of a session. Their memory is used again.
#[derive(Default)]
pub(crate) struct Flights {
    pub all: Vec<Flight>,
    free: Vec<u32>,
    /// Operations to be asked at another node.
    pub elsewhere: Vec<(u32, Redirection)>,
}

impl Flights {
    pub fn clear(&mut self) {
        self.all.clear();
        self.free.clear();
        self.elsewhere.clear();
    }

    /// Keeps a copy of an operation; returns its place.
    #[inline]
    pub fn start(&mut self, ticket: Ticket, op: &Op<'_>, slot: u16) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            let (kind, node, redirections) = (0, 0, 0);
            let (is_sent, asks, is_free, params) = (false, false, true, ValueBuf::new());
            self.all.push(Flight { ticket, kind, slot, node, is_sent, asks, redirections, is_free, params });
            self.all.len() as u32 - 1
        });
        let flight = &mut self.all[index as usize];
        flight.params.clear();
        flight.params.extend(op.params);
        (flight.ticket, flight.kind, flight.slot) = (ticket, op.kind, slot);
        (flight.is_free, flight.asks, flight.redirections) = (false, false, 0);
        index
    }

    /// The one at this place is over; its ticket.
    #[inline]
    pub fn land(&mut self, index: u32) -> Ticket {
        let flight = &mut self.all[index as usize];
        flight.is_free = true;
        self.free.push(index);
        flight.ticket
    }
}

/// Takes a node's answers for what they are: answers, redirections, or the map.
pub(crate) struct Relay<'a> {
    pub flights: &'a mut Flights,
    pub map: Option<Vec<u8>>,
    pub map_failed: bool,
    pub ops: u32,
    pub done: &'a mut dyn CompletionSink,
}

impl CompletionSink for Relay<'_> {
    #[inline]
    fn push(&mut self, ticket: Ticket, outcome: Outcome, answer: &Answer) {
        if ticket == MAP {
            match (outcome, answer.values.values().get(0)) {
                (Outcome::Ok, Value::Bytes(bytes)) => self.map = Some(bytes.to_vec()),
                _ => self.map_failed = true,
            }
            return;
        }
        let flight = self.flights.all.get_mut(ticket.0 as usize).filter(|flight| !flight.is_free);
        let Some(flight) = flight else { return };
        if outcome == Outcome::Rejected
            && flight.redirections < REDIRECTIONS_MAX
            && let Some(redirection) = slots::redirection(&answer.message)
        {
            flight.redirections += 1;
            self.flights.elsewhere.push((ticket.0, redirection));
            return;
        }
        self.ops += 1;
        self.done.push(self.flights.land(ticket.0), outcome, answer);
    }
}
