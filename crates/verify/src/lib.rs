//! Whether a store told the truth: the ledger of what it acknowledged, and the checkers that hold its answers
//! and its records against it.
//!
//! Pure over what was acknowledged and what is found: no I/O, no clock, no store. It does not decide what is
//! asked (that is a workload) nor when (that is the drive loop); it is told of every operation through
//! `plimsoll_core::Observer`.
//!
//! ```text
//! let mut ledger = Ledger::new(workload).expect("a workload with a truth");
//! for each phase {
//!     let observers = ledger.observers(phase, workers, tickets);   // one for each worker
//!     … the phase runs; once a slice: ledger.drain() …
//! }
//! let mut found = ReadBack::new(workload);                         // nothing writes any more
//! found.add_records(&all);
//! let judge = Judge::new(ledger.history());
//! judge.answers();                                                 // every answer, by phase and kind
//! judge.ledger(&found);                                            // every acknowledged write
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
//! | [`ledger`] | [`Ledger`]: gathers from all workers, phase by phase |
//! | `witness`, `log` | the worker's side, without waiting or allocating; what is written down |
//! | [`history`] | [`History`]: all that was gathered, and whether it is all |
//! | `range` | questions for records in the order of their keys |
//! | `timeline` | what each record can have been at each time |
//! | [`answers`] | [`Judge`], [`AnswerVerdict`]: every answer held against that |
//! | `running` | the ledger that judges while a phase runs and forgets what can matter no more: of values under keys |
//! | [`readback`] | [`ReadBack`]: what the store holds in the end |
//! | [`verdict`] | [`LedgerVerdict`]: what became of every acknowledged write |

pub mod answers;
pub mod history;
pub mod ledger;
pub mod readback;
pub mod verdict;

mod digest;
mod log;
mod range;
mod running;
mod timeline;
mod witness;
mod words;

pub use answers::{AnswerVerdict, Judge};
pub use history::History;
pub use ledger::Ledger;
pub use readback::{EachKey, ReadBack};
pub use verdict::LedgerVerdict;
