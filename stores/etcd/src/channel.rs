//! Calls of gRPC, one after the other, over a connection of HTTP/2.
//!
//! A call drives its connection while it waits, so that no separate task has to be woken.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::client::{Builder, Connection, SendRequest};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, TE};
use http::{Method, Request, Version};
use plimsoll_core::StoreError;
use plimsoll_endpoint::Cause;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::messages::HEAD_BYTES;

/// Flow-control window: bytes that the server may send before they are taken.
const WINDOW_BYTES: u32 = 16 << 20;

/// Paths of the calls in use.
pub(crate) const RANGE: &str = "/etcdserverpb.KV/Range";
pub(crate) const PUT: &str = "/etcdserverpb.KV/Put";
pub(crate) const DELETE_RANGE: &str = "/etcdserverpb.KV/DeleteRange";
pub(crate) const TXN: &str = "/etcdserverpb.KV/Txn";
pub(crate) const COMPACT: &str = "/etcdserverpb.KV/Compact";
pub(crate) const STATUS: &str = "/etcdserverpb.Maintenance/Status";
pub(crate) const HASH: &str = "/etcdserverpb.Maintenance/Hash";
pub(crate) const DEFRAGMENT: &str = "/etcdserverpb.Maintenance/Defragment";
pub(crate) const MOVE_LEADER: &str = "/etcdserverpb.Maintenance/MoveLeader";
pub(crate) const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";

/// Cause of a failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Status of gRPC, with its message.
    Said(u32, String),
    /// Loss of the connection; the outcome of the call is unknown.
    Lost(String),
    /// Loss of the connection for a reason of TLS.
    Encryption(StoreError),
    /// Size of a reply that has more bytes than are kept.
    TooLarge(usize),
}

impl Failure {
    /// True if etcd did not begin the call since the token of its login is not valid any more: it has expired, was
    /// forgotten in a restart, or revoked by a change of users. etcd's own client logs in anew and repeats the call.
    pub fn is_of_token(&self) -> bool {
        match self {
            Failure::Said(16, words) => words.contains("invalid auth token"),
            Failure::Said(3, words) => words.contains("revision of auth store is old"),
            _ => false,
        }
    }
}

impl From<h2::Error> for Failure {
    fn from(error: h2::Error) -> Self {
        Failure::Lost(error.to_string())
    }
}

/// Request without its message, ready to be sent.
pub(crate) type Head = Request<()>;

/// Returns scheme, host and port of calls to a server with this host and port.
pub(crate) fn origin(is_tls: bool, host_and_port: &str) -> String {
    format!("{}://{host_and_port}", if is_tls { "https" } else { "http" })
}

/// Returns an error if TLS did not agree on HTTP/2 at `place`.
pub(crate) fn agreed(protocol: Option<&[u8]>, place: &str) -> Result<(), StoreError> {
    match protocol {
        Some(b"h2") => Ok(()),
        _ => {
            Err(StoreError::usage(format!("{place} speaks TLS, but not HTTP/2, as etcd does")).next("Check the port."))
        }
    }
}

/// Returns the head of calls of `path` at `origin`; `None` if they make no URI.
pub(crate) fn head(path: &'static str, origin: &str, token: Option<&HeaderValue>) -> Option<Head> {
    let mut request = Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_2)
        .uri(format!("{origin}{path}"))
        .header(CONTENT_TYPE, "application/grpc")
        .header(TE, "trailers")
        .body(())
        .ok()?;
    set_token(&mut request, token);
    Some(request)
}

/// Sets the token of calls with this head.
pub(crate) fn set_token(head: &mut Head, token: Option<&HeaderValue>) {
    match token {
        Some(token) => drop(head.headers_mut().insert("token", token.clone())),
        None => drop(head.headers_mut().remove("token")),
    }
}

/// Completes a message that has room for its head.
pub(crate) fn finished(message: &mut BytesMut) -> Bytes {
    let length = (message.len() - HEAD_BYTES) as u32;
    message[1..HEAD_BYTES].copy_from_slice(&length.to_be_bytes());
    message.split().freeze()
}

pub(crate) struct Channel<I> {
    sender: SendRequest<Bytes>,
    connection: Connection<I, Bytes>,
    cause: Cause,
}

impl<I: AsyncRead + AsyncWrite + Unpin> Channel<I> {
    /// Performs the handshake of HTTP/2 with the server at the other end of `io`, which fails for `cause` if for TLS.
    pub async fn open(io: I, cause: Cause) -> Result<Self, Failure> {
        let mut builder = Builder::new();
        builder.initial_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES).enable_push(false);
        let (sender, connection) = builder.handshake(io).await.map_err(|error| explained(error.into(), &cause))?;
        Ok(Self { sender, connection, cause })
    }

    /// Returns a failure of a call with its reason.
    #[cold]
    pub fn explained(&self, failure: Failure) -> Failure {
        explained(failure, &self.cause)
    }

    /// Returns false if the connection has ended.
    pub fn is_alive(&mut self, context: &mut Context<'_>) -> bool {
        Pin::new(&mut self.connection).poll(context).is_pending()
    }

    /// Sends `message`, which is [`finished`], and returns the reply, of at most `bytes_max` bytes.
    pub async fn call(&mut self, head: &Head, message: Bytes, bytes_max: usize) -> Result<Bytes, Failure> {
        let Self { sender, connection, .. } = self;
        together(connection, |context| sender.poll_ready(context)).await??;
        let (mut response, mut out) = sender.send_request(head.clone(), false)?;
        out.send_data(message, true)?;
        let response = together(connection, |context| Pin::new(&mut response).poll(context)).await??;
        let (head, mut body) = response.into_parts();
        if !head.status.is_success() {
            return Err(Failure::Lost(format!("the HTTP status is {}, which etcd does not send", head.status)));
        }
        // A call that fails at once has its status in the headers.
        status(&head.headers).unwrap_or(Ok(()))?;
        let answer = take(connection, &mut body, bytes_max).await?;
        let trailers = together(connection, |context| body.poll_trailers(context)).await??;
        match trailers.as_ref().and_then(status) {
            Some(said) => said?,
            None => return Err(Failure::Lost("its answer has no status".to_owned())),
        }
        if answer.len() < HEAD_BYTES || answer[0] != 0 {
            return Err(Failure::Lost("its answer is no message of gRPC".to_owned()));
        }
        Ok(answer.slice(HEAD_BYTES..))
    }
}

/// Replaces a loss by its reason, if that is of TLS: HTTP/2 keeps of it the words alone.
fn explained(failure: Failure, cause: &Cause) -> Failure {
    match (failure, cause.get()) {
        (Failure::Lost(_), Some(error)) => Failure::Encryption(error.clone()),
        (failure, _) => failure,
    }
}

/// Takes a whole reply. A reply in one piece, the usual case, is not copied.
async fn take<I: AsyncRead + AsyncWrite + Unpin>(
    connection: &mut Connection<I, Bytes>,
    body: &mut RecvStream,
    bytes_max: usize,
) -> Result<Bytes, Failure> {
    let mut whole = Bytes::new();
    let mut more = BytesMut::new();
    while let Some(piece) = together(connection, |context| body.poll_data(context)).await? {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
        let bytes = whole.len() + more.len() + piece.len();
        if bytes > bytes_max.saturating_add(HEAD_BYTES) {
            return Err(Failure::TooLarge(bytes));
        }
        if whole.is_empty() && more.is_empty() {
            whole = piece;
        } else {
            more.extend_from_slice(&std::mem::take(&mut whole));
            more.extend_from_slice(&piece);
        }
    }
    Ok(if more.is_empty() { whole } else { more.freeze() })
}

/// Waits for `wanted`, and drives the connection meanwhile.
async fn together<I: AsyncRead + AsyncWrite + Unpin, T>(
    connection: &mut Connection<I, Bytes>,
    mut wanted: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Result<T, Failure> {
    poll_fn(|context| {
        // First, so that pending bytes are sent and arrived bytes are seen at once.
        let ended = Pin::new(&mut *connection).poll(context);
        match (wanted(context), ended) {
            (Poll::Ready(found), _) => Poll::Ready(Ok(found)),
            (Poll::Pending, Poll::Pending) => Poll::Pending,
            (Poll::Pending, Poll::Ready(Ok(()))) => {
                Poll::Ready(Err(Failure::Lost("the server closed the connection".to_owned())))
            }
            (Poll::Pending, Poll::Ready(Err(error))) => Poll::Ready(Err(error.into())),
        }
    })
    .await
}

/// Reads the status of a call from its headers; `None` if they have none.
fn status(headers: &HeaderMap) -> Option<Result<(), Failure>> {
    let code = headers.get("grpc-status")?.to_str().ok().and_then(|code| code.parse().ok()).unwrap_or(2);
    if code == 0 {
        return Some(Ok(()));
    }
    let words = headers.get("grpc-message").and_then(|words| words.to_str().ok()).unwrap_or_default();
    Some(Err(Failure::Said(code, plimsoll_endpoint::decode(words).unwrap_or_else(|_| words.to_owned()))))
}
