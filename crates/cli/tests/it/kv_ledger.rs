//! The ledger of keys and values, through the program: stores that keep their promises, and one that does not.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use plimsoll_record::data::{PhaseKind, Run};

use crate::bench::{Guarded, Place, Ran, wait_for};

const ALL: &str = "read=40,update=20,insert=10,read_modify_write=20,scan=10";

#[test]
fn every_answer_and_every_acknowledged_write_is_looked_at_on_every_store() {
    for (store, mix, durability) in [
        ("sqlite", ALL, "buffered"),
        ("fjall", ALL, "buffered"),
        ("postgres", ALL, "durable"),
        ("redis", "read=40,update=20,insert=10,read_modify_write=30", "buffered"),
    ] {
        let place = Place::new();
        let sizes = ["--set", "records=500", "--set", "field_length=10", "--set", "distribution=latest"];
        let options = ["--mix", mix, "--clients", "4", "--ops", "300", "--durability", durability, "--goal", "lost=0"];
        let ran = place.run(&[&["drive", "kv", "--on", store][..], &options, &sizes].concat()).expect(0);
        ran.says("PASS").says("acknowledged writes").says("ledger");
        let run = Run::load(&place.only_run()).unwrap();
        let ledger = &run.trials[0].ledgers[0];
        // 1,200 operations of which half write.
        assert!(ledger.complete && ledger.acknowledged >= 500 + 500, "{store}: {ledger:?}");
        assert!(ledger.read_back >= 500 + 100, "{store}: what was inserted is read back too: {ledger:?}");
        let answers =
            |op: &str| run.trials[0].answers.iter().filter(|one| one.op == op).map(|one| one.counts.answers).sum();
        let (read, before, scan): (u64, u64, u64) = (answers("read"), answers("read before write"), answers("scan"));
        assert!(read > 400 && before > 200, "{store}: {:?}", run.trials[0].answers);
        assert_eq!(scan > 0, mix.contains("scan"), "{store}");
    }
}

#[test]
fn trials_go_on_with_the_data_that_their_ledger_knows() {
    let place = Place::new();
    let options = ["--clients", "1,4", "--ops", "200", "--durability", "buffered", "--set", "records=300"];
    let mix = ["--mix", "read=5,update=3,insert=2", "--set", "field_length=10"];
    place.run(&[&["drive", "kv", "--on", "redis"][..], &options, &mix].concat()).expect(0).says("PASS");
    let run = Run::load(&place.only_run()).unwrap();
    let phases =
        |trial: usize| -> Vec<&str> { run.trials[trial].phases.iter().map(|phase| phase.header.kind.name()).collect() };
    assert_eq!(phases(0), ["load", "drive", "check"]);
    assert_eq!(phases(1), ["drive", "check"], "loaded once only");
    assert!(run.trials.iter().all(|trial| trial.ledgers[0].complete && trial.ledgers[0].lost == 0));
    assert!(run.trials[1].ledgers[0].read_back > run.trials[0].ledgers[0].read_back, "the second inserts more");
}

#[test]
fn a_ledger_that_is_off_is_off_and_said_to_be() {
    let place = Place::new();
    let options = ["--mix", "read=1,update=1", "--ops", "100", "--set", "records=100", "--set", "ledger=off"];
    let ran = place.run(&[&["drive", "kv", "--on", "redis"][..], &options].concat()).expect(0);
    ran.says("the ledger is off");
    let run = Run::load(&place.only_run()).unwrap();
    assert!(run.trials[0].ledgers.is_empty() && run.trials[0].answers.is_empty());
    assert_eq!(run.trials[0].header.params["ledger"], "off");
}

/// A foreign Redis, on a socket of its own.
struct Redis {
    child: Option<Guarded>,
    dir: tempfile::TempDir,
}

impl Redis {
    fn start(&mut self, arguments: &[&str]) {
        let child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--daemonize", "no", "--dir"])
            .arg(self.dir.path())
            .arg("--unixsocket")
            .arg(self.socket())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server (or run `cargo xtask test`)");
        self.child = Some(Guarded(child));
        let socket = self.socket();
        wait_for("redis to listen", Duration::from_secs(20), || {
            std::os::unix::net::UnixStream::connect(&socket).is_ok()
        });
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }
}

#[test]
fn a_redis_that_loses_what_it_acknowledged_is_found_out() {
    let dir =
        tempfile::Builder::new().prefix(&format!("redis-test-{}-", std::process::id())).tempdir_in("/var/tmp").unwrap();
    let mut redis = Redis { child: None, dir };
    // It promises to keep everything …
    redis.start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let place = Place::new();
    let url = format!("redis+unix://{}", redis.socket().display());
    let options = ["--mix", "read=1,update=1", "--clients", "4", "--for", "4s", "--warmup", "0s", "--goal", "lost=0"];
    let sizes = ["--set", "records=20000", "--set", "field_length=10", "--set", "distribution=uniform"];
    let mut command = place.command(&[&["drive", "kv", "--on", &url][..], &options, &sizes].concat());
    let child = command.spawn().unwrap();
    wait_for("the drive", Duration::from_secs(60), || {
        place.all_runs().first().is_some_and(|run| {
            let run = Run::load(run);
            run.is_ok_and(|run| {
                run.trials.first().is_some_and(|trial| {
                    trial.phases.iter().any(|phase| phase.slices.len() > 1 && phase.header.kind == PhaseKind::Drive)
                })
            })
        })
    });
    // … and is killed and started again without that option: it does not read its file.
    drop(redis.child.take());
    redis.start(&["--appendonly", "no"]);
    let ran = Ran::of(&child.wait_with_output().unwrap()).expect(1);
    ran.says("FAIL").says("redis lost ").says("acknowledged writes");
    let run = Run::load(&place.only_run()).unwrap();
    let trial = &run.trials[0];
    let ledger = &trial.ledgers[0];
    assert!(ledger.complete && ledger.lost > 100 && ledger.wrong.is_empty(), "{ledger:?}");
    assert!(ledger.lost_window_ns.is_some());
    // Which key, which write, what was found.
    let example = ledger.examples.iter().find(|text| text.contains("is gone")).unwrap();
    assert!(example.starts_with("user") && example.contains("acknowledged at"), "{example}");
    let missing: u64 = trial.answers.iter().map(|one| one.counts.missing).sum();
    assert!(missing > 0, "reads found nothing where something had been acknowledged: {:?}", trial.answers);
}
