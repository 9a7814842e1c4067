//! Run-queue delay: how long threads were ready to run while others had the processor. The second field of
//! `/proc/PID/task/TID/schedstat` (the kernel's Documentation/scheduler/sched-stats.rst), added up over threads.
//!
//! The files are opened anew at each look: a descriptor for each thread of a server would be more than a process may have.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;

/// Most threads that are looked at, at some 5 µs each. Where there are more there is no value: a part would be taken for
/// the whole.
const THREADS_MAX: u64 = 512;

/// Threads that are looked at again and again.
#[derive(Debug, Default)]
pub(crate) struct RunQueue {
    /// Time that each thread had waited at the previous reading, in nanoseconds; `None` before the first.
    before: Option<BTreeMap<u32, u64>>,
    /// Time that all threads have waited since the first reading.
    sum_ns: u64,
}

impl RunQueue {
    /// Seconds that all threads of `processes`, each with its number of threads, have waited since the first look. A
    /// thread that is new counts from its beginning; what one waited that ended meanwhile is lost. `None` with too many
    /// threads, after which it is looked at anew, and where the kernel does not count (CONFIG_SCHED_INFO).
    pub(crate) fn waited_s(&mut self, processes: &[(u32, u64)]) -> Option<f64> {
        let before = self.before.take();
        let now = threads(processes)?;
        if let Some(before) = before {
            let each = now.iter().map(|(thread, now_ns)| {
                // A number that was given to another begins anew.
                before.get(thread).and_then(|before_ns| now_ns.checked_sub(*before_ns)).unwrap_or(*now_ns)
            });
            self.sum_ns += each.sum::<u64>();
        }
        self.before = Some(now);
        Some(self.sum_ns as f64 / 1e9)
    }
}

/// Returns the time that each thread has waited since it began.
fn threads(processes: &[(u32, u64)]) -> Option<BTreeMap<u32, u64>> {
    if processes.iter().map(|(_, threads)| threads).sum::<u64>() > THREADS_MAX {
        return None;
    }
    let mut all = BTreeMap::new();
    for (pid, threads) in processes {
        if *threads <= 1 {
            all.extend(waited_ns(&format!("/proc/{pid}/schedstat")).map(|ns| (*pid, ns)));
            continue;
        }
        let listed = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for thread in listed.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
            all.extend(waited_ns(&format!("/proc/{pid}/task/{thread}/schedstat")).map(|ns| (thread, ns)));
        }
    }
    (!all.is_empty()).then_some(all)
}

/// The second field of the file `path`; `None` for a thread that is gone.
fn waited_ns(path: &str) -> Option<u64> {
    let mut buffer = [0; 96];
    let length = File::open(path).ok()?.read(&mut buffer).ok()?;
    parse(std::str::from_utf8(buffer.get(..length)?).ok()?)
}

fn parse(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_file::garbled;

    #[test]
    fn the_second_field_is_the_wait() {
        assert_eq!(parse("1234567 890123 45\n"), Some(890_123));
        assert_eq!(parse("1234567"), None);
        assert!(garbled("1234567 890123 45\n").filter_map(|text| parse(&text)).count() > 100);
    }

    #[test]
    fn more_threads_than_are_looked_at_have_no_value() {
        let this = std::process::id();
        let mut queue = RunQueue::default();
        assert_eq!(queue.waited_s(&[(this, 1)]), Some(0.0), "it begins now");
        assert!(queue.waited_s(&[(this, 1)]).is_some());
        assert_eq!(queue.waited_s(&[(this, 1), (this, THREADS_MAX)]), None);
    }
}
