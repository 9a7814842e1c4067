//! The program that writes every call on files into a ring, and the calls that it is for.

use crate::assembler::{Assembler, Call as Function, Do, FP, If, R0, R1, R2, R3, R6, R7, R8, Width};
use crate::programs::{ARGUMENTS, TGID, TID, entry, find_process, leave, lookup, output, update};
use crate::sys::{Map, MapKind};
use crate::{TraceError, programs};

/// Effect of a call on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    Open,
    Read,
    Write,
    Sync,
    Close,
    Delete,
    Rename,
    Truncate,
    /// A descriptor becomes another file's, or a further one of the same file.
    Duplicate,
}

/// A system call: name, number, what it does, and which argument is a path (of two, the first and the last).
pub(crate) struct FileCall {
    pub(crate) name: &'static str,
    pub(crate) number: u16,
    pub(crate) does: Does,
    /// Index of the argument that is a path, relative to the directory in the argument before it.
    pub(crate) path: Option<u8>,
}

const fn call(name: &'static str, number: i64, does: Does, path: Option<u8>) -> FileCall {
    FileCall { name, number: number as u16, does, path }
}

/// Calls that use files. Where an architecture lacks one, it is left out.
pub(crate) const CALLS: &[FileCall] = &[
    call("openat", libc::SYS_openat, Does::Open, Some(1)),
    call("openat2", libc::SYS_openat2, Does::Open, Some(1)),
    #[cfg(target_arch = "x86_64")]
    call("open", libc::SYS_open, Does::Open, Some(0)),
    #[cfg(target_arch = "x86_64")]
    call("creat", libc::SYS_creat, Does::Open, Some(0)),
    call("read", libc::SYS_read, Does::Read, None),
    call("pread64", libc::SYS_pread64, Does::Read, None),
    call("readv", libc::SYS_readv, Does::Read, None),
    call("preadv", libc::SYS_preadv, Does::Read, None),
    call("preadv2", libc::SYS_preadv2, Does::Read, None),
    call("write", libc::SYS_write, Does::Write, None),
    call("pwrite64", libc::SYS_pwrite64, Does::Write, None),
    call("writev", libc::SYS_writev, Does::Write, None),
    call("pwritev", libc::SYS_pwritev, Does::Write, None),
    call("pwritev2", libc::SYS_pwritev2, Does::Write, None),
    call("fsync", libc::SYS_fsync, Does::Sync, None),
    call("fdatasync", libc::SYS_fdatasync, Does::Sync, None),
    call("sync_file_range", libc::SYS_sync_file_range, Does::Sync, None),
    call("close", libc::SYS_close, Does::Close, None),
    #[cfg(target_arch = "x86_64")]
    call("unlink", libc::SYS_unlink, Does::Delete, Some(0)),
    call("unlinkat", libc::SYS_unlinkat, Does::Delete, Some(1)),
    #[cfg(target_arch = "x86_64")]
    call("rename", libc::SYS_rename, Does::Rename, Some(0)),
    call("renameat", libc::SYS_renameat, Does::Rename, Some(1)),
    call("renameat2", libc::SYS_renameat2, Does::Rename, Some(1)),
    call("ftruncate", libc::SYS_ftruncate, Does::Truncate, None),
    call("fallocate", libc::SYS_fallocate, Does::Truncate, None),
    #[cfg(target_arch = "x86_64")]
    call("dup2", libc::SYS_dup2, Does::Duplicate, None),
    call("dup3", libc::SYS_dup3, Does::Duplicate, None),
];

/// Bytes of a path that are kept.
pub(crate) const PATH_MAX: usize = 256;
/// A record, and one with a path. All in the order of the machine.
pub(crate) mod record {
    pub(crate) const PID: i16 = 0;
    pub(crate) const CALL: i16 = 4;
    pub(crate) const RESULT: i16 = 8;
    pub(crate) const FIRST: i16 = 16;
    pub(crate) const SECOND: i16 = 24;
    pub(crate) const PATH: i16 = 32;
}

/// Size of the ring of records, bytes: about 200,000 unread records.
pub(crate) const RING_BYTES: usize = 8 << 20;

const ENTRY: i32 = -56;
const RECORD: i32 = -96;

/// Maps shared by the programs and this process.
pub(crate) struct Maps {
    pub(crate) processes: Map,
    /// Threads with the arguments of their last call.
    pub(crate) threads: Map,
    pub(crate) ring: Map,
    pub(crate) lost: Map,
}

impl Maps {
    pub(crate) fn new() -> Result<Self, TraceError> {
        Ok(Self {
            processes: Map::new(MapKind::Hash, 4, 1, programs::PROCESSES_MAX)?,
            threads: Map::new(MapKind::Hash, 4, programs::ENTRY_BYTES as u32, programs::PROCESSES_MAX)?,
            ring: Map::new(MapKind::Ring, 0, 0, RING_BYTES as u32)?,
            lost: Map::number()?,
        })
    }

    /// Assembles the program for the beginning of a call: keeps its first two arguments and, if it has one, its path.
    /// A close is recorded here, since another thread may have the same descriptor before the end.
    pub(crate) fn begin(&self, call: &FileCall) -> Vec<u64> {
        let mut asm = Assembler::default();
        asm.copy(R6, R1);
        find_process(&mut asm, &self.processes);
        if call.does == Does::Close {
            asm.transfer(Width::Word, (FP, RECORD as i16 + record::PID), (FP, TGID as i16));
            asm.store_value(Width::Word, FP, RECORD as i16 + record::CALL, i32::from(call.number));
            asm.transfer(Width::Double, (FP, RECORD as i16 + record::FIRST), (R6, ARGUMENTS));
            asm.store_value(Width::Double, FP, RECORD as i16 + record::SECOND, 0);
            asm.store_value(Width::Double, FP, RECORD as i16 + record::RESULT, 0);
            output(&mut asm, &self.ring, RECORD, record::PATH.into());
            return leave(asm, &self.lost);
        }
        // An entry of `programs` has room for three numbers.
        for (at, place) in [(0, entry::ARGUMENT), (1, entry::DEVICE), (call.path.unwrap_or(0).into(), entry::START)] {
            // Some have only one.
            if at == 1 && matches!(call.name, "fsync" | "fdatasync" | "unlink") {
                asm.store_value(Width::Double, FP, ENTRY as i16 + place, 0);
                continue;
            }
            asm.transfer(Width::Double, (FP, ENTRY as i16 + place), (R6, ARGUMENTS + 8 * at));
        }
        asm.store_value(Width::Double, FP, ENTRY as i16 + entry::CALL, i32::from(call.number));
        update(&mut asm, &self.threads, TID, ENTRY, 0);
        asm.jump_if(R0, If::NotEqual, 0, "lost");
        leave(asm, &self.lost)
    }

    /// Assembles the program for the end of a call: writes a record.
    pub(crate) fn end(&self, call: &FileCall) -> Vec<u64> {
        let mut asm = Assembler::default();
        asm.copy(R6, R1);
        find_process(&mut asm, &self.processes);
        lookup(&mut asm, &self.threads, TID);
        asm.jump_if(R0, If::Equal, 0, "out");
        asm.copy(R8, R0);
        asm.load(Width::Word, R1, R8, entry::CALL);
        asm.jump_if(R1, If::NotEqual, i32::from(call.number), "out");
        let (to, from) = match call.path {
            Some(_) => {
                asm.map(R1, &self.ring);
                asm.set(R2, i32::from(record::PATH) + PATH_MAX as i32);
                asm.set(R3, 0);
                asm.call(Function::RingReserve);
                asm.jump_if(R0, If::Equal, 0, "lost");
                asm.copy(R7, R0);
                (R7, 0)
            }
            None => (FP, RECORD as i16),
        };
        asm.transfer(Width::Word, (to, from + record::PID), (FP, TGID as i16));
        asm.store_value(Width::Word, to, from + record::CALL, i32::from(call.number));
        asm.transfer(Width::Double, (to, from + record::RESULT), (R6, ARGUMENTS));
        for (place, field) in [(entry::ARGUMENT, record::FIRST), (entry::DEVICE, record::SECOND)] {
            asm.transfer(Width::Double, (to, from + field), (R8, place));
        }
        match call.path {
            Some(_) => {
                asm.store_value(Width::Byte, R7, record::PATH, 0);
                asm.copy(R1, R7);
                asm.with(Do::Add, R1, record::PATH.into());
                asm.set(R2, PATH_MAX as i32);
                asm.load(Width::Double, R3, R8, entry::START);
                // A path that cannot be read is an empty one.
                asm.call(Function::ReadUserString);
                asm.copy(R1, R7);
                asm.set(R2, 0);
                asm.call(Function::RingSubmit);
            }
            None => output(&mut asm, &self.ring, RECORD, record::PATH.into()),
        }
        leave(asm, &self.lost)
    }
}
