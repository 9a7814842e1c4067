//! Removal of all files and processes after Plimsoll, its supervisor, or both are killed.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use plimsoll_core::{Launch, ServerSpec, StopSignal};
use plimsoll_lab::{PrivateServer, ServerUser, Supervisor, after_killing, sweep_orphans};
use rustix::process::{Pid, Signal};

use crate::{base, wait_for};

/// Longest time from Plimsoll's death until everything is gone.
const BOUND: Duration = Duration::from_secs(200);

/// Environment variable with the base for the process that owns a server for another test.
const OWNER_BASE: &str = "PLIMSOLL_LAB_OWNER_BASE";
/// A server with a child, both of which ignore polite signals.
const STUBBORN: &str = "trap '' TERM QUIT; echo ready; (while :; do sleep 100; done) & wait";

/// Registers before this program becomes a supervisor, as a store does.
// SAFETY: this section holds functions, and the registration needs nothing that is set up for `main`.
#[used]
#[unsafe(link_section = ".init_array.00200")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    after_killing(|pids| {
        let of_them = segments().into_iter().filter(|(_, maker)| pids.contains(maker));
        for (id, _) in of_them {
            // SAFETY: no memory is touched; the segment is marked for removal.
            unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
        }
    });
}

/// Returns the System V segments of this machine: the id and the process that made it (proc_sysvipc(5)).
fn segments() -> Vec<(i32, i32)> {
    let table = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let row = |line: &str| {
        let mut fields = line.split_whitespace();
        Some((fields.nth(1)?.parse().ok()?, fields.nth(2)?.parse().ok()?))
    };
    table.lines().filter_map(row).collect()
}

/// Makes a server that runs as another user if this is root, as most real ones do.
fn server_in(base: PathBuf) -> PrivateServer {
    let spec = ServerSpec { leave: StopSignal::Quit, ..ServerSpec::new("server", "nobody", "base-passwd") };
    let user = ServerUser::caller_or(spec.user, spec.package).unwrap();
    let supervisor = Supervisor::start().unwrap();
    let log_dir = Path::new(".");
    PrivateServer::new(&supervisor, spec, user, &[base], log_dir, &Default::default()).unwrap()
}

/// Runs as a test, and, started again by [`Owner::start`], as the process that others kill.
#[test]
fn an_owner_that_ends_as_it_should_leaves_nothing() {
    let asked_base = std::env::var_os(OWNER_BASE).map(PathBuf::from);
    // A killed process cannot remove its own base.
    let own_base = asked_base.is_none().then(base);
    let base = own_base.as_ref().map(tempfile::TempDir::path).or(asked_base.as_deref()).unwrap().to_owned();
    let mut server = server_in(base);
    let pid = server.start(&Launch::new("sh", "/bin/sh".into(), ["-c", STUBBORN])).unwrap();
    println!("owner: {pid} {} {}", server.root_dir().display(), server.socket_dir().display());
    if asked_base.is_some() {
        std::io::stdin().read_line(&mut String::new()).unwrap();
    }
    let root = server.root_dir().to_owned();
    server.close().unwrap();
    assert!(!root.exists() && those_in(&root).is_empty());
}

/// Process that runs the test above.
struct Owner {
    process: Child,
    supervisor: i32,
    /// Kept open, because the test program fails when it cannot write its last line.
    _stdout: BufReader<ChildStdout>,
    server_pid: i32,
    root: PathBuf,
    sockets: PathBuf,
}

impl Owner {
    fn start(base: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "death::an_owner_that_ends_as_it_should_leaves_nothing", "--nocapture"])
            .env(OWNER_BASE, base)
            .env("PGPASSWORD", "Tr0mbone")
            .current_dir(base)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let line =
            stdout.by_ref().lines().map(Result::unwrap).find_map(|line| Some(line.split_once("owner: ")?.1.to_owned()));
        let line = line.expect("the owner tells what it owns");
        let words: Vec<&str> = line.split_whitespace().collect();
        let [server_pid, root, sockets] = words[..] else { panic!("the owner said {line:?}") };
        let [supervisor] = supervisors_of(process.id())[..] else { panic!("one guards it") };
        let owner = Self {
            process,
            supervisor,
            _stdout: stdout,
            server_pid: server_pid.parse().unwrap(),
            root: root.into(),
            sockets: sockets.into(),
        };
        wait_for("the server's log", BOUND, || {
            fs::read_to_string(owner.root.join("log")).is_ok_and(|log| log == "ready\n")
        });
        wait_for("the server's child", BOUND, || those_in(&owner.root).len() >= 2);
        owner
    }

    fn kill(mut self) -> (PathBuf, PathBuf) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        (self.root, self.sockets)
    }
}

/// Returns the supervisors of a process.
fn supervisors_of(owner: u32) -> Vec<i32> {
    let line = format!("plimsoll-supervisor\0--of={owner}\0");
    pids().filter(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|text| text == line)).collect()
}

fn pids() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns living processes that work below `root` or name it in their arguments.
fn those_in(root: &Path) -> Vec<i32> {
    pids()
        .filter(|pid| {
            let cwd = fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(root));
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            cwd || String::from_utf8_lossy(&arguments).contains(root.to_str().unwrap())
        })
        .collect()
}

fn kill(pid: i32, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

fn assert_nothing_is_left(root: &Path, sockets: &Path) {
    wait_for("removing everything", BOUND, || !root.exists() && !sockets.exists() && those_in(root).is_empty());
}

#[test]
fn a_supervisor_has_a_short_name_and_knows_no_secret() {
    let base = base();
    let owner = Owner::start(base.path());
    let read = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", owner.supervisor)).unwrap();
    assert_eq!(read("cmdline"), format!("plimsoll-supervisor\0--of={}\0", owner.process.id()));
    assert_eq!(read("comm"), "plimsoll-superv\n");
    assert_eq!(read("environ"), format!("PLIMSOLL_SUPERVISOR_OF={}\0", owner.process.id()));
    let (root, sockets) = owner.kill();
    assert_nothing_is_left(&root, &sockets);
}

#[test]
fn nothing_is_left_after_kill_9_with_sockets_elsewhere() {
    let base = base();
    let long = base.path().join("a".repeat(80));
    fs::create_dir(&long).unwrap();
    let (root, sockets) = Owner::start(&long).kill();
    assert!(!sockets.starts_with(&root));
    assert_nothing_is_left(&root, &sockets);
}

#[test]
fn sockets_elsewhere_go_too_where_the_next_start_was_quicker_than_the_supervisor() {
    let base = base();
    let long = base.path().join("a".repeat(80));
    fs::create_dir(&long).unwrap();
    let owner = Owner::start(&long);
    fs::remove_dir_all(&owner.root).unwrap();
    let (root, sockets) = owner.kill();
    assert!(!sockets.starts_with(&root));
    assert_nothing_is_left(&root, &sockets);
}

#[test]
fn ctrl_c_does_not_reach_the_server_and_its_owner_removes_it() {
    let base = base();
    let mut owner = Owner::start(base.path());
    let group = Pid::from_raw(owner.process.id() as i32).unwrap();
    // As a terminal does; the owner has no handler and dies.
    rustix::process::kill_process_group(group, Signal::INT).unwrap();
    owner.process.wait().unwrap();
    assert_nothing_is_left(&owner.root, &owner.sockets);

    let mut owner = Owner::start(base.path());
    kill(owner.supervisor, Signal::INT);
    kill(owner.supervisor, Signal::TERM);
    std::thread::sleep(Duration::from_millis(100));
    assert!(fs::read_link(format!("/proc/{}/cwd", owner.server_pid)).is_ok(), "the server lives on");
    drop(owner.process.stdin.take());
    assert!(owner.process.wait().unwrap().success());
    assert!(!owner.root.exists(), "close waits until everything is removed");
}

#[test]
fn a_sweep_removes_what_a_killed_supervisor_left_and_leaves_the_living_alone() {
    let base = base();
    let living = Owner::start(base.path());
    let long = base.path().join("a".repeat(80));
    fs::create_dir(&long).unwrap();
    let orphan = Owner::start(&long);
    kill(orphan.supervisor, Signal::KILL);
    let (root, sockets) = orphan.kill();
    assert!(root.exists() && sockets.exists(), "no process could have removed it");
    let processes: BTreeSet<i32> = those_in(&root).into_iter().collect();
    assert!(processes.len() >= 2, "its processes ignore the kernel's polite signal");
    static KILLED: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());
    after_killing(|pids| KILLED.lock().unwrap().extend(pids));

    assert_eq!(sweep_orphans(base.path()).unwrap(), Vec::<PathBuf>::new(), "the living one is no orphan");
    // A killed process releases its lock a moment later.
    wait_for("the sweep", BOUND, || sweep_orphans(&long).unwrap() == std::slice::from_ref(&root));
    assert!(KILLED.lock().unwrap().is_superset(&processes), "what each of them left can be removed");
    assert_nothing_is_left(&root, &sockets);
    assert!(those_in(&living.root).len() >= 2);
    let (root, sockets) = living.kill();
    assert_nothing_is_left(&root, &sockets);
}

#[test]
fn the_owner_notices_when_its_supervisor_is_killed_and_removes_everything_itself() {
    let base = base();
    let mut owner = Owner::start(base.path());
    kill(owner.supervisor, Signal::KILL);
    drop(owner.process.stdin.take());
    owner.process.wait().unwrap();
    assert!(!owner.root.exists());
    assert_nothing_is_left(&owner.root, &owner.sockets);
}

#[test]
fn a_supervisor_that_is_stopped_is_killed_when_it_has_not_answered_in_time() {
    let base = base();
    let mut owner = Owner::start(base.path());
    kill(owner.supervisor, Signal::STOP);
    drop(owner.process.stdin.take());
    owner.process.wait().unwrap();
    assert!(!Path::new(&format!("/proc/{}", owner.supervisor)).exists());
    assert_nothing_is_left(&owner.root, &owner.sockets);
}

#[test]
fn a_sweep_never_touches_what_plimsoll_did_not_make() {
    let base = base();
    let make = |name: &str, mark: Option<&str>| {
        let path = base.path().join(name);
        fs::create_dir(&path).unwrap();
        if let Some(mark) = mark {
            fs::write(path.join("supervisor"), mark).unwrap();
        }
        path
    };
    let mark = "plimsoll: private server\npid 1\nsockets /nowhere\n";
    let kept = [
        make("plimsoll-00000001", None),
        make("plimsoll-00000002", Some("")),
        make("plimsoll-00000003", Some("another program's\n")),
        make("other-00000004", Some(mark)),
        make("plimsoll-00000005", Some(mark)),
        make("plimsoll-00000007", None),
    ];
    // Every user may write there, so any user may have put the mark there.
    fs::set_permissions(&kept[4], fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(base.path().join("plimsoll-00000006"), mark).unwrap();
    // A mark of another directory, reached by a link; and a directory that is only linked to.
    let genuine = make("plimsoll-00000008", Some(mark));
    std::os::unix::fs::symlink(genuine.join("supervisor"), kept[5].join("supervisor")).unwrap();
    let target = make("elsewhere", Some(mark));
    std::os::unix::fs::symlink(&target, base.path().join("plimsoll-00000009")).unwrap();

    assert_eq!(sweep_orphans(base.path()).unwrap(), std::slice::from_ref(&genuine));
    assert!(kept.iter().chain([&target]).all(|path| path.exists()));
    assert!(base.path().join("plimsoll-00000006").exists() && base.path().join("plimsoll-00000009").exists());
    assert_eq!(sweep_orphans(&base.path().join("missing")).unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn a_process_that_ends_by_itself_while_its_server_ends_leaves_no_shared_memory() {
    let base = base();
    let made = base.path().join("made");
    fs::write(&made, "").unwrap();
    fs::set_permissions(&made, fs::Permissions::from_mode(0o666)).unwrap();
    let mut server = server_in(base.path().to_owned());
    // The program ends at once. Its child goes on until then, and becomes a program that makes a segment and ends.
    let waits = "while grep -qw PPid:.\\$PPID /proc/\\$\\$/status; do sleep 0.01; done";
    let child = format!("trap '' TERM QUIT; echo ready; {waits}; exec ipcmk --shmem 64 >{}", made.display());
    let program = format!("sh -c \"{child}\" & wait");
    server.start(&Launch::new("sh", "/bin/sh".into(), ["-c", &program])).unwrap();
    wait_for("the child", BOUND, || fs::read_to_string(server.log()).is_ok_and(|log| log == "ready\n"));
    server.close().unwrap();
    let made = fs::read_to_string(&made).unwrap();
    let id = made.trim().rsplit(' ').next().and_then(|id| id.parse::<i32>().ok());
    let id = id.unwrap_or_else(|| panic!("no segment was made: {made:?}"));
    assert!(!segments().iter().any(|(left, _)| *left == id), "{made}");
}
