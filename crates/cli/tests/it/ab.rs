//! `plimsoll ab`: two sides in turn, on real servers and on stores inside the program. `trial` tries decisions, pairs
//! and budgets on simulated time.

use std::collections::BTreeMap;
use std::io::Read;

use plimsoll_record::data::{LedgerCheck, PhaseKind};
use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{Guarded, Place, servers};

/// Two private Redis servers, of which one syncs each write and one does not; turns as short as can be.
const SYNCED: &str = "ab kv --on redis --mix update=1 --clients 4 --set records=500 --slice 100ms --turn 250ms \
                      --warmup 50ms --budget 60s --full";

/// The side that syncs as A.
const SIDES: &str = "--a durability=durable --b durability=buffered";

#[test]
fn a_true_difference_is_decided_and_found_again_in_the_recording() {
    let place = Place::new();
    let ran = place
        .line(&format!("{SYNCED} {SIDES}"))
        .expect(0)
        .says("PASS  A (durability=durable)")
        .says("B (durability=buffered) is ")
        .says("decided after");
    assert!(ran.out.contains("Configured differently") && ran.out.contains("acknowledged write was lost"), "{ran:?}");
    assert!(!place.only_run().join("data").exists(), "servers and data are gone");
    let report = place.report();
    let ab = &report["ab"];
    assert_eq!((&ab["decided"], &ab["metrics"][0]["decision"]), (&true.into(), &"more".into()));
    let sentence = ab["sentence"].as_str().unwrap();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&ran.out).contains(sentence), "the report says what was said: {sentence}");
    let pairs = ab["rows"].as_array().unwrap();
    assert!(pairs.len() >= 7 && pairs.len() as u64 == ab["pairs"], "{pairs:?}");
    let page = std::fs::read_to_string(place.only_run().join("report.html")).unwrap();
    assert!(page.contains("Two sides in turn") && page.contains("Change in rate, B against A"));
}

#[test]
fn a_condition_that_is_met_fails() {
    let place = Place::new();
    let turns = "--turn 250ms --warmup 0s --budget 60s --fail-if rate\u{a0}<\u{a0}-3% --quiet";
    place
        .line(&format!("ab nothing --on null --clients 4 --a think=5ms --b think=20ms {turns}"))
        .expect(1)
        .says("FAIL  B (think=20ms) is … slower than A (think=5ms) … `rate < -3%` is met");
}

#[test]
fn two_plans_may_ask_different_things_and_are_told_so() {
    let place = Place::new();
    let plan = |name: &str, records: u32| {
        let text = format!(
            "stores = [\"null\"]\nslice = \"100ms\"\n[workload]\nname = \"kv\"\nrecords = {records}\nledger = \"off\"\n\
             [[phase]]\ndo = \"load\"\n[[phase]]\ndo = \"drive\"\nclients = 2\nthink = \"2ms\"\n\
             for = \"9s\"\nmix = {{ read = 1 }}\n\
             [goals]\nrate = \"1/s\"\n"
        );
        let path = place.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (small, large) = (plan("small.toml", 10), plan("large.toml", 2_000));
    let ran = place.run(&["ab", &small, &large, "--turn", "200ms", "--warmup", "0s", "--budget", "6s", "--full"]);
    assert!(matches!(ran.code, Some(0 | 11)), "{ran:?}");
    let ran = ran.says("The sides hold different numbers of records: 10 and 2,000.").says("goals were not judged");
    assert!(ran.out.contains("B (large)") && ran.out.contains("A (small)"), "{ran:?}");
    let report = place.report();
    let lines: Vec<_> = report["ab"]["differences"].as_array().unwrap().iter().map(|one| &one["b"]).collect();
    assert!(lines.contains(&&"records = 2000".into()), "{lines:?}");
}

#[test]
fn what_cannot_be_compared_is_said_before_anything_starts() {
    let place = Place::new();
    let base = ["ab", "kv", "--on", "null", "--mix", "read=1"];
    for (more, what) in [
        (&[][..], "both sides are the same"),
        (&["--b", "clients=1"], "both sides are the same"),
        (&["--b", "colour=red"], "unknown key `colour`"),
        (&["--b", "redis.maxmemory=1GiB"], "names a store that is not in --on"),
        (&["--b", "clients=2,4"], "side B has 2 trials: a side takes one point"),
        (
            &["--b", "clients=2", "--budget", "30s"],
            "--budget 30s has room for 2 pairs of turns of 6 s, and fewer than 7",
        ),
        (&["--b", "clients=2", "--metric", "rates"], "did you mean `rate`?"),
        (&["--b", "clients=2", "--fail-if", "p99 > 5ms"], "does not compare a change"),
        (&["--b", "clients=2", "--difference", "3"], "--difference 3: "),
        (&["--b", "clients=2", "--difference", "0.01%"], "must be 0.1% to 50%\n  → write a share"),
        (&["--b", "clients=2", "--turn", "1ms"], "--turn 1ms is too short\n  → write at least 200 ms"),
        (&["--b", "clients=2", "--for", "3s"], "--for is not an option of `plimsoll ab`"),
        (&["--b", "clients=2", "--goal", "p99=1ms"], "--fail-if 'p99 > +5%' makes it fail"),
        (&["--b", "none.toml"], "--mix was given beside the plan file none.toml"),
    ] {
        let args: Vec<&str> = base.iter().chain(more).copied().collect();
        let ran = place.run(&args).expect(2).says(what);
        assert!(ran.out.is_empty(), "{ran:?}");
    }
    assert_eq!(place.all_runs(), Vec::<std::path::PathBuf>::new());
    let b = ["--b", "redis://127.0.0.1:1", "--budget", "90s"];
    let ran = place.run(&base.iter().chain(&b).copied().collect::<Vec<_>>()).expect(3);
    assert!(ran.err.contains("this was side B (redis://127.0.0.1:1), as it was opened"), "{ran:?}");
}

/// Starts a comparison and waits for its first pair that counts: on a busy machine one may have too few samples.
fn at_work(place: &Place) -> Guarded {
    let args = format!("{SYNCED} {SIDES} --difference 0.1% --metric rate --metric p50 --metric errors");
    let mut child = Guarded(place.command(&args.split(' ').collect::<Vec<_>>()).spawn().unwrap());
    let said = child.0.stderr.as_mut().unwrap();
    let (mut text, mut byte) = (Vec::new(), [0]);
    while !text.ends_with(b": rate ") {
        let read = said.read_exact(&mut byte);
        assert!(read.is_ok(), "no pair counted: {}", String::from_utf8_lossy(&text));
        text.push(byte[0]);
    }
    child
}

#[test]
fn a_side_that_fails_is_named_and_what_was_measured_is_kept() {
    let place = Place::new();
    let child = at_work(&place);
    // Started in the order of the sides.
    let pid = *servers(child.0.id(), "redis-server").last().unwrap();
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
    let ran = child.ended().says("this was side B (durability=buffered), pair ");
    // In its turn it broke off; between two it is not reached any more.
    assert!(matches!(ran.code, Some(3 | 9)), "{ran:?}");
    assert!(ran.out.contains("INCOMPLETE"), "{ran:?}");
    assert!(!place.only_run().join("data").exists());
    assert!(place.report()["ab"]["sentence"].as_str().unwrap().contains("B (durability=buffered)"));
    // What it had acknowledged was looked for.
    let (labels, ledger) = last_check(&place);
    assert_eq!(labels["store"], "B");
    assert!(ledger.complete && ledger.acknowledged >= 500 && ledger.wrong.is_empty(), "{ledger:?}");
    assert_eq!(ledger.read_back + ledger.lost, 500, "{ledger:?}");
}

/// The labels of the recording's last trial, which did nothing but check, and what its check has found.
fn last_check(place: &Place) -> (BTreeMap<String, String>, LedgerCheck) {
    let run = plimsoll_record::data::Run::load(&place.only_run()).unwrap();
    let trial = run.trials.last().unwrap();
    let phases: Vec<_> = trial.phases.iter().map(|phase| phase.header.kind).collect();
    assert_eq!((phases, &*trial.header.labels["pair"]), (vec![PhaseKind::Check], "check"));
    let [ledger] = &trial.ledgers[..] else { panic!("{:?}", trial.ledgers) };
    (trial.header.labels.clone(), ledger.clone())
}

#[test]
fn what_the_turns_wrote_is_checked_also_where_each_loads_anew() {
    let place = Place::new();
    let plan = |name: &str, durability: &str| {
        let phases = format!(
            "[[phase]]\ndo = \"load\"\nbatch = 100\ndurability = \"at-end\"\n[[phase]]\ndo = \"drive\"\nclients = 2\n\
             think = \"2ms\"\nfor = \"9s\"\ndurability = \"{durability}\"\nmix = {{ update = 1 }}\n\
             [[phase]]\ndo = \"check\"\n"
        );
        let workload = "[workload]\nname = \"coupons\"\nrecords = 200\nindex = \"own\"\n";
        let path = place.path().join(name);
        std::fs::write(&path, format!("stores = [\"sqlite\"]\nslice = \"100ms\"\n{workload}{phases}")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (durable, buffered) = (plan("durable.toml", "durable"), plan("buffered.toml", "buffered"));
    let ran = place.run(&["ab", &durable, &buffered, "--turn", "200ms", "--warmup", "0s", "--budget", "4s"]);
    assert!(matches!(ran.code, Some(0 | 11)), "{ran:?}");
    let (_, ledger) = last_check(&place);
    assert!(ledger.complete && ledger.wrong.is_empty() && ledger.lost == 0 && ledger.read_back == 200, "{ledger:?}");
}
