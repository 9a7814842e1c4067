//! Flushes of the server's processes: their number, and the duration of each call.

use std::time::Duration;

use plimsoll_core::{Reading, SampleValue, Sampler, Unavailable};
use plimsoll_trace::{TraceError, TraceSpec, Tracer, Way};

use crate::server::ServerProcesses;

pub(crate) struct Fsync {
    processes: ServerProcesses,
    pids: Vec<u32>,
    /// Change that the processes are of.
    change: u64,
    tracer: Option<Tracer>,
}

impl Fsync {
    pub(crate) fn open(processes: ServerProcesses) -> Result<Self, Unavailable> {
        // What can be seen of this process can be seen of servers.
        let found = Tracer::start(&TraceSpec::of(vec![std::process::id()]));
        let tracer = found.map_err(|error| Unavailable(format!("{error}; {}", error.next())))?;
        match tracer.why_not_bpf() {
            Some(error) => Err(Unavailable(format!("{error}; {}", error.next()))),
            None => Ok(Self { processes, pids: Vec::new(), change: 0, tracer: None }),
        }
    }

    fn start(&self) -> Result<Tracer, TraceError> {
        let pids = Some(self.pids.clone());
        // One by one they are asked for with `plimsoll trace`.
        Tracer::start(&TraceSpec { pids, threshold: Duration::MAX, way: Some(Way::Bpf) })
    }
}

impl Sampler for Fsync {
    fn sample(&mut self) -> Vec<Reading> {
        if let Some(sites) = self.processes.since(self.change) {
            self.change = sites.change;
            self.pids = sites.all.iter().map(|site| site.pid).collect();
            self.tracer = None;
        }
        if self.tracer.is_none() && !self.pids.is_empty() {
            // A server that is being started or stopped is looked for again at the next slice.
            self.tracer = self.start().ok();
        }
        let Some(read) = self.tracer.as_mut().and_then(|tracer| tracer.read().ok()) else { return Vec::new() };
        let total = |name, value: u64| Reading::new("", name, "", SampleValue::Total(value as f64, self.change));
        let times = SampleValue::Distribution(Box::new(read.new_times().hdr()));
        vec![
            total("flushes", read.times().len()),
            total("lost", read.lost),
            Reading::new("", "flush_time", "ns", times),
        ]
    }
}
