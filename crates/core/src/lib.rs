//! The vocabulary of Plimsoll, shared by all other crates.
//!
//! Nothing here performs I/O, reads a clock or knows a store by name.
//!
//! | module | words |
//! |---|---|
//! | [`value`] | [`Value`], and [`ValueBuf`], the buffer that holds values without allocating; [`OwnedValue`] |
//! | [`op`] | [`OpKind`], [`Op`], [`Outcome`], [`Answer`]: operation types, operations and their results |
//! | [`http`] | [`HttpCall`]: requests, and the values taken from their answers |
//! | [`ldap`] | [`LdapCall`]: operations on a directory |
//! | [`layout`] | [`Layout`], [`Collection`]: objects that must exist in a store before a trial |
//! | [`store`] | [`StoreKind`], [`Store`]: a store under test, as its clients see it |
//! | [`server`] | [`Recipe`], [`Servers`]: how private servers are made, and the actions on running ones |
//! | `failover` | [`FailoverTime`]: published formulas of failover |
//! | [`mod@disk`] | [`DiskSpec`]: a disk that can lose power |
//! | [`link`] | [`Link`]: delay, loss, rate and faults of a host's network link |
//! | `clock` | [`ClockChange`]: error of a wall clock |
//! | [`session`] | [`BlockingSession`], [`WireSession`]: one connection, in the shapes that `drive` supports |
//! | [`kv`] | [`Kv`], the simplest interface of a store |
//! | [`workload`] | [`Workload`], [`Stream`], [`Steps`], [`Truth`]: operations, and their correct answers |
//! | [`observer`] | [`Observer`]: sees every operation sent and finished |
//! | [`tally`] | [`AnswerTally`]: answers of sessions by status, and their sizes |
//! | `client_set` | [`ClientSet`]: clients by their numbers |
//! | [`mod@slice`] | [`Slice`]: one second of a phase, as histograms and counts |
//! | [`mod@pause`] | [`Pause`]: a time in which the machine stood still |
//! | [`sampler`] | [`Sampler`]: figures read once a slice |
//! | [`lock_waits`] | [`LockWaits`](lock_waits::LockWaits): sessions that wait for locks, by holder |
//! | [`study`] | kinds of phase, goals, figures, answers: contents that a plan and a recording share |
//! | [`mounts`] | [`mounts::Mount`]: a line of the kernel's table of mounts |
//! | [`pace`] | start times of operations |
//! | [`panics`] | [`panics::caught`]: panics of code in this process, as errors |
//! | [`formula`] | [`Formula`]: arithmetic over the results of phases |
//! | [`condition`] | [`Condition`]: comparisons of figures |
//! | [`tables`] | collections as SQL tables |
//! | [`production`] | [`Production`]: statements that a running store executed before |
//! | [`progress`] | [`Progress`] of long-running work on a server |
//! | [`sql`] | properties of a statement that its text alone proves: it only reads |
//! | `parameters` | [`tokens()`] and [`parameters()`] of an SQL statement |
//! | [`quantity`] | quantities of a phase, by the names that formulas use |
//! | [`mod@nearest`] | suggestions for unknown words |
//! | [`quoted`] | texts in quotes among the words of a fault |
//! | [`random`] | random numbers that follow from a seed |
//! | [`catalogue`] | [`Catalogue`]: names that a plan may use |
//! | [`files`] | files that users name, read up to a size |
//! | `calendar` | [`Utc`]: a moment's date and time of day |
//! | [`log_time`] | times as logs write them |
//! | [`waits`] | [`Waits`]: limits on waiting for a server, and the interruption of waits |
//! | `words` | enums whose values have one word each |
//! | `removal` | [`Removal`]: the command that removes what a run left in an attached server |
//! | [`fault`] | faults of a simulated disk, and their words |
//! | [`at_risk`] | [`WriteKind`]: kinds of changes that a power cut can lose |
//! | [`error`] | [`StoreError`]: an error of a store, with advice |

pub mod at_risk;
mod calendar;
pub mod catalogue;
mod client_set;
mod clock;
pub mod command;
pub mod condition;
pub mod disk;
pub mod error;
mod failover;
pub mod fault;
pub mod files;
pub mod formula;
pub mod http;
pub mod kv;
pub mod layout;
pub mod ldap;
pub mod limits;
pub mod link;
pub mod lock_waits;
pub mod log_time;
pub mod mounts;
pub mod nearest;
mod node_set;
pub mod observer;
pub mod op;
mod owned;
pub mod pace;
pub mod panics;
mod parameters;
mod password;
pub mod pause;
pub mod production;
pub mod progress;
pub mod quantity;
pub mod quoted;
pub mod random;
mod removal;
pub mod sampler;
pub mod server;
pub mod session;
pub mod shown;
pub mod slice;
pub mod sql;
pub mod store;
pub mod study;
pub mod tables;
pub mod tally;
pub mod value;
pub mod waits;
mod words;
pub mod workload;

pub use at_risk::{PageGuard, WriteKind, settings_named};
pub use calendar::Utc;
pub use catalogue::{
    Catalogue, CsvFile, ParamSpec, ParamType, ParamValue, Params, Preset, SamplerSpec, Script, WorkloadError,
    WorkloadSpec,
};
pub use client_set::{AFFECTED_NS, ClientSet};
pub use clock::ClockChange;
pub use condition::{Bounds, Condition};
pub use disk::{DiskLayout, DiskSpec, DiskSpeed, FileSystem, LOG_DISK, NodeChoice, with_disk};
pub use error::{NO_SPACE, StoreError, StoreErrorKind};
pub use failover::FailoverTime;
pub use fault::{CutMoment, Survivors};
pub use formula::{Formula, FormulaError, Term};
pub use http::{HttpCall, HttpHeader, HttpRequest, HttpTake, RequestHeader, Template, TemplatePiece};
pub use kv::{Kv, KvCapabilities, KvError, WriteBatch};
pub use layout::{Collection, Field, Index, IndexMode, Layout, LayoutStatement};
pub use ldap::{LdapCall, LdapChange, LdapChangeKind, LdapScope};
pub use limits::{LimitChange, Limits, with_limits};
pub use link::{Link, LinkPeers, LinkWays};
pub use node_set::NodeSet;
pub use observer::Observer;
pub use op::{Access, Answer, Call, KindId, KvCall, Op, OpKind, Outcome, RecordsCall, Ticket};
pub use owned::OwnedValue;
pub use parameters::{parameters, tokens};
pub use password::Password;
pub use pause::{Pause, covered_ns, paused_ns};
pub use production::Production;
pub use progress::Progress;
pub use removal::{Removal, is_run_id, shell_word};
pub use sampler::{Reading, SampleValue, Sampler, Series, SeriesKind, Unavailable};
pub use server::{
    Launch, Member, Node, NodeSite, Nodes, ProgramChange, Recipe, ServerDescription, ServerSpec, Servers, Span,
    StopSignal, no_promotion,
};
pub use session::{
    ANSWER_BYTES_MAX, Address, AsyncSession, BlockingSession, Branches, CompletionSink, SessionFuture, SessionShape,
    SessionSpec, Sessions, WireClient, WireSession, WireState, Wish,
};
pub use slice::{
    ClientSilence, Disturbance, KEY_PARTS_MAX, KeyParts, Measure, OBSERVED_LEAST_NS, PartTick, ServerAnswers,
    ServerTicks, Slice, SliceHistogram, TICK_NS, Tick,
};
pub use store::{
    CacheSize, ColdStart, Cycle, Dialect, Durability, ErrorCodes, Footprint, Interface, OpenOptions, Probe, Setting,
    Store, StoreDescription, StoreKind, StorePreset, StoreSpec, Target, read_probes,
};
pub use tally::AnswerTally;
pub use value::{Value, ValueBuf, ValueType, Values};
pub use waits::Waits;
pub use workload::{Extent, Mix, Step, Steps, Stream, StreamSpec, Truth, Version, Workload, in_turn};
