//! Once its buffers have grown, making an operation allocates nothing.

#![allow(clippy::unwrap_used, reason = "clippy's exception for tests does not cover their own functions")]

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;

use plimsoll_core::{
    Answer, Call, Outcome, ParamSpec, ParamType, ParamValue, Params, Script, Step, StreamSpec, Value, ValueBuf,
    Workload,
};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is handed on to the system's allocator as it is; the counter is a thread's own and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(memory) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, memory: Memory) {
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(pointer, memory) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn kv(distribution: &str) -> Box<dyn Workload> {
    let spec = plimsoll_workload::kv::spec();
    let value = |spec: &ParamSpec| match spec.param_type {
        ParamType::Int { .. } => ParamValue::Int(spec.default.parse().unwrap()),
        _ => ParamValue::Text(distribution.to_owned()),
    };
    let params = Params(spec.params.iter().map(|spec| (spec.name.to_owned(), value(spec))).collect());
    (spec.make)(1, &params, &[]).unwrap()
}

/// The workload with its defaults, its Text and OneOf parameters included, and these integers.
fn made(name: &str, changes: &[(&str, i64)], script: Option<&str>) -> Box<dyn Workload> {
    let spec = plimsoll_workload::all().into_iter().find(|spec| spec.name == name).unwrap();
    let value = |spec: &ParamSpec| match spec.param_type {
        ParamType::Int { .. } => ParamValue::Int(spec.default.parse().unwrap()),
        ParamType::Bool => ParamValue::Bool(spec.default == "true"),
        _ => ParamValue::Text(spec.default.to_owned()),
    };
    let mut params = Params(spec.params.iter().map(|spec| (spec.name.to_owned(), value(spec))).collect());
    for (name, value) in changes {
        params.0.insert((*name).to_owned(), ParamValue::Int(*value));
    }
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
    let before = COUNT.get();
    run(200..3_000);
    COUNT.get() - before
}

#[test]
fn an_operation_of_tpcb_of_oltp_and_of_inserts_allocates_nothing() {
    assert_eq!(allocations(&*made("inserts", &[("statements", 3)], None)), 0);
    for tries in [1, 3] {
        assert_eq!(allocations(&*made("tpcb", &[("max_tries", tries)], None)), 0);
        assert_eq!(allocations(&*made("oltp", &[("max_tries", tries), ("tables", tries)], None)), 0);
    }
}

#[test]
fn an_operation_of_a_script_allocates_nothing() {
    let script = "\\set x case when random(1, 2) = 1 then greatest(1, hash(:client_id), 3.5) else permute(7, 100) end\n\
                  BEGIN;\nSELECT a AS word FROM t WHERE b = :x \\gset\n\\if :x > 50\nSET y.:word = ':x';\n\\endif\n\
                  \\startpipeline\nUPDATE t SET a = :word, b = :x;\nSELECT :word;\n\\endpipeline\nEND;";
    for tries in [1, 3] {
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
        let workload = kv(distribution);
        let mix = ["read", "update", "insert", "scan", "read_modify_write"].map(|kind| (kind.to_owned(), 1)).into();
        let stream = workload.stream(&StreamSpec::Mix { mix, clients: 2 }).unwrap();
        let mut steps = stream.steps(0).unwrap();
        let (mut params, mut step_params, answer) = (ValueBuf::new(), ValueBuf::new(), Answer::default());
        let mut run = |cycles: std::ops::Range<u64>| {
            for cycle in cycles {
                params.clear();
                let kind = stream.op(0, cycle, &mut params).unwrap();
                if workload.kinds()[usize::from(kind)].call != plimsoll_core::Call::Steps {
                    continue;
                }
                steps.begin(cycle, kind, params.values());
                loop {
                    step_params.clear();
                    let Step::Send { .. } = steps.next(&mut step_params) else { break };
                    steps.answered(Outcome::Ok, &answer);
                }
            }
        };
        run(0..50);
        let before = COUNT.get();
        run(50..5_000);
        assert_eq!(COUNT.get() - before, 0, "{distribution}");
    }
}
