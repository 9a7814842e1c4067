//! Processors for the server, so that the generator has some of its own.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::error::TrialError;

/// Binds all threads of the store's server, whose first processes are `roots`, to `processors`; new ones are born there.
/// Does nothing when none are named.
///
/// # Errors
/// The store has no server here, or the processors are not there.
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
        // A number that no set can hold is no processor either.
        if *processor as usize >= CpuSet::MAX_CPU {
            return Err(no_such(processors));
        }
        set.set(*processor as usize);
    }
    for pid in plimsoll_sample::with_descendants(roots) {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for thread in threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok()) {
            match sched_setaffinity(Pid::from_raw(thread), &set) {
                // It ended since it was listed.
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(rustix::io::Errno::INVAL) => return Err(no_such(processors)),
                Err(errno) => return Err(TrialError::io("binding the server to its processors", &errno.into())),
            }
        }
    }
    Ok(())
}

fn no_such(processors: &[u32]) -> TrialError {
    let there = std::thread::available_parallelism().map_or(1, usize::from);
    TrialError::usage(format!("`server_pin = {processors:?}`: there are no such processors"))
        .next(format!("this machine has {there}, counted from 0"))
}
