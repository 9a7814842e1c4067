//! Fates of writes without an answer.

use std::sync::Arc;

use plimsoll_core::{Answer, Observer, Op, Outcome, TICK_NS, Ticket, Truth, Version, Workload};

use super::twins::{PUT, READ, READ_BACK, RECORDS, kv};
use super::{read_back, row};
use crate::{Ledger, ReadBack, UnknownWrites};

/// Time from the sending of a write to its end.
const TOOK_NS: u64 = 1_000_000;

fn written(cycle: u64) -> Version {
    Version::Written { client: 0, cycle }
}

/// Writes version `cycle` of record `id`, and ends in tick `cycle + 1`.
fn put(observer: &mut dyn Observer, truth: &dyn Truth, id: u64, cycle: u64, outcome: Outcome) {
    let (values, _) = row(truth, id, written(cycle));
    let at_ns = (cycle + 1) * TICK_NS;
    observer.sent(Ticket(0), at_ns, 0, cycle, &Op::new(PUT, values.values()));
    observer.finished(Ticket(0), at_ns + TOOK_NS, outcome, &Answer::default());
}

/// Returns a ledger of loaded records after what `act` has one worker observe.
fn observed(workload: &Arc<dyn Workload>, act: impl FnOnce(&mut dyn Observer)) -> Ledger {
    let mut ledger = Ledger::new(Arc::clone(workload)).unwrap();
    ledger.loaded(0, 1, &|| false);
    act(&mut *ledger.observers(0, 1, 1)[0]);
    ledger.drain();
    ledger
}

/// Returns a ledger after these writes of loaded records: record, cycle, outcome.
fn after(workload: &Arc<dyn Workload>, writes: &[(u64, u64, Outcome)]) -> Ledger {
    observed(workload, |observer| {
        for (id, cycle, outcome) in writes {
            put(observer, workload.truth().unwrap(), *id, *cycle, *outcome);
        }
    })
}

/// Returns the fates as the store shows them that holds these versions: the time, written, not written, not known.
fn fates(ledger: &mut Ledger, truth: &dyn Truth, version: impl Fn(u64) -> Version) -> Vec<(u64, [u64; 3])> {
    let verdict = read_back(ledger, truth, version);
    assert!(verdict.is_kept(), "{verdict:?}");
    let fates = ledger.unknown_writes(&ledger.found(READ_BACK));
    let one = |one: &UnknownWrites| (one.at_ns / TICK_NS, [one.written, one.not_written, one.not_known]);
    fates.iter().map(one).collect()
}

#[test]
fn the_records_read_back_show_which_writes_without_an_answer_happened() {
    let workload = kv(RECORDS);
    let truth = workload.truth().unwrap();
    let unknown = [(0, 0, Outcome::Unknown), (1, 1, Outcome::Unknown), (2, 2, Outcome::Unknown)];
    let mut ledger = after(&workload, &[unknown.as_slice(), &[(2, 3, Outcome::Ok)]].concat());
    let found = fates(&mut ledger, truth, |id| match id {
        0 => written(0),
        2 => written(3),
        _ => Version::Loaded,
    });
    // Of the last one nothing is known: a later write replaced it, if it happened.
    assert_eq!(found, [(1, [1, 0, 0]), (2, [0, 1, 0]), (3, [0, 0, 1])]);
}

#[test]
fn a_write_without_an_answer_that_was_read_before_it_was_overwritten_happened() {
    let workload = kv(RECORDS);
    let truth = workload.truth().unwrap();
    let mut ledger = observed(&workload, |observer| {
        put(observer, truth, 0, 0, Outcome::Unknown);
        let (values, shown) = row(truth, 0, written(0));
        observer.sent(Ticket(0), 2 * TICK_NS, 0, 1, &Op::new(READ, values.values().slice(0..1)));
        observer.finished(Ticket(0), 2 * TICK_NS + TOOK_NS, Outcome::Ok, &shown);
        put(observer, truth, 0, 2, Outcome::Ok);
    });
    let last = |id| if id == 0 { written(2) } else { Version::Loaded };
    assert_eq!(fates(&mut ledger, truth, last), [(1, [1, 0, 0])]);
}

#[test]
fn of_two_writes_without_an_answer_the_one_that_is_there_says_nothing_of_the_one_before() {
    let workload = kv(RECORDS);
    let truth = workload.truth().unwrap();
    let both = [(0, 0, Outcome::Unknown), (0, 1, Outcome::Unknown)];
    let found =
        |version| fates(&mut after(&workload, &both), truth, |id| if id == 0 { version } else { Version::Loaded });
    assert_eq!(found(written(1)), [(1, [0, 0, 1]), (2, [1, 0, 0])]);
    // The second one may have happened before the first one.
    assert_eq!(found(written(0)), [(1, [1, 0, 0]), (2, [0, 0, 1])]);
    assert_eq!(found(Version::Loaded), [(1, [0, 1, 0]), (2, [0, 1, 0])]);
}

#[test]
fn a_try_that_is_repeated_is_not_told_from_its_repetition() {
    let workload = kv(RECORDS);
    let truth = workload.truth().unwrap();
    let (values, _) = row(truth, 0, written(0));
    let mut ledger = observed(&workload, |observer| {
        for (at_ns, outcome) in [(TICK_NS, Outcome::Unknown), (2 * TICK_NS, Outcome::Ok)] {
            observer.sent(Ticket(0), at_ns, 0, 0, &Op::new(PUT, values.values()));
            observer.finished(Ticket(0), at_ns + TOOK_NS, outcome, &Answer::default());
        }
    });
    let first = |id| if id == 0 { written(0) } else { Version::Loaded };
    assert_eq!(fates(&mut ledger, truth, first), [(1, [0, 0, 1])]);
}

#[test]
fn fates_are_not_known_of_a_record_that_could_not_be_read_and_not_told_of_a_store_that_could_not() {
    let workload = kv(RECORDS);
    let mut ledger = after(&workload, &[(0, 0, Outcome::Unknown)]);
    drop(ledger.observers_reading_back(READ_BACK, 1, 1));
    ledger.drain();
    let [only] = ledger.unknown_writes(&ledger.found(READ_BACK))[..] else { panic!("one tick") };
    assert_eq!((only.written, only.not_written, only.not_known), (0, 0, 1));
    assert!(ledger.unknown_writes(&ReadBack::unreadable(workload, "it is gone")).is_empty());
}

#[test]
fn an_insert_without_an_answer_is_there_or_is_not() {
    let workload = kv(RECORDS);
    let mut ledger = Ledger::new(Arc::clone(&workload)).unwrap();
    let mut observers = ledger.observers(0, 1, 1);
    let truth = workload.truth().unwrap();
    for id in 0..2 {
        put(&mut *observers[0], truth, id, id, Outcome::Unknown);
    }
    drop(observers);
    ledger.drain();
    let mut observers = ledger.observers_reading_back(READ_BACK, 1, 1);
    for (id, outcome) in [(0, Outcome::Ok), (1, Outcome::NotFound)] {
        let (values, answer) = row(truth, id, written(id));
        let answer = if outcome == Outcome::Ok { answer } else { Answer::default() };
        observers[0].sent(Ticket(0), 1 << 40, 0, id, &Op::new(READ, values.values().slice(0..1)));
        observers[0].finished(Ticket(0), (1 << 40) + 5, outcome, &answer);
    }
    drop(observers);
    ledger.drain();
    let found = ledger.unknown_writes(&ledger.found(READ_BACK));
    let counts = found.iter().map(|one| [one.written, one.not_written, one.not_known]);
    assert_eq!(counts.collect::<Vec<_>>(), [[1, 0, 0], [0, 1, 0]]);
}

#[test]
fn fates_are_looked_for_of_the_first_writes_and_those_after_them_are_counted() {
    let workload = kv(RECORDS);
    let truth = workload.truth().unwrap();
    let mut ledger = Ledger::new(Arc::clone(&workload)).unwrap();
    ledger.records.unknown_writes.writes_max = 2;
    ledger.loaded(0, 1, &|| false);
    let mut observers = ledger.observers(0, 1, 1);
    for id in 0..4 {
        put(&mut *observers[0], truth, id, id, Outcome::Unknown);
    }
    drop(observers);
    ledger.drain();
    let found = fates(&mut ledger, truth, |id| if id < 4 { written(id) } else { Version::Loaded });
    assert_eq!(found, [(1, [1, 0, 0]), (2, [1, 0, 0]), (3, [0, 0, 1]), (4, [0, 0, 1])]);
    assert_eq!(ledger.unknown_beyond(), 2);
}
