//! How fast the ledger writes down and judges: `cargo run --release -p plimsoll-verify --example speed`.
//!
//! 100,000 coupons, 500,000 updates and 500,000 reads by 8 clients, 5,000 queries of about 500 rows, on a store
//! that is a vector. Prints nanoseconds per operation on the worker's side, and seconds to judge everything.

#![allow(clippy::print_stdout, reason = "a program that says what it measured")]

use std::sync::Arc;
use std::time::Instant;

use plimsoll_core::{
    Answer, Op, Outcome, ParamValue, Params, StreamSpec, Ticket, Truth, Value, ValueBuf, Version, Workload,
};
use plimsoll_verify::{Judge, Ledger, ReadBack};

const RECORDS: u64 = 100_000;
const CLIENTS: u32 = 8;
const CYCLES: u64 = 125_625;

fn main() {
    let workload = coupons();
    let truth = workload.truth().expect("coupons have a truth");
    let mut ledger = Ledger::new(Arc::clone(&workload)).expect("coupons have a truth");
    let mut store = Store { versions: vec![Version::Loaded; RECORDS as usize], matching: Vec::new() };
    let mut answer = Answer::default();
    let mut clock_ns = 0;

    let mut observers = ledger.observers(0, 1, 1);
    let load = workload.stream(&StreamSpec::Load { batch: 1_000, clients: 1 }).expect("a load");
    let mut params = ValueBuf::new();
    for cycle in 0..RECORDS / 1_000 {
        params.clear();
        let Some(kind) = load.op(0, cycle, &mut params) else { break };
        clock_ns += 10_000;
        observers[0].sent(Ticket(0), clock_ns, 0, cycle, &Op::new(kind, params.values()));
        clock_ns += 10_000;
        observers[0].finished(Ticket(0), clock_ns, Outcome::Ok, &answer);
    }
    drop(observers);
    store.matching = (0..RECORDS).filter(|id| store.matches(truth, *id)).collect();

    let mix = [("update", 1_000), ("read", 1_000), ("query", 10)].map(|(kind, share)| (kind.to_owned(), share));
    let stream = workload.stream(&StreamSpec::Mix { mix: mix.into(), clients: CLIENTS }).expect("a mix");
    let mut observers = ledger.observers(1, CLIENTS as usize, 1);
    let mut times: [Vec<u32>; 6] = Default::default();
    let mut drained = 0.0;
    for cycle in 0..CYCLES {
        for client in 0..CLIENTS {
            params.clear();
            let kind = stream.op(client, cycle, &mut params).expect("an endless mix");
            let op = Op::new(kind, params.values());
            answer.clear();
            store.execute(truth, &op, Version::Written { client, cycle }, &mut answer);
            let began = Instant::now();
            observers[client as usize].sent(Ticket(0), clock_ns, client, cycle, &op);
            observers[client as usize].finished(Ticket(0), clock_ns + 10_000, Outcome::Ok, &answer);
            times[usize::from(kind)].push(began.elapsed().as_nanos() as u32);
            clock_ns += 15_000;
        }
        if cycle % 4_000 == 0 {
            let began = cpu_seconds();
            ledger.drain();
            drained += cpu_seconds() - began;
        }
    }
    drop(observers);
    for (kind, times) in workload.kinds().iter().zip(&mut times).filter(|(_, times)| !times.is_empty()) {
        times.sort_unstable();
        let quantile = |share: usize| times[times.len() * share / 100];
        let name = &kind.name;
        println!(
            "{:>7} {name}: p50 {} ns, p25 {}, p75 {}, with two clock readings",
            times.len(),
            quantile(50),
            quantile(25),
            quantile(75)
        );
    }
    println!("drained in {:.3} s", drained);

    let mut found = ReadBack::new(Arc::clone(&workload));
    answer.clear();
    answer.columns = 8;
    (0..RECORDS).for_each(|id| truth.row(id, store.versions[id as usize], &mut answer.values));
    found.add_records(&answer);
    let began = cpu_seconds();
    let judge = Judge::new(ledger.history());
    let timelines = cpu_seconds() - began;
    let answers = judge.answers();
    let judged = cpu_seconds() - began;
    let verdict = judge.ledger(&found);
    let whole = cpu_seconds() - began;
    let (answering, reading) = (judged - timelines, whole - judged);
    println!("judged in {whole:.3} s: timelines {timelines:.3}, answers {answering:.3}, records {reading:.3}");
    for one in &answers {
        println!(
            "{}: {} answers, {} rows, {} expected, right: {}",
            one.kind_name,
            one.answers,
            one.got,
            one.expected,
            one.is_right()
        );
    }
    println!("{}", verdict.sentence());
}

/// CPU time of this thread, from the first number of its schedstat, in nanoseconds.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a kernel with schedstat");
    let ns: u64 = text.split(' ').next().and_then(|word| word.parse().ok()).expect("nanoseconds on a CPU");
    ns as f64 / 1e9
}

fn coupons() -> Arc<dyn Workload> {
    let spec = plimsoll_workload::coupons::spec();
    let ints =
        [("records", RECORDS as i64), ("below", 50)].map(|(name, value)| (name.to_owned(), ParamValue::Int(value)));
    let index = ("index".to_owned(), ParamValue::Text("own".to_owned()));
    let params = Params(ints.into_iter().chain([index]).collect());
    Arc::from((spec.make)(1, &params, &[]).expect("coupons take these parameters"))
}

/// Versions of all records, and which match.
struct Store {
    versions: Vec<Version>,
    matching: Vec<u64>,
}

impl Store {
    fn matches(&self, truth: &dyn Truth, id: u64) -> bool {
        let mut row = ValueBuf::new();
        truth.row(id, self.versions[id as usize], &mut row);
        matches!(row.values().get(2), Value::Int(redeemed) if redeemed < 50)
    }

    fn execute(&mut self, truth: &dyn Truth, op: &Op<'_>, version: Version, answer: &mut Answer) {
        answer.columns = 8;
        let id = truth.record_id(op.params.get(0));
        match (id, op.params.len()) {
            (Some(id), 1) => truth.row(id, self.versions[id as usize], &mut answer.values),
            (Some(id), _) => {
                self.versions[id as usize] = version;
                let matches = matches!(op.params.get(1), Value::Int(redeemed) if redeemed < 50);
                match self.matching.iter().position(|matching| *matching == id) {
                    Some(place) if !matches => {
                        self.matching.swap_remove(place);
                    }
                    None if matches => self.matching.push(id),
                    _ => {}
                }
            }
            (None, _) => {
                self.matching.iter().for_each(|id| truth.row(*id, self.versions[*id as usize], &mut answer.values))
            }
        }
        answer.rows = (answer.values.len() / 8) as u64;
    }
}
