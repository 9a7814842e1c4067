//! Chooses a way to trace, and says what is new since it was asked last.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::call::Call;
use crate::error::TraceError;
use crate::times::Times;
use crate::traced::{CallCounts, Calls, Process, Traced, Way};
use crate::{bpf, proc, processes, sys};

/// Scope of a trace.
#[derive(Debug, Clone)]
pub struct TraceSpec {
    /// These processes and all their descendants, also those that they have from now on; without any list, all processes.
    pub pids: Option<Vec<u32>>,
    /// Calls that take this long or longer are listed one by one.
    pub threshold: Duration,
    /// Way to use; without it, the best one that works.
    pub way: Option<Way>,
}

impl TraceSpec {
    /// Processes `pids`, with calls of 10 ms or longer listed.
    pub fn of(pids: Vec<u32>) -> Self {
        Self { pids: Some(pids), threshold: Duration::from_millis(10), way: None }
    }

    pub(crate) fn threshold_ns(&self) -> u64 {
        self.threshold.as_nanos().min(u128::from(u64::MAX)) as u64
    }
}

/// Most processes that have ended and are still told one by one.
const ENDED_MAX: usize = 1_000;

/// A way to trace, once it goes on.
pub(crate) trait Source: Send {
    /// Returns all counts since the start, and slow calls since the previous reading.
    fn read(&mut self) -> Result<CallCounts, TraceError>;
}

/// A trace that goes on, until this is dropped.
pub struct Tracer {
    way: Way,
    source: Box<dyn Source>,
    why_not_bpf: Option<TraceError>,
    before: BTreeMap<(u32, Call), Times>,
    names: BTreeMap<u32, String>,
    /// Calls of processes that have ended, with the processes in the order of their ends.
    ended: BTreeMap<u32, BTreeMap<Call, Calls>>,
    order: VecDeque<u32>,
    read_ns: u64,
}

impl Tracer {
    /// Begins to trace.
    ///
    /// # Errors
    /// A process that is not there, or what keeps the wanted way, or every way, from working.
    pub fn start(spec: &TraceSpec) -> Result<Self, TraceError> {
        if let Some(pids) = &spec.pids {
            if pids.is_empty() {
                return Err(TraceError::Nothing);
            }
            if let Some(pid) = pids.iter().find(|pid| !processes::is_there(**pid)) {
                return Err(TraceError::NoProcess { pid: *pid });
            }
        }
        let (way, source, why_not_bpf) = match (spec.way, start(spec.way.unwrap_or(Way::Bpf), spec)) {
            (way, Ok(source)) => (way.unwrap_or(Way::Bpf), source, None),
            (Some(_), Err(error)) => return Err(error),
            (None, Err(bpf)) => match start(Way::Proc, spec) {
                Ok(source) => (Way::Proc, source, Some(bpf)),
                Err(proc) => return Err(TraceError::NoWay { bpf: bpf.to_string(), proc: proc.to_string() }),
            },
        };
        Ok(Self {
            way,
            source,
            why_not_bpf,
            before: BTreeMap::new(),
            names: BTreeMap::new(),
            ended: BTreeMap::new(),
            order: VecDeque::new(),
            read_ns: sys::now_ns(),
        })
    }

    /// Returns the way of tracing.
    pub fn way(&self) -> Way {
        self.way
    }

    /// Returns the reason that [`Way::Bpf`], the better way, does not work here; `None` if it works or was not wanted.
    pub fn why_not_bpf(&self) -> Option<&TraceError> {
        self.why_not_bpf.as_ref()
    }

    /// Returns the results so far. Takes about a millisecond, so that it can be called each second; more if thousands of
    /// slow calls have just ended.
    ///
    /// # Errors
    /// The kernel's own, which are not expected.
    pub fn read(&mut self) -> Result<Traced, TraceError> {
        let seen = self.source.read()?;
        let at_ns = sys::now_ns();
        let elapsed = Duration::from_nanos(at_ns.saturating_sub(std::mem::replace(&mut self.read_ns, at_ns)));
        let nothing = Times::default();
        let mut all = self.ended.clone();
        for ((pid, call), (times, failed)) in &seen.calls {
            let calls = all.entry(*pid).or_default().entry(*call).or_insert_with(|| Calls::none(*call));
            calls.new = times.since(self.before.get(&(*pid, *call)).unwrap_or(&nothing));
            calls.times.merge(times);
            calls.failed += failed;
        }
        self.names.extend(seen.names);
        let processes = all.iter().map(|(pid, calls)| Process {
            pid: *pid,
            name: self.names.get(pid).cloned().unwrap_or_default(),
            calls: calls.values().cloned().collect(),
        });
        let processes = processes.collect();
        self.before = seen.calls.into_iter().map(|(key, (times, _))| (key, times)).collect();
        for pid in seen.gone {
            self.before.retain(|(one, _), _| *one != pid);
            let mut theirs = all.remove(&pid).unwrap_or_default();
            theirs.values_mut().for_each(|calls| calls.new = Times::default());
            self.ended.insert(pid, theirs);
            self.order.retain(|one| *one != pid);
            self.order.push_back(pid);
        }
        self.forget();
        let CallCounts { slow, unfinished, lost, .. } = seen;
        Ok(Traced { way: self.way, at_ns, elapsed, lost, processes, slow, unfinished })
    }

    /// Merges the processes that ended first, if there are many.
    fn forget(&mut self) {
        while self.order.len() > ENDED_MAX {
            let Some(pid) = self.order.pop_front() else { return };
            self.names.remove(&pid);
            for (call, calls) in self.ended.remove(&pid).unwrap_or_default() {
                let others = self.ended.entry(0).or_default().entry(call).or_insert_with(|| Calls::none(call));
                others.times.merge(&calls.times);
                others.failed += calls.failed;
            }
        }
    }
}

fn start(way: Way, spec: &TraceSpec) -> Result<Box<dyn Source>, TraceError> {
    Ok(match way {
        Way::Bpf => Box::new(bpf::Bpf::start(spec)?),
        Way::Proc => Box::new(proc::Proc::start(spec)?),
    })
}

/// The processes of `spec` with their descendants as they are now; `None` for all.
pub(crate) fn members(spec: &TraceSpec) -> Option<BTreeSet<u32>> {
    spec.pids.as_deref().map(processes::with_descendants)
}

/// Locks `mutex`, also after a panic of a thread that held it.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that ends when this is dropped.
pub(crate) struct Background {
    /// Pipe whose other end, in the thread, becomes readable when this is dropped.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts `run`, which is to return when its argument can be read.
    pub(crate) fn start(run: impl FnOnce(OwnedFd) + Send + 'static) -> Result<Self, TraceError> {
        let (stopped, stop) = rustix::pipe::pipe().map_err(|error| TraceError::of("pipe(2)")(error.into()))?;
        let thread = std::thread::Builder::new().name("trace".to_owned()).spawn(move || run(stopped));
        Ok(Self { stop: Some(stop), thread: Some(thread.map_err(TraceError::of("starting a thread"))?) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}
