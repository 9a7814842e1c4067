//! Waits of threads off the processor that nothing can interrupt: for a device, for a page, for a lock in the kernel.
//!
//! A thread that leaves its processor in such a wait (state D of ps(1)) has an entry in the map `began`. When a processor
//! takes the thread again, the time is counted in the map `times` by bucket.

use crate::TraceError;
use crate::assembler::{Assembler, Call as Function, Do, FP, If, R0, R1, R6, Width};
use crate::bpf::{Attached, follow, forget_ended, in_first_pid_namespace};
use crate::processes::{is_there, with_descendants};
use crate::programs::{PROCESSES_MAX, TGID, TID, bucket, count_in, delete, leave, lookup, time_since, update};
use crate::sys::{Map, MapKind};
use crate::times::Times;
use crate::tracefs::{Tracefs, Tracepoint};

/// Most threads in a wait.
const THREADS_MAX: u32 = 32_768;
/// More than the number of buckets of all times.
const BUCKETS_MAX: u32 = 4_096;

/// Key of `times` on the stack, and before that the thread that is taken: a word.
const KEY: i32 = -16;
/// A value of `began` or `times`.
const VALUE: i32 = -24;

/// Uninterruptible waits that have ended.
#[derive(Debug, Clone, Default)]
pub struct WaitsSeen {
    /// Times of all waits since the trace began, from leaving the processor to being taken by one again.
    pub times: Times,
    /// Times of the waits that ended since the previous reading.
    pub new: Times,
    /// Number of waits that could not be counted since the trace began.
    pub lost: u64,
}

/// A trace of the uninterruptible waits of processes and all their descendants, until this is dropped.
pub struct WaitTracer {
    maps: Maps,
    attached: Attached,
    before: Times,
}

impl WaitTracer {
    /// Begins to trace processes `pids`, with all their descendants.
    ///
    /// # Errors
    /// A process that is not there, or the reason why programs in the kernel do not work.
    pub fn start(pids: &[u32]) -> Result<Self, TraceError> {
        if let Some(pid) = pids.iter().find(|pid| !is_there(**pid)) {
            return Err(TraceError::NoProcess { pid: *pid });
        }
        in_first_pid_namespace()?;
        let tracefs = Tracefs::open()?;
        let maps = Maps::new()?;
        let mut attached = Attached::default();
        // Children that are born meanwhile are found by one or the other.
        follow(&maps.processes, Some(with_descendants(pids)))?;
        attached.follow_forks(&tracefs, &maps.processes, &maps.lost)?;
        follow(&maps.processes, Some(with_descendants(pids)))?;
        let point = tracefs.needed("sched/sched_switch")?;
        attached.run(&maps.switch(&point)?, &point)?;
        Ok(Self { maps, attached, before: Times::default() })
    }

    /// Returns the waits so far, and those that ended since the previous reading.
    ///
    /// # Errors
    /// The kernel's own, which are not expected.
    pub fn read(&mut self) -> Result<WaitsSeen, TraceError> {
        let mut times = Times::default();
        let add = |bucket: &[u8; 4], count: &[u8; 8]| {
            let count = u64::from_ne_bytes(*count);
            if count > 0 {
                times.add(u32::from_ne_bytes(*bucket) as u16, count);
            }
        };
        self.maps.times.each::<4, 8>(add)?;
        let lost = self.maps.lost.read_number()?;
        forget_ended(&self.maps.processes)?;
        let new = times.since(&self.before);
        self.before = times.clone();
        Ok(WaitsSeen { times, new, lost: lost + self.attached.misses() })
    }
}

/// Maps shared by the programs and this process.
struct Maps {
    /// Processes that are followed.
    processes: Map,
    /// Threads in a wait, with its beginning.
    began: Map,
    /// Counts by bucket.
    times: Map,
    lost: Map,
}

impl Maps {
    fn new() -> Result<Self, TraceError> {
        Ok(Self {
            processes: Map::new(MapKind::Hash, 4, 1, PROCESSES_MAX)?,
            began: Map::new(MapKind::RecentHash, 4, 8, THREADS_MAX)?,
            times: Map::new(MapKind::Hash, 4, 8, BUCKETS_MAX)?,
            lost: Map::number()?,
        })
    }

    /// Assembles the program for the moment at which a processor leaves a thread, which is the running one, for another.
    fn switch(&self, point: &Tracepoint) -> Result<Vec<u64>, TraceError> {
        const UNINTERRUPTIBLE: i32 = 2;
        let mut asm = Assembler::default();
        asm.copy(R6, R1);
        asm.call(Function::PidTgid);
        asm.store(Width::Double, FP, TID as i16, R0);
        asm.load(Width::Double, R1, R6, point.offset("prev_state")? as i16);
        asm.with(Do::And, R1, UNINTERRUPTIBLE);
        asm.jump_if(R1, If::NotEqual, 0, "waits");
        // An entry that is there still is of a wait whose end was missed.
        delete(&mut asm, &self.began, TID);
        asm.jump("next");
        asm.label("waits");
        lookup(&mut asm, &self.processes, TGID);
        asm.jump_if(R0, If::Equal, 0, "next");
        asm.call(Function::KtimeNs);
        asm.store(Width::Double, FP, VALUE as i16, R0);
        update(&mut asm, &self.began, TID, VALUE, 0);
        asm.label("next");
        asm.transfer(Width::Word, (FP, KEY as i16), (R6, point.offset("next_pid")? as i16));
        lookup(&mut asm, &self.began, KEY);
        asm.jump_if(R0, If::Equal, 0, "out");
        time_since(&mut asm, &self.began, KEY);
        bucket(&mut asm);
        asm.store(Width::Word, FP, KEY as i16, R1);
        count_in(&mut asm, &self.times, KEY, VALUE);
        Ok(leave(asm, &self.lost))
    }
}
