//! The load line: the highest rate at which every goal held, found by asking for one rung after the other.
//!
//! [`LineSearch`] is a pure state machine. It takes the last load step ([`LoadStep`], which [`LineFold`] makes from the
//! recording) and returns the next rung, or the line. It depends on the load steps alone, so that a report finds the
//! same line.
//!
//! 1. *Start*: a closed loop as fast as it goes, unless a rate to start from is given.
//! 2. *Climb*: rates grow by a constant factor until a goal breaks (or shrink until all hold).
//! 3. *Bisect*: the rate in the middle, until a rate that held and one that failed are as near to each other as asked.
//! 4. *Decide*: these two in turn, until a test decides both. A rate at which load steps differ is left for one beside
//!    it, where the precision allows that; rates that contradict each other are driven again. Then one load step at the
//!    rate that is carried lasts through a cycle of the store's maintenance, where its length is known and there is time.
//! 5. *Share*: with faults, one load step at each of four shares of the line: how much sooner is the store back?
//! 6. *Beyond*: one load step far above, if there was none: does the store keep its rate, shed load, or collapse?
//!
//! Nothing is stated but what load steps at that very rate decided and no others contradict.

mod cost;
mod cycle;
mod estimate;
mod explain;
mod finer;
mod fold;
mod load_step;
mod search;
mod sentence;
mod steps;
mod taken;
mod through;

pub use plimsoll_record::data::{LineSpec, Purpose};

pub use crate::resource::Resource;
use crate::view::{Beyond, Broken, Cause, Ending, GoalSeen, LineResult, LineState, Requirement, Rung};

pub use finer::finer_than_machine;
pub use fold::{LineFold, lines};
pub use load_step::{LoadStep, ResourceUse};
pub use search::LineSearch;
pub(crate) use sentence::{of_all, of_store};

/// Next action of a search.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Drives this rung.
    Rung(Rung),
    /// Ends the search.
    Done(Box<LineResult>),
}
