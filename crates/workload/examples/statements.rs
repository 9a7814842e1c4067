//! What making an operation of several statements costs: processor time of this thread around operations that are
//! answered at once by nothing.
//!
//! `cargo run --release -p plimsoll-workload --example statements`

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program for a terminal")]

use std::hint::black_box;

use plimsoll_core::{
    Answer, Call, Outcome, ParamSpec, ParamType, ParamValue, Params, Script, Step, StreamSpec, ValueBuf, Workload,
};

const OPS: u64 = 200_000;
const RUNS: u64 = 11;

/// Nanoseconds that this thread has been on a processor.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// The workload with its defaults, but for these texts.
fn made(name: &str, script: Option<&str>, changes: &[(&str, &str)]) -> Box<dyn Workload> {
    let spec = plimsoll_workload::all().into_iter().find(|spec| spec.name == name).unwrap();
    let value = |spec: &ParamSpec| match spec.param_type {
        ParamType::Int { .. } => ParamValue::Int(spec.default.parse().unwrap()),
        ParamType::Bool => ParamValue::Bool(spec.default == "true"),
        _ => ParamValue::Text(spec.default.to_owned()),
    };
    let mut params = Params(spec.params.iter().map(|spec| (spec.name.to_owned(), value(spec))).collect());
    for (name, text) in changes {
        params.0.insert((*name).to_owned(), ParamValue::Text((*text).to_owned()));
    }
    let script = script.map(|text| Script { name: "own".into(), weight: 1, text: text.into(), file: None });
    (spec.make)(1, &params, script.as_slice()).unwrap()
}

fn measure(label: &str, workload: &dyn Workload, kind: &str) {
    let stream = workload.stream(&StreamSpec::One { kind: kind.into(), clients: 1 }).unwrap();
    let mut steps = stream.steps(0);
    let (mut params, mut step_params, answer) = (ValueBuf::new(), ValueBuf::new(), Answer::default());
    let mut statements = 0;
    let mut all: Vec<u64> = Vec::new();
    for run in 0..RUNS {
        let start = cpu_ns();
        for cycle in run * OPS..(run + 1) * OPS {
            params.clear();
            let kind = stream.op(0, cycle, &mut params).unwrap();
            black_box(&params);
            let Some(steps) = steps.as_mut().filter(|_| workload.kinds()[usize::from(kind)].call == Call::Steps) else {
                statements += 1;
                continue;
            };
            steps.begin(cycle, kind, params.values());
            loop {
                step_params.clear();
                let Step::Send { .. } = steps.next(&mut step_params) else { break };
                statements += 1;
                black_box(&step_params);
                steps.answered(Outcome::Ok, &answer);
            }
        }
        all.push((cpu_ns() - start) / OPS);
    }
    all.sort_unstable();
    let (median, least, most) = (all[all.len() / 2], all[0], all[all.len() - 1]);
    let statements = statements / (OPS * RUNS);
    println!("{label}: {statements} statements, median {median} ns (n = {RUNS}, {least} to {most})");
}

fn main() {
    let stepped = "\\set a 1 / random(1, 3)\n\\set aid random(1, 100000)\nSELECT b FROM t WHERE aid = :aid";
    let transaction = "\\set aid random(1, 100000)\n\\set delta random(-5000, 5000)\nBEGIN;\n\
                       UPDATE a SET b = b + :delta WHERE aid = :aid;\nSELECT b FROM a WHERE aid = :aid;\n\
                       UPDATE t SET tb = tb + :delta WHERE tid = :aid;\nUPDATE b SET bb = bb + :delta WHERE bid = :aid;\n\
                       INSERT INTO h VALUES (:aid, :delta);\nEND;";
    measure("select", &*made("select", None, &[]), "select");
    measure("tpcb's select, a plain script", &*made("tpcb", None, &[]), "select");
    measure("oltp's point_select", &*made("oltp", None, &[]), "point_select");
    measure("a script of steps", &*made("script", Some(stepped), &[]), "own");
    measure("tpcb", &*made("tpcb", None, &[]), "tpcb");
    measure("a script as text", &*made("script", Some(transaction), &[("substitute", "text")]), "own");
    measure("oltp's read_write", &*made("oltp", None, &[]), "read_write");
}
