//! Blocking connection for the control plane, where nothing is measured.

use std::future::{Future, poll_fn};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::header::HeaderValue;
use plimsoll_core::{ANSWER_BYTES_MAX, StoreError, StoreErrorKind, Waits, waits};
use plimsoll_endpoint::equals::{Addresses, Login};
use plimsoll_endpoint::tls::Tls;
use plimsoll_endpoint::{Cause, Connected, Encrypted, connect};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::channel::{AUTHENTICATE, Channel, Failure, STATUS, agreed, finished, head, origin};
use crate::messages::{Writer, bytes, login, number, token};

/// Status that a server reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Status {
    pub version: String,
    pub db_bytes: u64,
    pub in_use_bytes: u64,
    /// Id of the cluster.
    pub cluster: u64,
    /// Ids of the member itself and of the leader.
    pub member: u64,
    pub leader: u64,
    pub revision: u64,
    pub raft_term: u64,
    pub applied: u64,
}

impl Status {
    pub fn read(message: &[u8]) -> Self {
        Self {
            version: String::from_utf8_lossy(bytes(message, 2)).into_owned(),
            db_bytes: number(message, 3),
            cluster: number(bytes(message, 1), 1),
            member: number(bytes(message, 1), 2),
            leader: number(message, 4),
            raft_term: number(message, 6),
            applied: number(message, 7),
            in_use_bytes: number(message, 9),
            revision: number(bytes(message, 1), 3),
        }
    }
}

/// Returns true for an error reply of a member that has no room for more data: `mvcc: database space exceeded`. Other
/// replies have the code (`RESOURCE_EXHAUSTED`), too.
pub(crate) fn is_of_full_disk(code: u32, words: &str) -> bool {
    code == 8 && words.contains("space")
}

/// Returns the error of a call that failed at `place`.
pub(crate) fn refused(place: &str, failure: Failure) -> StoreError {
    use StoreErrorKind as K;
    let (code, words) = match failure {
        Failure::Said(code, words) => (code, words),
        Failure::Lost(words) => {
            let error = StoreError::new(K::Unreachable, format!("{place}: the connection is lost")).detail(words);
            return error.next(match place.starts_with("etcds:") {
                true => "check that etcd runs and listens there; without TLS, write etcd://",
                false => "check that etcd runs and listens there; with TLS, write etcds://",
            });
        }
        Failure::Encryption(error) => return error,
        Failure::TooLarge(bytes) => return StoreError::answer_too_large(place, Some(bytes as u64), ANSWER_BYTES_MAX),
    };
    let kind = match code {
        16 => K::Authentication,
        3 if words.contains("authentication") || words.contains("user name") => K::Authentication,
        7 => K::Permission,
        code if is_of_full_disk(code, &words) => K::DiskFull,
        14 => K::Unreachable,
        _ => K::Store,
    };
    let error = StoreError::new(kind, format!("{place} refused a call")).detail(words);
    match kind {
        K::Authentication => {
            error.next("check the user in the URL, and ETCDCTL_PASSWORD or the file given with --password-file")
        }
        K::Permission => error.next("grant the user's role readwrite of keys that begin with plimsoll:"),
        _ => error,
    }
}

/// Socket whose reads and writes never wait, in clear or inside TLS.
struct Patient {
    socket: Arc<TcpStream>,
    tls: Option<Box<Encrypted>>,
    /// Bytes wait for room in the socket.
    is_full: Arc<AtomicBool>,
}

impl Patient {
    /// Performs the handshake of TLS.
    async fn encrypt(&mut self, tls: Tls, cause: &Cause) -> Result<(), StoreError> {
        let Self { socket, is_full, .. } = self;
        let mut layer = Box::new(Encrypted::new(tls, cause));
        poll_fn(|_| {
            let shaken = layer.shake_hands(&**socket);
            is_full.store(layer.has_unsent(), SeqCst);
            shaken
        })
        .await?;
        self.tls = Some(layer);
        Ok(())
    }
}

fn later<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}

impl AsyncRead for Patient {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { socket, tls, .. } = self.get_mut();
        let free = buffer.initialize_unfilled();
        let read = match tls {
            None => (&**socket).read(free),
            Some(tls) => tls.read(&**socket, free),
        };
        later(read).map_ok(|count| buffer.advance(count))
    }
}

impl AsyncWrite for Patient {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Self { socket, tls, is_full } = self.get_mut();
        let written = later(match tls {
            None => (&**socket).write(bytes),
            Some(tls) => tls.write(&**socket, bytes),
        });
        is_full.store(written.is_pending() || tls.as_ref().is_some_and(|tls| tls.has_unsent()), SeqCst);
        written
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { socket, tls, is_full } = self.get_mut();
        let Some(tls) = tls else { return Poll::Ready(Ok(())) };
        let flushed = later(tls.flush(&**socket));
        is_full.store(flushed.is_pending(), SeqCst);
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.socket.shutdown(std::net::Shutdown::Write))
    }
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

struct Line {
    socket: Arc<TcpStream>,
    is_full: Arc<AtomicBool>,
    waits: Waits,
    place: String,
}

impl Line {
    /// Runs `future`, which waits for nothing but the socket, to its end.
    fn wait<T>(&self, bound: Duration, future: impl Future<Output = T>) -> Result<T, StoreError> {
        let mut future = pin!(future);
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(Arc::clone(&woken));
        let began = Instant::now();
        loop {
            if let Poll::Ready(found) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Ok(found);
            }
            if woken.0.swap(false, SeqCst) {
                continue;
            }
            let writes = if self.is_full.load(SeqCst) { PollFlags::OUT } else { PollFlags::empty() };
            let mut sockets = [PollFd::new(&*self.socket, PollFlags::IN | writes)];
            let tick = Timespec { tv_sec: 0, tv_nsec: waits::TICK.as_nanos() as _ };
            // A wait that a signal interrupts is repeated.
            let _ = poll(&mut sockets, Some(&tick));
            self.waits.check()?;
            if began.elapsed() > bound {
                let what = format!("{}: no answer within {} s", self.place, bound.as_secs_f64());
                return Err(StoreError::new(StoreErrorKind::Unreachable, what)
                    .next("see in etcd's log why; a cluster without a majority answers nothing"));
            }
        }
    }
}

/// Connection whose calls block until their replies arrive.
pub(crate) struct Control {
    line: Line,
    channel: Channel<Patient>,
    /// Scheme, host and port of calls.
    origin: String,
    login: Option<Login>,
    pub token: Option<HeaderValue>,
    /// Calls that were repeated with a new token, since this was last taken.
    pub asked_again: u64,
    out: BytesMut,
}

impl Connected for Control {
    fn is_alive(&mut self) -> bool {
        self.channel.is_alive(&mut Context::from_waker(Waker::noop()))
    }
}

impl Control {
    /// Connects to the first of `addresses`, and logs in.
    ///
    /// # Errors
    /// `Unreachable`, `Authentication`, `Interrupted`, or the server's refusal.
    pub fn open(addresses: &Addresses, waits: &Waits) -> Result<Self, StoreError> {
        let place = addresses.place.clone();
        let socket = connect(&addresses.first(), waits).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => waits::interrupted(),
            _ => StoreError { kind: StoreErrorKind::Unreachable, ..StoreError::io(&place, &error) }
                .next("check that etcd runs and listens there"),
        })?;
        let socket = Arc::new(TcpStream::from(socket));
        // A failure costs time alone.
        let _ = socket.set_nodelay(true);
        let is_full = Arc::<AtomicBool>::default();
        let line = Line { socket: Arc::clone(&socket), is_full: Arc::clone(&is_full), waits: waits.clone(), place };
        let (mut patient, cause) = (Patient { socket, tls: None, is_full }, Cause::default());
        if let Some(tls) = addresses.tls_to_first()? {
            line.wait(waits.answer(), patient.encrypt(tls, &cause))?.map_err(|error| match error.kind {
                StoreErrorKind::Unreachable => {
                    error.next("check that etcd listens there with TLS; without, write etcd://")
                }
                _ => error,
            })?;
            agreed(patient.tls.as_ref().and_then(|tls| tls.protocol()), &line.place)?;
        }
        let channel = line.wait(waits.answer(), Channel::open(patient, cause))?;
        let channel = channel.map_err(|failure| refused(&line.place, failure))?;
        let (host, port) = &addresses.hosts[0];
        let origin = origin(addresses.tls.is_some(), &format!("{}:{port}", plimsoll_endpoint::shown_host(host)));
        let login = addresses.login.clone();
        let mut control = Self { line, channel, origin, login, token: None, asked_again: 0, out: BytesMut::new() };
        control.log_in()?;
        Ok(control)
    }

    /// Gets a token for the login, if there is one.
    fn log_in(&mut self) -> Result<(), StoreError> {
        self.token = None;
        let Some(user) = self.login.clone() else { return Ok(()) };
        login(&user, &mut Writer::begin(&mut self.out));
        let message = finished(&mut self.out);
        let answer = self.send(self.line.waits.answer(), AUTHENTICATE, message)?;
        self.token = token(&answer.map_err(|failure| refused(&self.line.place, failure))?);
        Ok(())
    }

    /// Calls `path` with the message that `write` writes.
    ///
    /// # Errors
    /// The server's refusal, with its own words as detail; or `Unreachable`.
    pub fn call(&mut self, path: &'static str, write: impl FnOnce(&mut Writer<'_>)) -> Result<Bytes, StoreError> {
        let bound = self.line.waits.answer();
        self.call_within(bound, path, write)
    }

    /// Calls `path` as [`Control::call`], with the time limit of long work.
    pub fn long_call(&mut self, path: &'static str, write: impl FnOnce(&mut Writer<'_>)) -> Result<Bytes, StoreError> {
        let bound = self.line.waits.work();
        self.call_within(bound, path, write)
    }

    fn call_within(
        &mut self,
        bound: Duration,
        path: &'static str,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<Bytes, StoreError> {
        write(&mut Writer::begin(&mut self.out));
        let message = finished(&mut self.out);
        let mut called = self.send(bound, path, message.clone())?;
        if self.login.is_some() && called.as_ref().is_err_and(Failure::is_of_token) {
            self.log_in()?;
            self.asked_again += 1;
            called = self.send(bound, path, message)?;
        }
        called.map_err(|failure| refused(&self.line.place, failure))
    }

    fn send(
        &mut self,
        bound: Duration,
        path: &'static str,
        message: Bytes,
    ) -> Result<Result<Bytes, Failure>, StoreError> {
        let unwritable = || StoreError::usage(format!("{} is no host's name", self.line.place));
        let head = head(path, &self.origin, self.token.as_ref()).ok_or_else(unwritable)?;
        let called = self.line.wait(bound, self.channel.call(&head, message, ANSWER_BYTES_MAX))?;
        Ok(called.map_err(|failure| self.channel.explained(failure)))
    }

    /// Returns the server's status.
    pub fn status(&mut self) -> Result<Status, StoreError> {
        self.call(STATUS, |_| {}).map(|message| Status::read(&message))
    }
}
