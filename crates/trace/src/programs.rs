//! The programs that the kernel runs at each traced call.
//!
//! A thread that begins a call has an entry in the map `threads`: when, which call, on what. At the call's end its time is
//! counted in the map `times` by process, call and bucket, and the call is written to the ring if it was slow. A thread's
//! entry stays until the thread ends or calls exec, so that its next call has only to look it up.
//!
//! The offsets of fields are those of tracepoints' `format` files. Those of system calls are the kernel's own
//! (`struct syscall_tp_t` in kernel/trace/trace_syscalls.c).

use crate::TraceError;
use crate::assembler::{Assembler, Call as Function, Do, FP, If, R, R0, R1, R2, R3, R4, R6, R7, R8, R9, Width};
use crate::call::Call;
use crate::sys::{Map, MapKind};
use crate::times::FINE;
use crate::tracefs::Tracepoint;

/// Most processes that are followed.
pub(crate) const PROCESSES_MAX: u32 = 16_384;
/// Most threads that have made a traced call and live.
const THREADS_MAX: u32 = 8_192;
/// Most buckets of all processes and calls, or devices and kinds of requests, together.
pub(crate) const BUCKETS_MAX: u32 = 32_768;

/// Offset of a system call's number, which its first argument or its return value follows.
const NUMBER: i16 = 8;
pub(crate) const ARGUMENTS: i16 = 16;

/// Places on the stack: thread and process, in this order, of the running thread.
pub(crate) const TID: i32 = -8;
pub(crate) const TGID: i32 = -4;
/// Key of `times`: process (4 bytes), call (2), bucket (2). It stands directly below.
const KEY: i32 = -16;
const ONE: i32 = -24;
/// A slow call, as [`Record`] reads it.
const RECORD: i32 = -24 - RECORD_BYTES as i32;
/// A value of `threads` or `requests`, as [`Entry`] has it.
const ENTRY: i32 = RECORD - ENTRY_BYTES as i32;

/// Marks a call that failed, in a key of `times`.
pub(crate) const FAILED: u16 = 0x8000;

/// Offsets in a record of a slow call, all in the order of the machine.
pub(crate) mod record {
    pub(crate) const START: i32 = 0;
    pub(crate) const TIME: i32 = 8;
    pub(crate) const TGID: i32 = 16;
    pub(crate) const TID: i32 = 20;
    pub(crate) const ARGUMENT: i32 = 24;
    pub(crate) const DEVICE: i32 = 32;
    pub(crate) const RESULT: i32 = 40;
    pub(crate) const CALL: i32 = 48;
}
pub(crate) const RECORD_BYTES: usize = 56;

/// Offsets in an entry: start is 0 between two calls.
pub(crate) mod entry {
    pub(crate) const START: i16 = 0;
    pub(crate) const ARGUMENT: i16 = 8;
    pub(crate) const DEVICE: i16 = 16;
    pub(crate) const CALL: i16 = 24;
    pub(crate) const TGID: i16 = 28;
}
pub(crate) const ENTRY_BYTES: usize = 32;

/// Maps shared by programs and this process.
pub(crate) struct Maps {
    /// Processes that are followed.
    pub(crate) processes: Map,
    /// Threads, with the call that they are in.
    pub(crate) threads: Map,
    /// Requests of io_uring, likewise.
    pub(crate) requests: Map,
    /// Counts by process, call and bucket.
    pub(crate) times: Map,
    /// Names of processes, as of their first call.
    pub(crate) names: Map,
    /// Slow calls.
    pub(crate) ring: Map,
    /// Number of calls that could not be counted or written.
    pub(crate) lost: Map,
}

impl Maps {
    /// Makes them, with room for `ring_bytes` of slow calls.
    pub(crate) fn new(ring_bytes: u32) -> Result<Self, TraceError> {
        let hash = |key, value, entries| Map::new(MapKind::Hash, key, value, entries);
        Ok(Self {
            processes: hash(4, 1, PROCESSES_MAX)?,
            threads: hash(4, ENTRY_BYTES as u32, THREADS_MAX)?,
            requests: hash(8, ENTRY_BYTES as u32, THREADS_MAX)?,
            times: hash(8, 8, BUCKETS_MAX)?,
            names: hash(4, 16, PROCESSES_MAX)?,
            ring: Map::new(MapKind::Ring, 0, 0, ring_bytes)?,
            lost: Map::number()?,
        })
    }
}

/// Input that all programs are assembled for.
pub(crate) struct Programs<'a> {
    pub(crate) maps: &'a Maps,
    /// True if all processes are followed.
    pub(crate) all: bool,
    /// Calls that take this long or longer are written to the ring.
    pub(crate) threshold_ns: u64,
}

impl Programs<'_> {
    /// Assembles the program for the beginning of a system call. The kernel refuses to read an argument of a call
    /// without any, as sync(2).
    pub(crate) fn begin(&self, has_argument: bool) -> Vec<u64> {
        let mut asm = Assembler::default();
        self.find_thread(&mut asm);
        asm.set(R1, 0);
        if has_argument {
            asm.load(Width::Double, R1, R6, ARGUMENTS);
        }
        asm.store(Width::Double, R8, entry::ARGUMENT, R1);
        asm.transfer(Width::Word, (R8, entry::CALL), (R6, NUMBER));
        begin_now(&mut asm);
        leave(asm, &self.maps.lost)
    }

    /// Assembles the program for the end of a system call.
    pub(crate) fn end(&self) -> Vec<u64> {
        let mut asm = Assembler::default();
        self.find_call(&mut asm);
        asm.load(Width::Double, R1, R6, ARGUMENTS);
        self.count(&mut asm);
        leave(asm, &self.maps.lost)
    }

    /// Assembles the program for the moment at which a file system begins to sync a file. Inside of a traced call the
    /// sync is that call's own; in a thread of io_uring it is counted with the request.
    pub(crate) fn begin_in_file_system(&self, point: &Tracepoint) -> Result<Vec<u64>, TraceError> {
        let mut asm = Assembler::default();
        self.find_thread(&mut asm);
        asm.load(Width::Double, R1, R8, entry::START);
        asm.jump_if(R1, If::NotEqual, 0, "out");
        asm.stack(R1, RECORD);
        asm.set(R2, 16);
        asm.call(Function::Comm);
        asm.load(Width::Double, R1, FP, RECORD as i16);
        asm.set_wide(R2, u64::from_le_bytes(*b"iou-wrk-"));
        asm.jump_if_register(R1, If::Equal, R2, "out");
        asm.transfer(Width::Double, (R8, entry::ARGUMENT), (R6, point.offset("ino")? as i16));
        asm.load(Width::Word, R1, R6, point.offset("dev")? as i16);
        asm.store(Width::Double, R8, entry::DEVICE, R1);
        asm.store_value(Width::Word, R8, entry::CALL, i32::from(Call::WriteThrough.number()));
        begin_now(&mut asm);
        Ok(leave(asm, &self.maps.lost))
    }

    /// Assembles the program for the end of such a sync.
    pub(crate) fn end_in_file_system(&self, point: &Tracepoint) -> Result<Vec<u64>, TraceError> {
        let mut asm = Assembler::default();
        self.find_call(&mut asm);
        asm.load(Width::Word, R1, R8, entry::CALL);
        asm.jump_if(R1, If::NotEqual, i32::from(Call::WriteThrough.number()), "out");
        asm.load(Width::Word, R1, R6, point.offset("ret")? as i16);
        negative_of_word(&mut asm);
        self.count(&mut asm);
        Ok(leave(asm, &self.maps.lost))
    }

    /// Assembles the program for the beginning of an io_uring request.
    pub(crate) fn submit(&self, point: &Tracepoint) -> Result<Vec<u64>, TraceError> {
        const FSYNC: i32 = 3;
        const SYNC_FILE_RANGE: i32 = 8;
        let mut asm = Assembler::default();
        asm.copy(R6, R1);
        asm.load(Width::Byte, R9, R6, point.offset("opcode")? as i16);
        asm.store_value(Width::Word, FP, ENTRY as i16 + entry::CALL, i32::from(Call::UringFsync.number()));
        asm.jump_if(R9, If::Equal, FSYNC, "ours");
        asm.store_value(Width::Word, FP, ENTRY as i16 + entry::CALL, i32::from(Call::UringSyncFileRange.number()));
        asm.jump_if(R9, If::NotEqual, SYNC_FILE_RANGE, "out");
        asm.label("ours");
        self.find_process(&mut asm);
        asm.store_value(Width::Double, FP, ENTRY as i16 + entry::ARGUMENT, 0);
        asm.store_value(Width::Double, FP, ENTRY as i16 + entry::DEVICE, 0);
        asm.transfer(Width::Word, (FP, ENTRY as i16 + entry::TGID), (FP, TGID as i16));
        self.name(&mut asm);
        asm.transfer(Width::Double, (FP, KEY as i16), (R6, point.offset("req")? as i16));
        asm.call(Function::KtimeNs);
        asm.store(Width::Double, FP, ENTRY as i16 + entry::START, R0);
        update(&mut asm, &self.maps.requests, KEY, ENTRY, 0);
        asm.jump_if(R0, If::NotEqual, 0, "lost");
        Ok(leave(asm, &self.maps.lost))
    }

    /// Assembles the program for the end of such a request.
    pub(crate) fn complete(&self, point: &Tracepoint) -> Result<Vec<u64>, TraceError> {
        let mut asm = Assembler::default();
        asm.copy(R6, R1);
        asm.transfer(Width::Double, (FP, KEY as i16), (R6, point.offset("req")? as i16));
        lookup(&mut asm, &self.maps.requests, KEY);
        asm.jump_if(R0, If::Equal, 0, "out");
        // The thread that completes it may differ from the one that submitted it: the entry moves to where a thread's
        // would be.
        asm.copy(R8, R0);
        for word in (0..ENTRY_BYTES as i16).step_by(8) {
            asm.transfer(Width::Double, (FP, ENTRY as i16 + word), (R8, word));
        }
        delete(&mut asm, &self.maps.requests, KEY);
        asm.stack(R8, ENTRY);
        asm.store_value(Width::Word, FP, TID as i16, 0);
        asm.transfer(Width::Word, (FP, TGID as i16), (R8, entry::TGID));
        asm.load(Width::Word, R1, R6, point.offset("res")? as i16);
        negative_of_word(&mut asm);
        self.count(&mut asm);
        Ok(leave(asm, &self.maps.lost))
    }

    /// Leaves unless the running process is followed. Its numbers are on the stack then.
    fn find_process(&self, asm: &mut Assembler) {
        match self.all {
            true => running(asm),
            false => find_process(asm, &self.maps.processes),
        }
    }

    /// R8 = the running thread's entry, made where there is none; leaves unless its process is followed.
    fn find_thread(&self, asm: &mut Assembler) {
        asm.copy(R6, R1);
        running(asm);
        lookup(asm, &self.maps.threads, TID);
        asm.jump_if(R0, If::NotEqual, 0, "known");
        self.find_process(asm);
        for word in (0..ENTRY_BYTES as i16).step_by(8) {
            asm.store_value(Width::Double, FP, ENTRY as i16 + word, 0);
        }
        asm.transfer(Width::Word, (FP, ENTRY as i16 + entry::TGID), (FP, TGID as i16));
        self.name(asm);
        update(asm, &self.maps.threads, TID, ENTRY, 0);
        lookup(asm, &self.maps.threads, TID);
        asm.jump_if(R0, If::Equal, 0, "lost");
        asm.label("known");
        asm.copy(R8, R0);
    }

    /// Keeps the running process's name.
    fn name(&self, asm: &mut Assembler) {
        asm.stack(R1, RECORD);
        asm.set(R2, 16);
        asm.call(Function::Comm);
        update(asm, &self.maps.names, TGID, RECORD, 0);
    }

    /// R8 = the entry of the running thread, which is in a call; leaves otherwise.
    fn find_call(&self, asm: &mut Assembler) {
        asm.copy(R6, R1);
        running(asm);
        lookup(asm, &self.maps.threads, TID);
        asm.jump_if(R0, If::Equal, 0, "out");
        asm.copy(R8, R0);
        asm.load(Width::Double, R1, R8, entry::START);
        asm.jump_if(R1, If::Equal, 0, "out");
    }

    /// Counts the call of the entry at R8, which returned R1, and writes it to the ring if it was slow.
    fn count(&self, asm: &mut Assembler) {
        asm.store(Width::Double, FP, at(record::RESULT), R1);
        asm.call(Function::KtimeNs);
        asm.copy(R9, R0);
        asm.load(Width::Double, R7, R8, entry::START);
        asm.with_register(Do::Subtract, R9, R7);
        asm.store_value(Width::Double, R8, entry::START, 0);
        asm.transfer(Width::Word, (FP, KEY as i16), (FP, TGID as i16));
        asm.load(Width::Word, R1, R8, entry::CALL);
        asm.load(Width::Double, R2, FP, at(record::RESULT));
        // The sign's bit is the mark.
        asm.with(Do::ShiftRight, R2, 63);
        asm.with(Do::ShiftLeft, R2, 15);
        asm.with_register(Do::Or, R1, R2);
        asm.store(Width::Half, FP, KEY as i16 + 4, R1);
        bucket(asm);
        asm.store(Width::Half, FP, KEY as i16 + 6, R1);
        count_in(asm, &self.maps.times, KEY, ONE);
        asm.set_wide(R1, self.threshold_ns);
        asm.jump_if_register(R9, If::Below, R1, "out");
        asm.store(Width::Double, FP, at(record::START), R7);
        asm.store(Width::Double, FP, at(record::TIME), R9);
        for (from, to) in [(TGID, record::TGID), (TID, record::TID)] {
            asm.transfer(Width::Word, (FP, at(to)), (FP, from as i16));
        }
        for (from, to) in [(entry::ARGUMENT, record::ARGUMENT), (entry::DEVICE, record::DEVICE)] {
            asm.transfer(Width::Double, (FP, at(to)), (R8, from));
        }
        asm.load(Width::Word, R1, R8, entry::CALL);
        asm.store(Width::Double, FP, at(record::CALL), R1);
        output(asm, &self.maps.ring, RECORD, RECORD_BYTES as i32);
    }
}

/// Assembles the program for the creation of a process or thread: children of followed `processes` are followed too.
pub(crate) fn fork(processes: &Map, lost: &Map, point: &Tracepoint) -> Result<Vec<u64>, TraceError> {
    const IS_THREAD: i32 = 0x1_0000;
    let mut asm = Assembler::default();
    asm.copy(R6, R1);
    asm.load(Width::Double, R1, R6, point.offset("clone_flags")? as i16);
    asm.with(Do::And, R1, IS_THREAD);
    asm.jump_if(R1, If::NotEqual, 0, "out");
    find_process(&mut asm, processes);
    asm.transfer(Width::Word, (FP, KEY as i16), (R6, point.offset("pid")? as i16));
    asm.store_value(Width::Double, FP, ONE as i16, 1);
    update(&mut asm, processes, KEY, ONE, 0);
    asm.jump_if(R0, If::NotEqual, 0, "lost");
    Ok(leave(asm, lost))
}

/// Assembles the program for the end of a thread, whose number may be reused: removes it from `threads`.
pub(crate) fn gone(threads: &Map, lost: &Map) -> Vec<u64> {
    let mut asm = Assembler::default();
    running(&mut asm);
    delete(&mut asm, threads, TID);
    leave(asm, lost)
}

/// Assembles the program for exec: a thread that was not the leader of its process has the leader's number from then
/// on, and its former number may be reused. Removes that from `threads`.
pub(crate) fn renumbered(threads: &Map, lost: &Map, point: &Tracepoint) -> Result<Vec<u64>, TraceError> {
    let mut asm = Assembler::default();
    asm.transfer(Width::Word, (FP, TID as i16), (R1, point.offset("old_pid")? as i16));
    delete(&mut asm, threads, TID);
    Ok(leave(asm, lost))
}

/// Leaves unless the running process is one of `processes`. Thread and process stand at [`TID`] and [`TGID`] then.
pub(crate) fn find_process(asm: &mut Assembler, processes: &Map) {
    running(asm);
    lookup(asm, processes, TGID);
    asm.jump_if(R0, If::Equal, 0, "out");
}

/// Keeps the running thread at [`TID`], and its process at [`TGID`].
fn running(asm: &mut Assembler) {
    asm.call(Function::PidTgid);
    asm.store(Width::Double, FP, TID as i16, R0);
}

/// Ends a program: `out`, and `lost`, where it is counted that something could not be kept.
pub(crate) fn leave(mut asm: Assembler, lost: &Map) -> Vec<u64> {
    // The kernel refuses what nothing leads to.
    if asm.leads_to("lost") {
        asm.jump("out");
        asm.label("lost");
        count_lost(&mut asm, lost);
    }
    asm.label("out");
    asm.end();
    asm.assemble()
}

/// Adds one to the only element of `lost`.
fn count_lost(asm: &mut Assembler, lost: &Map) {
    asm.store_value(Width::Word, FP, TID as i16, 0);
    lookup(asm, lost, TID);
    asm.jump_if(R0, If::Equal, 0, "out");
    asm.set(R1, 1);
    asm.add_at_once(R0, 0, R1);
}

/// Returns the stack offset of a field of the record.
fn at(field: i32) -> i16 {
    (RECORD + field) as i16
}

fn begin_now(asm: &mut Assembler) {
    asm.call(Function::KtimeNs);
    asm.store(Width::Double, R8, entry::START, R0);
}

/// R0 = the value of the key on the stack, or 0.
pub(crate) fn lookup(asm: &mut Assembler, map: &Map, key: i32) {
    asm.map(R1, map);
    asm.stack(R2, key);
    asm.call(Function::MapLookup);
}

pub(crate) fn update(asm: &mut Assembler, map: &Map, key: i32, value: i32, flags: i32) {
    asm.map(R1, map);
    asm.stack(R2, key);
    asm.stack(R3, value);
    asm.set(R4, flags);
    asm.call(Function::MapUpdate);
}

/// Removes the key on the stack.
pub(crate) fn delete(asm: &mut Assembler, map: &Map, key: i32) {
    asm.map(R1, map);
    asm.stack(R2, key);
    asm.call(Function::MapDelete);
}

/// R9 = the time since the beginning that R0 points to. Removes it from `began`; R8 is lost.
pub(crate) fn time_since(asm: &mut Assembler, began: &Map, key: i32) {
    asm.load(Width::Double, R8, R0, 0);
    delete(asm, began, key);
    asm.call(Function::KtimeNs);
    asm.copy(R9, R0);
    asm.with_register(Do::Subtract, R9, R8);
}

/// Writes so many bytes of the stack to a ring.
pub(crate) fn output(asm: &mut Assembler, ring: &Map, from: i32, bytes: i32) {
    asm.map(R1, ring);
    asm.stack(R2, from);
    asm.set(R3, bytes);
    asm.set(R4, 0);
    asm.call(Function::RingOutput);
    asm.jump_if(R0, If::Negative, 0, "lost");
}

/// Adds one to the count of the key on the stack; the stack's 8 bytes at `zero` are lost.
pub(crate) fn count_in(asm: &mut Assembler, counts: &Map, key: i32, zero: i32) {
    const ONLY_NEW: i32 = 1;
    lookup(asm, counts, key);
    asm.jump_if(R0, If::NotEqual, 0, "add");
    asm.store_value(Width::Double, FP, zero as i16, 0);
    update(asm, counts, key, zero, ONLY_NEW);
    // Where another processor was first, it is there as well.
    lookup(asm, counts, key);
    asm.jump_if(R0, If::Equal, 0, "lost");
    asm.label("add");
    asm.set(R1, 1);
    asm.add_at_once(R0, 0, R1);
}

/// R1, a signed number of 32 bits, becomes one of 64.
fn negative_of_word(asm: &mut Assembler) {
    asm.with(Do::ShiftLeft, R1, 32);
    asm.arithmetic_right(R1, 32);
}

/// R1 = the bucket of R9, as [`crate::times::bucket_of`] has it. R9 stays.
pub(crate) fn bucket(asm: &mut Assembler) {
    const LOG: R = R2;
    asm.copy(R1, R9);
    asm.jump_if(R9, If::Below, 1 << (FINE + 1), "bucket");
    asm.set(LOG, 0);
    for bits in [32, 16, 8, 4, 2, 1] {
        let label = format!("below {bits}");
        asm.copy(R3, R1);
        asm.with(Do::ShiftRight, R3, bits);
        asm.jump_if(R3, If::Equal, 0, &label);
        asm.copy(R1, R3);
        asm.with(Do::Add, LOG, bits);
        asm.label(&label);
    }
    asm.with(Do::Add, LOG, -(FINE as i32));
    asm.copy(R1, R9);
    asm.with_register(Do::ShiftRight, R1, LOG);
    asm.with(Do::ShiftLeft, LOG, FINE as i32);
    asm.with_register(Do::Add, R1, LOG);
    asm.label("bucket");
}
