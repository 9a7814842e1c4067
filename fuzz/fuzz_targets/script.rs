//! Tests that any text is compiled as a script: to operations, or to a mistake at a place within the text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_core::{Answer, Outcome, ParamValue, Params, Script, Step, StreamSpec, ValueBuf};

fuzz_target!(|text: &str| {
    let spec = plimsoll_workload::script::spec();
    let params = [
        ("scale", ParamValue::Int(1)),
        ("max_tries", ParamValue::Int(2)),
        ("define", ParamValue::Text("n=1".into())),
        ("setup", ParamValue::Text(text.into())),
        ("substitute", ParamValue::Text("parameters".into())),
    ];
    let params = Params(params.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
    let script = Script { name: "fuzz".into(), weight: 1, text: text.into(), ..Script::default() };
    // The setup is the same text: wrong there, it has no place of its own.
    let _ = (spec.make)(1, &params, &[script.clone()]);
    let params = Params(params.0.into_iter().filter(|(name, _)| name != "setup").collect());
    let workload = match (spec.make)(1, &params, &[script]) {
        Ok(workload) => workload,
        Err(error) => {
            let (position, range) = error.place.expect("a mistake in a script has a place");
            assert!(position == 0 && text.get(range).is_some() && !error.what.is_empty());
            return;
        }
    };
    let stream = workload.stream(&StreamSpec::One { kind: "fuzz".into(), clients: 1 }).expect("a stream");
    let mut params = ValueBuf::new();
    let kind = stream.op(0, 0, &mut params).expect("an operation");
    let Some(mut steps) = stream.steps(0) else { return };
    steps.begin(0, kind, params.values());
    let (mut sent, mut answer) = (0, Answer::default());
    loop {
        params.clear();
        match steps.next(&mut params) {
            Step::Send { more, .. } => {
                sent += 1;
                if !more {
                    for turn in 0..std::mem::take(&mut sent) {
                        answer.clear();
                        let outcome = if turn % 3 == 2 { answer.fail(Outcome::Rejected, "40001", "") } else { Outcome::Ok };
                        steps.answered(outcome, &answer);
                    }
                }
            }
            Step::Gather => panic!("a pipeline ends with a statement"),
            Step::Sleep(_) | Step::Sync => {}
            Step::End { .. } => return,
        }
    }
});
