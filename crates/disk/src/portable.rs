//! Steps that a database once needed to get 1 MB to disk portably, measured one by one: O_DIRECT, writes under 32 kB,
//! fsync, then 32 MB to 2 GB of sequential filler that pushes data out of the drive's cache, and a new file instead of
//! a growing one.
//!
//! Each step keeps those before it. What it takes says nothing of whether it is needed: that, only a power cut shows.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_core::StoreError;
use rustix::fs::OFlags;
use serde::Serialize;

use crate::error::failed;
use crate::latency::Site;
use crate::times::{Clocked, FlushTimes};
use crate::writer::{Target, WriteBlock, open};

/// Bytes to get to disk.
const BYTES: usize = 1 << 20;
/// The largest multiple of 4 KiB under 32 kB (32,000).
const SMALL: usize = 28 << 10;
/// The file that grows is begun again at this length.
const GROWS_TO: u64 = 64 << 20;
/// Filler goes to a file of its own in such writes.
const FILLER_WRITE: usize = 1 << 20;
/// A step is done no more often than this, so that filler stays within bounds.
const MOST: u64 = 40;

/// Number of steps.
pub const STEPS: usize = 6;

/// A step of the list.
#[derive(Debug, Clone, Serialize)]
pub struct Step {
    /// Measure added by this step.
    pub adds: &'static str,
    /// Times to write 1 MiB; `None` if the step is not available here.
    pub times: Option<FlushTimes>,
    /// Reason that the step is not available.
    pub not_here: Option<String>,
    /// Bytes written in total, filler included.
    pub written_bytes: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Ways {
    direct: bool,
    small: bool,
    fsync: bool,
    filler_bytes: u64,
    new_file: bool,
}

/// Measures each step repeatedly for the given time, or until `stop`, with `filler_bytes` of filler after each fsync.
pub fn measure(
    site: &Site,
    filler_bytes: u64,
    takes: Duration,
    stop: &AtomicBool,
    mut told: impl FnMut(&'static str),
) -> Result<Vec<Step>, StoreError> {
    let Target::Directory(directory) = &site.target else { return Ok(Vec::new()) };
    let direct = !site.in_memory;
    let steps: [_; STEPS] = [
        ("one write of 1 MiB to a file that grows", Ways::default()),
        ("O_DIRECT", Ways { direct, ..Ways::default() }),
        ("writes under 32 kB", Ways { direct, small: true, ..Ways::default() }),
        ("fsync", Ways { direct, small: true, fsync: true, ..Ways::default() }),
        ("filler", Ways { direct, small: true, fsync: true, filler_bytes, new_file: false }),
        ("a new file each time", Ways { direct, small: true, fsync: true, filler_bytes, new_file: true }),
    ];
    let mut all = Vec::new();
    for (adds, ways) in steps {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        told(adds);
        let (clocked, written_bytes) = match attempt(directory, ways, takes, stop) {
            // Without O_DIRECT the rest is tried all the same, the next time.
            Err(error) if ways.direct && error.kind() == io::ErrorKind::InvalidInput => {
                let why = error.to_string();
                all.push(Step { adds, times: None, not_here: Some(why), written_bytes: 0 });
                continue;
            }
            done => done.map_err(|error| failed(directory.display(), &error))?,
        };
        let not_here = (adds == "O_DIRECT" && !direct).then(|| "there is no device behind it".to_owned());
        all.push(Step {
            adds,
            times: if not_here.is_some() { None } else { clocked.times() },
            not_here,
            written_bytes,
        });
    }
    Ok(all)
}

fn attempt(directory: &Path, ways: Ways, takes: Duration, stop: &AtomicBool) -> io::Result<(Clocked, u64)> {
    let flags = if ways.direct { OFlags::DIRECT.bits() as i32 } else { 0 };
    let size = if ways.small { SMALL } else { BYTES };
    let (path, filler_path) = (directory.join("portable"), directory.join("filler"));
    let mut file = open(&path, flags)?;
    let filler = open(&filler_path, flags)?;
    let names = File::open(directory)?;
    let (mut block, mut filler_block) = (WriteBlock::new(size), WriteBlock::new(FILLER_WRITE));
    let mut clocked = Clocked::new().map_err(io::Error::other)?;
    let (mut at, mut written) = (0, 0);
    let deadline = Instant::now() + takes;
    while clocked.n() < MOST && Instant::now() < deadline && !stop.load(Ordering::Relaxed) {
        if at + BYTES as u64 > GROWS_TO {
            file.set_len(0)?;
            rustix::fs::fsync(&file)?;
            at = 0;
        }
        let begun = Instant::now();
        if ways.new_file {
            at = 0;
            std::fs::remove_file(&path)?;
            file = open(&path, flags)?;
        }
        let mut left = BYTES;
        while left > 0 {
            let bytes = left.min(size);
            file.write_all_at(&block.next()[..bytes], at)?;
            at += bytes as u64;
            left -= bytes;
        }
        if ways.fsync {
            rustix::fs::fsync(&file)?;
        }
        if ways.new_file {
            rustix::fs::fsync(&names)?;
        }
        for offset in (0..ways.filler_bytes).step_by(FILLER_WRITE) {
            let bytes = (ways.filler_bytes - offset).min(FILLER_WRITE as u64) as usize;
            filler.write_all_at(&filler_block.next()[..bytes], offset)?;
        }
        clocked.note(begun.elapsed());
        written += BYTES as u64 + ways.filler_bytes;
    }
    std::fs::remove_file(&path)?;
    std::fs::remove_file(&filler_path)?;
    Ok((clocked, written))
}
