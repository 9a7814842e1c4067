//! The one file through which the kernel's loop device reaches the disk, and answers that are given late.

use std::ffi::OsStr;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, WriteFlags,
};
use plimsoll_core::fault::On;

use crate::disk::Disk;

/// The file's name.
pub(crate) const FILE: &str = "device";
/// What mount tables call the source of this file system.
pub(crate) const SOURCE: &str = "plimsoll-faultfs";
const DEVICE: INodeNo = INodeNo(2);
/// The longest write or read that arrives at once: the kernel's limit for FUSE.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// As many requests as a loop device has under way.
const REQUESTS_MAX: u16 = 128;
/// Granularity of discards: a loop device takes it from here.
const BLOCK_BYTES: u32 = 4096;
/// How long the kernel may believe what it was told of the file. It never changes.
const BELIEVE: Duration = Duration::from_secs(3600);

/// The disk, as FUSE and the control socket share it.
pub(crate) struct Shared {
    disk: Mutex<Disk>,
    has_cut: Condvar,
    open: AtomicU64,
    late: Mutex<Vec<(Instant, Answer)>>,
    is_late: Condvar,
}

impl Shared {
    pub(crate) fn new(disk: Disk) -> Arc<Self> {
        Arc::new(Self {
            disk: Mutex::new(disk),
            has_cut: Condvar::new(),
            open: AtomicU64::new(0),
            late: Mutex::default(),
            is_late: Condvar::new(),
        })
    }

    /// Does something with the disk. Those who wait for a cut hear of one.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Disk) -> T) -> T {
        let mut disk = locked(&self.disk);
        let had_power = disk.cut().is_none();
        let done = act(&mut disk);
        if had_power && disk.cut().is_some() {
            self.has_cut.notify_all();
            drop(disk);
            self.is_late.notify_all();
        }
        done
    }

    /// How often the file is open: at least once while a loop device is on it.
    pub(crate) fn open(&self) -> u64 {
        self.open.load(Ordering::SeqCst)
    }

    /// Waits for the power to go, or until `limit` is over.
    pub(crate) fn wait_for_cut(&self, limit: Duration) {
        let disk = locked(&self.disk);
        let waited = self.has_cut.wait_timeout_while(disk, limit, |disk| disk.cut().is_none());
        drop(waited);
    }

    /// Gives an answer now, or after the delay that is set for such requests.
    fn answer(&self, delay: Option<Duration>, answer: Answer) {
        match delay {
            None => answer.give(false),
            Some(delay) => {
                locked(&self.late).push((Instant::now() + delay, answer));
                self.is_late.notify_all();
            }
        }
    }

    /// Gives late answers as they become due, or at once when the power has gone. Never returns.
    fn give_late(&self) {
        let mut late = locked(&self.late);
        loop {
            let is_dead = locked(&self.disk).cut().is_some();
            let now = Instant::now();
            while let Some(at) = late.iter().position(|(due, _)| is_dead || *due <= now) {
                late.swap_remove(at).1.give(is_dead);
            }
            // Not for ever, so that a cut which is missed in between delays no answer for long.
            let next = late.iter().map(|(due, _)| due.saturating_duration_since(now)).min();
            let wait = next.map_or(Duration::from_secs(1), |next| next.min(Duration::from_millis(10)));
            late = match self.is_late.wait_timeout(late, wait) {
                Ok((late, _)) => late,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An answer that is known, with whom it is for.
enum Answer {
    Read(ReplyData, Result<Vec<u8>, rustix::io::Errno>),
    Write(ReplyWrite, Result<u32, rustix::io::Errno>),
    Other(ReplyEmpty, Result<(), rustix::io::Errno>),
}

impl Answer {
    fn give(self, is_dead: bool) {
        let error = |errno: rustix::io::Errno| Errno::from_i32(if is_dead { libc::EIO } else { errno.raw_os_error() });
        match self {
            Self::Read(reply, Ok(data)) if !is_dead => reply.data(&data),
            Self::Read(reply, done) => reply.error(error(done.err().unwrap_or(rustix::io::Errno::IO))),
            Self::Write(reply, Ok(length)) if !is_dead => reply.written(length),
            Self::Write(reply, done) => reply.error(error(done.err().unwrap_or(rustix::io::Errno::IO))),
            Self::Other(reply, Ok(())) if !is_dead => reply.ok(),
            Self::Other(reply, done) => reply.error(error(done.err().unwrap_or(rustix::io::Errno::IO))),
        }
    }
}

/// Mounts the file system; it is served from now on.
pub(crate) fn mount(shared: &Arc<Shared>, at: &std::path::Path) -> io::Result<BackgroundSession> {
    let late = Arc::clone(shared);
    std::thread::Builder::new().name("late".into()).spawn(move || late.give_late())?;
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(SOURCE.into()),
        MountOption::NoAtime,
        MountOption::NoExec,
        MountOption::NoSuid,
        MountOption::NoDev,
    ];
    fuser::spawn_mount(Device(Arc::clone(shared)), at, &config)
}

struct Device(Arc<Shared>);

impl Device {
    fn attributes(&self, ino: INodeNo) -> Option<FileAttr> {
        let size = self.0.with(|disk| disk.size_bytes());
        let (kind, perm, size) = match ino {
            INodeNo::ROOT => (FileType::Directory, 0o700, 0),
            DEVICE => (FileType::RegularFile, 0o600, size),
            _ => return None,
        };
        let time = SystemTime::UNIX_EPOCH;
        Some(FileAttr {
            ino,
            size,
            blocks: size / 512,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: BLOCK_BYTES,
            flags: 0,
        })
    }
}

impl Filesystem for Device {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What a kernel does not have makes it slower, and nothing else.
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.set_max_background(REQUESTS_MAX);
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(DEVICE).filter(|_| parent == INodeNo::ROOT && name == FILE) {
            Some(attributes) => reply.entry(&BELIEVE, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino) {
            Some(attributes) => reply.attr(&BELIEVE, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        if offset == 0 {
            let _ = reply.add(DEVICE, 1, FileType::RegularFile, FILE);
        }
        reply.ok();
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.0.open.fetch_add(1, Ordering::SeqCst);
        // Nothing may be cached between the loop device and here.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
        reply.ok();
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // A close(2), which makes nothing durable.
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let (read, delay) = self.0.with(|disk| {
            let mut data = vec![0; u64::from(size).min(disk.size_bytes().saturating_sub(offset)) as usize];
            // The end of the file is no sector.
            let read = if data.is_empty() { Ok(()) } else { disk.read(offset, &mut data) };
            (read.map(|()| data), disk.delay(On::Read))
        });
        self.0.answer(delay, Answer::Read(reply, read));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let (written, delay) = self.0.with(|disk| (disk.write(offset, data), disk.delay(On::Write)));
        self.0.answer(delay, Answer::Write(reply, written.map(|()| data.len() as u32)));
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let (flushed, delay) = self.0.with(|disk| (disk.flush(), disk.delay(On::Flush)));
        self.0.answer(delay, Answer::Other(reply, flushed));
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) == 0 {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let (discarded, delay) = self.0.with(|disk| (disk.discard(offset, length), disk.delay(On::Write)));
        self.0.answer(delay, Answer::Other(reply, discarded));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let blocks = self.0.with(|disk| disk.size_bytes()) / u64::from(BLOCK_BYTES);
        reply.statfs(blocks, 0, 0, 1, 0, BLOCK_BYTES, 255, BLOCK_BYTES);
    }
}
