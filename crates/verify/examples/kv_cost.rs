//! What the ledger of `kv` costs: `cargo run --release -p plimsoll-verify --example kv_cost`.
//!
//! Reads and writes of 1,000 bytes go through an observer as a worker calls it, with the answer that an honest store
//! gives; then everything is judged. One line each: nanoseconds an operation, the least of some rounds and their median.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example says what it has measured")]

use std::sync::Arc;
use std::time::Instant;

use plimsoll_core::{
    Answer, Op, Outcome, ParamType, ParamValue, Params, StreamSpec, Ticket, Value, ValueBuf, Version, Workload,
};
use plimsoll_verify::{Judge, Ledger};

const OPS: u64 = 1_000_000;
const ROUNDS: usize = 7;

fn workload(records: i64) -> Arc<dyn Workload> {
    let spec = plimsoll_workload::all().into_iter().find(|spec| spec.name == "kv").unwrap();
    let mut params = Params::default();
    for param in spec.params {
        let value = match param.param_type {
            ParamType::Int { .. } => ParamValue::Int(param.default.parse().unwrap()),
            _ => ParamValue::Text(param.default.to_owned()),
        };
        params.0.insert(param.name.to_owned(), value);
    }
    params.0.insert("records".to_owned(), ParamValue::Int(records));
    Arc::from((spec.make)(1, &params, &[]).unwrap())
}

/// One round of `kind`: nanoseconds an operation without and with the observer, and of judging it.
fn round(workload: &Arc<dyn Workload>, kind: &str) -> [f64; 3] {
    let mix = vec![(kind.to_owned(), 1)];
    let stream = workload.stream(&StreamSpec::Mix { mix, clients: 1 }).unwrap();
    let mut ledger = Ledger::new(Arc::clone(workload)).unwrap();
    let truth = workload.truth().unwrap();
    let mut value = ValueBuf::new();
    let mut answer = Answer { rows: 1, columns: 1, ..Answer::default() };
    let mut params = ValueBuf::new();
    let mut taken = [0.0; 3];
    for (place, observed) in [false, true].into_iter().enumerate() {
        let mut observers = ledger.observers(place as u16, 1, 1);
        let started = Instant::now();
        for cycle in 0..OPS {
            params.clear();
            let op = stream.op(0, cycle, &mut params).unwrap();
            if kind == "read" {
                // What a session does either way: it hands over the value.
                let id = truth.record_id(params.values().get(0)).unwrap();
                value.clear();
                truth.row(id, Version::Loaded, &mut value);
                let Value::Bytes(bytes) = value.values().get(1) else { continue };
                answer.values.clear();
                answer.values.push(Value::Bytes(bytes));
            }
            if observed {
                observers[0].sent(Ticket(0), cycle * 100, 0, cycle, &Op::new(op, params.values()));
                observers[0].finished(Ticket(0), cycle * 100 + 50, Outcome::Ok, &answer);
                if cycle % 8_192 == 0 {
                    ledger.drain();
                }
            }
        }
        taken[place] = started.elapsed().as_nanos() as f64 / OPS as f64;
    }
    let history = ledger.history();
    assert_eq!(history.gap(), None);
    let started = Instant::now();
    std::hint::black_box(Judge::new(history).answers());
    taken[2] = started.elapsed().as_nanos() as f64 / OPS as f64;
    taken
}

fn main() {
    let workload = workload(100_000);
    for kind in ["read", "update"] {
        let mut rounds: Vec<[f64; 3]> = (0..ROUNDS).map(|_| round(&workload, kind)).collect();
        let mut column = |place: usize| {
            rounds.sort_by(|a, b| a[place].total_cmp(&b[place]));
            (rounds[0][place], rounds[ROUNDS / 2][place])
        };
        let (plain, observed, judged) = (column(0), column(1), column(2));
        println!(
            "{kind}: without {:.0} ns (median {:.0}), with {:.0} ns (median {:.0}), judging {:.0} ns (median {:.0}); n = {ROUNDS} of {OPS}",
            plain.0, plain.1, observed.0, observed.1, judged.0, judged.1
        );
    }
}
