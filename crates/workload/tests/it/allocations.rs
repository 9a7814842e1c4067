//! Once its buffers have grown, making an operation allocates nothing.

#![allow(clippy::unwrap_used, reason = "clippy's exception for tests does not cover their own functions")]

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;

use plimsoll_core::{Answer, Outcome, ParamSpec, ParamType, ParamValue, Params, Step, StreamSpec, ValueBuf, Workload};

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
