//! The one file through which the kernel's loop device reaches the disk.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, WriteFlags,
};
use plimsoll_core::fault::RequestKind;

use crate::disk::DiskDevice;
use crate::shared::{DueReply, SharedDevice};

/// The file's name.
pub(crate) const FILE: &str = "device";
/// Source of this file system in mount tables.
pub(crate) const SOURCE: &str = "plimsoll-faultfs";
const DEVICE: INodeNo = INodeNo(2);
/// The longest write or read that arrives at once: the kernel's limit for FUSE.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Requests that a loop device has in flight.
const REQUESTS_MAX: u16 = 128;
/// Granularity of discards: a loop device takes it from here.
const BLOCK_BYTES: u32 = 4096;
/// Time that the kernel may cache the attributes of the file. They never change.
const BELIEVE: Duration = Duration::from_secs(3600);

/// Mounts the file system; it is served from now on.
pub(crate) fn mount(shared: &Arc<SharedDevice<DiskDevice>>, at: &std::path::Path) -> io::Result<BackgroundSession> {
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

struct Device(Arc<SharedDevice<DiskDevice>>);

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
        self.0.opened();
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
        self.0.closed();
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
            let delay = disk.delay(RequestKind::Read, offset, data.len() as u64);
            (read.map(|()| data), delay)
        });
        self.0.answer(delay, DueReply::Read(reply, read));
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
        let (written, delay) =
            self.0.with(|disk| (disk.write(offset, data), disk.delay(RequestKind::Write, offset, data.len() as u64)));
        self.0.answer(delay, DueReply::Write(reply, written.map(|()| data.len() as u32)));
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let (flushed, delay) = self.0.with(|disk| (disk.flush(), disk.delay(RequestKind::Flush, 0, 0)));
        self.0.answer(delay, DueReply::Flush(reply, flushed));
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
        let (discarded, delay) =
            self.0.with(|disk| (disk.discard(offset, length), disk.delay(RequestKind::Write, offset, 0)));
        self.0.answer(delay, DueReply::Other(reply, discarded));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let blocks = self.0.with(|disk| disk.size_bytes()) / u64::from(BLOCK_BYTES);
        reply.statfs(blocks, 0, 0, 1, 0, BLOCK_BYTES, 255, BLOCK_BYTES);
    }
}
