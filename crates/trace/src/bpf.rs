//! The first way: programs that the kernel runs at each traced call, and that count there.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::call::Call;
use crate::error::TraceError;
use crate::place::Given;
use crate::processes::is_there;
use crate::programs::{self, ENTRY_BYTES, FAILED, Maps, Programs, RECORD_BYTES, entry, record};
use crate::sys::{self, Map, Mapping};
use crate::traced::{CallCounts, SeenCall};
use crate::tracefs::{Tracefs, Tracepoint};
use crate::tracer::{Background, Source, TraceSpec, locked, members};

/// Size of the ring of slow calls, bytes: more than 4,000 unread calls.
const RING_BYTES: usize = 256 << 10;

/// A trace by programs.
pub(crate) struct Bpf {
    maps: Arc<Maps>,
    attached: Attached,
    threshold_ns: u64,
    /// Processes that had called by the previous reading.
    known: BTreeSet<u32>,
    slow: Arc<Mutex<SlowCalls>>,
    _reader: Background,
}

/// Programs at tracepoints, until this is dropped.
#[derive(Default)]
pub(crate) struct Attached {
    events: Vec<OwnedFd>,
    programs: Vec<OwnedFd>,
}

impl Attached {
    /// Loads a program.
    fn load(&mut self, instructions: &[u64]) -> Result<usize, TraceError> {
        let program = sys::program(instructions).map_err(|(error, said)| match said.trim() {
            "" => TraceError::of("bpf(2), to load a program")(error),
            said => TraceError::Kernel { what: format!("the kernel refuses a program ({error})\n{said}") },
        })?;
        self.programs.push(program);
        Ok(self.programs.len() - 1)
    }

    /// Runs program `at` at `point` from now on.
    fn attach(&mut self, at: usize, point: &Tracepoint) -> Result<(), TraceError> {
        let attached = sys::attach(&self.programs[at], point.id);
        self.events.push(attached.map_err(TraceError::of("attaching a program to a tracepoint"))?);
        Ok(())
    }

    /// Loads a program, and runs it at `point` from now on.
    pub(crate) fn run(&mut self, instructions: &[u64], point: &Tracepoint) -> Result<(), TraceError> {
        let at = self.load(instructions)?;
        self.attach(at, point)
    }

    /// Follows children of `processes` from now on.
    pub(crate) fn follow_forks(&mut self, tracefs: &Tracefs, processes: &Map, lost: &Map) -> Result<(), TraceError> {
        let point = tracefs.needed("task/task_newtask")?;
        self.run(&programs::fork(processes, lost, &point)?, &point)
    }

    /// Removes numbers of threads from `threads` from now on if the threads end or get other numbers.
    pub(crate) fn forget_threads(&mut self, tracefs: &Tracefs, threads: &Map, lost: &Map) -> Result<(), TraceError> {
        self.run(&programs::gone(threads, lost), &tracefs.needed("sched/sched_process_exit")?)?;
        let exec = tracefs.needed("sched/sched_process_exec")?;
        self.run(&programs::renumbered(threads, lost, &exec)?, &exec)
    }

    /// Returns the number of times that programs were skipped.
    pub(crate) fn misses(&self) -> u64 {
        self.programs.iter().map(sys::program_misses).sum()
    }
}

/// Fails where process numbers here are not those that the kernel tells programs.
pub(crate) fn in_first_pid_namespace() -> Result<(), TraceError> {
    // PROC_PID_INIT_INO of include/linux/proc_ns.h.
    match std::fs::read_link("/proc/self/ns/pid") {
        Ok(namespace) if namespace.to_string_lossy() != "pid:[4026531836]" => Err(TraceError::PidNamespace),
        _ => Ok(()),
    }
}

impl Bpf {
    pub(crate) fn start(spec: &TraceSpec) -> Result<Self, TraceError> {
        in_first_pid_namespace()?;
        let tracefs = Tracefs::open()?;
        let maps = Arc::new(Maps::new(RING_BYTES as u32)?);
        let programs = Programs { maps: &maps, all: spec.pids.is_none(), threshold_ns: spec.threshold_ns() };
        // Those who are born while programs are attached are found by one or the other.
        follow(&maps.processes, members(spec))?;
        let mut attached = Attached::default();
        if spec.pids.is_some() {
            attached.follow_forks(&tracefs, &maps.processes, &maps.lost)?;
            follow(&maps.processes, members(spec))?;
        }
        attach_all(&mut attached, &tracefs, &programs)?;
        let ring = Ring::open(&maps.ring.fd, RING_BYTES).map_err(TraceError::of("mapping the ring of slow calls"))?;
        let slow = SlowCalls { ring, paths: BTreeMap::new(), listed: CallCounts::default() };
        let slow = Arc::new(Mutex::new(slow));
        let threshold_ns = spec.threshold_ns();
        let (listed, shared) = (Arc::clone(&slow), Arc::clone(&maps));
        let _reader = Background::start(move |stopped| follow_ring(&listed, &shared, threshold_ns, &stopped))?;
        Ok(Self { maps, attached, threshold_ns, known: BTreeSet::new(), slow, _reader })
    }
}

/// Follows these processes; without any list there is nothing to do.
pub(crate) fn follow(map: &Map, pids: Option<BTreeSet<u32>>) -> Result<(), TraceError> {
    for pid in pids.into_iter().flatten() {
        map.set(&pid.to_ne_bytes(), &[1]).map_err(TraceError::of("bpf(2), to follow a process"))?;
    }
    Ok(())
}

/// Removes processes that have ended.
pub(crate) fn forget_ended(processes: &Map) -> Result<(), TraceError> {
    let mut followed = Vec::new();
    processes.each::<4, 1>(|pid, _| followed.push(*pid))?;
    for pid in followed.iter().filter(|pid| !is_there(u32::from_ne_bytes(**pid))) {
        drop(processes.remove(pid));
    }
    Ok(())
}

fn attach_all(attached: &mut Attached, tracefs: &Tracefs, programs: &Programs<'_>) -> Result<(), TraceError> {
    attached.forget_threads(tracefs, &programs.maps.threads, &programs.maps.lost)?;
    let (begin, end) = (attached.load(&programs.begin(true))?, attached.load(&programs.end())?);
    let begin_without = attached.load(&programs.begin(false))?;
    for call in Call::SYSTEM {
        // The end first: a call that was begun before is then no call.
        attached.attach(end, &tracefs.needed(&format!("syscalls/sys_exit_{call}"))?)?;
        let begin = if call == Call::Sync { begin_without } else { begin };
        attached.attach(begin, &tracefs.needed(&format!("syscalls/sys_enter_{call}"))?)?;
    }
    for (enter, exit) in [
        ("ext4/ext4_sync_file_enter", "ext4/ext4_sync_file_exit"),
        ("f2fs/f2fs_sync_file_enter", "f2fs/f2fs_sync_file_exit"),
    ] {
        let Some((enter, exit)) = tracefs.tracepoint(enter)?.zip(tracefs.tracepoint(exit)?) else { continue };
        attached.run(&programs.end_in_file_system(&exit)?, &exit)?;
        attached.run(&programs.begin_in_file_system(&enter)?, &enter)?;
    }
    let requests = tracefs.tracepoint("io_uring/io_uring_submit_req")?;
    if let Some((submit, complete)) = requests.zip(tracefs.tracepoint("io_uring/io_uring_complete")?) {
        attached.run(&programs.complete(&complete)?, &complete)?;
        attached.run(&programs.submit(&submit)?, &submit)?;
    }
    Ok(())
}

impl Source for Bpf {
    fn read(&mut self) -> Result<CallCounts, TraceError> {
        // Those that are gone before counts are read call nothing after that.
        let gone: Vec<u32> = self.known.iter().copied().filter(|pid| !is_there(*pid)).collect();
        let mut seen = CallCounts { gone, ..CallCounts::default() };
        let mut keys = Vec::new();
        self.maps.times.each::<8, 8>(|key, count| {
            let (pid, number) = (word_at(key, 0), u16::from_ne_bytes(bytes_at(key, 4)));
            let count = u64::from_ne_bytes(*count);
            if seen.gone.contains(&pid) {
                keys.push(*key);
            }
            let Some(call) = Call::of_number(number & !FAILED).filter(|_| count > 0) else { return };
            let (times, failed) = seen.calls.entry((pid, call)).or_default();
            times.add(u16::from_ne_bytes(bytes_at(key, 6)), count);
            *failed += if number & FAILED == 0 { 0 } else { count };
        })?;
        self.maps.names.each::<4, 16>(|pid, name| {
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
            let name = String::from_utf8_lossy(&name[..end]).into_owned();
            seen.names.insert(u32::from_ne_bytes(*pid), name);
        })?;
        // What is removed is gone anyway where it is not there.
        keys.iter().for_each(|key| drop(self.maps.times.remove(key)));
        seen.gone.iter().for_each(|pid| drop(self.maps.names.remove(&pid.to_ne_bytes())));
        self.known = seen.calls.keys().map(|(pid, _)| *pid).filter(|pid| !seen.gone.contains(pid)).collect();
        forget_ended(&self.maps.processes)?;
        let mut unfinished = unfinished(&self.maps.threads, self.threshold_ns)?;
        let (now_ns, threshold_ns) = (sys::now_ns(), self.threshold_ns);
        self.maps.requests.each::<8, ENTRY_BYTES>(|_, entry| {
            let call = in_entry(0, entry, now_ns);
            unfinished.extend(call.filter(|call| call.time_ns >= threshold_ns));
        })?;
        seen.unfinished = unfinished.iter().map(|call| call.slow(call.given.path())).collect();
        let lost = self.maps.lost.read_number()?;
        let mut calls = locked(&self.slow);
        // The thread that lists calls may not have come to all of those that were counted above.
        calls.list_ended();
        seen.slow = std::mem::take(&mut calls.listed.slow);
        // Calls that ended since the look at those in progress.
        seen.unfinished
            .retain(|one| !seen.slow.iter().any(|slow| (slow.tid, slow.start_ns) == (one.tid, one.start_ns)));
        seen.lost = lost + calls.listed.lost + self.attached.misses();
        for slow in seen.slow.iter_mut().filter(|slow| slow.name.is_empty()) {
            slow.name = seen.names.get(&slow.pid).cloned().unwrap_or_default();
        }
        Ok(seen)
    }
}

/// A number of `N` bytes at `offset`.
fn bytes_at<const N: usize>(from: &[u8], offset: usize) -> [u8; N] {
    from.get(offset..offset + N).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
}

pub(crate) fn wide_at(from: &[u8], offset: usize) -> u64 {
    u64::from_ne_bytes(bytes_at(from, offset))
}

pub(crate) fn word_at(from: &[u8], offset: usize) -> u32 {
    u32::from_ne_bytes(bytes_at(from, offset))
}

/// The call that a thread is in, according to its entry.
fn in_entry(tid: u32, of: &[u8; ENTRY_BYTES], now_ns: u64) -> Option<SeenCall> {
    let start_ns = wide_at(of, entry::START as usize);
    let call = Call::of_number(word_at(of, entry::CALL as usize) as u16).filter(|_| start_ns > 0)?;
    let given = Given {
        pid: word_at(of, entry::TGID as usize),
        call,
        argument: wide_at(of, entry::ARGUMENT as usize),
        device: wide_at(of, entry::DEVICE as usize),
    };
    Some(SeenCall { given, tid, start_ns, time_ns: now_ns.saturating_sub(start_ns), result: None })
}

/// A slow call as a program wrote it.
fn in_record(of: &[u8]) -> Option<SeenCall> {
    let given = Given {
        pid: word_at(of, record::TGID as usize),
        call: Call::of_number(word_at(of, record::CALL as usize) as u16)?,
        argument: wide_at(of, record::ARGUMENT as usize),
        device: wide_at(of, record::DEVICE as usize),
    };
    let time_ns = wide_at(of, record::TIME as usize);
    let result = Some(wide_at(of, record::RESULT as usize) as i64);
    let start_ns = wide_at(of, record::START as usize);
    Some(SeenCall { given, tid: word_at(of, record::TID as usize), start_ns, time_ns, result })
}

/// The kernel's ring of records (kernel/bpf/ringbuf.c): a page with how far it was read, a page with how far it was written,
/// and the data, twice, so that none of them is cut in two.
pub(crate) struct Ring {
    read: Mapping,
    written: Mapping,
    bytes: usize,
    page: usize,
}

impl Ring {
    pub(crate) fn open(of: &OwnedFd, bytes: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let read = Mapping::new(of, 0, page, true)?;
        Ok(Self { read, written: Mapping::new(of, page, page + 2 * bytes, false)?, bytes, page })
    }

    /// Calls `each` with all records that are done now.
    pub(crate) fn drain(&self, mut each: impl FnMut(&[u8])) {
        const BUSY: u32 = 1 << 31;
        const DISCARDED: u32 = 1 << 30;
        const HEAD: usize = 8;
        let mut buffer = vec![0u8; 512];
        // Records that are written meanwhile wait, so that this ends however many there are.
        let (mut at, end) = (self.read.load(0), self.written.load(0));
        while at < end {
            let offset = self.page + (at as usize & (self.bytes - 1));
            let head = self.written.load(offset) as u32;
            if head & BUSY != 0 {
                return;
            }
            let length = (head & !DISCARDED) as usize;
            if head & DISCARDED == 0 {
                buffer.resize(length, 0);
                self.written.copy(offset + HEAD, &mut buffer);
                each(&buffer);
            }
            at += (HEAD + length).next_multiple_of(8) as u64;
            self.read.store(0, at);
        }
    }
}

/// Slow calls on their way from the ring to a reading.
struct SlowCalls {
    ring: Ring,
    /// Files of calls in progress, by thread and start.
    paths: BTreeMap<(u32, u64), Option<PathBuf>>,
    /// Calls that have ended since the previous reading.
    listed: CallCounts,
}

impl SlowCalls {
    /// Lists the calls that have ended, with their files.
    fn list_ended(&mut self) {
        let Self { ring, paths, listed } = self;
        ring.drain(|bytes| {
            if let Some(call) = (bytes.len() == RECORD_BYTES).then(|| in_record(bytes)).flatten() {
                let known = paths.remove(&(call.tid, call.start_ns));
                listed.list(call.slow(known.unwrap_or_else(|| call.given.path())));
            }
        });
    }
}

/// Lists slow calls as they come, with their files. Those of calls that go on are looked up before their end: a
/// process may close a file directly afterwards, before a look at its end.
fn follow_ring(slow: &Mutex<SlowCalls>, maps: &Maps, threshold_ns: u64, stopped: &OwnedFd) {
    let each_ms = (threshold_ns / 2_000_000).clamp(20, 1_000) as i64;
    loop {
        locked(slow).list_ended();
        // What cannot be read now is there the next time.
        let going_on = unfinished(&maps.threads, threshold_ns / 4).unwrap_or_default();
        let mut calls = locked(slow);
        calls.paths.retain(|key, _| going_on.iter().any(|call| (call.tid, call.start_ns) == *key));
        for call in going_on {
            calls.paths.entry((call.tid, call.start_ns)).or_insert_with(|| call.given.path());
        }
        drop(calls);
        if sys::wait(&[stopped.as_fd(), maps.ring.fd.as_fd()], each_ms)[0] {
            return;
        }
    }
}

/// Calls of threads that are not done and have taken `at_least_ns` so far.
fn unfinished(threads: &Map, at_least_ns: u64) -> Result<Vec<SeenCall>, TraceError> {
    let now_ns = sys::now_ns();
    let mut found = Vec::new();
    threads.each::<4, ENTRY_BYTES>(|tid, entry| {
        let call = in_entry(u32::from_ne_bytes(*tid), entry, now_ns);
        found.extend(call.filter(|call| call.time_ns >= at_least_ns));
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;
    use crate::traced::Way;

    #[test]
    fn a_reading_lists_all_calls_that_ended_before_it() {
        let pids = Some(vec![std::process::id()]);
        let spec = TraceSpec { pids, threshold: Duration::ZERO, way: Some(Way::Bpf) };
        let mut bpf = Bpf::start(&spec).unwrap();
        // As on a machine with no time for the thread that lists calls.
        bpf._reader = Background::start(drop).unwrap();
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let file = std::fs::File::create(&path).unwrap();
        (0..3).for_each(|_| file.sync_all().unwrap());
        let seen = bpf.read().unwrap();
        let listed = |seen: &CallCounts| seen.slow.iter().filter(|slow| slow.path.as_ref() == Some(&path)).count();
        assert_eq!(listed(&seen), 3, "{seen:#?}");
        // Each is listed once.
        assert_eq!(listed(&bpf.read().unwrap()), 0);
    }

    /// Syncs a file in a thread, tells the thread's number, and after the word `now` replaces the process by a shell.
    #[test]
    #[ignore = "started by another test"]
    fn a_thread_syncs_and_calls_exec() {
        let thread = std::thread::spawn(|| {
            tempfile::tempfile().unwrap().sync_all().unwrap();
            let this = std::fs::read_link("/proc/thread-self").unwrap();
            writeln!(std::io::stdout(), "\nthread {}", this.file_name().unwrap().display()).unwrap();
            let mut line = String::new();
            std::io::stdin().read_line(&mut line).unwrap();
            (line == "now\n").then(|| Command::new("sh").args(["-c", "echo after exec; cat"]).exec())
        });
        let error = thread.join().unwrap();
        assert!(error.is_none(), "{error:?}");
    }

    #[test]
    fn a_thread_that_exec_gives_another_number_leaves_nothing_at_its_former_one() {
        let pids = Some(vec![std::process::id()]);
        let spec = TraceSpec { pids, threshold: Duration::ZERO, way: Some(Way::Bpf) };
        let bpf = Bpf::start(&spec).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["bpf::tests::a_thread_syncs_and_calls_exec", "--exact", "--ignored", "--nocapture"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let tid: u32 = lines.find_map(|line| line.strip_prefix("thread ")?.parse().ok()).unwrap();
        let is_known = || {
            let mut is_known = false;
            let look = |one: &[u8; 4], _: &[u8; ENTRY_BYTES]| is_known |= u32::from_ne_bytes(*one) == tid;
            bpf.maps.threads.each::<4, ENTRY_BYTES>(look).unwrap();
            is_known
        };
        assert!(tid != child.id() && is_known(), "{tid}");
        input.write_all(b"now\n").unwrap();
        assert!(lines.any(|line| line == "after exec"));
        assert!(!is_known(), "{tid}");
        drop(input);
        assert!(child.wait().unwrap().success());
    }
}
