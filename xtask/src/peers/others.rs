//! How much of the machine was taken by processes that are neither the client nor the server.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::child_cost::Cost;

/// The machine's and the servers' accounts when a run begins.
pub struct Others {
    started: Instant,
    busy_us: f64,
    servers_us: f64,
}

impl Others {
    /// Takes them.
    pub fn before(servers: &[u32]) -> Others {
        Others { started: Instant::now(), busy_us: busy_us(), servers_us: servers_us(servers) }
    }

    /// The share of all processors that others took since.
    pub fn share(&self, client: &Cost, servers: &[u32]) -> f64 {
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let wall_us = self.started.elapsed().as_micros() as f64;
        let busy_us = busy_us() - self.busy_us;
        let known_us = client.cpu_us() + servers_us(servers) - self.servers_us;
        ((busy_us - known_us) / (wall_us * processors)).max(0.0)
    }
}

/// A tick of the kernel's accounts, which Linux has always shown as a hundredth of a second.
const TICK_US: f64 = 10_000.0;

/// Time that processors were not idle (proc_stat(5)), stolen time included.
fn busy_us() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let Some(line) = text.lines().next() else { return 0.0 };
    let ticks: Vec<f64> =
        line.split_ascii_whitespace().skip(1).take(8).filter_map(|field| field.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal
    [0, 1, 2, 5, 6, 7].iter().filter_map(|at| ticks.get(*at)).sum::<f64>() * TICK_US
}

/// Time of the servers, their descendants, and the children they waited for.
fn servers_us(roots: &[u32]) -> f64 {
    tree(roots).into_iter().map(ticks_of).sum::<f64>() * TICK_US
}

/// Processes and all their descendants.
pub fn tree(roots: &[u32]) -> BTreeSet<u32> {
    let mut members: BTreeSet<u32> = roots.iter().copied().collect();
    let mut queue = roots.to_vec();
    while let Some(pid) = queue.pop() {
        for thread in threads(pid) {
            let children = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/children")).unwrap_or_default();
            for child in children.split_ascii_whitespace().filter_map(|child| child.parse().ok()) {
                if members.insert(child) {
                    queue.push(child);
                }
            }
        }
    }
    members
}

/// Ids of a process' threads.
pub fn threads(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

fn ticks_of(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in brackets may hold spaces; utime, stime, cutime and cstime are fields 14 to 17.
    let Some((_, rest)) = text.rsplit_once(')') else { return 0.0 };
    rest.split_ascii_whitespace().skip(11).take(4).filter_map(|field| field.parse::<f64>().ok()).sum()
}

/// The processors that this program may run on.
pub fn processors() -> std::io::Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|&processor| set.is_set(processor)).collect())
}
