//! The parts of a plan's text that options change: tables, and the places of their values.

use std::ops::Range;

use plimsoll_core::study::places_in;
use plimsoll_core::{Catalogue, StoreSpec, WorkloadSpec};
use plimsoll_plan::free_name;
use plimsoll_plan::keys::{self, Key, KeyType};
use plimsoll_plan::model::PhaseKind;
use plimsoll_trial::TrialError;
use toml_edit::{Item, Table, TableLike, Value};

use crate::options::quoted;
use crate::plans::Edit;

/// Keys of a plan whose values refer to figures or to points of sweeps.
const DERIVED: [&str; 4] = ["figure", "answer", "worthless", "breaks"];
/// Keys of a phase that make it the phase that it is.
const OF_IDENTITY: [&str; 3] = ["do", "name", "only"];

/// The parts of a plan's text.
pub struct Parts<'a> {
    /// Name of the plan, for messages.
    pub name: &'a str,
    pub text: &'a str,
    pub root: Place<'a>,
    pub workload: Option<(Place<'a>, &'a WorkloadSpec)>,
    pub stores: Vec<StorePart<'a>>,
    pub phases: Vec<PhasePart<'a>>,
}

/// A table of the text.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub table: &'a dyn TableLike,
    next: NextKey,
}

/// Position and form of another key of a table.
#[derive(Debug, Clone, Copy)]
enum NextKey {
    /// On a line before this position.
    Before(usize),
    /// On a line after this position.
    After(usize),
    /// Inside braces, after this position.
    Inside(usize),
}

/// An element of the plan's `stores`.
pub struct StorePart<'a> {
    /// Names by which options may call it: in reports, as typed, and that of its kind.
    pub names: Vec<String>,
    typed: String,
    pub spec: Option<&'a StoreSpec>,
    /// Location of the element.
    whole: Range<usize>,
    /// Table of the element; `None` for a name alone.
    pub place: Option<Place<'a>>,
}

/// A phase.
pub struct PhasePart<'a> {
    pub name: String,
    pub kind: PhaseKind,
    pub place: Place<'a>,
}

/// The keys of a plan that take a simple value.
pub fn of_plan() -> impl Iterator<Item = &'static Key> {
    let is_simple = |key: &&Key| {
        !matches!(
            key.takes,
            KeyType::Stores
                | KeyType::Workload
                | KeyType::Phases
                | KeyType::Table(_)
                | KeyType::Tables(_)
                | KeyType::SweptKeys
        )
    };
    keys::PLAN.iter().filter(is_simple)
}

impl<'a> Parts<'a> {
    /// Finds the parts of the plan in `text`, whose tables are those of `root`.
    pub fn of(catalogue: &'a Catalogue, name: &'a str, text: &'a str, root: &'a Table) -> Self {
        let first = root.iter().filter(|(_, item)| item.is_value());
        let first = first.filter_map(|(key, _)| Some(root.key(key)?.span()?.start)).min();
        let place = Place { table: root, next: NextKey::Before(first.unwrap_or(0)) };
        let workload = root.get("workload").and_then(|item| {
            let place = Place::after(item.as_table_like()?, "name", item.is_value())?;
            let (spec, _) = catalogue.preset(place.text("name")?)?;
            Some((place, spec))
        });
        let phases = tables(root.get("phase"));
        let mut taken: Vec<String> = phases.iter().filter_map(|(table, _)| text_of(*table, "name")).collect();
        let phase = |(table, inline): &(&'a dyn TableLike, bool)| {
            let kind = PhaseKind::named(table.get("do")?.as_str()?)?;
            let name = text_of(*table, "name").unwrap_or_else(|| free_name(kind.name(), &mut taken));
            Some(PhasePart { name, kind, place: Place::after(*table, "do", *inline)? })
        };
        let phases = phases.iter().filter_map(phase).collect();
        Parts { name, text, root: place, workload, stores: stores(catalogue, root.get("stores")), phases }
    }

    /// Leaves only the stores `wanted` in the list of stores.
    ///
    /// # Errors
    /// Fails if there is no such store, or no list.
    pub fn only(&self, wanted: &[String]) -> Result<Vec<Edit>, TrialError> {
        let mut names: Vec<&str> = self.stores.iter().map(StorePart::label).collect();
        names.dedup();
        let is = |store: &StorePart<'_>, word: &str| store.names.iter().any(|name| name == word.trim());
        if let Some(word) = wanted.iter().find(|word| !self.stores.iter().any(|store| is(store, word))) {
            let what = format!("--stores {word}: {} has no such store", self.name);
            let next = if names.is_empty() {
                "it names none: name stores by --on".to_owned()
            } else {
                format!("it has: {}", names.join(", "))
            };
            return Err(TrialError::usage(what).next(next));
        }
        let kept: Vec<&StorePart<'_>> =
            self.stores.iter().filter(|store| wanted.iter().any(|word| is(store, word))).collect();
        if kept.len() == self.stores.len() {
            return Ok(Vec::new());
        }
        let Some(at) = self.root.value("stores") else {
            let what = format!("--stores {}: the stores of {} are tables of their own", wanted.join(","), self.name);
            return Err(TrialError::usage(what).next("write them as a list: stores = [{ store = \"…\" }, …]"));
        };
        let lines = kept.iter().filter_map(|store| self.text.get(store.whole.clone()));
        let text = format!("[\n    {},\n]", lines.collect::<Vec<_>>().join(",\n    "));
        Ok(vec![Edit { at, text, from: format!("--stores {}", wanted.join(",")) }])
    }

    /// Every name that can be set.
    pub fn names(&self) -> Vec<String> {
        let of_phases =
            self.phases.iter().flat_map(|phase| phase.keys().map(move |key| format!("{}.{}", phase.name, key.name)));
        let written = self.phases.iter().flat_map(|phase| phase.written());
        self.of_workload()
            .chain(of_plan().map(|key| key.name))
            .map(str::to_owned)
            .chain(written.map(|key| key.name.to_owned()))
            .chain(of_phases)
            .chain(self.of_stores())
            .collect()
    }

    /// Lists the names that can be set; of phases only the keys that the plan has.
    pub fn has(&self) -> String {
        let of_workload: Vec<&str> = self.of_workload().collect();
        let written =
            self.phases.iter().flat_map(|phase| phase.written().map(move |key| format!("{}.{}", phase.name, key.name)));
        let of_plan: Vec<&str> = of_plan().map(|key| key.name).collect();
        let groups = [
            ("of the workload", of_workload.join(", ")),
            ("of phases", written.collect::<Vec<_>>().join(", ")),
            ("of stores", self.of_stores().join(", ")),
            ("of the plan", of_plan.join(", ")),
        ];
        let groups = groups.iter().filter(|(_, names)| !names.is_empty());
        groups.map(|(of, names)| format!("{of}: {names}")).collect::<Vec<_>>().join("; ")
    }

    fn of_workload(&self) -> impl Iterator<Item = &'static str> {
        let params = self.workload.iter().flat_map(|(_, spec)| spec.params.iter().map(|param| param.name));
        params.collect::<Vec<_>>().into_iter()
    }

    fn of_stores(&self) -> Vec<String> {
        let mut specs: Vec<&StoreSpec> = Vec::new();
        for spec in self.stores.iter().filter_map(|store| store.spec) {
            if specs.iter().all(|known| known.name != spec.name) {
                specs.push(spec);
            }
        }
        specs.iter().flat_map(|spec| spec.params.iter().map(|param| format!("{}.{}", spec.name, param.name))).collect()
    }

    /// The figures, and the tables and lists that refer to figures or points: key, name for messages, and location.
    pub fn derived(&self) -> Vec<(&'static str, String, Range<usize>)> {
        let mut all = Vec::new();
        let starts = self.table_starts();
        for key in DERIVED {
            if let Some(Item::ArrayOfTables(tables)) = self.root.table.get(key) {
                for table in tables {
                    let Some(start) = table.span().map(|span| self.line_start(span.start)) else { continue };
                    let end = starts.iter().copied().filter(|other| *other > start).min().unwrap_or(self.text.len());
                    let text = ["name", "say"].iter().find_map(|key| table.get(key)?.as_str()).unwrap_or_default();
                    let text = without_places(text);
                    all.push((key, format!("`{key}` {text}").trim_end().to_owned(), start..end));
                }
            } else if let Some((start, value)) = self.root.key_start(key).zip(self.root.value(key)) {
                all.push((key, format!("`{key}`"), start..value.end));
            }
        }
        all
    }

    /// Positions of the plan's own tables. Tables inside of them are not included.
    fn table_starts(&self) -> Vec<usize> {
        let mut starts = Vec::new();
        for (_, item) in self.root.table.iter() {
            match item {
                Item::ArrayOfTables(tables) => starts.extend(tables.iter().filter_map(|table| table.span())),
                Item::Table(table) if !table.is_dotted() => starts.extend(table.span()),
                _ => {}
            }
        }
        starts.into_iter().map(|span| self.line_start(span.start)).collect()
    }

    fn line_start(&self, at: usize) -> usize {
        self.text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1)
    }
}

impl<'a> Place<'a> {
    /// The place in `table` after the value of `key`.
    pub fn after(table: &'a dyn TableLike, key: &str, inline: bool) -> Option<Self> {
        let end = table.get(key)?.span()?.end;
        Some(Place { table, next: if inline { NextKey::Inside(end) } else { NextKey::After(end) } })
    }

    /// The place of a key in the table `item`, if it is one with a header.
    pub fn of_table(item: Option<&'a Item>) -> Option<Self> {
        let table = item?.as_table().filter(|table| !table.is_dotted())?;
        Some(Place { table, next: NextKey::After(table.span()?.end) })
    }

    /// The values of a list, as they stand in `text`.
    pub fn elements<'t>(&self, key: &str, text: &'t str) -> Option<Vec<&'t str>> {
        let list = self.table.get(key)?.as_array()?;
        list.iter().map(|value| text.get(value.span()?)).collect()
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.table.get(key)?.as_str()
    }

    /// The location of the value of `key`; `None` for a table of its own.
    pub fn value(&self, key: &str) -> Option<Range<usize>> {
        self.table.get(key)?.as_value()?.span()
    }

    fn key_start(&self, key: &str) -> Option<usize> {
        Some(self.table.key(key)?.span()?.start)
    }

    /// Returns an edit that replaces the conditions for a number of repeats by the least that they allow.
    pub fn least_repeats(&self) -> Option<Edit> {
        let least = self.table.get("repeats")?.as_table_like()?.get("least")?.as_integer()?;
        Some(Edit { at: self.value("repeats")?, text: least.to_string(), from: String::new() })
    }

    /// Returns true if the value of `key` is a list.
    pub fn is_list(&self, key: &str) -> bool {
        self.table.get(key).is_some_and(Item::is_array)
    }

    /// Sets `key` to one or several values. If it was a list it stays one, so that the key still names trials.
    ///
    /// # Errors
    /// As [`Place::set`].
    pub fn choose(&self, key: &str, value: String, from: String) -> Result<Edit, TrialError> {
        let value = if self.is_list(key) && !value.starts_with('[') { format!("[{value}]") } else { value };
        self.set(key, value, from)
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// Fails if the plan has a table with that name.
    pub fn set(&self, key: &str, value: String, from: String) -> Result<Edit, TrialError> {
        if self.table.contains_key(key) {
            let Some(at) = self.value(key) else {
                let what = format!("{from}: the plan has a table `{key}`");
                return Err(TrialError::usage(what).next("change it in a copy of the plan"));
            };
            return Ok(Edit { at, text: value, from });
        }
        let (at, text) = match self.next {
            NextKey::Before(at) => (at, format!("{key} = {value}\n")),
            NextKey::After(at) => (at, format!("\n{key} = {value}")),
            NextKey::Inside(at) => (at, format!(", {key} = {value}")),
        };
        Ok(Edit { at: at..at, text, from })
    }
}

impl StorePart<'_> {
    /// The first of its names.
    pub fn label(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// Sets a parameter.
    ///
    /// # Errors
    /// As [`Place::set`].
    pub fn set(&self, param: &str, value: String, from: String) -> Result<Edit, TrialError> {
        match &self.place {
            Some(place) => place.choose(param, value, from),
            None => {
                let text = format!("{{ store = {}, {param} = {value} }}", quoted(&self.typed));
                Ok(Edit { at: self.whole.clone(), text, from })
            }
        }
    }
}

impl PhasePart<'_> {
    /// The keys that can be set.
    fn keys(&self) -> impl Iterator<Item = &'static Key> + use<> {
        let all = keys::of_phase(self.kind).iter().copied().flatten();
        all.filter(|key| !OF_IDENTITY.contains(&key.name))
    }

    /// Returns the keys that the plan sets.
    pub fn written(&self) -> impl Iterator<Item = &'static Key> {
        self.keys().filter(|key| self.place.table.contains_key(key.name))
    }

    /// Returns the key `name`.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys().find(|key| key.name == name)
    }
}

/// The tables of a `[[key]]`, or of a list, and whether they are in braces.
pub fn tables(item: Option<&Item>) -> Vec<(&dyn TableLike, bool)> {
    match item {
        Some(Item::ArrayOfTables(tables)) => tables.iter().map(|table| (table as &dyn TableLike, false)).collect(),
        Some(Item::Value(Value::Array(list))) => {
            let tables = list.iter().filter_map(Value::as_inline_table);
            tables.map(|table| (table as &dyn TableLike, true)).collect()
        }
        _ => Vec::new(),
    }
}

fn text_of(table: &dyn TableLike, key: &str) -> Option<String> {
    table.get(key)?.as_str().map(str::to_owned)
}

/// The stores of a plan.
fn stores<'a>(catalogue: &'a Catalogue, item: Option<&'a Item>) -> Vec<StorePart<'a>> {
    let part = |typed: &str, label: Option<String>, whole: Range<usize>, place: Option<Place<'a>>| {
        let spec = catalogue.store_of(typed).map(|kind| kind.spec());
        let names = label.into_iter().chain([typed.to_owned()]).chain(spec.map(|spec| spec.name.to_owned()));
        StorePart { names: names.collect(), typed: typed.to_owned(), spec, whole, place }
    };
    let table = |table: &'a dyn TableLike, inline: bool, whole: Range<usize>| {
        let place = Place::after(table, "store", inline)?;
        Some(part(place.text("store")?, text_of(table, "as"), whole, Some(place)))
    };
    match item {
        Some(Item::Value(Value::Array(list))) => {
            let element = |value: &'a Value| match value {
                Value::String(typed) => Some(part(typed.value(), None, value.span()?, None)),
                Value::InlineTable(inline) => table(inline, true, value.span()?),
                _ => None,
            };
            list.iter().filter_map(element).collect()
        }
        Some(Item::Value(value @ Value::String(typed))) => {
            value.span().map(|whole| part(typed.value(), None, whole, None)).into_iter().collect()
        }
        Some(Item::ArrayOfTables(tables)) => tables.iter().filter_map(|one| table(one, false, one.span()?)).collect(),
        _ => Vec::new(),
    }
}

/// Returns a sentence with `…` for each of its figures, which have no values yet, and without one at its end.
fn without_places(say: &str) -> String {
    let filled =
        places_in(say).fold(say.to_owned(), |text, place| text.replace(&format!("{{{}}}", place.written), "…"));
    let short = filled.trim_end_matches(['.', '…', ' ', ':']);
    short.to_owned()
}
