//! A store and its clients in virtual time, with every interleaving that a seed can choose.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use plimsoll_core::{Answer, Observer, Op, Outcome, Ticket, Truth, Value, ValueBuf, Version, Workload};
use plimsoll_verify::{AnswerVerdict, Ledger, LedgerVerdict, ReadBack};

use crate::toy::{ALL, DELETE, FIND, GET, INSERT, Random, Toy, UPDATE};

/// A tick of virtual time: long compared with the differences between clocks.
const TICK_NS: u64 = 10_000;

/// Rows as (key, stamp).
pub type Rows = Vec<(u64, i64)>;

/// Request of a client.
#[derive(Debug, Clone, Copy)]
pub enum Ask {
    Insert(u64),
    Get(u64),
    Update(u64),
    Delete(u64),
    Find(Option<i64>, Option<i64>),
    All,
}

/// Frequency of troubles that an honest store may have: one in so many; 0 is never.
#[derive(Debug, Clone, Copy)]
pub struct Troubles {
    pub unknown: u64,
    pub rejected: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Apply,
    Finish,
    Send,
    /// A write whose client has given up, applied long after.
    Late,
}

struct Flight {
    ask: Ask,
    cycle: u64,
    outcome: Outcome,
    /// Rows of the answer, as (key, stamp).
    rows: Rows,
    /// Keys of a question for many that have not been read yet.
    unread: Vec<u64>,
}

pub struct Simulation {
    pub toy: Arc<Toy>,
    pub ledger: Ledger,
    pub random: Random,
    /// Contents of the store: key -> stamp.
    pub held: BTreeMap<u64, i64>,
    pub now: u64,
    /// Keys with a write of unobserved outcome.
    pub unsure: Vec<u64>,
    observers: Vec<Box<dyn Observer>>,
    clients: u64,
    troubles: Troubles,
    cycles: Vec<u64>,
}

impl Simulation {
    pub fn new(seed: u64, records: u64, clients: u64, troubles: Troubles) -> Self {
        let toy = Arc::new(Toy::new(records));
        let mut ledger = Ledger::with_rings(toy.clone(), (1 << 15, 1 << 15)).unwrap();
        // Two clients to a worker, as on a wire executor.
        let observers = ledger.observers(0, clients.div_ceil(2) as usize, 2);
        Self {
            toy,
            ledger,
            random: Random(seed),
            held: BTreeMap::new(),
            now: 0,
            unsure: Vec::new(),
            observers,
            clients,
            troubles,
            cycles: vec![0; clients as usize],
        }
    }

    /// Makes all clients run `ops` operations each, concurrently.
    pub fn storm(&mut self, ops: u64) {
        let mut queue = BinaryHeap::new();
        let mut flights: Vec<Option<Flight>> = (0..self.clients).map(|_| None).collect();
        let mut late: BTreeMap<u64, (Ask, u32, u64)> = BTreeMap::new();
        let mut left = vec![ops; self.clients as usize];
        for client in 0..self.clients {
            queue.push(Reverse((self.now + self.random.below(5), Stage::Send, client)));
        }
        while let Some(Reverse((now, stage, client))) = queue.pop() {
            self.now = now;
            let place = client as usize;
            match stage {
                Stage::Send => {
                    if left[place] == 0 {
                        continue;
                    }
                    left[place] -= 1;
                    let ask = self.choose(client);
                    let cycle = self.cycles[place];
                    self.cycles[place] += 1;
                    self.sent(client, cycle, ask);
                    let unread = self.held.keys().copied().collect();
                    let mut flight = Flight { ask, cycle, outcome: Outcome::Ok, rows: Vec::new(), unread };
                    let unknown = self.random.one_in(self.troubles.unknown);
                    let rejected = self.random.one_in(self.troubles.rejected);
                    if unknown || rejected {
                        flight.outcome = if unknown { Outcome::Unknown } else { Outcome::Rejected };
                        let after = 1 + self.random.below(20);
                        queue.push(Reverse((now + after, Stage::Finish, client)));
                        if let (true, Ask::Insert(id) | Ask::Update(id) | Ask::Delete(id)) = (unknown, ask) {
                            self.unsure.push(id);
                            // It happens while the client waits, or after it gave up, or never.
                            if !self.random.one_in(3) {
                                let number = late.len() as u64;
                                late.insert(number, (ask, client as u32, cycle));
                                queue.push(Reverse((now + self.random.below(60), Stage::Late, number)));
                            }
                        }
                    } else {
                        queue.push(Reverse((now + self.random.below(8), Stage::Apply, client)));
                    }
                    flights[place] = Some(flight);
                }
                Stage::Apply => {
                    let flight = flights[place].as_mut().unwrap();
                    let again = self.apply(flight, client);
                    let stage = if again { Stage::Apply } else { Stage::Finish };
                    queue.push(Reverse((now + self.random.below(8), stage, client)));
                }
                Stage::Late => {
                    let (ask, client, cycle) = late[&client];
                    self.write(ask, client, cycle);
                }
                Stage::Finish => {
                    let flight = flights[place].take().unwrap();
                    self.finished(client, flight.outcome, &flight.rows);
                    queue.push(Reverse((now + self.random.below(4), Stage::Send, client)));
                }
            }
        }
        self.now += 10;
        self.ledger.drain();
    }

    /// Begins another phase: clients count their operations from 0 again, so that stamps come a second time.
    pub fn next_phase(&mut self, phase: u16) {
        self.observers = self.ledger.observers(phase, self.clients.div_ceil(2) as usize, 2);
        self.cycles.fill(0);
    }

    /// Does one operation while nothing else happens; `lie` may change the store's state and answer.
    pub fn quietly(&mut self, client: u64, ask: Ask, lie: impl FnOnce(&mut Simulation, &mut Rows)) -> Outcome {
        let cycle = self.cycles[client as usize];
        self.cycles[client as usize] += 1;
        self.now += 10;
        self.sent(client, cycle, ask);
        self.now += 10;
        let unread = self.held.keys().copied().collect();
        let mut flight = Flight { ask, cycle, outcome: Outcome::Ok, rows: Vec::new(), unread };
        while self.apply(&mut flight, client) {}
        lie(self, &mut flight.rows);
        self.now += 10;
        self.finished(client, flight.outcome, &flight.rows);
        flight.outcome
    }

    /// Sends a write that is never answered; the caller decides if and when it happens. Returns its stamp.
    pub fn unanswered(&mut self, client: u64, ask: Ask) -> i64 {
        let stamp = self.next_stamp(client);
        let cycle = self.cycles[client as usize];
        self.cycles[client as usize] += 1;
        self.now += 10;
        self.sent(client, cycle, ask);
        self.now += 10;
        stamp
    }

    /// Puts a record into the store behind everyone's back.
    pub fn hold(&mut self, id: u64, stamp: i64) {
        self.held.insert(id, stamp);
    }

    /// The stamp of the next write of `client`.
    pub fn next_stamp(&self, client: u64) -> i64 {
        Version::Written { client: client as u32, cycle: self.cycles[client as usize] }.stamp()
    }

    /// Reads everything back, with what `lie` makes of it, and judges.
    pub fn judge(mut self, lie: impl FnOnce(&mut Rows, &mut Rows)) -> (Vec<AnswerVerdict>, LedgerVerdict) {
        self.observers.clear();
        let mut records: Vec<_> = self.held.iter().map(|(key, stamp)| (*key, *stamp)).collect();
        let within = |(key, stamp): &(u64, i64)| match Toy::value(*key, Version::from_stamp(*stamp).unwrap()) {
            Value::Int(value) => value < 40,
            _ => false,
        };
        let mut index: Vec<_> = records.iter().copied().filter(within).collect();
        lie(&mut records, &mut index);
        let mut found = ReadBack::new(self.toy.clone());
        let mut bounds = ValueBuf::new();
        bounds.push(Value::Null);
        bounds.push(Value::Int(40));
        assert!(found.expect_index(&self.toy.kinds()[usize::from(FIND)], bounds.values()));
        found.add_records(&answer(&self.toy, &records));
        found.add_index_records(&answer(&self.toy, &index));
        self.ledger.drain();
        assert_eq!(self.ledger.skipped(), 0);
        (self.ledger.answers(), self.ledger.verdict(&found))
    }

    fn choose(&mut self, client: u64) -> Ask {
        let records = self.toy.record_count();
        let any = self.random.below(records);
        let owned = (any / self.clients * self.clients + client) % records;
        // Ownership has no gaps when the clients divide the records.
        assert_eq!(owned % self.clients, client);
        match self.random.below(10) {
            0 | 1 => Ask::Insert(owned),
            2..=4 => Ask::Update(owned),
            5 => Ask::Delete(owned),
            6 | 7 => Ask::Get(any),
            8 => {
                let bound = |random: &mut Random| (!random.one_in(3)).then(|| random.below(75) as i64);
                Ask::Find(bound(&mut self.random), bound(&mut self.random))
            }
            _ => Ask::All,
        }
    }

    fn write(&mut self, ask: Ask, client: u32, cycle: u64) -> Outcome {
        let stamp = Version::Written { client, cycle }.stamp();
        match ask {
            Ask::Insert(id) if self.held.contains_key(&id) => return Outcome::Rejected,
            Ask::Update(id) | Ask::Delete(id) if !self.held.contains_key(&id) => return Outcome::NotFound,
            Ask::Insert(id) | Ask::Update(id) => self.held.insert(id, stamp),
            Ask::Delete(id) => self.held.remove(&id),
            _ => None,
        };
        Outcome::Ok
    }

    /// Does a part of the operation: writes at once, sets key by key; true when something is left to do.
    fn apply(&mut self, flight: &mut Flight, client: u64) -> bool {
        match flight.ask {
            Ask::Get(id) => match self.held.get(&id) {
                Some(stamp) => flight.rows.push((id, *stamp)),
                None => flight.outcome = Outcome::NotFound,
            },
            Ask::Find(low, high) => return self.read_some(flight, |value| {
                matches!(value, Value::Int(value) if low.is_none_or(|low| low <= value) && high.is_none_or(|high| value < high))
            }),
            Ask::All => return self.read_some(flight, |_| true),
            write => flight.outcome = self.write(write, client as u32, flight.cycle),
        }
        false
    }

    /// Reads some of the keys that stood there when the question came: no snapshot, but no key skipped.
    fn read_some(&mut self, flight: &mut Flight, matches: impl Fn(Value<'_>) -> bool) -> bool {
        let take = 1 + self.random.below(flight.unread.len() as u64 + 1) as usize;
        for key in flight.unread.drain(..take.min(flight.unread.len())) {
            if let Some(stamp) = self.held.get(&key)
                && matches(Toy::value(key, Version::from_stamp(*stamp).unwrap()))
            {
                flight.rows.push((key, *stamp));
            }
        }
        !flight.unread.is_empty()
    }

    fn sent(&mut self, client: u64, cycle: u64, ask: Ask) {
        let mut params = ValueBuf::new();
        let version = Version::Written { client: client as u32, cycle };
        let kind = match ask {
            Ask::Insert(id) => {
                self.toy.row(id, version, &mut params);
                INSERT
            }
            Ask::Get(id) => {
                params.push(Value::Int(id as i64));
                GET
            }
            Ask::Update(id) => {
                params.push(Value::Int(id as i64));
                params.push(Toy::value(id, version));
                params.push(Value::Int(version.stamp()));
                UPDATE
            }
            Ask::Delete(id) => {
                params.push(Value::Int(id as i64));
                DELETE
            }
            Ask::Find(low, high) => {
                params.push(low.map_or(Value::Null, Value::Int));
                params.push(high.map_or(Value::Null, Value::Int));
                FIND
            }
            Ask::All => ALL,
        };
        let op = Op::new(kind, params.values());
        let at_ns = self.now * TICK_NS;
        self.observers[client as usize / 2].sent(Ticket(client as u32 % 2), at_ns, client as u32, cycle, &op);
    }

    fn finished(&mut self, client: u64, outcome: Outcome, rows: &[(u64, i64)]) {
        let answer = answer(&self.toy, rows);
        let at_ns = self.now * TICK_NS;
        self.observers[client as usize / 2].finished(Ticket(client as u32 % 2), at_ns, outcome, &answer);
    }
}

/// Rows of (key, stamp) as a store would answer them. A negative stamp stands for spoilt values.
fn answer(toy: &Toy, rows: &[(u64, i64)]) -> Answer {
    let mut answer = Answer { columns: 3, rows: rows.len() as u64, ..Answer::default() };
    for (key, stamp) in rows {
        match Version::from_stamp(*stamp) {
            Some(version) => toy.row(*key, version, &mut answer.values),
            None => {
                answer.values.push(Value::Int(*key as i64));
                answer.values.push(Value::Int(9_999));
                answer.values.push(Value::Int(-*stamp));
            }
        }
    }
    answer
}
