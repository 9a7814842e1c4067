//! Checks that a store told the truth: the ledger of its acknowledgements, with which its answers and its records are
//! compared.
//!
//! Pure over what was acknowledged and what is found: no I/O, no clock, no store. It does not decide what is
//! asked (that is a workload) nor when (that is the drive loop); it is told of every operation through
//! `plimsoll_core::Observer`.
//!
//! ```text
//! let mut ledger = Ledger::new(workload).expect("a workload with a truth");
//! for each phase {
//!     let observers = ledger.observers(phase, workers, tickets);   // one for each worker
//!     … the phase runs; many times a second: ledger.drain() …
//! }
//! let mut found = ReadBack::new(workload);                         // nothing writes any more
//! found.add_records(&all);
//! ledger.answers();                                                // every answer, by phase and kind
//! ledger.verdict(&found);                                          // every acknowledged write
//! ```
//!
//! # What is right while writes run
//! An answer may show a record as it can have been at some moment between question and answer, and no other
//! way. A question for many must have every record that matched all that time, and must not have one that did not
//! match as shown. A write without an answer may happen at any time after it was sent, or never, until an
//! answer shows it. In quiet phases this leaves one right answer.
//!
//! | module | what |
//! |---|---|
//! | [`ledger`] | [`Ledger`]: gathers from all workers, judges while the phase runs, and forgets what can matter no more |
//! | `witness` | the worker's side, without waiting or allocating |
//! | `ring`, `inbox` | notes between a worker and the ledger; what one worker has noted, in order |
//! | `records`, `state`, `contents` | what each record can be from now on; one of its states; what they hold |
//! | `past` | what is remembered of what it was |
//! | `judge`, `range` | holds an answer against that; the same of ranges of keys |
//! | [`readback`] | [`ReadBack`]: what the store holds in the end |
//! | `audit` | holds that against what each record can be |
//! | `unknown` | [`UnknownWrites`]: fates of writes of unknown outcome |
//! | [`verdict`] | [`AnswerVerdict`], [`LedgerVerdict`]: what came of it |

pub mod ledger;
pub mod readback;
pub mod verdict;

mod audit;
mod contents;
mod digest;
mod inbox;
mod judge;
mod log;
mod past;
mod range;
mod records;
mod ring;
mod state;
#[cfg(test)]
mod tests;
mod unknown;
mod witness;
mod words;

pub use ledger::Ledger;
pub use readback::ReadBack;
pub use ring::SERVERS_MAX;
pub use unknown::UnknownWrites;
pub use verdict::{AnswerVerdict, LedgerVerdict, StaleReads};
