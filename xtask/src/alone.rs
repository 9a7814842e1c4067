//! A lock, so that one run of tests at a time is on a machine: another one, of this clone or of a second one, would disturb its
//! times, and find what its tests have not left yet.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use crate::Result;

/// File that a run keeps locked until it ends, however it ends.
pub const LOCK: &str = "/tmp/pt-lock";

/// Waits until no other run holds the lock at `path`, and takes it for the run in `root`.
pub fn alone(path: &Path, root: &Path) -> Result<File> {
    let failed = |error: std::io::Error| format!("{}: {error}; remove it if no tests are being run", path.display());
    // Another user's can be locked as well, and not written to.
    let writable = OpenOptions::new().read(true).write(true).open(path);
    let opened = writable.or_else(|_| File::open(path)).or_else(|error| match error.kind() {
        ErrorKind::NotFound => OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path),
        _ => Err(error),
    });
    let mut lock = opened.map_err(failed)?;
    if lock.try_lock().is_err() {
        let holder = fs::read_to_string(path).unwrap_or_default();
        println!("waiting for other tests on this machine to end: {}", holder.trim_end());
        lock.lock().map_err(failed)?;
    }
    let _ = lock.set_len(0);
    let _ = writeln!(lock, "process {} in {}", std::process::id(), root.display());
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_second_run_waits_for_the_first_to_end() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lock");
        let first = alone(&path, Path::new("/first")).unwrap();
        assert!(fs::read_to_string(&path).unwrap().ends_with(" in /first\n"));
        std::thread::scope(|scope| {
            let second = scope.spawn(|| alone(&path, Path::new("/second")).unwrap());
            std::thread::sleep(Duration::from_millis(50));
            assert!(!second.is_finished());
            drop(first);
            second.join().unwrap();
        });
        assert!(fs::read_to_string(&path).unwrap().ends_with(" in /second\n"));
    }
}
