//! What this process itself uses. With an embedded store that is the store's use too.

use plimsoll_core::{Reading, Sampler, SamplerSpec, SeriesSpec, Unavailable};

use crate::proc_file::{ProcFile, append, per_s, series};
use crate::run_queue::RunQueue;
use crate::tree::{parse_stat, parse_statm};

pub(crate) const SPEC: SamplerSpec = SamplerSpec {
    name: "generator",
    summary: "this process: CPU (100 % is one core), run-queue delay, memory, threads, context switches",
};

/// Since the process began, all threads together.
#[derive(Debug, Clone, Copy)]
struct Counts {
    user_us: u64,
    system_us: u64,
    waits: u64,
    preemptions: u64,
}

fn counts() -> Counts {
    // SAFETY: `rusage` is plain numbers, for which zero is a value; the call writes one `rusage` to the place
    // it is given, and cannot fail for the caller itself.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let us = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    Counts {
        user_us: us(usage.ru_utime),
        system_us: us(usage.ru_stime),
        waits: usage.ru_nvcsw as u64,
        preemptions: usage.ru_nivcsw as u64,
    }
}

pub(crate) struct Generator {
    stat: ProcFile,
    statm: ProcFile,
    series: Vec<SeriesSpec>,
    before: Option<Counts>,
    run_queue: RunQueue,
}

impl Generator {
    pub(crate) fn open() -> Result<Self, Unavailable> {
        let series = vec![
            series("", "user", "%"),
            series("", "system", "%"),
            series("", "memory", "B"),
            series("", "threads", "tasks"),
            series("", "waits", "1/s"),
            series("", "preemptions", "1/s"),
            series("", "run_queue_delay", "%"),
        ];
        let (stat, statm) = (ProcFile::open("/proc/self/stat")?, ProcFile::open("/proc/self/statm")?);
        Ok(Self { stat, statm, series, before: None, run_queue: RunQueue::default() })
    }
}

impl Sampler for Generator {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn series(&self) -> &[SeriesSpec] {
        &self.series
    }

    fn sample(&mut self, elapsed_ns: u64, readings: &mut Vec<Reading>) {
        let now = counts();
        let rate = |counter: fn(&Counts) -> u64| per_s(counter(&now), counter(self.before.as_ref()?), elapsed_ns);
        // Microseconds in a second, in percent.
        let share = |counter| rate(counter).map(|us_per_s| us_per_s / 1e4);
        let (user, system) = (share(|counts| counts.user_us), share(|counts| counts.system_us));
        let (waits, preemptions) = (rate(|counts| counts.waits), rate(|counts| counts.preemptions));
        let threads = self.stat.read().ok().and_then(|text| parse_stat(&text)).map(|stat| stat.threads);
        let waited_ns = threads.and_then(|threads| self.run_queue.waited_ns(&[(std::process::id(), threads)]));
        let delay = waited_ns.map(|waited_ns| waited_ns as f64 * 100.0 / elapsed_ns as f64);
        let threads = threads.map(|threads| threads as f64);
        let resident = self.statm.read().ok().and_then(|text| parse_statm(&text));
        let memory = resident.map(|(pages, _)| pages as f64 * rustix::param::page_size() as f64);
        append(readings, 0, [user, system, memory, threads, waits, preemptions, delay]);
        self.before = Some(now);
    }
}
