//! A connection that begins in clear and asks for TLS (RFC 4511, 4.14).

use plimsoll_core::{Done, Op, OpKind, StoreError, StoreErrorKind, Ticket, WireSession, WireState};
use plimsoll_tls::TlsSession;

use crate::request::{self, tag};
use crate::response;
use crate::result_code as code;
use crate::wire::{self, LdapSession};

/// The number of what asks for it.
pub(crate) const ID: u8 = 1;
/// The most bytes of the answer.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A session that is asked nothing before the server has agreed to TLS.
pub(crate) struct StartTlsSession {
    inner: TlsSession<LdapSession>,
    place: String,
    kinds: Vec<OpKind>,
    /// The state until the server has agreed; then it is the inner session's.
    asking: Option<WireState>,
}

impl StartTlsSession {
    pub fn new(inner: TlsSession<LdapSession>, place: &str) -> Self {
        Self { inner, place: place.to_owned(), kinds: Vec::new(), asking: Some(WireState::Opening) }
    }
}

/// How many bytes the server's yes to StartTLS has; 0 when more is needed. `place` names the server in messages.
pub(crate) fn agreed(bytes: &[u8], place: &str) -> Result<usize, StoreError> {
    let no_ldap = || {
        let what = format!("{place} answered what is no LDAP");
        StoreError::new(StoreErrorKind::Broken, what).next("Check scheme, host and port: it may want ldaps://.")
    };
    let Some(message) = response::message(bytes).map_err(|_| no_ldap())? else { return Ok(0) };
    if message.total > ANSWER_BYTES_MAX || message.tag != tag::EXTENDED_RESPONSE {
        return Err(no_ldap());
    }
    if bytes.len() < message.total {
        return Ok(0);
    }
    let result = response::result(&bytes[message.from..message.from + message.bytes]).map_err(|_| no_ldap())?;
    if result.code != code::SUCCESS {
        let what = format!("{place} does not begin TLS on this connection (StartTLS)");
        let next = "Write ldaps:// if it listens there, or leave starttls=yes out to speak in clear.";
        return Err(StoreError::new(StoreErrorKind::Usage, what).detail(wire::words(result)).next(next));
    }
    Ok(message.total)
}

impl WireSession for StartTlsSession {
    fn open(&mut self, kinds: &[OpKind], out: &mut Vec<u8>) {
        self.kinds = kinds.to_vec();
        self.asking = Some(WireState::Opening);
        out.extend_from_slice(&request::start_tls(ID));
    }

    fn state(&self) -> &WireState {
        self.asking.as_ref().unwrap_or_else(|| self.inner.state())
    }

    fn limit_answers(&mut self, bytes_max: usize) {
        self.inner.limit_answers(bytes_max);
    }

    fn depth_max(&self) -> u32 {
        self.inner.depth_max()
    }

    #[inline]
    fn start(&mut self, ticket: Ticket, op: &Op<'_>, out: &mut Vec<u8>) {
        self.inner.start(ticket, op, out);
    }

    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>, done: &mut dyn Done) -> usize {
        match self.asking {
            None => self.inner.feed(bytes, out, done),
            Some(WireState::Failed(_)) => bytes.len(),
            Some(_) => match agreed(bytes, &self.place) {
                Ok(0) => 0,
                // The server waits for our greeting; what it said in clear behind its yes is nobody's.
                Ok(_) => {
                    self.asking = None;
                    self.inner.open(&self.kinds, out);
                    bytes.len()
                }
                Err(error) => {
                    self.asking = Some(WireState::Failed(error));
                    bytes.len()
                }
            },
        }
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if self.asking.is_none() {
            self.inner.close(out);
        }
    }
}
