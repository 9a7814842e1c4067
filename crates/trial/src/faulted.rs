//! Errors of a store whose disk had a fault: results, instead of failures of the run.

use plimsoll_core::{Nodes, StoreErrorKind};
use plimsoll_record::data::{About, Level, PhaseEnd, PhaseState, ResultName};

use crate::director::Directed;
use crate::error::TrialError;
use crate::phase::TrialRun;
use crate::sink::Told;
use crate::trial::revived;

impl TrialRun<'_, '_> {
    /// Takes an error for what the store had to say, where that may come of its disk; an error of the run it is otherwise.
    pub(crate) fn answered(&mut self, error: TrialError, end: &mut PhaseEnd) -> Result<(), TrialError> {
        if !is_of_disk_fault(&self.directed, &error) {
            return Err(error);
        }
        self.servers_state.hurt();
        self.said(error.line(), end)
    }

    /// Notes what the store said or did.
    pub(crate) fn said(&mut self, text: String, end: &mut PhaseEnd) -> Result<(), TrialError> {
        self.event(Level::Error, text.clone())?;
        end.remarks.push((About::Fault, text));
        Ok(())
    }

    /// Prepares a phase after a fault: starts a server again that has ended, and opens the store again if it has
    /// failed. Returns true if it is back. A store that does not come back is an answer, too.
    pub(crate) fn come_back(&mut self, ordinal: u32, end: &mut PhaseEnd) -> Result<bool, TrialError> {
        if !self.directed.has_disk_fault {
            return Ok(true);
        }
        let was_hurt = self.servers_state.reopen();
        let (trial, label) = (Some(self.trial.ordinal), &self.trial.store.label);
        let back = match revived(self.context.sinks, self.store, trial, label, was_hurt) {
            Ok(Some(ended)) => {
                self.server_is_new()?;
                self.said(format!("the server ended: {}", ended.line()), end)
            }
            Ok(None) if was_hurt => {
                // Whatever it says: it may be a connection to a server that was there before.
                let _ = self.store.disconnect();
                self.store.reconnect()
            }
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        match back {
            Err(error) if may_come_of_a_disk(&error) && !self.context.is_stopped() => {
                // A store whose disk failed may well refuse to run on it: that breaks no promise.
                let text = self.did_not_start("its disk had failed", &error.line(), end, About::Fault)?;
                match self.not_read(ordinal, &text) {
                    Some(check) => self.context.sinks.tell(Told::Ledger(check))?,
                    // Without a ledger nothing else says that the rest was not done.
                    None => end.state = PhaseState::Failed(text),
                }
                Ok(false)
            }
            back => back.map(|()| true),
        }
    }

    /// Records the number of errors that the file system on a disk with faults has found.
    pub(crate) fn push_file_system_errors(&self, end: &mut PhaseEnd) {
        let disk = self.store.power_switch().filter(|_| self.directed.has_disk_fault);
        if let Some(count) = disk.and_then(|disk| disk.file_system_errors()) {
            end.push(ResultName::FileSystemErrors, count as f64);
        }
    }

    /// Fails if no request has met one of the faults of disks that are in effect, unless the user has stopped the run.
    pub(crate) fn disk_faults_must_be_met(&self) -> Result<(), TrialError> {
        let Some(disk) = self.store.power_switch().filter(|_| !self.context.is_stopped()) else { return Ok(()) };
        self.directed.on_disk.iter().try_for_each(|one| {
            let named = |error: TrialError| TrialError { what: format!("disk {}: {}", one.fault, error.what), ..error };
            one.must_be_met(&disk).map_err(named)
        })
    }

    /// Ends the use of a disk that failed, at the trial's end: no other trial may find its remains. Fails if no request
    /// has met a fault of it.
    pub(crate) fn give_up_disk(&mut self) -> Result<(), TrialError> {
        let Some(disk) = self.store.power_switch().filter(|_| self.directed.has_disk_fault) else { return Ok(()) };
        let met = self.disk_faults_must_be_met();
        self.store.spend();
        disk.mend(Nodes::All).and(met)
    }
}

/// Returns true if a fault of the disk may cause this error. A cluster that lacks a node is not the one of the plan.
fn is_of_disk_fault(directed: &Directed, error: &TrialError) -> bool {
    directed.has_disk_fault && directed.missing.is_none() && may_come_of_a_disk(error)
}

/// Returns true if a failed disk may cause this failure of a store, its client or its servers.
fn may_come_of_a_disk(error: &TrialError) -> bool {
    use StoreErrorKind::{Broken, Corrupt, DiskFull, Permission, Store, Unreachable};
    // A file system that has met an error may allow nothing but reading.
    let of_disk = [Broken, Corrupt, DiskFull, Permission, Store, Unreachable];
    !error.is_interrupt() && of_disk.contains(&error.kind)
}

#[cfg(test)]
mod tests {
    use plimsoll_core::fault::Fault;

    use super::*;
    use crate::director::no_request_met;

    #[test]
    fn a_disk_fault_explains_errors_of_the_store_but_not_a_missing_node() {
        let broken = TrialError::new(StoreErrorKind::Broken, "it accepts no connections");
        let stopped = TrialError::new(StoreErrorKind::Interrupted, "the user stopped the run");
        let mut directed = Directed::default();
        assert!(!is_of_disk_fault(&directed, &broken));
        directed.has_disk_fault = true;
        assert!(is_of_disk_fault(&directed, &broken) && !is_of_disk_fault(&directed, &stopped));
        assert!(!is_of_disk_fault(&directed, &no_request_met(Fault::Full)), "the plan causes it");
        directed.missing = Some(1);
        assert!(!is_of_disk_fault(&directed, &broken));
    }
}
