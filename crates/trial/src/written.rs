//! Bytes that a store has caused to be written, as counted by its simulated disk.
//!
//! Other disks hold the data of other programs, too. The kernel's count for each process is no measure either: it counts
//! when a process makes memory of the page cache dirty, in whole folios. On a file system with large folios (XFS, Btrfs,
//! ext4 since Linux 6.16) 8 KiB written may count as 1 MiB, and as that again after each sync.

use plimsoll_record::data::{PhaseEnd, ResultName};

use crate::phase::TrialRun;

impl TrialRun<'_, '_> {
    /// Returns the bytes written so far to the simulated disks of the store, or `None` without any.
    pub(crate) fn written_bytes(&self) -> Option<u64> {
        self.store.power_switch()?.written_bytes()
    }

    /// Adds to the end of a phase what was written since there were `before` bytes, where that can be known.
    pub(crate) fn push_written(&self, end: &mut PhaseEnd, before: Option<u64>) {
        if let (Some(before), Some(now)) = (before, self.written_bytes()) {
            end.push(ResultName::DeviceBytes, now.saturating_sub(before) as f64);
        }
    }
}
