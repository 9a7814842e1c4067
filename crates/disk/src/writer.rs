//! A file and a method of writing and flushing it: the part that is timed, and the work in between.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, OFlags, fallocate};

use crate::kernel::{FlushRing, sync_file_range};
use crate::ways::{Flushing, Writing};

/// A file gets no longer than this, or 16 writes.
const FILE_BYTES: u64 = 16 << 20;
/// New files are removed when there are so many.
const FILES: u64 = 256;
/// O_DIRECT wants memory, offset and length at multiples of the device's block, which is no larger than this.
const ALIGNMENT: usize = 4096;

/// Bytes to write, at an address that O_DIRECT takes. They differ from write to write and do not compress.
pub struct WriteBlock {
    memory: Vec<u8>,
    from: usize,
    size: usize,
    written: u64,
}

impl WriteBlock {
    /// `size` bytes.
    pub fn new(size: usize) -> Self {
        let mut memory = vec![0; size + ALIGNMENT];
        let from = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        fill(&mut memory, 0);
        Self { memory, from, size, written: 0 }
    }

    /// Returns the bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.from..self.from + self.size]
    }

    /// The bytes of the next write.
    pub fn next(&mut self) -> &[u8] {
        self.written += 1;
        let first = self.written.to_le_bytes();
        let block = self.bytes();
        if let Some(begin) = block.first_chunk_mut() {
            *begin = first;
        }
        block
    }
}

/// Fills `bytes` with what follows from `seed` (splitmix64).
pub fn fill(bytes: &mut [u8], seed: u64) {
    let mut state = seed;
    for piece in bytes.chunks_mut(8) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        piece.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes()[..piece.len()]);
    }
}

/// Flushes a file, with the resources that its method needs.
pub struct Flusher {
    flushing: Flushing,
    ring: Option<FlushRing>,
}

impl Flusher {
    pub fn new(flushing: Flushing) -> io::Result<Self> {
        let ring = if flushing == Flushing::Uring { Some(FlushRing::new()?) } else { None };
        Ok(Self { flushing, ring })
    }

    /// Returns the flags with which files are opened for it.
    pub fn flags(&self) -> i32 {
        let flags = match self.flushing {
            Flushing::Dsync => OFlags::DSYNC,
            Flushing::Direct => OFlags::DIRECT,
            _ => OFlags::empty(),
        };
        flags.bits() as i32
    }

    /// Flushes what was written to `length` bytes at `offset`.
    pub fn flush(&mut self, file: &File, offset: u64, length: usize) -> io::Result<()> {
        match (self.flushing, &mut self.ring) {
            (Flushing::Nothing | Flushing::Dsync, _) => Ok(()),
            (Flushing::Fsync, _) => Ok(rustix::fs::fsync(file)?),
            (Flushing::Range, _) => sync_file_range(file.as_fd(), offset, length),
            (Flushing::Uring, Some(ring)) => ring.fdatasync(file.as_fd()),
            (Flushing::Fdatasync | Flushing::Direct | Flushing::Uring, _) => Ok(rustix::fs::fdatasync(file)?),
        }
    }
}

/// Target of writes.
#[derive(Debug, Clone)]
pub enum Target {
    /// A directory of this program.
    Directory(PathBuf),
    /// A block device, whose first bytes are overwritten.
    Device(PathBuf),
}

/// A file that is written and flushed again and again.
pub struct BlockWriter {
    target: Target,
    writing: Writing,
    flusher: Flusher,
    block: WriteBlock,
    file: File,
    /// Directory, to flush the names of new files.
    directory: Option<File>,
    path: PathBuf,
    room: u64,
    at: u64,
    /// Number of new files that exist.
    made: u64,
}

impl BlockWriter {
    /// A file `name` in `target`, ready to be written to `size` bytes at a time.
    pub fn new(target: &Target, name: &str, size: usize, writing: Writing, flushing: Flushing) -> io::Result<Self> {
        let flusher = Flusher::new(flushing)?;
        let room = FILE_BYTES.max(16 * size as u64) / size as u64 * size as u64;
        let (path, directory) = match target {
            Target::Directory(directory) => (directory.join(name), Some(File::open(directory)?)),
            Target::Device(device) => (device.clone(), None),
        };
        if writing == Writing::Overwrite {
            lay_out(&path, room)?;
        }
        let file = open(&path, flusher.flags())?;
        let block = WriteBlock::new(size);
        let mut writer =
            Self { target: target.clone(), writing, flusher, block, file, directory, path, room, at: 0, made: 0 };
        if writing == Writing::Preallocated {
            writer.preallocate()?;
        }
        Ok(writer)
    }

    /// Writes and flushes one block, and says how long that took.
    pub fn once(&mut self) -> io::Result<Duration> {
        if self.at + self.block.size as u64 > self.room {
            self.begin_again()?;
        }
        let begun = Instant::now();
        if self.writing == Writing::NewFile {
            let path = self.path.with_extension(self.made.to_string());
            let mut options = OpenOptions::new();
            self.file = options.write(true).create_new(true).custom_flags(self.flusher.flags()).open(path)?;
        }
        self.file.write_all_at(self.block.next(), self.at)?;
        self.flusher.flush(&self.file, self.at, self.block.size)?;
        match (&self.directory, self.writing) {
            (Some(directory), Writing::NewFile) if self.flusher.flushing.is_flush() => rustix::fs::fsync(directory)?,
            _ => {}
        }
        let took = begun.elapsed();
        self.step()?;
        Ok(took)
    }

    fn step(&mut self) -> io::Result<()> {
        if self.writing != Writing::NewFile {
            self.at += self.block.size as u64;
            return Ok(());
        }
        self.made += 1;
        if self.made >= FILES.min(self.room / self.block.size as u64) {
            for number in 0..std::mem::take(&mut self.made) {
                fs::remove_file(self.path.with_extension(number.to_string()))?;
            }
        }
        Ok(())
    }

    /// The file is full.
    fn begin_again(&mut self) -> io::Result<()> {
        self.at = 0;
        match self.writing {
            Writing::Append => {
                self.file.set_len(0)?;
                Ok(rustix::fs::fsync(&self.file)?)
            }
            Writing::Preallocated => self.preallocate(),
            Writing::Overwrite | Writing::NewFile => Ok(()),
        }
    }

    fn preallocate(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        fallocate(&self.file, FallocateFlags::empty(), 0, self.room)?;
        Ok(rustix::fs::fsync(&self.file)?)
    }
}

impl Drop for BlockWriter {
    fn drop(&mut self) {
        // The directory goes in the end; until then there should be room for the others.
        if let Target::Directory(_) = self.target {
            let _ = fs::remove_file(&self.path);
            (0..self.made).for_each(|number| drop(fs::remove_file(self.path.with_extension(number.to_string()))));
        }
    }
}

/// Writes `room` bytes to `path` and flushes them, so that all blocks are there.
pub fn lay_out(path: &Path, room: u64) -> io::Result<()> {
    let file = open(path, 0)?;
    let mut block = WriteBlock::new(1 << 20);
    for at in (0..room).step_by(1 << 20) {
        let bytes = (room - at).min(1 << 20) as usize;
        file.write_all_at(&block.next()[..bytes], at)?;
    }
    Ok(rustix::fs::fsync(&file)?)
}

/// Opens `path` to write to. A device is opened for us alone, which the kernel refuses where it is mounted or otherwise in
/// use.
pub fn open(path: &Path, flags: i32) -> io::Result<File> {
    let is_device = fs::metadata(path).is_ok_and(|about| about.file_type().is_block_device());
    let exclusive = if is_device { OFlags::EXCL.bits() as i32 } else { 0 };
    OpenOptions::new().write(true).create(!is_device).custom_flags(flags | exclusive).open(path)
}
