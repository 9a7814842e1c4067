//! What one worker has noted, in the order in which it is to be judged.

use std::collections::VecDeque;
use std::sync::Arc;

use plimsoll_core::Outcome;

use super::records::Records;
use super::ring::{Header, Note, Ring, unpair};
use crate::log::{ABSENT, ALIEN, Event, NEVER, NO_STAMP, Row};

/// Keys that are no record's, kept of one worker.
const ALIENS_KEPT: usize = 16;

/// A write that is sent, or what came of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write {
    pub at_ns: u64,
    /// Of one that is sent.
    pub stamp: i64,
    pub id: u32,
    pub ticket: u32,
    /// `None` of one that is sent.
    pub outcome: Option<Outcome>,
}

/// One observer, seen from the ledger.
pub(super) struct Line {
    pub ring: Arc<Ring>,
    pub phase: u16,
    pub reads_back: bool,
    pub writes: VecDeque<Write>,
    pub answers: VecDeque<Event>,
    /// Records of the answers that have several, in the same order.
    pub rows: VecDeque<Row>,
    pub aliens: Vec<String>,
    /// For each ticket the write that is open: its record and its state's number.
    pub open: Vec<Option<(u32, u32)>>,
    /// The time of the last note.
    pub last_ns: u64,
    /// What is taken from now on was asked no earlier.
    pub floor_ns: u64,
    /// The worker has gone, and everything has been taken.
    pub is_closed: bool,
    /// When the questions that wait here were sent: those below which no later one is, by their place.
    earliest: VecDeque<(u64, u64)>,
    /// Answers that have come, and that have gone from here.
    come: u64,
    gone: u64,
}

impl Line {
    pub fn new(ring: Arc<Ring>, phase: u16, tickets: usize, reads_back: bool) -> Self {
        Self {
            ring,
            phase,
            reads_back,
            writes: VecDeque::new(),
            answers: VecDeque::new(),
            rows: VecDeque::new(),
            aliens: Vec::new(),
            open: vec![None; tickets],
            last_ns: 0,
            floor_ns: 0,
            is_closed: false,
            earliest: VecDeque::new(),
            come: 0,
            gone: 0,
        }
    }

    /// Takes over what the worker has noted since; `words` is room for that.
    pub fn take(&mut self, words: &mut Vec<u64>) {
        // In this order: a question that is not open any more has its answer in the ring.
        let open_ns = self.ring.oldest_open_ns().unwrap_or(NEVER);
        self.floor_ns = open_ns.min(self.last_ns);
        words.clear();
        let is_closed = self.ring.take(words);
        let mut words = words.as_slice();
        while let Some((first, rest)) = words.split_first() {
            words = self.note(Header::of(*first), rest);
        }
        self.is_closed = is_closed;
    }

    /// Reads a note; returns what follows it.
    fn note<'a>(&mut self, header: Header, words: &'a [u64]) -> &'a [u64] {
        let Header { note, outcome, kind, ticket } = header;
        match (note, words) {
            (Note::Sent, [at_ns, who, stamp, rest @ ..]) => {
                let (id, _) = unpair(*who);
                self.last_ns = self.last_ns.max(*at_ns);
                self.writes.push_back(Write { at_ns: *at_ns, stamp: *stamp as i64, id, ticket, outcome: None });
                rest
            }
            (Note::Ended, [at_ns, rest @ ..]) => {
                self.last_ns = self.last_ns.max(*at_ns);
                // An outcome that nobody saw came at no time; it is known from here on.
                let outcome = Some(outcome);
                self.writes.push_back(Write { at_ns: self.last_ns, stamp: NO_STAMP, id: ALIEN, ticket, outcome });
                rest
            }
            (Note::Value, [sent_ns, finished_ns, who, cycle, rows, stamp, rest @ ..]) => {
                let ((id, client), (row_count, _)) = (unpair(*who), unpair(*rows));
                self.last_ns = self.last_ns.max(*finished_ns);
                self.answer(Event {
                    cycle: *cycle,
                    sent_ns: *sent_ns,
                    finished_ns: if outcome == Outcome::Unknown { NEVER } else { *finished_ns },
                    row_start: 0,
                    row_count,
                    bounds: 0,
                    client,
                    id,
                    stamp: *stamp as i64,
                    kind,
                    phase: self.phase,
                    outcome,
                });
                rest
            }
            (Note::Range, [sent_ns, finished_ns, who, cycle, rows, rest @ ..]) => {
                let ((id, client), (row_count, bounds)) = (unpair(*who), unpair(*rows));
                self.last_ns = self.last_ns.max(*finished_ns);
                self.answer(Event {
                    cycle: *cycle,
                    sent_ns: *sent_ns,
                    finished_ns: *finished_ns,
                    row_start: 0,
                    row_count,
                    bounds,
                    client,
                    id,
                    stamp: ABSENT,
                    kind,
                    phase: self.phase,
                    outcome,
                });
                self.range(row_count, rest)
            }
            // Notes are published as a whole.
            _ => &[],
        }
    }

    fn range<'a>(&mut self, rows: u32, mut words: &'a [u64]) -> &'a [u64] {
        for _ in 0..rows {
            let [who, stamp, rest @ ..] = words else { return &[] };
            let (id, key_bytes) = unpair(*who);
            let (key, rest) = rest.split_at((key_bytes as usize).div_ceil(8).min(rest.len()));
            let mut stamp = *stamp as i64;
            if !key.is_empty() && self.aliens.len() < ALIENS_KEPT {
                let bytes: Vec<u8> = key.iter().flat_map(|word| word.to_le_bytes()).take(key_bytes as usize).collect();
                stamp = self.aliens.len() as i64;
                self.aliens.push(String::from_utf8(bytes).unwrap_or_else(|_| format!("a key of {key_bytes} bytes")));
            }
            self.rows.push_back(Row { id, digest: 0, stamp });
            words = rest;
        }
        words
    }

    fn answer(&mut self, event: Event) {
        while self.earliest.back().is_some_and(|(sent_ns, _)| *sent_ns >= event.sent_ns) {
            self.earliest.pop_back();
        }
        self.earliest.push_back((event.sent_ns, self.come));
        self.come += 1;
        self.answers.push_back(event);
    }

    /// The next answer, which goes from here.
    pub fn next_answer(&mut self) -> Option<Event> {
        let event = self.answers.pop_front()?;
        if self.earliest.front().is_some_and(|(_, place)| *place == self.gone) {
            self.earliest.pop_front();
        }
        self.gone += 1;
        Some(event)
    }

    /// Brings the records near that the next notes are about.
    pub fn touch(&self, records: &Records, notes: usize) {
        let sent = self.writes.iter().take(notes).filter(|write| write.outcome.is_none());
        sent.for_each(|write| records.touch(write.id));
        self.answers.iter().take(notes).for_each(|answer| records.touch(answer.id));
    }

    /// When the oldest question was sent whose answer waits here.
    pub fn earliest_ns(&self) -> u64 {
        self.earliest.front().map_or(NEVER, |(sent_ns, _)| *sent_ns)
    }

    /// When the next answer is to be judged: when everything has been told that was sent until it came.
    pub fn answer_due_ns(&self) -> Option<u64> {
        self.answers.front().map(|event| match event.finished_ns {
            // Nothing is judged.
            NEVER => 0,
            finished_ns => finished_ns + crate::timeline::CLOCK_SKEW_NS,
        })
    }
}
