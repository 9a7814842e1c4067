//! One network namespace without a name.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::thread::{LinkNameSpaceType, UnshareFlags};

/// The calling thread's network namespace.
const OWN: &str = "/proc/thread-self/ns/net";

/// The namespace in which this process was started.
static HOME: OnceLock<File> = OnceLock::new();

thread_local! {
    /// How many [`Entered`] of this thread there are.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// A network namespace that lives at least as long as this value.
pub(super) struct Namespace(File);

impl Namespace {
    /// A new one, in which `furnish` is called.
    pub(super) fn make<T: Send>(furnish: impl FnOnce() -> io::Result<T> + Send) -> io::Result<(Self, T)> {
        // The thread that is in it ends: no other is ever where it does not expect to be.
        let made = || {
            // SAFETY: only the network is another one for this thread, and no file is shared less than before.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET)? };
            Ok((Self(File::open(OWN)?), furnish()?))
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("hosts".to_owned()).spawn_scoped(scope, made)?;
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that makes a host has failed")))
        })
    }

    /// That of another process.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        File::open(path).map(Self)
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Where another process of this user opens it.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()))
    }

    /// Has the calling thread in it until the value is dropped.
    pub(super) fn enter(&self) -> io::Result<Entered> {
        if HOME.get().is_none() {
            // Whoever comes first is there still.
            let _ = HOME.set(File::open(OWN)?);
        }
        go_into(self.file())?;
        DEPTH.set(DEPTH.get() + 1);
        Ok(Entered(PhantomData))
    }
}

/// A thread that is in a host's network. With the last one of a thread it goes back to where the process was started.
pub struct Entered(PhantomData<*const ()>);

impl Drop for Entered {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if let Some(home) = HOME.get().filter(|_| DEPTH.get() == 0) {
            // Who could go into one may go into the other.
            let _ = go_into(home.as_fd());
        }
    }
}

/// Has the calling thread in this network namespace.
pub(crate) fn go_into(namespace: BorrowedFd<'_>) -> io::Result<()> {
    rustix::thread::move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network)).map_err(Into::into)
}
