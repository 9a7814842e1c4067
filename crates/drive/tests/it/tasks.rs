//! Any session without I/O as an asynchronous one, over tokio's sockets: what is tested of the wire executor is tested
//! of the asynchronous one too.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use plimsoll_core::{
    Address, Answer, AsyncSession, CompletionSink, Op, OpKind, Outcome, SessionFuture, Sessions, StoreError,
    StoreErrorKind, Ticket, WireClient, WireSession, WireState,
};
use plimsoll_drive::{DriveSpec, Limit, Pace, StopReason};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::seen::{drive, drive_until, endless, refused};

thread_local! {
    static OVER_TASKS: Cell<bool> = const { Cell::new(false) };
}

/// Makes sessions of this thread asynchronous from now on.
pub fn over_tasks() {
    OVER_TASKS.set(true);
}

/// Sessions of whichever shape is wanted.
pub fn shaped(clients: impl Iterator<Item = WireClient>) -> Sessions {
    if !OVER_TASKS.get() {
        return Sessions::Wire(clients.collect());
    }
    Sessions::Async(clients.map(|client| Box::new(Over::new(client)) as Box<dyn AsyncSession>).collect())
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

struct Over {
    address: Address,
    session: Box<dyn WireSession>,
    socket: Option<Box<dyn Stream>>,
    out: Vec<u8>,
    place: String,
    lost: Option<StoreError>,
}

struct Came<'a>(&'a mut Answer, Option<Outcome>);

impl CompletionSink for Came<'_> {
    fn push(&mut self, _: Ticket, outcome: Outcome, answer: &Answer) {
        self.0.clone_from(answer);
        self.1 = Some(outcome);
    }
}

impl Over {
    fn new(client: WireClient) -> Self {
        let place = format!("{:?}", client.address);
        Self { address: client.address, session: client.session, socket: None, out: Vec::new(), place, lost: None }
    }

    async fn connect(&mut self, kinds: &[OpKind]) -> Result<(), StoreError> {
        let failed = |error| StoreError::io("the toy's server", &error);
        self.out.clear();
        self.lost = None;
        self.socket = None;
        let mut socket: Box<dyn Stream> = match &self.address {
            Address::Unix(path) => Box::new(UnixStream::connect(path).await.map_err(failed)?),
            Address::Tcp(host, port) => {
                let host = if host == "localhost" { "127.0.0.1" } else { host };
                let address = std::net::SocketAddr::new(host.parse().unwrap(), *port);
                Box::new(TcpStream::connect(address).await.map_err(failed)?)
            }
        };
        self.session.open(kinds, &mut self.out);
        socket.write_all(&self.out).await.map_err(failed)?;
        self.socket = Some(socket);
        while *self.session.state() == WireState::Opening {
            self.hear(&mut Came(&mut Answer::default(), None), &mut Vec::new()).await?;
        }
        match self.session.state() {
            WireState::Failed(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    async fn hear(&mut self, came: &mut Came<'_>, rest: &mut Vec<u8>) -> Result<(), StoreError> {
        let failed = |error| StoreError::io("the toy's server", &error);
        let mut bytes = [0; 4096];
        let count = self.socket.as_mut().unwrap().read(&mut bytes).await.map_err(failed)?;
        if count == 0 {
            return Err(StoreError::new(StoreErrorKind::Unreachable, "the server closed the connection"));
        }
        rest.extend_from_slice(&bytes[..count]);
        let used = self.session.feed(rest, &mut Vec::new(), came);
        rest.drain(..used);
        Ok(())
    }

    async fn ask(&mut self, came: &mut Came<'_>) -> Result<(), StoreError> {
        let failed = |error| StoreError::io("the toy's server", &error);
        self.socket.as_mut().unwrap().write_all(&self.out).await.map_err(failed)?;
        let mut rest = Vec::new();
        while came.1.is_none() {
            self.hear(came, &mut rest).await?;
            if let WireState::Failed(error) = self.session.state() {
                return Err(error.clone());
            }
        }
        Ok(())
    }
}

impl AsyncSession for Over {
    fn open<'a>(&'a mut self, kinds: &'a [OpKind]) -> SessionFuture<'a, Result<(), StoreError>> {
        Box::pin(self.connect(kinds))
    }

    fn limit_answers(&mut self, _: usize) {}

    fn execute<'a>(&'a mut self, op: &Op<'_>, answer: &'a mut Answer) -> SessionFuture<'a, Outcome> {
        self.out.clear();
        self.session.start(Ticket(0), op, &mut self.out);
        Box::pin(async move {
            let mut came = Came(answer, None);
            match self.ask(&mut came).await {
                Ok(()) => came.1.unwrap(),
                Err(error) => {
                    self.lost = Some(error.clone());
                    answer.fail(Outcome::Unknown, "connection", &error.to_string())
                }
            }
        })
    }

    fn place(&self) -> &str {
        &self.place
    }

    fn address(&self) -> Option<Address> {
        Some(self.address.clone())
    }

    fn lost(&self) -> Option<StoreError> {
        self.lost.clone()
    }

    fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(socket) = &mut self.socket else { return Poll::Pending };
        // Between operations the toy's server sends nothing.
        Pin::new(socket).poll_read(context, &mut ReadBuf::new(&mut [0])).map(drop)
    }
}

/// A client that answers without a wait, never, or not at all.
struct Plain(fn(i64) -> Option<bool>);

impl AsyncSession for Plain {
    fn open<'a>(&'a mut self, _: &'a [OpKind]) -> SessionFuture<'a, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn limit_answers(&mut self, _: usize) {}

    fn execute<'a>(&'a mut self, op: &Op<'_>, _: &'a mut Answer) -> SessionFuture<'a, Outcome> {
        let plimsoll_core::Value::Int(number) = op.params.get(0) else { panic!("an operation without its number") };
        match (self.0)(number) {
            Some(true) => Box::pin(async { Outcome::Ok }),
            Some(false) => panic!("a client that is broken"),
            None => Box::pin(std::future::pending()),
        }
    }

    fn place(&self) -> &str {
        "nowhere"
    }

    fn lost(&self) -> Option<StoreError> {
        None
    }
}

fn plain(count: usize, manner: fn(i64) -> Option<bool>) -> Sessions {
    Sessions::Async((0..count).map(|_| Box::new(Plain(manner)) as Box<dyn AsyncSession>).collect())
}

#[test]
fn clients_that_never_wait_all_have_their_turns() {
    let spec =
        DriveSpec { limit: Limit::Duration(Duration::from_millis(200)), each_max: 1 << 20, ..DriveSpec::default() };
    let (driven, log) = drive(&spec, plain(3, |_| Some(true)), endless());
    log.check_cycles(1);
    for client in 0..3 {
        assert!(driven.result.each.iter().filter(|op| op.client == client).count() > 100, "{client}");
    }
}

#[test]
fn a_client_that_never_answers_is_given_up_and_opened_again() {
    let spec = DriveSpec {
        limit: Limit::Duration(Duration::from_millis(500)),
        op_timeout: Duration::from_millis(100),
        ..DriveSpec::default()
    };
    let (driven, _) = drive(&spec, plain(2, |_| None), endless());
    let unknown = driven.outcome(Outcome::Unknown);
    assert!((2..=10).contains(&unknown), "{unknown}");
    assert!(driven.result.errors[0].message.contains("no answer within 0.1 s"), "{:?}", driven.result.errors);
    assert!(driven.length() < Duration::from_secs(60), "{:?}", driven.length());
}

#[test]
fn a_stop_ends_the_wait_for_an_answer() {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        flag.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    let spec =
        DriveSpec { limit: Limit::Duration(Duration::from_secs(60)), pace: Pace::even(10.0), ..DriveSpec::default() };
    let began = std::time::Instant::now();
    let driven = drive_until(&spec, plain(1, |_| None), &stop, |_| {});
    stopper.join().unwrap();
    assert_eq!(driven.result.stop, StopReason::Cancelled);
    assert_eq!((driven.outcome(Outcome::Unknown), driven.outcome(Outcome::Rejected)), (1, 0), "nobody saw its end");
    assert!(driven.result.unfinished > 0, "what was due and not sent is told");
    // Without an end of the wait it would take a minute; the rest is for a loaded machine.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn a_client_that_panics_ends_the_phase_and_its_words_are_told() {
    let error = refused(&DriveSpec::default(), plain(2, |_| Some(false)), endless());
    assert!(error.to_string().contains("a client that is broken"));
}

/// A client whose first connection ends at once, or one that takes a while to open.
struct Unsteady {
    is_slow: bool,
    opened: u32,
}

impl AsyncSession for Unsteady {
    fn open<'a>(&'a mut self, _: &'a [OpKind]) -> SessionFuture<'a, Result<(), StoreError>> {
        self.opened += 1;
        let until = Instant::now() + Duration::from_millis(if self.is_slow { 150 } else { 0 });
        Box::pin(poll_fn(move |context| {
            context.waker().wake_by_ref();
            if Instant::now() < until { Poll::Pending } else { Poll::Ready(Ok(())) }
        }))
    }

    fn limit_answers(&mut self, _: usize) {}

    fn execute<'a>(&'a mut self, _: &Op<'_>, _: &'a mut Answer) -> SessionFuture<'a, Outcome> {
        Box::pin(async { Outcome::Ok })
    }

    fn place(&self) -> &str {
        "nowhere"
    }

    fn lost(&self) -> Option<StoreError> {
        None
    }

    fn poll_ended(&mut self, _: &mut Context<'_>) -> Poll<()> {
        if !self.is_slow && self.opened == 1 { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[test]
fn a_connection_that_ends_while_others_are_opened_is_opened_again_and_the_phase_begins() {
    let spec =
        DriveSpec { limit: Limit::Duration(Duration::from_millis(200)), each_max: 1 << 20, ..DriveSpec::default() };
    let client = |is_slow| Box::new(Unsteady { is_slow, opened: 0 }) as Box<dyn AsyncSession>;
    let (driven, log) = drive(&spec, Sessions::Async(vec![client(false), client(true)]), endless());
    log.check_cycles(1);
    for client in 0..2 {
        assert!(driven.result.each.iter().filter(|op| op.client == client).count() > 100, "{client}");
    }
}
