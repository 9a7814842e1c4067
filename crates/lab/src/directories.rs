//! Directories of one private server: where they may be, their contents, and how they are recognised.
//!
//! ```text
//! BASE/plimsoll-1a2b3c4d/          the caller's, 0711 (0700 where the server runs as the caller)
//!     supervisor                   the mark and the lock: held by Plimsoll and its supervisor while they live
//!     log                          the server's output
//!     program                      the id of the program that was started last, and of the boot
//!     disk                         link to the data directory, if that is on a disk of its own
//!     data/                        the server's user's, 0700
//!     sockets/                     as data/; in a directory elsewhere if this path is too long
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use plimsoll_core::{StoreError, StoreErrorKind, shell_word};
use rustix::fs::{Access, FlockOperation};

use crate::user::ServerUser;

/// Beginning of the names of all directories made here, followed by eight hexadecimal digits.
pub(crate) const NAME_PREFIX: &str = "plimsoll-";
/// File that marks and locks a server's directory.
pub(crate) const MARK_FILE: &str = "supervisor";
/// File with the id of the last program, by which a sweep finds what it left.
pub(crate) const PROGRAM_FILE: &str = "program";
/// Link to a data directory on a disk of its own.
pub(crate) const DISK_LINK: &str = "disk";
/// First line of the mark.
pub(crate) const MARK: &str = "plimsoll: private server";
/// Beginning of the mark's line with the id of the process that made it.
pub(crate) const MARK_OWNER: &str = "pid ";
/// Beginning of the mark's line with the socket directory.
pub(crate) const MARK_SOCKETS: &str = "sockets ";

/// Longest path of a socket directory: a socket's path has 108 bytes, and servers append their own names.
pub const SOCKET_DIR_BYTES_MAX: usize = 60;

/// Default bases of private servers: on a disk, unless `/tmp` is the only choice.
pub const FALLBACK_BASES: [&str; 2] = ["/var/tmp", "/tmp"];

/// Directories of one private server.
#[derive(Debug)]
pub(crate) struct ServerDirectories {
    pub(crate) root: PathBuf,
    pub(crate) data: PathBuf,
    pub(crate) sockets: PathBuf,
    pub(crate) log: PathBuf,
    /// Mark, locked. The supervisor locks its own copy, so the lock lasts as long as either process.
    _mark: File,
}

impl ServerDirectories {
    /// Makes the directories under the first of `bases` that `user` can reach and the caller may write to. `guard` is
    /// called with the path before it is made.
    pub(crate) fn make(
        bases: &[PathBuf],
        user: &ServerUser,
        guard: &dyn Fn(&Path) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        let mut refused = Vec::new();
        for base in bases {
            match usable(base, user)? {
                Ok(base) => {
                    let root = make_new(&base, guard)?;
                    return Self::furnish(&root, user).inspect_err(|_| {
                        // The directory was just made and contains nothing yet.
                        let _ = fs::remove_dir_all(&root);
                    });
                }
                Err(why) => refused.push(format!("{}: {why}", base.display())),
            }
        }
        Err(StoreError::new(
            StoreErrorKind::Permission,
            format!("user {} can keep a private server's data in none of the directories", user.name),
        )
        .detail(refused.join("; "))
        .next(format!(
            "open a directory to {0}, or name one with --dir that {0} may enter and you may write to",
            user.name
        )))
    }

    fn furnish(root: &Path, user: &ServerUser) -> Result<Self, StoreError> {
        let io = |path: &Path, error: &io::Error| StoreError::io(path.display(), error);
        let inner = root.join("sockets");
        let elsewhere = inner.as_os_str().len() > SOCKET_DIR_BYTES_MAX;
        let sockets = if elsewhere { short_name(user)? } else { inner };

        // The mark comes first and names the directories, so that a sweep finds all of them at any moment.
        let mark_path = root.join(MARK_FILE);
        let mut mark = new_file(&mark_path)?;
        // Text under a free lock marks an orphan. A sweep at this moment releases the lock at once, because there is no
        // text yet.
        rustix::fs::flock(&mark, FlockOperation::LockShared).map_err(|error| io(&mark_path, &error.into()))?;
        let mut text = format!("{MARK}\n{MARK_OWNER}{}\n{MARK_SOCKETS}", std::process::id()).into_bytes();
        text.extend_from_slice(sockets.as_os_str().as_bytes());
        text.push(b'\n');
        // Written at once, so that there is never a part of it.
        mark.write_all(&text).map_err(|error| io(&mark_path, &error))?;

        let log = root.join("log");
        new_file(&log)?;
        let data = root.join("data");
        for directory in [&data, &sockets] {
            make_directory(directory, user).map_err(|error| io(directory, &error))?;
        }
        if user.is_switched {
            fs::set_permissions(root, Permissions::from_mode(0o711)).map_err(|error| io(root, &error))?;
        }
        Ok(Self { root: root.to_owned(), data, sockets, log, _mark: mark })
    }
}

/// Makes a directory that only `user` may enter.
pub(crate) fn make_directory(path: &Path, user: &ServerUser) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    give(path, 0o700, user)
}

/// Sets the owner and `mode` of `path`.
pub(crate) fn give(path: &Path, mode: u32, user: &ServerUser) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    if user.is_switched {
        std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid))?;
    }
    Ok(())
}

/// Returns `base` without symbolic links, or the reason why it cannot be used.
fn usable(base: &Path, user: &ServerUser) -> Result<Result<PathBuf, String>, StoreError> {
    let base = match base.canonicalize() {
        Ok(base) => base,
        Err(error) => return Ok(Err(error.to_string())),
    };
    if base.as_os_str().as_bytes().contains(&b'\n') {
        return Ok(Err("its name has a line break".to_owned()));
    }
    if let Err(error) = rustix::fs::access(&base, Access::WRITE_OK | Access::EXEC_OK) {
        return Ok(Err(format!("you may not write to it: {error}")));
    }
    if !user.can_traverse(&base)? {
        // The outermost directory on the path that is closed to the user.
        let closed = base.ancestors().filter(|directory| matches!(user.can_traverse(directory), Ok(false))).last();
        let closed = closed.unwrap_or(&base).display().to_string();
        let opens = format!("chmod o+x {}", shell_word(&closed));
        return Ok(Err(format!("user {} may not enter {closed}; {opens} lets it", user.name)));
    }
    Ok(Ok(base))
}

/// Makes a directory under `base` that only the caller may enter.
fn make_new(base: &Path, guard: &dyn Fn(&Path) -> Result<(), StoreError>) -> Result<PathBuf, StoreError> {
    for _ in 0..100 {
        let path = base.join(random_name());
        guard(&path)?;
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(StoreError::io(path.display(), &error)),
        }
    }
    Err(StoreError::new(StoreErrorKind::Broken, format!("{}: a hundred random names were all taken", base.display())))
}

pub(crate) fn random_name() -> String {
    format!("{NAME_PREFIX}{:08x}", RandomState::new().hash_one(std::process::id()) as u32)
}

/// Returns an unused path for a socket directory that is short enough.
fn short_name(user: &ServerUser) -> Result<PathBuf, StoreError> {
    for base in ["/tmp", "/var/tmp"] {
        if let Ok(base) = usable(Path::new(base), user)? {
            let path = base.join(random_name());
            if path.as_os_str().len() <= SOCKET_DIR_BYTES_MAX && path.symlink_metadata().is_err() {
                return Ok(path);
            }
        }
    }
    Err(StoreError::new(
        StoreErrorKind::Permission,
        format!("neither /tmp nor /var/tmp can hold sockets of user {}", user.name),
    ))
}

fn new_file(path: &Path) -> Result<File, StoreError> {
    OpenOptions::new()
        .append(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| StoreError::io(path.display(), &error))
}

/// Returns true if `metadata` is of a directory that this user made and no other user may write to.
pub(crate) fn is_own_directory(metadata: &fs::Metadata) -> bool {
    metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o022 == 0
}
