//! Hosts without root: a user namespace (user_namespaces(7)) in which this process may make networks.

use std::fs;
use std::io;
use std::os::fd::AsFd;

use plimsoll_core::{StoreError, StoreErrorKind};
use rustix::thread::{CapabilitySet, UnshareFlags};

/// Capabilities that hosts need: to enter a network, to configure it, and to open packet sockets for slow links.
const NEEDED: CapabilitySet = CapabilitySet::SYS_ADMIN.union(CapabilitySet::NET_ADMIN).union(CapabilitySet::NET_RAW);

/// Makes this process the owner of a new user namespace, in which it and its child processes may make hosts. Their user
/// and group stay the same; files of other users appear to belong to the overflow user. Does nothing if hosts can be made
/// already. Must be called while the process has one thread.
///
/// # Errors
/// `Permission` if the machine does not allow user namespaces; `Usage` if there are other threads.
pub fn become_owner() -> Result<(), StoreError> {
    let before = rustix::thread::capabilities(None).map_err(|error| refused(&error.into()))?;
    if before.effective.contains(NEEDED) {
        return Ok(());
    }
    own().map_err(|error| refused(&error))
}

/// Enters the user namespace that the process `of` has made for its hosts, if it belongs to this user. Must be called
/// while this process has one thread.
///
/// # Errors
/// The errors of [`become_owner`].
pub fn join_owner(of: u32) -> Result<(), StoreError> {
    let path = format!("/proc/{of}/ns/user");
    let same = fs::read_link(&path).ok() == fs::read_link("/proc/self/ns/user").ok();
    if same {
        return Ok(());
    }
    let join = || {
        let namespace = fs::File::open(&path)?;
        let kind = Some(rustix::thread::LinkNameSpaceType::User);
        rustix::thread::move_into_link_name_space(namespace.as_fd(), kind)?;
        keep_capabilities()
    };
    join().map_err(|error: io::Error| refused(&error))
}

fn own() -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // SAFETY: no file becomes less shared than before, and the kernel refuses the call if there is another thread.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER)? };
    // Without this the kernel refuses the group's map.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    keep_capabilities()
}

fn keep_capabilities() -> io::Result<()> {
    // A program that is not root keeps only ambient capabilities (capabilities(7)), which must be inheritable.
    // No other capabilities: a process may only inspect processes with the same capabilities or fewer.
    let sets = rustix::thread::CapabilitySets { effective: NEEDED, permitted: NEEDED, inheritable: NEEDED };
    rustix::thread::set_capabilities(None, sets)?;
    for capability in NEEDED.iter() {
        rustix::thread::configure_capability_in_ambient_set(capability, true)?;
    }
    // A process that gains capabilities is closed to its child processes (proc_pid_fd(5)), which open their networks
    // there.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable)?;
    Ok(())
}

/// Returns the value of `act` on a thread without a capability.
#[cfg(test)]
pub(crate) fn without<T: Send>(capability: CapabilitySet, act: impl FnOnce() -> T + Send) -> T {
    let act_there = || {
        let mut sets = rustix::thread::capabilities(None).unwrap();
        sets.effective.remove(capability);
        rustix::thread::set_capabilities(None, sets).unwrap();
        act()
    };
    std::thread::scope(|scope| scope.spawn(act_there).join().unwrap())
}

fn refused(error: &io::Error) -> StoreError {
    let what = "cannot make a user namespace for this process";
    let (kind, next) = match error.raw_os_error() {
        Some(libc::EINVAL) => (StoreErrorKind::Usage, "make it before the process starts a second thread"),
        _ => (
            StoreErrorKind::Permission,
            "run as root, or allow user namespaces: sysctl user.max_user_namespaces=10000 kernel.unprivileged_userns_clone=1 \
             kernel.apparmor_restrict_unprivileged_userns=0 (those that exist on this machine)",
        ),
    };
    StoreError::new(kind, what).detail(error.to_string()).next(next)
}
