//! Removal of private servers whose Plimsoll process and supervisor were both killed.

use std::collections::BTreeSet;
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

use crate::directories::{
    DISK_LINK, MARK, MARK_FILE, MARK_OWNER, MARK_SOCKETS, NAME_PREFIX, PROGRAM_FILE, is_own_directory,
};
use crate::limits;

/// Longest time for processes to end after SIGKILL.
const KILL_BOUND: Duration = Duration::from_secs(5);
/// Longest mark that is read.
const MARK_BYTES_MAX: u64 = 8192;

/// Removes what ended processes of a server left outside of their directories. The argument is their process ids.
pub type CleanUp = fn(&BTreeSet<i32>);

static LEFT: Mutex<Vec<CleanUp>> = Mutex::new(Vec::new());

/// Registers `remove`, which is called after the processes of any server were killed. A store registers before `main`,
/// with a priority: a supervisor begins before `main` without one, and runs no other part of its program.
pub fn after_killing(remove: CleanUp) {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(remove);
}

/// Ends and removes private servers directly under `base` that no process guards any more, and returns their
/// directories.
///
/// Such a directory has a name, an owner and a mark that prove that this user's Plimsoll made it, and the mark's lock
/// is free. Plimsoll and its supervisor hold that lock, so a server in use is never taken for an orphan, not even one
/// of another container. Nothing else is touched. The next sweep tries again to remove what could not be removed.
///
/// # Errors
/// Fails if `base` cannot be listed. A base that does not exist has no orphans.
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

/// Locks the mark of an orphan, and returns the lock with the socket directory that the mark names.
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

/// Removes the directories at `root`, where all processes have ended, if the process `owner` made them.
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
        // The owner was killed before it marked the directory, and made nothing else there. A directory with other
        // files is not removed.
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

/// Ends all processes that work under `root`, then removes it, `sockets`, and what its program left elsewhere.
pub(crate) fn remove(root: &Path, sockets: Option<&Path>) -> io::Result<()> {
    let started = Instant::now();
    let mut ended: BTreeSet<i32> = noted_program(root).into_iter().collect();
    loop {
        let found = signal_those_in(root, Signal::KILL)?;
        if found.is_empty() {
            break;
        }
        // A program may have started others that leave something, as initdb and Patroni do.
        ended.extend(found.iter().map(|pid| pid.as_raw_pid()));
        if started.elapsed() > KILL_BOUND {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("{}: still in use", root.display())));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    clean_up(&ended);
    remove_files(root, sockets)
}

/// Removes what these ended processes left outside of their directories. An id of a sweep, or of a process that was
/// reaped, may be another's by now, so that only what no process uses may be removed.
pub(crate) fn clean_up(pids: &BTreeSet<i32>) {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|remove| remove(pids));
}

/// Notes the id of the program that was started in `root`, for a sweep. On a later boot it belongs to another process.
pub(crate) fn note_program(root: &Path, pid: Pid) -> io::Result<()> {
    fs::write(root.join(PROGRAM_FILE), format!("{} {}", pid.as_raw_nonzero(), boot()))
}

fn noted_program(root: &Path) -> Option<i32> {
    let text = fs::read_to_string(root.join(PROGRAM_FILE)).ok()?;
    let (pid, noted_boot) = text.split_once(' ')?;
    pid.parse().ok().filter(|_| noted_boot == boot())
}

/// Returns the kernel's id of this boot.
fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

fn remove_files(root: &Path, sockets: Option<&Path>) -> io::Result<()> {
    limits::remove_groups(&limits::groups_of(root))?;
    let data = root.join("data");
    // The root with its mark goes last: if this process is killed meanwhile, the next sweep finds the rest by it.
    for directory in sockets.into_iter().chain([&*data, root]) {
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Stops every process that works under `root`, or lets it continue; returns when all do.
pub(crate) fn pause_those_in(root: &Path, stands: bool) -> io::Result<()> {
    let (started, signal) = (Instant::now(), if stands { Signal::STOP } else { Signal::CONT });
    let mut before = Vec::new();
    loop {
        let found = signal_those_in(root, signal)?;
        let heard = found.iter().all(|pid| stands_still(*pid, &found) == stands || !works_in(*pid, root));
        // A process may have started another before it stopped.
        if heard && (!stands || found == before) {
            return Ok(());
        }
        if started.elapsed() > KILL_BOUND {
            let what = format!("a process there {}", if stands { "still runs" } else { "stays stopped" });
            return Err(io::Error::new(io::ErrorKind::TimedOut, what));
        }
        before = found;
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns true if a process is stopped by a signal (state `T`), or waits for a stopped child to execute a program:
/// after vfork(2) a parent waits for that without handling signals (state `D`).
pub(crate) fn stands_still(pid: Pid, among: &[Pid]) -> bool {
    match state_and_parent(pid) {
        Some(('T', _)) => true,
        Some(('D', _)) => among.iter().any(|other| state_and_parent(*other) == Some(('T', pid.as_raw_pid()))),
        _ => false,
    }
}

/// Returns the state of a process, and the number of its parent.
pub(crate) fn state_and_parent(pid: Pid) -> Option<(char, i32)> {
    let fields = fields_of(pid)?;
    let mut fields = fields.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Returns true if a process has a terminal, as a user's shell does; servers are in sessions of their own.
fn has_terminal(pid: Pid) -> bool {
    fields_of(pid).is_some_and(|fields| fields.split(' ').nth(4).is_some_and(|terminal| terminal != "0"))
}

/// Returns the fields of a process from its state on (proc_pid_stat(5)).
fn fields_of(pid: Pid) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name before the last bracket may contain any character.
    Some(stat.rsplit_once(") ")?.1.to_owned())
}

/// Sends a signal to every process of a server whose working directory is under `root`, and returns these processes.
fn signal_those_in(root: &Path, signal: Signal) -> io::Result<Vec<Pid>> {
    let mut found = Vec::new();
    for pid in those_in(root)? {
        // Opened, checked again, and then signalled: another process may have received the number meanwhile.
        if let Ok(process) = rustix::process::pidfd_open(pid, PidfdFlags::empty())
            && works_in(pid, root)
        {
            found.push(pid);
            let _ = rustix::process::pidfd_send_signal(process, signal);
        }
    }
    Ok(found)
}

/// Returns the processes of a server: their working directories are under `root`.
pub(crate) fn those_in(root: &Path) -> io::Result<Vec<Pid>> {
    let pid = |entry: fs::DirEntry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?);
    // A user may look at the files meanwhile.
    let is_its = |pid: &Pid| works_in(*pid, root) && !has_terminal(*pid);
    Ok(fs::read_dir("/proc")?.flatten().filter_map(pid).filter(is_its).collect())
}

/// Returns true if the process has its working directory under `root`, or in the data directory that is on a disk.
pub(crate) fn works_in(pid: Pid, root: &Path) -> bool {
    let is_data = |cwd: &Path| fs::read_link(root.join(DISK_LINK)).is_ok_and(|data| cwd.starts_with(data));
    let cwd = fs::read_link(format!("/proc/{}/cwd", pid.as_raw_nonzero()));
    cwd.is_ok_and(|cwd| cwd.starts_with(root) || is_data(&cwd))
}

/// Returns the socket directory that a mark names if that is not below the root; `None` if this is no mark.
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
    fn a_program_of_an_earlier_boot_is_not_the_process_of_that_number() {
        let root = tempfile::tempdir().unwrap();
        let pid = rustix::process::getpid();
        note_program(root.path(), pid).unwrap();
        assert_eq!(noted_program(root.path()), Some(pid.as_raw_pid()));
        fs::write(root.path().join(PROGRAM_FILE), format!("{} of another boot", pid.as_raw_pid())).unwrap();
        assert_eq!(noted_program(root.path()), None);
    }

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
        assert_eq!(sockets_in_mark(b"plimsoll: private server of another program\n"), None);
    }
}
