//! Times of the requests to block devices, one by one, as programs in the kernel count them.

use plimsoll_core::{Reading, SampleValue, Sampler, Unavailable};
use plimsoll_trace::{BlockRequest, BlockTracer};

use crate::disk::{Devices, name_of};
use crate::proc_file::ProcFile;
use crate::server::ServerProcesses;

pub(crate) struct RequestTimes {
    tracer: BlockTracer,
    devices: Devices,
}

impl RequestTimes {
    pub(crate) fn open(processes: ServerProcesses) -> Result<Self, Unavailable> {
        let (_, text) = ProcFile::open_and_read("/proc/diskstats")?;
        let devices = Devices::find(&text, processes)?;
        let tracer = BlockTracer::start().map_err(|error| {
            let means = "read_time, write_time and flush_time of the sampler `disk` are means without this";
            Unavailable(format!("{error}; {}; {means}", error.next()))
        })?;
        Ok(Self { tracer, devices })
    }
}

impl Sampler for RequestTimes {
    fn sample(&mut self) -> Vec<Reading> {
        self.devices.take_sites();
        let Ok(seen) = self.tracer.read() else { return Vec::new() };
        let mut all = vec![Reading::total("", "lost", "", seen.lost as f64)];
        for ((device, request), times) in &seen.new {
            let Some(name) = name_of(*device) else { continue };
            let Some(device) = self.devices.all.iter().find(|known| known.name == name) else { continue };
            let series = match request {
                BlockRequest::Read => "read_time",
                BlockRequest::Write => "write_time",
                BlockRequest::Flush => "flush_time",
            };
            let times = SampleValue::Distribution(Box::new(times.hdr()));
            all.push(Reading::new(&device.subject, series, "ns", times));
        }
        all
    }
}
