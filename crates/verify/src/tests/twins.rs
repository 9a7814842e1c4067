//! Clients of a store that does what a seed says, under several ledgers at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::{Answer, Observer, Op, Outcome, Ticket, Truth, Value, ValueBuf, Version, Workload};

use super::toy::{self, Random, Toy};

pub const READ: u16 = 0;
pub const PUT: u16 = 1;
const SCAN: u16 = 3;
pub const RECORDS: u64 = 5;
/// Records that are inserted besides, where there are such.
pub const MORE: u64 = 4;
pub const CLIENTS: usize = 6;
pub const A_WORKER: usize = 2;
/// The phase that reads back.
pub const READ_BACK: u16 = 9;

pub fn kv(records: u64) -> Arc<dyn Workload> {
    toy::workload("kv", &[("records", records as i64), ("field_length", 2), ("field_count", 10)])
}

#[derive(Debug, Clone, Copy)]
pub enum Ask {
    /// All records at once.
    Load,
    /// Write of a key and a value.
    Put(u64),
    Insert(u64),
    Update(u64),
    Delete(u64),
    Get(u64),
    Find(Option<i64>, Option<i64>),
    All,
    Scan(u64, u64),
}

/// Frequency of lies, losses and missing answers: one in so many; 0 is never.
#[derive(Debug, Clone, Copy)]
pub struct Ways {
    pub lie: u64,
    pub unknown: u64,
    pub rejected: u64,
    /// Longest time between two things that happen.
    pub pause_ns: u64,
    /// A drain after about so many things that happen.
    pub drain: u64,
    pub steps: u64,
    pub phases: u64,
}

/// An operation in flight: what a write that has happened already came to, and what a question has read already.
#[derive(Debug, Clone)]
struct Flight {
    ask: Ask,
    cycle: u64,
    done: Option<Outcome>,
    early: Early,
}

/// Records below a number, as they were when a question came.
type Early = (u64, BTreeMap<u64, i64>);

/// A ledger, as far as these clients know it.
pub trait Watcher {
    fn observers(&mut self, phase: u16, workers: usize, tickets: usize, reads_back: bool) -> Vec<Box<dyn Observer>>;
    fn drain(&mut self);
}

pub struct Twins<'a> {
    workload: Arc<dyn Workload>,
    watchers: Vec<&'a mut dyn Watcher>,
    observers: Vec<Vec<Box<dyn Observer>>>,
    pub random: Random,
    pub ways: Ways,
    pub now_ns: u64,
    held: BTreeMap<u64, i64>,
    /// Stamps that were sent, by record.
    sent: BTreeMap<u64, Vec<i64>>,
    /// Writes of an honest store that have no answer and have not happened yet.
    late: Vec<(Ask, i64)>,
    early: Early,
    cycles: Vec<u64>,
    open: Vec<Option<Flight>>,
}

impl<'a> Twins<'a> {
    pub fn new(workload: Arc<dyn Workload>, seed: u64, ways: Ways, watchers: Vec<&'a mut dyn Watcher>) -> Self {
        Self {
            workload,
            watchers,
            observers: Vec::new(),
            random: Random(seed),
            ways,
            now_ns: 5_000,
            held: BTreeMap::new(),
            sent: BTreeMap::new(),
            late: Vec::new(),
            early: Early::default(),
            cycles: vec![0; CLIENTS],
            open: vec![None; CLIENTS],
        }
    }

    fn is_honest(&self) -> bool {
        self.ways.lie == 0
    }

    fn truth(&self) -> &dyn Truth {
        self.workload.truth().unwrap()
    }

    /// True when the workload is one of keys and values.
    fn is_kv(&self) -> bool {
        self.truth().sees_contents()
    }

    pub fn begin(&mut self, phase: u16) {
        self.observers.clear();
        let reads_back = phase == READ_BACK;
        let (workers, tickets) = if reads_back { (1, 1) } else { (CLIENTS / A_WORKER, A_WORKER) };
        for watcher in &mut self.watchers {
            self.observers.push(watcher.observers(phase, workers, tickets, reads_back));
        }
        self.cycles.fill(u64::from(phase) << 32);
        self.open.fill(None);
        self.late.clear();
    }

    pub fn end(&mut self) {
        self.observers.clear();
    }

    pub fn run(&mut self) {
        self.begin(0);
        self.send(0, Ask::Load);
        self.finish(0);
        for phase in 1..=self.ways.phases {
            self.begin(phase as u16);
            for _ in 0..self.ways.steps {
                let client = self.random.below(CLIENTS as u64) as usize;
                self.now_ns += 1 + self.random.below(self.ways.pause_ns);
                self.step(client);
                if self.random.one_in(self.ways.drain) {
                    self.watchers.iter_mut().for_each(|watcher| watcher.drain());
                }
            }
            self.watchers.iter_mut().for_each(|watcher| watcher.drain());
        }
    }

    /// Sends the client's next operation, or finishes the one that is in flight.
    pub fn step(&mut self, client: usize) {
        // A write whose client has given up happens long after, or never.
        if !self.late.is_empty() && self.random.one_in(20) {
            let (ask, stamp) = self.late.remove(0);
            self.write(ask, stamp);
        }
        if self.open[client].is_some() {
            self.finish(client);
        } else {
            let ask = if self.is_kv() { self.choose_of_kv() } else { self.choose() };
            self.send(client, ask);
        }
    }

    fn choose_of_kv(&mut self) -> Ask {
        let id = self.random.below(RECORDS + MORE);
        match self.random.below(10) {
            0..=4 => Ask::Put(id),
            5..=8 => Ask::Get(id),
            _ => Ask::Scan(self.random.below(RECORDS), 1 + self.random.below(6)),
        }
    }

    fn choose(&mut self) -> Ask {
        let id = self.random.below(RECORDS);
        match self.random.below(12) {
            0 | 1 => Ask::Insert(id),
            2..=4 => Ask::Update(id),
            5 => Ask::Delete(id),
            6 | 7 => Ask::Get(id),
            8..=10 => {
                let bound = |random: &mut Random| (!random.one_in(3)).then(|| random.below(75) as i64);
                Ask::Find(bound(&mut self.random), bound(&mut self.random))
            }
            _ => Ask::All,
        }
    }

    pub fn send(&mut self, client: usize, ask: Ask) {
        let mut params = ValueBuf::new();
        let cycle = self.cycles[client];
        let version = Version::Written { client: client as u32, cycle };
        let bound = |value: Option<i64>| value.map_or(Value::Null, Value::Int);
        let truth = self.workload.truth().unwrap();
        let kind = match ask {
            Ask::Load => {
                (0..RECORDS).for_each(|id| truth.row(id, Version::Loaded, &mut params));
                toy::INSERT
            }
            Ask::Put(id) => {
                truth.row(id, version, &mut params);
                PUT
            }
            Ask::Insert(id) => {
                truth.row(id, version, &mut params);
                toy::INSERT
            }
            Ask::Update(id) => {
                params.push(Value::Int(id as i64));
                params.push(Toy::value(id, version));
                params.push(Value::Int(version.stamp()));
                toy::UPDATE
            }
            Ask::Delete(id) => {
                params.push(Value::Int(id as i64));
                toy::DELETE
            }
            Ask::Get(id) => {
                truth.key(id, &mut params);
                if self.is_kv() { READ } else { toy::GET }
            }
            Ask::Find(low, high) => {
                params.push(bound(low));
                params.push(bound(high));
                toy::FIND
            }
            Ask::All => toy::ALL,
            Ask::Scan(id, count) => {
                truth.key(id, &mut params);
                params.push(Value::Int(count as i64));
                SCAN
            }
        };
        if let Ask::Put(id) | Ask::Insert(id) | Ask::Update(id) = ask {
            self.sent.entry(id).or_default().push(version.stamp());
        }
        if let (Ask::Load, true) = (ask, self.is_kv()) {
            // One after the other: a put is of one record.
            for id in 0..RECORDS {
                let mut row = ValueBuf::new();
                self.truth().row(id, Version::Loaded, &mut row);
                self.pass(client, |observer, ticket, now_ns| {
                    observer.sent(ticket, now_ns, client as u32, cycle, &Op::new(PUT, row.values()));
                    observer.finished(ticket, now_ns + 1, Outcome::Ok, &Answer::default());
                });
                self.now_ns += 2;
                self.held.insert(id, 0);
            }
            return;
        }
        // Some writes happen at once, some when they are answered, some never.
        let done = self.random.one_in(2).then(|| self.write(ask, version.stamp())).flatten();
        self.pass(client, |observer, ticket, now_ns| {
            observer.sent(ticket, now_ns, client as u32, cycle, &Op::new(kind, params.values()));
        });
        self.cycles[client] += 1;
        // A store of records reads one after the other, from no snapshot.
        let is_early = self.is_honest() && !self.is_kv();
        let early = if is_early { (self.random.below(RECORDS + 1), self.held.clone()) } else { Early::default() };
        self.open[client] = Some(Flight { ask, cycle, done, early });
    }

    fn pass(&mut self, client: usize, call: impl Fn(&mut dyn Observer, Ticket, u64)) {
        for observers in &mut self.observers {
            call(&mut *observers[client / A_WORKER], Ticket((client % A_WORKER) as u32), self.now_ns);
        }
    }

    /// Does a write; `None` for questions.
    fn write(&mut self, ask: Ask, stamp: i64) -> Option<Outcome> {
        let is_there = |id: u64| self.held.contains_key(&id);
        match ask {
            Ask::Load => self.held.extend((0..RECORDS).map(|id| (id, 0))),
            Ask::Insert(id) if is_there(id) => return Some(Outcome::Rejected),
            Ask::Update(id) | Ask::Delete(id) if !is_there(id) => return Some(Outcome::NotFound),
            Ask::Put(id) | Ask::Insert(id) | Ask::Update(id) => self.held.extend([(id, stamp)]),
            Ask::Delete(id) => self.held.retain(|held, _| *held != id),
            Ask::Get(_) | Ask::Find(..) | Ask::All | Ask::Scan(..) => return None,
        }
        Some(Outcome::Ok)
    }

    pub fn finish(&mut self, client: usize) {
        self.now_ns += 1;
        let Some(Flight { ask, cycle, done, early }) = self.open[client].take() else { return };
        self.early = early;
        let (mut outcome, mut answer) = (Outcome::Ok, Answer::default());
        let is_load = matches!(ask, Ask::Load);
        let stamp = Version::Written { client: client as u32, cycle }.stamp();
        let has_happened = self.is_honest() && done.is_some();
        if !is_load && self.random.one_in(self.ways.unknown) {
            outcome = Outcome::Unknown;
            self.late.extend((self.is_honest() && done.is_none()).then_some((ask, stamp)));
        } else if !is_load && !has_happened && self.random.one_in(self.ways.rejected) {
            let lies = !self.is_honest() && self.random.one_in(5);
            outcome = if lies { Outcome::NotFound } else { Outcome::Rejected };
        } else {
            match ask {
                Ask::Get(id) => match self.shown(id) {
                    Some(stamp) => {
                        self.put_row(id, stamp, !self.is_kv(), &mut answer);
                        if self.random.one_in(4 * self.ways.lie) {
                            self.put_row((id + 1) % RECORDS, 0, !self.is_kv(), &mut answer);
                        }
                    }
                    None => outcome = Outcome::NotFound,
                },
                Ask::Find(low, high) => self.many(&mut answer, |value| {
                    let Value::Int(value) = value else { return false };
                    low.is_none_or(|low| low <= value) && high.is_none_or(|high| value < high)
                }),
                Ask::All => self.many(&mut answer, |_| true),
                Ask::Scan(id, count) => self.scan(id, count, &mut answer),
                // A lie: it is acknowledged, and does not happen.
                _ if !is_load && self.random.one_in(self.ways.lie) => {}
                _ => outcome = done.or_else(|| self.write(ask, stamp)).unwrap_or(Outcome::Ok),
            }
        }
        self.pass(client, |observer, ticket, now_ns| observer.finished(ticket, now_ns, outcome, &answer));
    }

    /// Returns the stamp that the store shows of a record, negative for spoilt values.
    fn shown(&mut self, id: u64) -> Option<i64> {
        let held = if id < self.early.0 { &self.early.1 } else { &self.held };
        let held = held.get(&id).copied();
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

    /// Adds a row: with its key, or the value alone.
    fn put_row(&mut self, id: u64, stamp: i64, is_whole: bool, answer: &mut Answer) {
        let mut row = ValueBuf::new();
        self.truth().row(id, Version::from_stamp(stamp).unwrap_or(Version::Loaded), &mut row);
        let values = row.values();
        for (place, value) in values.iter().enumerate().filter(|(place, _)| is_whole || *place > 0) {
            match value {
                Value::Bytes(bytes) if stamp < 0 && place > 0 => {
                    let mut bytes = bytes.to_vec();
                    *bytes.last_mut().unwrap() ^= 1;
                    answer.values.push(Value::Bytes(&bytes));
                }
                _ if stamp < 0 && place == 1 => answer.values.push(Value::Int(9_999)),
                _ => answer.values.push(value),
            }
        }
        answer.columns = values.len() - usize::from(!is_whole);
        answer.rows += 1;
    }

    fn many(&mut self, answer: &mut Answer, matches: impl Fn(Value<'_>) -> bool) {
        let mut rows = Vec::new();
        for id in 0..RECORDS {
            let Some(stamp) = self.shown(id) else { continue };
            let version = Version::from_stamp(stamp).unwrap_or(Version::Loaded);
            if matches(Toy::value(id, version)) || self.random.one_in(4 * self.ways.lie) {
                rows.push((id, stamp));
            }
        }
        self.spoil(&mut rows);
        rows.into_iter().for_each(|(id, stamp)| self.put_row(id, stamp, true, answer));
    }

    fn spoil(&mut self, rows: &mut Vec<(u64, i64)>) {
        if !rows.is_empty() && self.random.one_in(self.ways.lie) {
            let place = self.random.below(rows.len() as u64) as usize;
            match self.random.below(4) {
                0 => rows.truncate(place),
                1 => rows.push(rows[place]),
                2 => rows.swap(0, place),
                _ => rows.push((RECORDS + MORE + 1, 0)),
            }
        }
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
        self.spoil(&mut rows);
        rows.into_iter().for_each(|(id, stamp)| self.put_row(id, stamp, true, answer));
        if self.random.one_in(self.ways.lie) {
            answer.columns = 2;
            answer.values.push(Value::Bytes(b"nobody's"));
            answer.values.push(Value::Bytes(b"anything"));
            answer.rows += 1;
        }
    }

    /// Reads everything back: key by key of `kv`, otherwise all records, and those with a value below `below`.
    pub fn read_back(&mut self, below: i64) -> [Answer; 2] {
        let mut answers = [Answer::default(), Answer::default()];
        self.ways = Ways { unknown: 0, rejected: 0, ..self.ways };
        self.now_ns += 10_000;
        self.early = Early::default();
        if self.is_kv() {
            self.begin(READ_BACK);
            for id in 0..RECORDS + MORE {
                self.now_ns += 1;
                self.send(0, Ask::Get(id));
                self.finish(0);
            }
        } else {
            let [all, index] = &mut answers;
            self.many(all, |_| true);
            self.many(index, |value| matches!(value, Value::Int(value) if value < below));
        }
        self.end();
        answers
    }
}
