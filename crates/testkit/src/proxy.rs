//! A proxy in front of a real server that fails after so many bytes of what the server says: it goes silent, closes, or
//! resets its connections; and one in front of several servers.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plimsoll_core::Address;

/// Longest that a thread of the proxy goes without looking whether it is wanted.
const TICK: Duration = Duration::from_millis(20);

/// Action after the last permitted byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Passes no data any more; connections stay, and new ones are accepted.
    Silent,
    /// Connections end, and new ones end at once.
    Close,
    /// Closes the connection with a reset.
    Reset,
    /// Connections end once; new ones are as good as if there were no proxy.
    Blip,
}

/// Bytes go both ways until those of the answers are spent. Ends when dropped.
pub struct Proxy {
    address: Address,
    shared: Arc<Shared>,
}

struct Shared {
    server: Address,
    fault: Fault,
    /// Bytes of answers that are still passed on.
    left: Mutex<u64>,
    passed: AtomicU64,
    has_failed: AtomicBool,
    is_over: AtomicBool,
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Starts a proxy at a port of the loopback interface whose connections lead to `servers` in turn, as those of an HAProxy
/// do. Returns the port. The proxy ends with the process.
///
/// # Panics
/// If no port is free.
pub fn in_turn(servers: impl IntoIterator<Item = Address>) -> u16 {
    let servers = servers.into_iter().map(|server| Arc::new(Shared::new(server, Fault::Close, u64::MAX)));
    let servers: Vec<Arc<Shared>> = servers.collect();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for (client, server) in listener.incoming().map_while(Result::ok).zip(servers.iter().cycle()) {
            server.serve(Stream::Tcp(client));
        }
    });
    port
}

impl Proxy {
    /// Starts a proxy in front of `server`, at a port of the loopback interface.
    pub fn tcp(server: Address, fault: Fault, after_bytes: u64) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        listener.set_nonblocking(true).expect("a socket that does not block");
        Self::start(Listener::Tcp(listener), Address::Tcp("127.0.0.1".to_owned(), port), server, fault, after_bytes)
    }

    /// Starts a proxy in front of `server`, at a socket that is made at `path`.
    pub fn unix(path: &Path, server: Address, fault: Fault, after_bytes: u64) -> Proxy {
        let listener = UnixListener::bind(path).expect("a socket in a directory of the test's own");
        listener.set_nonblocking(true).expect("a socket that does not block");
        Self::start(Listener::Unix(listener), Address::Unix(path.to_owned()), server, fault, after_bytes)
    }

    fn start(listener: Listener, address: Address, server: Address, fault: Fault, after_bytes: u64) -> Proxy {
        let shared = Arc::new(Shared::new(server, fault, after_bytes));
        let for_thread = Arc::clone(&shared);
        std::thread::spawn(move || {
            while !for_thread.is_over.load(SeqCst) {
                match listener.accept() {
                    Ok(client) => for_thread.serve(client),
                    Err(_) => std::thread::sleep(TICK / 4),
                }
            }
        });
        Proxy { address, shared }
    }

    /// The port at which it listens; 0 at a Unix socket.
    pub fn port(&self) -> u16 {
        match self.address {
            Address::Tcp(_, port) => port,
            Address::Unix(_) => 0,
        }
    }

    /// Bytes of answers that have been passed on.
    pub fn passed_bytes(&self) -> u64 {
        self.shared.passed.load(SeqCst)
    }

    /// True once all bytes are spent.
    pub fn has_failed(&self) -> bool {
        self.shared.has_failed.load(SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, SeqCst);
    }
}

impl Listener {
    fn accept(&self) -> io::Result<Stream> {
        Ok(match self {
            Listener::Tcp(listener) => Stream::Tcp(listener.accept()?.0),
            Listener::Unix(listener) => Stream::Unix(listener.accept()?.0),
        })
    }
}

impl Stream {
    fn connect(address: &Address) -> io::Result<Stream> {
        Ok(match address {
            Address::Tcp(host, port) => Stream::Tcp(TcpStream::connect((host.as_str(), *port))?),
            Address::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
        })
    }

    /// Returns both directions of the stream; reads check for the end at every tick.
    fn halves(self) -> io::Result<(Stream, Stream)> {
        Ok(match self {
            Stream::Tcp(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(TICK))?;
                (Stream::Tcp(stream.try_clone()?), Stream::Tcp(stream))
            }
            Stream::Unix(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(TICK))?;
                (Stream::Unix(stream.try_clone()?), Stream::Unix(stream))
            }
        })
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(bytes),
            Stream::Unix(stream) => stream.read(bytes),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.write_all(bytes),
            Stream::Unix(stream) => stream.write_all(bytes),
        }
    }

    fn end(&self, by_reset: bool) {
        // It may have ended by itself.
        let _ = match self {
            Stream::Tcp(stream) if by_reset => {
                rustix::net::sockopt::set_socket_linger(stream.as_fd(), Some(Duration::ZERO)).map_err(io::Error::from)
            }
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Shared {
    fn new(server: Address, fault: Fault, after_bytes: u64) -> Self {
        Self {
            server,
            fault,
            left: Mutex::new(after_bytes),
            passed: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }

    fn serve(self: &Arc<Self>, client: Stream) {
        let ends = self.has_failed.load(SeqCst) && matches!(self.fault, Fault::Close | Fault::Reset);
        if ends {
            return client.end(self.fault == Fault::Reset);
        }
        let Ok(server) = Stream::connect(&self.server) else { return };
        let (Ok((from_client, to_client)), Ok((from_server, to_server))) = (client.halves(), server.halves()) else {
            return;
        };
        let is_later = self.has_failed.load(SeqCst);
        for (from, to, is_answer) in [(from_client, to_server, false), (from_server, to_client, true)] {
            let shared = Arc::clone(self);
            std::thread::spawn(move || shared.pass(from, to, is_answer, is_later));
        }
    }

    /// Passes on what comes, one way, until either end has gone or the bytes are spent.
    fn pass(&self, mut from: Stream, mut to: Stream, is_answer: bool, is_later: bool) {
        let mut bytes = vec![0; 16 << 10];
        while !self.is_over.load(SeqCst) {
            if self.has_failed.load(SeqCst) && !(is_later && self.fault == Fault::Blip) {
                if self.fault == Fault::Silent {
                    std::thread::sleep(TICK);
                    continue;
                }
                from.end(self.fault == Fault::Reset);
                return to.end(self.fault == Fault::Reset);
            }
            let count = match from.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => continue,
                Err(_) => break,
            };
            let passed = if is_answer { self.spend(count) } else { count };
            if to.write_all(&bytes[..passed]).is_err() {
                break;
            }
        }
        from.end(false);
        to.end(false);
    }

    /// Returns the number of bytes of answers, at most `count`, that are passed on.
    fn spend(&self, count: usize) -> usize {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if self.has_failed.load(SeqCst) && self.fault == Fault::Blip {
            return count;
        }
        let passed = (*left).min(count as u64);
        *left -= passed;
        self.passed.fetch_add(passed, SeqCst);
        if *left == 0 {
            self.has_failed.store(true, SeqCst);
        }
        passed as usize
    }
}
