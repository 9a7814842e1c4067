//! The user that a server runs as.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use plimsoll_core::{StoreError, StoreErrorKind};
use rustix::fs::Access;

/// User that a server runs as: the caller or, if that is root, a user made for the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUser {
    /// Name, or the number if the user has no name.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// True if servers run as another user than this process.
    pub is_switched: bool,
}

impl ServerUser {
    /// Returns the caller unless that is root; otherwise the user `name`, which `package` makes.
    ///
    /// Reads `/etc/passwd`, where Debian's packages put their users, and no directory service.
    ///
    /// # Errors
    /// `Missing` if there is no such user.
    pub fn caller_or(name: &str, package: &str) -> Result<Self, StoreError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self::caller());
        }
        let passwd = fs::read_to_string("/etc/passwd").map_err(|error| StoreError::io("/etc/passwd", &error))?;
        Self::in_passwd(&passwd, name).ok_or_else(|| {
            StoreError::new(
                StoreErrorKind::Missing,
                format!("there is no user {name}, and {package}'s server does not run as root"),
            )
            .next(format!("apt-get install {package}"))
        })
    }

    /// Returns the user that this process runs as.
    pub fn caller() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let name = passwd.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
        });
        Self {
            name: name.unwrap_or_else(|| uid.to_string()),
            uid,
            gid: rustix::process::getegid().as_raw(),
            is_switched: false,
        }
    }

    fn in_passwd(passwd: &str, name: &str) -> Option<Self> {
        let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut ids = line.split(':').skip(2);
        let uid = ids.next()?.parse().ok()?;
        let gid = ids.next()?.parse().ok()?;
        Some(Self { name: name.to_owned(), uid, gid, is_switched: true })
    }

    /// Returns true if this user can enter `directory` and all directories on the way to it.
    ///
    /// The kernel decides this as that user, so access lists and mounts count too.
    pub(crate) fn can_traverse(&self, directory: &Path) -> Result<bool, StoreError> {
        if !self.is_switched {
            return Ok(directory.is_dir() && rustix::fs::access(directory, Access::EXEC_OK).is_ok());
        }
        // The system changes the directory as that user before it executes anything.
        let gone = Command::new("/bin/true").env_clear().current_dir(directory).uid(self.uid).gid(self.gid).status();
        match gone {
            Ok(_) => Ok(true),
            // An error of becoming that user is not an answer.
            Err(error) if [Some(libc::EACCES), Some(libc::ENOTDIR)].contains(&error.raw_os_error()) => Ok(false),
            Err(error) => Err(StoreError::io(format_args!("trying {} as {}", directory.display(), self.name), &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\npostgres-old:x:7:8::/:\npostgres:x:101:104:a,,,:/var/lib/postgresql:/bin/bash\n";

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let user = ServerUser::in_passwd(PASSWD, "postgres").unwrap();
        assert_eq!((user.uid, user.gid, user.name.as_str(), user.is_switched), (101, 104, "postgres", true));
        assert_eq!(ServerUser::in_passwd(PASSWD, "post"), None);
    }

    #[test]
    fn the_caller_is_not_switched_to() {
        let user = ServerUser::caller();
        assert_eq!(user.uid, rustix::process::geteuid().as_raw());
        assert!(!user.is_switched);
    }

    #[test]
    fn a_missing_user_names_its_package_when_root_would_need_it() {
        let answer = ServerUser::caller_or("no-such-user", "some-server");
        if rustix::process::geteuid().is_root() {
            let error = answer.unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Missing);
            assert_eq!(error.next.as_deref(), Some("apt-get install some-server"));
        } else {
            assert_eq!(answer.unwrap(), ServerUser::caller());
        }
    }
}
