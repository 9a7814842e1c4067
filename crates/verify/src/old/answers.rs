//! Holds every answer that was kept against the truth.

use std::collections::BTreeMap;
use std::rc::Rc;

use plimsoll_core::{Outcome, Value, ValueBuf, Version};

use crate::old::history::History;
use crate::old::log::{ABSENT, ALIEN, Event, NEVER, NO_STAMP, Part, Row, Watch};
use crate::old::range::Order;
use crate::old::timeline::{Effect, Field, Interval, Timelines, Untrue};
use crate::old::words::{Examples, Words};

use crate::AnswerVerdict;
/// Knows what each record can have been at each time of a [`History`], and judges by it.
///
/// Making one takes about 1 µs for each write and each row of an answer.
pub struct Judge<'a> {
    pub(crate) history: &'a History,
    pub(crate) timelines: Timelines,
    /// For each queried field: its value in each effect, and the effects in the order of these values.
    columns: BTreeMap<u16, Column>,
    /// The records in the order of their keys, where a range of them was asked for.
    pub(crate) order: Option<Order>,
}

struct Column {
    values: Vec<Field>,
    /// Effects whose value is not null, least value first.
    order: Vec<u32>,
}

impl<'a> Judge<'a> {
    /// Works out the timelines of all records.
    pub fn new(history: &'a History) -> Self {
        let mut columns = BTreeMap::new();
        let timelines = Timelines::new(history);
        for watch in history.watches.iter() {
            if let Watch::Find { field } = watch {
                columns.entry(*field).or_insert_with(|| Column::new(history, &timelines, *field));
            }
        }
        let order = history.watches.contains(&Watch::Range).then(|| Order::new(history, timelines.len()));
        Self { history, timelines, columns, order }
    }

    /// Holds all answers against the truth: one verdict for each phase and kind that had any, in that order.
    pub fn answers(&self) -> Vec<AnswerVerdict> {
        let mut bench = Bench {
            judge: self,
            words: Words::new(&*self.history.workload),
            last_question: vec![0; self.timelines.len()],
            questions: 0,
            gap: self.history.gap().is_some(),
            candidates: Vec::new(),
        };
        let mut verdicts: BTreeMap<(u16, u16), (AnswerVerdict, Examples)> = BTreeMap::new();
        for part in self.history.parts.iter().filter(|part| !part.reads_back) {
            for event in &part.events {
                let watch = self.history.watches[usize::from(event.kind)];
                // A write that found no record is an answer too.
                if watch.writes() && (event.outcome != Outcome::NotFound || event.id == ALIEN) {
                    continue;
                }
                let (verdict, examples) = verdicts.entry((event.phase, event.kind)).or_default();
                bench.hear(part, event, watch, verdict, examples);
            }
        }
        let name = |((phase, kind), (verdict, examples)): ((u16, u16), (AnswerVerdict, Examples))| {
            let kind_name = self.history.workload.kinds()[usize::from(kind)].name.clone();
            AnswerVerdict { phase, kind, kind_name, examples: examples.into_sentences(), ..verdict }
        };
        verdicts.into_iter().map(name).collect()
    }

    /// True when the record's field matches these bounds in the effect at `position`.
    fn matches(&self, position: usize, question: &Question<'_>) -> bool {
        match question.field {
            None => self.timelines.effects()[position].stamp != ABSENT,
            Some(field) => within(self.columns[&field].values[position].value(), question.low, question.high),
        }
    }
}

impl Column {
    fn new(history: &History, timelines: &Timelines, field: u16) -> Self {
        let mut values = vec![Field::Null; timelines.effects().len()];
        let mut row = ValueBuf::new();
        if let Some(truth) = history.workload.truth() {
            for id in 0..timelines.len() {
                for (place, effect) in timelines.of(id).iter().enumerate() {
                    if let Some(version) = Version::from_stamp(effect.stamp) {
                        row.clear();
                        truth.row(id as u64, version, &mut row);
                        values[timelines.start(id) + place] = Field::of(row.values().get(usize::from(field)));
                    }
                }
            }
        }
        let mut order: Vec<u32> = (0..values.len() as u32).filter(|&e| values[e as usize] != Field::Null).collect();
        order.sort_unstable_by(|&a, &b| compare(values[a as usize].value(), values[b as usize].value()));
        Self { values, order }
    }

    /// The effects whose value is within these bounds.
    fn range(&self, low: Value<'_>, high: Value<'_>) -> &[u32] {
        let below = |bound: Value<'_>| {
            self.order.partition_point(|&effect| compare(self.values[effect as usize].value(), bound).is_lt())
        };
        let start = if low == Value::Null { 0 } else { below(low) };
        let end = if high == Value::Null { self.order.len() } else { below(high) };
        &self.order[start..end.max(start)]
    }
}

/// True when `low <= value < high`; a null bound is open, and a null value never matches.
pub(crate) fn within(value: Value<'_>, low: Value<'_>, high: Value<'_>) -> bool {
    value != Value::Null
        && (low == Value::Null || compare(value, low).is_ge())
        && (high == Value::Null || compare(value, high).is_lt())
}

/// The order of two values of one type; those of different types are in the order of their types.
pub(crate) fn compare(a: Value<'_>, b: Value<'_>) -> std::cmp::Ordering {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(&b),
        (Value::Int(a), Value::Int(b)) | (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(&b),
        (Value::Float(a), Value::Float(b)) => {
            let plain = |value: f64| if value.is_nan() { f64::NAN.abs() } else { value + 0.0 };
            plain(a).total_cmp(&plain(b))
        }
        (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        _ => a.value_type().map(|t| t as u8).cmp(&b.value_type().map(|t| t as u8)),
    }
}

/// A question for a set of records.
struct Question<'a> {
    /// The field asked for; `None` asks for all records.
    field: Option<u16>,
    low: Value<'a>,
    high: Value<'a>,
    at: Interval,
}

/// Goes through the questions, with what it needs for each of them kept from one to the next.
pub(crate) struct Bench<'a> {
    pub(crate) judge: &'a Judge<'a>,
    pub(crate) words: Words<'a>,
    /// For each record the number of the last question whose answer had it.
    last_question: Vec<u32>,
    questions: u32,
    /// Something was not written down.
    gap: bool,
    /// Records that matched the bounds asked for last at any time, with these bounds.
    candidates: Vec<(Option<u16>, Field, Field, Rc<[u32]>)>,
}

/// Bounds whose candidates are kept.
const CANDIDATES_KEPT: usize = 8;

impl Bench<'_> {
    fn hear(&mut self, part: &Part, event: &Event, watch: Watch, verdict: &mut AnswerVerdict, examples: &mut Examples) {
        if self.gap || event.finished_ns == NEVER || !matches!(event.outcome, Outcome::Ok | Outcome::NotFound) {
            verdict.unanswered += 1;
            return;
        }
        verdict.answers += 1;
        let value = if watch == Watch::Value { Part::value_of(event) } else { None };
        let rows = if watch == Watch::Value { value.as_slice() } else { part.rows_of(event) };
        verdict.got += if watch == Watch::Value { u64::from(event.row_count) } else { rows.len() as u64 };
        self.questions += 1;
        let (low, high) = match watch {
            Watch::Find { .. } => part.bounds_of(event),
            _ => (Value::Null, Value::Null),
        };
        let at = Interval::of(event);
        match watch {
            Watch::Range => self.range(part, event, rows, verdict, examples),
            Watch::Find { field } => {
                let question = Question { field: Some(field), low, high, at };
                self.many(part, event, rows, &question, verdict, examples);
            }
            Watch::All => {
                let question = Question { field: None, low: Value::Null, high: Value::Null, at };
                self.many(part, event, rows, &question, verdict, examples);
            }
            _ => self.one(part, event, rows, verdict, examples),
        }
    }

    /// The answer to a question for one record by its key.
    fn one(&mut self, part: &Part, event: &Event, rows: &[Row], verdict: &mut AnswerVerdict, examples: &mut Examples) {
        let at = Interval::of(event);
        let present =
            self.judge.timelines.knows(event.id) && !self.judge.timelines.can_be_absent(event.id as usize, at);
        verdict.expected += u64::from(present);
        if rows.is_empty() && present {
            verdict.missing += 1;
            examples.add("missing", || self.missing(event, event.id, at));
        }
        for (place, row) in rows.iter().enumerate() {
            if place > 0 {
                verdict.duplicated += 1;
                examples.add("duplicated", || self.words.duplicated(event, *row));
            } else if row.id != ALIEN && row.id != event.id {
                verdict.wrong_content += 1;
                examples.add("wrong_content", || self.words.other_record(event, *row));
            } else {
                self.row(part, event, *row, at, verdict, examples);
            }
        }
    }

    /// The answer to a question for all records of some sort.
    fn many(
        &mut self,
        part: &Part,
        event: &Event,
        rows: &[Row],
        question: &Question<'_>,
        verdict: &mut AnswerVerdict,
        examples: &mut Examples,
    ) {
        let judge = self.judge;
        let timelines = &judge.timelines;
        for row in rows {
            if self.judge.timelines.knows(row.id) && self.is_again(row.id) {
                verdict.duplicated += 1;
                examples.add("duplicated", || self.words.duplicated(event, *row));
                continue;
            }
            if let Some(position) = self.row(part, event, *row, question.at, verdict, examples)
                && !judge.matches(timelines.start(row.id as usize) + position, question)
            {
                verdict.not_matching += 1;
                examples.add("not_matching", || self.words.not_matching(event, *row));
            }
        }
        for &id in self.candidates(question).iter() {
            let mut alive = timelines.alive(id as usize, question.at);
            let start = timelines.start(id as usize);
            if alive.all(|position| judge.matches(start + position, question)) {
                verdict.expected += 1;
                if !self.is_given(id) {
                    verdict.missing += 1;
                    examples.add("missing", || self.missing(event, id, question.at));
                }
            }
        }
    }

    /// Whether this answer has had the record before; from now on it has.
    pub(crate) fn is_again(&mut self, id: u32) -> bool {
        std::mem::replace(&mut self.last_question[id as usize], self.questions) == self.questions
    }

    /// Whether this answer has the record.
    pub(crate) fn is_given(&self, id: u32) -> bool {
        self.last_question[id as usize] == self.questions
    }

    /// All records that matched these bounds at any time at all.
    fn candidates(&mut self, question: &Question<'_>) -> Rc<[u32]> {
        let kept = self.candidates.iter().find(|(field, low, high, _)| {
            *field == question.field && low.value() == question.low && high.value() == question.high
        });
        if let Some((.., records)) = kept {
            return Rc::clone(records);
        }
        let timelines = &self.judge.timelines;
        let records: Rc<[u32]> = match question.field {
            None => (0..timelines.len() as u32).collect(),
            Some(field) => {
                let effects = self.judge.columns[&field].range(question.low, question.high);
                let mut records: Vec<u32> =
                    effects.iter().map(|&effect| timelines.record_of(effect as usize) as u32).collect();
                records.sort_unstable();
                records.dedup();
                records.into()
            }
        };
        if self.candidates.len() == CANDIDATES_KEPT {
            self.candidates.remove(0);
        }
        let (low, high) = (Field::of(question.low), Field::of(question.high));
        self.candidates.push((question.field, low, high, Rc::clone(&records)));
        records
    }

    /// The state that stood when the question was asked, as far as is known.
    fn stood(&self, id: u32, at: Interval) -> Option<&Effect> {
        let timelines = &self.judge.timelines;
        timelines.alive(id as usize, at).next().map(|position| &timelines.of(id as usize)[position])
    }

    pub(crate) fn missing(&self, event: &Event, id: u32, at: Interval) -> String {
        self.words.missing(event, id, self.stood(id, at))
    }

    /// Whether the record was ever as this row says, and was so while the question was open; if it was, the
    /// position on its timeline.
    pub(crate) fn row(
        &self,
        part: &Part,
        event: &Event,
        row: Row,
        at: Interval,
        verdict: &mut AnswerVerdict,
        examples: &mut Examples,
    ) -> Option<usize> {
        let timelines = &self.judge.timelines;
        if !timelines.has_come(row.id, at) {
            verdict.alien += 1;
            let kept = usize::try_from(row.stamp).map_or(Value::Null, |position| part.aliens.values().get(position));
            examples.add("alien", || self.words.alien(event, row, kept));
            return None;
        }
        let judged = if row.stamp == NO_STAMP { Err((Untrue::Content, None)) } else { timelines.judge(row, at) };
        match judged {
            Ok(position) => return Some(position),
            Err((Untrue::Content, _)) => {
                verdict.wrong_content += 1;
                examples.add("wrong_content", || self.words.wrong_content(event, row));
            }
            Err((Untrue::Refused, _)) => {
                verdict.refused += 1;
                examples.add("refused", || self.words.refused(event, row));
            }
            Err((Untrue::Stale, position)) => {
                verdict.stale += 1;
                let was = position.map(|position| &timelines.of(row.id as usize)[position]);
                examples.add("stale", || self.words.stale(event, row, was, self.stood(row.id, at)));
            }
        }
        None
    }
}
