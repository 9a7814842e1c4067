//! One look at a server, for everything that is not measured: whether it is there, and what it calls itself.

use std::sync::Arc;

use plimsoll_core::{Answer, Done, Durability, Outcome, StoreError, Ticket, Waits, WireSession, WireState};

use crate::endpoint::Endpoint;
use crate::wire::HttpSession;

/// Nobody is told of operations, as none is asked.
struct Nobody;

impl Done for Nobody {
    fn push(&mut self, _: Ticket, _: Outcome, _: &Answer) {}
}

/// Opens a session as a client does and closes it: what the server calls itself, empty when it does not say. Every
/// single wait is bounded by `waits`.
///
/// # Errors
/// `Unreachable` when nobody listens or answers; `Authentication`, `Usage` and `Broken` as a session says.
pub fn look(endpoint: &Endpoint, waits: impl Into<Waits>) -> Result<String, StoreError> {
    greeted(endpoint, waits).map(|session| session.server())
}

/// A session whose first question has been answered. Its connection is closed.
pub(crate) fn greeted(endpoint: &Endpoint, waits: impl Into<Waits>) -> Result<HttpSession, StoreError> {
    let mut channel = endpoint.connect(&endpoint.login.place, waits)?;
    let mut session = HttpSession::new(Arc::new(endpoint.login.clone()), Durability::AtEnd);
    channel.write(|out| session.open(&[], out));
    loop {
        channel.turn(&mut |bytes, out| session.feed(bytes, out, &mut Nobody))?;
        match session.state() {
            WireState::Ready | WireState::Ended => return Ok(session),
            WireState::Failed(error) => return Err(error.clone()),
            WireState::Opening => {}
        }
    }
}
