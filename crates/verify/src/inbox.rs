//! Notes of one worker, in the order in which they are to be judged.

use std::collections::VecDeque;
use std::sync::Arc;

use plimsoll_core::{Outcome, OwnedValue};

use crate::log::{ALIEN, CLOCK_SKEW_NS, LoggedOperation, NEVER, NO_STAMP, Row, Watch};
use crate::records::Records;
use crate::ring::{Header, Note, Ring, take_value, unpair};

/// Keys that are no record's, kept to be shown.
const ALIENS_KEPT: usize = 64;

/// A write that is sent, or what came of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write {
    pub at_ns: u64,
    /// Stamp of a write that is sent.
    pub stamp: i64,
    pub id: u32,
    pub ticket: u32,
    /// `None` of one that is sent.
    pub outcome: Option<Outcome>,
}

/// Notes of an observer, as the ledger sees them.
pub(crate) struct Inbox {
    pub ring: Arc<Ring>,
    watches: Arc<[Watch]>,
    pub phase: u16,
    pub reads_back: bool,
    pub writes: VecDeque<Write>,
    pub answers: VecDeque<LoggedOperation>,
    /// Records of the answers that have several, in the same order.
    pub rows: VecDeque<Row>,
    /// Lower and upper bounds of the answers to questions that have them, in the same order.
    pub bounds: VecDeque<[OwnedValue; 2]>,
    /// Bounds that each ticket asked for last.
    asked: Vec<[OwnedValue; 2]>,
    /// Open writes of each ticket: their records and their states' numbers.
    pub open: Vec<Vec<(u32, u32)>>,
    /// Time at which the store lost power: later outcomes are unknown.
    pub cut_ns: u64,
    /// The time of the last note.
    pub last_ns: u64,
    /// Earliest time at which operations taken from now on were asked.
    pub floor_ns: u64,
    /// Send time of the oldest question that was open before the notes were taken last; [`NEVER`] without one.
    pub open_ns: u64,
    /// The worker has gone, and everything has been taken.
    pub is_closed: bool,
    /// Send times of the questions that wait here: those below which no later one is, by their position.
    earliest: VecDeque<(u64, u64)>,
    /// Answers that have come, and that have gone from here.
    come: u64,
    gone: u64,
}

impl Inbox {
    pub fn new(ring: Arc<Ring>, watches: Arc<[Watch]>, phase: u16, tickets: usize, reads_back: bool) -> Self {
        let has_bounds = watches.iter().any(|watch| matches!(watch, Watch::Find { .. }));
        Self {
            ring,
            watches,
            phase,
            reads_back,
            writes: VecDeque::new(),
            answers: VecDeque::new(),
            rows: VecDeque::new(),
            bounds: VecDeque::new(),
            asked: vec![<[OwnedValue; 2]>::default(); if has_bounds { tickets } else { 0 }],
            open: vec![Vec::new(); tickets],
            cut_ns: NEVER,
            last_ns: 0,
            floor_ns: 0,
            open_ns: NEVER,
            is_closed: false,
            earliest: VecDeque::new(),
            come: 0,
            gone: 0,
        }
    }

    /// Takes over what the worker has noted since; `words` is room for that, `aliens` takes keys that are no record's.
    pub fn take(&mut self, words: &mut Vec<u64>, aliens: &mut Vec<OwnedValue>) {
        // In this order: what is sent from now on is sent after what is noted by now, and a question that is not open any more
        // has its answer in the ring.
        words.clear();
        self.ring.take(words);
        let noted = words.len();
        self.open_ns = self.ring.oldest_open_ns().unwrap_or(NEVER);
        self.is_closed = self.ring.take(words);
        let after = words.len() - noted;
        let (mut words, mut noted_ns) = (words.as_slice(), self.last_ns);
        while let Some((first, rest)) = words.split_first() {
            words = self.note(Header::of(*first), rest, aliens);
            if words.len() >= after {
                noted_ns = self.last_ns;
            }
        }
        self.floor_ns = self.open_ns.min(noted_ns);
    }

    /// Reads a note; returns what follows it.
    fn note<'a>(&mut self, header: Header, words: &'a [u64], aliens: &mut Vec<OwnedValue>) -> &'a [u64] {
        let Header { note, outcome, server, kind, ticket } = header;
        match (note, words) {
            (Note::Sent, [at_ns, who, stamp, rest @ ..]) => {
                let (id, _) = unpair(*who);
                self.last_ns = self.last_ns.max(*at_ns);
                self.writes.push_back(Write { at_ns: *at_ns, stamp: *stamp as i64, id, ticket, outcome: None });
                rest
            }
            (Note::Ended, [at_ns, rest @ ..]) => {
                self.last_ns = self.last_ns.max(*at_ns);
                // An unobserved outcome has no time; it is known from here on.
                let outcome = Some(outcome);
                self.writes.push_back(Write { at_ns: self.last_ns, stamp: NO_STAMP, id: ALIEN, ticket, outcome });
                rest
            }
            (Note::Brief, [sent_ns, who, cycle, stamp, rest @ ..]) => {
                let (id, client) = unpair(*who);
                let finished_ns = sent_ns + u64::from(ticket);
                self.last_ns = self.last_ns.max(finished_ns);
                self.answer(LoggedOperation {
                    cycle: *cycle,
                    sent_ns: *sent_ns,
                    finished_ns: if outcome == Outcome::Unknown { NEVER } else { finished_ns },
                    row_count: u32::from(outcome == Outcome::Ok),
                    asked: 0,
                    client,
                    id,
                    stamp: *stamp as i64,
                    kind,
                    phase: self.phase,
                    outcome,
                    server,
                });
                rest
            }
            (Note::Value | Note::Rows, [sent_ns, finished_ns, who, cycle, rows, rest @ ..]) => {
                let ((id, client), (row_count, asked)) = (unpair(*who), unpair(*rows));
                let (stamp, rest) = match rest {
                    [stamp, rest @ ..] if note == Note::Value => (*stamp as i64, rest),
                    _ => (NO_STAMP, rest),
                };
                self.last_ns = self.last_ns.max(*finished_ns);
                if let (Some(Watch::Find { .. }), Some(bounds)) =
                    (self.watches.get(usize::from(kind)), self.asked.get_mut(ticket as usize))
                {
                    self.bounds.push_back(std::mem::take(bounds));
                }
                self.answer(LoggedOperation {
                    cycle: *cycle,
                    sent_ns: *sent_ns,
                    finished_ns: if outcome == Outcome::Unknown { NEVER } else { *finished_ns },
                    row_count,
                    asked,
                    client,
                    id,
                    stamp,
                    kind,
                    phase: self.phase,
                    outcome,
                    server,
                });
                if note == Note::Rows { self.several(row_count, rest, aliens) } else { rest }
            }
            (Note::Bounds, rest) => {
                let (low, rest) = take_value(rest);
                let (high, rest) = take_value(rest);
                if let Some(asked) = self.asked.get_mut(ticket as usize) {
                    *asked = [low, high];
                }
                rest
            }
            // Notes are published as a whole.
            _ => &[],
        }
    }

    fn several<'a>(&mut self, rows: u32, mut words: &'a [u64], aliens: &mut Vec<OwnedValue>) -> &'a [u64] {
        for _ in 0..rows {
            let [who, rest @ ..] = words else { return &[] };
            let (id, digest) = unpair(*who);
            if id == ALIEN && digest != 0 {
                let (key, rest) = take_value(rest);
                let stamp = if aliens.len() < ALIENS_KEPT { aliens.len() as i64 } else { NO_STAMP };
                aliens.extend((stamp != NO_STAMP).then_some(key));
                self.rows.push_back(Row { id, digest: 0, stamp });
                words = rest;
            } else {
                let [stamp, rest @ ..] = rest else { return &[] };
                self.rows.push_back(Row { id, digest, stamp: *stamp as i64 });
                words = rest;
            }
        }
        words
    }

    fn answer(&mut self, event: LoggedOperation) {
        while self.earliest.back().is_some_and(|(sent_ns, _)| *sent_ns >= event.sent_ns) {
            self.earliest.pop_back();
        }
        self.earliest.push_back((event.sent_ns, self.come));
        self.come += 1;
        self.answers.push_back(event);
    }

    /// The next write, which goes from here.
    pub fn next_write(&mut self) -> Option<Write> {
        let mut write = self.writes.pop_front()?;
        if write.at_ns > self.cut_ns {
            write.outcome = write.outcome.map(|_| Outcome::Unknown);
        }
        Some(write)
    }

    /// The next answer, which goes from here.
    pub fn next_answer(&mut self) -> Option<LoggedOperation> {
        let mut event = self.answers.pop_front()?;
        if event.finished_ns > self.cut_ns {
            (event.outcome, event.finished_ns) = (Outcome::Unknown, NEVER);
        }
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

    /// Returns the send time of the oldest question whose answer waits here.
    pub fn earliest_ns(&self) -> u64 {
        self.earliest.front().map_or(NEVER, |(sent_ns, _)| *sent_ns)
    }

    /// Returns the time at which the next answer is judged: when every note of an earlier send has arrived.
    pub fn answer_due_ns(&self) -> Option<u64> {
        self.answers.front().map(|event| match event.finished_ns {
            // Nothing is judged.
            NEVER => 0,
            finished_ns => finished_ns + CLOCK_SKEW_NS,
        })
    }
}
