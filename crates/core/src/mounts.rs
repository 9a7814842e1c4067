//! The kernel's table of mounts, `/proc/self/mountinfo` (proc_pid_mountinfo(5)).

use std::path::PathBuf;

/// File of the table for this process.
pub const MOUNTS_FILE: &str = "/proc/self/mountinfo";

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount<'t> {
    /// Major and minor number of the device.
    pub device: (u32, u32),
    /// Path of the mount.
    pub mount_point: PathBuf,
    /// Options of the mount, separated by commas; see [`unescaped`].
    pub options: &'t str,
    /// Kind of the file system: `ext4`.
    pub file_system: &'t str,
    /// Source of the mount: `/dev/sda1`, `tmpfs`.
    pub source: String,
    /// Options of the file system, as [`Mount::options`].
    pub of_file_system: &'t str,
}

/// Returns the mounts of `table`, in its order; a later one on the same place covers an earlier one. Other lines are
/// left out.
pub fn mounts(table: &str) -> impl DoubleEndedIterator<Item = Mount<'_>> {
    table.lines().filter_map(parsed)
}

/// `36 35 98:0 /root /mount rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn parsed(line: &str) -> Option<Mount<'_>> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(2);
    let (major, minor) = before.next()?.split_once(':')?;
    let (mount_point, options) = (before.nth(1)?, before.next()?);
    let mut after = after.split(' ');
    Some(Mount {
        device: (major.parse().ok()?, minor.parse().ok()?),
        mount_point: unescaped(mount_point).into(),
        options,
        file_system: after.next()?,
        source: unescaped(after.next()?),
        of_file_system: after.next().unwrap_or_default(),
    })
}

/// Replaces the octal escapes of spaces, tabs, newlines and backslashes in a field of the table.
pub fn unescaped(text: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(text.to_owned(), |text, (escape, character)| text.replace(escape, character))
}
