//! One connection that waits for its answers: for the control plane, where nothing is measured.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use plimsoll_core::{Address, StoreError, StoreErrorKind};
use plimsoll_tls::Tls;

use crate::endpoint::{Endpoint, Login};
use crate::resp::{self, Aggregate, Reply, Token};
use crate::wire::{self, CLIENT_NAME};

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const READ_BYTES: usize = 64 << 10;

/// A reply that owns what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A string or a status.
    Text(Vec<u8>),
    /// An integer.
    Int(i64),
    /// Nothing.
    Null,
    /// An array, a set, or a map's keys and values in turn.
    List(Vec<Node>),
    /// An error within an array.
    Error(String),
}

impl Node {
    /// As text; empty when it is none.
    pub fn text(&self) -> String {
        match self {
            Node::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Node::Int(number) => number.to_string(),
            Node::Error(words) => words.clone(),
            Node::Null | Node::List(_) => String::new(),
        }
    }

    /// The elements of a list; none when it is no list.
    pub fn list(&self) -> &[Node] {
        match self {
            Node::List(all) => all,
            _ => &[],
        }
    }
}

trait Stream: Read + Write + Send {
    fn set_timeout(&self, timeout: Duration) -> std::io::Result<()>;
}

impl Stream for UnixStream {
    fn set_timeout(&self, timeout: Duration) -> std::io::Result<()> {
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }
}

impl Stream for TcpStream {
    fn set_timeout(&self, timeout: Duration) -> std::io::Result<()> {
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }
}

/// A connection whose calls return when they are done. After an error of the connection itself it is of no more use.
pub struct Control {
    stream: Box<dyn Stream>,
    login: Login,
    tls: Option<Tls>,
    /// What arrived, decrypted, and has not been used yet.
    input: Vec<u8>,
    timeout: Duration,
}

impl Control {
    /// Connects and logs in.
    ///
    /// # Errors
    /// `Unreachable`, `Authentication`, `Permission`, or as the server says.
    pub fn open(endpoint: &Endpoint, timeout: Duration) -> Result<Self, StoreError> {
        let place = &endpoint.login.place;
        let nobody = |error: &std::io::Error| {
            let denied = error.kind() == std::io::ErrorKind::PermissionDenied;
            let kind = if denied { StoreErrorKind::Permission } else { StoreErrorKind::Unreachable };
            StoreError::new(kind, format!("nobody can be reached at {place}"))
                .detail(error.to_string())
                .next("Check host, port or socket, and that the server runs and listens there.")
        };
        let tls = endpoint.tls_client()?.map(|client| client.connect(endpoint.host(), place)).transpose()?;
        let stream = connect(&endpoint.address).map_err(|error| nobody(&error))?;
        stream.set_timeout(timeout).map_err(|error| nobody(&error))?;
        let mut control = Control { stream, login: endpoint.login.clone(), tls, input: Vec::new(), timeout };
        let mut out = Vec::new();
        if let Some(tls) = &mut control.tls {
            tls.begin(&mut out);
            control.write(&out)?;
            out.clear();
        }
        let asks = wire::authenticate(&control.login, &mut out);
        if asks {
            control.send(&out)?;
            control.greeted()?;
        }
        match control.command(&[b"CLIENT", b"SETNAME", CLIENT_NAME]) {
            Err(error) if error.detail.as_deref().is_some_and(|words| words.starts_with("NOPERM")) => {}
            other => drop(other?),
        }
        if control.login.database != 0 {
            let database = control.login.database.to_string();
            control.command(&[b"SELECT", database.as_bytes()])?;
        }
        Ok(control)
    }

    /// Sets how long the server may be silent while something is asked.
    ///
    /// # Errors
    /// Of the operating system.
    pub fn set_timeout(&mut self, timeout: Duration) -> Result<(), StoreError> {
        self.timeout = timeout;
        self.stream.set_timeout(timeout).map_err(|error| StoreError::io(&self.login.place, &error))
    }

    /// Asks one command.
    ///
    /// # Errors
    /// What the server refused, its own words as detail; or `Unreachable`.
    pub fn command(&mut self, words: &[&[u8]]) -> Result<Node, StoreError> {
        let mut out = Vec::new();
        resp::command(&mut out, words);
        self.send(&out)?;
        match self.reply()? {
            Node::Error(text) => Err(self.refused(words.first().copied().unwrap_or_default(), &text)),
            node => Ok(node),
        }
    }

    /// True when the server has not ended the connection since it was last used.
    pub fn is_alive(&mut self) -> bool {
        self.command(&[b"PING"]).is_ok()
    }

    fn greeted(&mut self) -> Result<(), StoreError> {
        match self.reply()? {
            Node::Error(words) => Err(wire::refusal(words.as_bytes(), &self.login)),
            _ => Ok(()),
        }
    }

    /// What the server said no to.
    fn refused(&self, command: &[u8], words: &str) -> StoreError {
        let code = words.split(' ').next().unwrap_or_default();
        if matches!(code, "NOAUTH" | "WRONGPASS" | "DENIED" | "LOADING") || words.contains("DB index") {
            return wire::refusal(words.as_bytes(), &self.login);
        }
        let kind = if code == "NOPERM" { StoreErrorKind::Permission } else { StoreErrorKind::Store };
        let command = String::from_utf8_lossy(command);
        StoreError::new(kind, format!("{} refused {command}", self.login.place)).detail(words)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let Some(tls) = &mut self.tls else { return self.write(bytes) };
        let mut out = Vec::new();
        tls.send(bytes, &mut out);
        self.write(&out)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.stream.write_all(bytes).map_err(|error| self.lost(&error))
    }

    /// Takes the bytes from `start` on for encrypted, and puts what they say in their place.
    fn decrypt(&mut self, start: usize) -> Result<(), StoreError> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        let (cipher, mut out) = (self.input.split_off(start), Vec::new());
        tls.feed(&cipher, &mut self.input, &mut out)?;
        self.write(&out)
    }

    fn reply(&mut self) -> Result<Node, StoreError> {
        loop {
            match resp::whole(&self.input) {
                Ok(Some(used)) => {
                    let node = node(&self.input, &mut 0);
                    self.input.drain(..used);
                    match node {
                        // What was said unasked.
                        None => continue,
                        Some(node) => return Ok(node),
                    }
                }
                Ok(None) => {}
                Err(resp::Malformed) => {
                    let begin: String = self.input.escape_ascii().take(64).map(char::from).collect();
                    let what = format!("{} answered what no Redis server answers", self.login.place);
                    return Err(StoreError::new(StoreErrorKind::Broken, what)
                        .detail(format!("it began with `{begin}`"))
                        .next("Check host and port."));
                }
            }
            let start = self.input.len();
            self.input.resize(start + READ_BYTES, 0);
            let received = self.stream.read(&mut self.input[start..]);
            self.input.truncate(start + received.as_ref().map_or(0, |count| *count));
            match received {
                Ok(0) => {
                    let what = format!("{} closed the connection", self.login.place);
                    return Err(StoreError::new(StoreErrorKind::Unreachable, what));
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.lost(&error)),
                Ok(_) => self.decrypt(start)?,
            }
        }
    }

    fn lost(&self, error: &std::io::Error) -> StoreError {
        let place = &self.login.place;
        let what = match error.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
                format!("{place} has not answered for {} s", self.timeout.as_secs_f64())
            }
            _ => format!("the connection to {place} was lost: {error}"),
        };
        StoreError::new(StoreErrorKind::Unreachable, what)
    }
}

/// The reply at `at`, which is all there; `None` for what was said unasked. Deep nesting is cut off.
fn node(bytes: &[u8], at: &mut usize) -> Option<Node> {
    fn inner(bytes: &[u8], at: &mut usize, depth: u32) -> Option<Node> {
        loop {
            match resp::token(bytes.get(*at..)?) {
                Token::Reply(reply, used) => {
                    *at += used;
                    return Some(match reply {
                        Reply::Bulk(bytes) | Reply::Simple(bytes) => Node::Text(bytes.to_vec()),
                        Reply::Null => Node::Null,
                        Reply::Int(number) => Node::Int(number),
                        Reply::Error(words) => Node::Error(String::from_utf8_lossy(words).into_owned()),
                    });
                }
                Token::Aggregate(_, _, _) if depth == 0 => return None,
                Token::Aggregate(sort, elements, used) => {
                    *at += used;
                    let all = (0..elements).map_while(|_| inner(bytes, at, depth - 1)).collect();
                    match sort {
                        Aggregate::Push => return None,
                        Aggregate::Attributes => {}
                        Aggregate::List | Aggregate::Map => return Some(Node::List(all)),
                    }
                }
                _ => return None,
            }
        }
    }
    inner(bytes, at, 16)
}

fn connect(address: &Address) -> std::io::Result<Box<dyn Stream>> {
    match address {
        Address::Unix(path) => Ok(Box::new(UnixStream::connect(path)?)),
        Address::Tcp(host, port) => {
            let mut failure = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
            for address in (host.as_str(), *port).to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                    Ok(stream) => {
                        stream.set_nodelay(true)?;
                        return Ok(Box::new(stream));
                    }
                    Err(error) => failure = error,
                }
            }
            Err(failure)
        }
    }
}
