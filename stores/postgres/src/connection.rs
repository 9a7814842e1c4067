//! A blocking connection for the control plane and for key-value sessions: the same [`PgSession`] that the
//! drive loop runs, over a socket of its own.

use std::sync::Arc;

use plimsoll_core::{Layout, OpKind, StoreError, StoreErrorKind, Waits};
use plimsoll_endpoint::Channel;

use crate::reach::Endpoint;
use crate::wire::{PgSession, Secured, around};

/// A connection whose calls return when they are done.
pub type Connection = plimsoll_endpoint::Connection<Secured>;

/// Reason that a connection was refused.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    pub(crate) error: StoreError,
    /// True if TLS failed.
    pub(crate) in_tls: bool,
}

impl Endpoint {
    /// Connects, logs in, runs `settings` and prepares `kinds`. `waits` say how long the server may be silent, then and
    /// afterwards ([`plimsoll_endpoint::Connection::set_waits`]).
    ///
    /// # Errors
    /// No server there, no TLS with it, a refused login or statement.
    pub fn open(
        &self,
        layout: Arc<Layout>,
        settings: &str,
        kinds: &[OpKind],
        waits: impl Into<Waits>,
    ) -> Result<Connection, StoreError> {
        self.try_open(layout, settings, kinds, waits).map_err(|refused| refused.error)
    }

    pub(crate) fn try_open(
        &self,
        layout: Arc<Layout>,
        settings: &str,
        kinds: &[OpKind],
        waits: impl Into<Waits>,
    ) -> Result<Connection, Refused> {
        let place = &self.login.place;
        let plain = PgSession::new(Arc::clone(&self.login), layout, settings);
        let session = around(self.tls.as_ref(), plain, place).map_err(|error| Refused { error, in_tls: true })?;
        let channel = Channel::connect(&self.address, place, waits);
        let channel = channel.map_err(|error| Refused { error, in_tls: false })?;
        let mut connection = Connection::new(channel, session);
        connection.open(kinds).map_err(|mut error| {
            if error.kind == StoreErrorKind::Unreachable && self.tls.as_ref().is_some_and(|tls| tls.direct) {
                error.next =
                    Some("Leave sslnegotiation=direct out: servers before PostgreSQL 17 do not know it.".into());
            }
            Refused { error, in_tls: connection.session().failed_on_tls() }
        })?;
        Ok(connection)
    }
}
