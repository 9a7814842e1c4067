//! A blocking connection for the control plane: the same [`MySession`] that the drive loop runs, over a socket of its
//! own.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use plimsoll_core::{Address, Answer, Done, Layout, OpKind, StoreError, StoreErrorKind, Ticket, Waits};
use plimsoll_endpoint::{Channel, Connected, TextSession};

use crate::wire::{Login, MySession, kind_of_number};

/// A connection whose calls return when they are done.
pub struct Connection(plimsoll_endpoint::Connection<MySession>);

impl Connection {
    /// Connects, logs in, runs `settings` and prepares `kinds`. `waits` say how long the server may be silent, then and
    /// afterwards ([`plimsoll_endpoint::Connection::set_waits`]).
    ///
    /// # Errors
    /// Nobody there, no TLS with it, a refused login or statement.
    pub fn open(
        address: &Address,
        login: Arc<Login>,
        layout: Arc<Layout>,
        settings: &[String],
        kinds: &[OpKind],
        waits: impl Into<Waits>,
    ) -> Result<Connection, StoreError> {
        let channel = Channel::connect(address, &login.place, waits)?;
        let session = MySession::new(login, layout, settings.to_vec());
        let mut connection = plimsoll_endpoint::Connection::new(channel, session);
        connection.open(kinds)?;
        Ok(Connection(connection))
    }
}

impl Connected for Connection {
    fn is_alive(&mut self) -> bool {
        self.is_still_ready()
    }
}

impl Deref for Connection {
    type Target = plimsoll_endpoint::Connection<MySession>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl TextSession for MySession {
    fn start_text(&mut self, ticket: Ticket, text: &str, out: &mut Vec<u8>) {
        self.start_simple(ticket, text, out);
    }

    fn is_asked(&self) -> bool {
        self.is_in_flight()
    }

    fn fail(&mut self, error: StoreError, done: &mut dyn Done) {
        self.end(error, done);
    }

    /// Classed by its number.
    fn rejected(place: &str, answer: &Answer) -> StoreError {
        let state = answer.message.get(..5).filter(|_| answer.message.get(5..7) == Some(": ")).unwrap_or_default();
        let kind = match kind_of_number(answer.code.parse().unwrap_or(0), state.as_bytes()) {
            // Statements here are ours: that one is wrong is no mistake of the user's.
            StoreErrorKind::Usage => StoreErrorKind::Store,
            kind => kind,
        };
        StoreError::new(kind, format!("{place} says: {}", answer.message)).detail(answer.code.clone())
    }
}
