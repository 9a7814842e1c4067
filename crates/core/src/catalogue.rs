//! Everything that a plan may name, with what it needs to be checked and suggested.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::http::Request;
use crate::store::{Dialect, Interface, StoreKind};
use crate::workload::Workload;

/// The type of a parameter of a store, workload or sampler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamType {
    /// A whole number between these, both included.
    Int {
        /// Least.
        min: i64,
        /// Most.
        max: i64,
    },
    /// A size in bytes, written `"4MiB"`.
    Bytes,
    /// A duration, written `"30s"`; the value is in nanoseconds.
    Duration,
    /// True or false.
    Bool,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Any text.
    Text,
}

/// A parameter that a store, workload or sampler takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ParamSpec {
    /// Its key in a plan.
    pub name: &'static str,
    /// Its type.
    pub param_type: ParamType,
    /// Its default as it would be written in a plan, without quotes: `100000`, `4MiB`, `none`.
    pub default: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// It says how a server of our own is made, and nothing of one that runs already.
    pub of_private: bool,
}

impl ParamSpec {
    const fn of(name: &'static str, param_type: ParamType, default: &'static str, summary: &'static str) -> Self {
        Self { name, param_type, default, summary, of_private: false }
    }

    /// The same of servers of our own only.
    pub const fn of_private(self) -> Self {
        Self { of_private: true, ..self }
    }

    /// A whole number of `range`.
    pub const fn int(
        name: &'static str,
        range: RangeInclusive<i64>,
        default: &'static str,
        summary: &'static str,
    ) -> Self {
        Self::of(name, ParamType::Int { min: *range.start(), max: *range.end() }, default, summary)
    }

    /// A size in bytes.
    pub const fn bytes(name: &'static str, default: &'static str, summary: &'static str) -> Self {
        Self::of(name, ParamType::Bytes, default, summary)
    }

    /// A duration.
    pub const fn duration(name: &'static str, default: &'static str, summary: &'static str) -> Self {
        Self::of(name, ParamType::Duration, default, summary)
    }

    /// `true` or `false`; without it, `false`.
    pub const fn flag(name: &'static str, summary: &'static str) -> Self {
        Self::of(name, ParamType::Bool, "false", summary)
    }

    /// One of some words; without it, the first.
    pub const fn one_of(name: &'static str, words: &'static [&'static str], summary: &'static str) -> Self {
        Self::of(name, ParamType::OneOf(words), words[0], summary)
    }

    /// Any text.
    pub const fn text(name: &'static str, default: &'static str, summary: &'static str) -> Self {
        Self::of(name, ParamType::Text, default, summary)
    }
}

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ParamValue {
    /// True or false.
    Bool(bool),
    /// A whole number, bytes or nanoseconds.
    Int(i64),
    /// A word or text.
    Text(String),
}

/// Values of parameters by name, defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Params(pub BTreeMap<String, ParamValue>);

impl Params {
    /// The whole number `name`; 0 when there is none (plans are checked before they get here).
    pub fn int(&self, name: &str) -> i64 {
        match self.0.get(name) {
            Some(ParamValue::Int(value)) => *value,
            _ => 0,
        }
    }

    /// The word or text `name`; empty when there is none.
    pub fn text(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some(ParamValue::Text(value)) => value,
            _ => "",
        }
    }

    /// The truth value `name`; false when there is none.
    pub fn bool(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(ParamValue::Bool(true)))
    }
}

/// A workload that a plan may name.
pub struct WorkloadSpec {
    /// Name as in plans.
    pub name: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// Interfaces a store must speak.
    pub interfaces: &'static [Interface],
    /// Dialects of SQL that its statements are written for; empty when it has none or all understand them.
    pub dialects: &'static [Dialect],
    /// Names of its operation kinds, for plans' mixes and questions; none of a workload that is made of the user's own
    /// scripts, each of which is a kind.
    pub kinds: &'static [&'static str],
    /// Its parameters.
    pub params: &'static [ParamSpec],
    /// Names for it with a mix and parameters that somebody has published. One that is called as the workload itself says
    /// its usual mix.
    pub presets: &'static [Preset],
    /// Makes one, with parameters checked and defaults filled in. `scripts` is empty unless it takes scripts.
    pub make: fn(seed: u64, params: &Params, scripts: &[Script]) -> Result<Box<dyn Workload>, WorkloadError>,
}

impl WorkloadSpec {
    /// Its names: its own, then those of its presets.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let others = self.presets.iter().map(|preset| preset.name).filter(|name| *name != self.name);
        std::iter::once(self.name).chain(others)
    }

    /// Whether it is made of the user's own scripts.
    pub fn takes_scripts(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Whether it may be made of the user's own requests.
    pub fn takes_requests(&self) -> bool {
        self.interfaces.contains(&Interface::Http)
    }
}

/// A name under which a workload is known elsewhere: what it asks, and parameters whose defaults are others then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preset {
    /// The name, as in plans.
    pub name: &'static str,
    /// Whose it is and what it is for: one line for lists.
    pub summary: &'static str,
    /// Shares of kinds of operation, where a phase says none.
    pub mix: &'static [(&'static str, u32)],
    /// Parameters, with values as they would be written in a plan, without quotes.
    pub params: &'static [(&'static str, &'static str)],
}

impl Preset {
    /// One that changes no parameter.
    pub const fn of(name: &'static str, summary: &'static str, mix: &'static [(&'static str, u32)]) -> Self {
        Self { name, summary, mix, params: &[] }
    }
}

/// A script of the user's own: one kind of operation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Script {
    /// The kind's name.
    pub name: String,
    /// Its share among the scripts.
    pub weight: u32,
    /// Its text, in pgbench's language.
    pub text: String,
    /// The file that it was read from, as the plan names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// In place of a text: requests of HTTP, sent one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<Request>,
    /// CSV files whose columns are variables; the same for all scripts of a workload. Never recorded: they may hold
    /// passwords.
    #[serde(skip)]
    pub csv: Vec<Arc<CsvFile>>,
}

/// A CSV file. Each operation takes one of its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvFile {
    /// The file, as the plan names it.
    pub file: String,
    /// Its text: a line with the names of the columns, then rows.
    pub text: String,
    /// Stands before the names of its columns.
    pub prefix: String,
    /// Operations take rows one after the other, instead of at random.
    pub in_order: bool,
}

/// Why a workload cannot be made of what it was given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct WorkloadError {
    /// What is wrong, in one sentence without a full stop.
    pub what: String,
    /// Where: the script's position, and bytes of its text.
    pub place: Option<(usize, std::ops::Range<usize>)>,
    /// What to do.
    pub help: Option<String>,
}

impl WorkloadError {
    /// Says `what` is wrong, of the workload as a whole, and what to do.
    pub fn new(what: impl Into<String>, help: impl Into<String>) -> Self {
        Self { what: what.into(), place: None, help: Some(help.into()) }
    }
}

/// A sampler that a plan may name.
#[derive(Debug, Clone)]
pub struct SamplerSpec {
    /// Name as in plans.
    pub name: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// Whether it is read where a plan names none: one that costs what is measured is not.
    pub by_default: bool,
}

/// Begins the name of a lab where a store is named.
pub const LAB: &str = "lab:";

/// A lab that stands: servers of our own that were there before the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabEntry {
    /// Its name, as in `--on lab:NAME`.
    pub name: String,
    /// The process that holds it.
    pub process: u32,
    /// The name of its kind of store.
    pub store: String,
    /// The parameters that its servers were made with.
    pub params: Params,
}

/// Everything a plan may name. `cli` puts it together; `plan` checks against it.
#[derive(Default)]
pub struct Catalogue {
    /// Stores, in the order in which they are listed.
    pub stores: Vec<Box<dyn StoreKind>>,
    /// Workloads.
    pub workloads: Vec<WorkloadSpec>,
    /// Samplers.
    pub samplers: Vec<SamplerSpec>,
    /// Labs that stand.
    pub labs: Vec<LabEntry>,
}

impl Catalogue {
    /// The store named `name`, or known by that name elsewhere.
    pub fn store(&self, name: &str) -> Option<&dyn StoreKind> {
        self.stores.iter().find(|store| store.spec().names().any(|known| known == name)).map(|store| &**store)
    }

    /// The lab that `given` names, as `lab:NAME`.
    pub fn lab(&self, given: &str) -> Option<&LabEntry> {
        let name = given.strip_prefix(LAB)?;
        self.labs.iter().find(|lab| lab.name == name)
    }

    /// The store that a URL's scheme names.
    pub fn store_for_scheme(&self, scheme: &str) -> Option<&dyn StoreKind> {
        self.stores.iter().find(|store| store.spec().schemes.contains(&scheme)).map(|store| &**store)
    }

    /// The store that `given` names: by a name of its, by a URL, or by the scheme of one.
    pub fn store_of(&self, given: &str) -> Option<&dyn StoreKind> {
        if let Some(lab) = self.lab(given) {
            return self.store(&lab.store);
        }
        match given.split_once("://") {
            Some((scheme, _)) => self.store_for_scheme(scheme),
            None => self.store(given).or_else(|| self.store_for_scheme(given)),
        }
    }

    /// The workload named `name`.
    pub fn workload(&self, name: &str) -> Option<&WorkloadSpec> {
        self.workloads.iter().find(|workload| workload.name == name)
    }

    /// The workload that `name` means, and what else that name says of it.
    pub fn preset(&self, name: &str) -> Option<(&WorkloadSpec, Option<&'static Preset>)> {
        let preset = |spec: &WorkloadSpec| spec.presets.iter().find(|preset| preset.name == name);
        let own = self.workload(name).map(|spec| (spec, preset(spec)));
        own.or_else(|| self.workloads.iter().find_map(|spec| Some((spec, Some(preset(spec)?)))))
    }

    /// Every name of a workload.
    pub fn workload_names(&self) -> Vec<&'static str> {
        self.workloads.iter().flat_map(WorkloadSpec::names).collect()
    }
}
