//! Consequences of disk faults, and the layers that noticed them.

use serde::Serialize;

plimsoll_core::words! {
    /// Layer that noticed a disk fault.
    pub enum Noticed {
        /// The file system on it, by its own count of errors.
        FileSystem = "file system",
        /// The store: operations failed, or it took no connections, or ended.
        Store = "store",
        /// The store's integrity check, when it was asked.
        Check = "integrity check",
    }
}

/// A trial whose disk did something wrong.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiskFaultView {
    /// The trial.
    pub name: String,
    /// Faults of the disk, in order: `eio write once`, `mended`.
    pub faults: Vec<String>,
    /// Layers that noticed the fault; empty if none did.
    pub noticed: Vec<Noticed>,
    /// Operations that ended with an error, or whose outcome is unknown, in the phases from then on, with the whole of
    /// that in which it began; also of those that read everything back. Attempts to connect are none.
    pub errors: u64,
    /// Records in answers that were wrong or missing, while operations were driven.
    pub wrong_answers: u64,
    /// Acknowledged writes that were not there afterwards; `null` if none is known to be, and not everything was read.
    pub lost: Option<u64>,
    /// Records with contents that were never written; `null` if none is known, and not everything was read.
    pub damaged: Option<u64>,
    /// Messages and reactions of the store, and the reason that it did not start again.
    pub said: Vec<String>,
}

impl DiskFaultView {
    /// Returns the number of wrong answers, lost writes and damaged records; `None` if none is known, and not everything
    /// was read.
    pub fn harm(&self) -> Option<u64> {
        let known = self.wrong_answers + self.lost.unwrap_or(0) + self.damaged.unwrap_or(0);
        (known > 0 || self.lost.is_some() && self.damaged.is_some()).then_some(known)
    }

    /// Returns the names of those that noticed the fault, `only the ledger`, or `nothing to notice`; without a complete
    /// check, that losses could not be looked for.
    pub fn noticed_by(&self) -> String {
        let names: Vec<&str> = self.noticed.iter().map(|noticed| noticed.name()).collect();
        match (names.is_empty(), self.harm()) {
            (false, _) => names.join(", "),
            (true, Some(0)) => "nothing to notice".to_owned(),
            (true, Some(_)) => "only the ledger".to_owned(),
            (true, None) => "none; losses could not be looked for".to_owned(),
        }
    }
}
