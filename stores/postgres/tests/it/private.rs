//! Private servers: what they listen on and keep, how they restart and fail, what stays after a kill.

#![allow(clippy::unwrap_used, reason = "clippy's exception for tests does not cover their own functions")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_core::Nodes;
use plimsoll_lab::Cluster;
use plimsoll_store_postgres::server::POSTGRES;
use plimsoll_store_postgres::{PostgresRecipe, kind};
use plimsoll_testkit::opening::Opening;
use plimsoll_testkit::private::{Private, base, kill, processes_of};

const PRIVATE: Private = Private {
    program: "postgres",
    start: |base, settings, progress| {
        let settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let recipe = Box::new(PostgresRecipe { settings, ..Default::default() });
        Cluster::start(recipe, &[base.to_owned()], &base.join("logs"), &Default::default(), progress)
    },
    write: |server| drop(ask(server, "create table t as select generate_series(1, 1000) as n")),
    holds: |server| ask(server, "select count(*), sum(n) from t") == "1000|500500",
    refused: ["shared_buffers", "plenty", "invalid value for parameter \"shared_buffers\": \"plenty\""],
    closing: "private::closing_removes_everything",
};

/// Asks through PostgreSQL's own client.
pub(crate) fn ask(postgres: &Cluster, sql: &str) -> String {
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
fn its_log_is_on_a_disk_of_its_own_if_that_is_asked_for() {
    let base = base();
    let opening = Opening::private(kind, base.path()).text("disk", "ext4").text("log_disk", "full");
    let mut store = opening.int("disk_size", 256 << 20).open().unwrap();
    let node = store.servers().unwrap().first();
    let device = |path: PathBuf| fs::metadata(path).unwrap().dev();
    let (data, log) = (device(node.data_dir.clone()), device(node.data_dir.join("pg_wal")));
    assert_ne!(data, log);
    assert_eq!(log, device(node.log_dir.clone().unwrap()));
    store.restart().unwrap();
    store.close().unwrap();
    assert_eq!(fs::read_dir(base.path().join("data")).unwrap().count(), 0, "nothing is left");
}

#[test]
fn it_keeps_its_promises_from_its_start_to_its_end() {
    PRIVATE.lives(|postgres| {
        let settings = "select string_agg(name || '=' || setting, ' ' order by name) from pg_settings where name in
            ('fsync', 'full_page_writes', 'listen_addresses', 'synchronous_commit', 'data_directory_mode')";
        assert_eq!(
            ask(postgres, settings),
            "data_directory_mode=0700 fsync=on full_page_writes=on listen_addresses= synchronous_commit=on"
        );
        let sources = "select string_agg(name, ' ' order by name) from pg_settings where source = 'command line'
            and name not in ('config_file', 'data_directory', 'hba_file', 'ident_file')";
        assert_eq!(ask(postgres, sources), "listen_addresses unix_socket_directories");
        let made = "select datcollate || ' ' || pg_encoding_to_char(encoding) from pg_database limit 1";
        assert_eq!(ask(postgres, made), "C UTF8");
        assert!(postgres.first().socket_dir.join(".s.PGSQL.5432").exists());
    });
}

#[test]
fn a_setting_it_refuses_is_an_error_in_its_own_words_and_its_log_is_kept() {
    PRIVATE.a_setting_it_refuses_is_told();
}

/// A test of its own, and, started again, the process that others kill.
#[test]
fn closing_removes_everything() {
    PRIVATE.closing_removes_everything();
}

#[test]
fn nothing_is_left_5_s_after_plimsoll_is_killed() {
    PRIVATE.nothing_is_left_5_s_after_a_kill(segments_of);
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

/// The supervisor of a private server is the parent of its first process.
fn supervisor_of(pid: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().to_owned()
}

#[test]
fn the_shared_memory_of_one_that_was_killed_goes_with_its_data() {
    let base = base();
    let postgres = PRIVATE.start(base.path(), &[]).unwrap();
    let pid = postgres.pids()[0].to_string();
    let posix = mapped(std::slice::from_ref(&pid));
    assert_eq!((segments_of(&pid), posix.len()), (1, 1), "{posix:?}");
    kill(&pid);
    let killed = Instant::now();
    while !processes_of(base.path()).is_empty() {
        assert!(killed.elapsed() < Duration::from_secs(100), "it goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(segments_of(&pid) == 1 && posix.iter().all(|path| path.exists()), "it is left");
    // A power cut may leave it out.
    fs::remove_file(postgres.first().data_dir.join("postmaster.pid")).unwrap();
    // Its supervisor may learn of its end a moment later.
    while postgres.check(Nodes::All).is_ok() {
        assert!(killed.elapsed() < Duration::from_secs(100), "its end is not noticed");
        std::thread::sleep(Duration::from_millis(5));
    }
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
    let mut owner = PRIVATE.owner(base.path());
    let (pid, root) = (owner.pid.clone(), owner.root.clone());
    let pid = &*pid;
    // A parallel worker, and with it a segment of its own.
    let mark = fs::read_to_string(root.join("supervisor")).unwrap();
    let sockets = mark.lines().find_map(|line| line.strip_prefix("sockets ")).unwrap().to_owned();
    let sleep = "set force_parallel_mode = on; select pg_sleep(200)";
    let mut client = Command::new(POSTGRES.find().unwrap().with_file_name("psql"))
        .args(["-X", "-U", "postgres", "-d", "postgres", "-h", &sockets, "-c", sleep])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    let posix = loop {
        let posix = mapped(&processes_of(base.path()));
        if posix.len() >= 2 {
            break posix;
        }
        assert!(started.elapsed() < Duration::from_secs(100), "no worker: {posix:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    // The supervisor with all others while their owner waits, then the owner: no process is left to remove anything.
    let supervisor = supervisor_of(pid);
    kill(pid);
    processes_of(base.path()).iter().chain([&supervisor]).for_each(|pid| kill(pid));
    owner.child.kill().unwrap();
    owner.child.wait().unwrap();
    client.wait().unwrap();
    let killed = Instant::now();
    while !processes_of(base.path()).is_empty() {
        processes_of(base.path()).iter().for_each(|pid| kill(pid));
        assert!(killed.elapsed() < Duration::from_secs(100), "{:?}", processes_of(base.path()));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(segments_of(pid) == 1 && posix.iter().any(|path| path.exists()), "{posix:?}");
    // A power cut may leave it out.
    fs::remove_file(root.join("data/postmaster.pid")).unwrap();
    // The supervisor's lock goes with the supervisor, which is none of those processes.
    let swept = loop {
        let swept = plimsoll_lab::sweep_orphans(base.path()).unwrap();
        if !swept.is_empty() || killed.elapsed() > Duration::from_secs(100) {
            break swept;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(swept, [root]);
    assert!(segments_of(pid) == 0 && !posix.iter().any(|path| path.exists()), "{posix:?}");
}
