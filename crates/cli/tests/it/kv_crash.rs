//! Servers that are killed by `kill -9` under load and started again: acknowledged writes are verified, unknown writes are
//! not called lost, and a server that really lost a write is found out.

use plimsoll_core::Nodes;
use plimsoll_record::data::{LedgerCheck, Run};

use crate::bench::{Guarded, Place, Ran};
use crate::servers::Redis;

/// A log in one file, synced before each answer.
const SYNCED: [(&str, &str); 4] =
    [("save", ""), ("appendonly", "yes"), ("appendfsync", "always"), ("auto-aof-rewrite-percentage", "0")];

/// Starts a drive of `kv` on the server at `url`, which writes durably for longer than kill and start take, and waits until it does.
fn drive(place: &Place, url: &str, seconds: &str) -> Guarded {
    let sizes = "--set records=5000 --set field_length=10 --set distribution=uniform --slice 200ms";
    let options = "--mix read=1,update=2,insert=1 --clients 8 --warmup 0s --durability durable";
    let words = format!("drive kv --on {url} --for {seconds} {options} {sizes}");
    place.started(&words.split(' ').collect::<Vec<_>>(), 4)
}

/// Returns the ledger's verdict, answers that were wrong or found nothing, and the result of the program.
fn verdict(place: &Place, drive: Guarded) -> (LedgerCheck, u64, Ran) {
    let ran = drive.ended();
    let trial = Run::load(&place.only_run()).unwrap().trials.remove(0);
    let wrong = trial.answers.iter().map(|one| one.counts.wrong + one.counts.missing).sum();
    let [ledger] = <[LedgerCheck; 1]>::try_from(trial.ledgers).unwrap();
    assert!(ledger.complete && ledger.unknown > 0, "the kill met no operation: {ledger:?} {ran:?}");
    (ledger, wrong, ran)
}

#[test]
fn a_redis_that_syncs_always_loses_nothing_by_a_kill() {
    let place = Place::new();
    let redis = Redis::start_with(&SYNCED, place.path());
    let drive = drive(&place, &redis.url(), "6s");
    redis.server.kill(Nodes::All).unwrap();
    redis.server.start(Nodes::All).unwrap();
    let (ledger, wrong, ran) = verdict(&place, drive);
    assert!(ledger.lost == 0 && ledger.wrong.is_empty() && wrong == 0, "{ledger:?} {}", ran.out);
    // A busy machine does a tenth of what a quiet one does.
    assert!(ledger.acknowledged > 1_000 && ledger.read_back > 1_000, "{ledger:?}");
    assert!(ledger.sentence.contains("the outcome of "), "{}", ledger.sentence);
    ran.expect(0).says("PASS … kept every promise");
}

/// A power cut takes what the system has not written yet: here the last part of the file, as it is where syncs come once a second.
#[test]
fn what_a_redis_loses_with_the_power_is_found() {
    let place = Place::new();
    let redis = Redis::start_with(&SYNCED, place.path());
    let drive = drive(&place, &redis.url(), "8s");
    redis.server.kill(Nodes::All).unwrap();
    let log = std::fs::OpenOptions::new().write(true).open(redis.file("appendonly.aof.1.incr.aof")).unwrap();
    let bytes = log.metadata().unwrap().len();
    log.set_len(bytes - bytes / 8).unwrap();
    redis.server.start(Nodes::All).unwrap();
    let (ledger, wrong, ran) = verdict(&place, drive);
    assert!(ledger.lost > 100 && ledger.lost_window_ns.is_some(), "{ledger:?}");
    assert!(wrong > 0, "later reads found what had been overwritten, or nothing: {ledger:?}");
    // Which key, which write, what was found.
    let example = &ledger.examples[0];
    assert!(example.starts_with("user") && example.contains("acknowledged at"), "{example}");
    ran.expect(1).says("FAIL … redis lost  … acknowledged writes");
}
