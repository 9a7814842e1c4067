//! Promises that stores kept or broke when their disk lost power.

use std::collections::BTreeMap;

use serde::Serialize;

plimsoll_core::words! {
    /// Result of a promise, best first.
    pub enum PromiseState {
        /// All acknowledged writes were there.
        Kept = "kept",
        /// No write was lost, but a setting that protects data pages was in force, and no data page was on its way.
        PagesNotTried = "pages not tried",
        /// Writes were acknowledged, but none was un-flushed at the power cut: that proves nothing.
        NothingAtRisk = "nothing at risk",
        /// The contents of the store could not be read, or the ledger has a gap.
        NotKnown = "not known",
        /// No power was cut: the run ended before.
        NotTried = "not tried",
        /// Acknowledged writes were missing.
        Lost = "lost",
        /// Records differed from the written ones.
        Damaged = "damaged",
        /// The store did not come back.
        NotStarted = "did not start",
    }
}

/// A store with its settings, whose disk lost power once or several times.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PromiseView {
    /// The store and what was swept, but for the moment of the cut: `sqlite · durability=durable`.
    pub name: String,
    /// The row of a matrix in which it stands: the store, and what of it was swept; the name where there is none.
    pub store: String,
    /// Column of the promise: the fate of the disk, `ext4 · torn`; empty without one.
    pub fault: String,
    /// Result, by the worst of its cuts.
    pub state: PromiseState,
    /// The plan sets out to break it: a loss is a result and no failure.
    pub expected: bool,
    /// Number of power cuts.
    pub cuts: u64,
    /// Number of cuts that were not needed any more, because earlier ones had decided.
    pub cuts_not_needed: u64,
    /// Number of planned cuts that did not happen or were not followed by a check: the run ended before, or the store
    /// failed.
    pub cuts_missing: u64,
    /// The command that tries the same again: at the moment that first broke the promise, or at all of them; empty where the
    /// run was none of cells.
    pub repeat: String,
    /// Number of cuts with nothing at risk and nothing lost: the following figures are of the others.
    pub vacuous_cuts: u64,
    /// Writes that were acknowledged between the load and the cut; with `lost`, those of the cuts after which the store
    /// could be read.
    pub acknowledged: u64,
    /// Number of acknowledged writes that were missing afterwards, and of records that showed an earlier state than
    /// had been seen; `None` if a store could not be read, and no other cut lost anything.
    pub lost: Option<u64>,
    /// Records that were read before a cut in a state that was never acknowledged, and is gone; they break no promise.
    pub read_then_lost: u64,
    /// The longest time before a cut from which acknowledged writes were lost; `None` where none were.
    pub lost_window_s: Option<f64>,
    /// Other disagreements by name.
    pub wrong: BTreeMap<String, u64>,
    /// Upper bound (95 %) of the share of writes lost, if nothing was lost.
    pub loss_upper_bound: Option<f64>,
    /// Writes to the disk that were not flushed when the power went, the median of the cuts.
    pub at_risk_writes: f64,
    /// Bytes of them.
    pub at_risk_bytes: f64,
    /// Number of cuts at which writes of a kind were at risk, by kind; empty if the kinds are not known. Data pages of a
    /// store that overwrites them are there with 0, too.
    pub at_risk_kinds: BTreeMap<String, u64>,
    /// Settings of the store that protect its data pages.
    pub page_guards: Vec<String>,
    /// Number of cuts that broke the promise.
    pub broken_cuts: u64,
    /// Time that file system and store took to come back, the median; `None` if the store never did.
    pub recovery_s: Option<f64>,
    /// Result in one sentence.
    pub sentence: String,
}
