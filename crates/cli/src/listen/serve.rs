//! HTTP for readers of figures: the paths, the token, and limits. One request a connection.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Sleep, sleep};

use crate::listen::watched::Watched;
use crate::listen::{figures, metrics, prometheus_protobuf, prometheus_text};

/// Most connections at a time; more are closed at once.
pub const CONNECTIONS_MAX: usize = 32;
/// Longest time for the head of a request.
const HEAD_LIMIT: Duration = Duration::from_secs(10);
/// Longest time in which a client takes nothing of a reply.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// Largest buffer of a connection.
const BUFFER_MAX: usize = 16 << 10;
/// Wait after a connection that could not be accepted, for lack of file descriptors for example.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Page with the newest figures.
const PAGE: &str = include_str!("page.html");
/// Dashboard of Grafana with the names of `metrics`.
const DASHBOARD: &str = include_str!("grafana.json");
/// Paths, for the reply to others.
const PATHS: &str = "paths: / /events /figures.json /figures.xml /grafana.json /metrics\n";
/// Media type of texts for people.
const PLAIN: &str = "text/plain; charset=utf-8";
/// Rules for the page: nothing from elsewhere.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:";

/// Source of replies, and the token that requests need.
pub struct Door {
    /// The run.
    pub watched: Arc<Watched>,
    /// Token; without one only this machine's own names and addresses are served.
    pub token: Option<String>,
}

/// Makes the runtime of the server, of one thread.
///
/// # Errors
/// No file descriptors are left.
pub fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Serves readers until `stopped` is told or dropped.
///
/// # Errors
/// The socket cannot be watched.
pub fn serve(
    runtime: &Runtime,
    socket: TcpListener,
    door: &Arc<Door>,
    stopped: oneshot::Receiver<()>,
) -> io::Result<()> {
    runtime.block_on(async {
        let socket = tokio::net::TcpListener::from_std(socket)?;
        tokio::spawn(accept(socket, Arc::clone(door)));
        // Dropped is as good as told.
        let _ = stopped.await;
        Ok(())
    })
}

async fn accept(socket: tokio::net::TcpListener, door: Arc<Door>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok((stream, _)) = socket.accept().await else {
            sleep(ACCEPT_AGAIN).await;
            continue;
        };
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            tokio::spawn(connection(stream, Arc::clone(&door), place));
        }
    }
}

async fn connection(stream: TcpStream, door: Arc<Door>, _place: OwnedSemaphorePermit) {
    let answer =
        service_fn(move |request: Request<Incoming>| std::future::ready(Ok::<_, Infallible>(reply(&request, &door))));
    let mut http = http1::Builder::new();
    http.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT).max_buf_size(BUFFER_MAX);
    // A connection that breaks or is too slow concerns its client alone.
    let _ = http.serve_connection(TokioIo::new(Patient { stream, waits: None }), answer).await;
}

fn reply(request: &Request<Incoming>, door: &Door) -> Response<ReplyBody> {
    let plain = |status: StatusCode, text: &str| response(status, PLAIN, text.to_owned().into());
    if !is_permitted(request.headers(), door.token.as_deref()) {
        return match door.token {
            Some(_) => {
                let text = "send the token: `Authorization: Bearer TOKEN`, or as the password of any user\n";
                let mut refused = plain(StatusCode::UNAUTHORIZED, text);
                let scheme = HeaderValue::from_static("Basic realm=\"plimsoll\"");
                refused.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
                refused
            }
            None => plain(StatusCode::MISDIRECTED_REQUEST, "ask by an address, or as localhost\n"),
        };
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    let found = |kind: &'static str, text: String| response(StatusCode::OK, kind, text.into());
    let watched = &door.watched;
    match request.uri().path() {
        "/" => found("text/html; charset=utf-8", PAGE.to_owned()),
        "/events" => {
            let events = ReplyBody::Events { watched: Arc::clone(watched), seen: None };
            response(StatusCode::OK, "text/event-stream", events)
        }
        "/figures.json" => found("application/json", format!("{}\n", figures::tree(&watched.read()))),
        "/figures.xml" => found("application/xml", figures::xml(&figures::tree(&watched.read()))),
        "/grafana.json" => found("application/json", DASHBOARD.to_owned()),
        "/metrics" => metrics_reply(request.headers(), watched),
        _ => plain(StatusCode::NOT_FOUND, PATHS),
    }
}

/// Returns the metrics in the format that the client prefers.
fn metrics_reply(headers: &HeaderMap, watched: &Watched) -> Response<ReplyBody> {
    let run = watched.read();
    let families = metrics::families(&run);
    let (kind, body) = match prefers_protobuf(headers) {
        true => (prometheus_protobuf::MEDIA_TYPE, ReplyBody::from(prometheus_protobuf::encoded(&families))),
        false => (prometheus_text::MEDIA_TYPE, ReplyBody::from(prometheus_text::text(&families))),
    };
    response(StatusCode::OK, kind, body)
}

/// Returns true if a client accepts Prometheus' protobuf format, and prefers it to text or has no preference.
fn prefers_protobuf(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let (mut protobuf, mut text) = (0.0, 0.0);
    for range in values.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
        let params: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let param = |name: &str| params.iter().find(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| *value);
        let weight = param("q").map_or(1.0, |weight| weight.parse::<f64>().unwrap_or(0.0));
        match media_type.as_str() {
            "application/vnd.google.protobuf" => {
                let is_known = param("proto").is_some_and(|name| name == "io.prometheus.client.MetricFamily")
                    && param("encoding").is_some_and(|encoding| encoding == "delimited");
                protobuf = f64::max(protobuf, if is_known { weight } else { 0.0 });
            }
            "text/plain" | "text/*" | "*/*" => text = f64::max(text, weight),
            _ => {}
        }
    }
    protobuf > 0.0 && protobuf >= text
}

fn response(status: StatusCode, kind: &'static str, body: ReplyBody) -> Response<ReplyBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Returns true if a request has the token. Without one it must name this machine by an address or as localhost: a
/// page of another site, whose name leads here, gets no figures.
fn is_permitted(headers: &HeaderMap, token: Option<&str>) -> bool {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(token) = token else {
        return text(header::HOST).is_none_or(is_local_name);
    };
    let Some((scheme, given)) = text(header::AUTHORIZATION).and_then(|given| given.split_once(' ')) else {
        return false;
    };
    match scheme.to_ascii_lowercase().as_str() {
        "bearer" => is_equal(given.trim().as_bytes(), token.as_bytes()),
        "basic" => {
            let login = BASE64_STANDARD.decode(given.trim()).unwrap_or_default();
            let password = login.splitn(2, |byte| *byte == b':').nth(1);
            password.is_some_and(|password| is_equal(password, token.as_bytes()))
        }
        _ => false,
    }
}

/// Returns true for a host of a URL that is an address or `localhost`, with or without a port.
fn is_local_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => host.split(':').next(),
    };
    name.is_some_and(|name| name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok())
}

/// Compares in a time that does not depend on the place of the first difference.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
}

/// Body of a reply.
enum ReplyBody {
    /// Whole body; `None` once it is sent.
    Whole(Option<Bytes>),
    /// Server-sent events until the run ends: the newest figures, whenever the client has taken those before.
    Events { watched: Arc<Watched>, seen: Option<u64> },
}

impl From<String> for ReplyBody {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

impl From<Vec<u8>> for ReplyBody {
    fn from(bytes: Vec<u8>) -> Self {
        ReplyBody::Whole(Some(Bytes::from(bytes)))
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.get_mut() {
            ReplyBody::Whole(text) => Poll::Ready(text.take()),
            ReplyBody::Events { watched, seen } => watched.poll_event(seen, context).map(|text| text.map(Bytes::from)),
        };
        next.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, ReplyBody::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ReplyBody::Whole(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
            ReplyBody::Events { .. } => SizeHint::default(),
        }
    }
}

/// Connection that fails if the client takes nothing of a reply for [`WRITE_LIMIT`].
struct Patient {
    stream: TcpStream,
    waits: Option<Pin<Box<Sleep>>>,
}

impl AsyncRead for Patient {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        if written.is_ready() {
            this.waits = None;
            return written;
        }
        let waits = this.waits.get_or_insert_with(|| Box::pin(sleep(WRITE_LIMIT)));
        waits.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn a_token_is_taken_as_bearer_or_as_a_password_and_nothing_else() {
        let basic = |login: &str| format!("Basic {}", BASE64_STANDARD.encode(login));
        for (given, wanted) in [
            ("Bearer s3cret-s3cret-s3".to_owned(), true),
            ("bearer s3cret-s3cret-s3".to_owned(), true),
            ("Bearer s3cret-s3cret-s4".to_owned(), false),
            ("Bearer s3cret-s3cret-s".to_owned(), false),
            ("Bearer ".to_owned(), false),
            ("s3cret-s3cret-s3".to_owned(), false),
            (basic("anyone:s3cret-s3cret-s3"), true),
            (basic("s3cret-s3cret-s3"), false),
            (basic("s3cret-s3cret-s3:"), false),
            ("Basic !".to_owned(), false),
        ] {
            let headers = headers(header::AUTHORIZATION, &given);
            assert_eq!(is_permitted(&headers, Some("s3cret-s3cret-s3")), wanted, "{given}");
        }
        assert!(!is_permitted(&HeaderMap::new(), Some("s3cret-s3cret-s3")));
    }

    #[test]
    fn without_a_token_a_name_that_another_site_may_have_is_refused() {
        for (host, wanted) in [
            ("localhost", true),
            ("localhost:8417", true),
            ("127.0.0.1:8417", true),
            ("[::1]:8417", true),
            ("example.com", false),
            ("localhost.example.com:8417", false),
            ("127.0.0.1.example.com", false),
            ("", false),
        ] {
            assert_eq!(is_permitted(&headers(header::HOST, host), None), wanted, "{host}");
        }
        assert!(is_permitted(&HeaderMap::new(), None), "of HTTP/1.0");
    }

    #[test]
    fn metrics_are_in_protobuf_only_for_clients_that_prefer_it() {
        let proto = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=";
        for (accepted, wanted) in [
            // With native histograms, Prometheus 2.40 asks so, and 3.8 so.
            (format!("{proto}delimited,application/openmetrics-text;q=0.8,text/plain;version=0.0.4;q=0.5"), true),
            (format!("{proto}delimited;q=0.6, text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,*/*;q=0.1"), true),
            (format!("{proto}delimited"), true),
            (format!("{proto}delimited;q=0.3,text/plain;q=0.5"), false),
            (format!("{proto}delimited;q=0"), false),
            (format!("{proto}text"), false),
            ("application/vnd.google.protobuf".to_owned(), false),
            ("text/plain;version=0.0.4".to_owned(), false),
            ("*/*".to_owned(), false),
        ] {
            assert_eq!(prefers_protobuf(&headers(header::ACCEPT, &accepted)), wanted, "{accepted}");
        }
        assert!(!prefers_protobuf(&HeaderMap::new()));
    }
}
