//! A session that may be inside TLS: whether, and how the server is asked (SSLRequest).

use std::sync::Arc;

use plimsoll_core::StoreError;
use plimsoll_endpoint::tls::{Tls, TlsClient};
use plimsoll_tls::{Answered, TlsSession, Upgrade};

use super::auth::Channel;
use super::message::broken;
use super::session::PgSession;

/// "Protocol Flow", SSL Session Encryption: length 8 and the code 80877103.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// Whether a connection is encrypted.
#[derive(Debug, Clone, Default)]
pub enum Security {
    /// Not.
    #[default]
    Plain,
    /// If the server can.
    Offered(TlsEnd),
    /// Or there is none.
    Required(TlsEnd),
}

/// The far end of TLS.
#[derive(Debug, Clone)]
pub struct TlsEnd {
    pub(crate) client: TlsClient,
    /// Name or address that the certificate must be for.
    pub(crate) host: Arc<str>,
    /// TLS from the first byte on, without asking (PostgreSQL 17 and later).
    pub(crate) direct: bool,
}

/// A [`PgSession`] on a connection that may be encrypted.
pub type Secured = TlsSession<PgSession, SslRequest>;

impl Security {
    fn end(&self) -> Option<&TlsEnd> {
        match self {
            Security::Plain => None,
            Security::Offered(end) | Security::Required(end) => Some(end),
        }
    }

    /// TLS begins without asking.
    pub(crate) fn is_direct(&self) -> bool {
        self.end().is_some_and(|end| end.direct)
    }

    /// The same, without a choice: what was agreed on once is what all later connections must be.
    pub(crate) fn settled(&self, with_tls: bool) -> Security {
        self.end().filter(|_| with_tls).map_or(Security::Plain, |end| Security::Required(end.clone()))
    }

    /// Puts `inner` on a connection of this security; `place` names the server in messages.
    ///
    /// # Errors
    /// `Usage` when the host is none that a certificate can be for.
    pub fn around(&self, inner: PgSession, place: &str) -> Result<Secured, StoreError> {
        let client = self.end().map(|end| end.client.clone());
        let host = self.end().map_or("", |end| &*end.host);
        let upgrade = SslRequest { is_direct: self.is_direct(), is_required: matches!(self, Security::Required(_)) };
        TlsSession::upgraded(inner, client, host, place, upgrade)
    }
}

/// How a server is asked for TLS.
#[derive(Debug)]
pub struct SslRequest {
    /// It is not.
    is_direct: bool,
    /// Without it there is no session.
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
            // Somebody who cannot encrypt puts words into the server's mouth (CVE-2021-23222).
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
            _ => {
                let begin = bytes[..bytes.len().min(64)].escape_ascii();
                let error = broken(format!("{place} answered what no PostgreSQL server answers"));
                Ok(Answered::Stranger(error.detail(format!("it began with `{begin}`"))))
            }
        }
    }

    fn agreed(&self, inner: &mut PgSession, tls: &Tls) {
        inner.set_channel(Channel::Tls(tls.server_end_point()));
    }
}
