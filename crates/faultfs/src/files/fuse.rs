//! Access of the kernel to the files: a FUSE file system that performs each request on the directory below.
//!
//! The kernel caches data that were read, names and attributes, since it alone changes them; a write arrives here
//! immediately, and a write to a shared mapping when the kernel writes it back: at the latest before an fsync. Locks
//! stay in the kernel.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Config, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek,
    ReplyOpen, ReplyStatfs, ReplyWrite, Request, SessionACL, TimeOrNow, WriteFlags,
};
use plimsoll_core::fault::RequestKind;
use rustix::fs::{AtFlags, FallocateFlags, FileType, RenameFlags, SeekFrom, Stat, StatVfs, Timespec, Timestamps};
use rustix::io::Errno;

use crate::files::{Maker, New, Tree};
use crate::fuse::SOURCE;
use crate::shared::{DueReply, SharedDevice, locked};

/// The longest write or read that arrives at once: the kernel's limit for FUSE.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Time that the kernel may cache answers: it alone changes anything.
const BELIEVE: Duration = Duration::from_secs(3600);
/// Requests at a time: while one waits for a sync of what is underneath, others go on.
const THREADS: usize = 4;

/// A directory's entries, as they were when it was read from its beginning.
type Listing = Vec<(u64, FileType, OsString)>;

thread_local! {
    /// Buffer of the last read, so that a read allocates nothing.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

struct Files {
    shared: Arc<SharedDevice<Tree>>,
    /// Underneath: the number of the directory which the kernel knows as 1.
    root: u64,
    listings: Mutex<(u64, HashMap<u64, Listing>)>,
}

/// Mounts the files; they are served from now on, until they are unmounted.
pub(crate) fn mount(shared: &Arc<SharedDevice<Tree>>, at: &Path) -> io::Result<()> {
    let root = shared.with(|tree| tree.root());
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(SOURCE.into()),
        MountOption::NoAtime,
        MountOption::NoDev,
        MountOption::DefaultPermissions,
    ];
    // Who may do what is up to the modes of the files.
    config.acl = SessionACL::All;
    config.n_threads = Some(THREADS);
    shared.opened();
    let files = Files { shared: Arc::clone(shared), root, listings: Mutex::default() };
    let session = fuser::spawn_mount(files, at, &config)?;
    // Dropping it would unmount, which is up to the user of the mount.
    std::mem::forget(session);
    Ok(())
}

fn told(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.raw_os_error())
}

/// Answers with nothing, or the error.
macro_rules! answer {
    ($reply:ident, $done:expr, $value:pat => $with:expr) => {
        match $done {
            Ok($value) => $with,
            Err(errno) => $reply.error(told(errno)),
        }
    };
}

impl Files {
    fn with<T>(&self, act: impl FnOnce(&mut Tree) -> T) -> T {
        self.shared.with(act)
    }

    fn ino(&self, ino: INodeNo) -> u64 {
        if ino == INodeNo::ROOT { self.root } else { ino.0 }
    }

    fn attributes(&self, stat: &Stat) -> FileAttr {
        let time = |seconds: i64, nanoseconds: u64| {
            let part = Duration::from_nanos(nanoseconds);
            match u64::try_from(seconds) {
                Ok(seconds) => SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + part,
                Err(_) => SystemTime::UNIX_EPOCH - Duration::from_secs(seconds.unsigned_abs()) + part,
            }
        };
        FileAttr {
            ino: if stat.st_ino == self.root { INodeNo::ROOT } else { INodeNo(stat.st_ino) },
            size: stat.st_size as u64,
            blocks: stat.st_blocks as u64,
            atime: time(stat.st_atime, stat.st_atime_nsec),
            mtime: time(stat.st_mtime, stat.st_mtime_nsec),
            ctime: time(stat.st_ctime, stat.st_ctime_nsec),
            crtime: SystemTime::UNIX_EPOCH,
            kind: kind(FileType::from_raw_mode(stat.st_mode)),
            perm: (stat.st_mode & 0o7777) as u16,
            nlink: stat.st_nlink as u32,
            uid: stat.st_uid,
            gid: stat.st_gid,
            rdev: stat.st_rdev as u32,
            blksize: stat.st_blksize as u32,
            flags: 0,
        }
    }

    /// Answers with a name's file, which the kernel knows once more then.
    fn entry(&self, reply: ReplyEntry, act: impl FnOnce(&mut Tree) -> Result<Stat, Errno>) {
        let found = self.with(|tree| {
            let stat = act(tree)?;
            tree.looked_up(stat.st_ino);
            Ok(stat)
        });
        answer!(reply, found, stat => reply.entry(&BELIEVE, &self.attributes(&stat), Generation(0)));
    }

    fn make(&self, request: &Request, reply: ReplyEntry, parent: INodeNo, name: &OsStr, new: &New<'_>, mode: u32) {
        let maker = Maker { uid: request.uid(), gid: request.gid(), mode };
        self.entry(reply, |tree| tree.make(self.ino(parent), name, new, maker));
    }

    fn sync(&self, ino: INodeNo, is_data_only: bool, reply: ReplyEmpty) {
        let (synced, delay) =
            self.with(|tree| (tree.sync(self.ino(ino), is_data_only), tree.delay(RequestKind::Flush)));
        let synced = synced.and_then(|node| match node.map(|node| node.sync(is_data_only)) {
            Some(Err(errno)) => self.with(|tree| tree.need(Err(errno.into()))),
            _ => Ok(()),
        });
        self.shared.answer(delay, DueReply::Flush(reply, synced));
    }
}

impl Drop for Files {
    /// Runs at an unmount, and if a mount fails.
    fn drop(&mut self) {
        self.shared.closed();
    }
}

fn kind(kind: FileType) -> fuser::FileType {
    match kind {
        FileType::Directory => fuser::FileType::Directory,
        FileType::Symlink => fuser::FileType::Symlink,
        FileType::Fifo => fuser::FileType::NamedPipe,
        FileType::Socket => fuser::FileType::Socket,
        FileType::CharacterDevice => fuser::FileType::CharDevice,
        FileType::BlockDevice => fuser::FileType::BlockDevice,
        _ => fuser::FileType::RegularFile,
    }
}

/// A time that a file is given, as utimensat(2) takes it.
fn timespec(time: Option<TimeOrNow>) -> Timespec {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    match time {
        None => special(rustix::fs::UTIME_OMIT),
        Some(TimeOrNow::Now) => special(rustix::fs::UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => {
            let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            Timespec { tv_sec: since.as_secs() as i64, tv_nsec: since.subsec_nanos().into() }
        }
    }
}

impl Filesystem for Files {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What a kernel does not have makes it slower, and nothing else.
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        let _ = config.add_capabilities(InitFlags::FUSE_CACHE_SYMLINKS);
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(reply, |tree| tree.lookup(self.ino(parent), name));
    }

    fn forget(&self, _: &Request, ino: INodeNo, times: u64) {
        self.with(|tree| tree.forget(self.ino(ino), times));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let found = self.with(|tree| tree.node(self.ino(ino))).and_then(|node| node.stat());
        answer!(reply, found, stat => reply.attr(&BELIEVE, &self.attributes(&stat)));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = self.with(|tree| {
            let ino = self.ino(ino);
            if let Some(size) = size {
                tree.truncate(ino, size)?;
            }
            if mode.or(uid).or(gid).is_some() {
                tree.set_attributes(ino, mode, uid, gid)?;
            }
            let node = tree.node(ino)?;
            if atime.is_some() || mtime.is_some() {
                let times = Timestamps { last_access: timespec(atime), last_modification: timespec(mtime) };
                rustix::fs::utimensat(node.fd(), "", &times, AtFlags::EMPTY_PATH)?;
            }
            node.stat()
        });
        answer!(reply, set, stat => reply.attr(&BELIEVE, &self.attributes(&stat)));
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let node = self.with(|tree| tree.node(self.ino(ino)));
        let target = node.and_then(|node| rustix::fs::readlinkat(node.fd(), "", Vec::new()));
        answer!(reply, target, target => reply.data(target.as_bytes()));
    }

    fn mknod(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, rdev: u32, reply: ReplyEntry) {
        let new = match FileType::from_raw_mode(mode) {
            FileType::RegularFile | FileType::Unknown => New::File,
            kind => New::Special(kind, rdev.into()),
        };
        self.make(request, reply, parent, name, &new, mode);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        self.make(request, reply, parent, name, &New::Directory, mode);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        self.make(request, reply, parent, name, &New::Link(target), 0o777);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.with(|tree| tree.remove(self.ino(parent), name, false)), () => reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.with(|tree| tree.remove(self.ino(parent), name, true)), () => reply.ok());
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: fuser::RenameFlags,
        reply: ReplyEmpty,
    ) {
        let flags = RenameFlags::from_bits_retain(flags.bits() as _);
        let renamed = self.with(|tree| tree.rename((self.ino(parent), name), (self.ino(new_parent), new_name), flags));
        answer!(reply, renamed, () => reply.ok());
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(reply, |tree| tree.link(self.ino(ino), self.ino(parent), name));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Nothing is to be known of who has it open, and the kernel does not ask again.
        reply.error(fuser::Errno::ENOSYS);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let ino = self.ino(ino);
        let (node, delay) = self.with(|tree| (tree.read(ino), tree.delay(RequestKind::Read)));
        BUFFER.with_borrow_mut(|buffer| {
            let size = size as usize;
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            let into = buffer.get_mut(..size).unwrap_or_default();
            let errno = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
            let read = node.and_then(|node| node.read(into, offset).map_err(errno));
            let bytes = into.get_mut(..read.unwrap_or(0)).unwrap_or_default();
            self.with(|tree| tree.rot(ino, offset, bytes));
            if read.is_ok() && delay.is_none() {
                return reply.data(bytes);
            }
            self.shared.answer(delay, DueReply::Read(reply, read.map(|_| bytes.to_vec())));
        });
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let (written, delay) =
            self.with(|tree| (tree.write(self.ino(ino), offset, data), tree.delay(RequestKind::Write)));
        self.shared.answer(delay, DueReply::Write(reply, written.map(|()| data.len() as u32)));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // A close(2), which makes nothing durable; the kernel does not say so again.
        reply.error(fuser::Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, is_data_only: bool, reply: ReplyEmpty) {
        self.sync(ino, is_data_only, reply);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, is_data_only: bool, reply: ReplyEmpty) {
        self.sync(ino, is_data_only, reply);
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let mut listings = locked(&self.listings);
        listings.0 += 1;
        reply.opened(FileHandle(listings.0), FopenFlags::empty());
    }

    fn readdir(&self, _: &Request, ino: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let mut listings = locked(&self.listings);
        if offset == 0 {
            match self.with(|tree| tree.list(self.ino(ino))) {
                Ok(listing) => _ = listings.1.insert(handle.0, listing),
                Err(errno) => return reply.error(told(errno)),
            }
        }
        let listing = listings.1.get(&handle.0).map_or(&[][..], |listing| listing);
        for (at, (ino, kind, name)) in listing.iter().enumerate().skip(offset as usize) {
            let ino = if *ino == self.root { INodeNo::ROOT } else { INodeNo(*ino) };
            if reply.add(ino, at as u64 + 1, self::kind(*kind), name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        locked(&self.listings).1.remove(&handle.0);
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        let (done, delay) =
            self.with(|tree| (tree.allocate(self.ino(ino), offset, length, mode), tree.delay(RequestKind::Write)));
        self.shared.answer(delay, DueReply::Other(reply, done));
    }

    fn lseek(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let node = self.with(|tree| tree.node(self.ino(ino)));
        let to = match whence {
            libc::SEEK_DATA => SeekFrom::Data(offset as u64),
            _ => SeekFrom::Hole(offset as u64),
        };
        let found = node.and_then(|node| rustix::fs::seek(node.data()?.as_fd(), to));
        answer!(reply, found, found => reply.offset(found as i64));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let node = self.with(|tree| tree.node(self.root));
        let of =
            |StatVfs { f_blocks, f_bfree, f_bavail, f_files, f_ffree, f_bsize, f_namemax, f_frsize, .. }: StatVfs,
             reply: ReplyStatfs| {
                reply.statfs(
                    f_blocks,
                    f_bfree,
                    f_bavail,
                    f_files,
                    f_ffree,
                    f_bsize as u32,
                    f_namemax as u32,
                    f_frsize as u32,
                );
            };
        answer!(reply, node.and_then(|node| rustix::fs::fstatvfs(node.fd())), found => of(found, reply));
    }
}
