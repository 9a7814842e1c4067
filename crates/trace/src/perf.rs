//! The second way: the kernel writes every traced call of everybody into rings, one a processor, and they are counted here.
//! System calls only; what is inside of others, and io_uring's, is not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::bpf::{wide_at, word_at};
use crate::call::Call;
use crate::error::TraceError;
use crate::place::Given;
use crate::sys::{self, Ask, Mapping, PerfAttr};
use crate::traced::{CallCounts, SeenCall};
use crate::tracefs::Tracefs;
use crate::tracer::{Source, TraceSpec, members};

/// Pages of a ring: 2 MiB hold what 14,000 calls leave.
const PAGES: usize = 512;
/// Rings are read this often, in milliseconds, and when one is a quarter full.
const EACH_MS: i64 = 20;
/// Records that are younger than this may have older ones on another processor that are not written yet.
const SETTLED_NS: u64 = 1_000_000;

/// A trace by records.
pub(crate) struct Perf {
    seen: Arc<Mutex<CallCounts>>,
    stop: Option<OwnedFd>,
    reader: Option<JoinHandle<()>>,
}

impl Perf {
    pub(crate) fn start(spec: &TraceSpec) -> Result<Self, TraceError> {
        let tracefs = Tracefs::open()?;
        let mut points = BTreeMap::new();
        for call in Call::SYSTEM {
            for (side, is_end) in [("exit", true), ("enter", false)] {
                let point = tracefs.needed(&format!("syscalls/sys_{side}_{call}"))?;
                points.insert(point.id, (call, is_end));
            }
        }
        let mut rings = Vec::new();
        for cpu in online()? {
            rings.push(Ring::open(cpu, points.keys().copied())?);
        }
        let seen: Arc<Mutex<CallCounts>> = Arc::default();
        let (stopped, stop) = rustix::pipe::pipe().map_err(|error| TraceError::of("pipe(2)")(error.into()))?;
        let mut pairs = Pairs {
            points,
            // Found after the rings: who was born in between stands in one of them.
            members: members(spec),
            begun: BTreeMap::new(),
            held: Vec::new(),
            threshold_ns: spec.threshold_ns(),
            seen: Arc::clone(&seen),
        };
        let follow = move || {
            loop {
                pairs.take(&rings);
                // One poll for the ring that fills first would do; with few milliseconds none is needed.
                if sys::wait(&[stopped.as_fd()], EACH_MS)[0] {
                    return;
                }
            }
        };
        let reader = std::thread::Builder::new().name("trace".to_owned()).spawn(follow);
        let reader = reader.map_err(TraceError::of("starting a thread"))?;
        Ok(Self { seen, stop: Some(stop), reader: Some(reader) })
    }
}

impl Source for Perf {
    fn read(&mut self) -> Result<CallCounts, TraceError> {
        Ok(self.seen.lock().unwrap_or_else(PoisonError::into_inner).told())
    }
}

impl Drop for Perf {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(reader) = self.reader.take() {
            // One that panicked has said so.
            let _ = reader.join();
        }
    }
}

/// Numbers of processors that are on.
fn online() -> Result<Vec<u32>, TraceError> {
    let text =
        std::fs::read_to_string("/sys/devices/system/cpu/online").map_err(TraceError::of("the list of processors"))?;
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.parse().ok()?..=to.parse().ok()?)
    };
    Ok(text.trim().split(',').filter_map(range).flatten().collect())
}

/// Memory that the events of a processor are written to (`struct perf_event_mmap_page`): a page with the positions of
/// writer and reader, then the data.
struct Ring {
    /// The first is the one whose ring it is.
    _events: Vec<OwnedFd>,
    memory: Mapping,
}

/// A record that matters.
#[derive(Debug, Clone, Copy)]
enum Record {
    Call { point: u64, pid: u32, tid: u32, argument: u64 },
    Fork { pid: u32, parent: u32 },
    Exit { tid: u32 },
}

impl Ring {
    fn open(cpu: u32, points: impl Iterator<Item = u64>) -> Result<Self, TraceError> {
        const SOFTWARE: u32 = 1;
        const DUMMY: u64 = 9;
        const TRACEPOINT: u32 = 2;
        /// Thread, time, and what the tracepoint says.
        const SAMPLE: u64 = 1 << 1 | 1 << 2 | 1 << 10;
        const TASKS: u64 = 1 << 13;
        const OWN_CLOCK: u64 = 1 << 25;
        let open = |attr: PerfAttr| {
            let attr = PerfAttr { flags: attr.flags | OWN_CLOCK, clock: libc::CLOCK_MONOTONIC, ..attr };
            sys::perf_event(&attr, cpu).map_err(TraceError::of("perf_event_open(2), for all processes"))
        };
        let first = open(PerfAttr { kind: SOFTWARE, config: DUMMY, flags: TASKS, ..PerfAttr::default() })?;
        let bytes = (1 + PAGES) * rustix::param::page_size();
        let memory = Mapping::new(&first, 0, bytes, true).map_err(TraceError::of("mapping the ring of a processor"))?;
        let mut events = vec![first];
        for point in points {
            let attr = PerfAttr { sample_period: 1, sample_type: SAMPLE, ..PerfAttr::default() };
            let event = open(PerfAttr { kind: TRACEPOINT, config: point, ..attr })?;
            sys::ask(&event, Ask::WriteTo(&events[0])).map_err(TraceError::of("sharing the ring of a processor"))?;
            events.push(event);
        }
        Ok(Self { _events: events, memory })
    }

    /// Adds what was written since the last time, with its time; returns how many records were lost.
    fn drain(&self, into: &mut Vec<(u64, Record)>) -> u64 {
        const WRITTEN: usize = 1024;
        const READ: usize = 1032;
        let page = rustix::param::page_size();
        let size = PAGES * page;
        let (end, mut at) = (self.memory.load(WRITTEN), self.memory.load(READ));
        let mut lost = 0;
        let mut record = Vec::new();
        while at < end {
            let mut head = [0; 8];
            self.copy(at, &mut head, page, size);
            let length = usize::from(u16::from_ne_bytes([head[6], head[7]])).max(8);
            record.resize(length, 0);
            self.copy(at, &mut record, page, size);
            match word_at(&head, 0) {
                2 => lost += wide_at(&record, 16),
                4 => into.push((wide_at(&record, 24), Record::Exit { tid: word_at(&record, 16) })),
                7 => {
                    let fork = Record::Fork { pid: word_at(&record, 8), parent: word_at(&record, 12) };
                    into.push((wide_at(&record, 24), fork));
                }
                9 => {
                    // Behind 4 bytes of length: the number of the tracepoint, and its fields.
                    let call = Record::Call {
                        point: u64::from(word_at(&record, 28) as u16),
                        pid: word_at(&record, 8),
                        tid: word_at(&record, 12),
                        argument: wide_at(&record, 44),
                    };
                    into.push((wide_at(&record, 16), call));
                }
                _ => {}
            }
            at += length as u64;
        }
        self.memory.store(READ, at);
        lost
    }

    /// Copies what stands at `at`, which may go on at the beginning.
    fn copy(&self, at: u64, into: &mut [u8], page: usize, size: usize) {
        let from = at as usize % size;
        let before_end = into.len().min(size - from);
        let (first, rest) = into.split_at_mut(before_end);
        self.memory.copy(page + from, first);
        self.memory.copy(page, rest);
    }
}

/// A call that is not done.
struct Begun {
    call: SeenCall,
    /// File of the call, once it was looked up: a process may close it directly afterwards, before a look at its end.
    path: Option<Option<PathBuf>>,
}

/// Matches beginnings and ends of calls.
struct Pairs {
    points: BTreeMap<u64, (Call, bool)>,
    /// Processes that are followed; `None` follows all.
    members: Option<BTreeSet<u32>>,
    /// Call in progress of each thread.
    begun: BTreeMap<u32, Begun>,
    /// Records that are too young to be looked at.
    held: Vec<(u64, Record)>,
    threshold_ns: u64,
    seen: Arc<Mutex<CallCounts>>,
}

impl Pairs {
    fn take(&mut self, rings: &[Ring]) {
        let settled_ns = sys::now_ns().saturating_sub(SETTLED_NS);
        let mut records = std::mem::take(&mut self.held);
        let lost: u64 = rings.iter().map(|ring| ring.drain(&mut records)).sum();
        records.sort_by_key(|(at_ns, _)| *at_ns);
        self.held = records.split_off(records.partition_point(|(at_ns, _)| *at_ns < settled_ns));
        let seen = Arc::clone(&self.seen);
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.lost += lost;
        for (at_ns, record) in records {
            self.one(at_ns, record, &mut seen);
        }
        seen.unfinished.clear();
        for begun in self.begun.values_mut() {
            begun.call.time_ns = settled_ns.saturating_sub(begun.call.start_ns);
            let path = begun.path.get_or_insert_with(|| begun.call.given.path());
            if begun.call.time_ns >= self.threshold_ns {
                seen.unfinished.push(begun.call.slow(path.clone()));
            }
        }
    }

    fn one(&mut self, at_ns: u64, record: Record, seen: &mut CallCounts) {
        match record {
            Record::Fork { pid, parent } => {
                if let Some(members) = self.members.as_mut().filter(|members| members.contains(&parent)) {
                    members.insert(pid);
                }
            }
            Record::Exit { tid } => drop(self.begun.remove(&tid)),
            Record::Call { pid, .. } if self.members.as_ref().is_some_and(|members| !members.contains(&pid)) => {}
            Record::Call { point, pid, tid, argument } => match self.points.get(&point) {
                Some((call, false)) => {
                    let given = Given { pid, call: *call, argument, device: 0 };
                    let call = SeenCall { given, tid, start_ns: at_ns, time_ns: 0, result: None };
                    self.begun.insert(tid, Begun { call, path: None });
                }
                Some((call, true)) => {
                    let begun = self.begun.remove(&tid).filter(|begun| begun.call.given.call == *call);
                    if let Some(Begun { call, path }) = begun {
                        let time_ns = at_ns.saturating_sub(call.start_ns);
                        let path = || path.unwrap_or_else(|| call.given.path());
                        let call = SeenCall { time_ns, result: Some(argument as i64), ..call };
                        seen.count(call, self.threshold_ns, path);
                    }
                }
                None => {}
            },
        }
    }
}
