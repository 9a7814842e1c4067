//! Test with two machines, one of which loses power: one writes numbered blocks and flushes each, the other stores the
//! acknowledged numbers, and flushes those. When the first is back, each acknowledged block is looked for.
//!
//! The way of Brad Fitzpatrick's diskchecker.pl (2005). What is acknowledged is sent at once and not waited for, so that
//! the device has as little rest as under a database.
//!
//! Between the machines go lines of text over TCP. The writer begins with
//! `plimsoll-sync 1 RUN BLOCK_BYTES BLOCKS DIRECTORY` and gets `ok`; then it says the number of the last block that was
//! flushed, again and again, and gets `kept NUMBER` when that is on the listener's disk; in the end it says `end`. What the
//! listener does not understand is answered with `no` and a reason, and ends that connection.
//!
//! The listener's file has a line for each of these: `run RUN BLOCK_BYTES BLOCKS DIRECTORY`,
//! `ack RUN NUMBER UNIX_MS` and `end RUN`.

mod listener;
mod verify;
mod writer;

use std::fmt;

use serde::Serialize;

pub use listener::{Listener, listen};
pub use verify::{Lost, RunFindings, verify};
pub use writer::{Sent, report};

use crate::writer::fill;

/// Prefix of the names of directories with such blocks. A directory stays until it is verified, or until the next run.
const PREFIX: &str = "plimsoll-powercut-";
/// The file of blocks in it.
const BLOCKS: &str = "blocks";
/// Most blocks that are flushed and not yet stored by the listener.
const WINDOW: u64 = 10_000;
/// Longest line that is taken.
const LINE_BYTES: usize = 1024;
/// First words of a writer.
const HELLO: &str = "plimsoll-sync 1";
/// Bytes before the filler of a block: magic, run, number, checksum.
const HEAD: usize = 32;
const MAGIC: [u8; 8] = *b"plimsync";
/// Sizes of a block and of the file that are taken.
const SIZES: std::ops::RangeInclusive<u64> = 512..=(64 << 20);
const MOST_BYTES: u64 = 1 << 40;

/// Description of a run, sent by the writer at its beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Run {
    /// Random identifier.
    pub id: u64,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Blocks in the file. Number 1 is the first; the one after the last begins again at its beginning.
    pub blocks: u64,
    /// The name of the directory that the file is in.
    pub directory: String,
}

/// Formats the run for a line.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x} {} {} {}", self.id, self.block_bytes, self.blocks, self.directory)
    }
}

impl Run {
    fn parse(text: &str) -> Option<Run> {
        let mut words = text.split(' ');
        let id = u64::from_str_radix(words.next()?, 16).ok()?;
        let (block_bytes, blocks) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let directory = words.next().filter(|name| name.starts_with(PREFIX) && !name.contains('/'))?.to_owned();
        let is_sound = words.next().is_none()
            && SIZES.contains(&block_bytes)
            && blocks > WINDOW
            && block_bytes.checked_mul(blocks).is_some_and(|bytes| bytes <= MOST_BYTES);
        is_sound.then_some(Run { id, block_bytes, blocks, directory })
    }

    /// Returns the offset of a block in the file, bytes.
    fn offset(&self, number: u64) -> u64 {
        (number - 1) % self.blocks * self.block_bytes
    }

    fn fill(&self, block: &mut [u8], number: u64) {
        let (head, rest) = block.split_at_mut(HEAD);
        fill(rest, self.id ^ number.rotate_left(32));
        head[..8].copy_from_slice(&MAGIC);
        head[8..16].copy_from_slice(&self.id.to_le_bytes());
        head[16..24].copy_from_slice(&number.to_le_bytes());
        head[24..].copy_from_slice(&checksum(self.id, number, rest).to_le_bytes());
    }

    /// Returns the number of `block`; `None` if it is not of this run, or damaged.
    fn number(&self, block: &[u8]) -> Option<u64> {
        let (head, rest) = block.split_at_checked(HEAD)?;
        let word = |at: usize| head.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let (id, number, sum) = (word(8)?, word(16)?, word(24)?);
        (head.starts_with(&MAGIC) && id == self.id && sum == checksum(id, number, rest)).then_some(number)
    }
}

/// FNV-1a over words of 8 bytes.
fn checksum(id: u64, number: u64, bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|piece| {
        let mut word = [0; 8];
        word[..piece.len()].copy_from_slice(piece);
        u64::from_le_bytes(word)
    });
    [id, number]
        .into_iter()
        .chain(words)
        .fold(0xcbf2_9ce4_8422_2325, |sum, word| (sum ^ word).wrapping_mul(0x100_0000_01b3))
}

/// Milliseconds since 1970.
fn unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_told_from_every_other_and_any_changed_bit_shows() {
        let run = Run { id: 7, block_bytes: 512, blocks: 20_000, directory: format!("{PREFIX}1-0") };
        assert_eq!(Run::parse(&run.to_string()), Some(run.clone()));
        let mut block = vec![0; 512];
        assert_eq!(run.number(&block), None);
        run.fill(&mut block, 20_003);
        assert_eq!((run.number(&block), run.offset(20_003)), (Some(20_003), 2 * 512));
        assert_eq!(Run { id: 8, ..run.clone() }.number(&block), None);
        for bit in 0..512 * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(run.number(&block), None, "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_run_that_would_lead_elsewhere_or_is_too_large_is_none() {
        for text in [
            "7 512 20000 ../etc",
            "7 512 20000 plimsoll-powercut-/../x",
            "7 0 20000 plimsoll-powercut-1",
            "7 512 10 plimsoll-powercut-1",
            "7 67108864 18446744073709551615 plimsoll-powercut-1",
            "7 512 20000 plimsoll-powercut-1 more",
            "x 512 20000 plimsoll-powercut-1",
            "",
        ] {
            assert_eq!(Run::parse(text), None, "{text}");
        }
    }
}
