//! Private servers: what they listen on and keep, how they restart and fail, what stays after a kill.

#![allow(clippy::unwrap_used, reason = "clippy's exception for tests does not cover their own functions")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_core::{Nodes, StoreError, StoreErrorKind};
use plimsoll_lab::Cluster;
use plimsoll_store_mariadb::{Connection, MariadbRecipe};

use crate::fixture::{address, login, open_login};

/// A base that the server's user can get to.
fn base() -> tempfile::TempDir {
    let base = tempfile::Builder::new()
        .prefix(&format!("mariadb-test-{}-", std::process::id()))
        .tempdir_in("/var/tmp")
        .unwrap();
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
    base
}

fn start(base: &Path, settings: &[(&str, &str)]) -> Result<Cluster, StoreError> {
    let settings: Vec<_> = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let mut told = Vec::new();
    let (recipe, logs) = (Box::new(MariadbRecipe { settings, ..Default::default() }), base.join("logs"));
    let started = Cluster::start(recipe, &[base.to_owned()], &logs, &Default::default(), &mut |what| {
        told.push(what.to_owned());
    });
    assert!(!told.is_empty(), "mariadbd is not installed: apt-get install mariadb-server (or run `cargo xtask test`)");
    started
}

fn root(mariadb: &Cluster) -> Connection {
    open_login(&address(mariadb), login("root", None)).unwrap()
}

fn fill(mariadb: &Cluster) {
    let mut control = root(mariadb);
    for statement in ["CREATE DATABASE d", "USE d", "CREATE TABLE t (n INT)"] {
        control.simple(statement).unwrap();
    }
    control.simple("INSERT INTO t WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000) SELECT n FROM n").unwrap();
}

#[test]
fn it_is_reached_by_its_socket_only_and_keeps_its_promises() {
    let base = base();
    let mariadb = start(base.path(), &[("innodb-buffer-pool-size", "32M")]).unwrap();
    let mut control = root(&mariadb);
    let settings = "SELECT CONCAT_WS(' ', @@skip_networking, @@port, @@log_bin, @@innodb_flush_log_at_trx_commit, \
                    @@innodb_doublewrite, @@innodb_buffer_pool_load_at_startup, @@innodb_buffer_pool_size)";
    assert_eq!(control.value(settings).unwrap(), "ON 0 OFF 1 ON OFF 33554432");
    let socket = mariadb.first().socket_dir.join("socket");
    assert!(socket.exists());
    let sockets = mariadb.first().socket_dir.metadata().unwrap();
    assert_eq!((sockets.mode() & 0o7777, sockets.uid()), (0o700, mariadb.first().data_dir.metadata().unwrap().uid()));
    let status = fs::read_to_string(format!("/proc/{}/status", mariadb.pids()[0])).unwrap();
    assert!(!status.contains("\nUid:\t0\t"), "it does not run as root: {status}");
    drop(control);
    mariadb.close().unwrap();
    assert!(!socket.exists());
}

#[test]
fn a_restart_keeps_the_data_and_a_stopped_one_can_be_looked_at() {
    let base = base();
    let mariadb = start(base.path(), &[]).unwrap();
    fill(&mariadb);
    let first = mariadb.pids()[0];
    mariadb.restart(Nodes::All).unwrap();
    assert_ne!(mariadb.pids()[0], first);
    assert_eq!(root(&mariadb).value("SELECT SUM(n) FROM d.t").unwrap(), "500500");

    mariadb.stop(Nodes::All).unwrap();
    assert!(mariadb.pids().is_empty());
    let cold = plimsoll_lab::drop_files(&mariadb.first().data_dir).unwrap();
    assert!(cold.file_bytes > 10_000_000 && cold.resident_bytes == 0, "{cold:?}");
    mariadb.start(Nodes::All).unwrap();
    assert_eq!(root(&mariadb).value("SELECT COUNT(*) FROM d.t").unwrap(), "1000");
}

#[test]
fn one_that_was_killed_is_noticed_and_recovers() {
    let base = base();
    let mariadb = start(base.path(), &[]).unwrap();
    fill(&mariadb);
    let pid = rustix::process::Pid::from_raw(mariadb.pids()[0] as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let started = Instant::now();
    let error = loop {
        if let Err(error) = mariadb.check(Nodes::All) {
            break error;
        }
        assert!(started.elapsed() < Duration::from_secs(10), "nobody noticed");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!((error.kind, &*error.what), (StoreErrorKind::Broken, "mariadbd was ended by signal 9"));
    mariadb.start(Nodes::All).unwrap();
    assert_eq!(root(&mariadb).value("SELECT COUNT(*) FROM d.t").unwrap(), "1000");
}

#[test]
fn a_setting_it_refuses_is_an_error_in_its_own_words_and_its_log_is_kept() {
    let base = base();
    let error = start(base.path(), &[("no-such-setting", "1")]).err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Broken, "{error}");
    assert!(error.detail.unwrap().contains("unknown variable 'no-such-setting=1'"));
    let logs: Vec<PathBuf> =
        fs::read_dir(base.path().join("logs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(logs.len(), 1, "{logs:?}");
    assert!(error.next.unwrap().contains(logs[0].to_str().unwrap()));
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), 1, "only the log stays");
}

/// Variable with the base of the process that owns a server for another test.
const OWNER_BASE: &str = "PLIMSOLL_MARIADB_OWNER_BASE";

/// A test of its own, and, started again by the next one, the process that is killed.
#[test]
fn closing_removes_everything() {
    let asked_base = std::env::var_os(OWNER_BASE).map(PathBuf::from);
    // One that is killed cannot remove a base of its own.
    let own_base = asked_base.is_none().then(base);
    let place = own_base.as_ref().map(tempfile::TempDir::path).or(asked_base.as_deref()).unwrap();
    let mariadb = start(place, &[]).unwrap();
    println!("owner: {}", mariadb.pids()[0]);
    if asked_base.is_some() {
        std::io::stdin().read_line(&mut String::new()).unwrap();
    }
    let data = mariadb.first().data_dir.clone();
    mariadb.close().unwrap();
    assert!(!data.parent().unwrap().exists());
}

#[test]
fn nothing_is_left_5_s_after_plimsoll_is_killed() {
    let base = base();
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "private::closing_removes_everything", "--nocapture"])
        .env(OWNER_BASE, base.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(owner.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut pids = lines.filter_map(|line| Some(line.split_once("owner: ")?.1.to_owned()));
    let pid = pids.next().expect("the owner tells what it owns");
    let root = fs::read_dir(base.path()).unwrap().next().unwrap().unwrap().path();
    let runs = || Path::new("/proc").join(&pid).join("cwd").read_link().is_ok_and(|cwd| cwd.starts_with(&root));
    assert!(runs());
    owner.kill().unwrap();
    owner.wait().unwrap();
    let killed = Instant::now();
    while runs() || root.exists() {
        assert!(killed.elapsed() < Duration::from_secs(5), "{} still stands, or its server runs", root.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}
