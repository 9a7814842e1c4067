//! Findings in plain words: which operation, which record, and what was in its place.

use std::collections::BTreeMap;

use plimsoll_core::{Value, ValueBuf, Version, Workload};

use crate::log::{ABSENT, ALIEN, Effect, LoggedOperation, Row, is_absent};

/// Sentences kept of each sort.
pub(crate) const EXAMPLES_PER_SORT: usize = 3;

/// A few sentences of each sort.
#[derive(Debug, Default)]
pub(crate) struct Examples(BTreeMap<&'static str, Vec<String>>);

impl Examples {
    /// Adds a sentence if there are few of its sort.
    pub fn add(&mut self, sort: &'static str, sentence: impl FnOnce() -> String) {
        let sentences = self.0.entry(sort).or_default();
        if sentences.len() < EXAMPLES_PER_SORT {
            sentences.push(sentence());
        }
    }

    /// All sentences.
    pub fn sentences(&self) -> Vec<String> {
        self.0.values().flatten().cloned().collect()
    }
}

/// Fault of a row, as the end of the sentence of [`Words::has`].
pub(crate) const AGAIN: &str = " more than once";
pub(crate) const REFUSED: &str = " as a write made it that the store had refused";

/// Finds the words.
pub(crate) struct Words<'a> {
    workload: &'a dyn Workload,
}

impl<'a> Words<'a> {
    pub fn new(workload: &'a dyn Workload) -> Self {
        Self { workload }
    }

    /// The record's key as it is shown to people.
    pub fn key(&self, id: u32) -> String {
        let Some(truth) = self.workload.truth() else { return format!("record {id}") };
        let mut key = ValueBuf::new();
        truth.key(u64::from(id), &mut key);
        shown(key.values().get(0))
    }

    fn operation(&self, event: &LoggedOperation) -> String {
        let kind = self.workload.kinds().get(usize::from(event.kind)).map_or("?", |kind| kind.name.as_str());
        format!(
            "`{kind}` {} of client {} in phase {} at {}",
            within_phase(event.cycle),
            event.client,
            event.phase,
            seconds(event.sent_ns)
        )
    }

    /// Describes the state of a record after an effect, and the time.
    pub fn effect(&self, effect: &Effect) -> String {
        let what = match effect.author() {
            _ if effect.stamp == ABSENT => return "the empty store".into(),
            None => "the load".to_owned(),
            Some((client, cycle)) => {
                let sort = if is_absent(effect.stamp) { "the delete" } else { "write" };
                format!("{sort} {} of client {client}", within_phase(cycle))
            }
        };
        match effect.is_acknowledged {
            true => format!("{what}, acknowledged at {}", seconds(effect.done_ns)),
            false => format!("{what}, sent at {} and never answered", seconds(effect.sent_ns)),
        }
    }

    /// The last write to a record that was acknowledged.
    pub fn last(&self, effects: &[Effect]) -> String {
        let last = effects.iter().rev().find(|effect| effect.is_acknowledged);
        last.map_or_else(|| "a write that is not remembered".into(), |effect| self.effect(effect))
    }

    /// `stood` is the state that stood when the question was asked, as far as is known.
    pub fn missing(&self, event: &LoggedOperation, id: u32, stood: Option<&Effect>) -> String {
        let stood = self.effect_or(stood, "nothing");
        format!("{} lacks {}, which was present all the time: {stood}", self.operation(event), self.key(id))
    }

    fn effect_or(&self, effect: Option<&Effect>, nothing: &str) -> String {
        effect.map_or_else(|| nothing.to_owned(), |effect| self.effect(effect))
    }

    /// `what` says what is wrong with the row.
    pub fn has(&self, event: &LoggedOperation, row: Row, what: &str) -> String {
        format!("{} has {}{what}", self.operation(event), self.key(row.id))
    }

    pub fn too_many(&self, event: &LoggedOperation) -> String {
        let (asked, got) = (event.asked, event.row_count);
        format!("{} asked for {asked} records and got {got}", self.operation(event))
    }

    pub fn other_record(&self, event: &LoggedOperation, row: Row) -> String {
        format!("{} asked for {} and got {}", self.operation(event), self.key(event.id), self.key(row.id))
    }

    /// `kept` is the key of a row that is no record's, if it was kept.
    pub fn alien(&self, event: &LoggedOperation, row: Row, kept: Value<'_>) -> String {
        let key = match row.id {
            ALIEN => shown(kept),
            // The key of a record that there could have been.
            id => self.key(id),
        };
        format!("{} has {key}, which no operation wrote", self.operation(event))
    }

    /// `was` is the effect that the row shows, if it is remembered.
    pub fn stale(&self, event: &LoggedOperation, row: Row, was: Option<&Effect>, stood: Option<&Effect>) -> String {
        let was = self.effect_or(was, &format!("{}, from long before", claimed(row)));
        let stood = self.effect_or(stood, "nothing");
        self.has(event, row, &format!(" in an old state: it shows {was}, which {stood} had replaced"))
    }
}

/// Describes the write that a row claims to be of.
pub(crate) fn claimed(row: Row) -> String {
    match Version::from_stamp(row.stamp) {
        Some(Version::Written { client, cycle }) => format!("write {} of client {client}", within_phase(cycle)),
        _ => "the load".to_owned(),
    }
}

/// Describes the version that a row of wrong content claims to be.
pub(crate) fn claim(row: Row) -> String {
    match Version::from_stamp(row.stamp) {
        None => "bytes that no write put there".into(),
        Some(Version::Loaded) => "other values than were loaded".into(),
        Some(Version::Written { client, cycle }) => {
            format!("values that write {} of client {client} did not give it", within_phase(cycle))
        }
    }
}

/// A key as it is shown to people.
pub(crate) fn shown(key: Value<'_>) -> String {
    match key {
        Value::Null => "a key that was not kept".into(),
        Value::Text(text) => text.to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) | Value::Timestamp(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Bytes(bytes) => match str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => format!("a key of {} bytes", bytes.len()),
        },
    }
}

/// The number of an operation among its client's in its phase: a phase's begin at a multiple of 2^32.
fn within_phase(cycle: u64) -> u64 {
    cycle & 0xffff_ffff
}

/// A time since the run's start.
pub(crate) fn seconds(ns: u64) -> String {
    format!("{:.6} s", ns as f64 / 1e9)
}
