//! Sessions of a cluster of equals.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};

use plimsoll_core::{
    Address, Answer, AsyncSession, Call, KvCall, Op, OpKind, Outcome, SessionFuture, Sessions, StoreError,
    StoreErrorKind, ValueType,
};

use super::ServerAddresses;
use super::reach::reach;
use crate::SessionSocket;

/// Protocol of one connection, to any server of the cluster.
pub trait Protocol: Send {
    /// Greets `server` over `socket`, which is in clear, in place of any connection before; prepares `kinds`.
    ///
    /// # Errors
    /// `Unreachable`, or the server's refusal. The next attempt goes to the next server.
    fn connect(
        &mut self,
        socket: SessionSocket,
        server: &ServerAddresses,
        kinds: &[OpKind],
    ) -> impl Future<Output = Result<(), StoreError>>;

    /// Ready once the server has ended the connection. Polled between operations.
    fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Requests that the server had refused to begin, and that were sent again.
    fn asked_again(&self) -> u64 {
        0
    }

    /// Drops the connection.
    fn hang_up(&mut self);

    /// Limits the bytes that are kept of one answer.
    fn limit_answers(&mut self, bytes_max: usize);

    /// Takes what it needs from `op`.
    fn take(&mut self, op: &Op<'_>);

    /// Carries out the operation that was taken, whose kind is `kind`.
    ///
    /// # Errors
    /// The cause of a lost connection; the operation's outcome is unknown.
    fn ask(&mut self, kind: usize, answer: &mut Answer) -> impl Future<Output = Result<Outcome, StoreError>>;
}

/// Returns `count` sessions, dealt to `servers` in turn. `place` names the cluster in messages.
pub fn sessions<P: Protocol + 'static>(
    servers: Vec<ServerAddresses>,
    place: &str,
    count: u32,
    protocol: impl Fn() -> P,
) -> Sessions {
    let (servers, place): (Arc<[ServerAddresses]>, Arc<str>) = (servers.into(), place.into());
    let session = |number| {
        let (servers, place) = (Arc::clone(&servers), Arc::clone(&place));
        let session = Rotating { protocol: protocol(), servers, place, at: number as usize, lost: None };
        Box::new(session) as Box<dyn AsyncSession>
    };
    Sessions::Async((0..count).map(session).collect())
}

/// A session that moves to the next server when its own is lost.
struct Rotating<P> {
    protocol: P,
    servers: Arc<[ServerAddresses]>,
    place: Arc<str>,
    /// Position of the server that it is connected to, or connects to next; counted on beyond the last one.
    at: usize,
    lost: Option<StoreError>,
}

impl<P: Protocol> Rotating<P> {
    fn server(&self) -> &ServerAddresses {
        &self.servers[self.at % self.servers.len()]
    }

    async fn connect(&mut self, kinds: &[OpKind]) -> Result<(), StoreError> {
        self.lost = None;
        let servers = Arc::clone(&self.servers);
        let server = &servers[self.at % servers.len()];
        // The next attempt goes to another server if this one fails or is given up.
        self.at += 1;
        let unreachable = |error| StoreError {
            kind: StoreErrorKind::Unreachable,
            ..StoreError::io(&server.place, &error).next("check that the server runs and listens there")
        };
        let socket = reach(&server.all).await.map_err(unreachable)?;
        self.protocol.connect(SessionSocket::clear(socket), server, kinds).await?;
        self.at -= 1;
        Ok(())
    }

    #[cold]
    fn lose(&mut self, error: StoreError, answer: &mut Answer) -> Outcome {
        answer.fail(Outcome::Unknown, "connection", &error.to_string());
        self.lost = Some(error);
        self.protocol.hang_up();
        self.at += 1;
        Outcome::Unknown
    }
}

impl<P: Protocol> AsyncSession for Rotating<P> {
    fn open<'a>(&'a mut self, kinds: &'a [OpKind]) -> SessionFuture<'a, Result<(), StoreError>> {
        Box::pin(self.connect(kinds))
    }

    fn limit_answers(&mut self, bytes_max: usize) {
        self.protocol.limit_answers(bytes_max);
    }

    fn execute<'a>(&'a mut self, op: &Op<'_>, answer: &'a mut Answer) -> SessionFuture<'a, Outcome> {
        self.protocol.take(op);
        let kind = usize::from(op.kind);
        Box::pin(async move {
            match self.protocol.ask(kind, answer).await {
                Ok(outcome) => outcome,
                Err(error) => self.lose(error, answer),
            }
        })
    }

    fn place(&self) -> &str {
        &self.place
    }

    fn address(&self) -> Option<Address> {
        let first = self.server().all.first()?;
        Some(Address::Tcp(first.ip().to_string(), first.port()))
    }

    fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.protocol.poll_ended(context)
    }

    fn asked_again(&self) -> u64 {
        self.protocol.asked_again()
    }

    fn lost(&self) -> Option<StoreError> {
        self.lost.clone()
    }
}

/// Returns the call of `kind` on keys and values; `None` if it asks for nothing.
///
/// # Errors
/// `Usage` if `store` does not take the call, or its parameters are not those of the call.
pub fn kv_call(kind: &OpKind, store: &str) -> Result<Option<KvCall>, StoreError> {
    let (call, params) = match kind.call {
        Call::Nothing | Call::Steps => return Ok(None),
        Call::Kv(call @ (KvCall::Get | KvCall::Delete)) => (call, 1),
        Call::Kv(call @ (KvCall::Put | KvCall::Scan)) => (call, 2),
        _ => return Err(kind.refused(store)),
    };
    if kind.params.len() != params || !kind.params.iter().all(ValueType::has_bytes) {
        let what = "its parameters are not bytes, texts or integers, one for the key and one for what follows it";
        return Err(StoreError::usage(format!("operation `{}`: {what}", kind.name)));
    }
    Ok(Some(call))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use plimsoll_core::Values;

    use super::*;

    /// A connection that fails to come about, or is lost, at the servers in the two lists.
    struct Fragile {
        deaf: Vec<u16>,
        brief: Vec<u16>,
        port: Option<u16>,
    }

    impl Protocol for Fragile {
        async fn connect(
            &mut self,
            socket: SessionSocket,
            _: &ServerAddresses,
            _: &[OpKind],
        ) -> Result<(), StoreError> {
            let port = socket.peer_port();
            if self.deaf.contains(&port) {
                return Err(StoreError::new(StoreErrorKind::Unreachable, "deaf"));
            }
            self.port = Some(port);
            Ok(())
        }

        fn hang_up(&mut self) {
            self.port = None;
        }

        fn limit_answers(&mut self, _: usize) {}

        fn take(&mut self, _: &Op<'_>) {}

        async fn ask(&mut self, _: usize, _: &mut Answer) -> Result<Outcome, StoreError> {
            let port = self.port.expect("a connection");
            if self.brief.contains(&port) {
                return Err(StoreError::new(StoreErrorKind::Unreachable, "ended"));
            }
            Ok(Outcome::Ok)
        }

        fn poll_ended(&mut self, _: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }
    }

    #[test]
    fn sessions_are_dealt_in_turn_and_move_on_when_their_server_fails() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [one, two, three] = [0, 1, 2].map(|at: usize| listeners[at].local_addr().unwrap().port());
        let server = |port| ServerAddresses::only("eq", ([127, 0, 0, 1], port).into());
        let fragile = || Fragile { deaf: vec![three], brief: vec![two], port: None };
        let servers = [one, two, three].map(server).to_vec();
        let Sessions::Async(mut all) = sessions(servers, "here", 4, fragile) else { panic!("no async sessions") };
        let port = |session: &dyn AsyncSession| match session.address() {
            Some(Address::Tcp(_, port)) => port,
            other => panic!("{other:?}"),
        };
        assert_eq!(all.iter().map(|session| port(&**session)).collect::<Vec<_>>(), [one, two, three, one]);
        let (session, mut answer) = (&mut *all[1], Answer::default());
        let op = Op::new(0, Values::default());
        runtime.block_on(session.open(&[])).unwrap();
        assert_eq!((port(session), runtime.block_on(session.execute(&op, &mut answer))), (two, Outcome::Unknown));
        assert_eq!((session.lost().unwrap().what.as_str(), port(session)), ("ended", three));
        assert_eq!(runtime.block_on(session.open(&[])).unwrap_err().what, "deaf");
        assert_eq!((session.lost(), port(session)), (None, one), "the one after the deaf one is next");
        runtime.block_on(session.open(&[])).unwrap();
        let outcome = runtime.block_on(session.execute(&op, &mut answer));
        assert_eq!((outcome, port(session)), (Outcome::Ok, one), "it stays there");
    }

    #[test]
    fn a_server_is_reached_at_any_address_of_its_name() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let good = listener.local_addr().unwrap();
        // The first address of the name has no listener.
        let all = vec![([127, 0, 0, 2], good.port()).into(), good];
        let servers = vec![ServerAddresses { place: "eq://both:1".to_owned(), host: "both".to_owned(), all }];
        let fragile = || Fragile { deaf: vec![], brief: vec![], port: None };
        let Sessions::Async(mut all) = sessions(servers, "here", 1, fragile) else { panic!("no async sessions") };
        runtime.block_on(all[0].open(&[])).unwrap();
        drop(listener);
        let error = runtime.block_on(all[0].open(&[])).unwrap_err();
        assert!(error.what.contains("eq://both:1") && error.next.is_some(), "{error:?}");
    }
}
