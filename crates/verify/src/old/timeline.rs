//! What each record can have been at each time, as far as anyone outside the store can know.
//!
//! A write happens at one moment between its sending and its acknowledgement. A record's *state* is what the
//! latest write that has happened made of it. From outside a state can be alive from the moment its write
//! was sent, until the first moment at which some later write must have happened: one that was sent after
//! this one had been acknowledged, and has itself been acknowledged.
//!
//! A write without an answer may have happened, may happen much later (a server goes on working for a
//! client that has gone), or never: its state can be alive from its sending on, for ever, and ends no other. If
//! an answer shows it, it has happened by the time that answer arrived, and ends others like an acknowledged one.
//!
//! A refused write has no state. It is kept, so that a record which shows it can be told from plain garbage.

use std::collections::BTreeMap;

use plimsoll_core::{Outcome, Value, ValueBuf, Version};

use crate::digest::digest;
use crate::old::history::History;
use crate::old::log::{ABSENT, ALIEN, Event, NEVER, NO_STAMP, Part, Row, Watch};

/// Effects on a record up to which one is looked for by going through them.
const FEW: usize = 32;

/// How far the clocks of two workers may be apart: questions are taken to have begun so much earlier and
/// ended so much later.
pub(crate) const CLOCK_SKEW_NS: u64 = 1_000;

/// What a write came to, for its record's timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Acknowledged,
    Unknown,
    Refused,
}

/// One write to one record, and how long the state it makes can be alive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effect {
    /// Not before this.
    pub sent_ns: u64,
    /// By this time it has happened; [`NEVER`] when that is not known.
    pub done_ns: u64,
    /// Not alive after this.
    pub death_ns: u64,
    /// Latest death of this effect and all before it on the timeline.
    pub reach_ns: u64,
    /// When it was acknowledged.
    pub acknowledged_ns: u64,
    /// When the first answer that shows it arrived.
    pub seen_ns: u64,
    /// Its version's stamp, or [`ABSENT`].
    pub stamp: i64,
    /// Digest of the record as it makes it.
    pub digest: u32,
    pub client: u32,
    pub cycle: u64,
    pub fate: Fate,
    /// False for the empty store before the trial.
    pub written: bool,
}

/// A time between sending a question and having its answer, as wide as clocks make it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interval {
    pub from_ns: u64,
    pub to_ns: u64,
}

impl Interval {
    pub fn of(event: &Event) -> Self {
        Self {
            from_ns: event.sent_ns.saturating_sub(CLOCK_SKEW_NS),
            to_ns: event.finished_ns.saturating_add(CLOCK_SKEW_NS),
        }
    }

    /// After everything.
    pub const END: Interval = Interval { from_ns: NEVER, to_ns: NEVER };
}

/// What is wrong with a record that a store showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Untrue {
    /// It is not what the version that it claims to be is.
    Content,
    /// It shows a write that the store had refused.
    Refused,
    /// It had been overwritten or deleted before the question was asked.
    Stale,
}

/// The timelines of all records, one after the other.
pub(crate) struct Timelines {
    effects: Vec<Effect>,
    /// Records of the workload's own.
    record_count: u64,
    /// Where each record's timeline begins, and the end of the last.
    starts: Vec<usize>,
    /// Of records with many effects: their positions on the timeline, by stamp.
    by_stamp: BTreeMap<u32, Box<[u32]>>,
    /// Of each record with an effect that makes it absent besides the empty store: the positions of these.
    deletes: BTreeMap<u32, Vec<u32>>,
}

impl Timelines {
    /// Those of no records.
    pub fn none() -> Self {
        Self {
            effects: Vec::new(),
            record_count: 0,
            starts: vec![0],
            by_stamp: BTreeMap::new(),
            deletes: BTreeMap::new(),
        }
    }

    pub fn new(history: &History) -> Self {
        let records = history.records() as usize;
        let mut starts = vec![1usize; records + 1];
        starts[records] = 0;
        for_each_write(history, &mut |id, _| starts[id] += 1);
        let mut total = 0;
        for start in &mut starts {
            total += std::mem::replace(start, total);
        }
        let mut ends = starts.clone();
        let mut effects = vec![Effect::empty_store(); total];
        for end in &mut ends[..records] {
            *end += 1;
        }
        for_each_write(history, &mut |id, effect| {
            effects[ends[id]] = effect;
            ends[id] += 1;
        });
        let record_count = history.workload.record_count();
        let mut all = Self { effects, record_count, starts, by_stamp: BTreeMap::new(), deletes: BTreeMap::new() };
        for id in 0..records {
            // The empty store stays first.
            all.effects[all.starts[id] + 1..all.starts[id + 1]].sort_by_key(|effect| (effect.sent_ns, effect.done_ns));
        }
        all.find_ways();
        all.digest(history);
        all.see(history);
        all.live();
        all
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether anybody tried to write this record.
    pub fn knows(&self, id: u32) -> bool {
        (id as usize) < self.len()
    }

    /// Whether the record was loaded, or anybody had tried to write it by the end of `at`.
    pub fn has_come(&self, id: u32, at: Interval) -> bool {
        let written = || self.of(id as usize).get(1).is_some_and(|first| first.sent_ns <= at.to_ns);
        self.knows(id) && (u64::from(id) < self.record_count || written())
    }

    /// Every effect of every record.
    pub fn effects(&self) -> &[Effect] {
        &self.effects
    }

    /// The record whose timeline holds the effect at `position`.
    pub fn record_of(&self, position: usize) -> usize {
        self.starts.partition_point(|start| *start <= position) - 1
    }

    /// The effects on one record, in the order in which they were sent.
    pub fn of(&self, id: usize) -> &[Effect] {
        &self.effects[self.starts[id]..self.starts[id + 1]]
    }

    /// Where a record's timeline begins among all effects.
    pub fn start(&self, id: usize) -> usize {
        self.starts[id]
    }

    /// Positions on the record's timeline of the states that can have been alive at some moment of `at`.
    pub fn alive(&self, id: usize, at: Interval) -> impl Iterator<Item = usize> + '_ {
        let effects = self.of(id);
        let sent = effects.partition_point(|effect| effect.sent_ns <= at.to_ns);
        effects[..sent]
            .iter()
            .enumerate()
            .rev()
            .take_while(move |(_, effect)| effect.reach_ns >= at.from_ns)
            .filter(move |(_, effect)| effect.fate != Fate::Refused && effect.death_ns >= at.from_ns)
            .map(|(position, _)| position)
    }

    /// True when the record can have been absent at some moment of `at`.
    pub fn can_be_absent(&self, id: usize, at: Interval) -> bool {
        // Not by what is alive: of a popular record that may be much.
        let effects = self.of(id);
        let deletes = self.deletes.get(&(id as u32)).map_or(&[][..], Vec::as_slice);
        std::iter::once(&0)
            .chain(deletes)
            .map(|position| &effects[*position as usize])
            .any(|effect| effect.sent_ns <= at.to_ns && effect.fate != Fate::Refused && effect.death_ns >= at.from_ns)
    }

    /// Position on its timeline of the state that `row` shows and that was alive in `at`; otherwise what is
    /// wrong, with the position of the effect that it shows where there is one.
    pub fn judge(&self, row: Row, at: Interval) -> Result<usize, (Untrue, Option<usize>)> {
        let effects = self.of(row.id as usize);
        // What was sent only later cannot have been seen: to look like that takes garbage.
        let sent = effects.partition_point(|effect| effect.sent_ns <= at.to_ns);
        let mut verdict = (Untrue::Content, None);
        for position in self.showing(row, sent) {
            let effect = &effects[position];
            if effect.fate == Fate::Refused {
                verdict = (Untrue::Refused, Some(position));
            } else if effect.death_ns >= at.from_ns {
                return Ok(position);
            } else if verdict.0 != Untrue::Stale {
                verdict = (Untrue::Stale, Some(position));
            }
        }
        Err(verdict)
    }

    /// Positions below `end` of the effects that look like `row`, the last first.
    fn showing(&self, row: Row, end: usize) -> impl Iterator<Item = usize> + '_ {
        let effects = self.of(row.id as usize);
        let by_stamp = self.by_stamp.get(&row.id).map(|all| {
            let from = all.partition_point(|position| effects[*position as usize].stamp < row.stamp);
            let to = all.partition_point(|position| effects[*position as usize].stamp <= row.stamp);
            all[from..to].iter().rev().map(|position| *position as usize)
        });
        let few = if by_stamp.is_none() { 0..end } else { 0..0 };
        by_stamp.into_iter().flatten().chain(few.rev()).filter(move |position| {
            let effect = &effects[*position];
            *position < end && effect.stamp == row.stamp && effect.digest == row.digest
        })
    }

    /// Makes what finds an effect among many.
    fn find_ways(&mut self) {
        for id in 0..self.len() {
            let effects = self.of(id);
            let deletes = (1u32..).zip(&effects[1..]).filter(|(_, effect)| effect.stamp == ABSENT);
            let deletes: Vec<u32> = deletes.map(|(position, _)| position).collect();
            let mut by_stamp: Box<[u32]> = (0..effects.len() as u32).collect();
            if effects.len() > FEW {
                by_stamp.sort_by_key(|position| effects[*position as usize].stamp);
                self.by_stamp.insert(id as u32, by_stamp);
            }
            if !deletes.is_empty() {
                self.deletes.insert(id as u32, deletes);
            }
        }
    }

    fn digest(&mut self, history: &History) {
        let Some(truth) = history.workload.truth().filter(|truth| !truth.sees_contents()) else { return };
        let mut row = ValueBuf::new();
        for id in 0..self.len() {
            let (start, end) = (self.starts[id], self.starts[id + 1]);
            for effect in &mut self.effects[start..end] {
                if let Some(version) = Version::from_stamp(effect.stamp) {
                    row.clear();
                    truth.row(id as u64, version, &mut row);
                    effect.digest = digest(row.values());
                }
            }
        }
    }

    /// Notes when each state was first seen, and so when a write without an answer has happened.
    fn see(&mut self, history: &History) {
        for part in history.parts.iter().filter(|part| !part.reads_back) {
            for event in part.events.iter().filter(|event| event.finished_ns != NEVER) {
                match history.watches[usize::from(event.kind)] {
                    Watch::Get | Watch::Value if event.outcome == Outcome::NotFound => self.see_absence(event),
                    Watch::Value => Part::value_of(event).iter().for_each(|row| self.see_row(*row, event)),
                    Watch::Get | Watch::Find { .. } | Watch::All | Watch::Range => {
                        part.rows_of(event).iter().for_each(|row| self.see_row(*row, event));
                    }
                    _ => {}
                }
            }
        }
    }

    fn see_row(&mut self, row: Row, event: &Event) {
        if !self.knows(row.id) || row.stamp == NO_STAMP {
            return;
        }
        let sent = self.of(row.id as usize).partition_point(|effect| effect.sent_ns <= event.finished_ns);
        let mut showing = self.showing(row, sent);
        let Some(position) = showing.next() else { return };
        // Of several that look alike nobody knows which one was seen.
        let is_only = showing.next().is_none();
        drop(showing);
        let effect = &mut self.effects[self.starts[row.id as usize] + position];
        effect.seen_ns = effect.seen_ns.min(event.finished_ns);
        if effect.fate == Fate::Unknown && is_only {
            effect.done_ns = effect.done_ns.min(event.finished_ns);
        }
    }

    fn see_absence(&mut self, event: &Event) {
        if !self.knows(event.id) {
            return;
        }
        let (start, end) = (self.starts[event.id as usize], self.starts[event.id as usize + 1]);
        // A record can be absent for other reasons than an unanswered delete, so none is taken to have happened.
        let seen = self.effects[start..end]
            .iter_mut()
            .rev()
            .find(|effect| effect.stamp == ABSENT && effect.is_acknowledged_write() && effect.done_ns <= event.sent_ns);
        if let Some(delete) = seen {
            delete.seen_ns = delete.seen_ns.min(event.finished_ns);
        }
    }

    /// Finds out how long each state can be alive.
    fn live(&mut self) {
        let mut ends = Vec::new();
        for id in 0..self.len() {
            let (start, end) = (self.starts[id], self.starts[id + 1]);
            let effects = &mut self.effects[start..end];
            // The earliest time by which one of this effect and those after it must have happened.
            ends.clear();
            ends.resize(effects.len() + 1, NEVER);
            for position in (0..effects.len()).rev() {
                let effect = &effects[position];
                let done_ns = if effect.fate == Fate::Refused { NEVER } else { effect.done_ns };
                ends[position] = ends[position + 1].min(done_ns);
            }
            let mut reach_ns = 0;
            for position in 0..effects.len() {
                let done_ns = effects[position].done_ns;
                let after = effects.partition_point(|effect| effect.sent_ns < done_ns).max(position + 1);
                effects[position].death_ns = ends[after];
                if effects[position].fate != Fate::Refused {
                    reach_ns = reach_ns.max(ends[after]);
                }
                effects[position].reach_ns = reach_ns;
            }
        }
    }
}

impl Effect {
    pub fn empty_store() -> Self {
        Self {
            sent_ns: 0,
            done_ns: 0,
            death_ns: NEVER,
            reach_ns: NEVER,
            acknowledged_ns: 0,
            seen_ns: NEVER,
            stamp: ABSENT,
            digest: 0,
            client: 0,
            cycle: 0,
            fate: Fate::Acknowledged,
            written: false,
        }
    }

    /// True when the store said that it had happened.
    pub fn is_acknowledged_write(&self) -> bool {
        self.written && self.fate == Fate::Acknowledged
    }
}

/// Calls `visit` with each record written and the effect on it, observer by observer in the order of their ends.
fn for_each_write(history: &History, visit: &mut dyn FnMut(usize, Effect)) {
    for part in &history.parts {
        for event in &part.events {
            let watch = history.watches[usize::from(event.kind)];
            if watch.writes() {
                effects_of(part, event, watch, visit);
            }
        }
    }
}

fn effects_of(part: &Part, event: &Event, watch: Watch, visit: &mut dyn FnMut(usize, Effect)) {
    let fate = match event.outcome {
        Outcome::Ok => Fate::Acknowledged,
        Outcome::Unknown => Fate::Unknown,
        Outcome::NotFound | Outcome::Rejected => Fate::Refused,
    };
    let effect = |stamp| Effect {
        sent_ns: event.sent_ns,
        done_ns: event.finished_ns,
        acknowledged_ns: event.finished_ns,
        stamp,
        client: event.client,
        cycle: event.cycle,
        fate,
        written: true,
        ..Effect::empty_store()
    };
    match watch {
        Watch::Insert { .. } => {
            for row in part.rows_of(event).iter().filter(|row| row.id != ALIEN) {
                visit(row.id as usize, effect(row.stamp));
            }
        }
        _ if event.id == ALIEN => {}
        Watch::Update => {
            let version = Version::Written { client: event.client, cycle: event.cycle };
            visit(event.id as usize, effect(version.stamp()));
        }
        Watch::Put => visit(event.id as usize, effect(event.stamp)),
        Watch::Delete => visit(event.id as usize, effect(ABSENT)),
        _ => {}
    }
}

/// A value of a queried field, to be held against bounds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Field {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Timestamp(i64),
    Text(Box<str>),
    Bytes(Box<[u8]>),
}

impl Field {
    pub fn of(value: Value<'_>) -> Self {
        match value {
            Value::Null => Field::Null,
            Value::Bool(value) => Field::Bool(value),
            Value::Int(value) => Field::Int(value),
            Value::Float(value) => Field::Float(value),
            Value::Timestamp(value) => Field::Timestamp(value),
            Value::Text(value) => Field::Text(value.into()),
            Value::Bytes(value) => Field::Bytes(value.into()),
        }
    }

    pub fn value(&self) -> Value<'_> {
        match self {
            Field::Null => Value::Null,
            Field::Bool(value) => Value::Bool(*value),
            Field::Int(value) => Value::Int(*value),
            Field::Float(value) => Value::Float(*value),
            Field::Timestamp(value) => Value::Timestamp(*value),
            Field::Text(value) => Value::Text(value),
            Field::Bytes(value) => Value::Bytes(value),
        }
    }
}
