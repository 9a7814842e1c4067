//! Secrets of the command line: passwords are removed from URLs, and they and secrets of requests from the process list.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use plimsoll_core::files::text_at_most;
use plimsoll_core::{Catalogue, Password, StoreErrorKind};
use plimsoll_plan::{is_command, is_unclear, password_places, password_ranges, secret_ranges, without_secrets};
use plimsoll_trial::TrialError;

/// Most bytes of a password file.
const PASSWORD_FILE_MAX: u64 = 64 << 10;

/// Returns the password in a file, which is read again for each connection. A pipe is read once.
pub fn password_of_file(path: &Path) -> Result<Password, TrialError> {
    let first = read_password_file(path)?;
    let path = path.to_owned();
    Ok(Password::renewed(first, move || {
        let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
        is_file.then(|| read_password_file(&path).ok()).flatten()
    }))
}

/// The first line of a password file.
fn read_password_file(path: &Path) -> Result<String, TrialError> {
    let text = text_at_most(path, PASSWORD_FILE_MAX).map_err(|error| {
        let what = format!("password file {}: {error}", path.display());
        let kind = match error.kind() {
            std::io::ErrorKind::PermissionDenied => StoreErrorKind::Permission,
            _ => StoreErrorKind::Usage,
        };
        TrialError::new(kind, what).next("give --password-file a readable file whose first line is the password")
    })?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(TrialError::usage(format!("password file {} is empty", path.display()))
            .next("write the password on its first line")),
    }
}

/// Overwrites with `*` every secret of the command line as the process list shows it. Arguments asked of std afterwards
/// have lost theirs too.
pub fn scrub_command_line() {
    if std::env::args_os().any(|argument| !secret_ranges(&argument.to_string_lossy()).is_empty()) {
        overwrite_argv_secrets();
    }
}

/// Returns safer places for passwords in URLs of `arguments`: a line for each family of stores.
pub fn better_places(catalogue: &Catalogue, arguments: &[OsString]) -> BTreeSet<&'static str> {
    let places = |argument: &OsString| {
        let text = argument.to_string_lossy();
        password_ranges(&text)
            .into_iter()
            .map(|range| match is_command(text.strip_prefix("--fault=").unwrap_or(&text)) {
                true => "a file or a variable of the environment, which the command reads",
                false => password_places(catalogue, &text, range.start),
            })
            .collect::<Vec<_>>()
    };
    arguments.iter().flat_map(places).collect()
}

/// Refuses an argument in which a blank or a quote hides where a password ends. The message does not repeat it.
pub fn refuse_unclear(arguments: &[OsString]) -> Result<(), TrialError> {
    match arguments.iter().any(|argument| is_unclear(&argument.to_string_lossy())) {
        false => Ok(()),
        true => Err(TrialError::usage(
            "a URL with a password or options contains a blank, a quote or a control character",
        )
        .next("write %20 for a blank, %22 for \", %27 for '; or keep the password out of the URL: --password-file")),
    }
}

/// The command line as a recording may keep it: secrets replaced by `***`.
pub fn shown_command_line() -> Vec<String> {
    std::env::args_os().map(|argument| without_secrets(&argument.to_string_lossy())).collect()
}

/// The kernel shows other users the memory between `arg_start` and `arg_end`; that is where the
/// characters have to go.
fn overwrite_argv_secrets() {
    let Ok(stat) = fs::read_to_string("/proc/self/stat") else { return };
    // The second field may hold blanks and brackets; the last bracket ends it. After it, `arg_start` and
    // `arg_end` are fields 48 and 49 of proc(5), counted from 1.
    let Some((_, rest)) = stat.rsplit_once(')') else { return };
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |at: usize| fields.get(at)?.parse::<usize>().ok();
    let Some((start, end)) = field(45).zip(field(46)) else { return };
    if start == 0 || end <= start || end - start > 4 << 20 {
        return;
    }
    // SAFETY: the kernel says that our own argument strings stand in [start, end); they are writable, live
    // as long as the process, and no other thread runs yet. std hands out copies, no references into them.
    let memory = unsafe { std::slice::from_raw_parts_mut(start as *mut u8, end - start) };
    for argument in memory.split_mut(|byte| *byte == 0) {
        let Ok(text) = std::str::from_utf8(argument) else { continue };
        for range in secret_ranges(text) {
            argument[range].fill(b'*');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{better_places, password_of_file};

    #[test]
    fn each_url_is_told_where_its_password_belongs() {
        let places = |argument: &str| {
            better_places(&crate::catalogue::assemble(), &[argument.into()]).into_iter().collect::<Vec<_>>()
        };
        let postgres = "PGPASSWORD, PGPASSFILE, a service file or --password-file";
        let of_command = "a file or a variable of the environment, which the command reads";
        let (mariadb, redis) = ("MYSQL_PWD, ~/.my.cnf or --password-file", "REDISCLI_AUTH or --password-file");
        for (url, wanted) in [
            ("postgres://me:secret@db/shop", vec![postgres]),
            ("--on=postgresql://host=db password=secret", vec![postgres]),
            ("mysql://me:secret@db/shop", vec![mariadb]),
            ("redis+unix://:secret@/run/redis", vec![redis]),
            ("ldap://cn=admin,dc=example,dc=com:secret@db", vec!["--password-file"]),
            ("nats://secret@db", vec!["--password-file, or nats://USER:@HOST and NATS_PASSWORD"]),
            ("nats://me:@db", vec![]),
            ("rediss://me:a,b@db,mariadb://me:secret@db/shop", vec![mariadb, redis]),
            ("postgres://me@db/shop", vec![]),
            ("run \"psql postgres://me:secret@db\" at 1s", vec![of_command]),
            ("--fault=run 'psql postgres://me:secret@db' at 1s", vec![of_command]),
        ] {
            assert_eq!(places(url), wanted, "{url}");
        }
    }

    #[test]
    fn a_password_file_is_read_again_and_a_pipe_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (file, pipe) = (dir.path().join("file"), dir.path().join("pipe"));
        std::fs::write(&file, "first\nno password\n").unwrap();
        let password = password_of_file(&file).unwrap();
        assert_eq!(password.text(), "first");
        std::fs::write(&file, "second\n").unwrap();
        assert_eq!(password.text(), "second");
        // While it is written.
        std::fs::write(&file, "").unwrap();
        assert_eq!(password.text(), "second");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(password.text(), "second");

        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let writer = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::write(pipe, "once\n")
        });
        let password = password_of_file(&pipe).unwrap();
        writer.join().unwrap().unwrap();
        assert_eq!((password.text(), password.text()), ("once".into(), "once".into()));
    }
}
