//! A session inside TLS: SSLRequest, the handshake, and bytes through it.

use std::sync::Arc;

use plimsoll_core::{Done, Op, OpKind, StoreError, StoreErrorKind, Ticket, WireSession, WireState};
use plimsoll_endpoint::tls::{Tls, TlsClient};

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

impl Security {
    /// TLS begins without asking.
    pub(crate) fn is_direct(&self) -> bool {
        matches!(self, Security::Required(end) if end.direct)
    }

    /// The same, without a choice: what was agreed on once is what all later connections must be.
    pub(crate) fn settled(&self, with_tls: bool) -> Security {
        match self {
            Security::Offered(end) | Security::Required(end) if with_tls => Security::Required(end.clone()),
            _ => Security::Plain,
        }
    }
}

enum Layer {
    /// Bytes go through as they are.
    Plain,
    /// The server has been asked, and what the session has written waits.
    Asked,
    Tls(Box<Tls>),
}

/// A [`PgSession`] on a connection that may be encrypted.
pub struct Secured {
    inner: PgSession,
    security: Security,
    layer: Layer,
    place: String,
    /// TLS failed, not what is inside it.
    tls_failed: bool,
    /// Decrypted and not used by the session yet.
    arrived: Vec<u8>,
    /// Written by the session and not sent yet.
    written: Vec<u8>,
}

impl Secured {
    /// Puts `inner` on a connection of this security; `place` names the server in messages.
    pub fn new(inner: PgSession, security: Security, place: &str) -> Secured {
        Secured {
            inner,
            security,
            layer: Layer::Plain,
            place: place.to_owned(),
            tls_failed: false,
            arrived: Vec::new(),
            written: Vec::new(),
        }
    }

    /// The session inside.
    pub(crate) fn inner(&self) -> &PgSession {
        &self.inner
    }

    /// Version and cipher suite of TLS, where there is any.
    pub(crate) fn agreed(&self) -> Option<String> {
        match &self.layer {
            Layer::Tls(tls) => tls.agreed(),
            Layer::Plain | Layer::Asked => None,
        }
    }

    /// True when the connection failed on TLS: nobody has logged in.
    pub(crate) fn tls_failed(&self) -> bool {
        self.tls_failed
    }

    /// Lets the session write, and sends what it wrote.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut PgSession, &mut Vec<u8>)) {
        match &mut self.layer {
            Layer::Plain => write(&mut self.inner, out),
            Layer::Asked => write(&mut self.inner, &mut self.written),
            Layer::Tls(tls) => {
                write(&mut self.inner, &mut self.written);
                if self.written.is_empty() {
                    return;
                }
                tls.send(&self.written, out);
                self.written.clear();
            }
        }
    }

    /// Ends the connection for good: everything in flight is unknown.
    pub(crate) fn end(&mut self, error: StoreError, done: &mut dyn Done) {
        self.inner.fail(error, done);
    }

    #[cold]
    fn fail_on_tls(&mut self, error: StoreError, done: &mut dyn Done) {
        self.tls_failed = true;
        self.inner.fail(error, done);
    }

    /// The server's answer to SSLRequest, one byte; returns how many bytes were used.
    #[cold]
    fn take_offer(&mut self, bytes: &[u8], out: &mut Vec<u8>, done: &mut dyn Done) -> usize {
        let Some((first, rest)) = bytes.split_first() else { return 0 };
        let refused = match (first, &self.security) {
            (b'S', Security::Offered(end) | Security::Required(end)) if rest.is_empty() => {
                match end.client.connect(&end.host, &self.place) {
                    Ok(mut tls) => {
                        tls.begin(out);
                        tls.send(&self.written, out);
                        self.written.clear();
                        self.layer = Layer::Tls(Box::new(tls));
                        return 1;
                    }
                    Err(error) => error,
                }
            }
            // Somebody who cannot encrypt puts words into the server's mouth (CVE-2021-23222).
            (b'S', _) => broken(format!("{} agreed to TLS and sent plain bytes with it", self.place)),
            (b'N', Security::Offered(_)) => {
                self.layer = Layer::Plain;
                out.append(&mut self.written);
                return 1;
            }
            (b'N', _) => {
                let what = format!("{} does not speak TLS, and sslmode asks for it", self.place);
                StoreError::new(StoreErrorKind::Usage, what)
                    .next("Set ssl = on in the server's configuration, or connect with sslmode=prefer over a network you trust.")
            }
            // What an error says before there is TLS may be anybody's words.
            (b'E', _) => broken(format!("{} answered the question for TLS with an error", self.place)),
            // It is not TLS that failed: without it there would be no PostgreSQL either.
            _ => {
                let error = broken(format!("{} answered what no PostgreSQL server answers", self.place))
                    .detail(format!("it began with `{}`", bytes[..bytes.len().min(64)].escape_ascii()));
                self.inner.fail(error, done);
                return bytes.len();
            }
        };
        self.fail_on_tls(refused, done);
        bytes.len()
    }

    fn take_encrypted(&mut self, bytes: &[u8], out: &mut Vec<u8>, done: &mut dyn Done) {
        let Layer::Tls(tls) = &mut self.layer else { return };
        let was_handshaking = tls.is_handshaking();
        let result = tls.feed(bytes, &mut self.arrived, out);
        if was_handshaking && !tls.is_handshaking() {
            self.inner.set_channel(Channel::Tls(tls.server_end_point()));
        }
        if !self.arrived.is_empty() {
            let used = self.inner.feed(&self.arrived, &mut self.written, done);
            self.arrived.drain(..used);
            if !self.written.is_empty() {
                tls.send(&self.written, out);
                self.written.clear();
            }
        }
        // What was said before is heard first.
        if let Err(error) = result
            && !matches!(self.inner.state(), WireState::Failed(_))
        {
            self.fail_on_tls(error, done);
        }
    }
}

impl WireSession for Secured {
    fn open(&mut self, kinds: &[OpKind], out: &mut Vec<u8>) {
        self.arrived.clear();
        self.written.clear();
        self.tls_failed = false;
        self.inner.set_channel(Channel::Plain);
        self.inner.open(kinds, &mut self.written);
        self.layer = match &self.security {
            Security::Plain => {
                out.append(&mut self.written);
                Layer::Plain
            }
            Security::Required(end) if end.direct => match end.client.connect(&end.host, &self.place) {
                Ok(mut tls) => {
                    tls.begin(out);
                    tls.send(&self.written, out);
                    self.written.clear();
                    Layer::Tls(Box::new(tls))
                }
                // Asking ends in the same error, which must not come before bytes have arrived.
                Err(_) => {
                    out.extend_from_slice(&SSL_REQUEST);
                    Layer::Asked
                }
            },
            Security::Offered(_) | Security::Required(_) => {
                out.extend_from_slice(&SSL_REQUEST);
                Layer::Asked
            }
        };
    }

    fn state(&self) -> &WireState {
        self.inner.state()
    }

    fn limit_answers(&mut self, bytes_max: usize) {
        self.inner.limit_answers(bytes_max);
    }

    fn depth_max(&self) -> u32 {
        self.inner.depth_max()
    }

    #[inline]
    fn start(&mut self, ticket: Ticket, op: &Op<'_>, out: &mut Vec<u8>) {
        if op.more && matches!(self.layer, Layer::Tls(_)) {
            // It goes into one record with what follows at once.
            return self.inner.start(ticket, op, &mut self.written);
        }
        self.write(out, |inner, out| inner.start(ticket, op, out));
    }

    #[inline]
    fn flush(&mut self, out: &mut Vec<u8>) {
        self.write(out, |inner, out| inner.flush(out));
    }

    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>, done: &mut dyn Done) -> usize {
        match &self.layer {
            Layer::Plain => self.inner.feed(bytes, out, done),
            Layer::Tls(_) => {
                self.take_encrypted(bytes, out, done);
                bytes.len()
            }
            Layer::Asked => {
                let used = self.take_offer(bytes, out, done);
                match self.layer {
                    Layer::Plain if used < bytes.len() => used + self.inner.feed(&bytes[used..], out, done),
                    _ => used,
                }
            }
        }
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if !matches!(self.layer, Layer::Asked) {
            self.write(out, |inner, out| inner.close(out));
        }
        if let Layer::Tls(tls) = &mut self.layer {
            tls.close(out);
        }
    }
}
