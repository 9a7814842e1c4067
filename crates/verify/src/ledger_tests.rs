//! Tests of a ledger's final verdict.

use plimsoll_core::{Answer, Op, Outcome, Stream, StreamSpec, Ticket, ValueBuf};

use super::*;
use crate::ReadBack;
use crate::tests::toy::workload;

fn coupons(records: i64) -> Arc<dyn Workload> {
    workload("coupons", &[("records", records)])
}

/// Returns a ledger whose one worker loaded all records.
fn after_load(workload: &Arc<dyn Workload>, outcome: impl Fn(u64) -> Option<Outcome>) -> Ledger {
    let mut ledger = Ledger::new(workload.clone()).unwrap();
    run(&mut *ledger.observers(0, 1, 1)[0], &*load(&**workload), outcome);
    ledger
}

fn load(workload: &dyn Workload) -> Box<dyn Stream> {
    workload.stream(&StreamSpec::Load { batch: 10, clients: 1 }).unwrap()
}

/// Sends and finishes all of `stream`; the store holds everything.
fn run(observer: &mut dyn Observer, stream: &dyn Stream, outcome: impl Fn(u64) -> Option<Outcome>) {
    let mut params = ValueBuf::new();
    for cycle in 0.. {
        params.clear();
        let Some(kind) = stream.op(0, cycle, &mut params) else { break };
        let op = Op::new(kind, params.values());
        observer.sent(Ticket(0), cycle * 10_000, 0, cycle, &op);
        if let Some(outcome) = outcome(cycle) {
            observer.finished(Ticket(0), cycle * 10_000 + 5_000, outcome, &Answer::default());
        }
    }
}

fn everything(workload: &Arc<dyn Workload>) -> ReadBack {
    let mut all = Answer { columns: 8, ..Answer::default() };
    for id in 0..workload.record_count() {
        workload.truth().unwrap().row(id, plimsoll_core::Version::Loaded, &mut all.values);
    }
    let mut found = ReadBack::new(workload.clone());
    found.add_records(&all);
    found
}

#[test]
fn what_was_loaded_and_is_there_is_borne_out() {
    let workload = coupons(1_000);
    let mut ledger = after_load(&workload, |_| Some(Outcome::Ok));
    ledger.drain();
    let verdict = ledger.verdict(&everything(&workload));
    assert_eq!((verdict.acknowledged, verdict.borne_out, verdict.read_back), (1_000, 1_000, 1_000));
    assert_eq!(verdict.loss_upper_bound, Some(0.003));
    assert!(verdict.is_kept());
    assert_eq!(verdict.sentence(), "All 1,000 acknowledged writes are present (95 % sure: fewer than 1 in 333 lost).");
}

#[test]
fn an_operation_that_was_never_finished_is_unknown() {
    let workload = coupons(100);
    let mut ledger = after_load(&workload, |cycle| (cycle != 3 && cycle != 9).then_some(Outcome::Ok));
    ledger.drain();
    let verdict = ledger.verdict(&everything(&workload));
    assert_eq!((verdict.acknowledged, verdict.unknown), (80, 20));
    assert!(verdict.is_kept(), "{verdict:#?}");
    let verdict = ledger.verdict(&ReadBack::new(workload));
    assert_eq!(verdict.lost, 80);
}

#[test]
fn a_ledger_that_is_not_drained_says_that_it_is_incomplete() {
    let workload = coupons(10_000);
    let mut ledger = Ledger::with_rings(workload.clone(), (1 << 9, 1 << 9)).unwrap();
    let mut observers = ledger.observers(0, 1, 1);
    run(&mut *observers[0], &*load(&*workload), |_| Some(Outcome::Ok));
    drop(observers);
    ledger.drain();
    let verdict = ledger.verdict(&everything(&workload));
    assert!(!verdict.is_kept() && verdict.sentence().contains("incomplete"), "{}", verdict.sentence());
    assert_eq!(verdict.loss_upper_bound, None);
}

#[test]
fn a_ledger_that_is_drained_keeps_everything_in_little_room() {
    let workload = coupons(10_000);
    let mut ledger = Ledger::with_rings(workload.clone(), (1 << 9, 1 << 9)).unwrap();
    let mut observers = ledger.observers(0, 1, 1);
    let stream = load(&*workload);
    let mut params = ValueBuf::new();
    for cycle in 0..1_000 {
        params.clear();
        let kind = stream.op(0, cycle, &mut params).unwrap();
        observers[0].sent(Ticket(0), cycle, 0, cycle, &Op::new(kind, params.values()));
        observers[0].finished(Ticket(0), cycle, Outcome::Ok, &Answer::default());
        if cycle % 7 == 0 {
            ledger.drain();
        }
    }
    drop(observers);
    ledger.drain();
    let verdict = ledger.verdict(&everything(&workload));
    assert!(verdict.is_kept(), "{verdict:#?}");
    assert_eq!(verdict.acknowledged, 10_000);
}

#[test]
fn what_was_loaded_by_nobodys_operation_is_looked_for_too() {
    let workload = coupons(1_000);
    let mut ledger = Ledger::new(workload.clone()).unwrap();
    ledger.loaded(2_000, 5_000_000, &|| false);
    let verdict = ledger.verdict(&everything(&workload));
    assert_eq!((verdict.acknowledged, verdict.borne_out), (1_000, 1_000));
    assert!(verdict.is_kept(), "{verdict:#?}");
    let verdict = ledger.verdict(&ReadBack::new(workload));
    assert_eq!((verdict.lost, verdict.lost_window_ns), (1_000, Some((5_000_000, 5_000_000))));
    assert_eq!(verdict.lost_writes.into_iter().collect::<Vec<_>>(), [(0, 1_000)]);
}

#[test]
fn a_stop_is_heeded_while_memory_for_many_records_is_prepared() {
    let (workload, looks) = (coupons(5 << 20), std::cell::Cell::new(0));
    let is_stopped = || {
        looks.set(looks.get() + 1);
        looks.get() > 2
    };
    assert!(Ledger::new_unless(workload.clone(), &is_stopped).is_none());
    assert_eq!(looks.get(), 3, "of five parts two were prepared");
    assert!(Ledger::new_unless(workload, &|| false).is_some());
}

#[test]
fn workers_still_at_work_make_the_ledger_incomplete() {
    let workload = coupons(10);
    let mut ledger = Ledger::new(workload.clone()).unwrap();
    let observers = ledger.observers(0, 2, 1);
    ledger.drain();
    assert!(ledger.gap().unwrap().contains("2 workers"));
    drop(observers);
    ledger.drain();
    assert_eq!(ledger.gap(), None);
}

#[test]
fn a_ticket_out_of_range_makes_the_ledger_incomplete() {
    let workload = coupons(10);
    let mut ledger = Ledger::new(workload.clone()).unwrap();
    let mut observers = ledger.observers(0, 1, 4);
    let mut params = ValueBuf::new();
    let kind = load(&*workload).op(0, 0, &mut params).unwrap();
    observers[0].sent(Ticket(4), 0, 0, 0, &Op::new(kind, params.values()));
    drop(observers);
    ledger.drain();
    assert!(ledger.gap().is_some());
}

#[test]
fn what_was_acknowledged_after_the_power_went_is_unknown() {
    let workload = coupons(100);
    let lost_of = |cut: Option<u64>| {
        let mut ledger = after_load(&workload, |_| Some(Outcome::Ok));
        ledger.drain_until_cut(0, || Ok::<_, ()>(cut)).unwrap();
        let verdict = ledger.verdict(&ReadBack::new(workload.clone()));
        (verdict.acknowledged, verdict.unknown, verdict.lost)
    };
    assert_eq!(lost_of(None), (100, 0, 100));
    // Operation 4 ends at 45,000 ns, within what two clocks may differ by; operation 3 at 35,000 ns.
    assert_eq!(lost_of(Some(144_999)), (40, 60, 40));
    assert_eq!(lost_of(Some(145_000)), (50, 50, 50));
    assert_eq!(lost_of(Some(0)), (0, 100, 0));
}

#[test]
fn a_cut_is_of_its_own_phase() {
    let workload = coupons(100);
    let mut ledger = after_load(&workload, |_| Some(Outcome::Ok));
    ledger.drain_until_cut(1, || Ok::<_, ()>(Some(0))).unwrap();
    assert_eq!(ledger.verdict(&ReadBack::new(workload)).acknowledged, 100);
}

#[test]
fn what_a_drain_could_not_ask_the_disk_about_is_unknown_when_the_moment_is_told_later() {
    let workload = coupons(100);
    let mut ledger = after_load(&workload, |_| Some(Outcome::Ok));
    assert_eq!(ledger.drain_until_cut(0, || Err("the disk does not answer")), Err("the disk does not answer"));
    assert_eq!(ledger.operations(), 0, "nothing is judged without the moment");
    ledger.power_was_cut(145_000);
    ledger.drain();
    let verdict = ledger.verdict(&ReadBack::new(workload));
    assert_eq!((verdict.acknowledged, verdict.unknown), (50, 50));
}
