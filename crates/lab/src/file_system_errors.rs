//! Number of errors that a mounted file system has found, as counted by the kernel.

use std::fs;
use std::path::Path;

use plimsoll_core::mounts::{MOUNTS_FILE, mounts};

/// Returns the errors of the file system that is mounted at `mount_point`: for ext4, damaged metadata (`errors_count`);
/// for Btrfs, blocks with a wrong checksum or generation (`error_stats`). XFS counts none.
pub(crate) fn file_system_errors(mount_point: &Path) -> Option<u64> {
    let table = fs::read_to_string(MOUNTS_FILE).ok()?;
    let mount = mounts(&table).rfind(|mount| mount.mount_point == mount_point)?;
    let device = mount.source.strip_prefix("/dev/")?;
    match mount.file_system {
        "ext4" => fs::read_to_string(format!("/sys/fs/ext4/{device}/errors_count")).ok()?.trim().parse().ok(),
        "btrfs" => {
            let all = fs::read_dir("/sys/fs/btrfs").ok()?.flatten().map(|entry| entry.path());
            let own = all.into_iter().find(|path| path.join("devices").join(device).exists())?;
            let devices = fs::read_dir(own.join("devinfo")).ok()?.flatten();
            let counted = devices.filter_map(|entry| fs::read_to_string(entry.path().join("error_stats")).ok());
            Some(counted.map(|text| found_by_checksums(&text)).sum())
        }
        _ => None,
    }
}

fn found_by_checksums(error_stats: &str) -> u64 {
    let pairs = error_stats.lines().filter_map(|line| line.split_once(' '));
    let ours = pairs.filter(|(name, _)| ["corruption_errs", "generation_errs"].contains(name));
    ours.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_checksums_find_is_counted_of_btrfs() {
        let stats = "write_errs 4\nread_errs 8\nflush_errs 1\ncorruption_errs 3\ngeneration_errs 2\n";
        assert_eq!(found_by_checksums(stats), 5);
    }
}
