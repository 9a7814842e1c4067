//! Once its buffers have grown, making an operation allocates nothing.

#![allow(clippy::unwrap_used, reason = "clippy's exception for tests does not cover their own functions")]

use plimsoll_core::{
    Answer, Call, Outcome, ParamSpec, ParamType, ParamValue, Params, Script, Step, StreamSpec, Value, ValueBuf,
    Workload,
};

#[path = "../../../testkit/src/allocations.rs"]
#[allow(dead_code, reason = "these tests count allocations, and no bytes")]
mod counting;
use counting::{Counting, count};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The workload with its defaults, but for these.
fn made(name: &str, changes: &[(&str, &str)], script: Option<&str>) -> Box<dyn Workload> {
    let spec = plimsoll_workload::all().into_iter().find(|spec| spec.name == name).unwrap();
    let value = |spec: &ParamSpec| {
        let text = changes.iter().find(|(name, _)| *name == spec.name).map_or(spec.default, |(_, value)| value);
        match spec.param_type {
            ParamType::Int { .. } => ParamValue::Int(text.parse().unwrap()),
            ParamType::Bool => ParamValue::Bool(text == "true"),
            _ => ParamValue::Text(text.to_owned()),
        }
    };
    let params = Params(spec.params.iter().map(|spec| (spec.name.to_owned(), value(spec))).collect());
    let script = script.map(|text| Script { name: "own".into(), weight: 1, text: text.into(), ..Script::default() });
    (spec.make)(1, &params, script.as_slice()).unwrap()
}

/// Runs operations of the workload's first kinds and counts what is allocated, after some to warm up. One statement in
/// eleven is refused in a way that is worth another try.
fn allocations(workload: &dyn Workload) -> u64 {
    let own = workload.kinds().iter().filter(|kind| kind.step_of.is_none() && !kind.name.ends_with(" retried"));
    let mix = own.map(|kind| (kind.name.clone(), 1)).collect();
    let stream = workload.stream(&StreamSpec::Mix { mix, clients: 2 }).unwrap();
    let mut steps = stream.steps(0);
    let (mut params, mut step_params) = (ValueBuf::new(), ValueBuf::new());
    let mut row = Answer { columns: 1, rows: 1, ..Answer::default() };
    row.values.push(Value::Text("a text of some length"));
    let (mut refusal, mut sent) = (Answer::default(), 0_u32);
    refusal.fail(Outcome::Rejected, "40001", "give way");
    refusal.gave_way = true;
    let mut run = |cycles: std::ops::Range<u64>| {
        for cycle in cycles {
            params.clear();
            let kind = stream.op(0, cycle, &mut params).unwrap();
            let Some(steps) = steps.as_mut().filter(|_| workload.kinds()[usize::from(kind)].call == Call::Steps) else {
                continue;
            };
            steps.begin(cycle, kind, params.values());
            let mut unanswered = 0;
            loop {
                step_params.clear();
                match steps.next(&mut step_params) {
                    Step::Send { more, .. } => {
                        unanswered += 1;
                        while unanswered > 0 && !more {
                            unanswered -= 1;
                            sent += 1;
                            match sent % 11 {
                                0 => steps.answered(Outcome::Rejected, &refusal),
                                _ => steps.answered(Outcome::Ok, &row),
                            }
                        }
                    }
                    Step::End { .. } => break,
                    _ => {}
                }
            }
        }
    };
    run(0..200);
    let before = count();
    run(200..3_000);
    count() - before
}

#[test]
fn an_operation_of_tpcb_of_oltp_and_of_inserts_allocates_nothing() {
    assert_eq!(allocations(&*made("inserts", &[("statements", "3")], None)), 0);
    for tries in ["1", "3"] {
        assert_eq!(allocations(&*made("tpcb", &[("max_tries", tries)], None)), 0);
        assert_eq!(allocations(&*made("oltp", &[("max_tries", tries), ("tables", tries)], None)), 0);
    }
}

#[test]
fn an_operation_of_a_script_allocates_nothing() {
    let script = "\\set x case when random(1, 2) = 1 then greatest(1, hash(:client_id), 3.5) else permute(7, 100) end\n\
                  BEGIN;\nSELECT a AS word FROM t WHERE b = :x \\gset\n\\if :x > 50\nSET y.:word = ':x';\n\\endif\n\
                  \\startpipeline\nUPDATE t SET a = :word, b = :x;\nSELECT :word;\n\\endpipeline\nEND;";
    for tries in ["1", "3"] {
        assert_eq!(allocations(&*made("script", &[("max_tries", tries)], Some(script))), 0);
    }
    let plain = "\\set x random_zipfian(1, 1000000, 1.2)\nSELECT a FROM t WHERE b = :x";
    assert_eq!(allocations(&*made("script", &[], Some(plain))), 0);
    let commands = "\\set x random(1, 9)\nGET k::x\n\\gset y\nMULTI\nHSET h :x :y\nEXEC";
    assert_eq!(allocations(&*made("commands", &[], Some(commands))), 0);
}

#[test]
fn an_operation_of_kv_allocates_nothing() {
    for distribution in ["scrambled", "zipfian", "latest", "uniform", "hotspot"] {
        assert_eq!(allocations(&*made("kv", &[("distribution", distribution)], None)), 0, "{distribution}");
    }
}
