//! Hosts without root: a user namespace (user_namespaces(7)) in which this process may make networks.

use std::fs;
use std::io;
use std::os::fd::AsFd;

use plimsoll_core::{StoreError, StoreErrorKind};
use rustix::thread::{CapabilitySet, UnshareFlags};

/// What hosts need: to go into a network, to furnish it, and packet sockets for slow links.
const NEEDED: CapabilitySet = CapabilitySet::SYS_ADMIN.union(CapabilitySet::NET_ADMIN).union(CapabilitySet::NET_RAW);

/// Makes this process the owner of a user namespace of its own, where it and the programs that it starts may make hosts.
/// Their user and group stay the same, and other users' files are `nobody`'s to them. Nothing is done where hosts can be
/// made already. To be called while the process has one thread.
///
/// # Errors
/// `Permission` where the machine gives no user namespaces; `Usage` where there are other threads.
pub fn become_owner() -> Result<(), StoreError> {
    let before = rustix::thread::capabilities(None).map_err(|error| refused(&error.into()))?;
    if before.effective.contains(NEEDED) {
        return Ok(());
    }
    own().map_err(|error| refused(&error))
}

/// Goes into the user namespace that the process `of` has made for its hosts, where it is one of this user's. To be called
/// while this process has one thread.
///
/// # Errors
/// As [`become_owner`].
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
    // SAFETY: no file is shared less than before, and the kernel refuses it where there is another thread.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER)? };
    // Without it the group's map is refused.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    keep_capabilities()
}

fn keep_capabilities() -> io::Result<()> {
    // A program that is not root keeps ambient capabilities alone (capabilities(7)), and those have to be inheritable.
    // And no more than they have, as a program may only look at one that may do less or the same.
    let sets = rustix::thread::CapabilitySets { effective: NEEDED, permitted: NEEDED, inheritable: NEEDED };
    rustix::thread::set_capabilities(None, sets)?;
    for capability in NEEDED.iter() {
        rustix::thread::configure_capability_in_ambient_set(capability, true)?;
    }
    // Whoever gains capabilities is closed to its own programs (proc_pid_fd(5)), which find their networks there.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable)?;
    Ok(())
}

fn refused(error: &io::Error) -> StoreError {
    let what = "this process cannot have a user namespace of its own";
    let (kind, next) = match error.raw_os_error() {
        Some(libc::EINVAL) => (StoreErrorKind::Usage, "it has to be asked for before there is a second thread"),
        _ => (
            StoreErrorKind::Permission,
            "run as root, or allow user namespaces: sysctl user.max_user_namespaces=10000 kernel.unprivileged_userns_clone=1 \
             kernel.apparmor_restrict_unprivileged_userns=0, as far as the machine has them",
        ),
    };
    StoreError::new(kind, what).detail(error.to_string()).next(next)
}
