//! The ledger, which forgets, finds what a model finds that keeps the whole history.

mod model;
mod stale;
#[path = "../../tests/it/toy.rs"]
pub(crate) mod toy;
mod twins;
mod unknown;

use std::sync::Arc;

use plimsoll_core::{Answer, Observer, Op, Outcome, Ticket, Truth, Value, ValueBuf, Version, Workload};
use proptest::prelude::*;

use crate::{AnswerVerdict, Ledger, LedgerVerdict, ReadBack};
use model::Model;
use toy::Toy;
use twins::{PUT, READ, READ_BACK, RECORDS, Twins, Watcher, Ways, kv};

impl Watcher for Ledger {
    fn observers(&mut self, phase: u16, workers: usize, tickets: usize, reads_back: bool) -> Vec<Box<dyn Observer>> {
        match reads_back {
            true => self.observers_reading_back(phase, workers, tickets),
            false => Ledger::observers(self, phase, workers, tickets),
        }
    }

    fn drain(&mut self) {
        Ledger::drain(self);
    }
}

type Verdicts = (Vec<AnswerVerdict>, LedgerVerdict);

/// Returns the verdicts of the model and the ledger on the history that `seed` makes.
fn verdicts(workload: &Arc<dyn Workload>, seed: u64, ways: Ways) -> [Verdicts; 2] {
    let mut ledger = Ledger::with_rings(Arc::clone(workload), (1 << 14, 1 << 14)).unwrap();
    let mut model = Model::new(Arc::clone(workload));
    let mut twins = Twins::new(Arc::clone(workload), seed, ways, vec![&mut ledger, &mut model]);
    twins.run();
    let below = 40;
    let [all, index] = twins.read_back(below);
    ledger.drain();
    assert_eq!(ledger.gap(), None);
    let find = workload.kinds().iter().find(|kind| kind.name == "find");
    let found = find.map_or_else(
        || ledger.found(READ_BACK),
        |find| {
            let mut bounds = ValueBuf::new();
            bounds.push(Value::Null);
            bounds.push(Value::Int(below));
            let mut found = ReadBack::new(Arc::clone(workload));
            found.expect_index(find, bounds.values());
            found.add_records(&all);
            found.add_index_records(&index);
            found
        },
    );
    [model.verdicts(&all, &index, below), (ledger.answers(), ledger.verdict(&found))]
}

fn without_words((answers, ledger): Verdicts) -> Verdicts {
    let answers = answers.into_iter().map(|one| AnswerVerdict { examples: Vec::new(), ..one }).collect();
    (answers, LedgerVerdict { examples: Vec::new(), ..ledger })
}

fn ways() -> impl Strategy<Value = Ways> {
    let often = || prop_oneof![Just(0u64), 2u64..6, 6u64..60];
    let steps = prop_oneof![1u64..60, 60u64..600];
    (often(), often(), often(), 1u64..6_000, 1u64..80, steps, 1u64..3).prop_map(
        |(lie, unknown, rejected, pause_ns, drain, steps, phases)| Ways {
            lie,
            unknown,
            rejected,
            pause_ns,
            drain,
            steps,
            phases,
        },
    )
}

fn agree([model, ledger]: [Verdicts; 2]) {
    for one in &ledger.0 {
        assert_eq!(one.examples.is_empty(), one.is_right(), "{one:?}");
    }
    assert_eq!(without_words(model), without_words(ledger));
}

/// Returns the number of histories of a test, which are others in each run; a heavy run has more.
fn cases() -> u32 {
    if std::env::var_os("PLIMSOLL_HEAVY").is_some() { 1_000 } else { 300 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn of_keys_and_values_it_finds_what_the_model_finds(seed: u64, ways in ways()) {
        agree(verdicts(&kv(RECORDS), seed, ways));
    }

    #[test]
    fn of_records_it_finds_what_the_model_finds(seed: u64, ways in ways()) {
        let workload: Arc<dyn Workload> = Arc::new(Toy::new(RECORDS));
        agree(verdicts(&workload, seed, ways));
    }

    #[test]
    fn an_honest_store_is_never_accused(seed: u64, ways in ways()) {
        let ways = Ways { lie: 0, ..ways };
        for workload in [kv(RECORDS), Arc::new(Toy::new(RECORDS))] {
            let [_, (answers, ledger)] = verdicts(&workload, seed, ways);
            for verdict in &answers {
                prop_assert!(verdict.is_right(), "{verdict:#?}");
            }
            prop_assert!(ledger.is_kept(), "{ledger:#?}");
        }
    }
}

#[test]
fn an_absence_shows_a_delete_that_is_long_past() {
    let workload: Arc<dyn Workload> = Arc::new(Toy::new(RECORDS));
    let ways = Ways { lie: 4, unknown: 5, rejected: 2, pause_ns: 47, drain: 1, steps: 576, phases: 2 };
    agree(verdicts(&workload, 18_173_444_788_408_741_858, ways));
}

#[test]
fn what_a_write_can_find_is_known_until_it_is_answered() {
    let workload: Arc<dyn Workload> = Arc::new(Toy::new(RECORDS));
    let ways = Ways { lie: 47, unknown: 32, rejected: 5, pause_ns: 800, drain: 1, steps: 120, phases: 1 };
    agree(verdicts(&workload, 630_862_048_465_419_715, ways));
}

/// Clients that ask and write as fast as they can, honestly, under a ledger that is drained now and then: what it holds then.
fn held(workload: Arc<dyn Workload>, steps: u64, drain: u64) -> (u64, usize) {
    let ways = Ways { lie: 0, unknown: 0, rejected: 0, pause_ns: 300, drain, steps, phases: 1 };
    let mut ledger = Ledger::with_rings(Arc::clone(&workload), (1 << 14, 1 << 14)).unwrap();
    Twins::new(workload, 3, ways, vec![&mut ledger]).run();
    ledger.drain();
    assert_eq!(ledger.gap(), None);
    (ledger.operations(), ledger.held())
}

#[test]
fn its_memory_does_not_grow_with_operations() {
    for workload in [kv(RECORDS), Arc::new(Toy::new(RECORDS))] {
        let ((few, held_few), (many, held_many)) =
            (held(Arc::clone(&workload), 2_000, 20), held(Arc::clone(&workload), 40_000, 20));
        assert!(many > 15 * few, "{few} and {many} operations");
        assert!(held_many <= held_few + 30, "{held_few} after {few} operations, {held_many} after {many}");
    }
}

#[test]
fn a_record_that_is_written_often_between_two_drains_keeps_few_states() {
    let workload = kv(RECORDS);
    let mut ledger = Ledger::new(Arc::clone(&workload)).unwrap();
    let mut observers = ledger.observers(0, 1, 1);
    let mut params = ValueBuf::new();
    for cycle in 0..1_000 {
        params.clear();
        workload.truth().unwrap().row(0, Version::Written { client: 0, cycle }, &mut params);
        observers[0].sent(Ticket(0), 10_000 + cycle * 10_000, 0, cycle, &Op::new(PUT, params.values()));
        observers[0].finished(Ticket(0), 13_000 + cycle * 10_000, Outcome::Ok, &Answer::default());
    }
    ledger.drain();
    assert!(ledger.held() <= 3, "{} states", ledger.held());
}

/// Returns the values of a record, and the answer that shows it.
fn row(truth: &dyn Truth, id: u64, version: Version) -> (ValueBuf, Answer) {
    let (mut values, mut answer) = (ValueBuf::new(), Answer { columns: 1, rows: 1, ..Answer::default() });
    truth.row(id, version, &mut values);
    answer.values.push(values.values().get(1));
    (values, answer)
}

/// Returns the verdict of `ledger` on a store that holds these versions of all records.
fn read_back(ledger: &mut Ledger, truth: &dyn Truth, version: impl Fn(u64) -> Version) -> LedgerVerdict {
    let mut observers = ledger.observers_reading_back(READ_BACK, 1, 1);
    for id in 0..RECORDS {
        let (values, answer) = row(truth, id, version(id));
        observers[0].sent(Ticket(0), 1 << 40, 0, id, &Op::new(READ, values.values().slice(0..1)));
        observers[0].finished(Ticket(0), (1 << 40) + 5, Outcome::Ok, &answer);
    }
    drop(observers);
    ledger.drain();
    ledger.verdict(&ledger.found(READ_BACK))
}

#[test]
fn a_ledger_that_is_behind_leaves_answers_out_first_and_says_so_and_accuses_nobody() {
    let behind = |steps| {
        let workload = kv(RECORDS);
        let mut ledger = Ledger::with_rings(Arc::clone(&workload), (1 << 9, 1 << 9)).unwrap();
        let mut observers = ledger.observers(0, 1, 1);
        let truth = workload.truth().unwrap();
        for cycle in 0..steps {
            let (written, shown) = row(truth, cycle % RECORDS, Version::Written { client: 0, cycle });
            let written = written.values();
            for (kind, params, answer) in [(PUT, written, Answer::default()), (READ, written.slice(0..1), shown)] {
                observers[0].sent(Ticket(0), cycle * 10_000, 0, cycle, &Op::new(kind, params));
                observers[0].finished(Ticket(0), cycle * 10_000 + 3_000, Outcome::Ok, &answer);
            }
        }
        drop(observers);
        let last = |id| (0..steps).rev().find(|cycle| cycle % RECORDS == id).unwrap();
        let verdict = read_back(&mut ledger, truth, |id| Version::Written { client: 0, cycle: last(id) });
        (ledger.skipped(), ledger.answers(), verdict)
    };
    // 6 words a write, 5 an answer: 512 have room for 34 of each, as answers leave a quarter, and for more writes.
    let (skipped, answers, verdict) = behind(20);
    assert!(skipped == 0 && answers[0].answers == 20 && verdict.is_kept(), "{answers:?} {verdict:?}");
    let (skipped, answers, verdict) = behind(45);
    assert!(skipped > 0 && answers[0].unanswered == skipped, "{skipped} {answers:?}");
    assert!(answers[0].is_right() && verdict.is_kept() && verdict.acknowledged == 45, "{verdict:?}");
    let (skipped, answers, verdict) = behind(500);
    assert!(skipped > 0 && answers.iter().all(AnswerVerdict::is_right), "{answers:?}");
    assert!(verdict.gap.is_some() && !verdict.is_kept() && verdict.lost == 0 && verdict.wrong().is_empty());
}

#[test]
fn what_was_only_read_before_a_cut_is_no_acknowledged_write_that_is_lost() {
    let seen = |cut_ns: Option<u64>, outcome: Outcome| {
        let workload = kv(RECORDS);
        let mut ledger = Ledger::new(Arc::clone(&workload)).unwrap();
        ledger.loaded(0, 1, &|| false);
        let (written, shown) = row(workload.truth().unwrap(), 0, Version::Written { client: 0, cycle: 0 });
        // Client 0 writes; client 1 reads what it wrote.
        let mut observers = ledger.observers(0, 1, 2);
        observers[0].sent(Ticket(0), 10_000, 0, 0, &Op::new(PUT, written.values()));
        observers[0].sent(Ticket(1), 20_000, 1, 0, &Op::new(READ, written.values().slice(0..1)));
        observers[0].finished(Ticket(1), 30_000, Outcome::Ok, &shown);
        observers[0].finished(Ticket(0), 50_000_000, outcome, &Answer::default());
        drop(observers);
        if let Some(at_ns) = cut_ns {
            ledger.power_was_cut(at_ns);
        }
        ledger.drain();
        read_back(&mut ledger, workload.truth().unwrap(), |_| Version::Loaded)
    };
    let cut = seen(Some(60_000_000), Outcome::Unknown);
    assert_eq!((cut.read_then_lost, cut.resurrected, cut.lost), (1, 0, 0), "{cut:?}");
    assert!(cut.is_kept() && cut.sentence().contains("1 record had been read"), "{}", cut.sentence());
    assert!(cut.examples[0].contains("write 0 of client 0, sent at"), "{:?}", cut.examples);
    // Without a cut nothing explains it.
    let none = seen(None, Outcome::Unknown);
    assert_eq!((none.read_then_lost, none.resurrected, none.lost), (0, 1, 0), "{none:?}");
    // What was acknowledged is lost, also if it had been read.
    let lost = seen(Some(60_000_000), Outcome::Ok);
    assert_eq!((lost.read_then_lost, lost.resurrected, lost.lost), (0, 1, 1), "{lost:?}");
    assert_eq!((lost.lost_window_ns, lost.loss_upper_bound), (Some((50_000_000, 50_000_000)), None), "{lost:?}");
    assert_eq!(lost.lost_writes.into_iter().collect::<Vec<_>>(), [(50_000_000, 1)]);
}

#[test]
fn a_record_that_could_not_be_read_is_neither_there_nor_lost() {
    let workload = kv(RECORDS);
    let mut ledger = Ledger::new(Arc::clone(&workload)).unwrap();
    ledger.loaded(0, 1, &|| false);
    let mut observers = ledger.observers_reading_back(READ_BACK, 1, 1);
    // One is there, one is gone, of one the store gives nothing; the others were not asked for any more.
    for (id, outcome) in [(0, Outcome::Ok), (1, Outcome::NotFound), (2, Outcome::Rejected)] {
        let (values, shown) = row(workload.truth().unwrap(), id, Version::Loaded);
        let answer = if outcome == Outcome::Ok { shown } else { Answer::default() };
        observers[0].sent(Ticket(0), 1 << 40, 0, id, &Op::new(READ, values.values().slice(0..1)));
        observers[0].finished(Ticket(0), (1 << 40) + 5, outcome, &answer);
    }
    drop(observers);
    ledger.drain();
    let verdict = ledger.verdict(&ledger.found(READ_BACK));
    assert_eq!((verdict.borne_out, verdict.lost, verdict.unread), (1, 1, RECORDS - 2), "{verdict:?}");
    assert!(!verdict.is_kept() && verdict.loss_upper_bound.is_none(), "{verdict:?}");
    assert!(verdict.sentence().contains("3 records could not be read"), "{}", verdict.sentence());
}
