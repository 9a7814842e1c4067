//! The load line: the highest rate at which every goal held, found by asking for one rung after the other.
//!
//! [`LineSearch`] is a pure state machine. It is given what the last rung came to ([`RungSummary`], made by
//! [`RungSummary::of`] from what is recorded) and says which rung is next, or what the line is. It decides from the
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
//! | `rung` | what a rung came to, from slices and samples |
//! | `observed` | what a rung says about the line, and how sure that is |
//! | `posterior` | where the line is by all of them, as a distribution |
//! | `cycle` | how long the store's own maintenance cycle is, and which rungs lasted through one |
//! | `estimate` | which rates held and which did not; everything there is to say of a search |
//! | `explain` | what the store ran into |
//! | `finer` | whether a goal is finer than the machine |
//! | `replay` | a search found again from a recording, finished or growing, and its view |
//! | `sentence` | the result in words |

mod cycle;
mod estimate;
mod explain;
mod finer;
mod observed;
mod posterior;
mod replay;
mod rung;
mod search;
mod sentence;

pub use plimsoll_record::data::{LineSpec, Purpose};
use serde::{Deserialize, Serialize};

pub(crate) use explain::waits_for;
pub use finer::finer_than_machine;
pub use replay::{LineView, RungView, asked_words, lines, replay};
pub(crate) use replay::{of_store, sentence as line_sentence};
pub use rung::{GoalSeen, Resource, RungSummary};
pub use search::LineSearch;
pub use sentence::goal_name;

/// One rung: a rate to hold for a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// Position in the search, from 0.
    pub ordinal: u32,
    /// Operations a second; `None` is a closed loop.
    pub rate_per_s: Option<f64>,
    /// What it is for.
    pub purpose: Purpose,
    /// Warm-up, which counts for nothing.
    pub warmup_s: f64,
    /// Time that counts.
    pub seconds: f64,
}

/// What the search wants.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// This rung.
    Rung(Rung),
    /// Nothing more.
    Done(Box<LineResult>),
}

/// How a search ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "how", content = "why")]
pub enum Ending {
    /// The line was found.
    Found,
    /// Time was up before the interval was as narrow as asked.
    TimeUp,
    /// Every goal held at the highest rate that may be tried.
    NoFailure,
    /// A goal was broken at the lowest rate that may be tried.
    NoPass,
    /// The generator, not the store, was the limit.
    Generator(String),
    /// The store failed or the rungs could not be run.
    Failed(String),
    /// A goal could not be measured in the time there was.
    NotMeasured(String),
    /// Stopped from outside before its end.
    Stopped,
}

/// Whether a search came to what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LineState {
    /// To a line, or to the knowledge that every goal holds up to the highest rate.
    Decided,
    /// What was seen does not tell it; why, and what would.
    Undecided(String),
    /// To the knowledge that no rate keeps the goals, to a failure, or to an end from outside.
    NoLine,
}

/// What the store does with more than it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Beyond {
    /// It refuses what is too much and goes on with the rest.
    Sheds,
    /// It keeps its rate, and clients wait.
    Queues,
    /// It does less than before.
    Collapses,
    /// Not tried.
    NotSeen,
}

/// What is behind the line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cause {
    /// What it is, as a sentence goes on after "because".
    pub text: String,
    /// Name of the resource.
    pub resource: String,
    /// From 0 to 1: how sure. Only for order.
    pub score: f64,
}

/// The goal that broke.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Broken {
    /// `p99`, `errors`, or `carried` when the store did not keep up with what was asked.
    pub what: String,
    /// The limit in `unit`.
    pub limit: f64,
    /// Its median over the rungs at the lowest rate that failed, in `unit`; infinite when nothing was answered.
    pub got: f64,
    /// Unit.
    pub unit: String,
}

/// The load line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineResult {
    /// How the search ended.
    pub ending: Ending,
    /// Whether it decided.
    pub state: LineState,
    /// The line, operations a second; `None` when none was found.
    pub rate_per_s: Option<f64>,
    /// Half the width of its 95 % interval, to the side that is wider.
    pub uncertainty_per_s: Option<f64>,
    /// Where its 95 % interval begins.
    pub low_per_s: Option<f64>,
    /// Where it ends.
    pub high_per_s: Option<f64>,
    /// Highest rate at which every goal held.
    pub held_per_s: Option<f64>,
    /// Lowest rate above it at which one did not.
    pub failed_per_s: Option<f64>,
    /// Which goal broke first, and by how much.
    pub broken: Option<Broken>,
    /// What explains it, likeliest first; empty when nothing that is sampled does.
    pub causes: Vec<Cause>,
    /// What happens past the line.
    pub beyond: Beyond,
    /// What the store still does at the highest rate tried, as a share of the most it did.
    pub beyond_share: Option<f64>,
    /// Maintenance cycles that ended inside the deciding rungs, by counter; `None` where none can be read.
    pub cycles: Option<Vec<(String, f64)>>,
    /// Those of them that ended at the rate that held.
    pub cycles_held: f64,
    /// How long a cycle takes and what to set, where none was seen while the goals held and the store says so.
    pub cycle_words: Option<String>,
    /// What a closed loop reached.
    pub closed_loop_per_s: Option<f64>,
    /// Time that all rungs took.
    pub took_s: f64,
    /// Number of rungs.
    pub n: u64,
    /// One sentence.
    pub sentence: String,
}
