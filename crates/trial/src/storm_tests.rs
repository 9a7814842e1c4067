use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use plimsoll_core::Limits;

use super::*;

fn node(ports: Vec<u16>, socket_dir: PathBuf) -> Node {
    let (address, limits) = (Ipv4Addr::LOCALHOST, Limits::default());
    let (data_dir, secret) = (PathBuf::new(), String::new());
    Node { number: 0, data_dir, socket_dir, log_dir: None, address, ports, secret, limits }
}

/// Begins a storm on a node.
fn begun(node: &Node, connections: u32) -> Result<Storm, TrialError> {
    Storm::begin(vec![StormTarget::of(node)?], connections, None)
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(100), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A server that keeps so many connections, and closes all others.
struct Door {
    port: u16,
    kept: Arc<Mutex<Vec<TcpStream>>>,
    /// Number of connections that were accepted, the closed ones included.
    accepted: Arc<AtomicUsize>,
}

impl Door {
    fn of(most: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, kept) = (listener.local_addr().unwrap().port(), Arc::<Mutex<Vec<TcpStream>>>::default());
        let accepted = Arc::<AtomicUsize>::default();
        let (all, count) = (Arc::clone(&kept), Arc::clone(&accepted));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                let mut all = all.lock().unwrap();
                if all.len() < most {
                    all.push(stream);
                }
            }
        });
        Self { port, kept, accepted }
    }

    /// Returns the number of connections that the client has not closed.
    fn open(&self) -> usize {
        let is_open = |stream: &TcpStream| {
            stream.set_nonblocking(true).unwrap();
            stream.peek(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
        };
        self.kept.lock().unwrap().iter().filter(|stream| is_open(stream)).count()
    }
}

#[test]
fn a_storm_holds_its_connections_until_it_ends() {
    let door = Door::of(usize::MAX);
    let storm = begun(&node(vec![door.port], PathBuf::new()), 100).unwrap();
    wait_for("all connections", || door.open() == 100);
    let (sentence, is_whole) = storm.end();
    let wanted = format!(
        "connection storm on 127.0.0.1:{}: at most 100 of 100 connections were open at once; \
         0 attempts failed, and servers closed 0 connections",
        door.port
    );
    assert!(is_whole && sentence == wanted, "{sentence}");
    wait_for("their end", || door.open() == 0);
}

#[test]
fn connections_that_the_server_closes_are_opened_again_but_not_at_once() {
    let door = Door::of(5);
    let since = Instant::now();
    let mut storm = begun(&node(vec![door.port], PathBuf::new()), 8).unwrap();
    // All eight, and the three that were closed twice more.
    wait_for("other connections", || door.accepted.load(Ordering::SeqCst) >= 8 + 2 * 3);
    assert_eq!(door.open(), 5);
    let counts = storm.stop();
    // Three of them, at most every 100 ms.
    let most = 3 * (since.elapsed().as_millis() as u64 / 100 + 1);
    assert!((6..=most).contains(&counts.closed) && counts.refused == 0, "{most}: {counts:?}");
}

#[test]
fn a_node_without_a_port_is_reached_by_its_socket() {
    let directory = tempfile::tempdir().unwrap();
    let listener = std::os::unix::net::UnixListener::bind(directory.path().join("socket")).unwrap();
    std::fs::write(directory.path().join("lock"), "").unwrap();
    let storm = begun(&node(Vec::new(), directory.path().to_owned()), 20).unwrap();
    let taken: Vec<_> = (0..20).map(|_| listener.accept().unwrap()).collect();
    assert_eq!((taken.len(), storm.end().1), (20, true));
}

#[test]
fn a_storm_that_no_server_takes_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let error = begun(&node(vec![port], PathBuf::new()), 3).err().unwrap();
    assert_eq!(error.what, format!("no connection to 127.0.0.1:{port} could be opened"));
    assert!(error.detail.unwrap().contains("refused"));
    // The socket of a server that was killed stays.
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let error = begun(&node(Vec::new(), directory.path().to_owned()), 3).err().unwrap();
    assert_eq!(error.what, format!("no connection to {} could be opened", socket.display()));
    assert!(error.detail.unwrap().contains("refused"));
    let error = begun(&node(Vec::new(), PathBuf::from("/nonexistent")), 3).err().unwrap();
    assert!(error.what.starts_with("node 1 has neither a port nor a Unix socket"), "{}", error.what);
}
