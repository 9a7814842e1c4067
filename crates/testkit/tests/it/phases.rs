//! Phases that follow each other in one trial.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll_core::{Durability, Store, StreamSpec, ValueBuf, Workload};
use plimsoll_drive::{Clock, Drive, DriveSpec, Limit};
use plimsoll_testkit::ask::{Script, ask};
use plimsoll_testkit::trial::workload;
use plimsoll_verify::{Ledger, LedgerVerdict, ReadBack};

const CLIENTS: u32 = 2;

/// Loads, then updates in two phases of 200 operations to a client; the second one's numbers begin at `first_cycle`.
/// The verdicts on what the store held after the first, and holds after the second phase.
fn verdicts(first_cycle: u64) -> [LedgerVerdict; 2] {
    let mut store = crate::opened(&*plimsoll_testkit::reference::kind());
    let workload = workload("coupons", 5, &[("records", 100)], &[("index", "own")]);
    store.create(workload.layout()).unwrap();
    let mut ledger = Ledger::new(Arc::clone(&workload)).unwrap();
    let clock = Clock::start();
    let updates = || StreamSpec::Mix { mix: vec![("update".to_owned(), 1)], clients: CLIENTS };
    let load = StreamSpec::Load { batch: 10, clients: CLIENTS };
    let mut held = Vec::new();
    for (number, (stream, limit, first_cycle)) in
        [(load, Limit::Exhausted, 0), (updates(), Limit::Ops(200), 0), (updates(), Limit::Ops(200), first_cycle)]
            .into_iter()
            .enumerate()
    {
        let spec = DriveSpec { limit, first_cycle, ..DriveSpec::default() };
        let sessions = store.sessions(CLIENTS, Durability::Durable).unwrap();
        let drive = Drive {
            clock: &clock,
            spec: &spec,
            observers: ledger.observers(number as u16, spec.worker_count(&sessions), sessions.len()),
            sessions,
            kinds: workload.kinds(),
            stream: Arc::from(workload.stream(&stream).unwrap()),
            stop: Arc::new(AtomicBool::new(false)),
        };
        assert_eq!(drive.run(&mut |_| {}).unwrap().kinds.iter().flat_map(|kind| &kind[1..]).sum::<u64>(), 0);
        held.push(read_back(&mut *store, &workload));
    }
    store.close().unwrap();
    ledger.drain();
    [ledger.verdict(&held[1]), ledger.verdict(&held[2])]
}

fn read_back(store: &mut dyn Store, workload: &Arc<dyn Workload>) -> ReadBack {
    let mut params = ValueBuf::new();
    let stream = workload.stream(&StreamSpec::One { kind: "all".into(), clients: 1 }).unwrap();
    let mut script = Script::new();
    script.op(stream.op(0, 0, &mut params).unwrap(), []);
    let replies = ask(store, workload.kinds(), Durability::Durable, &script).unwrap();
    let mut found = ReadBack::new(Arc::clone(workload));
    found.add_records(&replies[0].answer);
    found
}

#[test]
fn a_store_that_lost_all_of_a_phase_is_caught_when_phases_have_numbers_of_their_own() {
    let [lost, kept] = verdicts(1 << 32);
    assert!(kept.is_kept(), "{kept:#?}");
    assert_eq!((lost.lost, lost.wrong().len()), (400, 0), "{lost:#?}");
    // The same numbers again are the same writes again: nothing tells them apart.
    let [unseen, kept] = verdicts(0);
    assert!(kept.is_kept() && unseen.is_kept(), "{unseen:#?}");
}
