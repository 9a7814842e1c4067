//! Drives a phase: many clients' operations sent to a store at their times, and every answer's time counted.
//!
//! It knows sessions, streams and observers by `core`'s traits only: no store, no protocol, no file. It does
//! not judge what it measured; it hands out [`plimsoll_core::Slice`]s and a [`DriveResult`].
//!
//! | module | what is there |
//! |---|---|
//! | [`Drive`] (`control`) | the control thread: starts workers (`launch`), collects slices, ends the phase |
//! | [`Driver`] (`driver`) | the seam of a run: drives in real time ([`RealTime`]), or simulated in tests |
//! | [`DriveSpec`] (`spec`), [`DriveResult`] (`result`) | what a phase is told and what it says |
//! | [`Clock`] (`clock`) | the run's clock |
//! | [`Timer`] (`timer`) | waits of threads beside a drive |
//! | `worker` | the worker's core: what is next (`lane`), when (`turns`, `ends`), and what it came to; no I/O, no thread, no clock |
//! | `worker/setup`, `worker/not_begun` | its parts, settings and report; operations that are sent again, over another connection or after a wait |
//! | `worker/retries`, `worker/breaker` | failed operations that are sent again; circuit breakers of clients |
//! | `worker/steps` | the same for operations of several steps: transactions, scripts, pipelines within them |
//! | `asynchronous` | executor: many sessions on one thread, clients of others on a tokio runtime (feature `async`) |
//! | `blocking` | executor: one thread to a session that blocks |
//! | `wire`, `link`, `place` | executor: many sessions on one thread, protocols without I/O |
//! | `wire/outgoing` | what it sends: pipelines filled and sent in one piece, steps when they can go |
//! | `wire/put_off` | operations that are sent again after a wait |
//! | `wire/losses`, `wire/branches` | connections that are lost or end; sessions with several |
//! | `backoff` | waits before a lost connection is opened again |
//! | `reactor` | the sockets of one worker: what arrived, what is to be sent; one file per way to ask the kernel |
//! | `board`, `histogram`, `errors` | what a worker counts, in memory taken beforehand |
//! | `key_parts` | parts of the keys that a worker asked for and had answers of, by ticks |
//! | `silence` | times without an answer of a worker's clients |
//! | `alarm` | when a worker is woken up for them |
//! | `schedule`, `poisson` | arrival times, as pure functions of the arrival's number |
//! | [`Witness`] (`witness`) | the machine's own pauses: a thread per processor that sleeps and notes how late it wakes |
//! | `each` | times of single operations: room for them, and the first of a phase |
//! | `late` | when the generator may have moved a phase's figures |
//! | `collect`, `grid` | slices, and their bounds as pure functions |
//!
//! On a worker's thread nothing is allocated, locked or logged per operation; the tests count.

mod alarm;
#[cfg(feature = "async")]
mod asynchronous;
mod backoff;
mod blocking;
mod board;
mod clock;
mod collect;
mod control;
mod driver;
mod each;
mod errors;
mod grid;
mod group;
mod histogram;
mod key_parts;
mod late;
mod link;
mod place;
mod poisson;
mod reactor;
mod result;
mod schedule;
mod silence;
mod spec;
mod timer;
mod wire;
mod witness;
mod worker;

pub use board::worker_addresses;
pub use clock::Clock;
pub use control::Drive;
pub use driver::{Driver, RealTime};
pub use each::first as first_operations;
pub use place::addresses_of;
pub use plimsoll_core::pace::{
    Arrivals, Backoff, Breaker, Io, Pace, Rate, Retry, RetryScope, Stage, ThinkTime, WakeMode,
};
pub use result::{BreakerCounts, DriveResult, ErrorCount, IoUsed, Lag, OpTime, RetryCounts, StopReason};
pub use spec::{DEPTH_MAX, DriveError, DriveSpec, Group, INSTANT_WORKERS, Limit, Undisturbed, try_uring};
pub use timer::{Entered, Timer};
pub use witness::{Seen, Watch, Witness};
