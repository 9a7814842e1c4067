//! The collection that the tests keep: a person has a number, a name and tags.
//!
//! Four indexes: by number, by name, by name and number, by tag (of which a person may have several).

use std::collections::BTreeMap;
use std::ops::Bound;

use plimsoll_core::{Value, ValueBuf};
use plimsoll_keyindex::{Entries, Extract, IndexError, IndexSpec, Indexes, Inserted, Query, Rows, encode};
use proptest::prelude::*;

use crate::mem_kv::MemKv;

pub const BY_NUMBER: usize = 0;
pub const BY_NAME: usize = 1;
pub const BY_NAME_AND_NUMBER: usize = 2;
pub const BY_TAG: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    pub number: Option<i64>,
    pub name: String,
    pub tags: Vec<i64>,
}

impl Person {
    pub fn to_record(&self) -> Vec<u8> {
        let mut out = Vec::new();
        encode::push(&mut out, self.number.map_or(Value::Null, Value::Int));
        encode::push(&mut out, Value::Text(&self.name));
        self.tags.iter().for_each(|tag| encode::push(&mut out, Value::Int(*tag)));
        out
    }

    pub fn from_record(record: &[u8]) -> Result<Self, IndexError> {
        let (mut at, mut fields) = (0, ValueBuf::new());
        while at < record.len() {
            at += encode::read(&record[at..], &mut fields).ok_or(IndexError::Corrupt("no value"))?;
        }
        let mut fields = fields.values().iter();
        let number = match fields.next() {
            Some(Value::Int(number)) => Some(number),
            Some(Value::Null) => None,
            _ => return Err(IndexError::Corrupt("no number")),
        };
        let Some(Value::Text(name)) = fields.next() else { return Err(IndexError::Corrupt("no name")) };
        let name = name.to_owned();
        let tags = fields.map(|tag| if let Value::Int(tag) = tag { tag } else { 0 }).collect();
        Ok(Person { number, name, tags })
    }
}

#[derive(Clone)]
pub struct PersonEntries;

impl Extract for PersonEntries {
    fn entries(&self, index: usize, _key: &[u8], record: &[u8], out: &mut Entries) -> Result<(), IndexError> {
        let person = Person::from_record(record)?;
        let number = person.number.map_or(Value::Null, Value::Int);
        match index {
            BY_NUMBER => out.add(&[number]),
            BY_NAME => out.add(&[Value::Text(&person.name)]),
            BY_NAME_AND_NUMBER => out.add(&[Value::Text(&person.name), number]),
            _ => person.tags.iter().for_each(|tag| out.add(&[Value::Int(*tag)])),
        }
        Ok(())
    }
}

pub type People = Indexes<PersonEntries>;

pub fn people() -> People {
    let specs = vec![IndexSpec::new(1), IndexSpec::new(1), IndexSpec::new(2), IndexSpec::new(1).multi()];
    Indexes::new(3, specs, PersonEntries)
}

/// Expected records.
pub type Model = BTreeMap<Vec<u8>, Person>;

/// A question that can be asked of the indexes and of the model.
#[derive(Debug, Clone)]
pub enum Question {
    Numbers(Bound<i64>, Bound<i64>),
    NoNumber,
    Name(String),
    NameBegins(String),
    NameAndNumbers(String, Bound<i64>, Bound<i64>),
    Tags(Bound<i64>, Bound<i64>),
    Everybody,
}

impl Question {
    pub fn query(&self) -> Query {
        let value = |bound: &Bound<i64>| bound.map(Value::Int);
        match self {
            Question::Numbers(low, high) => Query::on(BY_NUMBER).range(value(low), value(high)),
            Question::NoNumber => Query::on(BY_NUMBER).equal(Value::Null),
            Question::Name(name) => Query::on(BY_NAME).equal(Value::Text(name)),
            Question::NameBegins(name) => Query::on(BY_NAME).prefix(Value::Text(name)),
            Question::NameAndNumbers(name, low, high) => {
                Query::on(BY_NAME_AND_NUMBER).equal(Value::Text(name)).range(value(low), value(high))
            }
            Question::Tags(low, high) => Query::on(BY_TAG).range(value(low), value(high)),
            Question::Everybody => Query::on(BY_NUMBER),
        }
    }

    pub fn matches(&self, person: &Person) -> bool {
        let within = |number: i64, low: &Bound<i64>, high: &Bound<i64>| {
            std::ops::RangeBounds::contains(&(low.as_ref(), high.as_ref()), &number)
        };
        match self {
            Question::Numbers(low, high) => person.number.is_some_and(|number| within(number, low, high)),
            Question::NoNumber => person.number.is_none(),
            Question::Name(name) => person.name == *name,
            Question::NameBegins(name) => person.name.starts_with(name.as_str()),
            Question::NameAndNumbers(name, low, high) => {
                person.name == *name && person.number.is_some_and(|number| within(number, low, high))
            }
            Question::Tags(low, high) => person.tags.iter().any(|tag| within(*tag, low, high)),
            Question::Everybody => true,
        }
    }

    /// Returns the position of a person among the answers: by the entry that comes first, then by key.
    fn place<'a>(&self, key: &'a [u8], person: &Person) -> (Vec<u8>, &'a [u8]) {
        let number = person.number.map_or(Value::Null, Value::Int);
        let mut entry = Vec::new();
        match self {
            Question::Numbers(..) | Question::NoNumber | Question::Everybody => encode::push(&mut entry, number),
            Question::Name(_) | Question::NameBegins(_) => encode::push(&mut entry, Value::Text(&person.name)),
            Question::NameAndNumbers(..) => {
                encode::push(&mut entry, Value::Text(&person.name));
                encode::push(&mut entry, number);
            }
            Question::Tags(low, high) => {
                let within = |tag: &&i64| std::ops::RangeBounds::contains(&(low.as_ref(), high.as_ref()), *tag);
                let first = person.tags.iter().filter(within).min().copied().unwrap_or_default();
                encode::push(&mut entry, Value::Int(first));
            }
        }
        (entry, key)
    }

    /// The right answer, in order.
    pub fn answer(&self, model: &Model) -> Vec<(Vec<u8>, Person)> {
        let mut all: Vec<_> = model.iter().filter(|(_, person)| self.matches(person)).collect();
        all.sort_by_cached_key(|(key, person)| self.place(key, person));
        all.into_iter().map(|(key, person)| (key.clone(), person.clone())).collect()
    }
}

/// Few different values, so that ranges, names and keys meet; among them those that need escaping.
pub fn some_number() -> impl Strategy<Value = i64> {
    prop_oneof![-3..4i64, Just(i64::MIN), Just(i64::MAX), 250..260i64]
}

pub fn some_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "a", "a\0", "a\0b", "ab", "a\u{1}", "b", "\u{ff}"]).prop_map(str::to_owned)
}

pub fn some_key() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(vec![&b""[..], b"\0", b"\xff", b"\xff\xff", b"a", b"a\0", b"\x01", b"key"])
        .prop_map(<[u8]>::to_vec)
}

pub fn some_person() -> impl Strategy<Value = Person> {
    (prop::option::weighted(0.9, some_number()), some_name(), prop::collection::vec(some_number(), 0..4))
        .prop_map(|(number, name, tags)| Person { number, name, tags })
}

fn some_bound() -> impl Strategy<Value = Bound<i64>> {
    (some_number(), 0..3).prop_map(|(number, kind)| match kind {
        0 => Bound::Included(number),
        1 => Bound::Excluded(number),
        _ => Bound::Unbounded,
    })
}

pub fn some_question() -> impl Strategy<Value = Question> {
    prop_oneof![
        (some_bound(), some_bound()).prop_map(|(low, high)| Question::Numbers(low, high)),
        Just(Question::NoNumber),
        some_name().prop_map(Question::Name),
        some_name().prop_map(Question::NameBegins),
        (some_name(), some_bound(), some_bound())
            .prop_map(|(name, low, high)| Question::NameAndNumbers(name, low, high)),
        (some_bound(), some_bound()).prop_map(|(low, high)| Question::Tags(low, high)),
        Just(Question::Everybody),
    ]
}

/// A write, for the indexes and for the model.
#[derive(Debug, Clone)]
pub enum Write {
    Insert(Vec<(Vec<u8>, Person)>),
    Put(Vec<u8>, Person),
    Rename(Vec<u8>, String),
    Delete(Vec<u8>),
}

pub fn some_write() -> impl Strategy<Value = Write> {
    prop_oneof![
        2 => prop::collection::vec((some_key(), some_person()), 1..4).prop_map(Write::Insert),
        3 => (some_key(), some_person()).prop_map(|(key, person)| Write::Put(key, person)),
        2 => (some_key(), some_name()).prop_map(|(key, name)| Write::Rename(key, name)),
        2 => some_key().prop_map(Write::Delete),
    ]
}

impl Write {
    /// Returns the position of a record whose key was there already.
    pub fn to_store(&self, people: &mut People, kv: &mut MemKv) -> Result<Option<usize>, IndexError> {
        let there = match self {
            Write::Insert(all) => {
                let mut rows = Rows::new();
                all.iter().for_each(|(key, person)| rows.push(key, &person.to_record()));
                return Ok(match people.insert(kv, &rows)? {
                    Inserted::All => None,
                    Inserted::KeyTaken(at) => Some(at),
                });
            }
            Write::Put(key, person) => people.put(kv, key, &person.to_record()),
            Write::Rename(key, name) => people.update(kv, key, |old, new| {
                new.extend_from_slice(&Person { name: name.clone(), ..Person::from_record(old)? }.to_record());
                Ok(())
            }),
            Write::Delete(key) => people.delete(kv, key),
        };
        Ok(there?.then_some(0))
    }

    /// Returns true if a key was there already: then nothing is inserted.
    pub fn to_model(&self, model: &mut Model) -> bool {
        match self {
            Write::Insert(all) => {
                let mut inserted = model.clone();
                let mut insert = |(key, person): &(Vec<u8>, Person)| inserted.insert(key.clone(), person.clone());
                let is_taken = all.iter().any(|row| insert(row).is_some());
                if !is_taken {
                    *model = inserted;
                }
                is_taken
            }
            Write::Put(key, person) => model.insert(key.clone(), person.clone()).is_some(),
            Write::Rename(key, name) => model.get_mut(key).map(|person| person.name.clone_from(name)).is_some(),
            Write::Delete(key) => model.remove(key).is_some(),
        }
    }
}
