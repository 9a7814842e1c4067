//! Cost of a traced call by parts: the kernel's, measured with programs that do nothing, and the programs' own.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on may panic")]
#![allow(clippy::print_stdout, reason = "it prints what it measures")]

use std::any::Any;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::*;
use crate::assembler::{Assembler, Call as Function, FP, Width};
use crate::programs::{TID, lookup};
use crate::sys::MapKind;
use crate::traced::Way;

const ROUNDS: usize = 15;
/// Calls of which the time is taken together. The fastest block counts: a machine that others use makes the others slower.
const BLOCK: u32 = 1_000;
const BLOCKS: usize = 100;

/// Runs something at the beginning and the end of fdatasync, until it is dropped.
type Hooks = Box<dyn Any>;

/// The two tracepoints of fdatasync.
fn points(tracefs: &Tracefs) -> [Tracepoint; 2] {
    ["enter", "exit"].map(|end| tracefs.needed(&format!("syscalls/sys_{end}_fdatasync")).unwrap())
}

fn programs(write: impl Fn(&mut Assembler)) -> Hooks {
    let mut asm = Assembler::default();
    write(&mut asm);
    asm.end();
    let (code, mut attached) = (asm.assemble(), Attached::default());
    points(&Tracefs::open().unwrap()).iter().for_each(|point| attached.run(&code, point).unwrap());
    Box::new(attached)
}

/// Keeps the running thread's number, and looks for it in an empty map.
fn look_for_thread() -> Hooks {
    let map = Map::new(MapKind::Hash, 4, ENTRY_BYTES as u32, 8_192).unwrap();
    let hooks = programs(|asm| {
        asm.call(Function::PidTgid);
        asm.store(Width::Double, FP, TID as i16, crate::assembler::R0);
        lookup(asm, &map, TID);
    });
    Box::new((hooks, map))
}

fn raw() -> Hooks {
    let mut asm = Assembler::default();
    asm.end();
    let code = asm.assemble();
    Box::new([c"sys_enter", c"sys_exit"].map(|name| sys::run_raw(&code, name).unwrap()))
}

fn ours(pid: u32) -> Hooks {
    Box::new(
        Bpf::start(&TraceSpec { pids: Some(vec![pid]), threshold: Duration::from_secs(10), way: Some(Way::Bpf) })
            .unwrap(),
    )
}

/// Processor time of one call, of the fastest block.
fn ns_each(call: impl Fn()) -> f64 {
    let cpu_ns = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
    };
    let block = |_| {
        let start_ns = cpu_ns();
        (0..BLOCK).for_each(|_| call());
        (cpu_ns() - start_ns) / f64::from(BLOCK)
    };
    (0..BLOCKS).map(block).fold(f64::INFINITY, f64::min)
}

#[test]
#[ignore = "a measurement: needs a quiet machine, and a minute (cargo test -p plimsoll-trace cost_tests -- --ignored --nocapture)"]
fn parts_of_the_cost_of_a_traced_call() {
    let events = || -> Hooks { Box::new(points(&Tracefs::open().unwrap()).map(|point| sys::event(point.id).unwrap())) };
    let cases: [(&str, &dyn Fn() -> Hooks); 8] = [
        ("nothing", &|| Box::new(())),
        ("events without programs", &events),
        ("empty programs", &|| programs(|_| {})),
        ("programs that read the clock", &|| programs(|asm| asm.call(Function::KtimeNs))),
        ("programs that look for the thread", &look_for_thread),
        ("empty raw programs", &raw),
        ("ours, another process", &|| ours(2)),
        ("ours, this process", &|| ours(std::process::id())),
    ];
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    let mut figures = cases.map(|_| [Vec::new(), Vec::new()]);
    for round in 0..ROUNDS {
        // Each begins a round in turn.
        for at in (0..cases.len()).map(|place| (place + round) % cases.len()) {
            let hooks = cases[at].1();
            figures[at][0].push(ns_each(|| {
                let _ = rustix::fs::fdatasync(&file);
            }));
            figures[at][1].push(ns_each(|| {
                let _ = rustix::process::getppid();
            }));
            drop(hooks);
        }
    }
    println!("n = {ROUNDS} of {BLOCKS} blocks of {BLOCK}; median (least … most), ns");
    println!("| at fdatasync | fdatasync | getppid |\n|---|---|---|");
    for ((name, _), figures) in cases.iter().zip(&mut figures) {
        let [syncs, others] = figures.each_mut().map(|all| {
            all.sort_by(f64::total_cmp);
            format!("{:.0} ({:.0} … {:.0})", all[ROUNDS / 2], all[0], all[ROUNDS - 1])
        });
        println!("| {name} | {syncs} | {others} |");
    }
}
