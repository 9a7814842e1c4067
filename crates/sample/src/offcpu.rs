//! Waits of the servers' threads off the processor that nothing can interrupt: their time, and the duration of each.

use plimsoll_core::{Reading, SampleValue, Sampler, Unavailable};
use plimsoll_trace::WaitTracer;

use crate::server::ServerProcesses;

pub(crate) struct OffCpu {
    processes: ServerProcesses,
    pids: Vec<u32>,
    /// Change that the processes are of.
    change: u64,
    tracer: Option<WaitTracer>,
}

impl OffCpu {
    pub(crate) fn open(processes: ServerProcesses) -> Result<Self, Unavailable> {
        // What can be seen of this process can be seen of servers.
        match WaitTracer::start(&[std::process::id()]) {
            Ok(_) => Ok(Self { processes, pids: Vec::new(), change: 0, tracer: None }),
            Err(error) => Err(Unavailable(format!("{error}; {}", error.next()))),
        }
    }
}

impl Sampler for OffCpu {
    fn sample(&mut self) -> Vec<Reading> {
        if let Some(sites) = self.processes.since(self.change) {
            self.change = sites.change;
            self.pids = sites.all.iter().map(|site| site.pid).collect();
            self.tracer = None;
        }
        if self.tracer.is_none() && !self.pids.is_empty() {
            // A server that is being started or stopped is looked for again at the next slice.
            self.tracer = WaitTracer::start(&self.pids).ok();
        }
        let Some(seen) = self.tracer.as_mut().and_then(|tracer| tracer.read().ok()) else { return Vec::new() };
        let total = |name, unit, value: f64| Reading::new("", name, unit, SampleValue::Total(value, self.change));
        let times = SampleValue::Distribution(Box::new(seen.new.hdr()));
        vec![
            total("waits", "", seen.times.len() as f64),
            total("waiting", "s", seen.times.sum_ns() as f64 / 1e9),
            total("lost", "", seen.lost as f64),
            Reading::new("", "wait_time", "ns", times),
        ]
    }
}
