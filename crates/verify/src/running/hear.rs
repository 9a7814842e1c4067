//! Holds an answer against what each record can have been, and counts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use plimsoll_core::{Outcome, Value, Workload};

use super::range::Order;
use super::records::{Absence, Look, Records};
use crate::answers::AnswerVerdict;
use crate::log::{ALIEN, Event, NEVER, NO_STAMP, Row, Watch};
use crate::timeline::Interval;
use crate::words::{Examples, Words};

/// Answers that may wait at most: 96 bytes each and their records.
const WAITING_MAX: usize = 1 << 16;
/// Answers kept, to be shown, of those that show a write which is open.
const SHOWN_KEPT: usize = 3;

/// An answer that cannot be judged yet.
#[derive(Debug)]
pub(super) struct Waiting {
    pub event: Event,
    pub rows: Vec<Row>,
}

/// Why an answer is not judged now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// It depends on what becomes of a write that is open.
    Open,
    /// What it shows may have been sent by a worker that has not told it yet.
    Untold,
    /// It was asked so long ago that what it may show is not known any more.
    Forgotten,
}

/// Answers of one kind in one phase that show a write which was open.
#[derive(Debug)]
struct Shown {
    phase: u16,
    kind: u16,
    count: u64,
    some: Vec<(Event, Row)>,
}

/// What a row of an answer is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Worth {
    Right,
    /// Right unless the write with this number is refused yet.
    RightUnlessRefused(u32),
    Alien,
    WrongContent,
    Refused,
    /// It shows this state, if it is known still.
    Stale(Option<u32>),
}

/// What has been found so far, and what is needed to go on.
pub(super) struct Bench {
    pub workload: Arc<dyn Workload>,
    watches: Arc<[Watch]>,
    pub tallies: BTreeMap<(u16, u16), (AnswerVerdict, Examples)>,
    shown: HashMap<u32, Vec<Shown>>,
    /// The records in the order of their keys, once a range of them was asked for.
    pub order: Option<Order>,
}

impl Bench {
    pub fn new(workload: Arc<dyn Workload>, watches: Arc<[Watch]>) -> Self {
        Self { workload, watches, tallies: BTreeMap::new(), shown: HashMap::new(), order: None }
    }

    pub fn tally(&mut self, phase: u16, kind: u16) -> &mut (AnswerVerdict, Examples) {
        self.tallies.entry((phase, kind)).or_default()
    }

    /// Forgets what has been found.
    pub fn forget(&mut self) {
        self.tallies.clear();
        self.shown.clear();
    }

    /// Keeps an answer until more is known, as far as there is room.
    pub fn wait(&mut self, waiting: &mut Vec<Waiting>, event: Event, rows: &[Row], why: Why) {
        if why == Why::Forgotten || waiting.len() >= WAITING_MAX {
            self.tally(event.phase, event.kind).0.unanswered += 1;
        } else {
            waiting.push(Waiting { event, rows: rows.to_vec() });
        }
    }

    /// Holds an answer against the records. `is_told` when everything has been told that was sent until it came. When
    /// it cannot be judged nothing is counted.
    pub fn hear(
        &mut self,
        records: &mut Records,
        event: &Event,
        rows: &[Row],
        aliens: &[String],
        is_told: bool,
    ) -> Result<(), Why> {
        if event.finished_ns == NEVER || !matches!(event.outcome, Outcome::Ok | Outcome::NotFound) {
            self.tally(event.phase, event.kind).0.unanswered += 1;
            return Ok(());
        }
        match self.watches[usize::from(event.kind)] {
            Watch::Range => self.range(records, event, rows, aliens, is_told),
            _ => self.value(records, event, rows.first().copied(), is_told),
        }
    }

    /// The answer to a question for the value under one key.
    fn value(&mut self, records: &mut Records, event: &Event, row: Option<Row>, is_told: bool) -> Result<(), Why> {
        let at = Interval::of(event);
        // First, for what it shows has been seen, whenever the answer is judged.
        let worth = row.map(|row| self.worth(records, row, at, event.finished_ns, is_told)).transpose()?;
        let present = match records.absence(event.id, at) {
            Absence::Open => return Err(Why::Open),
            absence => absence == Absence::No,
        };
        let (verdict, _) = self.tallies.entry((event.phase, event.kind)).or_default();
        verdict.answers += 1;
        verdict.got += u64::from(event.row_count);
        verdict.expected += u64::from(present);
        match (worth, row) {
            (Some(Worth::Right), _) => {}
            (Some(worth), Some(row)) => self.count(records, event, row, worth, &[]),
            _ if present => {
                let (verdict, examples) = self.tallies.entry((event.phase, event.kind)).or_default();
                verdict.missing += 1;
                let words = Words::new(&*self.workload);
                examples.add("missing", || words.missing(event, event.id, records.stood(event.id, at).as_ref()));
            }
            _ => {}
        }
        Ok(())
    }

    /// What `row` is worth in an answer to a question that was open during `at`.
    pub fn worth(
        &self,
        records: &mut Records,
        row: Row,
        at: Interval,
        finished_ns: u64,
        is_told: bool,
    ) -> Result<Worth, Why> {
        let record_count = self.workload.record_count();
        let is_of_load = u64::from(row.id) < record_count;
        if !is_of_load && !records.has_come(row.id, at.to_ns) {
            // A write of it may not have been told yet.
            return if row.id == ALIEN || is_told { Ok(Worth::Alien) } else { Err(Why::Untold) };
        }
        if row.stamp == NO_STAMP {
            return Ok(Worth::WrongContent);
        }
        match records.look(row.id, row.stamp, at, finished_ns) {
            Look::Alive => return Ok(Worth::Right),
            Look::AliveUnlessRefused(number) => return Ok(Worth::RightUnlessRefused(number)),
            Look::Open => return Err(Why::Open),
            Look::Stale(number) => return Ok(Worth::Stale(Some(number))),
            Look::Gone => {}
        }
        if records.is_refused(row.id, row.stamp) {
            return Ok(Worth::Refused);
        }
        let is_later = || records.states_of(row.id).any(|(_, state)| state.stamp == row.stamp);
        if records.has_ended(row.id, row.stamp, is_of_load) && !is_later() {
            if at.from_ns <= records.retired_to_ns {
                return Err(Why::Forgotten);
            }
            records.past.seen(row.id, row.stamp);
            return Ok(Worth::Stale(None));
        }
        if is_told { Ok(Worth::WrongContent) } else { Err(Why::Untold) }
    }

    /// Counts a row that is not simply right.
    pub fn count(&mut self, records: &mut Records, event: &Event, row: Row, worth: Worth, aliens: &[String]) {
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
                if all[place].some.len() < SHOWN_KEPT {
                    all[place].some.push((*event, row));
                }
            }
            Worth::Alien => {
                verdict.alien += 1;
                let kept = usize::try_from(row.stamp).ok().and_then(|place| aliens.get(place));
                let kept = kept.map_or(Value::Null, |key| Value::Text(key));
                examples.add("alien", || words.alien(event, row, kept));
            }
            Worth::WrongContent => {
                verdict.wrong_content += 1;
                examples.add("wrong_content", || words.wrong_content(event, row));
            }
            Worth::Refused => {
                verdict.refused += 1;
                examples.add("refused", || words.refused(event, row));
            }
            Worth::Stale(number) => {
                verdict.stale += 1;
                examples.add("stale", || {
                    let was = number.map(|number| records.state(number).effect());
                    let was = was.or_else(|| records.past.find(row.id, row.stamp));
                    words.stale(event, row, was.as_ref(), records.stood(row.id, Interval::of(event)).as_ref())
                });
            }
        }
    }

    /// What became of a write that answers had shown while it was open.
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
                examples.add("refused", || words.refused(&event, row));
            }
        }
    }
}
