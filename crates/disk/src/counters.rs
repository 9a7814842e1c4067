//! Flushes that the kernel has counted on a device: `/sys/block/NAME/stat`, which holds the numbers of
//! `/proc/diskstats`.
//!
//! Source: Documentation/admin-guide/iostats.rst, field 16, "number of flush I/Os processed", since Linux 5.5. The kernel
//! counts a flush where it is handed to the driver of a device with request queues; those of stacked devices (md, dm,
//! the head of a multipath NVMe) and of partitions are not counted there, but on the devices below. A write with FUA is
//! no flush.

use std::fs;
use std::path::{Path, PathBuf};

/// Index of the field in the file, from 0.
const FLUSHES: usize = 15;

/// The files of one or more devices.
#[derive(Debug, Clone, Default)]
pub struct FlushCounters {
    files: Vec<PathBuf>,
}

impl FlushCounters {
    /// Opens the counters of the device `name`, or of its paths if there are several; returns `None` if the kernel
    /// does not count its flushes.
    pub fn of(name: &str) -> Option<Self> {
        let block = Path::new("/sys/block");
        let counts = |device: &Path| {
            let is_on = fs::read_to_string(device.join("queue/iostats")).is_ok_and(|on| on.trim() == "1");
            is_on && device.join("mq").is_dir() && flushes(&device.join("stat")).is_some()
        };
        let mut devices = vec![block.join(name)];
        if !devices[0].join("mq").is_dir() {
            let all = fs::read_dir(block).ok()?.flatten().map(|entry| entry.path());
            devices =
                all.filter(|path| path.file_name().is_some_and(|of| is_path_of(&of.to_string_lossy(), name))).collect();
        }
        let counted = !devices.is_empty() && devices.iter().all(|device| counts(device));
        counted.then(|| Self { files: devices.iter().map(|device| device.join("stat")).collect() })
    }

    /// Returns the sums over several devices.
    pub fn together(all: impl IntoIterator<Item = FlushCounters>) -> Self {
        Self { files: all.into_iter().flat_map(|one| one.files).collect() }
    }

    /// Returns the number of flushes completed since the machine started; `None` without a device that counts.
    pub fn flushes(&self) -> Option<u64> {
        if self.files.is_empty() {
            return None;
        }
        self.files.iter().map(|file| flushes(file)).sum()
    }
}

fn flushes(stat: &Path) -> Option<u64> {
    fs::read_to_string(stat).ok()?.split_ascii_whitespace().nth(FLUSHES)?.parse().ok()
}

/// True of `nvme0c1n1`, which is a path of `nvme0n1`.
fn is_path_of(path: &str, head: &str) -> bool {
    let Some((controller, namespace)) = head.strip_prefix("nvme").and_then(|rest| rest.split_once('n')) else {
        return false;
    };
    path.strip_prefix("nvme")
        .and_then(|rest| rest.strip_prefix(controller))
        .and_then(|rest| rest.strip_prefix('c'))
        .and_then(|rest| rest.split_once('n'))
        .is_some_and(|(number, of)| of == namespace && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::is_path_of;

    #[test]
    fn paths_of_a_multipath_namespace_are_found_by_name() {
        assert!(is_path_of("nvme0c1n1", "nvme0n1") && is_path_of("nvme10c0n2", "nvme10n2"));
        for other in ["nvme0c1n2", "nvme0n1", "nvme1c1n1", "sda"] {
            assert!(!is_path_of(other, "nvme0n1"), "{other}");
        }
    }
}
