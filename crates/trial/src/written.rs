//! Bytes that a store has caused to be written: as counted by its simulated disk, if it has one; else as the kernel
//! counts them per process.
//!
//! The kernel counts when a process makes memory of the page cache dirty, and counts the whole folio: on a file system with large
//! folios (XFS, Btrfs, ext4 since Linux 6.16) 8 KiB written may count as 1 MiB, and as that again after each sync.

use plimsoll_record::data::{PhaseEnd, ResultName};

use crate::phase::TrialRun;

impl TrialRun<'_, '_> {
    /// Returns the bytes written so far to a simulated disk; else by the server's processes, or, for a store inside
    /// this process, by this process without the recorder; `None` if they cannot be known (attached servers).
    pub(crate) fn written_bytes(&self) -> Option<u64> {
        if let Some(disk) = self.store.power_switch() {
            return disk.written_bytes();
        }
        let processes = self.store.processes();
        if !processes.is_empty() {
            return plimsoll_sample::process_tree_io(&processes).map(|io| io.write_bytes);
        }
        let own = plimsoll_sample::own_io().filter(|_| self.store.spec().schemes.is_empty())?;
        Some(own.write_bytes.saturating_sub(self.context.sinks.recorder.bytes_written()))
    }

    /// Adds to the end of a phase what was written since there were `before` bytes, where that can be known.
    pub(crate) fn push_written(&self, end: &mut PhaseEnd, before: Option<u64>) {
        if let (Some(before), Some(now)) = (before, self.written_bytes()) {
            end.push(ResultName::DeviceBytes, now.saturating_sub(before) as f64);
        }
    }
}
