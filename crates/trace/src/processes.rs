//! Processes and their descendants.

use std::collections::BTreeSet;

/// Most processes of a tree that are looked at. A server with more is not what this was made for.
pub const MEMBERS_MAX: usize = 4096;

/// `pids` and all their descendants.
pub fn with_descendants(pids: &[u32]) -> BTreeSet<u32> {
    let mut members: BTreeSet<u32> = pids.iter().copied().collect();
    let mut queue: Vec<u32> = pids.to_vec();
    while let Some(pid) = queue.pop() {
        // A child belongs to the thread that made it.
        for thread in threads_of(pid) {
            let children = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/children")).unwrap_or_default();
            for child in children.split_ascii_whitespace().filter_map(|field| field.parse().ok()) {
                if members.len() < MEMBERS_MAX && members.insert(child) {
                    queue.push(child);
                }
            }
        }
    }
    members
}

/// The numbers of its threads; none of a process that is gone.
pub(crate) fn threads_of(pid: u32) -> Vec<u32> {
    numbers_in(&format!("/proc/{pid}/task"))
}

/// Returns all processes that are visible from here.
pub(crate) fn all() -> Vec<u32> {
    numbers_in("/proc")
}

fn numbers_in(directory: &str) -> Vec<u32> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns true if a process of this number exists.
pub fn is_there(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

/// Returns the start time of a process, in ticks since the machine started: it tells the process from a later one of
/// this number. `None` if there is no such process, or if it has ended and its parent was not told yet.
pub fn start_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain anything.
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next().filter(|state| !matches!(*state, "Z" | "X"));
    state.and_then(|_| fields.nth(18)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_ended_has_no_start_time() {
        assert!(start_of(std::process::id()).is_some_and(|ticks| ticks > 0));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while start_of(child.id()).is_some() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!((start_of(child.id()), is_there(child.id())), (None, true), "it was not waited for");
        child.wait().unwrap();
        assert_eq!(start_of(child.id()), None);
    }
}
