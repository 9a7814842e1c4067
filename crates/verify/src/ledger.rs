//! The ledger: who wrote what and when, and what was answered, gathered from all workers of a trial, and judged while its
//! phases run.
//!
//! An answer is judged as soon as everything has been told that happened before it came. What cannot be decided then,
//! because it depends on what becomes of a write that is open, waits for that. What can matter no more is forgotten: memory
//! goes by records and operations in flight, not by operations.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll_core::{KindId, Observer, Outcome, OwnedValue, Stream, Truth, ValueBuf, Version, Workload, in_turn};

use crate::inbox::{Inbox, Write};
use crate::judge::{Answered, Judge};
use crate::log::{ALIEN, CLOCK_SKEW_NS, NEVER, Row, Watch};
use crate::readback::{ReadBack, key_position};
use crate::records::{RECORDS_A_LOOK, Records};
use crate::ring::Ring;
use crate::verdict::{AnswerVerdict, StaleReads};
use crate::witness::{Post, Witness};
use crate::words::Examples;

/// Largest difference between a worker's clock and the clock of a cut, which belongs to another process: a worker
/// reads the processor's counter, which is compared with that clock once a slice. Operations that ended so shortly
/// before a cut are unknown, too.
const CUT_SKEW_NS: u64 = 100_000;
/// Words of all rings of a phase together, as far as each has room for an answer of many records.
const RINGS_WORDS: usize = 8 << 20;
/// Words of one ring, at least and at most: 128 KiB and 64 MiB.
const RING_WORDS: (usize, usize) = (1 << 14, 1 << 23);
/// A worker that has said nothing for so long, while others have, has nothing to say about that time.
const SILENCE_NS: u64 = 1_000_000_000;
/// Notes between two looks at what may be forgotten.
const NOTES_A_LOOK: usize = 1_024;
/// Notes whose records are brought near together.
const NOTES_AHEAD: usize = 64;
/// The bounds of questions that have none.
const NO_BOUNDS: [OwnedValue; 2] = [OwnedValue::Null, OwnedValue::Null];

/// The ledger of one trial: it lives through all its phases, from an empty store on, and through those that follow on
/// the same data ([`Ledger::next_trial`]). A store that is emptied again needs a new one.
///
/// [`Ledger::drain`] judges what has been noted since the last call. What is asked of the ledger besides tells what is known
/// since then.
///
/// Memory: 64 MiB for all workers, at least 128 KiB each, allocated by [`Ledger::observers`] and used as far as the ledger
/// is behind; for a record about 100 bytes, 100 more where fields of it are asked for; 80 MiB for what was written last; 40
/// bytes for a write of unobserved outcome, and 32 more for each of the first million; nothing for an operation. Limit: an
/// observer has room for 10,000 reads or writes, 1.3 million with few workers, between two drains. Beyond three quarters of
/// that answers are left out and counted ([`Ledger::skipped`]); a write that is left out makes the verdict *incomplete*.
pub struct Ledger {
    pub(crate) post: Post,
    inboxes: Vec<Inbox>,
    words: Vec<u64>,
    pub(crate) records: Records,
    judge: Judge,
    /// Rows that were read back, and the phase.
    found: (u16, Vec<Row>),
    /// Records that were found absent in that phase.
    absent: Vec<u32>,
    operations: u64,
    /// Answers that were not judged because the ledger was behind.
    skipped: u64,
    /// Observers that had not gone when their notes were taken over last.
    at_work: u64,
    /// Time of the last note before the notes were taken over last.
    before_ns: u64,
    /// Words of one ring, at least and at most.
    ring_words: (usize, usize),
    trials: u32,
    /// Time of the last power cut; 0 without one.
    pub(crate) cut_ns: u64,
}

impl Ledger {
    /// A ledger for a trial of `workload` on a store that is empty when it begins. `None` when the workload
    /// has no truth to hold answers against.
    ///
    /// # Panics
    /// When the workload has 2^31 records or more.
    pub fn new(workload: Arc<dyn Workload>) -> Option<Self> {
        Self::with_rings(workload, RING_WORDS)
    }

    /// As [`Ledger::new`], but returns `None` soon after `is_stopped` returns true: memory for many records takes seconds.
    ///
    /// # Panics
    /// As above.
    pub fn new_unless(workload: Arc<dyn Workload>, is_stopped: &dyn Fn() -> bool) -> Option<Self> {
        Self::made(workload, RING_WORDS, is_stopped)
    }

    /// Makes a ledger with rings of so many words of 8 bytes between a worker and the ledger, at least and at most.
    ///
    /// # Panics
    /// As above.
    pub fn with_rings(workload: Arc<dyn Workload>, ring_words: (usize, usize)) -> Option<Self> {
        Self::made(workload, ring_words, &|| false)
    }

    fn made(workload: Arc<dyn Workload>, ring_words: (usize, usize), is_stopped: &dyn Fn() -> bool) -> Option<Self> {
        let has_digests = !workload.truth()?.sees_contents();
        assert!(workload.record_count() < 1 << 31, "the ledger counts records in 31 bits");
        let columns = workload.layout().collections.first().map_or(2, |collection| collection.fields.len());
        let watches: Arc<[Watch]> = workload.kinds().iter().map(|kind| Watch::of(kind, columns)).collect();
        let key = key_position(&*workload);
        Some(Self {
            inboxes: Vec::new(),
            words: Vec::new(),
            records: Records::new(Arc::clone(&workload), &watches, is_stopped)?,
            judge: Judge::new(Arc::clone(&workload), Arc::clone(&watches)),
            post: Post { workload, watches, shared: Arc::default(), key, has_digests },
            found: (0, Vec::new()),
            absent: Vec::new(),
            operations: 0,
            skipped: 0,
            at_work: 0,
            before_ns: 0,
            ring_words,
            trials: 0,
            cut_ns: 0,
        })
    }

    /// Bytes of memory that a ledger of `workload` comes to, about, with `workers`; `scans` when some operations are.
    pub fn bytes(workload: &dyn Workload, workers: u64, scans: bool) -> u64 {
        let ring = ((8 * RINGS_WORDS as u64) / workers.max(1)).clamp(8 * RING_WORDS.0 as u64, 8 * RING_WORDS.1 as u64);
        let sees_contents = workload.truth().is_some_and(Truth::sees_contents);
        let a_record = 140 + if scans { 80 } else { 0 } + if sees_contents { 0 } else { 120 };
        ring.next_power_of_two() * workers + workload.record_count() * a_record + (80 << 20)
    }

    /// Observers for the workers of one phase, with all their memory. `phase` is the phase's position in its
    /// trial, and comes back in [`AnswerVerdict::phase`]. Tickets of each worker are below `tickets`.
    pub fn observers(&mut self, phase: u16, workers: usize, tickets: usize) -> Vec<Box<dyn Observer>> {
        self.observers_of(phase, workers, tickets, false)
    }

    /// Returns observers for a phase that reads back what the store holds, key by key: [`Ledger::found`] has it then.
    /// Answers of such a phase are not judged as answers.
    pub fn observers_reading_back(&mut self, phase: u16, workers: usize, tickets: usize) -> Vec<Box<dyn Observer>> {
        self.found = (phase, Vec::new());
        self.absent = Vec::new();
        self.observers_of(phase, workers, tickets, true)
    }

    fn observers_of(&mut self, phase: u16, workers: usize, tickets: usize, reads_back: bool) -> Vec<Box<dyn Observer>> {
        let (least, most) = self.ring_words;
        let words = (RINGS_WORDS / workers.max(1)).clamp(least, most);
        let mut observer = || -> Box<dyn Observer> {
            let ring = Ring::new(words, tickets, self.post.watches.len());
            let watches = Arc::clone(&self.post.watches);
            self.inboxes.push(Inbox::new(Arc::clone(&ring), watches, phase, tickets, reads_back));
            Box::new(Witness::new(self.post.clone(), ring, tickets, reads_back))
        };
        (0..workers).map(|_| observer()).collect()
    }

    /// Notes that all records of the workload were loaded between these times, by no operation that an observer has
    /// seen: their contents follow from the seed. Ends soon after `is_stopped` returns true.
    pub fn loaded(&mut self, from_ns: u64, to_ns: u64, is_stopped: &dyn Fn() -> bool) {
        for id in 0..self.post.workload.record_count() as u32 {
            if (id as usize).is_multiple_of(RECORDS_A_LOOK) && is_stopped() {
                return;
            }
            let number = self.records.sent(id, Version::Loaded.stamp(), from_ns, 0);
            self.records.ended(id, number, Outcome::Ok, to_ns);
        }
    }

    /// Takes over what the observers have noted since the last call, and judges what can be judged. To be called at least
    /// once a second while a phase runs.
    pub fn drain(&mut self) {
        self.take_over();
        self.judge_notes();
    }

    /// Drains the notes of a phase in which the store may lose power; `cut` returns the time of that, on the run's
    /// clock, and is called after the notes were taken over. The end of operations after that moment was not observed
    /// outside of the store: their outcome is unknown.
    ///
    /// # Errors
    /// As `cut` says; nothing is judged then.
    pub fn drain_until_cut<E>(&mut self, phase: u16, cut: impl FnOnce() -> Result<Option<u64>, E>) -> Result<(), E> {
        self.take_over();
        if let Some(at_ns) = cut()? {
            self.cut(at_ns, |inbox| inbox.phase == phase);
        }
        self.judge_notes();
        Ok(())
    }

    /// The store lost power at that moment, on the run's clock: of all that is not judged yet, what ended later is unknown.
    pub fn power_was_cut(&mut self, at_ns: u64) {
        self.cut(at_ns, |_| true);
    }

    fn cut(&mut self, at_ns: u64, of: impl Fn(&Inbox) -> bool) {
        self.cut_ns = at_ns;
        let inboxes = self.inboxes.iter_mut().filter(|inbox| !inbox.reads_back && inbox.cut_ns == NEVER && of(inbox));
        inboxes.for_each(|inbox| inbox.cut_ns = at_ns.saturating_sub(CUT_SKEW_NS));
    }

    fn take_over(&mut self) {
        // First, for what an observer notes before it goes is taken over now.
        self.at_work = self.post.shared.at_work.load(Ordering::Acquire);
        // What is asked after an inbox was looked at is asked after this.
        self.before_ns = self.now_ns();
        for inbox in &mut self.inboxes {
            inbox.take(&mut self.words, &mut self.judge.aliens);
            for (kind, count) in inbox.ring.take_skipped().filter(|(_, count)| *count > 0) {
                self.judge.tally(inbox.phase, kind).0.unanswered += count;
                self.skipped += count;
            }
        }
    }

    fn judge_notes(&mut self) {
        let (certain_ns, likely_ns) = self.told();
        self.go_through(certain_ns, likely_ns);
        self.judge.take_waiting(&mut self.records, certain_ns);
        self.judge.count_plain();
        self.inboxes.retain(|inbox| !inbox.is_closed || !inbox.writes.is_empty() || !inbox.answers.is_empty());
        self.records.sweep(self.horizon_ns(), likely_ns);
    }

    /// Returns the time up to which all notes have arrived, for certain and as far as silent workers have none.
    fn told(&self) -> (u64, u64) {
        let open = || self.inboxes.iter().filter(|inbox| !inbox.is_closed);
        let now_ns = self.now_ns();
        let certain = open().map(|inbox| inbox.last_ns).min().unwrap_or(NEVER);
        (certain, if certain == NEVER { NEVER } else { certain.max(now_ns.saturating_sub(SILENCE_NS)) })
    }

    /// Returns the time of the last note.
    fn now_ns(&self) -> u64 {
        self.inboxes.iter().map(|inbox| inbox.last_ns).max().unwrap_or(0)
    }

    /// Returns the time before which no question can begin any more.
    fn horizon_ns(&self) -> u64 {
        let now_ns = self.now_ns();
        let of_inbox = |inbox: &Inbox| {
            if inbox.is_closed {
                return inbox.earliest_ns();
            }
            let floor_ns = inbox.floor_ns.max(self.before_ns.saturating_sub(SILENCE_NS));
            // What is open is known to be open however long its worker says nothing. It is not looked for anew: the worker
            // would have to fetch each of those words again.
            inbox.earliest_ns().min(floor_ns).min(inbox.open_ns)
        };
        let inboxes = self.inboxes.iter().filter(|inbox| !inbox.reads_back).map(of_inbox).min();
        // While no worker is active, the next notes are later than all so far.
        inboxes.unwrap_or(now_ns).min(now_ns).min(self.judge.earliest_ns()).saturating_sub(CLOCK_SKEW_NS)
    }

    /// Processes the notes in the order of their times, up to `told_ns`. No further notes can arrive up to
    /// `certain_ns`.
    fn go_through(&mut self, certain_ns: u64, told_ns: u64) {
        let mut horizon_ns = self.horizon_ns();
        let mut notes = 0;
        // For each inbox its writes, and its answers: writes first where times are the same.
        let due = |inboxes: &[Inbox], place: usize| {
            let inbox = &inboxes[place / 2];
            if place.is_multiple_of(2) { inbox.writes.front().map(|write| write.at_ns) } else { inbox.answer_due_ns() }
        };
        let key = |time_ns: u64, place: usize| Reverse((time_ns, place % 2, place));
        let mut queue = BinaryHeap::new();
        for place in 0..2 * self.inboxes.len() {
            queue.extend(due(&self.inboxes, place).filter(|time_ns| *time_ns < told_ns).map(|at| key(at, place)));
        }
        while let Some(Reverse((_, _, place))) = queue.pop() {
            loop {
                if notes % NOTES_A_LOOK == 0 {
                    horizon_ns = self.horizon_ns();
                }
                if notes % NOTES_AHEAD == 0 {
                    self.inboxes.iter().for_each(|inbox| inbox.touch(&self.records, NOTES_AHEAD));
                }
                notes += 1;
                match place % 2 {
                    0 => self.write(place / 2, horizon_ns),
                    _ => self.answer(place / 2, certain_ns),
                }
                let next_ns = due(&self.inboxes, place).filter(|time_ns| *time_ns < told_ns);
                let Some(time_ns) = next_ns else { break };
                if queue.peek().is_some_and(|next| *next > key(time_ns, place)) {
                    queue.push(key(time_ns, place));
                    break;
                }
            }
        }
    }

    fn write(&mut self, inbox: usize, horizon_ns: u64) {
        let inbox = &mut self.inboxes[inbox];
        let Some(Write { at_ns, stamp, id, ticket, outcome }) = inbox.next_write() else { return };
        let Some(open) = inbox.open.get_mut(ticket as usize) else { return };
        let Some(outcome) = outcome else {
            if id != ALIEN {
                let number = self.records.sent(id, stamp, at_ns, horizon_ns);
                self.records.past.sent(stamp);
                open.push((id, number));
            }
            return;
        };
        self.operations += 1;
        for (id, number) in open.drain(..) {
            if std::mem::take(&mut self.records.state_mut(number).is_shown) {
                self.judge.settle(number, outcome);
            }
            self.records.ended(id, number, outcome, at_ns);
        }
    }

    fn answer(&mut self, inbox: usize, told_ns: u64) {
        let inbox = &mut self.inboxes[inbox];
        let Some(event) = inbox.next_answer() else { return };
        let (watch, rows) = (self.post.watches[usize::from(event.kind)], event.row_count as usize);
        self.operations += u64::from(!watch.writes());
        if watch == Watch::Value && !inbox.reads_back && self.judge.take_plain(&mut self.records, &event) {
            return;
        }
        let value = [Row { id: event.id, digest: 0, stamp: event.stamp }];
        if inbox.reads_back {
            match event.outcome {
                _ if event.id == ALIEN => {}
                Outcome::Ok if rows > 0 => self.found.1.extend(value),
                Outcome::Ok | Outcome::NotFound => self.absent.push(event.id),
                // What was refused, or never answered, is not known.
                Outcome::Rejected | Outcome::Unknown => {}
            }
            return;
        }
        if watch == Watch::Value || watch.writes() {
            let answered = Answered { event: &event, rows: &value[..rows.min(1)], bounds: &NO_BOUNDS, told_ns };
            return self.judge.take(&mut self.records, answered);
        }
        let rows: Vec<Row> = inbox.rows.drain(..rows.min(inbox.rows.len())).collect();
        let bounds = match watch {
            Watch::Find { .. } => inbox.bounds.pop_front().unwrap_or(NO_BOUNDS),
            _ => NO_BOUNDS,
        };
        self.judge.take(&mut self.records, Answered { event: &event, rows: &rows, bounds: &bounds, told_ns });
    }

    /// Continues with the next trial on the same data: the possible states of each record are kept, and nothing else.
    /// Returns `None` if something was not noted.
    pub fn next_trial(mut self) -> Option<Self> {
        self.drain();
        if self.gap().is_some() {
            return None;
        }
        self.records.fold();
        self.judge.forget();
        (self.found.1, self.absent) = (Vec::new(), Vec::new());
        (self.operations, self.skipped) = (0, 0);
        self.trials += 1;
        Some(self)
    }

    /// Trials on the same data before this one.
    pub fn trials_before(&self) -> u32 {
        self.trials
    }

    /// Returns the reason that the ledger cannot vouch for anything, in one sentence; `None` when everything was
    /// noted. Drop the observers of all phases before the last drain.
    pub fn gap(&self) -> Option<String> {
        let overflows = self.post.shared.overflows.load(Ordering::Relaxed);
        if overflows > 0 {
            return Some(format!("{overflows} operations came faster than the ledger was drained"));
        }
        (self.at_work > 0).then(|| format!("{} workers were still at work when the ledger was read", self.at_work))
    }

    /// Observers that had not gone when the ledger was drained last.
    pub fn at_work(&self) -> u64 {
        self.at_work
    }

    /// Answers that were not held against anything, because the ledger was behind when they came: they count as
    /// unanswered. Acknowledged writes are all known.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Operations noted.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Records that were loaded or that anybody tried to write have numbers below this.
    pub fn records(&self) -> u64 {
        (self.records.len() as u64).max(self.post.workload.record_count())
    }

    /// Reads every record there may be once, by its key, dealt to `clients` in turn.
    pub fn each_key(&self, kind: KindId, clients: u32) -> Box<dyn Stream> {
        let workload = Arc::clone(&self.post.workload);
        let push = move |id, params: &mut ValueBuf| {
            if let Some(truth) = workload.truth() {
                truth.key(id, params);
                params.name_record(id);
            }
        };
        in_turn(kind, self.records(), 1, clients, push)
    }

    /// Returns the rows that `phase` read key by key, with observers of [`Ledger::observers_reading_back`]. A record
    /// whose reading was refused or not answered is neither there nor absent.
    pub fn found(&self, phase: u16) -> ReadBack {
        let (rows, absent) = match self.found.0 == phase {
            true => (self.found.1.clone(), self.absent.clone()),
            false => (Vec::new(), Vec::new()),
        };
        ReadBack::of_keys(Arc::clone(&self.post.workload), rows, absent)
    }

    /// Returns the verdicts on all answers: one for each phase and operation type that had any, in that order.
    pub fn answers(&self) -> Vec<AnswerVerdict> {
        let has_gap = self.gap().is_some();
        let verdict = |(&(phase, kind), (verdict, examples)): (&(u16, u16), &(AnswerVerdict, Examples))| {
            let kind_name = self.post.workload.kinds()[usize::from(kind)].name.clone();
            let unanswered = verdict.unanswered + self.judge.waiting(phase, kind);
            if has_gap {
                // The right answer is unknown.
                let unanswered = verdict.answers + unanswered;
                return AnswerVerdict { phase, kind, kind_name, unanswered, ..AnswerVerdict::default() };
            }
            let examples = examples.sentences();
            AnswerVerdict { phase, kind, kind_name, unanswered, examples, ..verdict.clone() }
        };
        self.judge.tallies.iter().map(verdict).collect()
    }

    /// Returns the stale records in the answers to operations of this type in this phase, in the order of time: the first
    /// 10,000 ticks and servers that had some. Empty if the ledger has a gap.
    pub fn stale_reads(&self, phase: u16, kind: u16) -> Vec<StaleReads> {
        if self.gap().is_some() {
            return Vec::new();
        }
        let its = self.judge.stale.range((phase, kind, 0, 0)..=(phase, kind, u64::MAX, u8::MAX));
        let reads = |((_, _, at_ns, server), records): (&(u16, u16, u64, u8), &u64)| StaleReads {
            at_ns: *at_ns,
            server: u32::from(*server),
            records: *records,
        };
        its.map(reads).collect()
    }

    /// Returns the numbers of further copies of records within answers to operations of this type in this phase, by the
    /// start of the tick of the answer: the first 10,000 ticks that had some. Empty if the ledger has a gap.
    pub fn duplicates(&self, phase: u16, kind: u16) -> BTreeMap<u64, u64> {
        if self.gap().is_some() {
            return BTreeMap::new();
        }
        let its = self.judge.duplicates.range((phase, kind, 0)..=(phase, kind, u64::MAX));
        its.map(|((_, _, at_ns), records)| (*at_ns, *records)).collect()
    }

    /// States and values that are known.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.records.state_count() + self.records.contents.len()
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
