//! A blocking connection for the control plane and for key-value sessions: the same [`PgSession`] that the
//! drive loop runs, over a socket of its own.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use plimsoll_core::{Answer, Done, Layout, OpKind, StoreError, StoreErrorKind, Ticket, Waits};
use plimsoll_endpoint::{Channel, Connected, TextSession};

use crate::reach::Endpoint;
use crate::wire::{PgSession, Secured, Transaction};

/// A connection whose calls return when they are done.
pub struct Connection(plimsoll_endpoint::Connection<Secured>);

/// Why there is no connection.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    pub(crate) error: StoreError,
    /// It was TLS that failed.
    pub(crate) in_tls: bool,
}

impl Connection {
    /// Connects, logs in, runs `settings` and prepares `kinds`. `waits` say how long the server may be silent, then and
    /// afterwards ([`plimsoll_endpoint::Connection::set_waits`]).
    ///
    /// # Errors
    /// Nobody there, no TLS with it, a refused login or statement.
    pub fn open(
        endpoint: &Endpoint,
        layout: Arc<Layout>,
        settings: &str,
        kinds: &[OpKind],
        waits: impl Into<Waits>,
    ) -> Result<Connection, StoreError> {
        Self::try_open(endpoint, layout, settings, kinds, waits).map_err(|refused| refused.error)
    }

    pub(crate) fn try_open(
        endpoint: &Endpoint,
        layout: Arc<Layout>,
        settings: &str,
        kinds: &[OpKind],
        waits: impl Into<Waits>,
    ) -> Result<Connection, Refused> {
        let place = &endpoint.login.place;
        let channel = Channel::connect(&endpoint.address, place, waits);
        let channel = channel.map_err(|error| Refused { error, in_tls: false })?;
        let session = PgSession::new(Arc::clone(&endpoint.login), layout, settings);
        let session = Secured::new(session, endpoint.security.clone(), place);
        let mut connection = plimsoll_endpoint::Connection::new(channel, session);
        match connection.open(kinds) {
            Ok(()) => Ok(Connection(connection)),
            Err(mut error) => {
                if error.kind == StoreErrorKind::Unreachable && endpoint.security.is_direct() {
                    error.next =
                        Some("Leave sslnegotiation=direct out: servers before PostgreSQL 17 do not know it.".into());
                }
                Err(Refused { error, in_tls: connection.session().tls_failed() })
            }
        }
    }

    /// Version and cipher suite, when it is encrypted.
    pub fn tls(&self) -> Option<String> {
        self.session().agreed()
    }

    /// Where its transaction stands.
    pub fn transaction(&self) -> Transaction {
        self.session().inner().transaction()
    }
}

impl Connected for Connection {
    fn is_alive(&mut self) -> bool {
        self.is_still_ready()
    }
}

impl Deref for Connection {
    type Target = plimsoll_endpoint::Connection<Secured>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl TextSession for Secured {
    fn start_text(&mut self, ticket: Ticket, text: &str, out: &mut Vec<u8>) {
        self.write(out, |inner, out| inner.start_simple(ticket, text, out));
    }

    fn is_asked(&self) -> bool {
        self.inner().is_asked()
    }

    fn fail(&mut self, error: StoreError, done: &mut dyn Done) {
        self.end(error, done);
    }

    /// Classed by SQLSTATE.
    fn rejected(place: &str, answer: &Answer) -> StoreError {
        let kind = match answer.code.as_str() {
            "42501" => StoreErrorKind::Permission,
            "53100" => StoreErrorKind::DiskFull,
            code if code.starts_with("57P0") || code.starts_with("08") => StoreErrorKind::Unreachable,
            code if code.starts_with("XX") || code.starts_with("58") => StoreErrorKind::Broken,
            _ => StoreErrorKind::Store,
        };
        StoreError::new(kind, format!("{place} says: {}", answer.message)).detail(answer.code.clone())
    }
}
