//! Private servers: what they listen on and keep, how they restart and fail, what stays after a kill.

#![allow(clippy::unwrap_used, reason = "clippy's exception for tests does not cover their own functions")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_core::{Nodes, StoreError, StoreErrorKind};
use plimsoll_lab::Cluster;
use plimsoll_store_postgres::PostgresRecipe;
use plimsoll_store_postgres::server::POSTGRES;

/// A base that the server's user can get to.
fn base() -> tempfile::TempDir {
    let base = tempfile::Builder::new()
        .prefix(&format!("postgres-test-{}-", std::process::id()))
        .tempdir_in("/var/tmp")
        .unwrap();
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
    base
}

fn start(base: &Path, settings: &[(&str, &str)]) -> Result<Cluster, StoreError> {
    let settings: Vec<_> = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let mut told = Vec::new();
    let (recipe, logs) = (Box::new(PostgresRecipe { settings, ..Default::default() }), base.join("logs"));
    let started = Cluster::start(recipe, &[base.to_owned()], &logs, &Default::default(), &mut |what| {
        told.push(what.to_owned());
    });
    assert!(!told.is_empty(), "postgres is not installed: apt-get install postgresql (or run `cargo xtask test`)");
    started
}

/// Asks through PostgreSQL's own client.
fn ask(postgres: &Cluster, sql: &str) -> String {
    let psql = POSTGRES.find().unwrap().with_file_name("psql");
    let asked = Command::new(psql)
        .args(["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "postgres", "-h"])
        .arg(&postgres.first().socket_dir)
        .args(["-c", sql])
        .output()
        .unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    String::from_utf8(asked.stdout).unwrap().trim().to_owned()
}

#[test]
fn it_is_reached_by_its_socket_only_and_keeps_its_promises() {
    let base = base();
    let postgres = start(base.path(), &[("shared_buffers", "32MB")]).unwrap();
    let settings = "select string_agg(name || '=' || setting, ' ' order by name) from pg_settings where name in
        ('fsync', 'full_page_writes', 'listen_addresses', 'shared_buffers', 'synchronous_commit', 'data_directory_mode')";
    assert_eq!(
        ask(&postgres, settings),
        "data_directory_mode=0700 fsync=on full_page_writes=on listen_addresses= shared_buffers=4096 synchronous_commit=on"
    );
    let sources = "select string_agg(name, ' ' order by name) from pg_settings where source = 'command line'
        and name not in ('config_file', 'data_directory', 'hba_file', 'ident_file')";
    assert_eq!(ask(&postgres, sources), "listen_addresses shared_buffers unix_socket_directories");
    assert_eq!(
        ask(&postgres, "select datcollate || ' ' || pg_encoding_to_char(encoding) from pg_database limit 1"),
        "C UTF8"
    );

    let socket = postgres.first().socket_dir.join(".s.PGSQL.5432");
    assert!(socket.exists());
    let sockets = postgres.first().socket_dir.metadata().unwrap();
    assert_eq!((sockets.mode() & 0o7777, sockets.uid()), (0o700, postgres.first().data_dir.metadata().unwrap().uid()));
    let status = fs::read_to_string(format!("/proc/{}/status", postgres.pids()[0])).unwrap();
    assert!(!status.contains("\nUid:\t0\t"), "it does not run as root: {status}");
    postgres.close().unwrap();
    assert!(!socket.exists());
}

#[test]
fn a_restart_keeps_the_data_and_a_stopped_one_can_be_looked_at() {
    let base = base();
    let postgres = start(base.path(), &[]).unwrap();
    ask(&postgres, "create table t as select generate_series(1, 1000) as n");
    let first = postgres.pids()[0];
    postgres.restart(Nodes::All).unwrap();
    assert_ne!(postgres.pids()[0], first);
    assert_eq!(ask(&postgres, "select sum(n) from t"), "500500");

    postgres.stop(Nodes::All).unwrap();
    assert!(postgres.pids().is_empty());
    assert!(!postgres.first().data_dir.join("postmaster.pid").exists(), "it stopped in good order");
    let cold = plimsoll_lab::drop_files(&postgres.first().data_dir).unwrap();
    assert!(cold.file_bytes > 10_000_000 && cold.resident_bytes == 0, "{cold:?}");
    postgres.start(Nodes::All).unwrap();
    assert_eq!(ask(&postgres, "select count(*) from t"), "1000");
}

#[test]
fn one_that_was_killed_is_noticed_and_recovers() {
    let base = base();
    let postgres = start(base.path(), &[]).unwrap();
    ask(&postgres, "create table t as select generate_series(1, 1000) as n");
    let pid = rustix::process::Pid::from_raw(postgres.pids()[0] as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let started = Instant::now();
    let error = loop {
        if let Err(error) = postgres.check(Nodes::All) {
            break error;
        }
        assert!(started.elapsed() < Duration::from_secs(10), "nobody noticed");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!((error.kind, &*error.what), (StoreErrorKind::Broken, "postgres was ended by signal 9"));
    postgres.start(Nodes::All).unwrap();
    assert_eq!(ask(&postgres, "select count(*) from t"), "1000");
}

#[test]
fn a_setting_it_refuses_is_an_error_in_its_own_words_and_its_log_is_kept() {
    let base = base();
    let error = start(base.path(), &[("shared_buffers", "plenty")]).err().unwrap();
    assert_eq!((error.kind, &*error.what), (StoreErrorKind::Broken, "postgres ended with exit status 1"));
    assert!(error.detail.unwrap().contains("invalid value for parameter \"shared_buffers\": \"plenty\""));
    let logs: Vec<PathBuf> =
        fs::read_dir(base.path().join("logs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(logs.len(), 1, "{logs:?}");
    assert!(error.next.unwrap().contains(logs[0].to_str().unwrap()));
    assert!(fs::read_to_string(&logs[0]).unwrap().contains("plenty"));
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), 1, "only the log stays");
}

#[test]
fn a_taken_port_is_an_error_of_its_own() {
    let base = base();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let error = start(base.path(), &[("listen_addresses", "127.0.0.1"), ("port", &port)]).err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::AddressTaken, "{error}");
    assert!(error.detail.unwrap().contains(&port));
}

/// Variable with the base of the process that owns a server for another test.
const OWNER_BASE: &str = "PLIMSOLL_POSTGRES_OWNER_BASE";

/// A test of its own, and, started again by [`owner`], the process that others kill.
#[test]
fn closing_removes_everything() {
    let asked_base = std::env::var_os(OWNER_BASE).map(PathBuf::from);
    // One that is killed cannot remove a base of its own.
    let own_base = asked_base.is_none().then(base);
    let place = own_base.as_ref().map(tempfile::TempDir::path).or(asked_base.as_deref()).unwrap();
    let postgres = start(place, &[]).unwrap();
    println!("owner: {}", postgres.pids()[0]);
    if asked_base.is_some() {
        std::io::stdin().read_line(&mut String::new()).unwrap();
    }
    let data = postgres.first().data_dir.clone();
    postgres.close().unwrap();
    assert!(!data.parent().unwrap().exists());
}

/// The test above as a program and arguments.
fn owner() -> [std::ffi::OsString; 4] {
    let test = "private::closing_removes_everything";
    [std::env::current_exe().unwrap().into(), "--exact".into(), test.into(), "--nocapture".into()]
}

#[test]
fn a_full_disk_is_an_error_of_its_own() {
    let base = base();
    // A disk of 16 MB, seen by this process only: `initdb` wants 40. Its server gives up so hard that a shared segment
    // is left behind, in a namespace of its own.
    let mut unshare = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        unshare.args(["--user", "--map-current-user", "--keep-caps"]);
    }
    let ran = unshare
        .args(["--mount", "--ipc", "sh", "-c", "mount -t tmpfs -o size=16m,mode=755 none \"$0\" && exec \"$@\""])
        .arg(base.path())
        .args(owner())
        .env(OWNER_BASE, base.path())
        .current_dir(base.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(!ran.status.success());
    assert!(said.contains("kind: DiskFull") && said.contains("initdb ended with"), "{said}");
    assert!(said.contains("free space on the disk of"), "{said}");
}

/// System V segments that the process `pid` made.
fn segments_of(pid: &str) -> usize {
    let all = fs::read_to_string("/proc/sysvipc/shm").unwrap();
    all.lines().filter(|line| line.split_whitespace().nth(4) == Some(pid)).count()
}

/// POSIX segments that the processes with these ids have mapped.
fn mapped(pids: &[String]) -> BTreeSet<PathBuf> {
    let maps = pids.iter().filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/maps")).ok());
    let lines = maps.flat_map(|maps| maps.lines().map(str::to_owned).collect::<Vec<_>>());
    lines
        .filter_map(|line| Some(format!("/dev/shm/PostgreSQL.{}", line.split_once("/dev/shm/PostgreSQL.")?.1).into()))
        .collect()
}

/// The ids of the processes whose working directory or arguments are under `base`, `pid` first.
fn processes_of(base: &Path, pid: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let is_theirs = |entry: &fs::DirEntry| {
        let cwd = fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(base));
        let arguments = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        cwd || String::from_utf8_lossy(&arguments).contains(base.to_str().unwrap())
    };
    let pids = entries.filter(is_theirs).map(|entry| entry.file_name().into_string().unwrap());
    std::iter::once(pid.to_owned()).chain(pids.filter(|other| other != pid && other.parse::<u32>().is_ok())).collect()
}

/// The supervisor of a private server is the parent of its first process.
fn supervisor_of(pid: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().to_owned()
}

fn kill(pid: &str) {
    let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

#[test]
fn the_shared_memory_of_one_that_was_killed_goes_with_its_data() {
    let base = base();
    let postgres = start(base.path(), &[]).unwrap();
    let pid = postgres.pids()[0].to_string();
    let posix = mapped(std::slice::from_ref(&pid));
    assert_eq!((segments_of(&pid), posix.len()), (1, 1), "{posix:?}");
    kill(&pid);
    let killed = Instant::now();
    while postgres.check(Nodes::All).is_ok() {
        assert!(killed.elapsed() < Duration::from_secs(10), "nobody noticed");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(segments_of(&pid) == 1 && posix.iter().all(|path| path.exists()), "it is left");
    postgres.close().unwrap();
    assert!(segments_of(&pid) == 0 && !posix.iter().any(|path| path.exists()), "{posix:?}");
    assert_eq!(
        fs::read_dir(base.path()).unwrap().filter(|entry| entry.as_ref().unwrap().file_name() != "logs").count(),
        0
    );
}

#[test]
fn where_all_are_killed_at_once_the_next_sweep_removes_their_shared_memory() {
    let base = base();
    let [program, arguments @ ..] = owner();
    let mut owner = Command::new(program)
        .args(arguments)
        .env(OWNER_BASE, base.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(owner.stdout.take().unwrap()).lines().map(Result::unwrap);
    let pid = &lines.filter_map(|line| Some(line.split_once("owner: ")?.1.to_owned())).next().unwrap();
    // A parallel worker, and with it a segment of its own.
    let root = fs::read_dir(base.path()).unwrap().next().unwrap().unwrap().path();
    let mark = fs::read_to_string(root.join("supervisor")).unwrap();
    let sockets = mark.lines().find_map(|line| line.strip_prefix("sockets ")).unwrap().to_owned();
    let sleep = "set force_parallel_mode = on; select pg_sleep(60)";
    let mut client = Command::new(POSTGRES.find().unwrap().with_file_name("psql"))
        .args(["-X", "-U", "postgres", "-d", "postgres", "-h", &sockets, "-c", sleep])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    let posix = loop {
        let posix = mapped(&processes_of(base.path(), pid));
        if posix.len() >= 2 {
            break posix;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "no worker: {posix:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    // The supervisor with all others while their owner waits, then the owner: no process is left to remove anything.
    let supervisor = supervisor_of(pid);
    processes_of(base.path(), pid).iter().chain([&supervisor]).for_each(|pid| kill(pid));
    owner.kill().unwrap();
    owner.wait().unwrap();
    client.wait().unwrap();
    let killed = Instant::now();
    while processes_of(base.path(), "0").len() > 1 {
        processes_of(base.path(), "0")[1..].iter().for_each(|pid| kill(pid));
        assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", processes_of(base.path(), "0"));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(segments_of(pid) == 1 && posix.iter().any(|path| path.exists()), "{posix:?}");
    assert_eq!(plimsoll_lab::sweep_orphans(base.path()).unwrap(), [root]);
    assert!(segments_of(pid) == 0 && !posix.iter().any(|path| path.exists()), "{posix:?}");
}

#[test]
fn nothing_is_left_5_s_after_plimsoll_is_killed() {
    let base = base();
    let [program, arguments @ ..] = owner();
    let mut owner = Command::new(program)
        .args(arguments)
        .env(OWNER_BASE, base.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(owner.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut pids = lines.filter_map(|line| Some(line.split_once("owner: ")?.1.to_owned()));
    let pid = &*pids.next().expect("the owner tells what it owns");
    let root = fs::read_dir(base.path()).unwrap().next().unwrap().unwrap().path();
    let processes = |base: &Path| {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(|first: char| first.is_ascii_digit()));
        pids.filter(|entry| {
            let cwd = fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(base));
            let arguments = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            cwd || String::from_utf8_lossy(&arguments).contains(base.to_str().unwrap())
        })
        .count()
    };
    let segments = || segments_of(pid);
    assert!(processes(&root) > 5, "the postmaster and its workers");
    assert_eq!(segments(), 1, "the postmaster's interlock");

    owner.kill().unwrap();
    owner.wait().unwrap();
    let killed = Instant::now();
    while processes(&root) > 0 || root.exists() || segments() > 0 {
        assert!(killed.elapsed() < Duration::from_secs(5), "{} still stands, or its processes run", root.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}
