//! What a store has caused to be written to devices, as the kernel counts it per process.

use plimsoll_core::Store;
use plimsoll_record::Recorder;

/// A reading of the counters.
pub struct Written {
    bytes: Option<u64>,
}

impl Written {
    /// The counters now.
    pub fn before(store: &dyn Store, embedded: bool, recorder: &Recorder) -> Self {
        Self { bytes: total(store, embedded, recorder) }
    }

    /// Bytes written since; `None` where they cannot be known (attached servers).
    pub fn bytes_since(&self, store: &dyn Store, embedded: bool, recorder: &Recorder) -> Option<u64> {
        Some(total(store, embedded, recorder)?.saturating_sub(self.bytes?))
    }
}

/// The server's processes, or, for a store inside this process, our own less what the recorder wrote.
fn total(store: &dyn Store, embedded: bool, recorder: &Recorder) -> Option<u64> {
    let processes = store.processes();
    if !processes.is_empty() {
        return plimsoll_sample::process_tree_io(&processes).ok().map(|io| io.write_bytes);
    }
    if !embedded {
        return None;
    }
    let own = plimsoll_sample::own_io().ok()?;
    Some(own.write_bytes.saturating_sub(recorder.bytes_written()))
}
