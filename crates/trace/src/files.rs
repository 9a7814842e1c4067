//! Use of files: by a process's system calls, or by a directory's events.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::TraceError;
use crate::bpf::{Attached, Ring, follow, forget_ended, in_first_pid_namespace, wide_at, word_at};
use crate::openings::{CALLS, Does, Maps, RING_BYTES, record};
use crate::place::of_descriptor;
use crate::processes::{is_there, with_descendants};
use crate::sys;
use crate::times::Times;
use crate::tracefs::Tracefs;
use crate::tracer::{Background, locked};

/// Most files that are told one by one.
pub(crate) const FILES_MAX: usize = 50_000;

/// Use of a file. Figures that the way of tracing does not provide are zero.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileUse {
    /// Opened.
    pub opens: u64,
    /// Read from.
    pub reads: u64,
    /// Written to.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Synced: fsync, fdatasync, sync_file_range.
    pub syncs: u64,
    /// Closed.
    pub closes: u64,
    /// Made.
    pub creates: u64,
    /// Deleted.
    pub deletes: u64,
    /// Renamed.
    pub renames: u64,
    /// Made shorter or longer: ftruncate, fallocate.
    pub resizes: u64,
    /// Sizes of reads in bytes (not times), as far as they were carried out.
    pub read_sizes: Times,
    /// Sizes of writes in bytes.
    pub write_sizes: Times,
}

impl FileUse {
    /// Returns the number of all events of the file.
    pub fn total(&self) -> u64 {
        let made = self.opens + self.closes + self.creates + self.deletes + self.renames;
        made + self.reads + self.writes + self.syncs + self.resizes
    }
}

/// Files seen in use.
#[derive(Debug, Clone, Default)]
pub struct FilesSeen {
    /// Use of files by path.
    pub files: BTreeMap<PathBuf, FileUse>,
    /// Calls or events that were not counted.
    pub lost: u64,
}

impl FilesSeen {
    /// The use of the file at `path`; `None` where there are too many.
    pub(crate) fn at(&mut self, path: &Path) -> Option<&mut FileUse> {
        if !self.files.contains_key(path) {
            if self.files.len() >= FILES_MAX {
                self.lost += 1;
                return None;
            }
            self.files.insert(path.to_owned(), FileUse::default());
        }
        self.files.get_mut(path)
    }
}

/// Watches the system calls on files of processes, until it is dropped. What is done through mapped memory, by io_uring, or by
/// the kernel itself (sendfile, copy_file_range) is not seen.
pub struct FileTracer {
    maps: Arc<Maps>,
    attached: Attached,
    calls: Arc<Mutex<CountedCalls>>,
    _reader: Background,
}

impl FileTracer {
    /// Begins to watch process `pid` and all its descendants.
    ///
    /// # Errors
    /// It is not there, or the kernel does not let this user.
    pub fn start(pid: u32) -> Result<Self, TraceError> {
        if !is_there(pid) {
            return Err(TraceError::NoProcess { pid });
        }
        in_first_pid_namespace()?;
        let tracefs = Tracefs::open()?;
        let maps = Arc::new(Maps::new()?);
        let mut attached = Attached::default();
        attached.follow_forks(&tracefs, &maps.processes, &maps.lost)?;
        attached.forget_threads(&tracefs, &maps.threads, &maps.lost)?;
        for call in CALLS {
            let Some(exit) = tracefs.tracepoint(&format!("syscalls/sys_exit_{}", call.name))? else { continue };
            let enter = tracefs.needed(&format!("syscalls/sys_enter_{}", call.name))?;
            if call.does != Does::Close {
                attached.run(&maps.end(call), &exit)?;
            }
            attached.run(&maps.begin(call), &enter)?;
        }
        let ring = Ring::open(&maps.ring.fd, RING_BYTES).map_err(TraceError::of("mapping the ring of calls"))?;
        // Only now, so that all of it is seen.
        follow(&maps.processes, Some(with_descendants(&[pid])))?;
        let calls = CountedCalls { ring, open: Open::default(), seen: FilesSeen::default() };
        let calls = Arc::new(Mutex::new(calls));
        let (counted, shared) = (Arc::clone(&calls), Arc::clone(&maps));
        let _reader = Background::start(move |stopped| {
            loop {
                locked(&counted).count_ended();
                if sys::wait(&[stopped.as_fd(), shared.ring.fd.as_fd()], 1_000)[0] {
                    return;
                }
            }
        })?;
        Ok(Self { maps, attached, calls, _reader })
    }

    /// Returns the use of files so far, with all calls that ended before.
    ///
    /// # Errors
    /// The kernel's own, which are not expected.
    pub fn read(&self) -> Result<FilesSeen, TraceError> {
        forget_ended(&self.maps.processes)?;
        let lost = self.maps.lost.read_number()?;
        let mut calls = locked(&self.calls);
        // The thread that counts calls may not have come to all of those that have ended.
        calls.count_ended();
        let lost = calls.seen.lost + lost + self.attached.misses();
        Ok(FilesSeen { lost, ..calls.seen.clone() })
    }
}

/// Calls on their way from the ring to a reading.
struct CountedCalls {
    ring: Ring,
    open: Open,
    /// Counts of the calls that were taken from the ring.
    seen: FilesSeen,
}

impl CountedCalls {
    /// Counts the calls that have ended.
    fn count_ended(&mut self) {
        let Self { ring, open, seen } = self;
        ring.drain(|bytes| open.take(bytes, seen));
    }
}

/// File of each descriptor of each process; `None` for a descriptor of something else.
#[derive(Default)]
struct Open(BTreeMap<(u32, i32), Option<PathBuf>>);

impl Open {
    /// Counts a record.
    fn take(&mut self, bytes: &[u8], seen: &mut FilesSeen) {
        let number = word_at(bytes, record::CALL as usize) as u16;
        let Some(call) = CALLS.iter().find(|call| call.number == number) else { return };
        let pid = word_at(bytes, record::PID as usize);
        let result = wide_at(bytes, record::RESULT as usize) as i64;
        let (first, second) =
            (wide_at(bytes, record::FIRST as usize) as i32, wide_at(bytes, record::SECOND as usize) as i32);
        if result < 0 {
            return;
        }
        let path = match call.path {
            Some(_) => named(bytes, pid, (call.path == Some(1)).then_some(first)).unwrap_or_else(|| {
                // Its process is gone already, and with it the directory that the path begins in.
                seen.lost += 1;
                None
            }),
            None => self.of(pid, first),
        };
        match call.does {
            Does::Open => drop(self.0.insert((pid, result as i32), path.clone())),
            Does::Close => drop(self.0.remove(&(pid, first))),
            Does::Duplicate => drop(self.0.remove(&(pid, second))),
            _ => {}
        }
        let Some(path) = path else { return };
        let Some(file) = seen.at(&path) else { return };
        match call.does {
            Does::Open => file.opens += 1,
            Does::Read => {
                file.reads += 1;
                file.read_bytes += result as u64;
                file.read_sizes.record(result as u64);
            }
            Does::Write => {
                file.writes += 1;
                file.written_bytes += result as u64;
                file.write_sizes.record(result as u64);
            }
            Does::Sync => file.syncs += 1,
            Does::Close => file.closes += 1,
            Does::Delete => file.deletes += 1,
            Does::Rename => file.renames += 1,
            Does::Truncate => file.resizes += 1,
            Does::Duplicate => {}
        }
    }

    /// The file that a descriptor is, as it was opened, or as it is now where that was before.
    fn of(&mut self, pid: u32, fd: i32) -> Option<PathBuf> {
        let found = || of_descriptor(pid, fd).filter(|path| is_file(path));
        self.0.entry((pid, fd)).or_insert_with(found).clone()
    }
}

/// A path, and none of a socket, a pipe, or what the kernel makes up.
fn is_file(path: &Path) -> bool {
    path.is_absolute() && !path.starts_with("/proc") && !path.starts_with("/sys")
}

/// The path that a record has, from the root on, if it is a file's; `None` where it cannot be told.
fn named(bytes: &[u8], pid: u32, directory: Option<i32>) -> Option<Option<PathBuf>> {
    use std::os::unix::ffi::OsStrExt;
    let text = bytes.get(record::PATH as usize..)?;
    let text = text.get(..text.iter().position(|byte| *byte == 0)?).filter(|text| !text.is_empty())?;
    let path = Path::new(std::ffi::OsStr::from_bytes(text));
    let from = match directory {
        _ if path.is_absolute() => PathBuf::new(),
        Some(fd) if fd != libc::AT_FDCWD => of_descriptor(pid, fd)?,
        _ => std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?,
    };
    // Without `.`; `..` stays.
    Some(Some(from.join(path).components().collect()).filter(|path: &PathBuf| is_file(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::ENTRY_BYTES;

    #[test]
    fn a_reading_counts_all_calls_that_ended_before_it() {
        let mut tracer = FileTracer::start(std::process::id()).unwrap();
        // As on a machine with no time for the thread that counts calls.
        tracer._reader = Background::start(drop).unwrap();
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let file = std::fs::File::create(&path).unwrap();
        (0..3).for_each(|_| file.sync_all().unwrap());
        drop(file);
        let read = || tracer.read().unwrap().files.remove(&path).unwrap();
        let used = read();
        assert_eq!((used.opens, used.syncs, used.closes), (1, 3, 1), "{used:?}");
        // Each is counted once.
        assert_eq!(read(), used);
    }

    #[test]
    fn threads_and_processes_that_have_ended_leave_room_for_others() {
        let tracer = FileTracer::start(std::process::id()).unwrap();
        let has_thread = |tid: u32| {
            let mut has = false;
            let look = |one: &[u8; 4], _: &[u8; ENTRY_BYTES]| has |= u32::from_ne_bytes(*one) == tid;
            tracer.maps.threads.each::<4, ENTRY_BYTES>(look).unwrap();
            has
        };
        let has_process = |pid: u32| {
            let mut has = false;
            tracer.maps.processes.each::<4, 1>(|one, _| has |= u32::from_ne_bytes(*one) == pid).unwrap();
            has
        };
        let (told, number) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            drop(std::fs::File::open("/dev/null").unwrap());
            let this = std::fs::read_link("/proc/thread-self").unwrap();
            told.send(this.file_name().unwrap().display().to_string()).unwrap();
            assert!(ended.recv().is_err());
        });
        let tid: u32 = number.recv().unwrap().parse().unwrap();
        assert!(has_thread(tid), "{tid}");
        drop(end);
        thread.join().unwrap();
        // The kernel lets another thread join it before its number is free.
        while is_there(tid) {
            std::thread::yield_now();
        }
        assert!(!has_thread(tid), "{tid}");

        let mut child = std::process::Command::new("true").spawn().unwrap();
        assert!(child.wait().unwrap().success() && has_process(child.id()));
        tracer.read().unwrap();
        assert!(!has_process(child.id()), "{}", child.id());
    }
}
