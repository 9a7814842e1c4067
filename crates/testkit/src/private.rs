//! The life of a private server: what it listens on, how it restarts and fails, and what stays after a kill.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_core::{Nodes, StoreError, StoreErrorKind};
use plimsoll_lab::Cluster;
use rustix::process::{Pid, Signal, kill_process};

const NOTICED_MAX: Duration = Duration::from_secs(100);
const GONE_MAX: Duration = Duration::from_secs(60);
/// Variable with the base of the process that owns a server for another test.
const OWNER_BASE: &str = "PLIMSOLL_TEST_OWNER_BASE";

/// Starts a private server in a directory with settings, and reports its progress.
pub type StartServer = fn(&Path, &[(&str, &str)], &mut dyn FnMut(&str)) -> Result<Cluster, StoreError>;

/// Differences between one store's private servers and another's.
pub struct Private {
    /// Name of the server's program.
    pub program: &'static str,
    /// Starts a server with these settings and its files in the base; `progress` receives the steps.
    pub start: StartServer,
    /// Writes records, once.
    pub write: fn(&Cluster),
    /// Returns true if the records are there.
    pub holds: fn(&Cluster) -> bool,
    /// Setting that is refused, its value, and the server's words.
    pub refused: [&'static str; 3],
    /// Path of the test that calls [`Private::closing_removes_everything`].
    pub closing: &'static str,
}

/// Returns a directory that the servers' user can reach.
///
/// # Panics
/// If there is none.
pub fn base() -> tempfile::TempDir {
    let prefix = format!("private-test-{}-", std::process::id());
    let base = tempfile::Builder::new().prefix(&prefix).tempdir_in("/var/tmp").expect("a directory");
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    base
}

/// Names in a directory.
fn names(dir: &Path) -> Vec<OsString> {
    fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").file_name()).collect()
}

/// Kills a process, if it runs.
pub fn kill(pid: &str) {
    let pid = pid.parse().ok().and_then(Pid::from_raw).expect("an id");
    let _ = kill_process(pid, Signal::KILL);
}

/// Returns the ids of the processes whose working directory or arguments are under `base`.
pub fn processes_of(base: &Path) -> Vec<String> {
    let is_theirs = |entry: &fs::DirEntry| {
        let cwd = fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(base));
        let arguments = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        cwd || String::from_utf8_lossy(&arguments).contains(&*base.to_string_lossy())
    };
    let entries = fs::read_dir("/proc").expect("the processes").flatten().filter(is_theirs);
    let pids = entries.filter_map(|entry| entry.file_name().into_string().ok());
    pids.filter(|pid| pid.parse::<u32>().is_ok()).collect()
}

/// A process with a private server: the test program again.
pub struct Owner {
    /// The process.
    pub child: Child,
    /// Id of the server's first process.
    pub pid: String,
    /// Directory of the server.
    pub root: PathBuf,
}

impl Private {
    /// Starts a server.
    ///
    /// # Errors
    /// The server's.
    ///
    /// # Panics
    /// If it is not installed.
    pub fn start(&self, base: &Path, settings: &[(&str, &str)]) -> Result<Cluster, StoreError> {
        let mut told = Vec::new();
        let started = (self.start)(base, settings, &mut |what| told.push(what.to_owned()));
        assert!(!told.is_empty(), "{} is not installed: run `cargo xtask test`", self.program);
        started
    }

    /// Takes a server through its life. `inspect` looks at it once it has started.
    ///
    /// # Panics
    /// If it listens for others than its user, does not restart or recover, loses records, or leaves anything behind.
    pub fn lives(&self, inspect: impl FnOnce(&Cluster)) {
        let base = base();
        let server = self.start(base.path(), &[]).expect("it starts");
        inspect(&server);
        let (sockets, data) = (server.first().socket_dir.clone(), server.first().data_dir.clone());
        let (at, owner) = (sockets.metadata().expect("sockets"), data.metadata().expect("data").uid());
        assert_eq!((at.mode() & 0o7777, at.uid()), (0o700, owner));
        let first = server.pids()[0];
        let status = fs::read_to_string(format!("/proc/{first}/status")).expect("it runs");
        assert!(!status.contains("\nUid:\t0\t"), "it does not run as root: {status}");

        (self.write)(&server);
        server.restart(Nodes::All).expect("a restart");
        assert_ne!(server.pids()[0], first);
        assert!((self.holds)(&server), "after a restart");

        server.stop(Nodes::All).expect("it stops");
        assert!(server.pids().is_empty());
        assert!(!data.join("postmaster.pid").exists(), "it stopped cleanly");
        let cold = plimsoll_lab::drop_files(&data).expect("its files are dropped");
        assert!(cold.file_bytes > 10_000_000 && cold.resident_bytes == 0, "{cold:?}");
        server.start(Nodes::All).expect("it starts again");
        assert!((self.holds)(&server), "after a stop");

        let pid = server.pids()[0].to_string();
        kill(&pid);
        let began = Instant::now();
        let error = loop {
            if let Err(error) = server.check(Nodes::All) {
                break error;
            }
            assert!(began.elapsed() < NOTICED_MAX, "its end was not noticed");
            std::thread::sleep(Duration::from_millis(5));
        };
        let said = format!("{} was ended by signal 9 (SIGKILL), sent by nothing that was watched", self.program);
        assert_eq!((error.kind, error.what), (StoreErrorKind::Broken, said));
        server.start(Nodes::All).expect("it recovers");
        assert!((self.holds)(&server), "after a kill");
        server.close().expect("it closes");
        assert!(!sockets.exists() && !data.exists());
    }

    /// A setting that the server refuses is an error in its own words, and its log is kept.
    ///
    /// # Panics
    /// If it is otherwise.
    pub fn a_setting_it_refuses_is_told(&self) {
        let base = base();
        let [name, value, words] = self.refused;
        let error = self.start(base.path(), &[(name, value)]).err().expect("it is refused");
        assert_eq!(error.kind, StoreErrorKind::Broken, "{error}");
        assert!(error.what.starts_with(&format!("{} ended with exit status ", self.program)), "{error}");
        assert!(error.detail.as_ref().is_some_and(|detail| detail.contains(words)), "{error:?}");
        assert_eq!(names(base.path()), ["logs"], "only the log stays");
        let [log] = &names(&base.path().join("logs"))[..] else { panic!("not one log") };
        let log = base.path().join("logs").join(log);
        assert!(error.next.is_some_and(|next| next.contains(&*log.to_string_lossy())));
        assert!(fs::read_to_string(log).expect("a log").contains(words));
    }

    /// Starts and closes a server. A process that [`Private::owner`] started waits to be killed before that.
    ///
    /// # Panics
    /// If anything is left.
    #[allow(clippy::print_stdout, reason = "tells the process that started this one")]
    pub fn closing_removes_everything(&self) {
        let asked = std::env::var_os(OWNER_BASE).map(PathBuf::from);
        // One that is killed cannot remove a base of its own.
        let own = asked.is_none().then(base);
        let place = own.as_ref().map(tempfile::TempDir::path).or(asked.as_deref()).expect("a base");
        let server = self.start(place, &[]).expect("it starts");
        println!("owner: {}", server.pids()[0]);
        if asked.is_some() {
            std::io::stdin().read_line(&mut String::new()).expect("the process that started this one waits");
        }
        server.close().expect("it closes");
        assert!(names(place).iter().all(|name| name == "logs"), "{:?}", names(place));
    }

    /// Starts a process that owns a server under `base`.
    ///
    /// # Panics
    /// If it does not start.
    pub fn owner(&self, base: &Path) -> Owner {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", self.closing, "--nocapture"]).env(OWNER_BASE, base);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let pid = lines.filter_map(|line| Some(line.split_once("owner: ")?.1.to_owned())).next();
        let root = base.join(&names(base)[0]);
        Owner { child, pid: pid.expect("it tells what it owns"), root }
    }

    /// Kills the process that owns a server: 5 s later the server, its files and what `left` finds of it are gone.
    ///
    /// # Panics
    /// If anything is left.
    pub fn nothing_is_left_5_s_after_a_kill(&self, left: impl Fn(&str) -> usize) {
        let base = base();
        let mut owner = self.owner(base.path());
        assert!(!processes_of(&owner.root).is_empty());
        owner.child.kill().expect("it runs");
        owner.child.wait().expect("it ends");
        let killed = Instant::now();
        while owner.root.exists() || !processes_of(&owner.root).is_empty() || left(&owner.pid) > 0 {
            assert!(killed.elapsed() < GONE_MAX, "{} still stands, or its server runs", owner.root.display());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
