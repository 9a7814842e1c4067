//! Results of a trace.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::call::Call;
use crate::place::Given;
use crate::times::Times;

/// Way of tracing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Programs that the kernel runs at each call, and that count there.
    Bpf,
    /// By looking again and again at what threads wait for: calls that are shorter than the time between two looks are mostly
    /// missed, and times are no more exact than it.
    Proc,
}

impl Way {
    /// All, best first.
    pub const ALL: [Way; 2] = [Way::Bpf, Way::Proc];

    /// Returns the name in options.
    pub fn name(self) -> &'static str {
        match self {
            Way::Bpf => "bpf",
            Way::Proc => "proc",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A call above the threshold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slow {
    /// Process that called.
    pub pid: u32,
    /// The process's name.
    pub name: String,
    /// Thread that called; 0 if not known.
    pub tid: u32,
    /// Call that was made.
    pub call: Call,
    /// Start, in nanoseconds of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Duration, nanoseconds; of a call in progress, its duration so far.
    pub time_ns: u64,
    /// Return value: 0, or the negative number of an error; `None` if it is not known.
    pub result: Option<i64>,
    /// Path of the file, if known.
    pub path: Option<PathBuf>,
}

/// Calls of one sort made by a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calls {
    /// Call that was made.
    pub call: Call,
    /// Durations since the trace began.
    pub times: Times,
    /// Durations since the previous reading.
    pub new: Times,
    /// Number of `times` that returned an error.
    pub failed: u64,
}

impl Calls {
    pub(crate) fn none(call: Call) -> Self {
        Self { call, times: Times::default(), new: Times::default(), failed: 0 }
    }
}

/// A process that has made traced calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Number of the process; 0 for the sum of processes that ended before many others did.
    pub pid: u32,
    /// Name of the process.
    pub name: String,
    /// Calls of the process.
    pub calls: Vec<Calls>,
}

/// Results of a reading.
#[derive(Debug, Clone)]
pub struct Traced {
    /// Way of tracing.
    pub way: Way,
    /// Time of the reading, in nanoseconds of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Time since it was read last, or since the trace began.
    pub elapsed: Duration,
    /// Calls that could not be counted or listed, since the trace began.
    pub lost: u64,
    /// Processes that called.
    pub processes: Vec<Process>,
    /// Slow calls that ended since it was read last, in the order of their ends.
    pub slow: Vec<Slow>,
    /// Calls above the threshold that are not done yet.
    pub unfinished: Vec<Slow>,
}

impl Traced {
    /// Times of all processes and calls, since the trace began.
    pub fn times(&self) -> Times {
        self.sum(|calls| &calls.times)
    }

    /// Times of all processes and calls, since it was read last.
    pub fn new_times(&self) -> Times {
        self.sum(|calls| &calls.new)
    }

    fn sum(&self, of: impl Fn(&Calls) -> &Times) -> Times {
        let mut sum = Times::default();
        self.processes.iter().flat_map(|process| &process.calls).for_each(|calls| sum.merge(of(calls)));
        sum
    }
}

/// Most slow calls that are kept until they are read.
const SLOW_MAX: usize = 65_536;

/// Counts of a way so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallCounts {
    /// Times by process and call, and the number of failed ones.
    pub(crate) calls: BTreeMap<(u32, Call), (Times, u64)>,
    pub(crate) names: BTreeMap<u32, String>,
    pub(crate) slow: Vec<Slow>,
    pub(crate) unfinished: Vec<Slow>,
    pub(crate) lost: u64,
    /// Processes that have ended, and of which nothing is counted any more: what is told of them now is not told again.
    pub(crate) gone: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct SeenCall {
    pub(crate) given: Given,
    pub(crate) tid: u32,
    pub(crate) start_ns: u64,
    pub(crate) time_ns: u64,
    pub(crate) result: Option<i64>,
}

impl CallCounts {
    /// Returns everything seen so far. Slow calls and processes that have ended are returned once.
    pub(crate) fn told(&mut self) -> CallCounts {
        let told = CallCounts { slow: std::mem::take(&mut self.slow), ..self.clone() };
        let pids: BTreeSet<u32> = self.calls.keys().map(|(pid, _)| *pid).collect();
        let gone: Vec<u32> = pids.into_iter().filter(|pid| !crate::processes::is_there(*pid)).collect();
        self.calls.retain(|(pid, _), _| !gone.contains(pid));
        self.names.retain(|pid, _| !gone.contains(pid));
        CallCounts { gone, ..told }
    }

    /// Counts one call, and lists it, with the file at `path`, if it took `threshold_ns` or longer.
    pub(crate) fn count(&mut self, call: SeenCall, threshold_ns: u64, path: impl FnOnce() -> Option<PathBuf>) {
        let (times, failed) = self.calls.entry((call.given.pid, call.given.call)).or_default();
        times.record(call.time_ns);
        *failed += u64::from(call.result.is_some_and(|result| result < 0));
        let pid = call.given.pid;
        self.names.entry(pid).or_insert_with(|| crate::place::name_of(pid));
        if call.time_ns >= threshold_ns {
            self.list(call.slow(path()));
        }
    }

    pub(crate) fn list(&mut self, call: Slow) {
        if self.slow.len() < SLOW_MAX {
            self.slow.push(call);
        } else {
            self.lost += 1;
        }
    }
}

impl SeenCall {
    /// Converts the call to an entry in the list of slow calls.
    pub(crate) fn slow(&self, path: Option<PathBuf>) -> Slow {
        let Given { pid, call, .. } = self.given;
        let name = crate::place::name_of(pid);
        Slow {
            pid,
            name,
            tid: self.tid,
            call,
            start_ns: self.start_ns,
            time_ns: self.time_ns,
            result: self.result,
            path,
        }
    }
}
