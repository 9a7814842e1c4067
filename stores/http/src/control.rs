//! One look at a server, for everything that is not measured: whether it is there, and what it calls itself.

use std::sync::Arc;

use plimsoll_core::{Durability, StoreError, Waits};
use plimsoll_endpoint::Connection;

use crate::endpoint::Endpoint;
use crate::wire::HttpSession;

/// Opens a session as a client does and closes it: what the server calls itself, empty when it does not say. Every
/// single wait is bounded by `waits`.
///
/// # Errors
/// `Unreachable` when nobody listens or answers; `Authentication`, `Usage` and `Broken` as a session says.
pub fn look(endpoint: &Endpoint, waits: impl Into<Waits>) -> Result<String, StoreError> {
    greeted(endpoint, waits).map(|connection| connection.session().server())
}

/// A connection whose first question has been answered.
pub(crate) fn greeted(endpoint: &Endpoint, waits: impl Into<Waits>) -> Result<Connection<HttpSession>, StoreError> {
    let session = HttpSession::new(Arc::new(endpoint.login.clone()), Durability::AtEnd);
    let mut connection = Connection::new(endpoint.connect(&endpoint.login.place, waits)?, session);
    connection.open(&[])?;
    Ok(connection)
}
