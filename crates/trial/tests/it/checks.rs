//! Results of checks: lies of stores, records that cannot be read back, and the store's own integrity check.

use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll_analysis::view::{GoalState, VerdictState};
use plimsoll_core::{StoreError, StoreErrorKind, StoreKind, TICK_NS};
use plimsoll_drive::StopReason;
use plimsoll_record::data::{About, GoalKind, PhaseState, Run, RunState, UnknownWrites};
use plimsoll_testkit::lying::{Lie, Lying};
use plimsoll_testkit::lying_kv::{KvLie, Pairs};
use plimsoll_testkit::simulated::{Simulated, StoreModel};

use crate::phases::{Ran, TOY, plan, ran, ran_on};
use crate::simulation::{Heard, Simulation, Sort, assert_told_is_recorded, fast, phase, promises};

/// Plan of eight clients that write and read keys in all ways but those of several steps.
const PAIRS: &str = "stores = [\"pairs\"]\nsamplers = []\n[goals]\nlost = 0\nwrong = 0\n[workload]\nname = \"kv\"\n\
    records = 200\nfield_length = 6\nscan_length = 20\n[[phase]]\ndo = \"load\"\ndurability = \"at-end\"\n\
    [[phase]]\ndo = \"drive\"\nclients = 8\nops = 150\nmix = { read = 4, update = 3, insert = 1, scan = 1 }\n\
    [[phase]]\ndo = \"check\"\n";

/// Plan of eight clients that change records, of which a tenth match, and look for them.
const RECORDS: &str = "samplers = []\n[goals]\nlost = 0\nwrong = 0\n[workload]\nname = \"coupons\"\nrecords = 200\n\
    below = 1000\nindex = \"own\"\n[[phase]]\ndo = \"load\"\nbatch = 10\n[[phase]]\ndo = \"drive\"\nclients = 8\n\
    ops = 100\nmix = { read = 4, update = 4, query = 1, scan = 1 }\n[[phase]]\ndo = \"check\"\n";

/// Runs a plan on this store.
#[track_caller]
fn on(kind: Box<dyn StoreKind>, text: &str) -> Ran {
    ran_on(Simulation::with(vec![kind]), text)
}

/// Returns true if a run shows that its store lied: in its answers, by its ledger, or by a load that it refused.
fn is_caught(ran: &Ran) -> bool {
    let Some(error) = &ran.error else {
        let trial = &ran.run.trials[0];
        let is_seen = trial.answers.iter().any(|one| one.counts.missing + one.counts.wrong > 0);
        return is_seen || trial.ledgers.iter().any(|one| one.lost > 0 || !one.wrong.is_empty());
    };
    error.what.starts_with("load on ") && error.what.contains("rejected")
}

#[test]
fn a_run_shows_every_lie_about_keys_and_values_and_believes_the_truth() {
    let honest = on(Box::new(Pairs::honest()), PAIRS);
    assert_eq!(promises(honest.whole()), [GoalState::Held; 2]);
    let answers = &honest.run.trials[0].answers;
    for op in ["read", "scan"] {
        let counts = answers.iter().find(|one| one.op == op).unwrap().counts;
        assert!(counts.answers > 100 && counts.got > 0 && counts.missing + counts.wrong == 0, "{op}: {counts:?}");
    }
    assert!(answers.iter().all(|one| one.stale.is_empty()), "{answers:?}");
    for lie in KvLie::ALL {
        let ran = on(Box::new(Pairs::lying(lie, 20, 7)), PAIRS);
        assert!(is_caught(&ran), "{lie:?}: {:?}, {:?}", ran.error, ran.run.trials[0].ledgers);
    }
}

#[test]
fn stale_records_have_the_times_of_their_answers() {
    let ran = on(Box::new(Pairs::lying(KvLie::Stale, 20, 7)), PAIRS);
    let drive = phase(&ran.run, "drive");
    let answers = ran.run.trials[0].answers.iter().filter(|one| one.phase == drive.header.ordinal);
    let stale: Vec<_> = answers.flat_map(|one| &one.stale).collect();
    assert!(!stale.is_empty(), "{:?}", ran.run.trials[0].answers);
    for one in stale {
        let is_inside = (drive.header.start_ns..drive.end.end_ns + TICK_NS).contains(&(one.at_ns + TICK_NS));
        assert!(is_inside && one.records > 0 && one.server.is_empty(), "{one:?}");
    }
}

#[test]
fn duplicates_in_answers_have_the_times_of_these() {
    let ran = on(Box::new(Pairs::lying(KvLie::Repeat, 20, 7)), PAIRS);
    let drive = phase(&ran.run, "drive");
    let answers = ran.run.trials[0].answers.iter().filter(|one| one.phase == drive.header.ordinal);
    let copies: Vec<_> = answers.flat_map(|one| &one.duplicates).collect();
    assert!(!copies.is_empty(), "{:?}", ran.run.trials[0].answers);
    for one in copies {
        let is_inside = (drive.header.start_ns..drive.end.end_ns + TICK_NS).contains(&(one.at_ns + TICK_NS));
        assert!(is_inside && one.records > 0, "{one:?}");
    }
}

#[test]
fn a_goal_on_stale_records_counts_those_that_the_ledger_saw() {
    let judged = |kind: Box<dyn StoreKind>, limit: &str| {
        let ran = on(kind, &PAIRS.replace("wrong = 0", &format!("stale = {limit}")));
        let view = plimsoll_analysis::view(&ran.run);
        let goal = view.goals.iter().find(|goal| goal.what == GoalKind::Stale).unwrap();
        let all = ran.run.trials[0].answers.iter().flat_map(|one| &one.stale).map(|one| one.records).sum::<u64>();
        assert_eq!(goal.got, Some(all as f64), "{goal:?}");
        goal.state
    };
    assert_eq!(judged(Box::new(Pairs::honest()), "0"), GoalState::Held);
    assert_eq!(judged(Box::new(Pairs::lying(KvLie::Stale, 20, 7)), "0"), GoalState::Missed);
    assert_eq!(judged(Box::new(Pairs::lying(KvLie::Stale, 20, 7)), "100000"), GoalState::Held);
}

#[test]
fn a_run_shows_every_lie_about_records_and_their_index_and_believes_the_truth() {
    let head = |store: &str| format!("stores = [\"{store}\"]\n{RECORDS}");
    let ask = "[[phase]]\ndo = \"ask\"\nop = \"query\"\ncount = 2\n";
    let honest = on(plimsoll_testkit::reference::kind(), &format!("{}{ask}", head("reference")));
    assert_eq!(promises(honest.whole()), [GoalState::Held; 2]);
    let ask = phase(honest.whole(), "ask");
    assert!(ask.end.remarks.contains(&(About::Plan, "by the index".to_owned())), "{:?}", ask.end.remarks);
    let ledger = &honest.run.trials[0].ledgers[0];
    assert!(ledger.complete && ledger.read_back == 200, "{ledger:?}");
    for lie in Lie::ALL {
        let ran = on(Box::new(Lying::new(lie, 10, 7)), &head("lying"));
        assert!(is_caught(&ran), "{lie:?}: {:?}, {:?}", ran.error, ran.run.trials[0].ledgers);
    }
}

#[test]
fn data_that_a_restart_loses_are_lost_writes() {
    let ran = ran(
        |toy| toy.empties.store(true, Ordering::SeqCst),
        &plan(TOY, &["load", "drive", "check", "restart", "check"]),
    );
    let [before, after] = &ran.whole().trials[0].ledgers[..] else { panic!("{:?}", ran.run.trials) };
    assert!(before.lost == 0 && before.complete && before.read_back == 40, "{before:?}");
    assert!(after.lost >= 40 && after.complete, "{after:?}");
    assert_eq!(promises(&ran.run)[0], GoalState::Missed);
}

#[test]
fn a_stores_own_check_is_a_remark_a_broken_promise_or_an_error_of_the_run() {
    let error = |kind| Some(StoreError::new(kind, "page 7 is torn"));
    use StoreErrorKind::{Broken, Corrupt, Permission, Unreachable};
    for (found, words, wanted, remark) in [
        (None, None, None, "it has none"),
        (None, Some("40 pages"), None, "40 pages"),
        (error(Corrupt), None, None, "failed: page 7 is torn"),
        (error(Permission), None, None, "not possible: page 7 is torn"),
        (error(Broken), None, Some(Broken), ""),
        (error(Unreachable), None, Some(Unreachable), ""),
    ] {
        let what = format!("{found:?} {words:?}");
        let is_corrupt = found.as_ref().is_some_and(|error| error.kind == Corrupt);
        let ran = ran(
            |toy| {
                *toy.integrity.lock().unwrap() = words.map(str::to_owned);
                found.into_iter().for_each(|error| toy.fails("integrity", error));
            },
            &plan(TOY, &["load", "drive", "check"]),
        );
        assert_eq!(ran.error.as_ref().map(|error| error.kind), wanted, "{what}");
        let check = phase(&ran.run, "check");
        let said = check.end.remarks.iter().find(|(about, _)| *about == About::Integrity);
        assert_eq!(said.map_or("", |(_, text)| text.as_str()), remark, "{what}");
        assert_eq!(check.end.state == PhaseState::Complete, wanted.is_none(), "{what}");
        // What the ledger has found stays said in any case.
        let [ledger] = &ran.run.trials[0].ledgers[..] else { panic!("{what}: {:?}", ran.run.trials) };
        assert!(ledger.complete && ledger.lost == 0, "{what}: {ledger:?}");
        assert_eq!(ledger.wrong.get("integrity").copied(), is_corrupt.then_some(1), "{what}");
        let verdict = plimsoll_analysis::view(&ran.run).verdict;
        assert_eq!(verdict.state == VerdictState::Fail, is_corrupt, "{what}: {verdict:?}");
    }
}

#[test]
fn damage_without_a_ledger_that_could_say_so_is_an_error_of_the_run() {
    let error = StoreError::new(StoreErrorKind::Corrupt, "page 7 is torn");
    let text = plan(TOY, &["load", "check"]).replace("field_length = 10", "field_length = 10\nledger = \"off\"");
    let ran = ran(|toy| toy.fails("integrity", error), &text);
    assert_eq!(ran.error.unwrap().kind, StoreErrorKind::Corrupt);
    assert!(matches!(&ran.run.state, RunState::Failed(why) if why == "page 7 is torn"), "{:?}", ran.run.state);
}

/// Runs load, drive and check on the toy or the reference store. `model_of` has the number of a drive: 0 is the load, 1
/// the drive, and what follows reads back.
#[track_caller]
fn read_back(
    store: &str,
    heard: &Heard,
    simulation: &Simulation,
    model_of: impl Fn(u32) -> StoreModel + Sync,
) -> (Option<StoreError>, Run, u32) {
    let text = match store {
        "reference" => format!("stores = [\"reference\"]\n{RECORDS}"),
        _ => plan(TOY, &["load", "drive", "check"]),
    };
    let driver = Simulated::new(|drive| model_of(drive.number));
    let (error, run) = simulation.run(&simulation.plan(&text), &Sort::default(), heard, &driver);
    assert_told_is_recorded(heard, &run);
    let drives = driver.drives();
    (error, run, drives)
}

#[test]
fn what_cannot_be_read_back_ends_the_run_and_the_ledger_vouches_for_nothing() {
    for kind in [StoreErrorKind::Broken, StoreErrorKind::Store] {
        let (simulation, heard) = (Simulation::new(), Heard::default());
        let (error, run, _) = read_back("toy", &heard, &simulation, |number| {
            if number == 1 {
                // From then on: those of the drive are open.
                simulation.toy.fails("sessions", StoreError::new(kind, "it is shut"));
            }
            fast()
        });
        assert_eq!(error.unwrap().what, "it is shut");
        let [ledger] = &run.trials[0].ledgers[..] else { panic!("{:?}", run.trials[0].ledgers) };
        assert!(!ledger.complete && ledger.lost == 0 && ledger.sentence.contains("it is shut"), "{ledger:?}");
        assert_eq!(phase(&run, "check").end.state, PhaseState::Failed("it is shut".to_owned()));
        assert!(promises(&run)[0] != GoalState::Held, "a promise that was not looked at is not kept");
    }
}

#[test]
fn damage_that_keeps_records_from_being_read_is_an_answer_and_no_error_of_the_run() {
    let (simulation, heard) = (Simulation::new(), Heard::default());
    simulation.toy.fails("integrity", StoreError::new(StoreErrorKind::Corrupt, "page 7 is torn"));
    let (error, run, _) = read_back("toy", &heard, &simulation, |number| {
        if number == 1 {
            simulation.toy.fails("sessions", StoreError::broken("it is shut"));
            simulation.toy.fails("footprint", StoreError::broken("it is shut"));
        }
        fast()
    });
    assert_eq!((error, &run.state), (None, &RunState::Complete));
    let ledger = &run.trials[0].ledgers[0];
    assert!(!ledger.complete && ledger.wrong["integrity"] == 1, "{ledger:?}");
    assert!(ledger.sentence.contains("page 7 is torn") && ledger.sentence.contains("it is shut"), "{ledger:?}");
    assert_eq!(phase(&run, "check").end.footprint, None);
}

#[test]
fn reading_back_that_is_cut_once_begins_anew() {
    let (simulation, heard) = (Simulation::new(), Heard::default());
    let lost = || StopReason::Lost(StoreError::new(StoreErrorKind::Unreachable, "the node is dead"));
    let (error, run, drives) = read_back("toy", &heard, &simulation, |number| match number {
        2 => StoreModel { ends: Some((Duration::from_millis(1), lost())), ..fast() },
        _ => fast(),
    });
    assert_eq!((error, drives), (None, 4), "load, drive, and two attempts");
    let ledger = &run.trials[0].ledgers[0];
    assert!(ledger.complete && ledger.lost == 0 && ledger.read_back >= 40, "{ledger:?}");
}

#[test]
fn records_of_which_a_read_is_refused_are_not_known() {
    // A queue without room refuses whatever comes at the same time.
    let full = StoreModel { wait_max: Some(Duration::ZERO), ..StoreModel::default() };
    let (simulation, heard) = (Simulation::new(), Heard::default());
    let (error, run, _) = read_back("toy", &heard, &simulation, |number| match number {
        0 | 1 => fast(),
        _ => full.clone(),
    });
    let error = error.unwrap();
    assert!(error.what.starts_with("reading back on toy: ") && error.what.ends_with(" rejected"), "{error:?}");
    assert!(!run.trials[0].ledgers[0].complete, "{:?}", run.trials[0].ledgers);
    // One operation reads all records, and the next all by the index.
    let (simulation, heard) = (Simulation::with(vec![plimsoll_testkit::reference::kind()]), Heard::default());
    let late = StoreModel { latency: Duration::from_secs(100_000), ..fast() };
    let (error, run, drives) = read_back("reference", &heard, &simulation, |number| match number {
        3 => late.clone(),
        _ => fast(),
    });
    let error = error.unwrap();
    assert!(error.what.starts_with("reading back on reference: 1 operations were unknown"), "{error:?}");
    assert_eq!((drives, run.trials[0].ledgers[0].complete), (4, false));
}

#[test]
fn half_of_what_was_to_be_read_back_is_no_loss_if_the_user_ends_it() {
    for store in ["toy", "reference"] {
        let simulation = Simulation::with(vec![plimsoll_testkit::reference::kind()]);
        let heard = Heard::default();
        let (error, run, _) = read_back(store, &heard, &simulation, |number| {
            if number == 2 {
                heard.stop.store(true, Ordering::SeqCst);
            }
            fast()
        });
        assert_eq!((error, &run.state), (None, &RunState::Interrupted));
        assert!(run.trials[0].ledgers.is_empty(), "{:?}", run.trials[0].ledgers);
        assert_eq!(phase(&run, "check").end.state, PhaseState::Interrupted);
    }
}

#[test]
fn writes_that_clients_gave_up_and_the_store_never_saw_are_found_not_written() {
    // In an outage of one second each client gives up five operations.
    let text = PAIRS.replace("ops = 150", "for = \"3s\"\nop_timeout = \"200ms\"");
    let text = text.replace("read = 4, update = 3, insert = 1, scan = 1", "read = 1, insert = 1");
    let outages = vec![(Duration::from_secs(1), Duration::from_secs(1))];
    let (simulation, heard) = (Simulation::with(vec![Box::new(Pairs::honest())]), Heard::default());
    let model = StoreModel { capacity_per_s: 1_000.0, outages, ..StoreModel::default() };
    let (error, run) = simulation.model(&text, &heard, &model);
    assert_eq!((error, &run.state), (None, &RunState::Complete));
    let [ledger] = &run.trials[0].ledgers[..] else { panic!("{:?}", run.trials[0].ledgers) };
    let found = |count: fn(&UnknownWrites) -> u64| ledger.unknown_writes.iter().map(count).sum::<u64>();
    let counts = [found(|one| one.written), found(|one| one.not_written), found(|one| one.not_known)];
    assert!(ledger.complete && ledger.lost == 0 && ledger.unknown >= 8, "{ledger:?}");
    assert_eq!(counts, [0, ledger.unknown, 0]);
    let start_ns = phase(&run, "drive").header.start_ns;
    let times = start_ns + 1_000_000_000..start_ns + 2_500_000_000;
    assert!(ledger.unknown_writes.iter().all(|one| times.contains(&one.at_ns)), "{ledger:?}");
}
