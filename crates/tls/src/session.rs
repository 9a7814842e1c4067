//! TLS from the first byte around a session of any protocol.

use plimsoll_core::{Done, Op, OpKind, StoreError, Ticket, WireSession, WireState};

use crate::client::TlsClient;
use crate::connection::Tls;

/// A wire session whose bytes are encrypted from the first one on.
pub struct TlsSession<S> {
    inner: S,
    client: TlsClient,
    host: String,
    place: String,
    tls: Option<Tls>,
    /// Why TLS failed; otherwise the state is the inner session's.
    failed: Option<WireState>,
    /// Decrypted and not used by the inner session yet.
    arrived: Vec<u8>,
    /// Written by the inner session and not encrypted yet; empty between two calls.
    written: Vec<u8>,
}

impl<S: WireSession> TlsSession<S> {
    /// Puts TLS around `inner` for connections to `host`; `place` names the server in messages.
    ///
    /// # Errors
    /// As [`TlsClient::connect`].
    pub fn new(inner: S, client: TlsClient, host: &str, place: &str) -> Result<Self, StoreError> {
        client.connect(host, place)?;
        Ok(Self {
            inner,
            client,
            host: host.to_owned(),
            place: place.to_owned(),
            tls: None,
            failed: None,
            arrived: Vec::new(),
            written: Vec::new(),
        })
    }

    #[inline]
    fn encrypt(&mut self, out: &mut Vec<u8>) {
        if let Some(tls) = &mut self.tls
            && !self.written.is_empty()
        {
            tls.send(&self.written, out);
        }
        self.written.clear();
    }

    #[cold]
    fn fail(&mut self, error: StoreError) {
        self.tls = None;
        self.failed = Some(WireState::Failed(error));
    }
}

impl<S: WireSession> WireSession for TlsSession<S> {
    fn open(&mut self, kinds: &[OpKind], out: &mut Vec<u8>) {
        self.arrived.clear();
        self.written.clear();
        self.failed = None;
        self.inner.open(kinds, &mut self.written);
        match self.client.connect(&self.host, &self.place) {
            Ok(mut tls) => {
                tls.begin(out);
                self.tls = Some(tls);
                self.encrypt(out);
            }
            Err(error) => self.fail(error),
        }
    }

    fn state(&self) -> &WireState {
        if let Some(failed) = &self.failed {
            return failed;
        }
        let state = self.inner.state();
        // A protocol without a greeting is ready before the handshake is done, and the connection is not.
        let is_early = matches!(state, WireState::Ready) && self.tls.as_ref().is_none_or(Tls::is_handshaking);
        if is_early { &WireState::Opening } else { state }
    }

    fn limit_answers(&mut self, bytes_max: usize) {
        self.inner.limit_answers(bytes_max);
    }

    fn depth_max(&self) -> u32 {
        self.inner.depth_max()
    }

    #[inline]
    fn start(&mut self, ticket: Ticket, op: &Op<'_>, out: &mut Vec<u8>) {
        self.inner.start(ticket, op, &mut self.written);
        // What follows at once goes into one record with it.
        if !op.more {
            self.encrypt(out);
        }
    }

    #[inline]
    fn flush(&mut self, out: &mut Vec<u8>) {
        self.inner.flush(&mut self.written);
        self.encrypt(out);
    }

    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>, done: &mut dyn Done) -> usize {
        let Some(tls) = &mut self.tls else { return bytes.len() };
        let result = tls.feed(bytes, &mut self.arrived, out);
        if !self.arrived.is_empty() {
            let used = self.inner.feed(&self.arrived, &mut self.written, done);
            self.arrived.drain(..used.min(self.arrived.len()));
            self.encrypt(out);
        }
        // What was said before it is heard first.
        if let Err(error) = result
            && !matches!(self.inner.state(), WireState::Failed(_))
        {
            self.fail(error);
        }
        bytes.len()
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        self.inner.close(&mut self.written);
        self.encrypt(out);
        if let Some(tls) = &mut self.tls {
            tls.close(out);
        }
    }
}
