//! The load line: the highest rate at which every goal held, found by asking for one rung after the other.
//!
//! [`LineSearch`] is a pure state machine. It is given what the last rung came to ([`RungSummary`], which [`LineFold`] makes
//! of what is recorded) and says which rung is next, or what the line is. It decides from the
//! rungs so far and nothing else: the same summaries give the same line on any machine, which is how a report finds
//! it again from a recording.
//!
//! 1. *Start*: a closed loop as fast as it goes, unless a rate to start from is given.
//! 2. *Climb*: rates grow by a constant factor until a goal breaks (or shrink until all hold).
//! 3. *Beyond*: two rungs past the first failure: does the store keep its rate, shed load, or collapse?
//! 4. *Bisect*: the rate of which all rungs together leave it most open whether it is below the line.
//! 5. *Decide*: near the ends of the interval and near the line, again and again, until it is as narrow as asked and there were three rungs
//!    near it on either side. One rung on each side lasts through a whole cycle of the store's maintenance where its
//!    length is known and there is time.
//!
//! No rung decides by itself: one pause of the machine makes an answer wrong. What all of them together say is a
//! distribution over rates, whose middle is the line and whose 95 % interval is its uncertainty. Where that stays wide
//! the search is *undecided*.
//!
//! | module | what |
//! |---|---|
//! | `search` | which rung is next, and how long |
//! | `rung` | the result of a rung, from slices and samples |
//! | `taken` | times in which other programs had the machine's processors |
//! | `observed` | evidence of a rung about the line, and its uncertainty |
//! | `posterior` | the position of the line by all of them, as a distribution |
//! | `cycle` | the length of the store's own maintenance cycle, and the rungs that lasted through one |
//! | `estimate` | rates that held and rates that did not; the result of a search |
//! | `explain` | causes of the line |
//! | `finer` | detects a goal that is finer than the machine |
//! | `fold` | a search that takes one rung after the other, while it goes on or from a recording; its view |
//! | `sentence` | the result in words |

mod cycle;
mod estimate;
mod explain;
mod finer;
mod fold;
mod observed;
mod posterior;
mod rung;
mod search;
mod sentence;
mod taken;

pub use plimsoll_record::data::{LineSpec, Purpose};

use crate::view::{Beyond, Broken, Cause, Ending, GoalSeen, LineResult, LineState, Rung};

pub(crate) use explain::waits_for;
pub use finer::finer_than_machine;
pub use fold::{LineFold, asked_words, lines};
pub(crate) use fold::{of_store, sentence as line_sentence};
pub use rung::{Resource, RungSummary};
pub use search::LineSearch;
pub use sentence::goal_name;

/// Next action of a search.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Drives this rung.
    Rung(Rung),
    /// Ends the search.
    Done(Box<LineResult>),
}
