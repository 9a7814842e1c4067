//! A fault device from its beginning to its end: daemon, loop device, file system, mount; a power cycle; removal.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_core::FileSystem;
use plimsoll_core::fault::{CutMoment, Survivors};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType};
use rustix::process::Signal;

use crate::control::Control;
use crate::counters::AtRisk;
use crate::crash_image::BLOCK_BYTES;
use crate::daemon::{GO, READY_BYTES_MAX, execute};
use crate::error::FaultError;
use crate::fuse::FILE;
use crate::image;
use crate::loop_device::{LOOK_INTERVAL, mount_file, unmount};
use crate::remove::{MADE, mark, remove, sweep, sweep_orphans};

/// Entries of a device's directory.
pub(crate) const MOUNT: &str = "mount";
pub(crate) const FUSE: &str = "fuse";
pub(crate) const IMAGE: &str = "image";
pub(crate) const BASE: &str = "base";
pub(crate) const LOG: &str = "log";
pub(crate) const IMAGES: &str = "images";
pub(crate) const FILES: &str = "files";
pub(crate) const UNDO: &str = "undo";
pub(crate) const MARK: &str = "plimsoll-faultfs";

/// Magic number of FUSE (linux/magic.h).
const FUSE_MAGIC: i64 = 0x6573_5546;

/// Time limit for the daemon to be ready, or to end.
const DAEMON_BOUND: Duration = Duration::from_secs(30);
/// Time that processes may still use a mount that is to be cycled.
const USE_BOUND: Duration = Duration::from_secs(20);

/// Directories of this process's devices that are served.
static OWN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Cuts the power of all devices of this process. A thread that waits for a delayed flush ends only with that, and the
/// process only with its threads.
pub fn cut_own_power() {
    let own = OWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for directory in own {
        // A daemon that does not answer is left to the end of its socket.
        let _ = Control::of_directory(&directory).arm(CutMoment::Now);
    }
}

/// Specification of a device.
#[derive(Debug, Clone)]
pub struct DeviceSpec {
    /// Directory of its files and mounts. It is empty, or does not exist yet; then it is removed with the device. It takes as much of its disk as is
    /// written to the device, and as much again as is un-flushed or logged.
    pub directory: PathBuf,
    /// A multiple of 4096.
    pub size_bytes: u64,
    /// File system that is made on it.
    pub file_system: FileSystem,
    /// True if all requests are kept in order, for [`crate::crash_images`]. Not of [`FileSystem::Files`].
    pub keep_log: bool,
    /// Directory of [`FileSystem::Files`], which has no size. It stays, and is on the file system of `directory`;
    /// without it, a new one is made.
    pub files: Option<PathBuf>,
}

/// A mounted file system on a device that lies. Everything is removed with this value, and also when its process dies.
#[derive(Debug)]
pub struct FaultDevice {
    directory: PathBuf,
    mount_point: PathBuf,
    file_system: FileSystem,
    /// Locked for as long as this lives.
    mark: File,
    daemon: Option<(Child, OwnedFd)>,
    is_closed: bool,
}

impl FaultDevice {
    /// Makes one, and mounts it. Removes devices that were left by killed processes first.
    ///
    /// # Errors
    /// Where this is not root, the kernel has no FUSE or loop device, mkfs is not installed, or the directory is not empty.
    pub fn start(spec: &DeviceSpec) -> Result<Self, FaultError> {
        Self::must_be_possible(spec.file_system, spec.size_bytes)?;
        if spec.keep_log && spec.file_system == FileSystem::Files {
            return Err(FaultError::Usage("a log is kept of a device, and not of files".into()));
        }
        let mkfs = Mkfs::of(spec.file_system)?;
        sweep_orphans();
        let (directory, mark) = claim(&spec.directory)?;
        let mount_point = directory.join(MOUNT);
        let file_system = spec.file_system;
        let mut device = Self { directory, mount_point, file_system, mark, daemon: None, is_closed: false };
        // First, because it removes what there is by then when this process dies.
        device.execute_daemon(spec)?;
        device.set_up(spec, mkfs.as_ref())?;
        OWN.lock().unwrap_or_else(PoisonError::into_inner).push(device.directory.clone());
        Ok(device)
    }

    /// Refuses a device that cannot be made here; makes nothing.
    ///
    /// # Errors
    /// As [`FaultDevice::start`], but for the directory and loop devices.
    pub fn must_be_possible(file_system: FileSystem, size_bytes: u64) -> Result<(), FaultError> {
        if !rustix::process::geteuid().is_root() {
            return Err(FaultError::NotRoot);
        }
        File::options().read(true).write(true).open("/dev/fuse").map_err(FaultError::NoFuse)?;
        let least_bytes = least_bytes(file_system);
        if size_bytes < least_bytes {
            return Err(FaultError::TooSmall { size_bytes, file_system, least_bytes });
        }
        if !size_bytes.is_multiple_of(BLOCK_BYTES) {
            return Err(FaultError::Usage(format!("{size_bytes} bytes are not a multiple of {BLOCK_BYTES}")));
        }
        Mkfs::of(file_system).map(drop)
    }

    fn set_up(&mut self, spec: &DeviceSpec, mkfs: Option<&Mkfs>) -> Result<(), FaultError> {
        let path = |name| self.directory.join(name);
        for name in [MOUNT, FUSE, IMAGES] {
            fs::create_dir(path(name)).map_err(FaultError::at(&path(name)))?;
        }
        let Some(mkfs) = mkfs else {
            if spec.files.is_none() {
                fs::create_dir(path(FILES)).map_err(FaultError::at(&path(FILES)))?;
            }
            // The files that were removed had no other owner.
            fs::DirBuilder::new().mode(0o700).create(path(UNDO)).map_err(FaultError::at(&path(UNDO)))?;
            return self.have_it_served();
        };
        let image = private().create_new(true).open(path(IMAGE)).map_err(FaultError::at(&path(IMAGE)))?;
        image.set_len(spec.size_bytes).map_err(FaultError::at(&path(IMAGE)))?;
        mkfs.run(&path(IMAGE))?;
        if spec.keep_log {
            image::copy(&path(IMAGE), &path(BASE)).map_err(FaultError::at(&path(BASE)))?;
        }
        self.have_it_served()?;
        mount_file(&self.directory.join(FUSE).join(FILE), self.file_system, &self.mount_point)?;
        self.control().count_anew()
    }

    fn execute_daemon(&mut self, spec: &DeviceSpec) -> Result<(), FaultError> {
        let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (ours, theirs) = pair.map_err(FaultError::at(&self.directory))?;
        let mut arguments: Vec<OsString> = vec![
            "--serve".into(),
            self.directory.clone().into(),
            spec.size_bytes.to_string().into(),
            spec.file_system.to_string().into(),
            if spec.keep_log { "keep-log" } else { "no-log" }.into(),
        ];
        if spec.file_system == FileSystem::Files {
            arguments.push(self.files_of(spec)?.into());
        }
        let mark = self.mark.try_clone().map_err(FaultError::at(&self.directory))?;
        let child = execute(theirs, Some(mark), &arguments).map_err(FaultError::at(Path::new("/proc/self/exe")))?;
        self.daemon = Some((child, ours));
        Ok(())
    }

    /// Returns the directory of the files.
    fn files_of(&self, spec: &DeviceSpec) -> Result<PathBuf, FaultError> {
        let Some(files) = &spec.files else { return Ok(self.directory.join(FILES)) };
        let files = files.canonicalize().map_err(FaultError::at(files))?;
        let device = |path: &Path| Ok(fs::metadata(path).map_err(FaultError::at(path))?.dev());
        if device(&files)? != device(&self.directory)? {
            let what = format!("{} is on another file system than {}", self.directory.display(), files.display());
            return Err(FaultError::Usage(format!("{what}; name a directory on the same one")));
        }
        if self.directory.starts_with(&files) {
            let what = format!("{} is within {}", self.directory.display(), files.display());
            return Err(FaultError::Usage(format!("{what}; name a directory beside it")));
        }
        Ok(files)
    }

    /// Notifies the daemon that the image is ready, and waits until it serves it.
    fn have_it_served(&self) -> Result<(), FaultError> {
        let gone = |source| FaultError::Gone { directory: self.directory.clone(), source };
        let (_, ours) = self.daemon.as_ref().ok_or_else(|| gone(io::ErrorKind::NotConnected.into()))?;
        rustix::net::send(ours, GO, SendFlags::NOSIGNAL).map_err(|error| gone(error.into()))?;
        if !wait_readable(ours, DAEMON_BOUND).map_err(gone)? {
            return Err(gone(io::ErrorKind::TimedOut.into()));
        }
        let mut said = [0; READY_BYTES_MAX];
        let received = rustix::net::recv(ours, &mut said[..], RecvFlags::empty());
        let length = received.map_err(|error| gone(error.into()))?.0;
        match &said[..length] {
            b"ok" => Ok(()),
            b"" => Err(gone(io::ErrorKind::UnexpectedEof.into())),
            error => Err(FaultError::Refused(String::from_utf8_lossy(error).trim_start_matches("error ").to_owned())),
        }
    }

    /// Returns the mount point, for a server's data.
    pub fn mount_point(&self) -> &Path {
        &self.mount_point
    }

    /// Returns the control, which cuts power and sets faults.
    pub fn control(&self) -> Control {
        Control::of_directory(&self.directory)
    }

    /// Returns the path of the log of all requests, in order, since the device was made or its last power cycle; it
    /// exists with `keep_log` only.
    pub fn log(&self) -> PathBuf {
        self.directory.join(LOG)
    }

    /// The image on which the log begins; there is one with `keep_log` only.
    pub fn base(&self) -> PathBuf {
        self.directory.join(BASE)
    }

    /// A directory for crash images and mounts of them. What is in it is removed with the device.
    pub fn images(&self) -> PathBuf {
        self.directory.join(IMAGES)
    }

    /// The id of the daemon's process.
    pub fn daemon_process(&self) -> Option<u32> {
        self.daemon.as_ref().map(|(child, _)| child.id())
    }

    /// Returns true if the daemon is running.
    pub fn is_running(&mut self) -> bool {
        self.daemon.as_mut().is_some_and(|(child, _)| matches!(child.try_wait(), Ok(None)))
    }

    /// Ends what a cut began: unmounts, keeps of the un-flushed writes what survives, and mounts again, which has the file
    /// system recover. Cuts the power first where that has not gone. Faults stay as they are set.
    ///
    /// # Errors
    /// When the mount is still in use after 20 s; when the file system cannot be mounted any more.
    pub fn power_cycle(&mut self, survivors: &Survivors) -> Result<AtRisk, FaultError> {
        self.control().power_cycle(survivors)
    }

    /// Removes everything.
    ///
    /// # Errors
    /// When something is left.
    pub fn close(mut self) -> Result<(), FaultError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), FaultError> {
        if std::mem::replace(&mut self.is_closed, true) {
            return Ok(());
        }
        OWN.lock().unwrap_or_else(PoisonError::into_inner).retain(|own| *own != self.directory);
        // Without power every wait on the device ends; and a daemon that cannot do that answers nothing else either.
        let is_deaf = self.daemon.is_some() && self.control().arm(CutMoment::Now).is_err();
        if let Some((child, _)) = self.daemon.as_mut().filter(|_| is_deaf) {
            let _ = child.kill();
            let _ = child.wait();
        }
        let removed = remove(&self.directory).map_err(FaultError::at(&self.directory));
        if let Some((mut child, socket)) = self.daemon.take() {
            let _ = rustix::net::shutdown(&socket, Shutdown::Both);
            let until = Instant::now() + DAEMON_BOUND;
            while matches!(child.try_wait(), Ok(None)) {
                if Instant::now() > until {
                    let _ = child.kill();
                }
                std::thread::sleep(LOOK_INTERVAL);
            }
        }
        removed
    }
}

impl Drop for FaultDevice {
    fn drop(&mut self) {
        // What is left is found by the next sweep.
        let _ = self.end();
    }
}

impl Control {
    /// Cycles power as [`FaultDevice::power_cycle`] does, from any process of root's in the same mount namespace.
    ///
    /// # Errors
    /// As there.
    pub fn power_cycle(&self, survivors: &Survivors) -> Result<AtRisk, FaultError> {
        self.arm(CutMoment::Now)?;
        let mount_point = self.directory().join(MOUNT);
        let until = Instant::now() + USE_BOUND;
        let busy = || FaultError::Busy { path: mount_point.clone(), limit_s: USE_BOUND.as_secs() };
        if !unmount(&mount_point, USE_BOUND).map_err(FaultError::at(&mount_point))? {
            return Err(busy());
        }
        // The loop device frees itself after that; another mount namespace may still hold it.
        let file_system = loop {
            match self.state()? {
                (file_system, 0) => break file_system,
                _ if Instant::now() > until => return Err(busy()),
                _ => std::thread::sleep(LOOK_INTERVAL),
            }
        };
        let at_risk = self.power_on(survivors)?;
        if file_system == FileSystem::Files {
            // The daemon has done so.
            return Ok(at_risk);
        }
        let file = self.directory().join(FUSE).join(FILE);
        mount_repaired(&file, file_system, &mount_point)?;
        Ok(at_risk)
    }
}

/// Makes everything durable that is on a mounted device, or a mount of files.
///
/// # Errors
/// As syncfs(2), and when the daemon does not answer.
pub fn sync(mount_point: &Path) -> Result<(), FaultError> {
    let root = File::open(mount_point).map_err(FaultError::at(mount_point))?;
    rustix::fs::syncfs(&root).map_err(FaultError::at(mount_point))?;
    // Of FUSE it writes shared mappings back, and tells no daemon.
    let is_fuse = rustix::fs::fstatfs(&root).map_err(FaultError::at(mount_point))?.f_type == FUSE_MAGIC;
    match mount_point.parent() {
        Some(directory) if is_fuse => Control::of_directory(directory).sync(),
        _ => Ok(()),
    }
}

/// The directory, which is ours from now on, and its mark, locked.
fn claim(directory: &Path) -> Result<(PathBuf, File), FaultError> {
    let is_new = !directory.exists();
    // The parents of a mistyped path are not made.
    if let (true, Err(error)) = (is_new, fs::create_dir(directory)) {
        let what = match error.kind() {
            io::ErrorKind::NotFound => format!(
                "{}: the directory above it does not exist; correct the path, or make that directory",
                directory.display()
            ),
            _ => return Err(FaultError::at(directory)(error)),
        };
        return Err(FaultError::Usage(what));
    }
    let directory = directory.canonicalize().map_err(FaultError::at(directory))?;
    if matches!(mark(&directory), Some((_, false))) {
        return Err(FaultError::InUse(directory));
    }
    sweep(&directory);
    if fs::read_dir(&directory).map_err(FaultError::at(&directory))?.next().is_some() {
        return Err(FaultError::NotEmpty(directory));
    }
    let path = directory.join(MARK);
    let mut mark = match File::create_new(&path) {
        // The owner before removes the directory right now.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(FaultError::InUse(directory)),
        made => made.map_err(FaultError::at(&path))?,
    };
    rustix::fs::flock(&mark, FlockOperation::LockShared).map_err(FaultError::at(&path))?;
    if is_new {
        mark.write_all(MADE).map_err(FaultError::at(&path))?;
    }
    Ok((directory, mark))
}

/// Returns options for files that only their owner may read: they hold data that servers keep from other users.
pub(crate) fn private() -> OpenOptions {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600);
    options
}

/// Waits until `file` can be read, or `bound` is over.
fn wait_readable(file: &OwnedFd, bound: Duration) -> io::Result<bool> {
    let bound = Timespec::try_from(bound).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(rustix::event::poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&bound))? > 0)
}

/// The program that makes a file system.
struct Mkfs {
    program: &'static str,
    path: PathBuf,
    arguments: &'static [&'static str],
}

impl Mkfs {
    fn of(file_system: FileSystem) -> Result<Option<Self>, FaultError> {
        let (program, package, arguments): (_, _, &[&str]) = match file_system {
            // With everything made now: what the kernel makes later would add writes that no server requested.
            FileSystem::Ext4 => {
                ("mkfs.ext4", "e2fsprogs", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"])
            }
            FileSystem::Files => return Ok(None),
            FileSystem::Xfs => ("mkfs.xfs", "xfsprogs", &["-q", "-f"]),
            FileSystem::Btrfs | FileSystem::BtrfsNoDataCow => ("mkfs.btrfs", "btrfs-progs", &["-q", "-f"]),
        };
        let places = ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin"];
        let found = places.iter().map(|place| Path::new(place).join(program)).find(|path| path.exists());
        let path = found.ok_or(FaultError::Missing { program, package })?;
        Ok(Some(Self { program, path, arguments }))
    }

    fn run(&self, image: &Path) -> Result<(), FaultError> {
        // mkfs.btrfs looks at the file of every loop device that is mounted, and gives up at one whose daemon is dead, whosever that
        // is. Without /dev it sees none.
        let mut command = if self.program == "mkfs.btrfs" {
            let mut hidden = Command::new("unshare");
            hidden.args(["--mount", "sh", "-c", "mount -t tmpfs none /dev && exec \"$@\"", "-"]).arg(&self.path);
            hidden
        } else {
            Command::new(&self.path)
        };
        command.args(self.arguments).arg(image).env("LC_ALL", "C").stdin(Stdio::null());
        ends_with_this_thread(&mut command);
        let output = command.output().map_err(FaultError::at(&self.path))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(FaultError::Failed { program: self.program, said })
    }
}

/// Mounts the file system in `file` at `at`; one that cannot be mounted is put right first, if it can be.
pub(crate) fn mount_repaired(file: &Path, file_system: FileSystem, at: &Path) -> Result<(), FaultError> {
    match mount_file(file, file_system, at) {
        Err(FaultError::NotMountable { .. }) if repaired(file, file_system) => mount_file(file, file_system, at),
        done => done,
    }
}

/// Repairs a file system that cannot be mounted, as a machine does at boot, and returns true on success: a torn
/// superblock of ext4 is replaced by a copy of it. The others have no such automatic repair.
fn repaired(file: &Path, file_system: FileSystem) -> bool {
    let places = ["/usr/sbin/e2fsck", "/sbin/e2fsck"].map(Path::new);
    let program = places.into_iter().find(|path| file_system == FileSystem::Ext4 && path.exists());
    let run = |program: &Path| {
        let mut command = Command::new(program);
        command.args(["-f", "-y"]).arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        ends_with_this_thread(&mut command);
        command.status()
    };
    // Exit status 1: errors were corrected (e2fsck(8)).
    program.and_then(|program| run(program).ok()).and_then(|status| status.code()).is_some_and(|code| code <= 1)
}

/// Lets the kernel end the process of `command` if this thread dies, which waits for it. After its owner's death it would
/// write to whatever file bears its image's name by then: that of the directory's next owner.
fn ends_with_this_thread(command: &mut Command) {
    let owner = rustix::process::getpid();
    // SAFETY: system calls only, between fork and exec.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // The owner may have died before that was set.
            if rustix::process::getppid() == Some(owner) { Ok(()) } else { Err(Errno::SRCH.into()) }
        });
    }
}

/// The smallest device that its mkfs takes, or that has a journal.
fn least_bytes(file_system: FileSystem) -> u64 {
    match file_system {
        FileSystem::Ext4 => 16 << 20,
        FileSystem::Xfs => 300 << 20,
        FileSystem::Btrfs | FileSystem::BtrfsNoDataCow => 128 << 20,
        FileSystem::Files => 0,
    }
}
