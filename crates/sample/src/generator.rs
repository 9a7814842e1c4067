//! Resource use of this process. With an embedded store that is the store's use too.

use plimsoll_core::{Reading, Sampler, Unavailable};

use crate::proc_file::ProcFile;
use crate::threads::Threads;
use crate::tree::{parse_stat, parse_statm};

/// Since the process began, all threads together.
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
    threads: Threads,
}

impl Generator {
    pub(crate) fn open() -> Result<Self, Unavailable> {
        let (stat, statm) = (ProcFile::open("/proc/self/stat")?, ProcFile::open("/proc/self/statm")?);
        Ok(Self { stat, statm, threads: Threads::default() })
    }
}

impl Sampler for Generator {
    fn sample(&mut self) -> Vec<Reading> {
        let now = counts();
        let threads = self.stat.read().ok().and_then(|text| parse_stat(&text)).map(|stat| stat.threads);
        let waited_s = threads.and_then(|threads| self.threads.waited_s(&[(std::process::id(), threads)]));
        let resident = self.statm.read().ok().and_then(|text| parse_statm(&text));
        let memory = resident.map(|(pages, _)| pages as f64 * rustix::param::page_size() as f64);
        let all = [
            Some(Reading::total("", "user", "s", now.user_us as f64 / 1e6)),
            Some(Reading::total("", "system", "s", now.system_us as f64 / 1e6)),
            memory.map(|bytes| Reading::level("", "memory", "B", bytes)),
            threads.map(|threads| Reading::level("", "threads", "tasks", threads as f64)),
            Some(Reading::total("", "waits", "", now.waits as f64)),
            Some(Reading::total("", "preemptions", "", now.preemptions as f64)),
            waited_s.map(|waited_s| Reading::total("", "run_queue_delay", "s", waited_s)),
        ];
        all.into_iter().flatten().collect()
    }
}
