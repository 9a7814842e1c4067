//! Ring of words between one worker and the ledger, without locks: the worker writes notes, the ledger reads them.
//!
//! A note is some words that begin with a [`Header`]. It is published as a whole, so the ledger never sees half of one.
//!
//! The words are in segments. The worker takes a segment that was read before one that was never used, so a ring touches
//! only as much memory as the ledger has been behind, and that stays in the cache.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_core::{Outcome, OwnedValue, Value};

/// Words of a segment at most: 64 KiB.
const SEGMENT_WORDS: usize = 1 << 13;
/// Segments of a ring at least.
const SEGMENTS_MIN: usize = 8;

/// A number that two threads look at often, with its cache line for itself.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Apart(AtomicU64);

/// State shared by a worker and the ledger.
#[derive(Debug)]
pub(crate) struct Ring {
    words: Box<[AtomicU64]>,
    /// Segment of each run of words, by the run's number modulo their count. There is one segment more than `room` takes, as
    /// the first and the last one in use may be in use partly.
    segments: Box<[AtomicU32]>,
    /// Words of a segment, a power of two.
    segment_words: usize,
    /// Words that may wait.
    room: usize,
    /// Words published so far.
    head: Apart,
    /// Words taken so far.
    tail: Apart,
    /// Send time of the question with each ticket, plus one; 0 when none is open.
    open: Box<[AtomicU64]>,
    /// Answers that were not written down because the ledger was behind, by kind.
    skipped: Box<[AtomicU64]>,
    /// Last notes of a worker that has ended, if the ring had no room for them.
    rest: Mutex<Vec<u64>>,
    closed: AtomicBool,
}

impl Ring {
    pub fn new(words: usize, tickets: usize, kinds: usize) -> Arc<Self> {
        let room = words.next_power_of_two();
        let segment_words = (room / SEGMENTS_MIN).clamp(1, SEGMENT_WORDS);
        let segments = room / segment_words + 1;
        Arc::new(Self {
            words: zeros(segments * segment_words),
            segments: (0..segments).map(|_| AtomicU32::new(0)).collect(),
            segment_words,
            room,
            head: Apart::default(),
            tail: Apart::default(),
            open: zeros(tickets),
            skipped: zeros(kinds),
            rest: Mutex::default(),
            closed: AtomicBool::new(false),
        })
    }

    /// Returns the send time of the oldest open question.
    pub fn oldest_open_ns(&self) -> Option<u64> {
        self.open.iter().filter_map(|sent| sent.load(Ordering::Acquire).checked_sub(1)).min()
    }

    /// Answers of each kind that were not written down since the last call.
    pub fn take_skipped(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        (0u16..).zip(&self.skipped).map(|(kind, count)| (kind, count.swap(0, Ordering::Relaxed)))
    }

    /// Appends everything published and not taken yet. True when the worker has gone, and nothing follows.
    pub fn take(&self, words: &mut Vec<u64>) -> bool {
        // First, for what a worker publishes before it goes comes before its last words.
        let is_closed = self.closed.load(Ordering::Acquire);
        let (head, mut at) = (self.head.0.load(Ordering::Acquire), self.tail.0.load(Ordering::Relaxed));
        while at < head {
            let (first, offset) = (self.segment(at), at as usize % self.segment_words);
            let count = (self.segment_words - offset).min((head - at) as usize);
            let run = &self.words[first + offset..][..count];
            words.extend(run.iter().map(|word| word.load(Ordering::Relaxed)));
            at += count as u64;
        }
        self.tail.0.store(head, Ordering::Release);
        if is_closed {
            words.append(&mut self.rest.lock().unwrap_or_else(PoisonError::into_inner));
        }
        is_closed
    }

    /// Place that holds the segment of the run with the word at `at`.
    fn entry(&self, at: u64) -> &AtomicU32 {
        &self.segments[(at / self.segment_words as u64) as usize % self.segments.len()]
    }

    /// Position of the first word of the run with the word at `at`.
    fn segment(&self, at: u64) -> usize {
        self.entry(at).load(Ordering::Relaxed) as usize * self.segment_words
    }
}

/// Zeros. The kernel provides their pages when they are first written to.
fn zeros(count: usize) -> Box<[AtomicU64]> {
    const { assert!(align_of::<AtomicU64>() == align_of::<u64>()) };
    let words = vec![0u64; count].into_boxed_slice();
    // SAFETY: both have the same size, alignment and valid values, and the box has no other owner.
    unsafe { Box::from_raw(Box::into_raw(words) as *mut [AtomicU64]) }
}

/// The worker's end of a ring.
#[derive(Debug)]
pub(crate) struct Pen {
    ring: Arc<Ring>,
    at: u64,
    /// Words taken, when they were looked at last.
    tail: u64,
    /// Position of the first word of the segment that is written to.
    first: usize,
    /// Segments that were used at least once.
    used: u32,
    /// First word of the first run whose segment was not taken back.
    taken_back: u64,
}

impl Pen {
    pub fn new(ring: Arc<Ring>) -> Self {
        Self { ring, at: 0, tail: 0, first: 0, used: 0, taken_back: 0 }
    }

    /// Returns true if a note of so many words fits and leaves a part of the ring: one in `leaves`; none with 0.
    #[inline]
    pub fn has_room(&mut self, words: usize, leaves: usize) -> bool {
        let room = self.ring.room;
        let most = (room - room.checked_div(leaves).unwrap_or(0)) as u64;
        if self.at + words as u64 - self.tail > most {
            self.tail = self.ring.tail.0.load(Ordering::Acquire);
        }
        self.at + words as u64 - self.tail <= most
    }

    /// Writes a word of a note that has room.
    #[inline]
    pub fn put(&mut self, word: u64) {
        self.put_all([word]);
    }

    /// Writes words of a note that has room.
    #[inline]
    pub fn put_all<const N: usize>(&mut self, words: [u64; N]) {
        let offset = self.at as usize & (self.ring.segment_words - 1);
        if offset == 0 || offset + N > self.ring.segment_words {
            return words.iter().for_each(|word| self.put_across(*word));
        }
        let place = &self.ring.words[self.first + offset..][..N];
        place.iter().zip(words).for_each(|(place, word)| place.store(word, Ordering::Relaxed));
        self.at += N as u64;
    }

    /// Writes a word that may be the first of its segment.
    #[cold]
    fn put_across(&mut self, word: u64) {
        let offset = self.at as usize & (self.ring.segment_words - 1);
        if offset == 0 {
            self.next_segment();
        }
        self.ring.words[self.first + offset].store(word, Ordering::Relaxed);
        self.at += 1;
    }

    /// Takes a segment for the run that begins: the one that was read first, or else one that was never used.
    fn next_segment(&mut self) {
        let words = self.ring.segment_words as u64;
        self.tail = self.ring.tail.0.load(Ordering::Acquire);
        let segment = if self.taken_back + words <= self.tail {
            let segment = self.ring.entry(self.taken_back).load(Ordering::Relaxed);
            self.taken_back += words;
            segment
        } else {
            self.used += 1;
            self.used - 1
        };
        self.ring.entry(self.at).store(segment, Ordering::Relaxed);
        self.first = segment as usize * words as usize;
    }

    /// Writes a value.
    pub fn put_value(&mut self, value: Value<'_>) {
        let (sort, bytes): (u64, &[u8]) = match value {
            Value::Null => return self.put(NULL),
            Value::Bool(value) => return self.put_plain(BOOL, u64::from(value)),
            Value::Int(value) => return self.put_plain(INT, value as u64),
            Value::Float(value) => return self.put_plain(FLOAT, value.to_bits()),
            Value::Timestamp(value) => return self.put_plain(TIMESTAMP, value as u64),
            Value::Text(text) => (TEXT, text.as_bytes()),
            Value::Bytes(bytes) => (BYTES, bytes),
        };
        self.put(sort | (bytes.len() as u64) << 8);
        for part in bytes.chunks(8) {
            self.put(part.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        }
    }

    fn put_plain(&mut self, sort: u64, word: u64) {
        self.put(sort);
        self.put(word);
    }

    /// Shows the ledger what has been written.
    #[inline]
    pub fn publish(&mut self) {
        self.ring.head.0.store(self.at, Ordering::Release);
    }

    /// The question with this ticket is open.
    #[inline]
    pub fn opened(&self, ticket: u32, sent_ns: u64) {
        self.ring.open[ticket as usize].store(sent_ns + 1, Ordering::Release);
    }

    /// The question with this ticket is not open any more, and its answer published if it is to be.
    #[inline]
    pub fn closed(&self, ticket: u32) {
        self.ring.open[ticket as usize].store(0, Ordering::Release);
    }

    /// Counts an answer that is not written down.
    #[cold]
    pub fn skip(&self, kind: u16) {
        self.ring.skipped[usize::from(kind)].fetch_add(1, Ordering::Relaxed);
    }

    /// Writes the last notes, which may need more room than the ring has, and closes it.
    pub fn close(&mut self, rest: &[u64]) {
        self.ring.rest.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(rest);
        self.ring.closed.store(true, Ordering::Release);
    }
}

/// Sorts of values, in the lowest byte of their first word; above it the length of texts and bytes.
const NULL: u64 = 0;
const BOOL: u64 = 1;
const INT: u64 = 2;
const FLOAT: u64 = 3;
const TIMESTAMP: u64 = 4;
const TEXT: u64 = 5;
const BYTES: u64 = 6;

/// Words that a value takes.
pub(crate) fn value_words(value: Value<'_>) -> usize {
    match value {
        Value::Null => 1,
        Value::Text(text) => 1 + text.len().div_ceil(8),
        Value::Bytes(bytes) => 1 + bytes.len().div_ceil(8),
        _ => 2,
    }
}

/// The value that these words begin with, and those that follow it.
pub(crate) fn take_value(words: &[u64]) -> (OwnedValue, &[u64]) {
    let Some((first, rest)) = words.split_first() else { return (OwnedValue::Null, &[]) };
    let len = (first >> 8) as usize;
    let bytes = || -> Vec<u8> { rest.iter().flat_map(|word| word.to_le_bytes()).take(len).collect() };
    let plain = rest.first().copied().unwrap_or(0);
    let field = match first & 0xff {
        BOOL => OwnedValue::Bool(plain != 0),
        INT => OwnedValue::Int(plain as i64),
        FLOAT => OwnedValue::Float(f64::from_bits(plain)),
        TIMESTAMP => OwnedValue::Timestamp(plain as i64),
        TEXT => OwnedValue::Text(String::from_utf8(bytes()).unwrap_or_default().into()),
        BYTES => OwnedValue::Bytes(bytes().into()),
        _ => OwnedValue::Null,
    };
    let taken = value_words(field.value()) - 1;
    (field, rest.get(taken..).unwrap_or_default())
}

/// Type of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Note {
    /// A record is about to be written. Words: time, record and client, stamp.
    Sent,
    /// Outcome of everything that was sent with this ticket. Words: time.
    Ended,
    /// An answer of one value, or none. Words: sent, finished, record and client, cycle, rows, stamp.
    Value,
    /// The usual answer to a question for one value: one where the outcome is [`Outcome::Ok`], else none. The time that it
    /// took is in place of the ticket. Words: sent, record and client, cycle, stamp.
    Brief,
    /// An answer of several records. Words: sent, finished, record and client, cycle, rows and how many were asked for;
    /// then for each record its number and digest, and its stamp; in place of a digest, of a record that is none, whether
    /// its key is in place of the stamp.
    Rows,
    /// The bounds of a question that is about to be sent. Words: two values.
    Bounds,
}

/// A note's first word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub note: Note,
    pub outcome: Outcome,
    /// Number of the server that answered, of answers that are judged; at most [`SERVER_MAX`].
    pub server: u8,
    pub kind: u16,
    pub ticket: u32,
}

/// Number of servers that are told apart.
pub const SERVERS_MAX: u8 = 64;
/// Greatest number of a server that is noted, for all servers from it on.
pub(crate) const SERVER_MAX: u8 = SERVERS_MAX - 1;

impl Header {
    pub fn word(self) -> u64 {
        let answered = self.outcome as u64 | u64::from(self.server) << 2;
        self.note as u64 | answered << 8 | u64::from(self.kind) << 16 | u64::from(self.ticket) << 32
    }

    pub fn of(word: u64) -> Self {
        const NOTES: [Note; 6] = [Note::Sent, Note::Ended, Note::Value, Note::Brief, Note::Rows, Note::Bounds];
        let note = NOTES[(word & 0xff) as usize];
        let outcome = Outcome::ALL[(word >> 8 & 3) as usize];
        let server = (word >> 10) as u8 & SERVER_MAX;
        Self { note, outcome, server, kind: (word >> 16) as u16, ticket: (word >> 32) as u32 }
    }
}

/// Packs two numbers into one word.
#[inline]
pub(crate) fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// The two numbers of a word.
#[inline]
pub(crate) fn unpair(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_what_it_was() {
        for note in [Note::Sent, Note::Ended, Note::Value, Note::Brief, Note::Rows, Note::Bounds] {
            for outcome in [Outcome::Ok, Outcome::NotFound, Outcome::Rejected, Outcome::Unknown] {
                let header = Header { note, outcome, server: SERVER_MAX - 1, kind: 0xfedc, ticket: 0x9876_5432 };
                assert_eq!(Header::of(header.word()), header);
            }
        }
        assert_eq!(unpair(pair(7, u32::MAX)), (7, u32::MAX));
    }

    #[test]
    fn a_value_is_what_it_was() {
        let values = [
            Value::Null,
            Value::Bool(true),
            Value::Int(-7),
            Value::Float(-0.5),
            Value::Timestamp(9),
            Value::Text(""),
            Value::Text("nine char"),
            Value::Bytes(b"\x00\xff\x01"),
            Value::Bytes(b"12345678"),
        ];
        let ring = Ring::new(64, 1, 1);
        let (mut pen, mut words) = (Pen::new(Arc::clone(&ring)), Vec::new());
        values.iter().for_each(|value| pen.put_value(*value));
        pen.publish();
        ring.take(&mut words);
        assert_eq!(words.len(), values.iter().map(|value| value_words(*value)).sum::<usize>());
        let mut words = words.as_slice();
        for value in values {
            let (field, rest) = take_value(words);
            assert_eq!(field.value(), value);
            words = rest;
        }
        assert!(words.is_empty());
    }

    #[test]
    fn what_one_thread_writes_another_reads_in_order() {
        const WORDS: u64 = 60_000;
        let ring = Ring::new(64, 1, 1);
        assert_eq!((ring.segment_words, ring.segments.len()), (8, 9));
        let mut pen = Pen::new(Arc::clone(&ring));
        let mut read = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // Notes of five words and of one, which fall across the ends of segments in every way.
                for word in (0..WORDS).step_by(6) {
                    while !pen.has_room(6, 0) {
                        std::thread::yield_now();
                    }
                    pen.put_all(std::array::from_fn::<_, 5, _>(|more| word + more as u64));
                    pen.put(word + 5);
                    pen.publish();
                }
                pen.close(&[WORDS, WORDS + 1]);
            });
            while (read.len() as u64) < WORDS + 2 {
                let before = read.len();
                ring.take(&mut read);
                if read.len() == before {
                    std::thread::yield_now();
                }
            }
        });
        assert!(read.into_iter().eq(0..WORDS + 2));
    }

    #[test]
    fn there_is_no_room_beyond_what_is_to_be_left() {
        let ring = Ring::new(64, 1, 1);
        let mut pen = Pen::new(Arc::clone(&ring));
        assert!(pen.has_room(48, 4) && !pen.has_room(49, 4) && pen.has_room(64, 0) && !pen.has_room(65, 0));
        (0..64).for_each(|word| pen.put(word));
        pen.publish();
        assert!(!pen.has_room(1, 0));
        ring.take(&mut Vec::new());
        assert!(pen.has_room(64, 0));
    }

    #[test]
    fn memory_is_used_as_far_as_the_reader_is_behind() {
        let ring = Ring::new(1 << 16, 1, 1);
        let (mut pen, mut words) = (Pen::new(Arc::clone(&ring)), Vec::new());
        let mut go_on = |pen: &mut Pen, count: u64| {
            (0..count).for_each(|word| pen.put(word));
            pen.publish();
            words.clear();
            ring.take(&mut words);
            assert!(words.drain(..).eq(0..count));
            pen.used
        };
        (0..100).for_each(|_| assert!(go_on(&mut pen, 1 << 13) <= 3));
        assert!((8..=9).contains(&go_on(&mut pen, 1 << 16)), "{} segments", pen.used);
        (0..100).for_each(|_| assert!(go_on(&mut pen, 1 << 16) <= 9));
    }
}
