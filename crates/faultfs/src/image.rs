//! Contents of sectors in an image: from the log, or zeros; and copies of images that take no more room than what is in them.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use plimsoll_core::FileSystem;
use rustix::fs::{FallocateFlags, SeekFrom as Find};
use rustix::io::Errno;

use crate::counters::SECTOR_BYTES;
use crate::device::private;
use crate::error::FaultError;
use crate::extents::Extent;

/// Bytes that are copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// Writes the contents of an extent to the image.
pub(crate) fn apply(log: &File, image: &File, extent: Extent) -> io::Result<()> {
    let (mut to, end) = (extent.start * SECTOR_BYTES, extent.end * SECTOR_BYTES);
    let Some(mut from) = extent.data else {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        return Ok(rustix::fs::fallocate(image, flags, to, end - to)?);
    };
    let mut buffer = vec![0; COPY_BYTES.min(end - to) as usize];
    while to < end {
        let length = COPY_BYTES.min(end - to);
        let part = &mut buffer[..length as usize];
        log.read_exact_at(part, from)?;
        image.write_all_at(part, to)?;
        (from, to) = (from + length, to + length);
    }
    Ok(())
}

/// Copies a file with its holes.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    copy_into(&File::open(from)?, &private().create(true).truncate(true).open(to)?)
}

/// Copies into a file that is empty.
pub(crate) fn copy_into(mut source: &File, mut target: &File) -> io::Result<()> {
    let length = source.metadata()?.len();
    target.set_len(length)?;
    let mut at = 0;
    while at < length {
        let data = match rustix::fs::seek(source, Find::Data(at)) {
            Ok(data) => data,
            // Nothing but a hole is left.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(source, Find::Hole(data))?;
        source.seek(SeekFrom::Start(data))?;
        target.seek(SeekFrom::Start(data))?;
        io::copy(&mut io::Read::take(source, end - data), &mut target)?;
        at = end;
    }
    Ok(())
}

/// Returns the size of the file system in an image, by its superblock (see [`file_system`]).
pub(crate) fn file_system_bytes(image: &Path, file_system: FileSystem) -> Result<u64, FaultError> {
    let file = File::open(image).map_err(FaultError::at(image))?;
    let read = |at: u64, length: usize| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes[..length], at).map(|()| bytes)
    };
    let little = |at, length| read(at, length).map(u64::from_le_bytes);
    let bytes = || -> io::Result<u64> {
        Ok(match file_system {
            FileSystem::Ext4 => {
                let has_high = little(0x460, 4)? & 0x80 != 0;
                let high = if has_high { little(0x550, 4)? } else { 0 };
                (high << 32 | little(0x404, 4)?).saturating_mul(1024 << little(0x418, 4)?.min(6))
            }
            FileSystem::Xfs => u64::from_be_bytes(read(8, 8)?).saturating_mul(u64::from_be_bytes(read(4, 4)?) >> 32),
            FileSystem::Btrfs | FileSystem::BtrfsNoDataCow => little(0x1_0070, 8)?,
            FileSystem::Files => 0,
        })
    };
    bytes().map_err(FaultError::at(image))
}

/// Returns the file system in an image, by the magic number of its superblock (fs/ext4/ext4.h,
/// fs/xfs/libxfs/xfs_format.h, fs/btrfs/ctree.h).
pub(crate) fn file_system(image: &Path) -> Result<FileSystem, FaultError> {
    let file = File::open(image).map_err(FaultError::at(image))?;
    let magic: [(FileSystem, u64, &[u8]); 3] = [
        (FileSystem::Ext4, 0x438, b"\x53\xef"),
        (FileSystem::Xfs, 0, b"XFSB"),
        (FileSystem::Btrfs, 0x1_0040, b"_BHRfS_M"),
    ];
    let is_there = |(_, at, magic): &(FileSystem, u64, &[u8])| {
        let mut found = vec![0; magic.len()];
        file.read_exact_at(&mut found, *at).is_ok() && found == *magic
    };
    let found = magic.into_iter().find(is_there).map(|(file_system, ..)| file_system);
    found.ok_or_else(|| FaultError::Usage(format!("{}: this is not ext4, XFS or Btrfs", image.display())))
}
