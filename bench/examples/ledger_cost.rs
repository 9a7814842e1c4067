//! Cost of the ledger: `cargo run --release --manifest-path bench/Cargo.toml --example ledger_cost`.
//!
//! Operations of one kind go through an observer as a worker with pipelines of 16 calls it, with the answer that an honest
//! store gives. One line each: nanoseconds an operation on the worker's side and on the ledger's, and the processor time of both
//! on threads of their own; the least of some rounds and their median. With a number, only the case at this place runs, once:
//! for a profiler.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example says what it has measured")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_core::{
    Answer, Observer, Op, Outcome, ParamType, ParamValue, Params, Stream, StreamSpec, Ticket, Value, ValueBuf, Version,
    Workload,
};
use plimsoll_verify::Ledger;

const ROUNDS: usize = 7;
const RECORDS: u64 = 100_000;
/// Operations that are sent before the first of them is answered.
const DEPTH: usize = 16;

/// Operations of one kind of a workload.
#[derive(Clone, Copy)]
struct Case {
    workload: &'static str,
    kind: &'static str,
    ops: u64,
    /// Operations that are made beforehand, and whose time is taken together.
    batch: usize,
    /// Operations between two drains; of a pipelined Redis come so many in 20 ms.
    drained: u64,
}

const fn case(workload: &'static str, kind: &'static str, ops: u64, batch: usize, drained: u64) -> Case {
    Case { workload, kind, ops, batch, drained }
}

const CASES: [Case; 5] = [
    case("kv", "read", 2_000_000, 512, 20_000),
    case("kv", "update", 2_000_000, 512, 20_000),
    case("coupons", "read", 200_000, 512, 20_000),
    case("coupons", "update", 200_000, 512, 20_000),
    case("coupons", "query", 2_000, 1, 100),
];

fn workload(name: &str) -> Arc<dyn Workload> {
    let spec = plimsoll_workload::all().into_iter().find(|spec| spec.name == name).unwrap();
    let mut params = Params::default();
    for param in spec.params {
        let value = match param.param_type {
            ParamType::Int { .. } => ParamValue::Int(param.default.parse().unwrap()),
            _ => ParamValue::Text(param.default.to_owned()),
        };
        params.0.insert(param.name.to_owned(), value);
    }
    params.0.insert("records".to_owned(), ParamValue::Int(RECORDS as i64));
    if name == "kv" {
        params.0.insert("field_count".to_owned(), ParamValue::Int(1));
    }
    Arc::from((spec.make)(1, &params, &[]).unwrap())
}

/// Writes the answer of an honest store to `op` while it holds only the load.
fn answer_to(workload: &dyn Workload, name: &str, op: &Op<'_>, answer: &mut Answer) {
    let truth = workload.truth().unwrap();
    let mut row = ValueBuf::new();
    match name {
        "read" => {
            answer.clear();
            truth.row(truth.record_id(op.params.get(0)).unwrap(), Version::Loaded, &mut row);
            // Of keys and values the value alone.
            let first = usize::from(truth.sees_contents());
            answer.values.extend(row.values().slice(first..row.len()));
            (answer.rows, answer.columns) = (1, row.len() - first);
        }
        "query" if answer.rows == 0 => {
            let (Value::Null, Value::Int(below)) = (op.params.get(0), op.params.get(1)) else { return };
            for id in 0..RECORDS {
                row.clear();
                truth.row(id, Version::Loaded, &mut row);
                if matches!(row.values().get(2), Value::Int(value) if value < below) {
                    answer.values.extend(row.values());
                    (answer.rows, answer.columns) = (answer.rows + 1, row.len());
                }
            }
        }
        _ => {}
    }
}

/// An operation with its answer.
#[derive(Default)]
struct Made {
    kind: u16,
    params: ValueBuf,
    answer: Answer,
}

/// Operations of a phase by one worker: made in batches, and observed.
struct Phase<'a> {
    workload: &'a dyn Workload,
    stream: Box<dyn Stream>,
    observer: Option<Box<dyn Observer>>,
    kind: &'static str,
    made: Vec<Made>,
    first: u64,
    next: u64,
    now_ns: u64,
}

impl<'a> Phase<'a> {
    /// The phase with this number of a case; without an observer, operations are only made.
    fn new(workload: &'a dyn Workload, case: Case, phase: u64, observer: Option<Box<dyn Observer>>) -> Self {
        let spec = match phase {
            0 => StreamSpec::Load { batch: 100, clients: 1 },
            _ => StreamSpec::Mix { mix: vec![(case.kind.to_owned(), 1)], clients: 1 },
        };
        let made = (0..case.batch).map(|_| Made::default()).collect();
        let stream = workload.stream(&spec).unwrap();
        Self { workload, stream, observer, kind: case.kind, made, first: phase << 32, next: 0, now_ns: phase << 40 }
    }

    /// Makes a batch; returns its length.
    fn make(&mut self) -> usize {
        for (place, one) in self.made.iter_mut().enumerate() {
            one.params.clear();
            let Some(kind) = self.stream.op(0, self.first + self.next + place as u64, &mut one.params) else {
                return place;
            };
            one.kind = kind;
            answer_to(self.workload, self.kind, &Op::new(kind, one.params.values()), &mut one.answer);
        }
        self.made.len()
    }

    /// Observes the first `count` of the batch.
    fn observe(&mut self, count: usize) {
        let cycle = self.first + self.next;
        self.next += count as u64;
        let Some(observer) = &mut self.observer else { return };
        for (group, made) in self.made[..count].chunks(DEPTH).enumerate() {
            for (place, one) in (group * DEPTH..).zip(made) {
                let op = Op::new(one.kind, one.params.values());
                observer.sent(Ticket(place as u32), self.now_ns, 0, cycle + place as u64, &op);
            }
            self.now_ns += 5_000;
            for (place, one) in (group * DEPTH..).zip(made) {
                observer.finished(Ticket(place as u32), self.now_ns, Outcome::Ok, &one.answer);
            }
            self.now_ns += 100;
        }
    }
}

/// A ledger of a loaded store.
fn loaded(workload: &Arc<dyn Workload>, case: Case) -> Ledger {
    let mut ledger = Ledger::new(Arc::clone(workload)).unwrap();
    let observer = ledger.observers(0, 1, case.batch).pop();
    let mut load = Phase::new(&**workload, case, 0, observer);
    loop {
        let count = load.make();
        if count == 0 {
            break;
        }
        load.observe(count);
        ledger.drain();
    }
    drop(load);
    ledger.drain();
    ledger
}

fn must_be_right(ledger: &Ledger) {
    assert_eq!((ledger.gap(), ledger.skipped()), (None, 0));
    assert!(ledger.answers().iter().all(plimsoll_verify::AnswerVerdict::is_right), "{:?}", ledger.answers());
}

/// Runs the operations of a case on one thread; returns nanoseconds an operation of the worker and of the ledger.
fn in_turn(workload: &Arc<dyn Workload>, case: Case) -> [f64; 2] {
    let mut ledger = loaded(workload, case);
    let mut phase = Phase::new(&**workload, case, 1, ledger.observers(1, 1, case.batch).pop());
    let mut taken = [0.0; 2];
    let drained = |ledger: &mut Ledger| {
        let started = Instant::now();
        ledger.drain();
        started.elapsed().as_nanos() as f64
    };
    while phase.next < case.ops {
        let count = phase.make();
        let before = phase.next;
        let started = Instant::now();
        phase.observe(count);
        taken[0] += started.elapsed().as_nanos() as f64;
        if before / case.drained != phase.next / case.drained {
            taken[1] += drained(&mut ledger);
        }
    }
    let ops = phase.next as f64;
    drop(phase);
    taken[1] += drained(&mut ledger);
    must_be_right(&ledger);
    taken.map(|taken| taken / ops)
}

/// Runs the operations of a case while another thread drains every 20 ms, as in a run; returns nanoseconds of processor time
/// of both an operation, without an observer those of making it.
fn at_once(workload: &Arc<dyn Workload>, case: Case, is_observed: bool) -> f64 {
    let mut ledger = loaded(workload, case);
    let observer = ledger.observers(1, 1, case.batch).pop().filter(|_| is_observed);
    let mut phase = Phase::new(&**workload, case, 1, observer);
    let (is_over, ops) = (AtomicBool::new(false), case.ops as f64);
    let started_ns = cpu_ns();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
                ledger.drain();
            }
        });
        while phase.next < case.ops {
            let count = phase.make();
            phase.observe(count);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    drop(phase);
    ledger.drain();
    let taken_ns = cpu_ns() - started_ns;
    must_be_right(&ledger);
    taken_ns / ops
}

fn cpu_ns() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

fn main() {
    let only = std::env::args().nth(1).map(|place| place.parse::<usize>().unwrap());
    let rounds = if only.is_some() { 1 } else { ROUNDS };
    let cases = CASES.into_iter().enumerate().filter(|(place, _)| only.is_none_or(|only| only == *place));
    for (_, case) in cases {
        let workload = workload(case.workload);
        let taken: Vec<[f64; 3]> = (0..rounds)
            .map(|_| {
                let [worker, ledger] = in_turn(&workload, case);
                let without = at_once(&workload, case, false);
                [worker, ledger, at_once(&workload, case, true) - without]
            })
            .collect();
        let column = |place: usize| {
            let mut column: Vec<f64> = taken.iter().map(|taken| taken[place]).collect();
            column.sort_by(f64::total_cmp);
            format!("{:.1} ns (median {:.1})", column[0], column[rounds / 2])
        };
        let Case { workload, kind, ops, .. } = case;
        let columns = [0, 1, 2].map(column);
        println!(
            "{workload} {kind}: worker {}, ledger {}, both at once {}; n = {rounds} of {ops}",
            columns[0], columns[1], columns[2]
        );
    }
}
