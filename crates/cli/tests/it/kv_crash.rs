//! Servers that are killed by `kill -9` under load and started again: acknowledged writes are verified, unknown writes are
//! not called lost, and a server that really lost a write is found out.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use plimsoll_core::Nodes;
use plimsoll_lab::Cluster;
use plimsoll_record::data::{LedgerCheck, PhaseKind, Run, Trial};

use crate::bench::{Guarded, Place, Ran, wait_for};

const MIX: &str = "read=1,update=2,insert=1";

/// Starts a drive of `kv` on the server at `url`, which writes durably for longer than a busy machine takes to kill it, and waits until
/// it does.
fn drive(place: &Place, url: &str) -> Child {
    let sizes = ["--set", "records=5000", "--set", "field_length=10", "--set", "distribution=uniform"];
    let options = ["--mix", MIX, "--clients", "8", "--for", "12s", "--warmup", "0s", "--durability", "durable"];
    let child = place.command(&[&["drive", "kv", "--on", url][..], &options, &sizes].concat()).spawn().unwrap();
    wait_for_slices(place, 1);
    child
}

fn loaded(run: &Path) -> Option<Trial> {
    Run::load(run).ok()?.trials.into_iter().next()
}

/// Waits until the drive has had so many slices.
fn wait_for_slices(place: &Place, count: usize) {
    wait_for("the drive", Duration::from_secs(60), || {
        let trial = place.all_runs().first().and_then(|run| loaded(run));
        let of_drive = |trial: Trial| trial.phases.into_iter().find(|phase| phase.header.kind == PhaseKind::Drive);
        trial.and_then(of_drive).is_some_and(|phase| phase.slices.len() >= count)
    });
}

/// Returns the ledger's verdict, and the result of the program.
fn verdict(place: &Place, child: Child) -> (LedgerCheck, u64, Ran) {
    let ran = Ran::of(&child.wait_with_output().unwrap());
    let trial = loaded(&place.only_run()).unwrap();
    let wrong = trial.answers.iter().map(|one| one.counts.missing + one.counts.wrong).sum();
    assert_eq!(trial.ledgers.len(), 1, "{}\n{}", ran.out, ran.err);
    (trial.ledgers.into_iter().next().unwrap(), wrong, ran)
}

/// Checks that all acknowledged writes are present, and that writes without an answer are neither lost nor required.
fn nothing_is_lost(place: &Place, child: Child) {
    let (ledger, wrong, ran) = verdict(place, child);
    assert!(ledger.complete && ledger.lost == 0 && ledger.wrong.is_empty() && wrong == 0, "{ledger:?} {}", ran.out);
    assert!(ledger.unknown > 0, "the kill met no operation: {ledger:?}");
    // A busy machine does a tenth of what a quiet one does.
    assert!(ledger.acknowledged > 2_000 && ledger.read_back > 1_500, "{ledger:?}");
    assert!(ledger.sentence.contains("the outcome of "), "{}", ledger.sentence);
    ran.expect(0).says("PASS").says("kept every promise");
}

/// A Redis on a socket of its own that writes down what it is told.
struct Redis {
    child: Option<Guarded>,
    dir: tempfile::TempDir,
}

impl Redis {
    /// Starts a server that promises to sync each write before it answers.
    fn started() -> Self {
        let dir = tempfile::Builder::new().prefix("redis-test-").tempdir_in("/var/tmp").unwrap();
        let mut redis = Self { child: None, dir };
        redis.start("always");
        redis
    }

    fn start(&mut self, fsync: &str) {
        let child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--daemonize", "no", "--appendonly", "yes"])
            // The log is one file, whatever is written.
            .args(["--auto-aof-rewrite-percentage", "0", "--appendfsync", fsync, "--dir"])
            .arg(self.dir.path())
            .arg("--unixsocket")
            .arg(self.socket())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server (or run `cargo xtask test`)");
        self.child = Some(Guarded(child));
        let socket = self.socket();
        wait_for("redis to listen", Duration::from_secs(20), || UnixStream::connect(&socket).is_ok());
    }

    /// Makes it sync once a second from now on, whatever it promised: one that never does is refused.
    fn sync_every_second(&self) {
        let mut control = UnixStream::connect(self.socket()).unwrap();
        control.write_all(b"CONFIG SET appendfsync everysec\r\n").unwrap();
        let mut answer = [0; 5];
        control.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"+OK\r\n");
    }

    /// Kills it by `kill -9`.
    fn kill(&mut self) {
        self.child = None;
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// The file to which everything was appended.
    fn log(&self) -> PathBuf {
        let files = std::fs::read_dir(self.dir.path().join("appendonlydir")).unwrap().flatten();
        files.map(|file| file.path()).find(|path| path.to_string_lossy().ends_with(".incr.aof")).unwrap()
    }
}

#[test]
fn a_redis_that_syncs_always_loses_nothing_by_a_kill() {
    let mut redis = Redis::started();
    let place = Place::new();
    let child = drive(&place, &redis.url());
    redis.kill();
    redis.start("always");
    nothing_is_lost(&place, child);
}

/// A Redis that was killed under a drive when it had come to sync once a second only.
fn killed_while_it_syncs_every_second() -> (Place, Redis, Child) {
    let mut redis = Redis::started();
    let place = Place::new();
    let child = drive(&place, &redis.url());
    redis.sync_every_second();
    wait_for_slices(&place, 2);
    redis.kill();
    (place, redis, child)
}

/// A kill takes from a process what it has not handed to the system. That is done before the answer, unless a sync takes
/// long: then for two seconds it is not.
#[test]
fn what_a_redis_that_syncs_every_second_loses_by_a_kill_is_said() {
    let (place, mut redis, child) = killed_while_it_syncs_every_second();
    redis.start("everysec");
    let (ledger, wrong, ran) = verdict(&place, child);
    assert!(ledger.complete && ledger.unknown > 0 && ledger.acknowledged > 10_000, "{ledger:?}");
    match ledger.lost {
        0 => assert!(wrong == 0 && ran.code == Some(0), "{ledger:?} {}", ran.out),
        _ => assert!(ran.code == Some(1), "{ledger:?} {}", ran.out),
    }
}

/// A power cut takes what the system has not written yet: here the last part of the file.
#[test]
fn what_a_redis_that_syncs_every_second_loses_with_the_power_is_found() {
    let (place, mut redis, child) = killed_while_it_syncs_every_second();
    let log = std::fs::OpenOptions::new().write(true).open(redis.log()).unwrap();
    let bytes = log.metadata().unwrap().len();
    log.set_len(bytes - bytes / 8).unwrap();
    redis.start("everysec");
    let (ledger, wrong, ran) = verdict(&place, child);
    assert!(ledger.complete && ledger.lost > 100, "{ledger:?}");
    assert!(wrong > 0, "later reads found what had been overwritten, or nothing: {ledger:?}");
    assert!(ledger.examples.iter().any(|text| text.contains("acknowledged at")), "{:?}", ledger.examples);
    ran.expect(1).says("FAIL").says("redis lost ").says("acknowledged writes");
}

#[test]
fn a_postgres_loses_nothing_by_a_kill() {
    let place = Place::new();
    let bases = [PathBuf::from("/var/tmp")];
    let recipe = Box::new(plimsoll_store_postgres::PostgresRecipe::default());
    let server = Cluster::start(recipe, &bases, place.path(), &Default::default(), &mut |_| {})
        .expect("PostgreSQL: apt-get install postgresql, or run `cargo xtask test`");
    let host = server.first().socket_dir.display().to_string().replace('/', "%2F");
    let url = format!("postgres://postgres@{host}/postgres");
    let child = drive(&place, &url);
    // A busy generator may have all answers before it, so that a kill meets no operation: not several times.
    for _ in 0..3 {
        // Its children with it and at once: left alone they would answer what they are at.
        let pid = server.pids()[0];
        // The list may lack some while others begin or end (proc_pid_task_tid_children(5)): none begins any more, and it is read until
        // it stays the same.
        assert!(Command::new("kill").args(["-STOP", &pid.to_string()]).status().unwrap().success());
        let read = || std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        let mut children = String::new();
        wait_for("a list that stays", Duration::from_secs(10), || {
            let before = std::mem::replace(&mut children, read());
            !children.is_empty() && children == before
        });
        // One of them may have ended meanwhile, which `kill` calls a failure.
        let kill = ["-9", &pid.to_string()];
        let _ =
            Command::new("kill").args(kill).args(children.split_whitespace()).stderr(Stdio::null()).status().unwrap();
        wait_for("the postmaster's end", Duration::from_secs(10), || server.check(Nodes::All).is_err());
        // All of them must have gone before another may start.
        wait_for("PostgreSQL to start again", Duration::from_secs(30), || server.start(Nodes::All).is_ok());
        std::thread::sleep(Duration::from_millis(700));
    }
    nothing_is_lost(&place, child);
    server.close().unwrap();
}
