//! Sessions of a cluster of equals.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use plimsoll_core::{
    Address, Answer, AsyncSession, Call, KvCall, Op, OpKind, Outcome, SessionFuture, Sessions, StoreError, ValueType,
};

/// Protocol of one connection, to any server of the cluster.
pub trait Protocol: Send {
    /// Connects to the server at `address`, in place of any connection before; prepares `kinds`.
    ///
    /// # Errors
    /// `Unreachable`, or the server's refusal. The next attempt goes to the next server.
    fn connect(&mut self, address: SocketAddr, kinds: &[OpKind]) -> impl Future<Output = Result<(), StoreError>>;

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
    servers: Vec<SocketAddr>,
    place: &str,
    count: u32,
    protocol: impl Fn() -> P,
) -> Sessions {
    let (servers, place): (Arc<[SocketAddr]>, Arc<str>) = (servers.into(), place.into());
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
    servers: Arc<[SocketAddr]>,
    place: Arc<str>,
    /// Position of the server that it is connected to, or connects to next; counted on beyond the last one.
    at: usize,
    lost: Option<StoreError>,
}

impl<P: Protocol> Rotating<P> {
    fn server(&self) -> SocketAddr {
        self.servers[self.at % self.servers.len()]
    }

    async fn connect(&mut self, kinds: &[OpKind]) -> Result<(), StoreError> {
        self.lost = None;
        let server = self.server();
        // The next attempt goes to another server if this one fails or is given up.
        self.at += 1;
        self.protocol.connect(server, kinds).await?;
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
        let server = self.server();
        Some(Address::Tcp(server.ip().to_string(), server.port()))
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
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use plimsoll_core::{StoreErrorKind, Values};

    use super::*;

    /// A connection that fails to come about, or is lost, at the servers in the two lists.
    struct Fragile {
        deaf: Vec<u16>,
        brief: Vec<u16>,
        port: Option<u16>,
    }

    impl Protocol for Fragile {
        async fn connect(&mut self, address: SocketAddr, _: &[OpKind]) -> Result<(), StoreError> {
            if self.deaf.contains(&address.port()) {
                return Err(StoreError::new(StoreErrorKind::Unreachable, "deaf"));
            }
            self.port = Some(address.port());
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
    }

    fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(found) => found,
            Poll::Pending => panic!("it waits"),
        }
    }

    #[test]
    fn sessions_are_dealt_in_turn_and_move_on_when_their_server_fails() {
        let servers = [1, 2, 3].map(|port| SocketAddr::from(([127, 0, 0, 1], port))).to_vec();
        let fragile = || Fragile { deaf: vec![3], brief: vec![2], port: None };
        let Sessions::Async(mut all) = sessions(servers, "here", 4, fragile) else { panic!("no async sessions") };
        let port = |session: &dyn AsyncSession| match session.address() {
            Some(Address::Tcp(_, port)) => port,
            other => panic!("{other:?}"),
        };
        assert_eq!(all.iter().map(|session| port(&**session)).collect::<Vec<_>>(), [1, 2, 3, 1]);
        let (session, mut answer) = (&mut *all[1], Answer::default());
        let op = Op::new(0, Values::default());
        now(session.open(&[])).unwrap();
        assert_eq!((port(session), now(session.execute(&op, &mut answer))), (2, Outcome::Unknown));
        assert_eq!((session.lost().unwrap().what.as_str(), port(session)), ("ended", 3));
        assert_eq!(now(session.open(&[])).unwrap_err().what, "deaf");
        assert_eq!((session.lost(), port(session)), (None, 1), "the one after the deaf one is next");
        now(session.open(&[])).unwrap();
        assert_eq!((now(session.execute(&op, &mut answer)), port(session)), (Outcome::Ok, 1), "it stays there");
    }
}
