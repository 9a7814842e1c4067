//! Sessions on their way to being open.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use plimsoll_core::{Address, Sessions};
use plimsoll_drive::{DriveError, DriveSpec, Io, Limit, StopReason};

use crate::seen::{drive, drive_until, endless, refused};
use crate::toy::{Act, Server, answer_to, client};
use crate::wire::for_ms;

const MS: Duration = Duration::from_millis(1);

/// Connections between their greeting and its answer: now, and the most there were.
#[derive(Default)]
struct Opening {
    now: AtomicUsize,
    most: AtomicUsize,
    /// No greeting is answered before.
    answers: AtomicBool,
}

/// A server that answers greetings after `delay`, and then every request.
fn greeter(path: &Path, delay: Duration) -> Arc<Opening> {
    let listener = UnixListener::bind(path).unwrap();
    serve(listener, delay)
}

fn serve(listener: UnixListener, delay: Duration) -> Arc<Opening> {
    let opening = Arc::new(Opening::default());
    let theirs = opening.clone();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let opening = theirs.clone();
            let mut converse = move || -> std::io::Result<()> {
                let mut bytes = [0; 12];
                socket.read_exact(&mut bytes[..5])?;
                let now = opening.now.fetch_add(1, SeqCst) + 1;
                opening.most.fetch_max(now, SeqCst);
                std::thread::sleep(delay);
                while !opening.answers.load(SeqCst) && delay.is_zero() {
                    std::thread::sleep(MS);
                }
                opening.now.fetch_sub(1, SeqCst);
                socket.write_all(b"READY")?;
                loop {
                    socket.read_exact(&mut bytes)?;
                    socket.write_all(&answer_to(&bytes[4..]))?;
                }
            };
            // The end of a connection is an error here and expected.
            std::thread::Builder::new().stack_size(64 * 1024).spawn(move || drop(converse())).unwrap();
        }
    });
    opening
}

fn sessions(path: &Path, count: usize) -> Sessions {
    Sessions::Wire((0..count).map(|_| client(Address::Unix(PathBuf::from(path)), 0)).collect())
}

#[test]
fn a_thousand_sessions_open_quickly_and_not_all_at_once() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("s");
    let opening = greeter(&path, MS * 20);
    let spec = DriveSpec { limit: Limit::Ops(2), ..DriveSpec::default() };
    let begin = Instant::now();
    let (driven, _) = drive(&spec, sessions(&path, 1_000), endless());
    assert_eq!(driven.result.kinds, [[2_000, 0, 0, 0]]);
    let most = opening.most.load(SeqCst);
    assert!((2..=64).contains(&most), "{most} at the same time");
    // One after the other they would take 20 s.
    assert!(begin.elapsed() < MS * 19_000, "took {:?}", begin.elapsed());
}

#[test]
fn a_full_queue_is_waited_for() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("s");
    let socket = rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &rustix::net::SocketAddrUnix::new(&path).unwrap()).unwrap();
    rustix::net::listen(&socket, 1).unwrap();
    let queue_is_full = sessions(&path, 20);
    let late = std::thread::spawn(move || {
        std::thread::sleep(MS * 300);
        serve(UnixListener::from(socket), MS)
    });
    let spec = DriveSpec { limit: Limit::Ops(3), ..DriveSpec::default() };
    let (driven, _) = drive(&spec, queue_is_full, endless());
    late.join().unwrap();
    assert_eq!(driven.result.kinds, [[60, 0, 0, 0]]);
    assert_eq!(driven.result.lost_connections, 0, "waiting in line is no loss");
}

#[test]
fn a_phase_can_be_cancelled_while_its_sessions_open() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("s");
    let opening = greeter(&path, Duration::ZERO);
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let canceller = std::thread::spawn(move || {
        while opening.most.load(SeqCst) == 0 {
            std::thread::sleep(MS);
        }
        flag.store(true, SeqCst);
        opening
    });
    let begin = Instant::now();
    let mut slices = 0;
    let driven = drive_until(&for_ms(Io::Epoll, 200_000), sessions(&path, 5), &stop, |_| slices += 1);
    let opening = canceller.join().unwrap();
    assert_eq!((driven.result.stop.clone(), driven.result.ops, slices), (StopReason::Cancelled, 0, 0));
    assert_eq!(driven.result.end_ns, driven.result.start_ns);
    assert!(begin.elapsed() < MS * 100_000, "took {:?}", begin.elapsed());
    opening.answers.store(true, SeqCst);
}

#[test]
fn a_phase_that_is_cancelled_before_it_begins_drives_nothing() {
    let stop = Arc::new(AtomicBool::new(true));
    let session = crate::blocking::sessions(2, |_, _| panic!("an operation in a cancelled phase"));
    let driven = drive_until(&for_ms(Io::Epoll, 10_000), session, &stop, |_| {});
    assert_eq!((driven.result.stop, driven.result.ops), (StopReason::Cancelled, 0));
}

#[test]
fn workers_open_sessions_in_the_networks_that_they_are_given() {
    let server = Server::tcp(|_, _, _| Act::Answer);
    let spec = |networks: &[&Path]| DriveSpec {
        limit: Limit::Ops(3),
        workers: 2,
        networks: networks.iter().map(|path| path.to_path_buf()).collect(),
        ..DriveSpec::default()
    };
    let home = Path::new("/proc/self/ns/net");
    let (driven, _) = drive(&spec(&[home]), server.clients(2), endless());
    assert_eq!(driven.result.kinds, [[6, 0, 0, 0]]);
    let mut other = Command::new("unshare").args(["--net", "sleep", "100"]).spawn().unwrap();
    let network = PathBuf::from(format!("/proc/{}/ns/net", other.id()));
    while std::fs::read_link(&network).unwrap() == std::fs::read_link(home).unwrap() {
        std::thread::sleep(MS);
    }
    // The second worker's session has no way to the server.
    let unreachable = refused(&spec(&[home, network.as_path()]), server.clients(2), endless());
    other.kill().unwrap();
    other.wait().unwrap();
    let gone = refused(&spec(&[network.as_path()]), server.clients(1), endless());
    for (error, words) in [(unreachable, "localhost"), (gone, "the network /proc/")] {
        assert!(matches!(&error, DriveError::Store(error) if error.what.contains(words)), "{error:?}");
    }
}
