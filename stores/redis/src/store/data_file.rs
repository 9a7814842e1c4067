//! The file with the data of a private server, and its check.

use std::path::{Path, PathBuf};
use std::process::Command;

use plimsoll_core::{StoreError, StoreErrorKind};

/// Most checks of files that others write meanwhile.
const CHECKS_MAX: u32 = 10;

/// Checks a file with `program` and returns the last line of its output. While others write, the end of a file may be a
/// part of a command: then the check is made again.
pub(super) fn checked(program: &Path, file: &Path) -> Result<String, StoreError> {
    let mut bytes = bytes_beside(file);
    let mut result = checked_once(program, file);
    for _ in 1..CHECKS_MAX {
        let is_growing = bytes_beside(file) != bytes;
        if !is_growing || !result.as_ref().is_err_and(|error| error.kind == StoreErrorKind::Corrupt) {
            break;
        }
        bytes = bytes_beside(file);
        result = checked_once(program, file);
    }
    result
}

/// Returns the number of bytes of all files in the directory of `file`.
fn bytes_beside(file: &Path) -> u64 {
    let entries = file.parent().and_then(|directory| directory.read_dir().ok());
    entries.into_iter().flatten().flatten().filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

fn checked_once(program: &Path, file: &Path) -> Result<String, StoreError> {
    let checked = Command::new(program).arg(file).env_clear().output();
    let checked = checked.map_err(|error| StoreError::io(program.display(), &error))?;
    let said = String::from_utf8_lossy(&checked.stdout);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if checked.status.success() {
        return Ok(format!("{name}: {last}"));
    }
    Err(StoreError::new(StoreErrorKind::Corrupt, "the append-only file or snapshot is damaged")
        .detail(format!("{name}: {last}")))
}

/// Returns the type of the data file, and the path for its checking program: the manifest of Redis 7's parts, the
/// only file of earlier versions, or a snapshot.
pub(super) fn data_file(data: &Path) -> Option<(&'static str, PathBuf)> {
    [("aof", "appendonlydir/appendonly.aof.manifest"), ("aof", "appendonly.aof"), ("rdb", "dump.rdb")]
        .into_iter()
        .map(|(of, name)| (of, data.join(name)))
        .find(|(_, path)| path.is_file())
}
