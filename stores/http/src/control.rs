//! Requests to a server that are not measured: its availability, and its name.

use std::sync::Arc;

use plimsoll_core::{Address, Durability, StoreError, StoreErrorKind, Waits, WireSession};
use plimsoll_endpoint::tls::{TlsClient, session};
use plimsoll_endpoint::{Asked, Channel, Connection, certified_host};
use plimsoll_tls::TlsSession;

use crate::client::{Client, Greeting};
use crate::endpoint::{Endpoint, Login, Version};
use crate::http2::{Agreed, Http2Session};
use crate::wire::HttpSession;

/// Opens a session as a client does and closes it: what the server calls itself, empty when it does not say. Every
/// single wait is bounded by `waits`.
///
/// # Errors
/// `Unreachable` when the server does not listen or answer; `Authentication`, `Usage` and `Broken` as for a session.
pub fn look(endpoint: &Endpoint, waits: impl Into<Waits>) -> Result<String, StoreError> {
    greet(endpoint, waits).map(|greeting| greeting.server)
}

/// Returns the whole first answer of the server at `endpoint`.
pub(crate) fn greet(endpoint: &Endpoint, waits: impl Into<Waits>) -> Result<Greeting, StoreError> {
    let advised = |error: StoreError| match error.kind {
        StoreErrorKind::Authentication if error.what.contains("certificate") => {
            error.next("--set http.cacert=FILE names whom to trust; --set http.insecure=true checks no certificate")
        }
        _ => error,
    };
    greeted_by(endpoint, waits).map_err(advised)
}

fn greeted_by(endpoint: &Endpoint, waits: impl Into<Waits>) -> Result<Greeting, StoreError> {
    let (login, place) = (Arc::new(endpoint.login.clone()), &endpoint.login.place);
    match login.version {
        Version::Http11 => {
            let session = HttpSession::asking(login);
            greeted(endpoint.connect(place, waits)?, session, HttpSession::client)
        }
        Version::Http2 => {
            let session = Http2Session::asking(login);
            let session = inside(session, endpoint.tls_client()?.as_ref(), &endpoint.address, place)?;
            let channel = Channel::connect(&endpoint.address, place, waits)?;
            greeted(channel, session, |session| session.inner().client())
        }
    }
}

fn greeted<S: Asked>(channel: Channel, session: S, client: impl Fn(&S) -> &Client) -> Result<Greeting, StoreError> {
    let mut connection = Connection::new(channel, session);
    connection.open(&[])?;
    Ok(client(connection.session()).greeting.clone())
}

/// A session for the drive loop, with a server that has said `greeting`.
pub(crate) fn driven(
    login: &Arc<Login>,
    durability: Durability,
    greeting: &Greeting,
    tls: Option<&TlsClient>,
    address: &Address,
) -> Result<Box<dyn WireSession>, StoreError> {
    let client = Client::greeted(Arc::clone(login), durability, greeting);
    match login.version {
        Version::Http11 => session(HttpSession::of(client), tls, address, &login.place),
        Version::Http2 => Ok(Box::new(inside(Http2Session::of(client), tls, address, &login.place)?)),
    }
}

/// HTTP/2 as it is, or inside TLS, with which it is agreed on.
fn inside(
    plain: Http2Session,
    tls: Option<&TlsClient>,
    address: &Address,
    place: &str,
) -> Result<TlsSession<Http2Session, Agreed>, StoreError> {
    TlsSession::upgraded(plain, tls.cloned(), certified_host(address), place, Agreed)
}
