//! Calls of the kernel that have no safe wrapper: bpf(2), perf_event_open(2), and memory that is shared with it.
//!
//! All `unsafe` of this crate is here. What leaves this file is safe: descriptors that close themselves, and mappings
//! whose offsets are checked.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::TraceError;

/// A command of bpf(2).
#[derive(Clone, Copy)]
#[repr(i32)]
enum Bpf {
    MapCreate = 0,
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    ProgLoad = 5,
    InfoByFd = 15,
    MapLookupBatch = 24,
}

/// Description of a read, for errors.
const READ: &str = "bpf(2), to read a map";

/// Words of `union bpf_attr`, of which each command has its own layout (`include/uapi/linux/bpf.h`).
type Attr = [u64; 16];

/// Two halves of a word of an [`Attr`].
fn halves(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// A descriptor as half of a word.
pub(crate) fn half_of(fd: &OwnedFd) -> u32 {
    fd.as_raw_fd() as u32
}

/// Addresses that the kernel reads from or writes to stand in `attr` as numbers. Callers are in this file: they keep what
/// is pointed to, and see to its length.
fn bpf(command: Bpf, attr: &mut Attr) -> io::Result<i32> {
    // SAFETY: `attr` is as long as is said; what its addresses point to is kept by the callers below.
    let made = unsafe { libc::syscall(libc::SYS_bpf, command as i32, attr.as_mut_ptr(), size_of::<Attr>()) };
    if made < 0 { Err(io::Error::last_os_error()) } else { Ok(made as i32) }
}

fn descriptor(raw: RawFd) -> OwnedFd {
    // SAFETY: the kernel has just made it, and it has no other owner.
    unsafe { OwnedFd::from_raw_fd(raw) }
}

/// A kind of map, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum MapKind {
    Hash = 1,
    Array = 2,
    /// A hash map that forgets what was used longest ago when it is full.
    RecentHash = 9,
    Ring = 27,
}

/// A map in the kernel.
pub(crate) struct Map {
    pub(crate) fd: OwnedFd,
    key_bytes: usize,
    value_bytes: usize,
}

impl Map {
    /// Makes a map of `entries` (of a ring: bytes).
    pub(crate) fn new(kind: MapKind, key_bytes: u32, value_bytes: u32, entries: u32) -> Result<Self, TraceError> {
        let mut attr = Attr::default();
        attr[0] = halves(kind as u32, key_bytes);
        attr[1] = halves(value_bytes, entries);
        let fd = bpf(Bpf::MapCreate, &mut attr).map(descriptor);
        let fd = fd.map_err(TraceError::of("bpf(2), to make a map"))?;
        Ok(Self { fd, key_bytes: key_bytes as usize, value_bytes: value_bytes as usize })
    }

    /// Makes a map with one number.
    pub(crate) fn number() -> Result<Self, TraceError> {
        Self::new(MapKind::Array, 4, 8, 1)
    }

    /// Returns the number of such a map.
    pub(crate) fn read_number(&self) -> Result<u64, TraceError> {
        assert!(self.value_bytes == size_of::<u64>(), "length of the map's values");
        let mut number = [0u8; size_of::<u64>()];
        self.keyed(Bpf::MapLookup, &0u32.to_ne_bytes(), number.as_mut_ptr() as u64).map_err(TraceError::of(READ))?;
        Ok(u64::from_ne_bytes(number))
    }

    /// Does `command` with `key`, and the value at the address `value`.
    fn keyed(&self, command: Bpf, key: &[u8], value: u64) -> io::Result<()> {
        assert!(key.len() == self.key_bytes, "length of the map's keys");
        let mut attr = Attr::default();
        attr[0] = halves(half_of(&self.fd), 0);
        attr[1] = key.as_ptr() as u64;
        attr[2] = value;
        bpf(command, &mut attr).map(drop)
    }

    pub(crate) fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert!(value.len() == self.value_bytes, "length of the map's values");
        self.keyed(Bpf::MapUpdate, key, value.as_ptr() as u64)
    }

    pub(crate) fn remove(&self, key: &[u8]) -> io::Result<()> {
        self.keyed(Bpf::MapDelete, key, 0)
    }

    /// Calls `each` with all keys and values of a hash map.
    pub(crate) fn each<const K: usize, const V: usize>(
        &self,
        mut each: impl FnMut(&[u8; K], &[u8; V]),
    ) -> Result<(), TraceError> {
        const ROOM: usize = 2_048;
        assert!(K == self.key_bytes && V == self.value_bytes, "lengths of the map");
        let (mut keys, mut values) = (vec![[0u8; K]; ROOM], vec![[0u8; V]; ROOM]);
        // Where it goes on is a number of a bucket; nothing at first.
        let (mut place, mut next) = (None::<[u64; 2]>, [0u64; 2]);
        loop {
            let mut attr = Attr::default();
            attr[0] = place.as_mut().map_or(0, |place| place.as_mut_ptr() as u64);
            attr[1] = next.as_mut_ptr() as u64;
            attr[2] = keys.as_mut_ptr() as u64;
            attr[3] = values.as_mut_ptr() as u64;
            attr[4] = halves(ROOM as u32, half_of(&self.fd));
            let ended = match bpf(Bpf::MapLookupBatch, &mut attr) {
                Ok(_) => false,
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
                Err(error) => return Err(TraceError::of(READ)(error)),
            };
            let found = (attr[4] as u32 as usize).min(ROOM);
            keys.iter().zip(&values).take(found).for_each(|(key, value)| each(key, value));
            if ended {
                return Ok(());
            }
            place = Some(next);
        }
    }
}

/// Loads a program for tracepoints; without permission or with a program that the kernel refuses, with its words.
pub(crate) fn program(instructions: &[u64]) -> Result<OwnedFd, (io::Error, String)> {
    const TRACEPOINT: u32 = 5;
    // Some of what the kernel offers wants a licence of this name; the project's is either of two, one of them MIT.
    let licence = c"Dual MIT/GPL";
    let mut said = vec![0u8; 64 << 10];
    let load = |said: &mut [u8]| {
        let mut attr = Attr::default();
        attr[0] = halves(TRACEPOINT, instructions.len() as u32);
        attr[1] = instructions.as_ptr() as u64;
        attr[2] = licence.as_ptr() as u64;
        if !said.is_empty() {
            attr[3] = halves(1, said.len() as u32);
            attr[4] = said.as_mut_ptr() as u64;
        }
        bpf(Bpf::ProgLoad, &mut attr).map(descriptor)
    };
    load(&mut []).map_err(|error| {
        if error.raw_os_error() != Some(libc::EPERM) {
            let _ = load(&mut said);
        }
        let end = said.iter().position(|byte| *byte == 0).unwrap_or(0);
        (error, String::from_utf8_lossy(&said[..end]).into_owned())
    })
}

/// Returns the number of times that the kernel has skipped `program` because another one was running on its processor.
pub(crate) fn program_misses(program: &OwnedFd) -> u64 {
    let mut info = [0u64; 32];
    let mut attr = Attr::default();
    attr[0] = halves(half_of(program), size_of_val(&info) as u32);
    attr[1] = info.as_mut_ptr() as u64;
    // `recursion_misses` of `struct bpf_prog_info`.
    bpf(Bpf::InfoByFd, &mut attr).map_or(0, |_| info[26])
}

/// Runs `program` at each event of the tracepoint `id`, until the returned descriptor is closed.
pub(crate) fn attach(program: &OwnedFd, id: u64) -> io::Result<OwnedFd> {
    const RUN: libc::c_ulong = 0x4004_2408;
    let event = event(id)?;
    // SAFETY: this request takes a number.
    let done = unsafe { libc::ioctl(event.as_raw_fd(), RUN, program.as_raw_fd()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(event) }
}

/// Makes an event of the tracepoint `id` that writes nothing.
fn event(id: u64) -> io::Result<OwnedFd> {
    const TRACEPOINT: u32 = 2;
    // A disabled event writes no records; its program runs nevertheless.
    const DISABLED: u64 = 1;
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    // `struct perf_event_attr` in its first version (`include/uapi/linux/perf_event.h`).
    let mut attr = [0u64; 8];
    attr[0] = halves(TRACEPOINT, size_of_val(&attr) as u32);
    attr[1] = id;
    attr[5] = DISABLED;
    // The program runs on all processors, not only on number 0.
    // SAFETY: `attr` is as long as it says itself, and read only.
    let event = unsafe { libc::syscall(libc::SYS_perf_event_open, attr.as_ptr(), -1, 0, -1, CLOSE_ON_EXEC) };
    if event < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(descriptor(event as RawFd))
}

/// Memory that is shared with the kernel.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it is plain memory, looked at through atomics and copies only.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `bytes` of `of`, from `offset` on; to be written to where `writable`.
    pub(crate) fn new(of: &OwnedFd, offset: usize, bytes: usize, writable: bool) -> io::Result<Self> {
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that is there.
        let start = unsafe {
            libc::mmap(null_mut(), bytes, protection, libc::MAP_SHARED, of.as_raw_fd(), offset as libc::off_t)
        };
        match NonNull::new(start.cast()).filter(|_| start != libc::MAP_FAILED) {
            Some(start) => Ok(Self { start, bytes }),
            None => Err(io::Error::last_os_error()),
        }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.bytes, "an offset inside of the mapping");
        // SAFETY: inside of the mapping, aligned, and shared with the kernel alone.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// The word at `offset`, and what was written before it.
    pub(crate) fn load(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Stores `value` at `offset`, after all earlier reads. The mapping must be writable.
    pub(crate) fn store(&self, offset: usize, value: u64) {
        self.word(offset).store(value, Ordering::Release);
    }

    /// Copies what stands at `offset`.
    pub(crate) fn copy(&self, offset: usize, into: &mut [u8]) {
        assert!(offset + into.len() <= self.bytes, "a range inside of the mapping");
        // SAFETY: inside of the mapping; the kernel writes there again only when it was told that this was read.
        unsafe { self.start.as_ptr().add(offset).copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's alone.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Waits until something can be read from one of `from`, or its other end is closed, at most `ms`; says of which.
pub(crate) fn wait<const N: usize>(from: &[BorrowedFd<'_>; N], ms: i64) -> [bool; N] {
    let mut polled = from.map(|fd| rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN));
    let limit = rustix::time::Timespec { tv_sec: ms / 1_000, tv_nsec: ms % 1_000 * 1_000_000 };
    // Interrupted, or whatever it comes to: what is there is looked at next.
    let _ = rustix::event::poll(&mut polled, Some(&limit));
    polled.map(|one| !one.revents().is_empty())
}

/// Nanoseconds of CLOCK_MONOTONIC, the clock that programs in the kernel read.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
