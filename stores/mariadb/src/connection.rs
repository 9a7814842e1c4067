//! A blocking connection for the control plane: the same [`MySession`] that the drive loop runs, over a socket of its
//! own.

use std::sync::Arc;

use plimsoll_core::{Address, Layout, OpKind, StoreError, Waits};
use plimsoll_endpoint::Channel;

use crate::wire::{Login, MySession};

/// A connection whose calls return when they are done.
pub type Connection = plimsoll_endpoint::Connection<MySession>;

/// Connects, logs in, runs `settings` and prepares `kinds`. `waits` say how long the server may be silent, then and
/// afterwards ([`plimsoll_endpoint::Connection::set_waits`]).
///
/// # Errors
/// No server there, no TLS with it, a refused login or statement.
pub fn connect(
    address: &Address,
    login: Arc<Login>,
    layout: Arc<Layout>,
    settings: &[String],
    kinds: &[OpKind],
    waits: impl Into<Waits>,
) -> Result<Connection, StoreError> {
    let channel = Channel::connect(address, &login.place, waits)?;
    let mut connection = Connection::new(channel, MySession::new(login, layout, settings.to_vec()));
    connection.open(kinds)?;
    Ok(connection)
}
