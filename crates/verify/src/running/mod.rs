//! The ledger that judges while the phase runs, and forgets what can matter no more: its memory is by records and
//! operations in flight, not by operations. For workloads of values under keys that say themselves which write they are
//! of and are never deleted.
//!
//! The rule is that of [`crate::timeline`]. An answer is judged as soon as everything has been told that happened before it
//! came. What cannot be decided then, because it depends on what becomes of a write that is open, waits for that.
//!
//! | file | what |
//! |---|---|
//! | `ring` | words between a worker and the ledger |
//! | `witness` | the worker's side |
//! | `line` | what one worker has noted, in order |
//! | `records` | what each record can be from now on |
//! | `past` | what is remembered of what it was |
//! | `hear` | holds an answer against that |
//! | `range` | the same of ranges of keys |
//! | `audit` | holds what the store holds in the end against that |

mod audit;
mod hear;
mod line;
mod past;
mod range;
mod records;
mod ring;
#[cfg(test)]
mod tests;
mod witness;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use plimsoll_core::{Observer, Outcome, Workload};

use crate::answers::AnswerVerdict;
use crate::log::{ALIEN, NEVER, Row, Watch};
use crate::timeline::CLOCK_SKEW_NS;
use crate::witness::Shared;
use crate::words::Examples;

use hear::{Bench, Waiting};
use line::{Line, Write};
use records::Records;
use ring::Ring;
use witness::Watcher;

/// Words of all rings of a phase together, as far as each has room for an answer of many records.
const RINGS_WORDS: usize = 8 << 20;
/// Words of one ring, at least and at most: 128 KiB and 64 MiB.
pub(crate) const RING_WORDS: (usize, usize) = (1 << 14, 1 << 23);
/// A worker that has said nothing for so long, while others have, has nothing to say about that time.
const SILENCE_NS: u64 = 1_000_000_000;
/// Notes between two looks at what may be forgotten.
const NOTES_A_LOOK: usize = 1_024;
/// Notes whose records are brought near together.
const NOTES_AHEAD: usize = 64;

/// What the ledger knows, and what it has found so far.
pub(crate) struct Running {
    workload: Arc<dyn Workload>,
    watches: Arc<[Watch]>,
    lines: Vec<Line>,
    words: Vec<u64>,
    records: Records,
    bench: Bench,
    waiting: Vec<Waiting>,
    /// What was read back, and in which phase.
    found: (u16, Vec<Row>),
    operations: u64,
    /// Answers that nobody looked at because the ledger was behind.
    skipped: u64,
    /// Words of one ring, at least and at most.
    ring_words: (usize, usize),
}

impl Running {
    /// Whether answers to `watches` can be judged like this.
    pub fn can(workload: &dyn Workload, watches: &[Watch]) -> bool {
        let of_values = |watch: &Watch| matches!(watch, Watch::Ignore | Watch::Put | Watch::Value | Watch::Range);
        workload.truth().is_some_and(plimsoll_core::Truth::sees_contents) && watches.iter().all(of_values)
    }

    pub fn new(workload: Arc<dyn Workload>, watches: Arc<[Watch]>, ring_words: (usize, usize)) -> Self {
        let records = Records::new(workload.record_count());
        let bench = Bench::new(Arc::clone(&workload), Arc::clone(&watches));
        Self {
            workload,
            watches,
            lines: Vec::new(),
            words: Vec::new(),
            records,
            bench,
            waiting: Vec::new(),
            found: (0, Vec::new()),
            operations: 0,
            skipped: 0,
            ring_words,
        }
    }

    /// Observers for the workers of a phase.
    pub fn observers(
        &mut self,
        phase: u16,
        workers: usize,
        tickets: usize,
        reads_back: bool,
        shared: &Arc<Shared>,
    ) -> Vec<Box<dyn Observer>> {
        let (least, most) = self.ring_words;
        let words = (RINGS_WORDS / workers.max(1)).clamp(least, most);
        if reads_back {
            self.found = (phase, Vec::new());
        }
        let mut observer = || -> Box<dyn Observer> {
            let ring = Ring::new(words, tickets, self.watches.len());
            self.lines.push(Line::new(Arc::clone(&ring), phase, tickets, reads_back));
            let (workload, watches) = (Arc::clone(&self.workload), Arc::clone(&self.watches));
            Box::new(Watcher::new(workload, watches, Arc::clone(shared), ring, tickets, reads_back))
        };
        (0..workers).map(|_| observer()).collect()
    }

    /// Takes over what the observers have noted, and judges what can be judged.
    pub fn drain(&mut self) {
        let mut words = std::mem::take(&mut self.words);
        for line in &mut self.lines {
            line.take(&mut words);
            for (kind, count) in line.ring.take_skipped().filter(|(_, count)| *count > 0) {
                self.bench.tally(line.phase, kind).0.unanswered += count;
                self.skipped += count;
            }
        }
        self.words = words;
        let told = self.told();
        self.judge(told.1);
        self.judge_waiting(told.0);
        self.lines.retain(|line| !line.is_closed || !line.writes.is_empty() || !line.answers.is_empty());
        self.records.sweep(self.horizon_ns(), told.1);
    }

    /// Up to which time everything has been told, for certain and as far as silent workers have nothing to tell.
    fn told(&self) -> (u64, u64) {
        let open = || self.lines.iter().filter(|line| !line.is_closed);
        let now_ns = self.lines.iter().map(|line| line.last_ns).max().unwrap_or(0);
        let certain = open().map(|line| line.last_ns).min().unwrap_or(NEVER);
        (certain, if certain == NEVER { NEVER } else { certain.max(now_ns.saturating_sub(SILENCE_NS)) })
    }

    /// Nobody asks any more for anything before this.
    fn horizon_ns(&self) -> u64 {
        let now_ns = self.lines.iter().map(|line| line.last_ns).max().unwrap_or(0);
        let of_line = |line: &Line| {
            let floor_ns = if line.is_closed { NEVER } else { line.floor_ns.max(now_ns.saturating_sub(SILENCE_NS)) };
            // What is open is known to be open however long its worker says nothing.
            let open_ns = if line.is_closed { None } else { line.ring.oldest_open_ns() };
            line.earliest_ns().min(floor_ns).min(open_ns.unwrap_or(NEVER))
        };
        let lines = self.lines.iter().filter(|line| !line.reads_back).map(of_line).min();
        let waiting = self.waiting.iter().map(|waiting| waiting.event.sent_ns).min();
        // With nobody at work, what comes next comes after what has come.
        lines.unwrap_or(now_ns).min(waiting.unwrap_or(NEVER)).saturating_sub(CLOCK_SKEW_NS)
    }

    /// Goes through what was noted in the order of its times, up to `told_ns`.
    fn judge(&mut self, told_ns: u64) {
        let mut horizon_ns = self.horizon_ns();
        let mut notes = 0;
        // For each line its writes, and its answers: writes first where times are the same.
        let due = |lines: &[Line], place: usize| {
            let line = &lines[place / 2];
            if place.is_multiple_of(2) { line.writes.front().map(|write| write.at_ns) } else { line.answer_due_ns() }
        };
        let key = |time_ns: u64, place: usize| Reverse((time_ns, place % 2, place));
        let mut queue = BinaryHeap::new();
        for place in 0..2 * self.lines.len() {
            queue.extend(due(&self.lines, place).filter(|time_ns| *time_ns < told_ns).map(|at| key(at, place)));
        }
        while let Some(Reverse((_, _, place))) = queue.pop() {
            loop {
                if notes % NOTES_A_LOOK == 0 {
                    horizon_ns = self.horizon_ns();
                }
                if notes % NOTES_AHEAD == 0 {
                    self.lines.iter().for_each(|line| line.touch(&self.records, NOTES_AHEAD));
                }
                notes += 1;
                match place % 2 {
                    0 => self.write(place / 2, horizon_ns),
                    _ => self.answer(place / 2),
                }
                let next_ns = due(&self.lines, place).filter(|time_ns| *time_ns < told_ns);
                let Some(time_ns) = next_ns else { break };
                if queue.peek().is_some_and(|next| *next > key(time_ns, place)) {
                    queue.push(key(time_ns, place));
                    break;
                }
            }
        }
    }

    fn write(&mut self, line: usize, horizon_ns: u64) {
        let line = &mut self.lines[line];
        let Some(Write { at_ns, stamp, id, ticket, outcome }) = line.writes.pop_front() else { return };
        let Some(open) = line.open.get_mut(ticket as usize) else { return };
        match outcome {
            None if id == ALIEN => {}
            None => {
                self.operations += 1;
                let number = self.records.sent(id, stamp, at_ns, horizon_ns);
                self.records.past.sent(stamp);
                *open = Some((id, number));
            }
            Some(outcome) => {
                let Some((id, number)) = open.take() else { return };
                if std::mem::take(&mut self.records.state_mut(number).is_shown) {
                    self.bench.settle(number, outcome);
                }
                self.records.ended(id, number, outcome, at_ns);
            }
        }
    }

    fn answer(&mut self, line: usize) {
        let line = &mut self.lines[line];
        let Some(event) = line.next_answer() else { return };
        self.operations += 1;
        let value = [Row { id: event.id, digest: 0, stamp: event.stamp }];
        let (watch, rows) = (self.watches[usize::from(event.kind)], event.row_count as usize);
        if line.reads_back {
            if event.outcome == Outcome::Ok && rows > 0 && event.id != ALIEN {
                self.found.1.extend(value);
            }
            return;
        }
        let many: Vec<Row>;
        let rows: &[Row] = match watch {
            Watch::Range => {
                many = line.rows.drain(..rows.min(line.rows.len())).collect();
                &many
            }
            _ => &value[..rows.min(1)],
        };
        if let Err(why) = self.bench.hear(&mut self.records, &event, rows, &line.aliens, false) {
            self.bench.wait(&mut self.waiting, event, rows, why);
        }
    }

    /// Holds the answers that had to wait against what is known now; of those that show what nobody is known to have
    /// sent, up to which time everything has been told decides.
    fn judge_waiting(&mut self, told_ns: u64) {
        for waiting in std::mem::take(&mut self.waiting) {
            let Waiting { event, rows } = &waiting;
            let is_told = event.finished_ns.saturating_add(CLOCK_SKEW_NS) < told_ns || told_ns == NEVER;
            if self.bench.hear(&mut self.records, event, rows, &[], is_told).is_err() {
                self.waiting.push(waiting);
            }
        }
    }

    /// Operations noted.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Records that were loaded or that anybody tried to write have numbers below this.
    pub fn records(&self) -> u64 {
        (self.records.len() as u64).max(self.workload.record_count())
    }

    /// Answers that were not looked at because the ledger was behind.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// What `phase` read back.
    pub fn found(&self, phase: u16) -> &[Row] {
        if self.found.0 == phase { &self.found.1 } else { &[] }
    }

    /// Goes on with nothing but what each record can be from now on.
    pub fn fold(&mut self) {
        self.records.fold();
        self.bench.forget();
        self.found.1 = Vec::new();
        (self.operations, self.skipped) = (0, 0);
    }

    /// States that are known.
    #[cfg(test)]
    pub fn states(&self) -> usize {
        self.records.state_count()
    }

    /// What came of all answers; with a gap nobody knows what a right one is.
    pub fn answers(&self, has_gap: bool) -> Vec<AnswerVerdict> {
        let kinds = self.workload.kinds();
        let waits = |phase, kind| {
            self.waiting.iter().filter(|one| (one.event.phase, one.event.kind) == (phase, kind)).count() as u64
        };
        let verdict = |(&(phase, kind), (verdict, examples)): (&(u16, u16), &(AnswerVerdict, Examples))| {
            let kind_name = kinds[usize::from(kind)].name.clone();
            let unanswered = verdict.unanswered + waits(phase, kind);
            if has_gap {
                let unanswered = verdict.answers + unanswered;
                return AnswerVerdict { phase, kind, kind_name, unanswered, ..AnswerVerdict::default() };
            }
            let examples = examples.sentences();
            AnswerVerdict { phase, kind, kind_name, unanswered, examples, ..verdict.clone() }
        };
        self.bench.tallies.iter().map(verdict).collect()
    }
}
