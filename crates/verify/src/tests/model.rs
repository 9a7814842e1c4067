//! The rule once more, as plainly as it can be said: the whole history is kept, and everything is held against everything.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use plimsoll_core::{
    Answer, Observer, Op, Outcome, OwnedValue, TICK_NS, Ticket, Truth, ValueBuf, Values, Version, Workload,
};

use super::twins::Watcher;
use crate::log::{CLOCK_SKEW_NS, NEVER, Watch};
use crate::{AnswerVerdict, LedgerVerdict};

/// A write of one record.
#[derive(Debug, Clone, Copy)]
struct Write {
    id: u64,
    /// `None` of a delete.
    stamp: Option<i64>,
    sent_ns: u64,
    end_ns: u64,
    outcome: Outcome,
    /// Time by which it has happened.
    done_ns: u64,
    seen_ns: u64,
}

/// A record in an answer: its number, if it is one, and its version, if every value is as that version has it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Row {
    id: Option<u64>,
    stamp: Option<i64>,
}

#[derive(Debug, Clone)]
struct Question {
    phase: u16,
    kind: u16,
    watch: Watch,
    id: Option<u64>,
    bounds: [OwnedValue; 2],
    sent_ns: u64,
    end_ns: u64,
    outcome: Outcome,
    rows: Vec<Row>,
    row_count: u64,
}

#[derive(Debug, Default)]
struct History {
    writes: Vec<Write>,
    /// Positions of the writes of each record.
    places: BTreeMap<u64, Vec<usize>>,
    questions: Vec<Question>,
    found: Vec<Row>,
}

#[derive(Clone)]
pub struct Model {
    workload: Arc<dyn Workload>,
    history: Arc<Mutex<History>>,
}

/// Writes down what one worker does.
struct Scribe {
    model: Model,
    phase: u16,
    reads_back: bool,
    /// Question of each ticket, and the positions of its writes.
    open: BTreeMap<u32, (Question, std::ops::Range<usize>)>,
}

impl Watcher for Model {
    fn observers(&mut self, phase: u16, workers: usize, _: usize, reads_back: bool) -> Vec<Box<dyn Observer>> {
        let scribe = |_| Scribe { model: self.clone(), phase, reads_back, open: BTreeMap::new() };
        (0..workers).map(|worker| Box::new(scribe(worker)) as Box<dyn Observer>).collect()
    }

    fn drain(&mut self) {}
}

impl Observer for Scribe {
    fn sent(&mut self, ticket: Ticket, at_ns: u64, client: u32, cycle: u64, op: &Op<'_>) {
        let truth = self.model.workload.truth().unwrap();
        let watch = self.model.watch(op.kind);
        let mut history = self.model.history();
        let first = history.writes.len();
        let own = Version::Written { client, cycle }.stamp();
        let columns = if let Watch::Insert { columns } = watch { columns } else { op.params.len().max(1) };
        for row in op.params.rows(columns).filter(|_| watch.writes()) {
            let stamp = match watch {
                Watch::Delete => None,
                Watch::Update => Some(own),
                _ => truth.version(row).map(Version::stamp),
            };
            history.writes.push(Write {
                id: truth.record_id(row.get(0)).unwrap(),
                stamp,
                sent_ns: at_ns,
                end_ns: NEVER,
                outcome: Outcome::Unknown,
                done_ns: NEVER,
                seen_ns: NEVER,
            });
        }
        let question = Question {
            phase: self.phase,
            kind: op.kind,
            watch,
            id: truth.record_id(op.params.get(0)),
            bounds: [OwnedValue::from(op.params.get(0)), OwnedValue::from(op.params.get(1))],
            sent_ns: at_ns,
            end_ns: NEVER,
            outcome: Outcome::Unknown,
            rows: Vec::new(),
            row_count: 0,
        };
        self.open.insert(ticket.0, (question, first..history.writes.len()));
    }

    fn finished(&mut self, ticket: Ticket, at_ns: u64, outcome: Outcome, answer: &Answer) {
        let (question, writes) = self.open.remove(&ticket.0).unwrap();
        let mut history = self.model.history();
        let end_ns = if outcome == Outcome::Unknown { NEVER } else { at_ns };
        for write in &mut history.writes[writes] {
            (write.outcome, write.end_ns) = (outcome, end_ns);
        }
        let mut question = Question { end_ns, outcome, ..question };
        if outcome == Outcome::Ok {
            question.rows = self.model.rows(answer, question.id.filter(|_| question.watch == Watch::Value));
            question.row_count = answer.rows;
        }
        // A write that found no record is an answer too.
        let is_of_one = !matches!(question.watch, Watch::Insert { .. });
        match (self.reads_back, question.watch.writes() && !(is_of_one && outcome == Outcome::NotFound)) {
            (true, _) => history.found.append(&mut question.rows),
            (false, true) => {}
            (false, false) => history.questions.push(question),
        }
    }
}

impl Drop for Scribe {
    fn drop(&mut self) {
        let questions = std::mem::take(&mut self.open).into_values().map(|(question, _)| question);
        self.model.history().questions.extend(questions.filter(|question| !question.watch.writes()));
    }
}

/// Verdict on a row of an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Worth {
    /// State made by the write at this position.
    Right(usize),
    Alien,
    Content,
    Refused,
    Stale(usize),
}

impl Model {
    pub fn new(workload: Arc<dyn Workload>) -> Self {
        Self { workload, history: Arc::default() }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap()
    }

    fn truth(&self) -> &dyn Truth {
        self.workload.truth().unwrap()
    }

    fn watch(&self, kind: u16) -> Watch {
        let columns = self.workload.layout().collections.first().map_or(2, |collection| collection.fields.len());
        Watch::of(&self.workload.kinds()[usize::from(kind)], columns)
    }

    /// The rows of an answer; of the value under the key of record `under` the first.
    fn rows(&self, answer: &Answer, under: Option<u64>) -> Vec<Row> {
        let row = |values: Values<'_>| {
            let id = under.or_else(|| self.truth().record_id(values.get(0)));
            let version = match under {
                Some(id) => self.truth().version_under(id, values),
                None => self.truth().version(values),
            };
            let mut is = ValueBuf::new();
            let version = version.zip(id).filter(|(version, id)| {
                self.truth().row(*id, *version, &mut is);
                let is = is.values().slice(usize::from(under.is_some())..is.len());
                is.iter().eq(values.iter())
            });
            Row { id, stamp: version.map(|(version, _)| version.stamp()) }
        };
        answer.row_iter().take(if under.is_some() { 1 } else { usize::MAX }).map(row).collect()
    }

    /// Returns all verdicts; `below` is the upper bound of `index`, the answer of the store's index at the end.
    pub fn verdicts(&self, all: &Answer, index: &Answer, below: i64) -> (Vec<AnswerVerdict>, LedgerVerdict) {
        let mut history = self.history();
        let history = &mut *history;
        history.see();
        history.found.extend(self.rows(all, None));
        let mut answers: BTreeMap<(u16, u16), AnswerVerdict> = BTreeMap::new();
        for question in &history.questions {
            let key = (question.phase, question.kind);
            let kind_name = self.workload.kinds()[usize::from(question.kind)].name.clone();
            let verdict = answers.entry(key).or_insert_with(|| AnswerVerdict {
                phase: question.phase,
                kind: question.kind,
                kind_name,
                ..AnswerVerdict::default()
            });
            self.answer(history, question, verdict);
        }
        let mut ledger = self.ledger(history);
        ledger.index_disagrees = self.index(history, &self.rows(index, None), below);
        (answers.into_values().collect(), ledger)
    }

    /// Records that were loaded or that anybody tried to write.
    fn records(&self, history: &History) -> u64 {
        let written = history.writes.iter().map(|write| write.id + 1).max();
        written.unwrap_or(0).max(self.workload.record_count())
    }

    fn worth(&self, history: &History, row: Row, (from_ns, to_ns): (u64, u64)) -> Worth {
        let Some(id) = row.id else { return Worth::Alien };
        if id >= self.workload.record_count() && !history.of(id).any(|(_, write)| write.sent_ns <= to_ns) {
            return Worth::Alien;
        }
        if row.stamp.is_none() {
            return Worth::Content;
        }
        let shown: Vec<usize> = history
            .of(id)
            .filter(|(_, write)| write.stamp == row.stamp && write.sent_ns <= to_ns)
            .map(|(place, _)| place)
            .collect();
        let is_alive = |place: &&usize| history.is_alive(**place, (from_ns, to_ns));
        let happened = |place: &&usize| !history.writes[**place].is_refused();
        match (shown.iter().rfind(is_alive), shown.iter().rfind(happened), shown.last()) {
            (Some(place), ..) => Worth::Right(*place),
            (None, Some(place), _) => Worth::Stale(*place),
            (None, None, Some(_)) => Worth::Refused,
            (None, None, None) => Worth::Content,
        }
    }

    fn matches(&self, id: u64, stamp: Option<i64>, question: &Question) -> bool {
        let Watch::Find { field } = question.watch else { return stamp.is_some() };
        let Some(version) = stamp.and_then(Version::from_stamp) else { return false };
        let mut row = ValueBuf::new();
        self.truth().row(id, version, &mut row);
        let [low, high] = &question.bounds;
        row.values().get(usize::from(field)).lies_in(low.value(), high.value())
    }

    fn answer(&self, history: &History, question: &Question, verdict: &mut AnswerVerdict) {
        if !matches!(question.outcome, Outcome::Ok | Outcome::NotFound) {
            verdict.unanswered += 1;
            return;
        }
        let Question { rows, watch, .. } = question;
        verdict.answers += 1;
        verdict.got += question.row_count;
        let at = (question.sent_ns.saturating_sub(CLOCK_SKEW_NS), question.end_ns + CLOCK_SKEW_NS);
        let is_one = !matches!(watch, Watch::Range | Watch::Find { .. } | Watch::All);
        // What is asked for, least key first.
        let mut asked: Vec<u64> = (0..self.records(history)).collect();
        if is_one {
            asked.retain(|id| Some(*id) == question.id);
        } else if *watch == Watch::Range {
            asked.sort_by_key(|id| self.key(*id));
            let first = asked.iter().position(|id| Some(*id) == question.id).unwrap();
            asked.drain(..first);
        }
        let (mut had, mut end): (Vec<u64>, Option<OwnedValue>) = (Vec::new(), None);
        for (place, row) in rows.iter().enumerate() {
            let is_again = row.id.is_some_and(|id| had.contains(&id));
            if is_one && place > 0 || is_again && *watch != Watch::Range {
                verdict.duplicated += 1;
                continue;
            }
            if is_one && row.id.is_some() && row.id != question.id {
                verdict.wrong_content += 1;
                continue;
            }
            let worth = self.worth(history, *row, at);
            match worth {
                Worth::Right(_) => {}
                Worth::Alien => verdict.alien += 1,
                Worth::Content => verdict.wrong_content += 1,
                Worth::Refused => verdict.refused += 1,
                Worth::Stale(_) => verdict.stale += 1,
            }
            let Some(id) = row.id.filter(|_| worth != Worth::Alien || *watch != Watch::Range) else { continue };
            had.push(id);
            if *watch == Watch::Range {
                let key = self.key(id);
                verdict.duplicated += u64::from(is_again);
                verdict.not_matching += u64::from(!is_again && !asked.contains(&id));
                let is_behind = end.as_ref().is_some_and(|end| key < *end);
                verdict.disordered += u64::from(!is_again && asked.contains(&id) && is_behind);
                end = end.max(Some(key));
            } else if matches!(worth, Worth::Right(_)) && !is_one && !self.matches(id, row.stamp, question) {
                verdict.not_matching += 1;
            }
        }
        let mut wanting = usize::MAX;
        if *watch == Watch::Range {
            let [_, OwnedValue::Int(count)] = question.bounds else { panic!("ranges ask for a number of records") };
            verdict.not_matching += (rows.len() as u64).saturating_sub(count as u64);
            wanting = (count as usize).saturating_sub(rows.len());
            if wanting == 0 {
                asked.retain(|id| end.as_ref().is_some_and(|end| self.key(*id) <= *end));
                wanting = usize::MAX;
            }
        }
        for id in asked {
            let mut alive = history.alive(id, at);
            if alive.all(|write| write.is_some_and(|write| is_one || self.matches(id, write.stamp, question)))
                && !(is_one && history.alive(id, at).any(|write| write.is_none_or(|write| write.stamp.is_none())))
            {
                verdict.expected += 1;
                let is_given = if is_one { !rows.is_empty() } else { had.contains(&id) };
                verdict.missing += u64::from(!is_given);
                wanting -= usize::from(!is_given);
                if wanting == 0 {
                    return;
                }
            }
        }
    }

    fn key(&self, id: u64) -> OwnedValue {
        let mut key = ValueBuf::new();
        self.truth().key(id, &mut key);
        OwnedValue::from(key.values().get(0))
    }

    fn ledger(&self, history: &History) -> LedgerVerdict {
        let count = |outcomes: &[Outcome]| {
            history.writes.iter().filter(|write| outcomes.contains(&write.outcome)).count() as u64
        };
        let mut verdict = LedgerVerdict {
            acknowledged: count(&[Outcome::Ok]),
            rejected: count(&[Outcome::Rejected, Outcome::NotFound]),
            unknown: count(&[Outcome::Unknown]),
            read_back: history.found.len() as u64,
            ..LedgerVerdict::default()
        };
        let records = self.records(history);
        verdict.alien = history.found.iter().filter(|row| row.id.is_none_or(|id| id >= records)).count() as u64;
        for id in 0..records {
            let mut rows = history.found.iter().filter(|row| row.id == Some(id));
            let first = rows.next();
            verdict.duplicated += rows.count() as u64;
            match first.map(|row| self.worth(history, *row, END)) {
                Some(Worth::Right(place)) => {
                    verdict.borne_out += u64::from(history.writes[place].outcome == Outcome::Ok);
                }
                Some(Worth::Stale(place)) => history.overtaken(id, Some(place), &mut verdict),
                Some(Worth::Refused) => verdict.refused += 1,
                Some(Worth::Content | Worth::Alien) => verdict.wrong_content += 1,
                None => match history.alive(id, END).filter(|write| write.is_none_or(|one| one.stamp.is_none())).last()
                {
                    Some(delete) => {
                        verdict.borne_out += u64::from(delete.is_some_and(|delete| delete.outcome == Outcome::Ok));
                    }
                    None => {
                        let deletes = history.of(id).filter(|(_, write)| write.stamp.is_none() && !write.is_refused());
                        history.lost(id, deletes.last().map(|(place, _)| place), &mut verdict);
                    }
                },
            }
        }
        let bound = (3.0 / verdict.borne_out as f64).min(1.0);
        verdict.loss_upper_bound = (verdict.lost == 0 && verdict.borne_out > 0).then_some(bound);
        verdict
    }

    fn index(&self, history: &History, by_index: &[Row], below: i64) -> u64 {
        let find = (0..).zip(self.workload.kinds()).map(|(kind, _)| self.watch(kind));
        let Some(watch) = find.into_iter().find(|watch| matches!(watch, Watch::Find { .. })) else { return 0 };
        let question = Question {
            phase: 0,
            kind: 0,
            watch,
            id: None,
            bounds: [OwnedValue::Null, OwnedValue::Int(below)],
            sent_ns: 0,
            end_ns: 0,
            outcome: Outcome::Ok,
            rows: Vec::new(),
            row_count: 0,
        };
        let is_unsure = |id: u64| history.alive(id, END).count() > 1;
        let mut by_record: BTreeMap<u64, Row> = BTreeMap::new();
        for row in &history.found {
            if let (Some(id), true) = (row.id, row.id.is_some_and(|id| self.holds(id, row.stamp, &question))) {
                by_record.insert(id, *row);
            }
        }
        let mut disagrees = 0;
        for row in by_index {
            let is_known = row.id.is_some_and(|id| is_unsure(id) && self.holds(id, row.stamp, &question));
            let is_possible = is_known && matches!(self.worth(history, *row, END), Worth::Right(_));
            let is_there = row.id.is_some_and(|id| by_record.remove(&id) == Some(*row));
            disagrees += u64::from(!is_there && !is_possible);
        }
        disagrees + by_record.keys().filter(|id| !is_unsure(**id)).count() as u64
    }

    /// Returns true if a row that is shown matches; a spoilt one here has a value above all bounds.
    fn holds(&self, id: u64, stamp: Option<i64>, question: &Question) -> bool {
        stamp.is_some() && self.matches(id, stamp, question)
    }
}

/// Interval after all others.
const END: (u64, u64) = (NEVER, NEVER);

impl Write {
    fn is_refused(&self) -> bool {
        matches!(self.outcome, Outcome::NotFound | Outcome::Rejected)
    }
}

impl History {
    /// Returns the writes in the order in which they were sent.
    fn of(&self, id: u64) -> impl Iterator<Item = (usize, &Write)> {
        let places = self.places.get(&id).map_or(&[][..], Vec::as_slice);
        places.iter().map(|place| (*place, &self.writes[*place]))
    }

    /// Finds out what had happened by when: what was acknowledged, and what was shown.
    fn see(&mut self) {
        self.writes.sort_by_key(|write| write.sent_ns);
        for (place, write) in self.writes.iter().enumerate() {
            self.places.entry(write.id).or_default().push(place);
        }
        for place in 0..self.writes.len() {
            let write = self.writes[place];
            let shows = |question: &&Question| match write.stamp {
                _ if question.end_ns == NEVER || write.sent_ns > question.end_ns => false,
                Some(_) => question.rows.contains(&Row { id: Some(write.id), stamp: write.stamp }),
                // The last delete that had been acknowledged before is what was seen.
                None => {
                    let is_seen = |other: &Write| {
                        other.stamp.is_none() && other.outcome == Outcome::Ok && other.end_ns <= question.sent_ns
                    };
                    let last = self.of(write.id).filter(|(_, other)| is_seen(other)).last();
                    let is_read = matches!(question.watch, Watch::Get | Watch::Value);
                    question.outcome == Outcome::NotFound
                        && is_read
                        && question.id == Some(write.id)
                        && last.is_some_and(|(last, _)| last == place)
                }
            };
            let seen_ns = self.questions.iter().filter(shows).map(|question| question.end_ns).min().unwrap_or(NEVER);
            self.writes[place].seen_ns = seen_ns;
            self.writes[place].done_ns = match write.outcome {
                Outcome::Ok => write.end_ns,
                Outcome::Unknown if write.stamp.is_some() => seen_ns,
                _ => NEVER,
            };
        }
    }

    /// Returns true if the record can have been in the state of the write at `place`, at some moment between these
    /// times.
    fn is_alive(&self, place: usize, (from_ns, to_ns): (u64, u64)) -> bool {
        let write = &self.writes[place];
        let ends = |(other, by): (usize, &Write)| {
            other != place && by.done_ns < from_ns && by.sent_ns >= write.done_ns && write.done_ns < NEVER
        };
        !write.is_refused() && write.sent_ns <= to_ns && !self.of(write.id).any(ends)
    }

    /// Returns the possible states of the record between these times; `None` is the empty store.
    fn alive(&self, id: u64, at: (u64, u64)) -> impl Iterator<Item = Option<&Write>> {
        let is_empty = !self.of(id).any(|(_, write)| write.done_ns < at.0);
        let writes = self.of(id).filter(move |(place, _)| self.is_alive(*place, at)).map(|(_, write)| Some(write));
        is_empty.then_some(None).into_iter().chain(writes)
    }

    /// Returns the writes that came certainly after the write at `place`, or after the empty store.
    fn later(&self, id: u64, place: Option<usize>) -> impl Iterator<Item = &Write> {
        let done_ns = place.map_or(0, |place| self.writes[place].done_ns);
        let after = self.of(id).filter(move |(other, _)| place.is_none_or(|place| *other > place));
        after.map(|(_, write)| write).filter(move |write| !write.is_refused() && write.sent_ns >= done_ns)
    }

    fn overtaken(&self, id: u64, place: Option<usize>, verdict: &mut LedgerVerdict) {
        let is_seen = self.later(id, place).any(|write| write.seen_ns < NEVER);
        let lost = verdict.lost;
        self.lost(id, place, verdict);
        verdict.resurrected += u64::from(is_seen && verdict.lost > lost);
    }

    fn lost(&self, id: u64, place: Option<usize>, verdict: &mut LedgerVerdict) {
        let acknowledged = self.later(id, place).filter(|write| write.outcome == Outcome::Ok);
        let lost: Vec<u64> = acknowledged.map(|write| write.end_ns).collect();
        // What was only seen to be there.
        verdict.resurrected += u64::from(lost.is_empty());
        for at_ns in lost {
            verdict.lost += 1;
            *verdict.lost_writes.entry(at_ns / TICK_NS * TICK_NS).or_default() += 1;
            let (first, last) = verdict.lost_window_ns.unwrap_or((at_ns, at_ns));
            verdict.lost_window_ns = Some((first.min(at_ns), last.max(at_ns)));
        }
    }
}
