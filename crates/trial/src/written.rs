//! What a store has caused to be written to devices, as the kernel counts it per process.

use plimsoll_record::data::{PhaseEnd, ResultName};

use crate::phase::TrialRun;

impl TrialRun<'_, '_> {
    /// Bytes written so far by the server's processes, or, for a store inside this process, by ourselves without the
    /// recorder; `None` where they cannot be known (attached servers).
    pub(crate) fn written_bytes(&self) -> Option<u64> {
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
