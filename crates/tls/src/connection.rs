//! A connection: bytes to encrypt and bytes to decrypt.

use std::fmt;
use std::io::{BufRead, Write};
use std::sync::Arc;

use plimsoll_core::StoreError;
use rustls::ClientConnection;

use crate::check::can_be_read;
use crate::end_point;
use crate::failure::{Facts, explain};

/// TLS of a connection, with the bytes that wait on the client's side.
pub struct Tls {
    connection: ClientConnection,
    /// Decrypted and not used yet.
    arrived: Vec<u8>,
    /// Plaintext that is not encrypted yet; empty between two calls, unless more follows immediately.
    pub written: Vec<u8>,
    /// Names the server in messages.
    place: String,
    /// Source of the client's roots, for messages.
    roots: Arc<str>,
    /// The client has a certificate to show.
    has_certificate: bool,
    /// True after the first arrival.
    heard: bool,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("place", &self.place).field("connection", &self.connection).finish_non_exhaustive()
    }
}

impl Tls {
    pub(crate) fn new(mut connection: ClientConnection, place: &str, roots: Arc<str>, has_certificate: bool) -> Self {
        // What is sent before the handshake is over waits inside. Sessions keep their own bounds.
        connection.set_buffer_limit(None);
        let (arrived, written) = (Vec::new(), Vec::new());
        Self { connection, arrived, written, place: place.to_owned(), roots, has_certificate, heard: false }
    }

    /// Begins: appends the greeting to `out`. What was `written` before is sent when both sides have shaken hands.
    #[must_use]
    pub fn begin(mut self, written: Vec<u8>, out: &mut Vec<u8>) -> Self {
        self.flush(out);
        self.written = written;
        self.encrypt(out);
        self
    }

    /// Takes all of what arrived, and appends what is to be answered to `out`. What it says is for [`Tls::hand_over`], also
    /// what was decrypted before an error.
    ///
    /// # Errors
    /// What is wrong with the server, its certificate or ours; `out` may hold a last word for the server. All
    /// calls that follow fail too.
    pub fn decrypt(&mut self, cipher: &[u8], out: &mut Vec<u8>) -> Result<(), StoreError> {
        let mut rest = cipher;
        let heard = self.heard;
        self.heard |= !cipher.is_empty();
        while !rest.is_empty() {
            // It takes some kilobytes at a time, and none while plaintext waits to be read.
            let taken = self.connection.read_tls(&mut rest);
            let processed = self.connection.process_new_packets();
            if let Err(error) = processed {
                self.flush(out);
                let Self { place, roots, has_certificate, .. } = &*self;
                let first_words = (!heard).then_some(cipher);
                let facts = Facts { place, roots, has_certificate: *has_certificate, first_words };
                return Err(explain(&error, &facts));
            }
            let before = self.arrived.len();
            self.read_plain();
            // After the server's good-bye nothing is taken any more.
            if matches!(taken, Ok(0) | Err(_)) && self.arrived.len() == before {
                break;
            }
        }
        self.flush(out);
        Ok(())
    }

    /// Passes the decrypted input to `feed`, which returns the number of bytes used, and encrypts its output.
    pub fn hand_over(&mut self, out: &mut Vec<u8>, feed: impl FnOnce(&[u8], &mut Vec<u8>) -> usize) {
        if !self.arrived.is_empty() {
            let used = feed(&self.arrived, &mut self.written).min(self.arrived.len());
            self.arrived.drain(..used);
            self.encrypt(out);
        }
    }

    /// Names the server in messages.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// True when something has arrived whose rest has not.
    pub fn is_amid(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// Encrypts what was written and appends it to `out`; keeps it until the handshake is over, if it is not.
    #[inline]
    pub fn encrypt(&mut self, out: &mut Vec<u8>) {
        if !self.written.is_empty() {
            // There is no bound, so it takes everything.
            let _ = self.connection.writer().write_all(&self.written);
            self.written.clear();
            self.flush(out);
        }
    }

    /// Appends a good-bye to `out`.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        self.connection.send_close_notify();
        self.flush(out);
    }

    /// True until both sides have agreed and the certificate was found good.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// The protocol that the server chose of those offered.
    pub fn protocol(&self) -> Option<&[u8]> {
        self.connection.alpn_protocol()
    }

    /// Version and cipher suite, as `TLSv1_3 TLS13_AES_256_GCM_SHA384`; `None` while it shakes hands.
    pub fn agreed(&self) -> Option<String> {
        let version = self.connection.protocol_version()?.as_str()?;
        let suite = self.connection.negotiated_cipher_suite()?.suite();
        Some(format!("{version} {}", suite.as_str()?))
    }

    /// The server certificate's hash, to which a login can be bound: `tls-server-end-point` of RFC 5929. `None` where
    /// that is not defined (Ed25519, RSA-PSS), or where the certificate cannot be read, so that the server has not
    /// proven to be its owner.
    pub fn server_end_point(&self) -> Option<Vec<u8>> {
        let certificate = self.connection.peer_certificates()?.first()?;
        if can_be_read(certificate) { end_point::hash(certificate) } else { None }
    }

    fn read_plain(&mut self) {
        let mut reader = self.connection.reader();
        // An error says that there is no more, or that the server said good-bye.
        while let Ok(chunk @ [_, ..]) = reader.fill_buf() {
            self.arrived.extend_from_slice(chunk);
            let length = chunk.len();
            reader.consume(length);
        }
    }

    #[inline]
    fn flush(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            // Writing to a vector cannot fail.
            if self.connection.write_tls(out).is_err() {
                return;
            }
        }
    }
}
