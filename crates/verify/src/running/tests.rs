//! The ledger that judges while phases run finds what the one finds that keeps the whole history and judges afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::{
    Answer, Observer, Op, Outcome, ParamType, ParamValue, Params, Ticket, Truth, Value, ValueBuf, Version, Workload,
};
use proptest::prelude::*;

use crate::log::ChunkRoom;
use crate::{AnswerVerdict, Judge, Ledger, LedgerVerdict, ReadBack};

const READ: u16 = 0;
const UPDATE: u16 = 1;
const SCAN: u16 = 3;
const RECORDS: u64 = 5;
/// Records that are inserted besides.
const MORE: u64 = 4;
const CLIENTS: usize = 6;
const A_WORKER: usize = 2;
const READ_BACK: u16 = 9;

pub(super) fn kv(records: u64) -> Arc<dyn Workload> {
    let spec = plimsoll_workload::all().into_iter().find(|spec| spec.name == "kv").unwrap();
    let mut params = Params::default();
    for param in spec.params {
        let value = match param.param_type {
            ParamType::Int { .. } => ParamValue::Int(param.default.parse().unwrap()),
            _ => ParamValue::Text(param.default.into()),
        };
        params.0.insert(param.name.into(), value);
    }
    for (name, value) in [("records", records as i64), ("field_length", 2), ("field_count", 10)] {
        params.0.insert(name.into(), ParamValue::Int(value));
    }
    Arc::from((spec.make)(11, &params, &[]).unwrap())
}

/// SplitMix64: a seed is a history.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.below(n) == 0
    }
}

#[derive(Debug, Clone, Copy)]
enum Ask {
    Put(u64, Version),
    Get(u64),
    Scan(u64, u64),
}

/// How often the store lies, loses or leaves unanswered: one in so many; 0 is never.
#[derive(Debug, Clone, Copy)]
struct Ways {
    lie: u64,
    unknown: u64,
    rejected: u64,
    /// Longest time between two things that happen.
    pause_ns: u64,
    /// A drain after about so many things that happen.
    drain: u64,
    steps: u64,
    phases: u64,
}

/// Clients of a store that does what a seed says, under both ledgers.
struct Twins {
    workload: Arc<dyn Workload>,
    ledgers: [Ledger; 2],
    observers: [Vec<Box<dyn Observer>>; 2],
    random: Random,
    ways: Ways,
    now_ns: u64,
    held: BTreeMap<u64, i64>,
    /// Stamps that were sent, by record.
    sent: BTreeMap<u64, Vec<i64>>,
    cycles: Vec<u64>,
    open: Vec<Option<(Ask, bool)>>,
}

impl Twins {
    fn new(seed: u64, ways: Ways) -> Self {
        let workload = kv(RECORDS);
        let room = ChunkRoom { events: 200, rows: 1_000 };
        let whole = Ledger::with_room(Arc::clone(&workload), room).unwrap();
        let mut running = Ledger::with_room(Arc::clone(&workload), room).unwrap();
        running.judge_while_running((1 << 14, 1 << 14));
        let ledgers = [whole, running];
        Self {
            workload,
            ledgers,
            observers: [Vec::new(), Vec::new()],
            random: Random(seed),
            ways,
            now_ns: 5_000,
            held: BTreeMap::new(),
            sent: BTreeMap::new(),
            cycles: vec![0; CLIENTS],
            open: vec![None; CLIENTS],
        }
    }

    fn truth(&self) -> &dyn Truth {
        self.workload.truth().unwrap()
    }

    fn begin(&mut self, phase: u16) {
        for (ledger, observers) in self.ledgers.iter_mut().zip(&mut self.observers) {
            observers.clear();
            *observers = match phase {
                READ_BACK => ledger.observers_reading_back(phase, 1, 1),
                _ => ledger.observers(phase, CLIENTS / A_WORKER, A_WORKER),
            };
        }
        self.cycles.fill(u64::from(phase) << 32);
        self.open.fill(None);
    }

    fn run(&mut self) {
        self.begin(0);
        for id in 0..RECORDS {
            self.send(0, Ask::Put(id, Version::Loaded));
            self.finish(0);
        }
        for phase in 1..=self.ways.phases {
            self.begin(phase as u16);
            for _ in 0..self.ways.steps {
                let client = self.random.below(CLIENTS as u64) as usize;
                self.now_ns += 1 + self.random.below(self.ways.pause_ns);
                if self.open[client].is_some() {
                    self.finish(client);
                } else {
                    let ask = self.choose(client);
                    self.send(client, ask);
                }
                if self.random.one_in(self.ways.drain) {
                    self.ledgers[1].drain();
                }
            }
            self.ledgers[0].drain();
        }
    }

    fn choose(&mut self, client: usize) -> Ask {
        let id = self.random.below(RECORDS + MORE);
        match self.random.below(10) {
            0..=4 => Ask::Put(id, Version::Written { client: client as u32, cycle: self.cycles[client] }),
            5..=8 => Ask::Get(id),
            _ => Ask::Scan(self.random.below(RECORDS), 1 + self.random.below(6)),
        }
    }

    fn send(&mut self, client: usize, ask: Ask) {
        let mut params = ValueBuf::new();
        let kind = match ask {
            Ask::Put(id, version) => {
                self.truth().row(id, version, &mut params);
                self.sent.entry(id).or_default().push(version.stamp());
                UPDATE
            }
            Ask::Get(id) => {
                self.truth().key(id, &mut params);
                READ
            }
            Ask::Scan(id, count) => {
                self.truth().key(id, &mut params);
                params.push(Value::Int(count as i64));
                SCAN
            }
        };
        // Some writes happen at once, some when they are answered, some never.
        let is_early = self.random.one_in(2);
        if let (true, Ask::Put(id, version)) = (is_early, ask) {
            self.held.insert(id, version.stamp());
        }
        let (ticket, cycle) = (Ticket((client % A_WORKER) as u32), self.cycles[client]);
        for observers in &mut self.observers {
            let op = Op::new(kind, params.values());
            observers[client / A_WORKER].sent(ticket, self.now_ns, client as u32, cycle, &op);
        }
        self.cycles[client] += 1;
        self.open[client] = Some((ask, is_early));
    }

    fn finish(&mut self, client: usize) {
        self.now_ns += 1;
        let (ask, is_early) = self.open[client].take().unwrap();
        let (mut outcome, mut answer) = (Outcome::Ok, Answer::default());
        let is_load = matches!(ask, Ask::Put(_, Version::Loaded));
        if !is_load && self.random.one_in(self.ways.unknown) {
            outcome = Outcome::Unknown;
        } else if !is_load && self.random.one_in(self.ways.rejected) {
            outcome = if self.random.one_in(5) { Outcome::NotFound } else { Outcome::Rejected };
        } else {
            match ask {
                Ask::Put(id, version) if !is_early && !self.random.one_in(self.ways.lie) => {
                    self.held.insert(id, version.stamp());
                }
                Ask::Put(..) => {}
                Ask::Get(id) => match self.shown(id) {
                    Some(stamp) => {
                        self.put_row(id, stamp, false, &mut answer);
                        answer.columns = 1;
                    }
                    None => outcome = Outcome::NotFound,
                },
                Ask::Scan(id, count) => self.scan(id, count, &mut answer),
            }
        }
        let ticket = Ticket((client % A_WORKER) as u32);
        for observers in &mut self.observers {
            observers[client / A_WORKER].finished(ticket, self.now_ns, outcome, &answer);
        }
    }

    /// What the store shows of a record: a stamp, a negative one for spoilt bytes.
    fn shown(&mut self, id: u64) -> Option<i64> {
        let held = self.held.get(&id).copied();
        if !self.random.one_in(self.ways.lie) {
            return held;
        }
        match self.random.below(8) {
            0 => None,
            1 => Some(-1),
            2 => Some(Version::Loaded.stamp()),
            // A write that never was.
            3 => Some(Version::Written { client: 3, cycle: 1 << 38 }.stamp()),
            _ => {
                let sent = self.sent.get(&id)?;
                Some(sent[self.random.0 as usize % sent.len()])
            }
        }
    }

    fn put_row(&mut self, id: u64, stamp: i64, with_key: bool, answer: &mut Answer) {
        let mut row = ValueBuf::new();
        self.truth().row(id, Version::from_stamp(stamp).unwrap_or(Version::Loaded), &mut row);
        let Value::Bytes(value) = row.values().get(1) else { panic!("values are bytes") };
        let mut value = value.to_vec();
        if stamp < 0 {
            *value.last_mut().unwrap() ^= 1;
        }
        if with_key {
            answer.values.push(row.values().get(0));
        }
        answer.values.push(Value::Bytes(&value));
        answer.rows += 1;
    }

    fn scan(&mut self, id: u64, count: u64, answer: &mut Answer) {
        let mut keys = BTreeMap::new();
        for id in 0..RECORDS + MORE + 2 {
            let mut key = ValueBuf::new();
            self.truth().key(id, &mut key);
            let Value::Bytes(key) = key.values().get(0) else { panic!("keys are bytes") };
            keys.insert(key.to_vec(), id);
        }
        let first = keys.iter().find(|(_, one)| **one == id).unwrap().0.clone();
        let mut rows: Vec<(u64, i64)> = Vec::new();
        for (_, id) in keys.range(first..) {
            if let Some(stamp) = self.shown(*id).filter(|_| (rows.len() as u64) < count) {
                rows.push((*id, stamp));
            }
        }
        if !rows.is_empty() && self.random.one_in(self.ways.lie) {
            let place = self.random.below(rows.len() as u64) as usize;
            match self.random.below(4) {
                0 => drop(rows.remove(place)),
                1 => rows.push(rows[place]),
                2 => rows.swap(0, place),
                _ => rows.push((RECORDS + MORE + 1, 0)),
            }
        }
        answer.columns = 2;
        rows.into_iter().for_each(|(id, stamp)| self.put_row(id, stamp, true, answer));
        if self.random.one_in(self.ways.lie) {
            answer.values.push(Value::Bytes(b"nobody's"));
            answer.values.push(Value::Bytes(b"anything"));
            answer.rows += 1;
        }
    }

    /// Reads everything back and has both ledgers judge.
    fn verdicts(mut self) -> [(Vec<AnswerVerdict>, LedgerVerdict); 2] {
        self.begin(READ_BACK);
        for id in 0..RECORDS + MORE {
            self.now_ns += 1;
            self.send(0, Ask::Get(id));
            self.ways = Ways { unknown: 0, rejected: 0, ..self.ways };
            self.finish(0);
        }
        self.observers.iter_mut().for_each(Vec::clear);
        self.ledgers.map(|mut ledger| {
            let history = ledger.history();
            assert_eq!(history.gap(), None);
            let judge = Judge::new(history);
            (judge.answers(), judge.ledger(&ReadBack::of_phase(history, READ_BACK)))
        })
    }
}

fn without_words((answers, ledger): (Vec<AnswerVerdict>, LedgerVerdict)) -> (Vec<AnswerVerdict>, LedgerVerdict) {
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn it_finds_what_the_whole_history_gives(seed: u64, ways in ways()) {
        let mut twins = Twins::new(seed, ways);
        twins.run();
        let [whole, running] = twins.verdicts();
        prop_assert_eq!(whole.0.iter().map(|one| one.examples.is_empty()).collect::<Vec<_>>(), running.0.iter().map(|one| one.examples.is_empty()).collect::<Vec<_>>());
        prop_assert_eq!(without_words(whole), without_words(running));
    }
}

/// Clients that write and read a few keys as fast as they can, honestly, under a ledger that is drained now and then.
fn honest(steps: u64, drain: u64) -> Ledger {
    let ways = Ways { lie: 0, unknown: 0, rejected: 0, pause_ns: 300, drain: 0, steps: 0, phases: 0 };
    let mut twins = Twins::new(3, ways);
    twins.run();
    twins.begin(1);
    for step in 0..steps {
        let client = (step / 2) as usize % CLIENTS;
        twins.now_ns += 2_000;
        if twins.open[client].is_some() {
            twins.finish(client);
        } else {
            let ask = twins.choose(client);
            twins.send(client, ask);
        }
        if step % drain == 0 {
            twins.ledgers.iter_mut().for_each(Ledger::drain);
        }
    }
    let [_, running] = twins.ledgers;
    running
}

#[test]
fn its_memory_does_not_grow_with_operations() {
    let states = |steps| {
        let mut ledger = honest(steps, 20);
        let running = ledger.history().running.as_ref().unwrap();
        (running.operations(), running.states())
    };
    let ((few, states_few), (many, states_many)) = (states(2_000), states(40_000));
    assert!(many > 15 * few, "{few} and {many} operations");
    assert!(states_many <= states_few + 30, "{states_few} states after {few} operations, {states_many} after {many}");
}

#[test]
fn a_ledger_that_is_behind_leaves_answers_out_first_and_says_so_and_accuses_nobody() {
    let behind = |steps| {
        let workload = kv(RECORDS);
        let mut ledger = Ledger::with_room(Arc::clone(&workload), ChunkRoom { events: 8, rows: 8 }).unwrap();
        ledger.judge_while_running((1 << 9, 1 << 9));
        let mut observers = ledger.observers(0, 1, 1);
        let mut params = ValueBuf::new();
        let truth = workload.truth().unwrap();
        for cycle in 0..steps {
            let (id, version) = (cycle % RECORDS, Version::Written { client: 0, cycle });
            params.clear();
            truth.row(id, version, &mut params);
            let mut answer = Answer { columns: 1, ..Answer::default() };
            for kind in [UPDATE, READ] {
                let op = Op::new(kind, if kind == READ { params.values().slice(0..1) } else { params.values() });
                observers[0].sent(Ticket(0), cycle * 10_000, 0, cycle, &op);
                observers[0].finished(Ticket(0), cycle * 10_000 + 3_000, Outcome::Ok, &answer);
                if kind == UPDATE {
                    answer.values.push(params.values().get(1));
                    answer.rows = 1;
                }
            }
        }
        drop(observers);
        let mut observers = ledger.observers_reading_back(READ_BACK, 1, 1);
        for id in 0..RECORDS {
            params.clear();
            let cycle = (0..steps).rev().find(|cycle| cycle % RECORDS == id).unwrap();
            truth.row(id, Version::Written { client: 0, cycle }, &mut params);
            let mut answer = Answer { columns: 1, rows: 1, ..Answer::default() };
            answer.values.push(params.values().get(1));
            observers[0].sent(Ticket(0), 1 << 40, 0, id, &Op::new(READ, params.values().slice(0..1)));
            observers[0].finished(Ticket(0), (1 << 40) + 5, Outcome::Ok, &answer);
        }
        drop(observers);
        let history = ledger.history();
        let judge = Judge::new(history);
        let verdict = judge.ledger(&ReadBack::of_phase(history, READ_BACK));
        (history.skipped(), judge.answers(), verdict)
    };
    // 6 words a write, 7 an answer: 512 have room for 40 of each, and for 70 writes with fewer answers.
    let (skipped, answers, verdict) = behind(20);
    assert!(skipped == 0 && answers[0].answers == 20 && verdict.is_kept(), "{answers:?} {verdict:?}");
    let (skipped, answers, verdict) = behind(45);
    assert!(skipped > 0 && answers[0].unanswered == skipped, "{skipped} {answers:?}");
    assert!(answers[0].is_right() && verdict.is_kept() && verdict.acknowledged == 45, "{verdict:?}");
    let (skipped, answers, verdict) = behind(500);
    assert!(skipped > 0 && answers.iter().all(AnswerVerdict::is_right), "{answers:?}");
    assert!(verdict.gap.is_some() && !verdict.is_kept() && verdict.lost == 0 && verdict.wrong().is_empty());
}
