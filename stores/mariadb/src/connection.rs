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

/// Connects to a server that is not private. Refuses a pooler before it runs `settings`, because other clients of the pooler
/// would find them.
///
/// # Errors
/// Those of [`connect`]; `Usage` for a pooler.
pub(crate) fn attach(
    address: &Address,
    login: Arc<Login>,
    settings: &[String],
    waits: impl Into<Waits>,
) -> Result<Connection, StoreError> {
    let place = login.place.clone();
    let mut connection = connect(address, login, Arc::default(), &[], &[], waits)?;
    must_not_be_pooled(&mut connection, &place)?;
    settings.iter().try_for_each(|setting| connection.simple(setting).map(drop))?;
    Ok(connection)
}

/// Refuses a pooler, which gives one connection of a server to several clients, and what looks like one.
///
/// A server greets with the number of the connection, and a proxy passes this number on. A pooler greets before it has a
/// connection, with a number of its own.
fn must_not_be_pooled(connection: &mut Connection, place: &str) -> Result<(), StoreError> {
    // ProxySQL itself answers the bare call, with its own number.
    let serving = connection.value("SELECT CONNECTION_ID() + 0")?;
    let greeted = connection.session().greeted;
    // A greeting has the lower half of the number.
    if serving.parse::<u64>().is_ok_and(|serving| serving as u32 == greeted) {
        return Ok(());
    }
    let what =
        format!("{place} greets as connection {greeted}, and connection {serving} answers: it looks like a pooler");
    Err(StoreError::usage(what)
        .detail("other clients of a pooler would find the settings of this run in its connections")
        .next("Name the server itself, or a proxy that passes connections on, such as HAProxy."))
}
