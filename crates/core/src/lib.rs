//! The vocabulary of Plimsoll: what every other crate talks in.
//!
//! Nothing here performs I/O, reads a clock or knows a store by name.
//!
//! | module | words |
//! |---|---|
//! | [`value`] | [`Value`], and [`ValueBuf`], the buffer they are built in without allocating |
//! | [`op`] | [`OpKind`], [`Op`], [`Outcome`], [`Answer`]: one unit of work and what it came to |
//! | [`http`] | [`HttpCall`]: requests, and what is wanted of their answers |
//! | [`ldap`] | [`LdapCall`]: operations on a directory |
//! | [`layout`] | [`Layout`], [`Collection`]: what has to exist in a store before a trial |
//! | [`store`] | [`StoreKind`], [`Store`]: a store under test, as its clients know it |
//! | [`server`] | [`Recipe`], [`Servers`]: how servers of our own are made, and what can be done to those that run |
//! | [`mod@disk`] | [`Disk`]: a disk of a store's that can lose power |
//! | [`session`] | [`BlockingSession`], [`WireSession`]: one connection, in the shapes `drive` can run |
//! | [`kv`] | [`Kv`], the plainest interface a store can have |
//! | [`workload`] | [`Workload`], [`Stream`], [`Steps`], [`Truth`]: what is asked, and what the right answer is |
//! | [`observer`] | [`Observer`]: sees every operation go out and come back |
//! | [`mod@slice`] | [`Slice`]: one second of a phase, as histograms and counts |
//! | [`mod@pause`] | [`Pause`]: the machine stood still |
//! | [`sampler`] | [`Sampler`]: figures read once a slice |
//! | [`study`] | kinds of phase, goals, figures: what a plan asks for and a recording keeps |
//! | [`pace`] | when operations are started |
//! | [`formula`] | [`Formula`]: arithmetic over the results of phases |
//! | [`tables`] | collections as tables of SQL |
//! | [`production`] | [`Production`]: what a running store was asked before |
//! | [`progress`] | [`Progress`]: what runs long on a server, and how far it is |
//! | [`sql`] | what can be told of a statement without a server: that it only reads |
//! | `parameters` | [`parameters()`]: where parameters stand in a statement |
//! | [`quantity`] | what can be known of a phase, by the names that formulas use |
//! | [`mod@nearest`] | what somebody may have meant by a word that nobody knows |
//! | [`catalogue`] | [`Catalogue`]: everything a plan may name |
//! | `calendar` | [`Utc`]: a moment's date and time of day |
//! | [`waits`] | [`Waits`]: how long a server is waited for, and what ends that |
//! | `words` | enums whose values have one word each |
//! | `removal` | [`Removal`]: the command that removes what a run left in an attached server |
//! | [`fault`] | what such a disk can be asked to do wrong, and its words |
//! | [`error`] | [`StoreError`]: what went wrong with a store, where, and what to do |

mod calendar;
pub mod catalogue;
pub mod command;
pub mod disk;
pub mod error;
pub mod fault;
pub mod formula;
pub mod http;
pub mod kv;
pub mod layout;
pub mod ldap;
pub mod limits;
pub mod nearest;
pub mod observer;
pub mod op;
pub mod pace;
mod parameters;
pub mod pause;
pub mod production;
pub mod progress;
pub mod quantity;
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
pub mod value;
pub mod waits;
mod words;
pub mod workload;

pub use calendar::Utc;
pub use catalogue::{
    Catalogue, CsvFile, ParamSpec, ParamType, ParamValue, Params, Preset, SamplerSpec, Script, WorkloadError,
    WorkloadSpec,
};
pub use disk::{Disk, FileSystem, PowerNode, with_disk};
pub use error::{StoreError, StoreErrorKind};
pub use fault::{CutAt, Survivors};
pub use formula::{Formula, FormulaError, Term};
pub use http::{HttpCall, HttpHeader, HttpTake, Piece, Request, RequestHeader, Template};
pub use kv::{Kv, KvCapabilities, KvError, WriteBatch};
pub use layout::{Collection, Field, Index, IndexMode, Layout, Statement};
pub use ldap::{LdapCall, LdapChange, LdapHow, LdapScope};
pub use limits::{Limits, with_limits};
pub use observer::Observer;
pub use op::{Access, Answer, Call, KindId, KvCall, Op, OpKind, Outcome, RecordsCall, Ticket};
pub use parameters::parameters;
pub use pause::{Pause, covered_ns, paused_ns};
pub use production::Production;
pub use progress::Progress;
pub use removal::{Removal, is_run_id, shell_word};
pub use sampler::{Found, Reading, Sampler, Series, SeriesKind, Unavailable};
pub use server::{Described, Launch, Member, Node, Nodes, Recipe, ServerSpec, Servers, Span, StopSignal};
pub use session::{
    ANSWER_BYTES_MAX, Address, AsyncSession, BlockingSession, Branches, Done, Pending, SessionShape, SessionSpec,
    Sessions, WireClient, WireSession, WireState, Wish,
};
pub use slice::{Answered, Measure, Slice, SliceHistogram, Watched};
pub use store::{
    CacheSize, Cold, Cycle, Dialect, Durability, Footprint, Interface, OpenOptions, Probe, Setting, Store,
    StoreDescription, StoreKind, StorePreset, StoreSpec, Target,
};
pub use value::{Value, ValueBuf, ValueType, Values};
pub use waits::Waits;
pub use workload::{Extent, Mix, Step, Steps, Stream, StreamSpec, Truth, Version, Workload, in_turn};
