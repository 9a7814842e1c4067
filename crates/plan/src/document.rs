//! The text of a plan as nodes with locations, and typed ways to read them.
//!
//! A reader that finds a mistake reports it to [`PlanReader`] and returns `None`, so that one pass over a text finds all
//! mistakes in it.

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use plimsoll_core::Catalogue;
use serde::de::{DeserializeOwned, IntoDeserializer};
use toml_edit::{Array, ArrayOfTables, Item, Table, TableLike, Value};

use crate::Files;
use crate::error::{PlanError, Problem, SourceText};
use crate::keys::{Key, KeyDefault, KeyType};
use crate::nearest;
use crate::quantity::{self, Dimension};
use crate::sweep::{Choices, Dimensions};
use crate::timeline::is_command;
use crate::url::without_secrets;

/// Most mistakes that are kept; a text with more of them is not a plan.
const PROBLEMS_MAX: usize = 50;

/// A plan that is being read.
pub(crate) struct PlanReader<'c> {
    pub(crate) catalogue: &'c Catalogue,
    /// Reads the files that the plan names.
    pub(crate) files: &'c Files<'c>,
    pub(crate) source: Arc<SourceText>,
    pub(crate) problems: RefCell<Vec<Problem>>,
    /// Swept keys found so far.
    pub(crate) dimensions: RefCell<Dimensions>,
    /// Sentences for the first lines of a run.
    pub(crate) notices: RefCell<Vec<String>>,
}

/// A value and its location.
#[derive(Clone)]
pub(crate) struct PlanNode<'a> {
    /// The value's key, for messages.
    pub(crate) key: &'a str,
    pub(crate) kind: NodeKind<'a>,
    pub(crate) span: Range<usize>,
}

/// The type and content of a value.
#[derive(Clone)]
pub(crate) enum NodeKind<'a> {
    Text(&'a str),
    Int(i64),
    Float(f64),
    Bool(bool),
    Date,
    List(&'a Array),
    Table(&'a dyn TableLike),
    Tables(&'a ArrayOfTables),
}

/// A table whose keys are known.
#[derive(Clone)]
pub(crate) struct Section<'a> {
    /// Description for messages: `a drive phase`, `[goals]`.
    pub(crate) what: String,
    pub(crate) table: &'a dyn TableLike,
    pub(crate) span: Range<usize>,
    /// The table's keys; empty if they are names of other things.
    pub(crate) keys: &'static [&'static [Key]],
}

/// Reads a value of the type that its key declares.
pub(crate) type ValueReader<R, T> = fn(&R, &PlanNode<'_>, &KeyType) -> Option<T>;

impl<'a> PlanNode<'a> {
    fn of_value(key: &'a str, value: &'a Value, otherwise: &Range<usize>) -> PlanNode<'a> {
        let kind = match value {
            Value::String(text) => NodeKind::Text(text.value()),
            Value::Integer(number) => NodeKind::Int(*number.value()),
            Value::Float(number) => NodeKind::Float(*number.value()),
            Value::Boolean(truth) => NodeKind::Bool(*truth.value()),
            Value::Datetime(_) => NodeKind::Date,
            Value::Array(list) => NodeKind::List(list),
            Value::InlineTable(table) => NodeKind::Table(table),
        };
        PlanNode { key, kind, span: value.span().unwrap_or_else(|| otherwise.clone()) }
    }

    fn of_item(key: &'a str, item: &'a Item, otherwise: &Range<usize>) -> Option<PlanNode<'a>> {
        let kind = match item {
            Item::None => return None,
            Item::Value(value) => return Some(PlanNode::of_value(key, value, otherwise)),
            Item::Table(table) => NodeKind::Table(table),
            Item::ArrayOfTables(tables) => NodeKind::Tables(tables),
        };
        // A table that is only implied (`[a.b]` without `[a]`) has the location of its key.
        Some(PlanNode { key, kind, span: item.span().unwrap_or_else(|| otherwise.clone()) })
    }

    /// The elements of a list, or of a `[[key]]`; `None` for anything else.
    pub(crate) fn elements(&self) -> Option<Vec<PlanNode<'a>>> {
        match &self.kind {
            NodeKind::List(list) => {
                Some(list.iter().map(|value| PlanNode::of_value(self.key, value, &self.span)).collect())
            }
            NodeKind::Tables(tables) => Some(
                tables
                    .iter()
                    .map(|table| PlanNode {
                        key: self.key,
                        kind: NodeKind::Table(table),
                        span: table.span().unwrap_or_else(|| self.span.clone()),
                    })
                    .collect(),
            ),
            _ => None,
        }
    }

    /// Describes the value for messages.
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            NodeKind::Text(text) if text.chars().count() <= 40 => format!("the text {text:?}"),
            NodeKind::Text(_) => "a text".to_owned(),
            NodeKind::Int(number) => format!("the number {number}"),
            NodeKind::Float(number) => format!("the number {number}"),
            NodeKind::Bool(truth) => truth.to_string(),
            NodeKind::Date => "a date".to_owned(),
            NodeKind::List(_) => "a list".to_owned(),
            NodeKind::Table(_) => "a table".to_owned(),
            NodeKind::Tables(_) => format!("a list of [[{}]] tables", self.key),
        }
    }
}

impl<'a> Section<'a> {
    /// The value under `key`.
    pub(crate) fn get(&self, key: &str) -> Option<PlanNode<'a>> {
        let (name, item) = self.table.get_key_value(key)?;
        let span = name.span().unwrap_or_else(|| self.span.clone());
        PlanNode::of_item(name.get(), item, &span)
    }

    /// Returns all keys with their values, in the order of the text.
    pub(crate) fn entries(&self) -> Vec<PlanNode<'a>> {
        let mut all: Vec<PlanNode<'a>> = self
            .table
            .iter()
            .filter_map(|(key, item)| {
                let span = self.key_span(key);
                PlanNode::of_item(key, item, &span)
            })
            .collect();
        all.sort_by_key(|node| self.key_span(node.key).start);
        all
    }

    /// The declaration of the key `name`.
    ///
    /// # Panics
    /// If the table has no such key.
    pub(crate) fn key(&self, name: &str) -> &'static Key {
        self.keys.iter().copied().flatten().find(|key| key.name == name).expect("a key of this table")
    }

    /// The location of `key` itself.
    pub(crate) fn key_span(&self, key: &str) -> Range<usize> {
        self.table.key(key).and_then(|key| key.span()).unwrap_or_else(|| self.span.clone())
    }
}

impl<'c> PlanReader<'c> {
    /// Returns a reader of `text`, which messages call `name`.
    pub(crate) fn new(name: &str, text: &str, catalogue: &'c Catalogue, files: &'c Files<'c>) -> Self {
        Self {
            catalogue,
            files,
            source: Arc::new(SourceText::new(name, text)),
            problems: RefCell::default(),
            dimensions: RefCell::default(),
            notices: RefCell::default(),
        }
    }
}

impl PlanReader<'_> {
    /// Parses `text`, and calls `read` with its root; reports a text that is not TOML.
    pub(crate) fn root<T>(&self, text: &str, read: impl FnOnce(&Table) -> T) -> Option<T> {
        match toml_edit::Document::parse(text) {
            Ok(document) => Some(read(document.as_table())),
            Err(error) => {
                let what = format!("this is not TOML: {}", error.message());
                self.refuse(error.span().unwrap_or(0..0), what, None)
            }
        }
    }

    /// Returns the result of reading, or all mistakes that were reported.
    pub(crate) fn result<T>(self, name: &str, read: Option<T>) -> Result<T, PlanError> {
        let problems = self.problems.into_inner();
        match read {
            Some(read) if problems.is_empty() => Ok(read),
            _ => Err(PlanError::new(name, problems)),
        }
    }

    /// Reports a mistake.
    pub(crate) fn problem(&self, span: Range<usize>, what: impl Into<String>, help: Option<String>) {
        self.problem_in(&self.source, span, what.into(), help);
    }

    /// Reports a mistake that leaves nothing to return.
    pub(crate) fn refuse<T>(&self, span: Range<usize>, what: impl Into<String>, help: Option<String>) -> Option<T> {
        self.problem(span, what, help);
        None
    }

    /// Reports a mistake in `source`, unless it was reported already.
    pub(crate) fn problem_in(&self, source: &Arc<SourceText>, span: Range<usize>, what: String, help: Option<String>) {
        let mut problems = self.problems.borrow_mut();
        let problem = Problem::new(source, span, what, help);
        let known = problems.iter().any(|other| other.span() == problem.span() && other.what() == problem.what());
        if !known && problems.len() < PROBLEMS_MAX {
            problems.push(problem);
        }
    }

    /// Reads a table with these keys. Reports all others.
    pub(crate) fn section<'a>(
        &self,
        node: &PlanNode<'a>,
        what: &str,
        keys: &'static [&'static [Key]],
    ) -> Option<Section<'a>> {
        let section = Section { keys, ..self.table(node, what)? };
        self.known_keys(&section);
        Some(section)
    }

    /// Reports every unknown key of `section`.
    pub(crate) fn known_keys(&self, section: &Section<'_>) {
        let known: Vec<&str> = section.keys.iter().copied().flatten().map(|key| key.name).collect();
        self.known_names(section, &known, &|_| None);
    }

    /// Reports every key of `section` that is not one of `known`; `elsewhere` says where the key belongs, if that is
    /// known.
    pub(crate) fn known_names(
        &self,
        section: &Section<'_>,
        known: &[&str],
        elsewhere: &dyn Fn(&str) -> Option<String>,
    ) {
        for node in section.entries() {
            if !known.contains(&node.key) {
                let help = elsewhere(node.key).unwrap_or_else(|| nearest::help(node.key, "keys here", known));
                let what = format!("unknown key `{}` in {}", node.key, section.what);
                self.problem(section.key_span(node.key), what, Some(help));
            }
        }
    }

    /// Reads the value of a key, or its default with `read`. Returns `None` after a mistake, or if there is no
    /// default.
    pub(crate) fn value<T>(&self, section: &Section<'_>, name: &str, read: ValueReader<Self, T>) -> Option<T> {
        match section.get(name) {
            Some(node) => read(self, &node, &section.key(name).takes),
            None => self.by_default(section.key(name), read),
        }
    }

    /// Reads the value of an optional key.
    pub(crate) fn given<T>(&self, section: &Section<'_>, name: &str, read: ValueReader<Self, T>) -> Option<Option<T>> {
        section.get(name).map_or(Some(None), |node| read(self, &node, &section.key(name).takes).map(Some))
    }

    /// Reads the value of a key that may be a list. `scope` is the part of the plan that the key is in.
    pub(crate) fn swept<T>(
        &self,
        section: &Section<'_>,
        scope: &str,
        name: &str,
        read: ValueReader<Self, T>,
    ) -> Option<Choices<T>> {
        let key = section.key(name);
        match section.get(name) {
            Some(node) => self.choices(scope, &node, |node| read(self, node, &key.takes)),
            None => self.by_default(key, read).map(|value| Choices::fixed(value, section.span.clone())),
        }
    }

    fn by_default<T>(&self, key: &Key, read: ValueReader<Self, T>) -> Option<T> {
        let KeyDefault::Is(written) = key.unless else { return None };
        let value: Value = written.parse().ok()?;
        read(self, &PlanNode::of_value(key.name, &value, &(0..0)), &key.takes)
    }

    /// The value of a required `key`.
    pub(crate) fn required<'a>(&self, section: &Section<'a>, key: &str, example: &str) -> Option<PlanNode<'a>> {
        let node = section.get(key);
        if node.is_none() {
            self.problem(
                section.span.clone(),
                format!("{} needs `{key}`", section.what),
                Some(format!("write {example}")),
            );
        }
        node
    }

    /// A value as written in the text, without the quotes of a text and the secrets of a command.
    pub(crate) fn written(&self, node: &PlanNode<'_>) -> String {
        match node.kind {
            NodeKind::Text(text) if is_command(text) => without_secrets(text),
            NodeKind::Text(text) => text.to_owned(),
            _ => {
                let raw = self.source.text.get(node.span.clone()).unwrap_or_default();
                raw.split_whitespace().collect::<Vec<_>>().join(" ")
            }
        }
    }

    pub(crate) fn wrong_type<T>(&self, node: &PlanNode<'_>, wanted: &str) -> Option<T> {
        let found = node.describe();
        self.refuse(node.span.clone(), format!("`{}` must be {wanted}, not {found}", node.key), None)
    }

    pub(crate) fn text<'a>(&self, node: &PlanNode<'a>) -> Option<&'a str> {
        match node.kind {
            NodeKind::Text(text) => Some(text),
            _ => self.wrong_type(node, "a text in quotes"),
        }
    }

    pub(crate) fn bool(&self, node: &PlanNode<'_>, _: &KeyType) -> Option<bool> {
        match node.kind {
            NodeKind::Bool(truth) => Some(truth),
            _ => self.wrong_type(node, "true or false"),
        }
    }

    /// Reads an integer in `range`.
    pub(crate) fn int(&self, node: &PlanNode<'_>, range: RangeInclusive<i64>) -> Option<i64> {
        let NodeKind::Int(number) = node.kind else {
            return self.wrong_type(node, "a whole number without unit or quotes");
        };
        if range.contains(&number) {
            return Some(number);
        }
        let limits = if *range.end() == i64::MAX {
            format!("at least {}", range.start())
        } else {
            format!("{} to {}", range.start(), range.end())
        };
        let help = format!("write a whole number in these limits, such as {}", range.start());
        self.refuse(node.span.clone(), format!("`{}` must be {limits}, not {number}", node.key), Some(help))
    }

    /// Reads an integer or a time in nanoseconds, as `takes` declares.
    pub(crate) fn whole(&self, node: &PlanNode<'_>, takes: &KeyType) -> Option<u64> {
        match *takes {
            KeyType::Time(least, most) => self.duration(node, least..=most),
            KeyType::Whole(least, most) => self.int(node, least..=most).map(i64::unsigned_abs),
            _ => None,
        }
    }

    /// Reads an integer that fits into 32 bits.
    pub(crate) fn count(&self, node: &PlanNode<'_>, takes: &KeyType) -> Option<u32> {
        self.whole(node, takes).and_then(|number| u32::try_from(number).ok())
    }

    /// Reads a share in per cent, within the limits of `takes`.
    pub(crate) fn share(&self, node: &PlanNode<'_>, takes: &KeyType) -> Option<f64> {
        let KeyType::Share(least, most) = *takes else { return None };
        let share = self.quantity(node, Dimension::Share)?;
        if (least..=most).contains(&share) {
            return Some(share);
        }
        self.refuse(node.span.clone(), format!("`{}` must be {least}% to {most}%", node.key), None)
    }

    /// Reads any of the words of `takes`.
    pub(crate) fn one_of<'a>(&self, node: &PlanNode<'a>, takes: &KeyType) -> Option<&'a str> {
        let KeyType::Word(what, words) = *takes else { return None };
        self.word(node, what, words)
    }

    /// Reads any of the words of `takes` as the value that it names.
    pub(crate) fn named<T: DeserializeOwned>(&self, node: &PlanNode<'_>, takes: &KeyType) -> Option<T> {
        let word = self.one_of(node, takes)?;
        T::deserialize(IntoDeserializer::<serde::de::value::Error>::into_deserializer(word)).ok()
    }

    /// Reads a finite number, with or without decimals.
    pub(crate) fn number(&self, node: &PlanNode<'_>) -> Option<f64> {
        match node.kind {
            NodeKind::Int(number) => Some(number as f64),
            NodeKind::Float(number) if number.is_finite() => Some(number),
            NodeKind::Float(_) => {
                let what = format!("`{}` must be a number with a finite value, not {}", node.key, self.written(node));
                self.refuse(node.span.clone(), what, None)
            }
            _ => self.wrong_type(node, "a number"),
        }
    }

    /// Reads a number with a unit, in base units.
    pub(crate) fn quantity(&self, node: &PlanNode<'_>, dimension: Dimension) -> Option<f64> {
        let wrong = match node.kind {
            NodeKind::Text(text) => match quantity::parse(text, dimension) {
                Ok(value) => return Some(value),
                Err(wrong) => wrong,
            },
            NodeKind::Int(_) | NodeKind::Float(_) => quantity::needs_unit(&self.written(node), dimension),
            _ => return self.wrong_type(node, "a number with a unit, in quotes"),
        };
        let (what, help) = wrong;
        let place = self.written(node);
        let what = match node.kind {
            NodeKind::Text(_) if what.starts_with("needs") => format!("`{} = {place:?}` {what}", node.key),
            _ if what.starts_with("needs") => format!("`{} = {place}` {what}", node.key),
            _ => format!("`{}`: {what}", node.key),
        };
        self.refuse(node.span.clone(), what, help)
    }

    /// Reads a time in nanoseconds.
    pub(crate) fn duration(&self, node: &PlanNode<'_>, range: RangeInclusive<u64>) -> Option<u64> {
        let ns = self.quantity(node, Dimension::Time)?.round();
        if ns >= *range.start() as f64 && ns <= *range.end() as f64 {
            return Some(ns as u64);
        }
        let (least, most) = (quantity::show_ns(*range.start()), quantity::show_ns(*range.end()));
        let what = format!("`{}` must be {least} to {most}, not {}", node.key, self.written(node));
        self.refuse(node.span.clone(), what, Some(format!("write a time in these limits, such as \"{least}\"")))
    }

    /// Reads a word of `known`; `what` names the kind of word.
    pub(crate) fn word<'a>(&self, node: &PlanNode<'a>, what: &str, known: &[&str]) -> Option<&'a str> {
        let word = self.text(node)?;
        if known.contains(&word) {
            return Some(word);
        }
        let what = format!("unknown {what} `{}`", short(word));
        self.refuse(node.span.clone(), what, Some(nearest::help(word, "there are", known)))
    }

    /// Reads a table.
    pub(crate) fn table<'a>(&self, node: &PlanNode<'a>, what: &str) -> Option<Section<'a>> {
        match node.kind {
            NodeKind::Table(table) => {
                Some(Section { what: what.to_owned(), table, span: node.span.clone(), keys: &[] })
            }
            _ => self.wrong_type(node, "a table"),
        }
    }

    /// Reads a list of tables: `[[key]]`, or tables in brackets.
    pub(crate) fn tables<'a>(&self, node: &PlanNode<'a>) -> Option<Vec<PlanNode<'a>>> {
        let wanted = || format!("a list of tables, each begun with [[{}]]", node.key);
        node.elements().or_else(|| self.wrong_type(node, &wanted()))
    }
}

/// Cuts `text` to a length that fits into a message.
pub(crate) fn short(text: &str) -> String {
    if text.chars().count() <= 60 {
        return text.to_owned();
    }
    text.chars().take(59).chain(['…']).collect()
}
