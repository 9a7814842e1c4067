//! A mounted file system without room: a file takes all of it, until the file is removed.

use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::device::{FaultDevice, private};
use crate::error::FaultError;

/// Name of the file that takes the room, in the root of the file system.
const FILLER: &str = ".plimsoll-full";

impl FaultDevice {
    /// Takes all room of the mounted file system, also the blocks that ext4 keeps for root. Programs get ENOSPC for
    /// writes that need a new block, while the device works. Without a file system, use the fault `full`.
    ///
    /// # Errors
    /// Fails if the file system refuses this for another reason than a lack of room. Then it has its room again.
    pub fn fill(&self) -> Result<(), FaultError> {
        let path = self.mount_point().join(FILLER);
        let Err(error) = take_room(&path);
        // The file system has refused a block, so it is full.
        if error.kind() == io::ErrorKind::StorageFull {
            return Ok(());
        }
        let _ = self.make_room();
        Err(FaultError::at(&path)(error))
    }

    /// Gives back the room that [`Self::fill`] took, if it took any.
    ///
    /// # Errors
    /// Fails if the file cannot be removed.
    pub fn make_room(&self) -> Result<(), FaultError> {
        let path = self.mount_point().join(FILLER);
        // XFS frees the blocks of a shortened file immediately, those of a removed file later.
        let _ = File::options().write(true).truncate(true).open(&path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            // Another fault has damaged the file system: it takes no more changes, whatever its room.
            Err(error) if [Some(Errno::IO), Some(Errno::ROFS)].contains(&Errno::from_io_error(&error)) => Ok(()),
            done => done.map_err(FaultError::at(&path)),
        }
    }
}

/// Takes room by the file at `path` until the file system refuses a block, and returns its error.
fn take_room(path: &Path) -> io::Result<Infallible> {
    let mut file = private().append(true).create(true).open(path)?;
    let room = rustix::fs::fstatvfs(&file)?;
    let (mut end, mut blocks) = (file.metadata()?.len(), room.f_bfree);
    while blocks > 0 {
        let bytes = blocks * room.f_frsize;
        match rustix::io::retry_on_intr(|| rustix::fs::fallocate(&file, FallocateFlags::empty(), end, bytes)) {
            Ok(()) => end += bytes,
            Err(Errno::NOSPC) => blocks /= 2,
            Err(Errno::OPNOTSUPP) => break,
            Err(error) => return Err(error.into()),
        }
    }
    // XFS reserves more for an allocation than for a write, so there may be a few blocks left.
    let block = vec![0; room.f_frsize as usize];
    loop {
        file.write_all(&block)?;
    }
}
