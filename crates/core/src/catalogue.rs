//! Everything that a plan may name, with what it needs to be checked and suggested.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

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
#[derive(Debug, Clone, PartialEq)]
pub struct ParamSpec {
    /// Its key in a plan.
    pub name: &'static str,
    /// Its type.
    pub param_type: ParamType,
    /// Its default as it would be written in a plan, without quotes: `100000`, `4MiB`, `none`.
    pub default: &'static str,
    /// One line for lists.
    pub summary: &'static str,
}

impl ParamSpec {
    const fn of(name: &'static str, param_type: ParamType, default: &'static str, summary: &'static str) -> Self {
        Self { name, param_type, default, summary }
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
    /// Names of its operation kinds, for plans' mixes and questions. Of a workload that takes scripts: none, each
    /// script's name is a kind.
    pub kinds: &'static [&'static str],
    /// It is made of the user's own scripts.
    pub takes_scripts: bool,
    /// Its parameters.
    pub params: &'static [ParamSpec],
    /// Makes one, with parameters checked and defaults filled in. `scripts` is empty unless it takes scripts.
    pub make: fn(seed: u64, params: &Params, scripts: &[Script]) -> Result<Box<dyn Workload>, WorkloadError>,
}

/// A script of the user's own: one kind of operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
}

impl Catalogue {
    /// The store named `name`.
    pub fn store(&self, name: &str) -> Option<&dyn StoreKind> {
        self.stores.iter().find(|store| store.spec().name == name).map(|store| &**store)
    }

    /// The store that a URL's scheme names.
    pub fn store_for_scheme(&self, scheme: &str) -> Option<&dyn StoreKind> {
        self.stores.iter().find(|store| store.spec().schemes.contains(&scheme)).map(|store| &**store)
    }

    /// The workload named `name`.
    pub fn workload(&self, name: &str) -> Option<&WorkloadSpec> {
        self.workloads.iter().find(|workload| workload.name == name)
    }

    /// The sampler named `name`.
    pub fn sampler(&self, name: &str) -> Option<&SamplerSpec> {
        self.samplers.iter().find(|sampler| sampler.name == name)
    }
}
