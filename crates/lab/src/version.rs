//! Versions of server programs, as the programs print them.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_core::{StoreError, shown};

use crate::packages::SYSTEM_PATH;
use crate::user::ServerUser;

/// Longest time for printing a version.
const BOUND: Duration = Duration::from_secs(10);
/// Time between two checks whether the program has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// Bytes kept of the output.
const SAID_BYTES_MAX: u64 = 2048;
/// Most characters of the output in a message.
const SHOWN_LETTERS_MAX: usize = 60;

/// Returns the version that a program prints with `option` behind one of `marks`. It runs as `user`, as the server would.
///
/// # Errors
/// `Usage` if there is no such program, `user` cannot execute it, or it prints no such version.
pub fn program_version(
    program: &Path,
    (option, marks): (&str, &[&str]),
    user: &ServerUser,
) -> Result<String, StoreError> {
    let path = shown::clean(&program.to_string_lossy());
    if !program.is_file() {
        let next = "name the file of the same store's server in another version";
        return Err(StoreError::usage(format!("there is no program {path}")).next(next));
    }
    let said = said_by(program, option, user).map_err(|error| {
        let next = "let that user read and execute the file, and enter all directories above it";
        StoreError::usage(format!("the user {} cannot execute {path}: {error}", user.name)).next(next)
    })?;
    version_in(&said, marks).ok_or_else(|| {
        let line: String =
            shown::clean(said.lines().next().unwrap_or_default()).chars().take(SHOWN_LETTERS_MAX).collect();
        let wanted = marks.iter().map(|mark| format!("`{}`", mark.trim())).collect::<Vec<_>>().join(" or ");
        let what = format!("{path} is not a server of this store: `{option}` prints `{line}`, without {wanted}");
        StoreError::usage(what).next("name the file of the same store's server in another version")
    })
}

/// Returns the word behind the first of `marks` that a text has, if it begins with a digit.
fn version_in(said: &str, marks: &[&str]) -> Option<String> {
    let (_, rest) = marks.iter().find_map(|mark| said.split_once(*mark))?;
    let word = rest.split(|letter: char| letter.is_whitespace() || letter == ',').next()?;
    word.starts_with(|letter: char| letter.is_ascii_digit()).then(|| shown::clean(word))
}

/// Returns standard output and standard error of a program with `option`.
fn said_by(program: &Path, option: &str, user: &ServerUser) -> io::Result<String> {
    let mut command = Command::new(program);
    command.arg(option).env_clear().env("PATH", SYSTEM_PATH).env("LC_ALL", "C").current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if user.is_switched {
        command.uid(user.uid).gid(user.gid);
    }
    let mut child = command.spawn()?;
    let until = Instant::now() + BOUND;
    while child.try_wait()?.is_none() {
        if Instant::now() >= until {
            // It may have ended just now.
            let _ = child.kill();
            let _ = child.wait();
            let what = format!("`{option}` did not end within {} s", BOUND.as_secs());
            return Err(io::Error::new(ErrorKind::TimedOut, what));
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    let mut said = Vec::new();
    let outputs = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
    for output in outputs.into_iter().flatten() {
        // Processes that the program left may hold the other end. Output that cannot be read is ignored.
        let _ = rustix::io::ioctl_fionbio(&output, true);
        let _ = File::from(output).take(SAID_BYTES_MAX).read_to_end(&mut said);
    }
    Ok(String::from_utf8_lossy(&said).into_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use plimsoll_core::StoreErrorKind;

    use super::*;

    #[test]
    fn the_version_is_the_word_behind_a_mark() {
        for (said, mark, wanted) in [
            ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0", "Redis server v=", Some("7.0.15")),
            ("etcd Version: 3.4.23\nGit SHA: Not provided\n", "etcd Version: ", Some("3.4.23")),
            (
                "/usr/sbin/mariadbd  Ver 10.11.6-MariaDB-0+deb12u1 for debian",
                "  Ver ",
                Some("10.11.6-MariaDB-0+deb12u1"),
            ),
            ("postgres (PostgreSQL) 17.2\n", "postgres (PostgreSQL) ", Some("17.2")),
            ("postgres (PostgreSQL) next", "postgres (PostgreSQL) ", None),
            ("psql (PostgreSQL) 17.2", "postgres (PostgreSQL) ", None),
            ("nginx version: nginx/1.22.1\n", "nginx version: nginx/", Some("1.22.1")),
            ("@(#) $OpenLDAP: slapd 2.5.13+dfsg-5 (Feb  8 2023 01:56:12) $", "OpenLDAP: slapd ", Some("2.5.13+dfsg-5")),
            ("", "v", None),
        ] {
            assert_eq!(version_in(said, &["no such mark", mark]).as_deref(), wanted, "{said}");
        }
    }

    #[test]
    fn a_program_that_does_not_exist_or_run_or_is_another_one_is_refused_with_a_remedy() {
        let (directory, user) = (tempfile::tempdir().unwrap(), ServerUser::caller());
        let make = |name: &str, text: &str, mode: u32| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let good = make("good", "#!/bin/sh\necho \"store $1: v2.15.1\"\n", 0o755);
        assert_eq!(program_version(&good, ("--version", &["store --version: v"]), &user).as_deref(), Ok("2.15.1"));
        let told = make("told", "#!/bin/sh\necho \"store $1: v1.2\" >&2\nexit 1\n", 0o755);
        assert_eq!(program_version(&told, ("-v", &["store -v: v"]), &user).as_deref(), Ok("1.2"), "on standard error");
        for (path, what, next) in [
            (directory.path().join("none"), "there is no program /", "name the file"),
            (directory.path().to_owned(), "there is no program /", "name the file"),
            (make("locked", "#!/bin/sh\n", 0o644), "cannot execute /", "let that user read and execute"),
            (make("other", "#!/bin/sh\necho other 3\n", 0o755), "prints `other 3`, without `store`", "name the file"),
        ] {
            let error = program_version(&path, ("--version", &["store "]), &user).unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Usage);
            assert!(error.what.contains(what) && error.next.unwrap().starts_with(next), "{}", error.what);
        }
    }
}
