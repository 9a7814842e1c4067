//! Sessions that may be inside TLS: from the first byte on, or when the server has said yes to it (RFC 4511, 4.14).

use plimsoll_core::StoreError;
use plimsoll_tls::{Answered, TlsClient, TlsSession, Upgrade};

use crate::endpoint::Endpoint;
use crate::request::{self, tag};
use crate::response;
use crate::result_code as code;
use crate::wire::{self, LdapSession};

/// The number of what asks for it.
const ID: u8 = 1;
/// The most bytes of the answer.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// An [`LdapSession`] on a connection that may be encrypted.
pub(crate) type Secured = TlsSession<LdapSession, StartTls>;

/// StartTLS request; true if it is sent.
pub(crate) struct StartTls(bool);

/// Puts `inner` on a connection as `endpoint` and its `tls` say.
///
/// # Errors
/// `Usage` when the host is none that a certificate can be for.
pub(crate) fn around(inner: LdapSession, tls: Option<TlsClient>, endpoint: &Endpoint) -> Result<Secured, StoreError> {
    TlsSession::upgraded(inner, tls, endpoint.host(), &endpoint.login.place, StartTls(endpoint.login.starts_tls))
}

impl Upgrade<LdapSession> for StartTls {
    fn question(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        request::start_tls(ID, &mut out);
        Some(out).filter(|_| self.0)
    }

    fn answered(&self, bytes: &[u8], place: &str) -> Result<Answered, StoreError> {
        let no_ldap = || {
            let what = format!("{place} sent a reply that is not LDAP");
            StoreError::broken(what).next("Check scheme, host and port: it may want ldaps://.")
        };
        let Some(message) = response::message(bytes).map_err(|_| no_ldap())? else { return Ok(Answered::Nothing) };
        if message.total > ANSWER_BYTES_MAX || message.tag != tag::EXTENDED_RESPONSE {
            return Err(no_ldap());
        }
        if bytes.len() < message.total {
            return Ok(Answered::Nothing);
        }
        let result = response::result(&bytes[message.from..message.from + message.bytes]).map_err(|_| no_ldap())?;
        if result.code != code::SUCCESS {
            let what = format!("{place} does not begin TLS on this connection (StartTLS)");
            let next = "Write ldaps:// if it listens there, or leave starttls=yes out to speak in clear.";
            return Err(StoreError::usage(what).detail(wire::words(result)).next(next));
        }
        Ok(Answered::Yes)
    }
}
