//! Cost of the ledger: `cargo run --release --manifest-path bench/Cargo.toml --example ledger_cost`.
//!
//! Operations of one kind go through an observer as a worker calls it, with the answer that an honest store gives. One line
//! each: nanoseconds an operation on the worker's side and on the ledger's, the least of some rounds and their median.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example says what it has measured")]

use std::sync::Arc;
use std::time::Instant;

use plimsoll_core::{
    Answer, Op, Outcome, ParamType, ParamValue, Params, StreamSpec, Ticket, Value, ValueBuf, Version, Workload,
};
use plimsoll_verify::Ledger;

const ROUNDS: usize = 7;
const RECORDS: u64 = 100_000;

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

/// Runs `ops` operations of `kind`; returns nanoseconds per operation of the worker and of the ledger.
fn round(workload: &Arc<dyn Workload>, kind: &str, ops: u64) -> [f64; 2] {
    let mut ledger = Ledger::new(Arc::clone(workload)).unwrap();
    let load = StreamSpec::Load { batch: 100, clients: 1 };
    let mix = StreamSpec::Mix { mix: vec![(kind.to_owned(), 1)], clients: 1 };
    let (mut params, mut answer, mut now_ns) = (ValueBuf::new(), Answer::default(), 0);
    let mut taken = [0.0; 2];
    for (phase, (spec, ops)) in [(load, u64::MAX), (mix, ops)].into_iter().enumerate() {
        let stream = workload.stream(&spec).unwrap();
        let mut observers = ledger.observers(phase as u16, 1, 1);
        taken = [0.0; 2];
        let first_cycle = (phase as u64) << 32;
        for cycle in 0..ops {
            params.clear();
            let Some(number) = stream.op(0, first_cycle + cycle, &mut params) else { break };
            let op = Op::new(number, params.values());
            answer_to(&**workload, kind, &op, &mut answer);
            let started = Instant::now();
            observers[0].sent(Ticket(0), now_ns, 0, first_cycle + cycle, &op);
            observers[0].finished(Ticket(0), now_ns + 5_000, Outcome::Ok, &answer);
            taken[0] += started.elapsed().as_nanos() as f64;
            now_ns += 10_000;
            if cycle % 100 == 0 {
                let started = Instant::now();
                ledger.drain();
                taken[1] += started.elapsed().as_nanos() as f64;
            }
        }
        drop(observers);
        ledger.drain();
        taken = taken.map(|taken| taken / ops as f64);
    }
    assert_eq!(ledger.gap(), None);
    assert!(ledger.answers().iter().all(plimsoll_verify::AnswerVerdict::is_right), "{:?}", ledger.answers());
    taken
}

fn main() {
    let cases = [
        ("kv", "read", 500_000),
        ("kv", "update", 500_000),
        ("coupons", "read", 200_000),
        ("coupons", "update", 200_000),
        ("coupons", "query", 2_000),
    ];
    for (name, kind, ops) in cases {
        let workload = workload(name);
        let rounds: Vec<[f64; 2]> = (0..ROUNDS).map(|_| round(&workload, kind, ops)).collect();
        let column = |place: usize| {
            let mut column: Vec<f64> = rounds.iter().map(|round| round[place]).collect();
            column.sort_by(f64::total_cmp);
            format!("{:.0} ns (median {:.0})", column[0], column[ROUNDS / 2])
        };
        println!("{name} {kind}: worker {}, ledger {}; n = {ROUNDS} of {ops}", column(0), column(1));
    }
}
