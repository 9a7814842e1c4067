//! Contents of sectors in an image: from the log, or zeros; and copies of images that take no more room than what is in them.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, SeekFrom as Find};
use rustix::io::Errno;

use crate::counters::SECTOR_BYTES;
use crate::device::private;
use crate::extents::Extent;

/// How much is copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// Puts the contents of an extent into the image.
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
    let (mut source, mut target) = (File::open(from)?, private().create(true).truncate(true).open(to)?);
    let length = source.metadata()?.len();
    target.set_len(length)?;
    let mut at = 0;
    while at < length {
        let data = match rustix::fs::seek(&source, Find::Data(at)) {
            Ok(data) => data,
            // Nothing but a hole is left.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(&source, Find::Hole(data))?;
        source.seek(SeekFrom::Start(data))?;
        target.seek(SeekFrom::Start(data))?;
        io::copy(&mut io::Read::take(&mut source, end - data), &mut target)?;
        at = end;
    }
    Ok(())
}
