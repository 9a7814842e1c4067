use std::net::Ipv4Addr;
use std::path::PathBuf;

use plimsoll_core::Limits;

use super::*;

fn node(cpuset: Option<&str>, data_dir: PathBuf) -> Node {
    Node {
        number: 2,
        data_dir,
        socket_dir: PathBuf::new(),
        log_dir: None,
        address: Ipv4Addr::LOCALHOST,
        ports: Vec::new(),
        secret: String::new(),
        limits: Limits { cpuset: cpuset.map(str::to_owned), ..Limits::default() },
    }
}

#[test]
fn a_busy_neighbour_has_the_processors_of_its_server() {
    let of = |cpuset, pin: &[u32]| processors_of(&node(cpuset, PathBuf::new()), pin);
    assert_eq!(of(None, &[]), "", "all");
    assert_eq!(of(None, &[1, 3]), "1,3");
    // A limit of the node is narrower than the processors of all servers.
    assert_eq!(of(Some("3"), &[1, 3]), "3");
}

#[test]
fn nodes_are_on_one_file_system_by_their_data() {
    let places = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let of = |place: &std::path::Path| file_system(&node(None, place.to_owned()));
    assert!(of(places[0].path()).is_some());
    assert_eq!(of(places[0].path()), of(places[1].path()));
    assert_ne!(of(places[0].path()), of(std::path::Path::new("/proc")));
    assert_eq!(of(std::path::Path::new("/nonexistent")), None);
}

#[test]
fn servers_are_waited_for_until_they_answer_or_too_long() {
    let calls = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let probes = |away: u32, kind: StoreErrorKind| -> Vec<Probe> {
        calls.store(0, Ordering::SeqCst);
        let calls = Arc::clone(&calls);
        let look = move || match calls.fetch_add(1, Ordering::SeqCst) < away {
            true => Err(StoreError::new(kind, "it is starting")),
            false => Ok(Vec::new()),
        };
        vec![Box::new(|| Ok(Vec::new())), Box::new(look)]
    };
    let waited = |away: u32, kind: StoreErrorKind, bound: Duration, is_stopped: bool| {
        await_answers(&mut probes(away, kind), bound, || is_stopped);
        calls.load(Ordering::SeqCst)
    };
    let long = Duration::from_secs(100);
    assert_eq!(waited(2, StoreErrorKind::Unreachable, long, false), 3);
    assert_eq!(waited(2, StoreErrorKind::Permission, long, false), 1, "it answers");
    assert_eq!(waited(u32::MAX, StoreErrorKind::Unreachable, long, true), 1);
    assert_eq!(waited(u32::MAX, StoreErrorKind::Unreachable, Duration::ZERO, false), 1);
}
