//! Samplers: figures of the host, of the generator and of the servers, read once a slice.
//!
//! Everything comes from `/proc` and `/sys`, mostly read with files that stay open and buffers that are kept, on
//! separate threads ([`groups`]), never on a worker's. A sampler keeps no history and judges nothing; what a host does
//! not have is said once, by [`open`]. Around faults some are also read every 50 ms ([`Sampler::fine`]).
//!
//! | file | what |
//! |---|---|
//! | `cpu` | user, system, waiting for I/O, stolen, idle: all cores together and each |
//! | `tasks` | tasks that run, that wait for a device; load; context switches |
//! | `memory` | used, available, page cache, dirty, being written back |
//! | `disk` | per device: reads, writes, flushes, bytes, times, in flight, share of time busy |
//! | `network` | per interface: bytes, packets, drops, errors |
//! | `tcp` | segments, retransmits, time-outs, queues, of this host and of each node's |
//! | `interrupts` | work that the kernel does after interrupts |
//! | `pressure` | share of time in which tasks waited for CPU, memory, I/O |
//! | `cgroup` | control groups: limits that were met, memory, I/O, waits, frozen |
//! | `generator` | this process: CPU, run-queue delay, memory, threads, context switches |
//! | `server` | the servers' processes, [`ServerProcesses`], with all their descendants: all together and each node |
//! | `block` | requests to devices, and the duration of each |
//! | `offcpu` | waits of the servers' threads that nothing can interrupt, and the duration of each |
//! | `fsync` | flushes of the servers' processes, and the duration of each |
//! | `namespaces` | network namespaces of nodes that have a host of their own |
//! | `threads` | threads: the time that they waited for a processor, and the names of those that ran most |
//! | [`STORE`] | a store's counters of its own work, read by the owner of the store |
//! | `tree` | processes and their descendants, with their I/O |
//! | [`mod@environment`] | facts that are constant during a run: CPU, kernel, clock source, file system … |
//! | [`room`] | remaining memory, threads and file descriptors |
//! | `proc_file` | reading a file of `/proc` again and again |
//!
//! Own parsing rather than the `procfs` crate (0.18, MIT or Apache-2.0, in good health): that one opens each file
//! anew and builds whole structures at every reading, one per process with 52 fields. Once a slice that would not
//! hurt; but what is needed here is eight short parsers, which is less than what would have to be known of it.

mod block;
mod cgroup;
mod cpu;
mod disk;
pub mod environment;
mod fsync;
mod generator;
mod interrupts;
mod memory;
mod namespaces;
mod network;
mod offcpu;
mod pressure;
mod proc_file;
pub mod room;
mod server;
mod tasks;
mod tcp;
mod threads;
mod tree;

use plimsoll_core::{Sampler, SamplerSpec, Unavailable};

pub use environment::environment;
pub use plimsoll_trace::{is_there, start_of, with_descendants};
pub use server::ServerProcesses;

/// Counters of a store's own work. The store is asked, not this machine, so [`open`] opens nothing for it.
pub const STORE: SamplerSpec = spec(
    plimsoll_core::sampler::STORE,
    "what the store counts of its own work: checkpoints, flushes, cache misses …",
    &[],
);

/// Names of series, each with its unit.
type Names = &'static [(&'static str, &'static str)];

const fn spec(name: &'static str, summary: &'static str, series: Names) -> SamplerSpec {
    SamplerSpec { name, summary, by_default: true, series }
}

/// A sampler that each system call of the machine takes longer with.
const FSYNC: SamplerSpec = SamplerSpec {
    by_default: false,
    ..spec(
        "fsync",
        "the server's fsync, fdatasync and the like: how many, and how long each takes",
        &[("flushes", "1/s"), ("lost", "1/s"), ("flush_time", "ns")],
    )
};

/// A sampler that each request to a device takes longer with.
const BLOCK: SamplerSpec = SamplerSpec {
    by_default: false,
    ..spec(
        "block",
        "per device: reads, writes and flushes, and how long each takes in the device",
        &[("read_time", "ns"), ("write_time", "ns"), ("flush_time", "ns"), ("lost", "1/s")],
    )
};

/// A sampler that each context switch of the machine takes longer with.
const OFFCPU: SamplerSpec = SamplerSpec {
    by_default: false,
    ..spec(
        "offcpu",
        "the server's threads off the processor, waiting for a device, a page or the kernel: how long, and each wait",
        &[("waits", "1/s"), ("waiting", "%"), ("lost", "1/s"), ("wait_time", "ns")],
    )
};

const CPU: Names = &[("user", "%"), ("system", "%"), ("iowait", "%"), ("steal", "%"), ("idle", "%")];
const TASKS: Names =
    &[("running", "tasks"), ("blocked", "tasks"), ("load", "tasks"), ("switches", "1/s"), ("forks", "1/s")];
const MEMORY: Names =
    &[("used", "B"), ("available", "B"), ("cached", "B"), ("dirty", "B"), ("writeback", "B"), ("swapped", "B")];
const DISK: Names = &[
    ("reads", "1/s"),
    ("writes", "1/s"),
    ("flushes", "1/s"),
    ("read", "B/s"),
    ("written", "B/s"),
    ("read_time", "ms"),
    ("write_time", "ms"),
    ("flush_time", "ms"),
    ("in_flight", "requests"),
    ("busy", "%"),
];
const NETWORK: Names = &[
    ("received", "B/s"),
    ("sent", "B/s"),
    ("received_packets", "1/s"),
    ("sent_packets", "1/s"),
    ("drops", "1/s"),
    ("errors", "1/s"),
];
const TCP: Names = &[
    ("received_segments", "1/s"),
    ("sent_segments", "1/s"),
    ("retransmits", "1/s"),
    ("resets", "1/s"),
    ("timeouts", "1/s"),
    ("listen_drops", "1/s"),
    ("connections", "sockets"),
    ("time_wait", "sockets"),
    ("unacknowledged", "B"),
    ("unread", "B"),
    ("not_accepted", "sockets"),
];
const INTERRUPTS: Names = &[("net_rx", "1/s"), ("net_tx", "1/s"), ("timer", "1/s"), ("block", "1/s"), ("sched", "1/s")];
const CGROUP: Names = &[
    ("throttled", "%"),
    ("throttles", "1/s"),
    ("memory", "B"),
    ("limit_hits", "1/s"),
    ("kills", "1/s"),
    ("reads", "1/s"),
    ("writes", "1/s"),
    ("read", "B/s"),
    ("written", "B/s"),
    ("cpu_wait", "%"),
    ("memory_wait", "%"),
    ("io_wait", "%"),
    ("frozen", "groups"),
    ("frozen_time", "%"),
];
const PRESSURE: Names = &[("some", "%"), ("all", "%")];
const GENERATOR: Names = &[
    ("user", "%"),
    ("system", "%"),
    ("memory", "B"),
    ("threads", "tasks"),
    ("waits", "1/s"),
    ("preemptions", "1/s"),
    ("run_queue_delay", "%"),
];
const SERVER: Names = &[
    ("user", "%"),
    ("system", "%"),
    ("memory", "B"),
    ("processes", "tasks"),
    ("threads", "tasks"),
    ("stopped", "tasks"),
    ("read", "B/s"),
    ("written", "B/s"),
    ("run_queue_delay", "%"),
    ("busy", "%"),
];

/// Samplers that are read on a thread of their own: they take longer, or may wait. The others are read at one moment,
/// because reports compare their values.
const APART: [&str; 5] = ["tcp", "cgroup", "fsync", "block", "offcpu"];

type Opened = Result<Box<dyn Sampler>, Unavailable>;

/// All samplers, in the order in which they are listed.
const ALL: &[(SamplerSpec, fn(&ServerProcesses) -> Opened)] = &[
    (spec("cpu", "user, system, waiting for I/O, stolen and idle, all cores and each", CPU), |_| {
        boxed(cpu::Cpu::open())
    }),
    (spec("tasks", "tasks running and waiting for a device, load, context switches", TASKS), |_| {
        boxed(tasks::Tasks::open())
    }),
    (spec("memory", "used, available, page cache, dirty, being written back, swap", MEMORY), |_| {
        boxed(memory::Memory::open())
    }),
    (
        spec("disk", "per device: reads, writes, flushes, bytes, times, requests in flight, share of time busy", DISK),
        |processes| boxed(disk::Disk::open(processes.clone())),
    ),
    (spec("network", "per interface: bytes, packets, drops and errors", NETWORK), |processes| {
        boxed(network::Network::open(processes.clone()))
    }),
    (
        spec("tcp", "TCP of this machine and of each node's host: segments, retransmits, time-outs, queues", TCP),
        |processes| boxed(tcp::Tcp::open(processes.clone())),
    ),
    (
        spec("interrupts", "work that the kernel does after interrupts: network, timer, block devices", INTERRUPTS),
        |_| boxed(interrupts::Interrupts::open()),
    ),
    (spec("pressure", "share of time in which some or all tasks waited for CPU, memory, I/O", PRESSURE), |_| {
        boxed(pressure::Pressure::open())
    }),
    (
        spec("cgroup", "control groups of this process and of nodes: limits met, memory, I/O, waits, frozen", CGROUP),
        |processes| boxed(cgroup::Cgroup::open(processes.clone())),
    ),
    (
        spec(
            "generator",
            "this process: CPU (100 % is one core), run-queue delay, memory, threads, context switches",
            GENERATOR,
        ),
        |_| boxed(generator::Generator::open()),
    ),
    (
        spec(
            "server",
            "the servers' processes, all and each node: CPU (100 % is one core), also by thread, memory, device bytes",
            SERVER,
        ),
        |processes| boxed(server::ServerSampler::open(processes.clone())),
    ),
    (FSYNC, |processes| boxed(fsync::Fsync::open(processes.clone()))),
    (BLOCK, |processes| boxed(block::RequestTimes::open(processes.clone()))),
    (OFFCPU, |processes| boxed(offcpu::OffCpu::open(processes.clone()))),
];

fn boxed<S: Sampler + 'static>(sampler: Result<S, Unavailable>) -> Opened {
    sampler.map(|sampler| Box::new(sampler) as Box<dyn Sampler>)
}

/// Returns the specifications of all samplers.
pub fn specs() -> Vec<SamplerSpec> {
    ALL.iter().map(|(spec, _)| spec.clone()).chain([STORE]).collect()
}

/// Samplers, each with its name as in plans, which is the source of its series: `cpu`, `disk`.
pub type Named<'a> = Vec<(&'static str, Box<dyn Sampler + 'a>)>;

/// Splits samplers into groups, each to be read on a thread of its own.
pub fn groups(samplers: Named<'_>) -> Vec<Named<'_>> {
    let (apart, together): (Named<'_>, Named<'_>) = samplers.into_iter().partition(|(name, _)| APART.contains(name));
    let together = Some(together).filter(|group| !group.is_empty());
    together.into_iter().chain(apart.into_iter().map(|sampler| vec![sampler])).collect()
}

/// Opens the samplers of these names, and says of the others why they have nothing to read here. `server`
/// tells samplers which servers to look at; it may be changed at any time. [`STORE`] is passed over.
pub fn open(names: &[String], server: &ServerProcesses) -> (Named<'static>, Vec<(String, Unavailable)>) {
    let (mut opened, mut unavailable) = (Vec::new(), Vec::new());
    for name in names.iter().filter(|name| **name != STORE.name) {
        let Some((spec, open)) = ALL.iter().find(|(spec, _)| spec.name == name) else {
            unavailable.push((name.clone(), Unavailable("there is no sampler of this name".into())));
            continue;
        };
        match open(server) {
            Ok(sampler) => opened.push((spec.name, sampler)),
            Err(reason) => unavailable.push((name.clone(), reason)),
        }
    }
    (opened, unavailable)
}
