//! Servers that tests start themselves.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_lab::cluster::claim_port;
use rustix::process::{Pid, Signal, kill_process_group};

const START_MAX: Duration = Duration::from_secs(100);

/// A server that lives as long as this value, with a directory of its own.
pub struct ServerProcess {
    child: Child,
    dir: tempfile::TempDir,
}

impl ServerProcess {
    /// Returns a directory for a server's files under `base`.
    ///
    /// # Panics
    /// If there is none.
    pub fn dir(base: &str) -> tempfile::TempDir {
        let prefix = format!("server-test-{}-", std::process::id());
        tempfile::Builder::new().prefix(&prefix).tempdir_in(base).expect("a directory")
    }

    /// Starts a server, and waits until it is `ready`. What it prints is kept in `log`.
    ///
    /// # Panics
    /// If it is not ready within 100 s, with its log.
    pub fn start(dir: tempfile::TempDir, command: &mut Command, ready: impl Fn() -> bool) -> Self {
        let mut process = Self { child: Self::spawn(dir.path(), command), dir };
        process.until(ready);
        process
    }

    /// Starts the server again where it was.
    ///
    /// # Panics
    /// As [`ServerProcess::start`].
    pub fn start_again(&mut self, command: &mut Command, ready: impl Fn() -> bool) {
        self.child = Self::spawn(self.dir.path(), command);
        self.until(ready);
    }

    fn spawn(dir: &Path, command: &mut Command) -> Child {
        let log = File::create(dir.join("log")).expect("a log");
        let errors = log.try_clone().expect("a log");
        let child = command.process_group(0).stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
        child.unwrap_or_else(|error| panic!("{command:?}: {error} (run `cargo xtask test`)"))
    }

    fn until(&mut self, ready: impl Fn() -> bool) {
        let began = Instant::now();
        while !ready() {
            let log = std::fs::read_to_string(self.path("log")).unwrap_or_default();
            let runs = matches!(self.child.try_wait(), Ok(None));
            assert!(runs && began.elapsed() < START_MAX, "it did not start: {log}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the path of a file in its directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Kills it with what it has started, as a crash would.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Claims of ports, which last until this process ends.
static CLAIMS: Mutex<Vec<UnixDatagram>> = Mutex::new(Vec::new());

/// Returns a free port of the loopback interface, below those that the system gives to outgoing connections. Until this
/// process ends, no further call in it or in another test returns this port.
///
/// # Panics
/// If it has too many open files.
pub fn free_port() -> u16 {
    let drawn = || 10_000 + (RandomState::new().hash_one(0) % 22_000) as u16;
    let claim = |port: &u16| {
        let claim = claim_port(*port).expect("a claim");
        let is_claimed = claim.is_some();
        CLAIMS.lock().unwrap_or_else(PoisonError::into_inner).extend(claim);
        is_claimed
    };
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok() && claim(port);
    std::iter::repeat_with(drawn).find(is_free).unwrap_or(0)
}
