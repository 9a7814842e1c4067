//! Memory, addresses, threads and file descriptors that this process can still use, with the limit that applies.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::environment::{self, group_files};
use crate::proc_file::number_of;

/// A limit and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// Bytes, or how many.
    pub left: u64,
    /// Setting to raise: `ulimit -n`.
    pub by: &'static str,
}

/// Resources left for this process; `None` if unlimited, or unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Room {
    /// Bytes of memory.
    pub memory: Option<Limit>,
    /// Bytes of addresses, used or not.
    pub addresses: Option<Limit>,
    /// Threads.
    pub threads: Option<Limit>,
    /// File descriptors, as far as this process may raise its limit by itself.
    pub descriptors: Option<Limit>,
}

impl Room {
    /// Reads the present limits.
    pub fn now() -> Room {
        Room {
            memory: tightest([limit(environment::memory().available, "MemAvailable in /proc/meminfo"), group_memory()]),
            addresses: tightest([limit(addresses_left(), "ulimit -v")]),
            threads: tightest([
                limit(user_tasks_left(), "ulimit -u"),
                limit(number("/proc/sys/kernel/pid_max").map(less_tasks), "the sysctl kernel.pid_max"),
                limit(number("/proc/sys/kernel/threads-max").map(less_tasks), "the sysctl kernel.threads-max"),
                // A thread has a stack, what guards it, its histograms and an arena of the allocator.
                limit(number("/proc/sys/vm/max_map_count").map(|maps| maps / 6), "the sysctl vm.max_map_count"),
                limit(group_threads(), "pids.max of the control group"),
            ]),
            descriptors: limit(getrlimit(Resource::Nofile).maximum, "ulimit -n"),
        }
    }
}

/// Raises the limit of file descriptors for this process, and servers that it starts, to `wanted`, as far as
/// permitted.
pub fn raise_descriptors(wanted: u64) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < wanted) {
        let raised = maximum.map_or(wanted, |maximum| maximum.min(wanted));
        // Within the maximum it is allowed; what is too little is told by who needs it.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum });
    }
}

fn limit(left: Option<u64>, by: &'static str) -> Option<Limit> {
    left.map(|left| Limit { left, by })
}

fn tightest(limits: impl IntoIterator<Item = Option<Limit>>) -> Option<Limit> {
    limits.into_iter().flatten().min_by_key(|limit| limit.left)
}

fn number(path: impl AsRef<Path>) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn addresses_left() -> Option<u64> {
    let most = getrlimit(Resource::As).current?;
    let used = number_of(&fs::read_to_string("/proc/self/status").ok()?, "VmSize")?;
    Some(most.saturating_sub(used * 1024))
}

/// Returns the number of all tasks of the machine, as far as this process sees them (proc(5), loadavg).
fn tasks() -> u64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let counted = text.split_ascii_whitespace().nth(3).and_then(|both| both.split('/').nth(1)?.parse().ok());
    counted.unwrap_or(0)
}

fn less_tasks(most: u64) -> u64 {
    most.saturating_sub(tasks())
}

/// The limit holds for all tasks of a user together; root has none.
fn user_tasks_left() -> Option<u64> {
    let most = getrlimit(Resource::Nproc).current?;
    (!rustix::process::geteuid().is_root()).then(|| most.saturating_sub(user_tasks()))
}

fn user_tasks() -> u64 {
    use std::os::unix::fs::MetadataExt;
    let own = rustix::process::geteuid().as_raw();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ours = processes.filter(|entry| entry.metadata().is_ok_and(|metadata| metadata.uid() == own));
    let threads = |entry: fs::DirEntry| number_of(&fs::read_to_string(entry.path().join("status")).ok()?, "Threads");
    ours.filter_map(threads).sum()
}

/// Returns the memory left by the control groups: unused file pages can be reclaimed at any time.
fn group_memory() -> Option<Limit> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let left = group_files(&groups, "memory", "memory.max", "memory.limit_in_bytes").into_iter().filter_map(|file| {
        let most = number(&file)?;
        let v2 = file.file_name().is_some_and(|name| name == "memory.max");
        let (used, idle) = match v2 {
            true => ("memory.current", "inactive_file"),
            false => ("memory.usage_in_bytes", "total_inactive_file"),
        };
        let used = number(file.with_file_name(used))?;
        let stat = fs::read_to_string(file.with_file_name("memory.stat")).unwrap_or_default();
        Some(most.saturating_sub(used.saturating_sub(number_of(&stat, idle).unwrap_or(0))))
    });
    limit(left.min(), "the memory limit of the control group")
}

fn group_threads() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let files = group_files(&groups, "pids", "pids.max", "pids.max").into_iter();
    files.filter_map(|file| Some(number(&file)?.saturating_sub(number(file.with_file_name("pids.current"))?))).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_some_of_everything_here() {
        let room = Room::now();
        assert!(room.memory.unwrap().left > 1 << 20);
        assert!(room.threads.unwrap().left > 10);
        assert!(room.descriptors.is_none_or(|limit| limit.left > 10));
        assert!(tasks() > 1 && user_tasks() >= 1);
    }

    #[test]
    fn the_tightest_limit_counts() {
        let limits = [limit(Some(7), "a"), None, limit(Some(3), "b")];
        assert_eq!(tightest(limits), Some(Limit { left: 3, by: "b" }));
    }
}
