//! The second way: what each thread waits for is looked at again and again in `/proc/PID/task/TID/syscall`
//! (Documentation/filesystems/proc.rst). It needs no more than the right to trace the process, as a debugger does.
//!
//! A call is seen that is going on at one look or more, and taken to have lasted as long as from the first of them to the
//! first without it. A thread that runs may be in a call or not: what it waits for next tells. So two calls of a thread with
//! the same arguments, and none between them that it waited in, are one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::call::Call;
use crate::error::TraceError;
use crate::place::Given;
use crate::processes::{all, threads_of};
use crate::sys;
use crate::traced::{CallCounts, SeenCall};
use crate::tracer::{Background, Source, TraceSpec, locked, members};

/// Time between two looks, in milliseconds.
const EACH_MS: i64 = 5;
/// Threads are looked for again after so many.
const LOOK_AGAIN: u32 = 4;
/// A thread that runs at so many looks, one after the other, is in no call.
const RUNS_MAX: u32 = 4;
/// Most threads that are looked at.
const THREADS_MAX: usize = 4_096;

/// A trace by looks.
pub(crate) struct Proc {
    seen: Arc<Mutex<CallCounts>>,
    _looking: Background,
}

struct Thread {
    pid: u32,
    file: File,
    call: Option<Waiting>,
}

/// A call that a thread waits in, or waited in before it ran.
struct Waiting {
    start_ns: u64,
    /// Time at which it was first seen running instead, and the number of such looks.
    ran: Option<(u64, u32)>,
    given: Given,
    path: Option<PathBuf>,
}

impl Proc {
    pub(crate) fn start(spec: &TraceSpec) -> Result<Self, TraceError> {
        for pid in spec.pids.iter().flatten() {
            let looked = std::fs::read_to_string(format!("/proc/{pid}/syscall"));
            looked.map(drop).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    TraceError::Kernel { what: "it has no /proc/PID/syscall (CONFIG_HAVE_ARCH_TRACEHOOK)".to_owned() }
                }
                _ => TraceError::of("reading /proc/PID/syscall")(error),
            })?;
        }
        let seen: Arc<Mutex<CallCounts>> = Arc::default();
        let (spec, shared) = (spec.clone(), Arc::clone(&seen));
        let _looking = Background::start(move |stopped| {
            let mut threads = BTreeMap::new();
            let mut looks = 0u32;
            loop {
                if looks.is_multiple_of(LOOK_AGAIN) {
                    find(&mut threads, &spec);
                }
                looks = looks.wrapping_add(1);
                let mut seen = locked(&shared);
                look(&mut threads, spec.threshold_ns(), &mut seen);
                drop(seen);
                if sys::wait(&[stopped.as_fd()], EACH_MS)[0] {
                    return;
                }
            }
        })?;
        Ok(Self { seen, _looking })
    }
}

impl Source for Proc {
    fn read(&mut self) -> Result<CallCounts, TraceError> {
        Ok(locked(&self.seen).told())
    }
}

/// Adds threads that are new.
fn find(threads: &mut BTreeMap<u32, Thread>, spec: &TraceSpec) {
    let pids: Vec<u32> = members(spec).map_or_else(all, |members| members.into_iter().collect());
    for pid in pids {
        for tid in threads_of(pid) {
            if threads.len() < THREADS_MAX
                && !threads.contains_key(&tid)
                && let Ok(file) = File::open(format!("/proc/{pid}/task/{tid}/syscall"))
            {
                threads.insert(tid, Thread { pid, file, call: None });
            }
        }
    }
}

/// Looks at all threads once.
fn look(threads: &mut BTreeMap<u32, Thread>, threshold_ns: u64, seen: &mut CallCounts) {
    let mut text = [0; 256];
    seen.unfinished.clear();
    threads.retain(|tid, thread| {
        let length = thread.file.read_at(&mut text, 0);
        let now_ns = sys::now_ns();
        let text = length.as_ref().ok().and_then(|length| text.get(..*length)).unwrap_or_default();
        if let Some(waiting) = &mut thread.call
            && text.starts_with(b"running")
        {
            let (_, often) = waiting.ran.get_or_insert((now_ns, 0));
            *often += 1;
            if *often < RUNS_MAX {
                return true;
            }
        }
        let found = waits_for(text, thread.pid);
        let is_same = |waiting: &Waiting| {
            found.is_some_and(|found| (found.call, found.argument) == (waiting.given.call, waiting.given.argument))
        };
        if let Some(Waiting { start_ns, ran, given, path }) = thread.call.take_if(|waiting| !is_same(waiting)) {
            let time_ns = ran.map_or(now_ns, |(at_ns, _)| at_ns) - start_ns;
            seen.count(SeenCall { given, tid: *tid, start_ns, time_ns, result: None }, threshold_ns, || path);
        }
        if let Some(given) = found {
            let begin = || Waiting { start_ns: now_ns, ran: None, given, path: given.path() };
            let waiting = thread.call.get_or_insert_with(begin);
            waiting.ran = None;
            let (start_ns, time_ns) = (waiting.start_ns, now_ns - waiting.start_ns);
            if time_ns >= threshold_ns {
                let call = SeenCall { given, tid: *tid, start_ns, time_ns, result: None };
                seen.unfinished.push(call.slow(waiting.path.clone()));
            }
        }
        length.is_ok()
    });
}

/// The traced call that a thread waits in: `75 0x3 0x0 …`, `running`, `-1 …`.
fn waits_for(text: &[u8], pid: u32) -> Option<Given> {
    let text = std::str::from_utf8(text).ok()?;
    let mut words = text.split_ascii_whitespace();
    let call = Call::of_number(words.next()?.parse().ok()?)?;
    let argument = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    Some(Given { pid, call, argument, device: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_traced_calls_are_found() {
        let found = |text: &str| waits_for(text.as_bytes(), 7).map(|given| (given.call, given.argument));
        assert_eq!(found("75 0x1f 0x0 0x0 0x0 0x0 0x0 0x7ffe 0x7f11\n"), Some((Call::Fdatasync, 31)));
        assert_eq!(found("0 0x3 0x7f71 0x20000 0x0 0x0 0x0 0x7ffe 0x7f11\n"), None);
        assert_eq!((found("running\n"), found("-1 0x7ffe 0x7f11\n"), found("")), (None, None, None));
    }
}
