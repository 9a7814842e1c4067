//! Processors for the server, so that the generator has some of its own.

use plimsoll_core::NodeSite;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::error::{TrialError, io_error};

/// Binds all threads of the store's servers at `sites` to `processors`; new ones are born there.
/// Does nothing when none are named.
///
/// # Errors
/// The store has no server here. That the processors are there has been looked at before ([`crate::precheck`]).
pub fn server(sites: &[NodeSite], processors: &[u32]) -> Result<(), TrialError> {
    if processors.is_empty() {
        return Ok(());
    }
    if sites.is_empty() {
        return Err(TrialError::usage("`server_pin` is for servers on this machine, and this store has none")
            .next("leave `server_pin` out"));
    }
    let mut set = CpuSet::new();
    for processor in processors {
        set.set(*processor as usize);
    }
    let roots: Vec<u32> = sites.iter().map(|site| site.pid).collect();
    for pid in plimsoll_sample::with_descendants(&roots) {
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

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use rustix::thread::sched_getaffinity;

    use super::*;

    /// A child that ends with its test.
    struct Asleep(Child);

    impl Drop for Asleep {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn site(child: &Asleep) -> NodeSite {
        NodeSite { node: 0, pid: child.0.id(), directory: "/".into() }
    }

    #[test]
    fn a_server_is_bound_to_its_processors_and_a_store_without_one_is_refused() {
        let child = Asleep(Command::new("sleep").arg("60").spawn().unwrap());
        let of = |pid: u32| sched_getaffinity(Pid::from_raw(pid as i32)).unwrap();
        let all = of(child.0.id());
        let one = (0..CpuSet::MAX_CPU).find(|processor| all.is_set(*processor)).unwrap();
        server(&[site(&child)], &[]).unwrap();
        assert_eq!(of(child.0.id()).count(), all.count(), "none were named");
        server(&[site(&child)], &[one as u32]).unwrap();
        let bound = of(child.0.id());
        assert!(bound.count() == 1 && bound.is_set(one));
        let error = server(&[], &[one as u32]).unwrap_err();
        assert!(error.what.contains("this store has none") && error.next.is_some(), "{error:?}");
    }
}
