//! Waits of the servers' threads off the processor that nothing can interrupt: their time, and the duration of each.

use plimsoll_core::{Reading, SampleValue, Sampler, Unavailable};
use plimsoll_trace::WaitTracer;

use crate::server::{ServerProcesses, ServerTrace};

pub(crate) struct OffCpu {
    trace: ServerTrace<WaitTracer>,
}

impl OffCpu {
    pub(crate) fn open(processes: ServerProcesses) -> Result<Self, Unavailable> {
        // What can be seen of this process can be seen of servers.
        match WaitTracer::start(&[std::process::id()]) {
            Ok(_) => Ok(Self { trace: ServerTrace::of(processes) }),
            Err(error) => Err(Unavailable(format!("{error}; {}", error.next()))),
        }
    }
}

impl Sampler for OffCpu {
    fn sample(&mut self) -> Vec<Reading> {
        let seen = self.trace.now(WaitTracer::start).and_then(|tracer| tracer.read().ok());
        let Some(seen) = seen else { return Vec::new() };
        let total = |name, unit, value: f64| Reading::new("", name, unit, SampleValue::Total(value, self.trace.change));
        let times = SampleValue::Distribution(Box::new(seen.new.hdr()));
        vec![
            total("waits", "", seen.times.len() as f64),
            total("waiting", "s", seen.times.sum_ns() as f64 / 1e9),
            total("lost", "", seen.lost as f64),
            Reading::new("", "wait_time", "ns", times),
        ]
    }
}
