use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::channel;

use plimsoll_core::{Launch, Limits, Node, NodeSite, Span};

use super::*;

/// Three servers that end one after the other.
#[derive(Default)]
struct Mortal {
    ended: Mutex<Vec<usize>>,
    /// Number of looks at all of them.
    looks: AtomicU32,
}

impl Mortal {
    fn end(&self, numbers: &[usize]) {
        self.ended.lock().unwrap().extend(numbers);
    }

    /// Waits until a look at all servers has begun and ended.
    fn await_look(&self) {
        let before = self.looks.load(Ordering::SeqCst);
        await_until(|| self.looks.load(Ordering::SeqCst) >= before + 2);
    }
}

fn await_until(is_met: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_met() {
        assert!(began.elapsed() < Duration::from_secs(100), "nothing looks");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn never<T>() -> Result<T, StoreError> {
    panic!("a watch does nothing to servers")
}

impl Servers for Mortal {
    fn nodes(&self) -> Vec<Arc<Node>> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        let node = |number| Node {
            number,
            data_dir: PathBuf::new(),
            socket_dir: PathBuf::new(),
            log_dir: None,
            address: Ipv4Addr::LOCALHOST,
            ports: Vec::new(),
            secret: String::new(),
            limits: Limits::default(),
        };
        (0..3).map(node).map(Arc::new).collect()
    }

    fn sites(&self) -> Vec<NodeSite> {
        let ended = self.ended.lock().unwrap();
        let site = |node: usize| NodeSite { node, pid: node as u32 + 100, directory: PathBuf::new() };
        (0..3).filter(|node| !ended.contains(node)).map(site).collect()
    }

    fn check(&self, nodes: Nodes) -> Result<(), StoreError> {
        let ended = self.ended.lock().unwrap();
        match ended.iter().find(|number| nodes.has(**number)) {
            Some(number) => Err(StoreError::broken(format!("node {} was ended by signal 9", number + 1))),
            None => Ok(()),
        }
    }

    fn kill(&self, _: Nodes) -> Result<Span, StoreError> {
        never()
    }

    fn stop(&self, _: Nodes) -> Result<Span, StoreError> {
        never()
    }

    fn start(&self, _: Nodes) -> Result<Span, StoreError> {
        never()
    }

    fn pause(&self, _: Nodes) -> Result<Span, StoreError> {
        never()
    }

    fn reload(&self, _: Nodes) -> Result<Span, StoreError> {
        never()
    }

    fn add(&self) -> Result<usize, StoreError> {
        never()
    }

    fn remove(&self, _: usize) -> Result<(), StoreError> {
        never()
    }

    fn resume(&self, _: Nodes) -> Result<Span, StoreError> {
        never()
    }

    fn run(&self, _: usize, _: &Launch, _: Duration) -> Result<(), StoreError> {
        never()
    }
}

/// Watches servers of a lab or private ones while `during` acts, and until the phase has ended after that. Returns
/// how a server ended, and true if the phase was to end.
fn watched(
    is_lab: bool,
    user_stop: &AtomicBool,
    during: impl FnOnce(&Mortal, &AtomicBool),
) -> (Option<StoreError>, bool) {
    let servers = Arc::<Mortal>::default();
    let alive = Alive::of(Arc::clone(&servers) as Arc<dyn Servers>, is_lab, user_stop);
    let stop = Arc::clone(alive.stop());
    let (open, ended) = channel();
    let gone = std::thread::scope(|scope| {
        let following = scope.spawn(move || alive.follow(&ended));
        during(&servers, &stop);
        drop(open);
        following.join().unwrap()
    });
    (gone, stop.load(Ordering::SeqCst))
}

#[test]
fn a_cluster_may_lose_nodes_and_a_phase_ends_when_none_is_left() {
    let no_stop = AtomicBool::new(false);
    let some = watched(false, &no_stop, |servers, _| {
        servers.end(&[1, 2]);
        servers.await_look();
    });
    assert_eq!(some, (None, false), "node 1 runs");
    let (gone, is_stopped) = watched(false, &no_stop, |servers, stop| {
        servers.await_look();
        servers.end(&[2, 0, 1]);
        await_until(|| stop.load(Ordering::SeqCst));
    });
    assert_eq!((gone.unwrap().what.as_str(), is_stopped), ("node 1 was ended by signal 9", true));
}

#[test]
fn servers_that_end_with_the_phase_are_told_and_those_of_a_lab_are_not() {
    let no_stop = AtomicBool::new(false);
    let end_all = |servers: &Mortal, _: &AtomicBool| servers.end(&[0, 1, 2]);
    // Whether the watch or the sessions see it first.
    let (gone, _) = watched(false, &no_stop, end_all);
    assert!(gone.is_some_and(|error| error.what.starts_with("node 1 ")));
    // Its user may start them again.
    assert_eq!(watched(true, &no_stop, end_all), (None, false));
}

#[test]
fn the_users_end_ends_the_phase_and_is_no_end_of_servers() {
    for is_lab in [false, true] {
        let user_stop = AtomicBool::new(true);
        let (gone, is_stopped) = watched(is_lab, &user_stop, |servers, stop| {
            servers.end(&[0, 1, 2]);
            await_until(|| stop.load(Ordering::SeqCst));
        });
        assert_eq!((gone, is_stopped), (None, true), "{is_lab}");
    }
}
