//! The suite for clusters of equals: servers that each take every request.
//!
//! A store declares its [`Suite`], and passes it with one line for each test.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use plimsoll_core::{
    Durability, Layout, Nodes, OpenOptions, ParamValue, Probe, Sessions, Store, StoreError, StoreKind, Target, Waits,
    read_probes,
};

use crate::advice::{command, of_error};
use crate::conformance;
use crate::params::defaults;
use crate::process::{ServerProcess, free_port};

/// Differences between one kind of cluster and another.
pub struct Suite {
    /// Returns the store.
    pub kind: fn() -> Box<dyn StoreKind>,
    /// Returns the command of a server to attach to, and its URL. Arguments: an empty directory; the address to listen on,
    /// and one more.
    pub server: fn(&Path, [SocketAddr; 2]) -> (Command, String),
}

/// Run id of a run that was killed.
pub const KILLED: &str = "20260102-030405-dead";

/// A server that the test started.
pub struct Server {
    /// URL to attach with.
    pub url: String,
    kind: fn() -> Box<dyn StoreKind>,
    process: ServerProcess,
}

impl Server {
    /// Attaches to it. `said` receives the messages.
    ///
    /// # Panics
    /// If the store does not open.
    pub fn open(&self, run_id: &str, said: &mut Vec<String>) -> Box<dyn Store> {
        let options = attach(self.kind, &self.url, run_id, Duration::from_secs(20));
        (self.kind)().open(options, &mut |words| said.push(words.to_owned())).expect("an attached store")
    }
}

fn attach(kind: fn() -> Box<dyn StoreKind>, url: &str, run_id: &str, answer: Duration) -> OpenOptions {
    let (target, params) = (Target::Attach { url: url.to_owned(), password: None }, defaults(kind().spec().params));
    OpenOptions { target, params, run_id: run_id.to_owned(), waits: Waits::from(answer) }
}

impl Suite {
    /// Runs the conformance suite on a private server.
    ///
    /// # Panics
    /// If a check fails.
    pub fn conforms_private(&self) {
        conformance::run(&*(self.kind)());
    }

    /// Runs the conformance suite on a server that the test starts.
    ///
    /// # Panics
    /// If a check fails.
    pub fn conforms_attached(&self) {
        conformance::run_attached(&*(self.kind)(), &self.start().url, None);
    }

    /// Starts a server to attach to.
    ///
    /// # Panics
    /// If it does not listen within 100 s.
    pub fn start(&self) -> Server {
        // In memory: what is proved of an attached server is not its disk.
        let dir = ServerProcess::dir("/dev/shm");
        let addresses = [0, 1].map(|_| SocketAddr::from(([127, 0, 0, 1], free_port())));
        let (mut command, url) = (self.server)(dir.path(), addresses);
        let process = ServerProcess::start(dir, &mut command, || TcpStream::connect(addresses[0]).is_ok());
        Server { url, kind: self.kind, process }
    }

    /// Opens the store beside what `leave` leaves of the run [`KILLED`], and kills the server before the store cleans up.
    /// Returns the note and the error, which advise the commands that `removal` returns for the ids of the runs.
    ///
    /// # Panics
    /// If they are otherwise.
    pub fn names_leftovers(
        &self,
        leave: impl FnOnce(&Server),
        removal: impl Fn(&Server, &str) -> String,
    ) -> (String, StoreError) {
        let mut server = self.start();
        leave(&server);
        let mut said = Vec::new();
        let mut store = server.open("test-1", &mut said);
        let [note] = &said[..] else { panic!("not exactly one run is named: {said:?}") };
        assert_eq!(command(note), Some(&*removal(&server, KILLED)));
        store.create(&Layout::default()).expect("an empty store");
        server.process.kill();
        let error = store.close().expect_err("a server that is gone");
        assert_eq!(of_error(&error), removal(&server, "test-1"));
        (note.clone(), error)
    }

    /// Starts three servers, restarts them, kills the first, and revives it: they are one cluster, whose sessions are
    /// dealt to all of them, and whose other servers answer and go on.
    ///
    /// # Panics
    /// If anything is otherwise.
    pub fn three_servers_are_one_cluster(&self) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (data_dir, log_dir) = (dir.path().join("data"), dir.path().join("log"));
        for path in [&data_dir, &log_dir] {
            std::fs::create_dir(path).expect("a directory in the temporary one");
        }
        let kind = (self.kind)();
        let mut params = defaults(kind.spec().params);
        params.0.extend(BTreeMap::from([("nodes".to_owned(), ParamValue::Int(3))]));
        let target = Target::Private { data_dir, said: false, log_dir };
        let options = OpenOptions { target, params, run_id: "cluster".to_owned(), waits: Waits::default() };
        let mut store = plimsoll_lab::open(&*kind, options, &mut |_| {}).expect("a private cluster");
        assert_eq!(store.describe().expect("a description").place, "private cluster of 3 servers");
        assert_eq!(store.processes().len(), 3);
        store.create(&Layout::default()).expect("an empty store");
        let mut probes = store.probes();
        assert_eq!(subjects(&mut probes), 3);
        store.restart().expect("a restart");
        let sessions = store.sessions(4, Durability::AsConfigured).expect("sessions");
        let Sessions::Async(sessions) = sessions else { panic!("they are {:?}", sessions.shape()) };
        let servers: BTreeSet<String> = sessions.iter().map(|session| format!("{:?}", session.address())).collect();
        assert_eq!(servers.len(), 3, "four sessions of three servers: {servers:?}");
        assert_eq!(subjects(&mut probes), 3, "after a restart");
        store.servers().expect("private servers").kill(Nodes::One(0)).expect("a kill");
        store.describe().expect("the answer of another server");
        let others = store.processes();
        let revival = store.revive(false).expect("it starts again").expect("it did not run");
        assert_eq!(revival.done, "node 1 was started again");
        let all = store.processes();
        assert!(all.len() == 3 && all[1..] == others[..], "the others go on: {others:?} {all:?}");
        store.close().expect("a clean end");
    }

    /// Announces a run at `url`, which is refused with `what` and a next step before anything connects.
    ///
    /// # Panics
    /// If it is not.
    pub fn refuses(&self, url: &str, what: &str) {
        let options = attach(self.kind, url, "refused", Duration::from_secs(1));
        let error = (self.kind)().announce(&options).expect_err("an error");
        assert!(error.what.starts_with(what) && error.next.is_some(), "{url}: {error}");
    }

    /// Attaches to a listener that sends `first` to each client, and `again` until the client leaves.
    /// Returns the error, which names a next step and comes within 30 s.
    ///
    /// # Panics
    /// If the store takes it for a server, or takes too long.
    pub fn refusal(&self, first: &'static str, again: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let scheme = (self.kind)().spec().schemes[0];
        let url = format!("{scheme}://{}", listener.local_addr().expect("an address"));
        std::thread::spawn(move || {
            for mut socket in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || {
                    let _ = socket.write_all(first.as_bytes());
                    while !again.is_empty() && socket.write_all(again).is_ok() {}
                    // Silent until the other side has given up.
                    std::thread::sleep(Duration::from_secs(60));
                });
            }
        });
        // It is silent on purpose: that is waited for.
        self.error_within(&url, Duration::from_secs(1)).to_string()
    }

    /// Attaches to `url`, which fails. Returns the error, which names a next step and comes within 30 s.
    ///
    /// # Panics
    /// If it opens, or takes too long.
    pub fn error_at(&self, url: &str) -> StoreError {
        // A server that answers does so within this time on a busy machine, too.
        self.error_within(url, Duration::from_secs(5))
    }

    /// Attaches to `url`, whose server may take the time `answer` for each reply.
    fn error_within(&self, url: &str, answer: Duration) -> StoreError {
        let began = Instant::now();
        let options = attach(self.kind, url, "hostile", answer);
        let error = (self.kind)().open(options, &mut |_| {}).err().expect("an error");
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}: {error}", began.elapsed());
        assert!(error.next.is_some(), "{error}");
        error
    }
}

/// Reads `probes`. Returns the number of subjects.
fn subjects(probes: &mut [Probe]) -> usize {
    let readings = read_probes(probes).expect("readings");
    readings.iter().map(|reading| &reading.subject).collect::<BTreeSet<_>>().len()
}
