//! Removing what a Plimsoll left whose supervisor was killed with it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::limits;
use crate::place::{MARK, MARK_FILE, MARK_OWNER, MARK_SOCKETS, NAME_PREFIX, is_own_directory};

/// How long processes that were sent SIGKILL may take to be gone.
const KILL_BOUND: Duration = Duration::from_secs(5);
/// Longest mark that is read.
const MARK_BYTES_MAX: u64 = 8192;

/// Removes what a server that was killed has left outside of its directories, of which it is given that of the data.
pub type RemoveLeft = fn(&Path) -> io::Result<()>;

static LEFT: Mutex<Vec<RemoveLeft>> = Mutex::new(Vec::new());

/// Has `remove` called before the directories of any server are. A store says so before `main`, and with a priority: a
/// supervisor has no other part of the program that it is, and begins before `main` without one.
pub fn before_removing(remove: RemoveLeft) {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(remove);
}

/// Ends and removes private servers directly under `base` which nobody guards any more, and returns their directories.
///
/// A directory is one of those when its name, its owner, and the mark in it say that this user's Plimsoll
/// made it, and the mark's lock is free: that lock is held by Plimsoll and by the supervisor, whichever lives
/// longer, so a server in use is never taken for an orphan, be it another container's. Nothing else is touched.
/// What cannot be removed is left for the next time.
///
/// # Errors
/// When `base` cannot be listed; a base that is not there has no orphans.
pub fn sweep_orphans(base: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(base) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut removed = Vec::new();
    for entry in entries.flatten() {
        if !entry.file_name().as_bytes().starts_with(NAME_PREFIX.as_bytes()) {
            continue;
        }
        let root = entry.path();
        if let Some((_lock, sockets)) = lock_orphan(&root)
            && remove(&root, sockets.as_deref()).is_ok()
        {
            removed.push(root);
        }
    }
    Ok(removed)
}

/// The lock of a marked directory that nobody holds, ours from now on, and the socket directory that the mark names.
fn lock_orphan(root: &Path) -> Option<(File, Option<PathBuf>)> {
    if !is_own_directory(&root.symlink_metadata().ok()?) {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mark = File::from(rustix::fs::open(root.join(MARK_FILE), flags, Mode::empty()).ok()?);
    let metadata = mark.metadata().ok()?;
    if !metadata.is_file() || metadata.uid() != rustix::process::geteuid().as_raw() {
        return None;
    }
    rustix::fs::flock(&mark, FlockOperation::NonBlockingLockExclusive).ok()?;
    let mut text = Vec::new();
    (&mark).take(MARK_BYTES_MAX).read_to_end(&mut text).ok()?;
    let sockets = sockets_in_mark(&text)?;
    Some((mark, sockets))
}

/// Removes the place at `root`, where everything has ended, if the process `owner` made it.
pub(crate) fn remove_made_by(owner: &OsStr, root: &Path) -> io::Result<()> {
    if !root.symlink_metadata().is_ok_and(|metadata| is_own_directory(&metadata)) {
        return Ok(());
    }
    let mark = root.join(MARK_FILE);
    let text = match fs::read(&mark) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        text => text?,
    };
    if text.is_empty() {
        // Its owner was killed before it could mark it, and has made nothing else there. What holds anything is not ours.
        let _ = fs::remove_file(mark);
        let _ = fs::remove_dir(root);
        return Ok(());
    }
    let its_owner = text.split(|byte| *byte == b'\n').nth(1).and_then(|line| line.strip_prefix(MARK_OWNER.as_bytes()));
    match sockets_in_mark(&text) {
        Some(sockets) if its_owner == Some(owner.as_bytes()) => remove_files(root, sockets.as_deref()),
        _ => Ok(()),
    }
}

/// Ends all processes that work under `root`, then removes it, what ran there has left elsewhere, and `sockets`.
pub(crate) fn remove(root: &Path, sockets: Option<&Path>) -> io::Result<()> {
    let started = Instant::now();
    while !signal_those_in(root, Signal::KILL)?.is_empty() {
        if started.elapsed() > KILL_BOUND {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("{}: still in use", root.display())));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    remove_files(root, sockets)
}

fn remove_files(root: &Path, sockets: Option<&Path>) -> io::Result<()> {
    limits::remove_groups(root)?;
    let data = root.join("data");
    LEFT.lock().unwrap_or_else(PoisonError::into_inner).iter().try_for_each(|remove| remove(&data))?;
    // The mark goes with the last of them: by it a sweep finds what is left where whoever does this is killed.
    for directory in sockets.into_iter().chain([&*data, root]) {
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Stops every process that works under `root`, or lets it go on; returns when it does.
pub(crate) fn pause_those_in(root: &Path, stands: bool) -> io::Result<()> {
    let (started, signal) = (Instant::now(), if stands { Signal::STOP } else { Signal::CONT });
    let mut before = Vec::new();
    loop {
        let found = signal_those_in(root, signal)?;
        let heard = found.iter().all(|pid| stands_still(*pid, &found) == stands || !works_in(*pid, root));
        // One may have started another before it stood.
        if heard && (!stands || found == before) {
            return Ok(());
        }
        if started.elapsed() > KILL_BOUND {
            let what = format!("a process there {}", if stands { "goes on" } else { "stands still" });
            return Err(io::Error::new(io::ErrorKind::TimedOut, what));
        }
        before = found;
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a process stands still by a signal (`T` in its state), or until a child that does so has executed a program:
/// after vfork(2) a parent waits for that without hearing signals (`D`).
fn stands_still(pid: Pid, among: &[Pid]) -> bool {
    match state_and_parent(pid) {
        Some(('T', _)) => true,
        Some(('D', _)) => among.iter().any(|other| state_and_parent(*other) == Some(('T', pid.as_raw_pid()))),
        _ => false,
    }
}

/// The state of a process, and the number of its parent (proc_pid_stat(5)).
fn state_and_parent(pid: Pid) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name before the last bracket may hold anything.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Sends a signal to every process whose working directory is under `root`; which there were.
fn signal_those_in(root: &Path, signal: Signal) -> io::Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| Pid::from_raw(name.parse().ok()?));
        let Some(pid) = pid.filter(|pid| works_in(*pid, root)) else { continue };
        // Held by a descriptor, looked at again, then signalled: the number may have been given to another meanwhile.
        if let Ok(process) = rustix::process::pidfd_open(pid, PidfdFlags::empty())
            && works_in(pid, root)
        {
            found.push(pid);
            let _ = rustix::process::pidfd_send_signal(process, signal);
        }
    }
    Ok(found)
}

/// Whether the process has its working directory under `root`.
pub(crate) fn works_in(pid: Pid, root: &Path) -> bool {
    fs::read_link(format!("/proc/{}/cwd", pid.as_raw_nonzero())).is_ok_and(|cwd| cwd.starts_with(root))
}

/// The socket directory that a mark names if it is one of its own (not below the root); `None` when this is no mark.
pub(crate) fn sockets_in_mark(text: &[u8]) -> Option<Option<PathBuf>> {
    let mut lines = text.split(|byte| *byte == b'\n');
    if lines.next() != Some(MARK.as_bytes()) {
        return None;
    }
    let path = lines.nth(1).and_then(|line| line.strip_prefix(MARK_SOCKETS.as_bytes()));
    let path = path.map(|path| PathBuf::from(OsStr::from_bytes(path)));
    Some(path.filter(|path| {
        let named = path.file_name().is_some_and(|name| name.as_bytes().starts_with(NAME_PREFIX.as_bytes()));
        named && path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_names_a_socket_directory_of_its_own_only() {
        let base = tempfile::tempdir().unwrap();
        let own = base.path().join("plimsoll-00000000");
        fs::create_dir(&own).unwrap();
        let mark = |path: &Path| format!("{MARK}\npid 1\nsockets {}\nsh: noise", path.display());
        assert_eq!(sockets_in_mark(mark(&own).as_bytes()), Some(Some(own)));
        let inner = base.path().join("sockets");
        fs::create_dir(&inner).unwrap();
        assert_eq!(sockets_in_mark(mark(&inner).as_bytes()), Some(None));
        assert_eq!(sockets_in_mark(mark(Path::new("/")).as_bytes()), Some(None));
        assert_eq!(sockets_in_mark(b""), None);
        assert_eq!(sockets_in_mark(b"plimsoll: private server of somebody else\n"), None);
    }
}
