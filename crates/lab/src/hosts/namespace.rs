//! A network namespace without a name.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::thread::{LinkNameSpaceType, UnshareFlags};

/// Path of the calling thread's network namespace.
const OWN: &str = "/proc/thread-self/ns/net";

/// Namespace in which this process was started.
static HOME: OnceLock<File> = OnceLock::new();

thread_local! {
    /// Number of [`NamespaceGuard`] values of this thread.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// A network namespace that lives at least as long as this value.
pub(super) struct Namespace(File);

impl Namespace {
    /// Makes a namespace and calls `furnish` in it.
    pub(super) fn make<T: Send>(furnish: impl FnOnce() -> io::Result<T> + Send) -> io::Result<(Self, T)> {
        // The thread that enters it ends, so no other thread is ever in an unexpected namespace.
        let made = || {
            // SAFETY: only this thread's network changes, and no file becomes less shared than before.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET)? };
            Ok((Self(File::open(OWN)?), furnish()?))
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("hosts".to_owned()).spawn_scoped(scope, made)?;
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that makes a host has failed")))
        })
    }

    /// Opens the namespace of another process.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        File::open(path).map(Self)
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Returns the path under which another process of this user can open the namespace.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()))
    }

    /// Moves the calling thread into the namespace until the guard is dropped.
    pub(super) fn enter(&self) -> io::Result<NamespaceGuard> {
        if HOME.get().is_none() {
            // The first thread to get here is still in the namespace of the start.
            let _ = HOME.set(File::open(OWN)?);
        }
        go_into(self.file())?;
        DEPTH.set(DEPTH.get() + 1);
        Ok(NamespaceGuard(PhantomData))
    }
}

/// Network of a thread, which other threads can enter.
pub struct ThreadNetwork(Namespace);

impl ThreadNetwork {
    /// Returns the network of the calling thread.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn of_this_thread() -> io::Result<Self> {
        Namespace::open(Path::new(OWN)).map(Self)
    }

    /// Returns the path under which another process of this user can open the network.
    pub fn path(&self) -> PathBuf {
        self.0.path()
    }

    /// Moves the calling thread into this network, as [`Host::enter`](super::Host::enter) does. Returns `None` if it is
    /// there.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn enter(&self) -> io::Result<Option<NamespaceGuard>> {
        let (own, wanted) = (rustix::fs::stat(OWN)?, rustix::fs::fstat(self.0.file())?);
        let is_there = (own.st_dev, own.st_ino) == (wanted.st_dev, wanted.st_ino);
        (!is_there).then(|| self.0.enter()).transpose()
    }
}

/// Guard of a thread that is in a host's network. Dropping a thread's last guard moves it back to the namespace in
/// which the process was started.
pub struct NamespaceGuard(PhantomData<*const ()>);

impl Drop for NamespaceGuard {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if let Some(home) = HOME.get().filter(|_| DEPTH.get() == 0) {
            // Cannot fail for lack of privilege: the thread had it when it entered.
            let _ = go_into(home.as_fd());
        }
    }
}

/// Calls `act` on a thread in the namespace in which this process was started. Processes that it starts inherit that.
pub(crate) fn at_home<T: Send>(act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let Some(home) = HOME.get() else { return act() };
    let act_there = || {
        go_into(home.as_fd())?;
        act()
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("hosts".to_owned()).spawn_scoped(scope, act_there)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that starts a process has failed")))
    })
}

/// Moves the calling thread into this network namespace.
pub(crate) fn go_into(namespace: BorrowedFd<'_>) -> io::Result<()> {
    rustix::thread::move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network)).map_err(Into::into)
}
