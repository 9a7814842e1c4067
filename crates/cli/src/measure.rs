//! Measurements without a recording: a store that a workload drives.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll_core::{Durability, Slice, Store, StoreErrorKind, StreamSpec, Workload};
use plimsoll_drive::{Clock, Drive, DriveResult, DriveSpec};
use plimsoll_trial::TrialError;

/// Store, workload and the flag of Ctrl-C.
pub struct Bench<'a> {
    pub store: &'a mut dyn Store,
    pub workload: &'a dyn Workload,
    pub stop: &'a Arc<AtomicBool>,
}

impl Bench<'_> {
    /// Drives the store, and passes each slice to `on_slice`.
    ///
    /// # Errors
    /// Fails if the store cannot be driven, or if an operation failed.
    pub fn drive(
        &mut self,
        stream: &StreamSpec,
        spec: &DriveSpec,
        on_slice: &mut dyn FnMut(Slice),
    ) -> Result<DriveResult, TrialError> {
        let drive = Drive {
            clock: &Clock::start(),
            spec,
            sessions: self.store.sessions(stream.clients(), Durability::Durable)?,
            kinds: self.workload.kinds(),
            stream: self.workload.stream(stream).map_err(TrialError::usage)?.into(),
            observers: Vec::new(),
            stop: Arc::clone(self.stop),
        };
        let result = drive.run(on_slice).map_err(|error| TrialError::new(StoreErrorKind::Store, error.to_string()))?;
        match result.errors.first() {
            None => Ok(result),
            Some(error) => Err(TrialError::new(StoreErrorKind::Store, format!("{} operations failed", error.count))
                .detail(format!("{} {}", error.code, error.message))),
        }
    }
}
