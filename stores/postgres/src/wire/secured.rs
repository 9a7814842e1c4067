//! A session that may be inside TLS: whether, and how the server is asked (SSLRequest).

use std::sync::Arc;

use plimsoll_core::StoreError;
use plimsoll_endpoint::tls::{Tls, TlsClient};
use plimsoll_tls::{Answered, TlsSession, Upgrade};

use super::auth::Channel;
use super::message::{broken, stranger};
use super::session::PgSession;

/// "Protocol Flow", SSL Session Encryption: length 8 and the code 80877103.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// TLS, and with whom.
#[derive(Debug, Clone)]
pub struct TlsEnd {
    pub(crate) client: TlsClient,
    /// Name or address that the certificate must be for.
    pub(crate) host: Arc<str>,
    /// True if TLS begins without a request (PostgreSQL 17 and later).
    pub(crate) direct: bool,
    /// True if a session requires encryption. Otherwise a server without it is used in clear.
    pub required: bool,
}

/// A [`PgSession`] on a connection that may be encrypted.
pub type Secured = TlsSession<PgSession, SslRequest>;

/// Puts `inner` on a connection with `tls`, if any; `place` names the server in messages.
///
/// # Errors
/// `Usage` when the host is none that a certificate can be for.
pub(crate) fn around(tls: Option<&TlsEnd>, inner: PgSession, place: &str) -> Result<Secured, StoreError> {
    let host = tls.map_or("", |tls| &*tls.host);
    let [is_direct, is_required] = tls.map_or([false; 2], |tls| [tls.direct, tls.required]);
    let upgrade = SslRequest { is_direct, is_required };
    TlsSession::upgraded(inner, tls.map(|tls| tls.client.clone()), host, place, upgrade)
}

/// Request for TLS.
#[derive(Debug)]
pub struct SslRequest {
    /// True if TLS begins without a request.
    is_direct: bool,
    /// True if a session requires encryption.
    is_required: bool,
}

impl Upgrade<PgSession> for SslRequest {
    fn question(&self) -> Option<Vec<u8>> {
        (!self.is_direct).then(|| SSL_REQUEST.to_vec())
    }

    /// The server answers with one byte.
    fn answered(&self, bytes: &[u8], place: &str) -> Result<Answered, StoreError> {
        match bytes {
            [] => Ok(Answered::Nothing),
            b"S" => Ok(Answered::Yes),
            // A machine in between that cannot encrypt inserts bytes of its own (CVE-2021-23222).
            [b'S', ..] => Err(broken(format!("{place} agreed to TLS and sent plain bytes with it"))),
            [b'N', ..] if !self.is_required => Ok(Answered::No(1)),
            [b'N', ..] => {
                let what = format!("{place} does not speak TLS, and sslmode asks for it");
                let next = "Set ssl = on in the server's configuration, or connect with sslmode=prefer over a \
                            network you trust.";
                Err(StoreError::usage(what).next(next))
            }
            // What an error says before there is TLS may be anybody's words.
            [b'E', ..] => Err(broken(format!("{place} answered the question for TLS with an error"))),
            // It is not TLS that failed: without it there would be no PostgreSQL either.
            _ => Ok(Answered::Stranger(stranger(place, bytes))),
        }
    }

    fn agreed(&self, inner: &mut PgSession, tls: &Tls) {
        inner.channel = Channel::Tls(tls.server_end_point());
    }
}
