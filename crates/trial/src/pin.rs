//! Processors for the server, so that the generator has some of its own.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::error::{TrialError, io_error};

/// Binds all threads of the store's server, whose first processes are `roots`, to `processors`; new ones are born there.
/// Does nothing when none are named.
///
/// # Errors
/// The store has no server here. That the processors are there has been looked at before ([`crate::precheck`]).
pub fn server(roots: &[u32], processors: &[u32]) -> Result<(), TrialError> {
    if processors.is_empty() {
        return Ok(());
    }
    if roots.is_empty() {
        return Err(TrialError::usage("`server_pin` is for servers on this machine, and this store has none")
            .next("leave `server_pin` out"));
    }
    let mut set = CpuSet::new();
    for processor in processors {
        set.set(*processor as usize);
    }
    for pid in plimsoll_sample::with_descendants(roots) {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for thread in threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok()) {
            match sched_setaffinity(Pid::from_raw(thread), &set) {
                // It ended since it was listed.
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(errno) => return Err(io_error("binding the server to its processors", &errno.into())),
            }
        }
    }
    Ok(())
}
