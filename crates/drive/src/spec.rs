//! Parameters of a phase.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use plimsoll_core::pace::{Backoff, Breaker, Io, Pace, Rate, Retry, Stage, ThinkTime, WakeMode};
use plimsoll_core::panics::Panic;
use plimsoll_core::{ANSWER_BYTES_MAX, Sessions, StoreError, TICK_NS};

use crate::group::Placed;
use crate::reactor::Uring;
use crate::witness::Witness;

/// Parameters of a phase's drive. There are [`DriveSpec::depth`] clients to a session.
#[derive(Debug, Clone, PartialEq)]
pub struct DriveSpec {
    /// Limit of the phase. It also ends when the stream has no more operations.
    pub limit: Limit,
    /// Time at the beginning that counts for nothing; its slices are flagged.
    pub warmup: Duration,
    /// Start times of operations.
    pub pace: Pace,
    /// Closed loop: how long clients wait after an answer.
    pub think: Option<ThinkTime>,
    /// Sessions with a pace of their own, those of the lowest numbers first: they say it instead of `pace`, `think` and
    /// `workers`. None: all sessions are one group.
    pub groups: Vec<Group>,
    /// Closed loop: sessions that are at work over time, those of the lowest numbers; none: all of them.
    pub stages: Vec<Stage>,
    /// Operations after which a session's connection is closed and another begun; none: never. Sessions with one connection each,
    /// and one operation at a time.
    pub reconnect: Option<u32>,
    /// Poisson arrivals of the same seed are at the same times.
    pub seed: u64,
    /// Time limit of an answer. After it the operation is given up and its outcome is unknown. In an operation of
    /// several steps the limit applies to each answer, and the operation is given up this long after the end of the
    /// phase, whatever it waits for. A blocking session cannot be interrupted: the limit is then the time that the end
    /// of the phase waits for it.
    pub op_timeout: Duration,
    /// Time limit for connecting, greeting and preparing a session.
    pub open_timeout: Duration,
    /// Time limit for all of that when a session is opened again during the phase; none: as `open_timeout`. Blocking
    /// sessions open none.
    pub connect_timeout: Option<Duration>,
    /// Waits before a lost connection is opened again. They are looked at every 10 ms.
    pub backoff: Backoff,
    /// Failed operations that are sent again, at once or when their connection is back; none: no operation. Not with
    /// operations of several steps. Each try counts as an operation, and has a response time; by a schedule that
    /// begins with the first one.
    pub retry: Option<Retry>,
    /// Circuit breaker of each client; none: clients send operations whatever became of others. An operation that it
    /// rejects has the outcome rejected and the code `breaker`.
    pub breaker: Option<Breaker>,
    /// An operation whose connection is lost, or that is not answered in time, ends the phase: a load that lacks one is
    /// no load.
    pub ends_on_loss: bool,
    /// Length of a slice, 10 ms to 60 s.
    pub slice: Duration,
    /// The first slice, if it has a second or more, is also passed on half a second after its start, as far as it is
    /// then: [`plimsoll_core::Slice::preview`].
    pub preview: bool,
    /// Operations are also counted by ticks of 10 ms: [`plimsoll_core::Slice::ticks`].
    pub ticks: bool,
    /// Start of the phase on the drive's clock, in nanoseconds: set when all sessions are open.
    pub started: Arc<OnceLock<u64>>,
    /// Operations that each session has in flight at a time, in a pipeline: 1 to [`DEPTH_MAX`], and no more than the
    /// sessions take ([`plimsoll_core::WireSession::depth_max`]). Each place in a pipeline is a client of its own:
    /// session `s` does the operations of clients `s × depth` to `s × depth + depth - 1`. Blocking sessions and
    /// operations of several steps go one at a time.
    pub depth: u32,
    /// Threads that drive wire sessions. Blocking sessions have one thread each, whatever this says, and sessions whose
    /// calls never wait at least [`INSTANT_WORKERS`], as far as there are so many sessions.
    pub workers: u32,
    /// Most bytes that a wire session keeps of one answer: [`plimsoll_core::WireSession::limit_answers`].
    pub answer_max: usize,
    /// Most operations whose times are kept ([`crate::DriveResult::each`]): the first ones after the warm-up; 0 for none.
    /// Room for them is taken beforehand.
    pub each_max: usize,
    /// Number of each client's first operation. Phases of one trial that write want numbers of their own: the
    /// same client and number is the same write again, and a store that lost all of the second phase would hold
    /// what the first one left, which is then also what it should hold.
    pub first_cycle: u64,
    /// Open loop: age of the oldest due operation at which the phase gives up, because the store does not carry the
    /// rate. At a constant rate it is that much of the rate.
    pub backlog: Duration,
    /// Precision of the workers' wake-ups.
    pub wake: WakeMode,
    /// Kernel interface for the sockets of wire workers.
    pub io: Io,
    /// Processors that workers are bound to, in turn; none: they run where the system puts them.
    pub pin: Vec<u32>,
    /// Paths of network namespaces that workers enter, in turn, before they open sessions; none: they stay in that of the
    /// calling thread. Not with blocking sessions, whose stores may have connected them there already.
    pub networks: Vec<PathBuf>,
    /// Witness of the machine's own pauses, on the same clock; without one disturbed operations are unknown.
    pub witness: Option<Witness>,
    /// Part of [`Limit::Duration`] that must be undisturbed, if there is a witness.
    pub undisturbed: Option<Undisturbed>,
}

/// Sessions of a phase that have a pace of their own.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Number of the sessions.
    pub sessions: u32,
    /// Threads that drive them, as [`DriveSpec::workers`].
    pub workers: u32,
    /// Start times of their operations.
    pub pace: Pace,
    /// Closed loop: how long their clients wait after an answer.
    pub think: Option<ThinkTime>,
}

/// A phase that lasts until it has had enough undisturbed time: neither in a pause of the machine nor in its aftermath.
/// Neither counts the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undisturbed {
    /// Least undisturbed time.
    pub at_least: Duration,
    /// Longest duration of the phase, regardless of its undisturbed time.
    pub at_most: Duration,
}

/// Operations a second of one worker up to which epoll costs less than io_uring in an open loop: 0.87 of it at 1,000,
/// 0.93 at 3,000, 0.96 at 8,000, as much at 12,000 and more (docs/journal/2026-11-22-where-the-time-goes.md).
const SLOW_PER_S: f64 = 10_000.0;

/// Threads that sessions share whose calls never wait, as far as there are so many sessions, where no more are asked for.
pub const INSTANT_WORKERS: usize = 64;

/// Time before a due operation at which a spinning worker wakes up, in nanoseconds.
pub(crate) const SPIN_NS: u64 = 50_000;

/// Deepest pipeline of a session.
pub const DEPTH_MAX: u32 = 1_024;

impl Default for DriveSpec {
    /// A closed loop until the stream has no more, one worker, slices of a second, operations of up to 10 s.
    fn default() -> Self {
        Self {
            limit: Limit::Exhausted,
            warmup: Duration::ZERO,
            pace: Pace::Closed,
            think: None,
            groups: Vec::new(),
            stages: Vec::new(),
            reconnect: None,
            seed: 0,
            op_timeout: Duration::from_secs(10),
            open_timeout: plimsoll_core::waits::ANSWER,
            connect_timeout: None,
            backoff: Backoff::default(),
            retry: None,
            breaker: None,
            ends_on_loss: false,
            slice: Duration::from_secs(1),
            preview: false,
            ticks: false,
            started: Arc::default(),
            depth: 1,
            workers: 1,
            answer_max: ANSWER_BYTES_MAX,
            each_max: 0,
            first_cycle: 0,
            backlog: Duration::from_secs(10),
            wake: WakeMode::Precise,
            io: Io::Auto,
            pin: Vec::new(),
            networks: Vec::new(),
            witness: None,
            undisturbed: None,
        }
    }
}

impl DriveSpec {
    /// Number of clients that this many sessions stand for: what a stream has to be made for. An observer's tickets
    /// are below it.
    pub fn clients(&self, sessions: u32) -> u32 {
        sessions.saturating_mul(self.depth.max(1))
    }

    /// Number of threads that will drive `sessions`: how many observers are wanted.
    pub fn worker_count(&self, sessions: &Sessions) -> usize {
        self.placed(sessions).last().map_or(0, |last| last.workers.end)
    }

    /// Returns the number of ticks of a slice; 0 if they are not counted.
    pub(crate) fn tick_count(&self) -> usize {
        if self.ticks { self.slice.as_nanos().div_ceil(TICK_NS.into()) as usize } else { 0 }
    }

    /// Checks that `sessions` have pipelines of the requested depth.
    pub(crate) fn check_depth(&self, sessions: &Sessions) -> Result<(), DriveError> {
        let depth = self.depth;
        let fault = |what: String| Err(DriveError::Spec(what));
        let has_one = match sessions {
            Sessions::Wire(_) => depth == 1,
            Sessions::Blocking(_) | Sessions::Instant(_) | Sessions::Async(_) => false,
        };
        if self.reconnect.is_some() && !has_one {
            return fault(
                "only sessions with one connection each, one operation at a time, can be reopened".to_owned(),
            );
        }
        let has_policy = self.connect_timeout.is_some() || self.backoff != Backoff::default();
        let is_blocking = matches!(sessions, Sessions::Blocking(_) | Sessions::Instant(_));
        if !self.networks.is_empty() && is_blocking {
            let what =
                "blocking sessions connect where they are made, and not on client hosts: leave out `client_hosts`";
            return fault(what.to_owned());
        }
        if has_policy && is_blocking {
            let what = "blocking sessions open no connection again: leave out `connect_timeout` and `backoff`";
            return fault(what.to_owned());
        }
        if depth == 1 {
            return Ok(());
        }
        if !(1..=DEPTH_MAX).contains(&depth) {
            return fault(format!("a session has 1 to {DEPTH_MAX} operations in flight, not {depth}"));
        }
        match sessions {
            Sessions::Blocking(_) | Sessions::Instant(_) | Sessions::Async(_) => fault(format!(
                "a depth of {depth} needs sessions with a pipeline, and this store's sessions do one operation at a \
                 time: use a depth of 1 and more clients"
            )),
            Sessions::Wire(all) => match all.iter().map(|wire| wire.session.depth_max()).min() {
                Some(most) if most < depth => fault(format!(
                    "a depth of {depth} is more than the {most} that this store's sessions take at a time: use a \
                     depth of at most {most} and more clients"
                )),
                _ => Ok(()),
            },
        }
    }

    /// The way to ask for sockets that `worker` begins with. Where it is left to us, workers of an open loop that
    /// sleep more often than they work take epoll: between two sleeps there is one answer to take, and nothing that
    /// io_uring could do in one call with it. On coarse wake-ups there is.
    pub(crate) fn io_for(&self, worker: usize, placed: &[Placed]) -> Io {
        let mut own = placed.iter().filter(|placed| placed.workers.contains(&worker));
        let is_slow = |placed: &Placed| {
            placed.peak_per_s().is_some_and(|peak_per_s| peak_per_s <= SLOW_PER_S * placed.workers.len() as f64)
        };
        match self.io {
            Io::Auto if self.wake != WakeMode::Coarse && own.any(is_slow) => Io::Epoll,
            io => io,
        }
    }

    pub(crate) fn check(&self) -> Result<(), DriveError> {
        let fault = |what: &str| Err(DriveError::Spec(what.to_owned()));
        if !(Duration::from_millis(10)..=Duration::from_secs(60)).contains(&self.slice) {
            return fault("a slice is 10 ms to 60 s long");
        }
        if self.op_timeout.is_zero() || self.op_timeout > Duration::from_secs(3_600) {
            return fault("an operation's timeout is more than 0 and at most one hour");
        }
        if self.open_timeout.is_zero() || self.connect_timeout.is_some_and(|limit| limit.is_zero()) {
            return fault("the time to open a session is more than 0");
        }
        let groups = self.groups.iter().map(|group| (&group.pace, group.think));
        for (pace, think) in std::iter::once((&self.pace, self.think)).chain(groups) {
            if let Some(Err(what)) = pace.rate().map(Rate::check) {
                return fault(what);
            }
            if pace.is_open() && (think.is_some() || !self.stages.is_empty()) {
                return fault("only a closed loop has a think time, and clients that come and go");
            }
        }
        if !self.groups.is_empty() && !self.stages.is_empty() {
            return fault("clients that come and go are all of one group");
        }
        if !self.stages.is_empty() && !matches!(self.limit, Limit::Duration(_)) {
            return fault("clients that come and go need a phase that has a length");
        }
        if self.retry.is_some_and(|retry| retry.tries < 2) {
            return fault("an operation that is sent again has two tries or more");
        }
        if self.breaker.is_some_and(|breaker| breaker.failures == 0 || breaker.wait_ns == 0) {
            return fault("a circuit breaker opens after one failure or more, for longer than 0");
        }
        if self.backlog.is_zero() {
            return fault("a backlog's limit is longer than 0");
        }
        match (self.undisturbed, self.limit) {
            (Some(wanted), Limit::Duration(length)) if wanted.at_most < length || wanted.at_most < wanted.at_least => {
                return fault("a phase may last no shorter than it is planned and undisturbed");
            }
            (Some(_), Limit::Ops(_) | Limit::Exhausted) => {
                return fault("undisturbed time needs a phase that has a length");
            }
            _ => {}
        }
        match self.limit {
            Limit::Duration(length) if length.is_zero() => fault("a phase lasts longer than 0"),
            Limit::Ops(0) => fault("a phase has at least one operation to a client"),
            _ => Ok(()),
        }
    }
}

/// Checks that io_uring is available here; returns the kernel's error otherwise.
///
/// # Errors
/// The kernel's.
pub fn try_uring() -> std::io::Result<()> {
    Uring::new(1).map(drop)
}

/// Limit of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Each client does this many operations, not counting those that end in the warm-up.
    Ops(u64),
    /// Ends after this long, not counting the warm-up.
    Duration(Duration),
    /// Ends when the stream has no more operations.
    Exhausted,
}

/// Error that prevents a phase from being driven.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The spec asks for what cannot be.
    #[error("the phase cannot be driven as asked: {0}")]
    Spec(String),
    /// A session could not be opened or prepared.
    #[error("{0}")]
    Store(StoreError),
    /// A thread of this program panicked, which is a bug here or in the store's session.
    #[error("a thread panicked: {0}")]
    Panicked(Panic),
    /// Sessions did not open or workers did not hand over their counts in any reasonable time.
    #[error("{what} took longer than {waited:?}")]
    Stuck {
        /// Part that did not answer.
        what: &'static str,
        /// Time that it was waited for.
        waited: Duration,
    },
    /// A thread could not be started.
    #[error("thread {} of {wanted} could not be started: {error}", running + 1)]
    Threads {
        /// Number that runs.
        running: usize,
        /// Number that was requested.
        wanted: usize,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// The operating system refused something that the drive loop needs.
    #[error("{what}: {error}")]
    System {
        /// Request to the operating system.
        what: &'static str,
        /// Error that it returned.
        error: std::io::Error,
    },
}
