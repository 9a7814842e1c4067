//! Holds an answer against what each record can have been, and counts.
//!
//! An answer may show a record as it can have been at some moment between question and answer, and no other way. A
//! question for many must have every record that matched all that time, and must not have one that did not match as shown.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use plimsoll_core::{Outcome, OwnedValue, Value, Workload};

use crate::log::{ALIEN, Interval, LoggedOperation, NEVER, NO_STAMP, Row, Watch, is_absent};
use crate::range::Order;
use crate::records::{Open, Records};
use crate::state::Look;
use crate::unknown::start_of_tick;
use crate::verdict::AnswerVerdict;
use crate::words::{AGAIN, EXAMPLES_PER_SORT, Examples, REFUSED, Words, claim};

/// Answers that may wait at most, and records in them: 8 MiB and 32 MiB.
const WAITING_MAX: usize = 1 << 16;
const WAITING_ROWS_MAX: usize = 1 << 21;
/// Ticks with stale records that are told apart, by operation type and server, and ticks with duplicates, by operation
/// type.
const TICKS_MAX: usize = 10_000;

/// Reason that an answer cannot be judged now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// The verdict depends on the outcome of the open write with this number.
    Open(u32),
    /// The row may come from a worker whose note has not arrived yet.
    Untold,
    /// The question is so old that its possible answers are not known any more.
    Forgotten,
}

impl From<Open> for Why {
    fn from(Open(number): Open) -> Self {
        Why::Open(number)
    }
}

/// An answer that cannot be judged yet.
struct Waiting {
    event: LoggedOperation,
    rows: Vec<Row>,
    bounds: [OwnedValue; 2],
    /// The write that it waits for: its number and stamp.
    write: Option<(u32, i64)>,
}

/// Answers of one kind in one phase that show a write which was open.
#[derive(Debug)]
struct Shown {
    phase: u16,
    kind: u16,
    count: u64,
    some: Vec<(LoggedOperation, Row)>,
}

/// An answer to be judged: its records, the bounds of a question that has them, and the time up to which everything has
/// been told.
#[derive(Clone, Copy)]
pub(crate) struct Answered<'a> {
    pub event: &'a LoggedOperation,
    pub rows: &'a [Row],
    pub bounds: &'a [OwnedValue; 2],
    pub told_ns: u64,
}

/// Verdict on a row of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Worth {
    Right,
    /// Right unless the write with this number is refused yet.
    RightUnlessRefused(u32),
    Alien,
    WrongContent,
    Refused,
    /// The row shows this state, if it is known still.
    Stale(Option<u32>),
}

/// Fault in the position of a record in an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OrderFault {
    Duplicated,
    NotMatching,
    Disordered,
}

/// Findings about an answer that may have many records.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Verdict on each row.
    pub worths: Vec<Worth>,
    pub misplaced: Vec<(OrderFault, Row)>,
    /// Records that had to be there, and those of them that were not.
    pub expected: u64,
    pub missing: Vec<u32>,
}

/// Records that an answer has had.
#[derive(Debug, Default)]
pub(crate) struct RecordMarks {
    /// Number of the last question whose answer had the record, for each record.
    last_question: Vec<u32>,
    questions: u32,
}

impl RecordMarks {
    /// Begins with the answer to another question, where there are so many records.
    pub fn next_question(&mut self, records: usize) {
        self.last_question.resize(records.max(self.last_question.len()), 0);
        self.questions = self.questions.checked_add(1).unwrap_or_else(|| {
            self.last_question.fill(0);
            1
        });
    }

    /// Returns true if this answer has had the record before; marks it.
    pub fn is_again(&mut self, id: u32) -> bool {
        let questions = self.questions;
        self.last_question.get_mut(id as usize).is_some_and(|last| std::mem::replace(last, questions) == questions)
    }

    pub fn is_given(&self, id: u32) -> bool {
        self.last_question.get(id as usize) == Some(&self.questions)
    }
}

/// Findings so far, and the state needed for the next ones.
pub(crate) struct Judge {
    pub workload: Arc<dyn Workload>,
    watches: Arc<[Watch]>,
    pub tallies: BTreeMap<(u16, u16), (AnswerVerdict, Examples)>,
    /// A phase, and its plain answers that are in no tally yet, by operation type.
    plain: (u16, Vec<u64>),
    shown: HashMap<u32, Vec<Shown>>,
    waiting: Vec<Waiting>,
    waiting_rows: usize,
    /// Stale records by phase, kind, tick of the answer and server.
    pub stale: BTreeMap<(u16, u16, u64, u8), u64>,
    /// Further copies of records within one answer, by phase, kind and tick of the answer.
    pub duplicates: BTreeMap<(u16, u16, u64), u64>,
    /// Keys that are no record's, some of them.
    pub aliens: Vec<OwnedValue>,
    pub given: RecordMarks,
    /// The records in the order of their keys, once a range of them was asked for.
    pub order: Order,
}

/// Counts one more record at this place in time. After too many places, further ones are left out.
fn note<P: Ord>(records: &mut BTreeMap<P, u64>, place: P) {
    if records.len() < TICKS_MAX || records.contains_key(&place) {
        *records.entry(place).or_default() += 1;
    }
}

impl Judge {
    pub fn new(workload: Arc<dyn Workload>, watches: Arc<[Watch]>) -> Self {
        Self {
            workload,
            plain: (0, vec![0; watches.len()]),
            watches,
            tallies: BTreeMap::new(),
            shown: HashMap::new(),
            waiting: Vec::new(),
            waiting_rows: 0,
            stale: BTreeMap::new(),
            duplicates: BTreeMap::new(),
            aliens: Vec::new(),
            given: RecordMarks::default(),
            order: Order::default(),
        }
    }

    pub fn tally(&mut self, phase: u16, kind: u16) -> &mut (AnswerVerdict, Examples) {
        self.tallies.entry((phase, kind)).or_default()
    }

    /// Clears the findings.
    pub fn forget(&mut self) {
        self.tallies.clear();
        self.shown.clear();
        self.waiting.clear();
        self.waiting_rows = 0;
        self.stale.clear();
        self.duplicates.clear();
        self.aliens.clear();
    }

    /// Judges an answer of one value if it is plain: the value of the write that was told last, and nothing to be weighed.
    /// [`Judge::take`] would judge such an answer as right, too. False if it is not plain; nothing is counted then.
    #[inline]
    pub fn take_plain(&mut self, records: &mut Records, event: &LoggedOperation) -> bool {
        let is_one = event.outcome == Outcome::Ok && event.row_count == 1;
        let from_ns = Interval::of(event).from_ns;
        if !is_one || !records.shows_last(event.id, event.stamp, from_ns, event.finished_ns) {
            return false;
        }
        if self.plain.0 != event.phase {
            self.count_plain();
            self.plain.0 = event.phase;
        }
        self.plain.1[usize::from(event.kind)] += 1;
        true
    }

    /// Adds the plain answers to the tallies.
    pub fn count_plain(&mut self) {
        let phase = self.plain.0;
        for (kind, count) in (0u16..).zip(&mut self.plain.1).filter(|(_, count)| **count > 0) {
            let (verdict, _) = self.tallies.entry((phase, kind)).or_default();
            verdict.answers += *count;
            verdict.got += *count;
            verdict.expected += *count;
            *count = 0;
        }
    }

    /// Holds an answer against the records, or keeps it until more is known.
    pub fn take(&mut self, records: &mut Records, answered: Answered<'_>) {
        let Err(why) = self.hear(records, answered) else { return };
        let Answered { event, rows, bounds, .. } = answered;
        let write = match why {
            Why::Open(number) => Some((number, records.state(number).stamp)),
            _ => None,
        };
        let is_full = self.waiting.len() >= WAITING_MAX || self.waiting_rows + rows.len() > WAITING_ROWS_MAX;
        if why == Why::Forgotten || is_full {
            self.tally(event.phase, event.kind).0.unanswered += 1;
        } else {
            self.waiting_rows += rows.len();
            self.waiting.push(Waiting { event: *event, rows: rows.to_vec(), bounds: bounds.clone(), write });
        }
    }

    /// Holds the answers that had to wait against what is known now.
    pub fn take_waiting(&mut self, records: &mut Records, told_ns: u64) {
        for waiting in std::mem::take(&mut self.waiting) {
            if waiting.write.is_some_and(|(number, stamp)| records.is_open(number, stamp)) {
                self.waiting.push(waiting);
            } else {
                let Waiting { event, rows, bounds, .. } = waiting;
                self.waiting_rows -= rows.len();
                self.take(records, Answered { event: &event, rows: &rows, bounds: &bounds, told_ns });
            }
        }
    }

    /// Returns the send time of the oldest question whose answer waits.
    pub fn earliest_ns(&self) -> u64 {
        self.waiting.iter().map(|waiting| waiting.event.sent_ns).min().unwrap_or(NEVER)
    }

    /// Answers of a kind in a phase that wait.
    pub fn waiting(&self, phase: u16, kind: u16) -> u64 {
        let of = |waiting: &&Waiting| (waiting.event.phase, waiting.event.kind) == (phase, kind);
        self.waiting.iter().filter(of).count() as u64
    }

    /// Judges an answer. If that is not possible now, nothing is counted.
    fn hear(&mut self, records: &mut Records, answered: Answered<'_>) -> Result<(), Why> {
        let event = answered.event;
        if event.finished_ns == NEVER || !matches!(event.outcome, Outcome::Ok | Outcome::NotFound) {
            self.tally(event.phase, event.kind).0.unanswered += 1;
            return Ok(());
        }
        let watch = self.watches[usize::from(event.kind)];
        let findings = match watch {
            Watch::Range => self.range(records, answered)?,
            Watch::Find { field } => self.set(records, answered, Some(field))?,
            Watch::All => self.set(records, answered, None)?,
            _ => return self.one(records, answered, watch.writes()),
        };
        self.count_several(records, event, answered.rows, findings);
        Ok(())
    }

    /// The answer to a question for one record by its key.
    fn one(&mut self, records: &mut Records, answered: Answered<'_>, is_write: bool) -> Result<(), Why> {
        let Answered { event, rows, .. } = answered;
        let at = Interval::of(event);
        // First, for what an answer shows has been seen, whenever it is judged.
        let mut worth = Ok(Worth::Right);
        for (place, row) in rows.iter().enumerate() {
            let of_row = self.worth(records, *row, answered);
            if place == 0 {
                worth = of_row;
            }
        }
        if event.outcome == Outcome::NotFound && !is_write {
            records.see_absence(event.id, event.sent_ns, event.finished_ns);
        }
        let worth = worth?;
        let is_present = records.presence(event.id, at)?;
        let (verdict, examples) = self.tallies.entry((event.phase, event.kind)).or_default();
        verdict.answers += 1;
        verdict.got += u64::from(event.row_count);
        verdict.expected += u64::from(is_present);
        let Some(row) = rows.first() else {
            if is_present {
                verdict.missing += 1;
                let words = Words::new(&*self.workload);
                examples.add("missing", || words.missing(event, event.id, records.stood(event.id, at).as_ref()));
            }
            return Ok(());
        };
        if worth == Worth::Right && row.id == event.id && rows.len() == 1 {
            return Ok(());
        }
        let words = Words::new(&*self.workload);
        for row in &rows[1..] {
            verdict.duplicated += 1;
            note(&mut self.duplicates, (event.phase, event.kind, start_of_tick(event.finished_ns)));
            examples.add("duplicated", || words.has(event, *row, AGAIN));
        }
        if row.id != ALIEN && row.id != event.id {
            verdict.wrong_content += 1;
            examples.add("wrong_content", || words.other_record(event, *row));
        } else {
            self.count(records, event, *row, worth);
        }
        Ok(())
    }

    /// The answer to a question for all records whose field is within bounds, or for all there are.
    fn set(&mut self, records: &mut Records, answered: Answered<'_>, field: Option<u16>) -> Result<Findings, Why> {
        let Answered { event, rows, bounds, .. } = answered;
        let at = Interval::of(event);
        let mut findings = Findings { worths: self.worths(records, answered)?, ..Findings::default() };
        if at.from_ns < records.retired_before_ns {
            return Err(Why::Forgotten);
        }
        let is_asked = |records: &Records, number: u32, stamp: i64| match field {
            None => !is_absent(stamp),
            Some(field) => records.contents.matches(number, field, bounds),
        };
        let record_count = records.len().max(self.workload.record_count() as usize);
        self.given.next_question(record_count);
        for (row, worth) in rows.iter().zip(&mut findings.worths) {
            if self.given.is_again(row.id) {
                findings.misplaced.push((OrderFault::Duplicated, *row));
                // The first of them is judged like those that are there once.
                *worth = Worth::Right;
                continue;
            }
            let mut states = records.states_of(row.id).filter(|(_, state)| state.stamp == row.stamp);
            let matches = states.next().is_none_or(|(number, state)| is_asked(records, number, state.stamp));
            match *worth {
                Worth::Right if !matches => findings.misplaced.push((OrderFault::NotMatching, *row)),
                Worth::RightUnlessRefused(number) if !matches => return Err(Why::Open(number)),
                _ => {}
            }
        }
        let candidates = match field {
            Some(field) => records.contents.matching(field, bounds),
            None => (0..record_count as u32).collect(),
        };
        for id in candidates {
            let has_to_be = match field {
                Some(_) => records.always(id, at, |number, state| is_asked(records, number, state.stamp))?,
                None => records.presence(id, at)?,
            };
            if has_to_be {
                findings.expect(id, &self.given);
            }
        }
        Ok(findings)
    }

    /// Judges each row. All are looked at, whenever the answer is judged.
    pub fn worths(&self, records: &mut Records, answered: Answered<'_>) -> Result<Vec<Worth>, Why> {
        let worths: Vec<_> = answered.rows.iter().map(|row| self.worth(records, *row, answered)).collect();
        worths.into_iter().collect()
    }

    /// Judges `row` in this answer.
    fn worth(&self, records: &mut Records, row: Row, answered: Answered<'_>) -> Result<Worth, Why> {
        let Answered { event, told_ns, .. } = answered;
        let at = Interval::of(event);
        // Everything has been told that was sent until the answer came.
        let is_told = at.to_ns < told_ns || told_ns == NEVER;
        let is_of_load = u64::from(row.id) < self.workload.record_count();
        if !is_of_load && !records.has_come(row.id, at.to_ns) {
            // A write of it may not have been told yet.
            return if row.id == ALIEN || is_told { Ok(Worth::Alien) } else { Err(Why::Untold) };
        }
        if row.stamp == NO_STAMP || records.is_spoilt(row) {
            return Ok(Worth::WrongContent);
        }
        match records.look(row.id, row.stamp, at, event.finished_ns) {
            Look::Alive => return Ok(Worth::Right),
            Look::AliveUnlessRefused(number) => return Ok(Worth::RightUnlessRefused(number)),
            Look::Open(number) => return Err(Why::Open(number)),
            Look::Stale(number) => return Ok(Worth::Stale(Some(number))),
            Look::Gone => {}
        }
        if records.is_refused(row.id, row.stamp) {
            return Ok(Worth::Refused);
        }
        let is_later = || records.states_of(row.id).any(|(_, state)| state.stamp == row.stamp);
        if records.has_ended(row.id, row.stamp, is_of_load) && !is_later() {
            if at.from_ns < records.retired_before_ns {
                return Err(Why::Forgotten);
            }
            records.past.seen(row.id, row.stamp);
            return Ok(Worth::Stale(None));
        }
        if is_told { Ok(Worth::WrongContent) } else { Err(Why::Untold) }
    }

    fn count_several(&mut self, records: &mut Records, event: &LoggedOperation, rows: &[Row], findings: Findings) {
        let (verdict, examples) = self.tallies.entry((event.phase, event.kind)).or_default();
        let words = Words::new(&*self.workload);
        let Findings { worths, misplaced, expected, missing } = findings;
        verdict.answers += 1;
        verdict.got += rows.len() as u64;
        verdict.expected += expected;
        verdict.missing += missing.len() as u64;
        for id in missing.into_iter().take(EXAMPLES_PER_SORT) {
            let stood = records.stood(id, Interval::of(event));
            examples.add("missing", || words.missing(event, id, stood.as_ref()));
        }
        for (place, row) in misplaced {
            let behind = " behind a record that should follow it";
            let (count, sort, what) = match place {
                OrderFault::Duplicated => (&mut verdict.duplicated, "duplicated", AGAIN),
                OrderFault::NotMatching => (&mut verdict.not_matching, "not_matching", ", which does not match"),
                OrderFault::Disordered => (&mut verdict.disordered, "disordered", behind),
            };
            *count += 1;
            if matches!(place, OrderFault::Duplicated) {
                note(&mut self.duplicates, (event.phase, event.kind, start_of_tick(event.finished_ns)));
            }
            examples.add(sort, || words.has(event, row, what));
        }
        for (row, worth) in rows.iter().zip(worths).filter(|(_, worth)| *worth != Worth::Right) {
            self.count(records, event, *row, worth);
        }
    }

    /// Counts a row that is not simply right.
    fn count(&mut self, records: &mut Records, event: &LoggedOperation, row: Row, worth: Worth) {
        let (verdict, examples) = self.tallies.entry((event.phase, event.kind)).or_default();
        let words = Words::new(&*self.workload);
        match worth {
            Worth::Right => {}
            Worth::RightUnlessRefused(number) => {
                records.state_mut(number).is_shown = true;
                let all = self.shown.entry(number).or_default();
                let place = all.iter().position(|one| (one.phase, one.kind) == (event.phase, event.kind));
                let place = place.unwrap_or_else(|| {
                    all.push(Shown { phase: event.phase, kind: event.kind, count: 0, some: Vec::new() });
                    all.len() - 1
                });
                all[place].count += 1;
                if all[place].some.len() < EXAMPLES_PER_SORT {
                    all[place].some.push((*event, row));
                }
            }
            Worth::Alien => {
                verdict.alien += 1;
                let kept = usize::try_from(row.stamp).ok().and_then(|place| self.aliens.get(place));
                examples.add("alien", || words.alien(event, row, kept.map_or(Value::Null, OwnedValue::value)));
            }
            Worth::WrongContent => {
                verdict.wrong_content += 1;
                examples.add("wrong_content", || words.has(event, row, &format!(" with {}", claim(row))));
            }
            Worth::Refused => {
                verdict.refused += 1;
                examples.add("refused", || words.has(event, row, REFUSED));
            }
            Worth::Stale(number) => {
                verdict.stale += 1;
                let tick_ns = start_of_tick(event.finished_ns);
                note(&mut self.stale, (event.phase, event.kind, tick_ns, event.server));
                examples.add("stale", || {
                    let was = number.map(|number| records.state(number).effect());
                    let was = was.or_else(|| records.past.find(row.id, row.stamp));
                    words.stale(event, row, was.as_ref(), records.stood(row.id, Interval::of(event)).as_ref())
                });
            }
        }
    }

    /// Handles the outcome of a write that answers had shown while it was open.
    pub fn settle(&mut self, number: u32, outcome: Outcome) {
        let Some(all) = self.shown.remove(&number) else { return };
        if !matches!(outcome, Outcome::NotFound | Outcome::Rejected) {
            return;
        }
        for shown in all {
            let (verdict, examples) = self.tallies.entry((shown.phase, shown.kind)).or_default();
            verdict.refused += shown.count;
            let words = Words::new(&*self.workload);
            for (event, row) in shown.some {
                examples.add("refused", || words.has(&event, row, REFUSED));
            }
        }
    }
}

impl Findings {
    /// The record had to be there.
    pub fn expect(&mut self, id: u32, given: &RecordMarks) {
        self.expected += 1;
        if !given.is_given(id) {
            self.missing.push(id);
        }
    }
}
