//! Check after a power cut that every acknowledged block is present.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use plimsoll_core::StoreError;
use serde::Serialize;

use super::{BLOCKS, Run, WINDOW};
use crate::error::at;

/// Most of the lost blocks that are listed.
const LISTED: usize = 20;
/// The file of acknowledgements may be so large.
const FILE_BYTES: u64 = 2 << 30;
/// Advice for another file.
const NAME_FILE: &str = "name the file that `plimsoll sync --listen` wrote";

/// Findings of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RunFindings {
    /// The run.
    pub run: Run,
    /// The last block that was acknowledged: so were all before it.
    pub acknowledged: u64,
    /// True if the run ended cleanly: its file was removed, and there is nothing to verify.
    pub ended: bool,
    /// Blocks that were looked for: the last one that was acknowledged in each place of the file.
    pub looked_for: u64,
    /// Blocks that are not there: an older one is, or nothing, or the whole file is missing.
    pub missing: u64,
    /// Blocks that are there and are not what was written.
    pub damaged: u64,
    /// Places where something that was not acknowledged had begun to be written over a block, and neither is whole. No
    /// promise is broken by that; expect at most one such place.
    pub torn: u64,
    /// The first lost ones.
    pub lost: Vec<Lost>,
    /// Least time between the acknowledgement of the oldest lost block and the last acknowledgement, milliseconds.
    pub oldest_lost_ms: Option<u64>,
}

/// A lost block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Number of the block.
    pub number: u64,
    /// True if the block is damaged, false if it is missing.
    pub damaged: bool,
}

impl RunFindings {
    /// Returns true if every acknowledged block is present.
    pub fn is_whole(&self) -> bool {
        self.missing == 0 && self.damaged == 0
    }
}

/// Entries of a run in the listener's file.
struct Kept {
    run: Run,
    /// Numbers, and when they were kept.
    acks: Vec<(u64, u64)>,
    ended: bool,
}

/// Looks in `parent` for the blocks that `file`, the listener's, records as acknowledged, of all runs that did not end
/// cleanly. Directories found complete are removed.
pub fn verify(parent: &Path, file: &Path) -> Result<Vec<RunFindings>, StoreError> {
    let about = at(parent.display(), fs::metadata(parent))?;
    if !about.is_dir() {
        return Err(StoreError::usage(format!("{} is not a directory", parent.display()))
            .next("name the directory that `plimsoll sync --report-to` wrote in"));
    }
    let about = at(file.display(), fs::metadata(file))?;
    let what = match (about.is_file(), about.len() > FILE_BYTES) {
        // A device or pipe may have no end.
        (false, _) => Some("is not a file"),
        (true, true) => Some("is larger than any file of acknowledgements"),
        (true, false) => None,
    };
    if let Some(what) = what {
        return Err(StoreError::usage(format!("{} {what}", file.display())).next(NAME_FILE));
    }
    let text = at(file.display(), fs::read(file))?;
    let kept = parsed(&text).map_err(|line| {
        StoreError::usage(format!("{}: line {line} is not an acknowledgement", file.display())).next(NAME_FILE)
    })?;
    if kept.is_empty() {
        return Err(StoreError::usage(format!("{}: there is no run in it", file.display())).next(NAME_FILE));
    }
    kept.into_iter().map(|kept| look(parent, kept)).collect()
}

/// The runs of a listener's file, or the number of a line that makes no sense. A last line that is not whole was not kept.
fn parsed(text: &[u8]) -> Result<Vec<Kept>, usize> {
    let mut all: Vec<Kept> = Vec::new();
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    for (at, line) in text[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
        let line = std::str::from_utf8(line).unwrap_or_default().trim_end();
        add(&mut all, line).ok_or(at + 1)?;
    }
    Ok(all)
}

fn add(all: &mut Vec<Kept>, line: &str) -> Option<()> {
    let (word, rest) = line.split_once(' ')?;
    if word == "run" {
        all.push(Kept { run: Run::parse(rest)?, acks: Vec::new(), ended: false });
        return Some(());
    }
    let mut words = rest.split(' ');
    let id = u64::from_str_radix(words.next()?, 16).ok()?;
    let kept = all.iter_mut().rev().find(|kept| kept.run.id == id)?;
    match word {
        "ack" => kept.acks.push((words.next()?.parse().ok()?, words.next()?.parse().ok()?)),
        "end" => kept.ended = true,
        _ => return None,
    }
    words.next().is_none().then_some(())
}

fn look(parent: &Path, kept: Kept) -> Result<RunFindings, StoreError> {
    let Kept { run, acks, ended } = kept;
    let acknowledged = acks.last().map_or(0, |(number, _)| *number);
    let directory = parent.join(&run.directory);
    let mut found = RunFindings { run, acknowledged, ended, ..RunFindings::default() };
    if ended || acknowledged == 0 {
        return Ok(found);
    }
    let path = directory.join(BLOCKS);
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        opened => Some(at(path.display(), opened)?),
    };
    at(path.display(), compare(&mut found, file.as_ref()))?;
    if let (Some(oldest), Some((_, last_ms))) = (found.lost.first(), acks.last()) {
        let known = acks.iter().find(|(number, _)| *number >= oldest.number);
        found.oldest_lost_ms = known.map(|(_, ms)| last_ms.saturating_sub(*ms));
    }
    if found.is_whole() {
        at(directory.display(), fs::remove_dir_all(&directory))?;
    }
    Ok(found)
}

/// Holds the last acknowledged block of each place, oldest first, against the file.
fn compare(found: &mut RunFindings, file: Option<&File>) -> io::Result<()> {
    let (run, last) = (found.run.clone(), found.acknowledged);
    let mut block = vec![0; run.block_bytes as usize];
    for number in last.saturating_sub(run.blocks - 1).max(1)..=last {
        found.looked_for += 1;
        let there = match file {
            Some(file) => read(file, &mut block, run.offset(number))?,
            None => false,
        };
        let damaged = match run.number(&block).filter(|_| there) {
            // Later blocks of the same place may have been written, flushed even, and their acknowledgement lost on its way.
            Some(seen) if seen >= number && (seen - number) % run.blocks == 0 => continue,
            // An older block of this place.
            Some(seen) if seen < number && (number - seen) % run.blocks == 0 => false,
            _ if !there || block.iter().all(|byte| *byte == 0) => false,
            _ if number + run.blocks <= last + WINDOW => {
                found.torn += 1;
                continue;
            }
            _ => true,
        };
        if damaged {
            found.damaged += 1
        } else {
            found.missing += 1
        }
        if found.lost.len() < LISTED {
            found.lost.push(Lost { number, damaged });
        }
    }
    Ok(())
}

/// Reads a block; false where the file ends before, or the device cannot read it.
fn read(file: &File, block: &mut [u8], offset: u64) -> io::Result<bool> {
    match file.read_exact_at(block, offset) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
            block.fill(0xff);
            Ok(true)
        }
        Err(error) => Err(error),
    }
}
