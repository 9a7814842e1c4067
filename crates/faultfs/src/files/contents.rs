//! Contents of files: writes, allocations and sizes, and the parts that are kept until a sync.

use std::collections::hash_map::Entry;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll_core::fault::RequestKind;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::files::Tree;
use crate::files::layer::Change;
use crate::files::node::FileNode;
use crate::files::unsynced::Unsynced;
use crate::log::now_ns;
use crate::power::Fate;
use crate::shared::Device;

impl Tree {
    /// Keeps the present contents of these bytes of a file, which are about to be written.
    fn keep(&mut self, node: &Arc<FileNode>, offset: u64, length: u64) -> Result<(), Errno> {
        let kept = self.unsynced_of(node).and_then(|()| {
            let Self { unsynced, after, power, slots, seq, .. } = self;
            let layer = if power.is_frozen() { after } else { unsynced };
            let Some(file) = layer.files.get_mut(&node.ino) else { return Ok(()) };
            if file.writes == 0 {
                file.since_ns = now_ns();
            }
            file.writes += 1;
            file.bytes += length;
            file.write(offset, length, slots, &mut || {
                *seq += 1;
                *seq
            })
        });
        self.need(kept)
    }

    /// Begins to keep what is in a file, where that is not so, and it is not durably gone.
    fn unsynced_of(&mut self, node: &Arc<FileNode>) -> io::Result<()> {
        if node.is_gone.load(Ordering::Relaxed) {
            return Ok(());
        }
        if let Entry::Vacant(place) = self.layer().files.entry(node.ino) {
            let durable_bytes = node.data()?.metadata()?.len();
            place.insert(Unsynced::new(Arc::clone(node), durable_bytes, now_ns()));
        }
        Ok(())
    }

    /// Decides a write, or a similar request, before it is performed. Returns true if it is performed, and true if
    /// power is cut with it.
    fn begin_write(&mut self, length: u64, takes_room: bool) -> Result<(bool, bool), Errno> {
        self.live()?;
        if self.power.is_frozen() {
            return Ok((true, false));
        }
        let is_last = self.power.count_write(length);
        let is_full = takes_room && self.power.has_no_room();
        match self.power.fate(RequestKind::Write) {
            Fate::Failed(errno) if !is_last => Err(errno),
            Fate::Done if is_full && !is_last => Err(Errno::NOSPC),
            Fate::Done => Ok((!is_full, is_last)),
            Fate::Failed(_) | Fate::Dropped => Ok((false, is_last)),
        }
    }

    pub(crate) fn write(&mut self, ino: u64, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let node = self.node(ino)?;
        let (end, size) = (offset.saturating_add(data.len() as u64), node.stat()?.st_size as u64);
        let (is_done, is_last) = self.begin_write(data.len() as u64, end > size)?;
        if is_done {
            self.keep(&node, offset, data.len() as u64)?;
            let written = node.data()?.write_all_at(data, offset);
            self.need(written)?;
        }
        if is_last { self.power_off() } else { Ok(()) }
    }

    /// Allocates, or makes zeros of it.
    pub(crate) fn allocate(&mut self, ino: u64, offset: u64, length: u64, mode: FallocateFlags) -> Result<(), Errno> {
        let node = self.node(ino)?;
        let zeros = FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
        if !(zeros | FallocateFlags::KEEP_SIZE).contains(mode) {
            return Err(Errno::OPNOTSUPP);
        }
        let (is_done, is_last) = self.begin_write(0, !mode.contains(FallocateFlags::PUNCH_HOLE))?;
        if is_done {
            let (size, end) = (node.stat()?.st_size as u64, offset.saturating_add(length));
            if mode.intersects(zeros) && offset < size {
                self.keep(&node, offset, end.min(size) - offset)?;
            }
            let grows = end > size && !mode.contains(FallocateFlags::KEEP_SIZE);
            if grows {
                // While it has the size that is durable.
                let kept = self.unsynced_of(&node);
                self.need(kept)?;
            }
            match rustix::fs::fallocate(node.data()?, mode, offset, length) {
                // Not every file system allocates, and who asks is told so.
                Err(error @ (Errno::OPNOTSUPP | Errno::INVAL)) => return Err(error),
                done => self.need(done.map_err(Into::into))?,
            }
            if grows {
                self.resize(&node, size, end)?;
                self.note(&node, Change::Sized)?;
            }
        }
        if is_last { self.power_off() } else { Ok(()) }
    }

    /// Records that a file was shorter, or longer with its contents; the change is noted after it.
    fn resize(&mut self, node: &Arc<FileNode>, now_bytes: u64, size_bytes: u64) -> Result<(), Errno> {
        // That of the change which is noted next.
        let seq = self.seq + 1;
        let kept = self.unsynced_of(node).and_then(|()| {
            let Self { unsynced, after, power, slots, .. } = self;
            let layer = if power.is_frozen() { after } else { unsynced };
            let file = layer.files.get_mut(&node.ino);
            file.map_or(Ok(()), |file| file.size(seq, now_bytes, size_bytes, slots))
        });
        self.need(kept)
    }

    /// Makes a file shorter or longer.
    pub(crate) fn truncate(&mut self, ino: u64, size_bytes: u64) -> Result<(), Errno> {
        let node = self.node(ino)?;
        let now_bytes = node.stat()?.st_size as u64;
        if now_bytes == size_bytes {
            return Ok(());
        }
        let (is_done, is_last) = self.begin_write(0, size_bytes > now_bytes)?;
        if is_done {
            self.resize(&node, now_bytes, size_bytes)?;
            let done = node.data()?.set_len(size_bytes);
            self.need(done)?;
            self.note(&node, Change::Sized)?;
        }
        if is_last { self.power_off() } else { Ok(()) }
    }
}
