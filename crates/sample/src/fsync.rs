//! Flushes of the server's processes: their number, and the duration of each call.

use std::time::Duration;

use plimsoll_core::{Reading, SampleValue, Sampler, Unavailable};
use plimsoll_trace::{TraceError, TraceSpec, Tracer, Way};

use crate::server::{ServerProcesses, ServerTrace};

pub(crate) struct Fsync {
    trace: ServerTrace<Tracer>,
}

impl Fsync {
    pub(crate) fn open(processes: ServerProcesses) -> Result<Self, Unavailable> {
        // What can be seen of this process can be seen of servers.
        let found = Tracer::start(&TraceSpec::of(vec![std::process::id()]));
        let tracer = found.map_err(|error| Unavailable(format!("{error}; {}", error.next())))?;
        match tracer.why_not_bpf() {
            Some(error) => Err(Unavailable(format!("{error}; {}", error.next()))),
            None => Ok(Self { trace: ServerTrace::of(processes) }),
        }
    }
}

fn start(pids: &[u32]) -> Result<Tracer, TraceError> {
    // One by one they are asked for with `plimsoll trace`.
    Tracer::start(&TraceSpec { pids: Some(pids.to_vec()), threshold: Duration::MAX, way: Some(Way::Bpf) })
}

impl Sampler for Fsync {
    fn sample(&mut self) -> Vec<Reading> {
        let read = self.trace.now(start).and_then(|tracer| tracer.read().ok());
        let Some(read) = read else { return Vec::new() };
        let total = |name, value: u64| Reading::new("", name, "", SampleValue::Total(value as f64, self.trace.change));
        let times = SampleValue::Distribution(Box::new(read.new_times().hdr()));
        vec![
            total("flushes", read.times().len()),
            total("lost", read.lost),
            Reading::new("", "flush_time", "ns", times),
        ]
    }
}
