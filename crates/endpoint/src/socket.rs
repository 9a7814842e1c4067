//! A connection whose reads and writes never wait, in clear or inside TLS, for asynchronous clients.

use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use plimsoll_core::{StoreError, StoreErrorKind};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::tls::{Tls, advised};

/// Most bytes that are decrypted at a time: a record of TLS.
const INPUT_BYTES: usize = 16 << 10;

/// A socket whose reads and writes never wait, but fail with `WouldBlock`.
pub trait Socket {
    /// Reads what has arrived; 0 at the end of the connection.
    ///
    /// # Errors
    /// The operating system's.
    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes what there is room for.
    ///
    /// # Errors
    /// The operating system's.
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize>;
}

impl Socket for TcpStream {
    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        TcpStream::try_read(self, buffer)
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        TcpStream::try_write(self, bytes)
    }
}

/// A socket that does not block.
impl Socket for std::net::TcpStream {
    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }
}

/// Reason of TLS that a connection has failed, once it has one. It outlives the connection, whose users only see an error
/// of the operating system.
#[derive(Debug, Clone, Default)]
pub struct Cause(Arc<OnceLock<StoreError>>);

impl Cause {
    /// Returns the reason; `None` if the connection has not failed on TLS.
    pub fn get(&self) -> Option<&StoreError> {
        self.0.get()
    }
}

/// TLS of one connection, and the bytes on their way through it.
pub struct Encrypted {
    tls: Tls,
    input: Box<[u8]>,
    /// Bytes to send, and how many of them have been.
    out: Vec<u8>,
    sent: usize,
    cause: Cause,
}

impl Encrypted {
    /// Begins TLS.
    pub fn new(tls: Tls, cause: &Cause) -> Self {
        let mut out = Vec::new();
        let tls = tls.begin(Vec::new(), &mut out);
        Self { tls, input: vec![0; INPUT_BYTES].into(), out, sent: 0, cause: cause.clone() }
    }

    /// True if bytes wait for room in the socket.
    pub fn has_unsent(&self) -> bool {
        self.sent < self.out.len()
    }

    /// The protocol that the server chose of those offered.
    pub fn protocol(&self) -> Option<&[u8]> {
        self.tls.protocol()
    }

    /// Continues the handshake; pending while the socket has no input.
    pub fn shake_hands(&mut self, socket: &impl Socket) -> Poll<Result<(), StoreError>> {
        loop {
            if let Err(error) = self.flush(socket)
                && error.kind() != io::ErrorKind::WouldBlock
            {
                return Poll::Ready(Err(self.failure(Some(&error))));
            }
            if !self.tls.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            match self.pull(socket) {
                Ok(0) => return Poll::Ready(Err(self.failure(None))),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(self.failure(Some(&error)))),
            }
        }
    }

    /// Reads plaintext; 0 at the end of the connection.
    ///
    /// # Errors
    /// `WouldBlock`; the operating system's; any other with a [`Cause`].
    pub fn read(&mut self, socket: &impl Socket, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.tls.is_amid() && !buffer.is_empty() {
            if self.pull(socket)? == 0 {
                return Ok(0);
            }
        }
        let mut count = 0;
        self.tls.hand_over(&mut self.out, |arrived, _| {
            count = arrived.len().min(buffer.len());
            buffer[..count].copy_from_slice(&arrived[..count]);
            count
        });
        Ok(count)
    }

    /// Takes all of `bytes`, once those before are sent.
    ///
    /// # Errors
    /// As [`Encrypted::read`].
    pub fn write(&mut self, socket: &impl Socket, bytes: &[u8]) -> io::Result<usize> {
        self.flush(socket)?;
        self.tls.written.extend_from_slice(bytes);
        self.tls.encrypt(&mut self.out);
        match self.flush(socket) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(bytes.len()),
        }
    }

    /// Sends what waits.
    ///
    /// # Errors
    /// As [`Encrypted::read`].
    pub fn flush(&mut self, socket: &impl Socket) -> io::Result<()> {
        while self.has_unsent() {
            match socket.try_write(&self.out[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) => {
                    if error.kind() != io::ErrorKind::WouldBlock {
                        // The server may have said why before it closed.
                        let _ = self.pull(socket);
                    }
                    return Err(error);
                }
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Appends a good-bye to the bytes that wait.
    pub fn close(&mut self) {
        self.tls.close(&mut self.out);
    }

    /// Decrypts what has arrived. Returns the number of bytes read. What was said before an error is heard first.
    fn pull(&mut self, socket: &impl Socket) -> io::Result<usize> {
        let count = socket.try_read(&mut self.input)?;
        if let Err(error) = self.tls.decrypt(&self.input[..count], &mut self.out) {
            let words = error.to_string();
            // The first one is the reason of those that follow.
            let _ = self.cause.0.set(advised(error));
            // A last word for the server.
            let _ = socket.try_write(&self.out[self.sent..]);
            if !self.tls.is_amid() {
                return Err(io::Error::other(words));
            }
        }
        Ok(count)
    }

    /// Returns the error of a handshake that failed; without an `error` the server has ended the connection.
    #[cold]
    fn failure(&self, error: Option<&io::Error>) -> StoreError {
        if let Some(cause) = self.cause.get() {
            return cause.clone();
        }
        let what = format!("{} ended the connection in the TLS handshake", self.tls.place());
        let failure = StoreError::new(StoreErrorKind::Unreachable, what)
            .next("Check the port, and that the server has TLS there: one without closes such a connection.");
        match error {
            Some(error) => failure.detail(error.to_string()),
            None => failure,
        }
    }
}

/// A connection of a session, in clear until it is encrypted.
pub struct SessionSocket {
    socket: TcpStream,
    tls: Option<Box<Encrypted>>,
    cause: Cause,
}

impl SessionSocket {
    /// A connection in clear.
    pub fn clear(socket: TcpStream) -> Self {
        Self { socket, tls: None, cause: Cause::default() }
    }

    #[cfg(test)]
    pub(crate) fn peer_port(&self) -> u16 {
        self.socket.peer_addr().expect("a connected socket").port()
    }

    /// The reason of TLS that it fails, if there will be one.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// The protocol that the server chose of those offered by TLS.
    pub fn protocol(&self) -> Option<&[u8]> {
        self.tls.as_ref().and_then(|tls| tls.protocol())
    }

    /// Begins TLS, and waits for the end of the handshake. Nothing may have arrived that was not read.
    ///
    /// # Errors
    /// The fault of the server's certificate or of the client's; `Usage` if the server speaks no TLS; `Unreachable`.
    pub async fn encrypt(&mut self, tls: Tls) -> Result<(), StoreError> {
        let mut layer = Box::new(Encrypted::new(tls, &self.cause));
        let socket = &self.socket;
        poll_fn(|context| {
            loop {
                if let Poll::Ready(done) = layer.shake_hands(socket) {
                    return Poll::Ready(done);
                }
                let reads = socket.poll_read_ready(context).is_ready();
                let writes = layer.has_unsent() && socket.poll_write_ready(context).is_ready();
                if !reads && !writes {
                    return Poll::Pending;
                }
            }
        })
        .await?;
        self.tls = Some(layer);
        Ok(())
    }

    /// Waits until [`SessionSocket::try_read`] may find something.
    ///
    /// # Errors
    /// The operating system's.
    pub async fn readable(&self) -> io::Result<()> {
        match &self.tls {
            Some(tls) if tls.tls.is_amid() => Ok(()),
            _ => self.socket.readable().await,
        }
    }

    /// Ready once [`SessionSocket::try_read`] may find something.
    pub fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.tls {
            Some(tls) if tls.tls.is_amid() => Poll::Ready(Ok(())),
            _ => self.socket.poll_read_ready(context),
        }
    }

    /// Reads what has arrived; 0 at the end of the connection.
    ///
    /// # Errors
    /// `WouldBlock`; the operating system's; any other with a [`Cause`].
    #[inline]
    pub fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.try_read(buffer),
            Some(tls) => tls.read(&self.socket, buffer),
        }
    }

    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// As [`SessionSocket::try_read`], without `WouldBlock`.
    #[inline]
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Self { socket, tls, .. } = self;
        let mut sent = 0;
        while sent < bytes.len() || tls.as_ref().is_some_and(|tls| tls.has_unsent()) {
            let written = match tls {
                None => socket.try_write(&bytes[sent..]),
                Some(tls) if sent < bytes.len() => tls.write(socket, &bytes[sent..]),
                Some(tls) => tls.flush(socket).map(|()| 0),
            };
            match written {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => socket.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl AsyncRead for SessionSocket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { socket, tls, .. } = self.get_mut();
        let Some(tls) = tls else { return Pin::new(socket).poll_read(context, buffer) };
        loop {
            match tls.read(socket, buffer.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(socket.poll_read_ready(context))?,
                read => return Poll::Ready(read.map(|count| buffer.advance(count))),
            }
        }
    }
}

impl AsyncWrite for SessionSocket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Self { socket, tls, .. } = self.get_mut();
        let Some(tls) = tls else { return Pin::new(socket).poll_write(context, bytes) };
        loop {
            match tls.write(socket, bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(socket.poll_write_ready(context))?,
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.tls.is_none() {
            return Pin::new(&mut this.socket).poll_write_vectored(context, pieces);
        }
        let first = pieces.iter().find(|piece| !piece.is_empty()).map_or(&[][..], |piece| &piece[..]);
        Pin::new(this).poll_write(context, first)
    }

    fn is_write_vectored(&self) -> bool {
        self.tls.is_none() && self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { socket, tls, .. } = self.get_mut();
        let Some(tls) = tls else { return Poll::Ready(Ok(())) };
        loop {
            match tls.flush(socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(socket.poll_write_ready(context))?,
                flushed => return Poll::Ready(flushed),
            }
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(tls) = &mut this.tls {
            tls.close();
            // A good-bye is polite, not necessary.
            let _ = tls.flush(&this.socket);
        }
        Pin::new(&mut this.socket).poll_shutdown(context)
    }
}
