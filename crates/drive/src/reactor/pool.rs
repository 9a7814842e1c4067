//! The memory into which the kernel receives when it sees fit, and the ring of it that is on offer.
//!
//! The kernel writes to no other memory of this process at times of its own choosing, so it is not a Rust value: it is
//! mapped, reached by pointers, and read only where a completion has given a piece of it back.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering::Release};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes of a piece.
pub const PIECE_BYTES: usize = 16 * 1024;
/// The kernel's number for this pool; there is one to a ring.
pub const GROUP: u16 = 0;
const PAGE_BYTES: usize = 4096;

/// Pieces of memory, some on offer to the kernel, some given back and being read.
pub struct Pool {
    start: NonNull<u8>,
    bytes: usize,
    /// Offset of the pieces: after the ring's entries.
    pieces_at: usize,
    /// A power of two.
    pieces: u16,
    /// Entries written so far.
    tail: u16,
}

// SAFETY: the memory belongs to the value alone, wherever that is; the kernel does not care which thread asks it.
unsafe impl Send for Pool {}

impl Pool {
    /// Maps a pool of `pieces` (a power of two, at most 32,768) and offers all of it.
    pub fn offer(ring: &IoUring, pieces: u16) -> io::Result<Pool> {
        let entries_bytes = usize::from(pieces) * size_of::<BufRingEntry>();
        let pieces_at = entries_bytes.next_multiple_of(PAGE_BYTES);
        let bytes = pieces_at + usize::from(pieces) * PIECE_BYTES;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that is there.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        let start: NonNull<u8> = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut pool = Pool { start, bytes, pieces_at, pieces, tail: 0 };
        // A child process has no business with it, and needs no copies of it.
        // SAFETY: it says something of our own mapping, and changes nothing for this process.
        unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxDontFork)? };
        for piece in 0..pieces {
            pool.give(piece);
        }
        // SAFETY: the entries are page-aligned and mapped for as long as the pool exists, and the owner of the pool
        // drops it only after the ring has ended its requests.
        unsafe { ring.submitter().register_buf_ring_with_flags(start.as_ptr() as u64, pieces, GROUP, 0)? };
        Ok(pool)
    }

    /// The first `count` bytes of a piece that a completion has given back, until it is given to the kernel again.
    #[inline]
    pub fn piece(&self, piece: u16, count: usize) -> &[u8] {
        assert!(piece < self.pieces && count <= PIECE_BYTES, "the kernel keeps within what it was offered");
        // SAFETY: within the mapping, by the line above. The kernel wrote these bytes before its completion, and
        // writes no more to them before `give`, which takes the pool by `&mut` and so ends this borrow.
        unsafe { std::slice::from_raw_parts(self.place(piece), count) }
    }

    /// Offers a piece to the kernel: at the beginning, or again when it has been read.
    #[inline]
    pub fn give(&mut self, piece: u16) {
        let entries: *mut BufRingEntry = self.start.as_ptr().cast();
        let at = usize::from(self.tail & (self.pieces - 1));
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `at` is one of the entries, which stand at the mapping's beginning, aligned to a page. The kernel
        // does not look at an entry before the tail has passed it, which it does in the last line. The tail stands in
        // a field of the first entry that the setters do not touch.
        unsafe {
            let entry = &mut *entries.add(at);
            entry.set_addr(self.place(piece) as u64);
            entry.set_len(PIECE_BYTES as u32);
            entry.set_bid(piece);
            AtomicU16::from_ptr(BufRingEntry::tail(entries).cast_mut()).store(self.tail, Release);
        }
    }

    fn place(&self, piece: u16) -> *mut u8 {
        let offset = self.pieces_at + usize::from(piece) * PIECE_BYTES;
        // SAFETY: every piece lies within the mapping.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no borrow of it is left.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
