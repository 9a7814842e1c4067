//! Names that a plan may use, with the data needed to check and suggest them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use crate::http::HttpRequest;
use crate::store::{Dialect, Interface, StoreKind};
use crate::workload::Workload;

/// The type of a parameter of a store, workload or sampler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamType {
    /// An integer between these, both included.
    Int {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A size in bytes, written `"4MiB"`.
    Bytes,
    /// A duration, written `"30s"`; the value is in nanoseconds.
    Duration,
    /// True or false.
    Bool,
    /// Any of these words.
    OneOf(&'static [&'static str]),
    /// Any text.
    Text,
}

/// A parameter that a store, workload or sampler takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ParamSpec {
    /// The parameter's key in a plan.
    pub name: &'static str,
    /// The parameter's type.
    pub param_type: ParamType,
    /// The default as written in a plan, without quotes: `100000`, `4MiB`, `none`.
    pub default: &'static str,
    /// Summary: a line for lists.
    pub summary: &'static str,
    /// Describes how a private server is made; has no meaning for an attached one.
    pub of_private: bool,
}

impl ParamSpec {
    const fn of(name: &'static str, param_type: ParamType, default: &'static str, summary: &'static str) -> Self {
        Self { name, param_type, default, summary, of_private: false }
    }

    /// Restricts the parameter to private servers.
    pub const fn of_private(self) -> Self {
        Self { of_private: true, ..self }
    }

    /// An integer in `range`.
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

    /// `true` or `false`; the default is `false`.
    pub const fn flag(name: &'static str, summary: &'static str) -> Self {
        Self::of(name, ParamType::Bool, "false", summary)
    }

    /// Any of some words; the default is the first.
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
    /// An integer, bytes or nanoseconds.
    Int(i64),
    /// A word or text.
    Text(String),
}

/// Values of parameters by name, defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Params(pub BTreeMap<String, ParamValue>);

impl Params {
    /// The integer `name`; 0 if there is none (plans are checked before they get here).
    pub fn int(&self, name: &str) -> i64 {
        match self.0.get(name) {
            Some(ParamValue::Int(value)) => *value,
            _ => 0,
        }
    }

    /// The word or text `name`; empty if there is none.
    pub fn text(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some(ParamValue::Text(value)) => value,
            _ => "",
        }
    }

    /// The truth value `name`; false if there is none.
    pub fn bool(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(ParamValue::Bool(true)))
    }
}

/// A workload that a plan may name.
pub struct WorkloadSpec {
    /// Name as in plans.
    pub name: &'static str,
    /// Summary: a line for lists.
    pub summary: &'static str,
    /// Interfaces a store must speak.
    pub interfaces: &'static [Interface],
    /// SQL dialects that its statements are written for; empty if it has none or all dialects understand them.
    pub dialects: &'static [Dialect],
    /// Names of its operation types, for the mixes and questions of plans; empty for a workload that is made of the
    /// user's own scripts, each of which is an operation type.
    pub kinds: &'static [&'static str],
    /// The workload's parameters.
    pub params: &'static [ParamSpec],
    /// Published variants with their mixes and parameters. A preset with the name of the workload itself holds its
    /// usual mix.
    pub presets: &'static [Preset],
    /// Creates the workload, with parameters checked and defaults filled in. `scripts` is empty unless it takes
    /// scripts.
    pub make: fn(seed: u64, params: &Params, scripts: &[Script]) -> Result<Box<dyn Workload>, WorkloadError>,
}

impl WorkloadSpec {
    /// Iterates over the names of the workload and of its presets.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let others = self.presets.iter().map(|preset| preset.name).filter(|name| *name != self.name);
        std::iter::once(self.name).chain(others)
    }

    /// True if the workload is made of the user's own scripts.
    pub fn takes_scripts(&self) -> bool {
        self.kinds.is_empty()
    }

    /// True if the workload may be made of the user's own requests.
    pub fn takes_requests(&self) -> bool {
        self.interfaces.contains(&Interface::Http)
    }
}

/// A published variant of a workload: its name, its mix, and parameters with other defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preset {
    /// The name, as in plans.
    pub name: &'static str,
    /// Origin and purpose: one line for lists.
    pub summary: &'static str,
    /// Shares of operation types, if a phase has no mix.
    pub mix: &'static [(&'static str, u32)],
    /// Parameters, with values as written in a plan, without quotes.
    pub params: &'static [(&'static str, &'static str)],
}

impl Preset {
    /// Creates a preset that changes no parameter.
    pub const fn of(name: &'static str, summary: &'static str, mix: &'static [(&'static str, u32)]) -> Self {
        Self { name, summary, mix, params: &[] }
    }
}

/// A user's script: one operation type.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Script {
    /// Name of the operation type.
    pub name: String,
    /// Share among the scripts.
    pub weight: u32,
    /// The text, in pgbench's language.
    pub text: String,
    /// The file that it was read from, as the plan names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// HTTP requests, sent one after the other, in place of a text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<HttpRequest>,
    /// CSV files whose columns are variables; all scripts of a workload share them. Values are never recorded, as they
    /// may be passwords; digests are.
    #[serde(skip_deserializing, skip_serializing_if = "Vec::is_empty", serialize_with = "digests")]
    pub csv: Vec<Arc<CsvFile>>,
}

/// Writes a digest of each file.
fn digests<S: Serializer>(files: &[Arc<CsvFile>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(files.iter().map(|csv| (&csv.file, csv.summary())))
}

/// A CSV file. Each operation takes one of its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvFile {
    /// The file, as the plan names it.
    pub file: String,
    /// The text: a line with the names of the columns, then rows.
    pub text: String,
    /// Number of lines, and a hash of the text, for messages and recordings.
    pub digest: String,
    /// Prefix of the names of its columns.
    pub prefix: String,
    /// Operations take the rows one after the other, instead of at random.
    pub in_order: bool,
}

impl CsvFile {
    /// Returns the digest of the contents, the order and the prefix, which together determine the values of operations.
    pub fn summary(&self) -> String {
        let order = if self.in_order { ", in order" } else { "" };
        let prefix = if self.prefix.is_empty() { String::new() } else { format!(", prefix {}", self.prefix) };
        format!("{}{order}{prefix}", self.digest)
    }
}

/// The reason why a workload cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct WorkloadError {
    /// The mistake, in one sentence without a full stop.
    pub what: String,
    /// Location of the mistake: the script's position, and bytes of its text.
    pub place: Option<(usize, std::ops::Range<usize>)>,
    /// Advice on how to correct it.
    pub help: Option<String>,
}

impl WorkloadError {
    /// Creates an error about the workload as a whole, with advice.
    pub fn new(what: impl Into<String>, help: impl Into<String>) -> Self {
        Self { what: what.into(), place: None, help: Some(help.into()) }
    }
}

/// A sampler that a plan may name.
#[derive(Debug, Clone)]
pub struct SamplerSpec {
    /// Name as in plans.
    pub name: &'static str,
    /// Summary: a line for lists.
    pub summary: &'static str,
    /// Read by default, if a plan names no samplers. False for a sampler that affects the measurement.
    pub by_default: bool,
    /// Names and units of its series, as they are recorded. Empty for [`STORE`](crate::sampler::STORE): each store has
    /// counters of its own.
    pub series: &'static [(&'static str, &'static str)],
}

/// Prefix of a lab's name in place of a store's.
pub const LAB: &str = "lab:";

/// A standing lab: private servers that existed before the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabEntry {
    /// The lab's name, as in `--on lab:NAME`.
    pub name: String,
    /// Directory of all labs.
    pub labs: PathBuf,
    /// Id of the process that holds it.
    pub process: u32,
    /// The name of its kind of store.
    pub store: String,
    /// The name of the store or preset that it was made by.
    pub made_as: String,
    /// The parameters that its servers were made with.
    pub params: Params,
    /// The numbers of its nodes, from 1.
    pub nodes: Vec<u32>,
}

/// Names that a plan may use. `cli` fills it in; `plan` checks against it.
#[derive(Default)]
pub struct Catalogue {
    /// Stores, in the order in which they are listed.
    pub stores: Vec<Box<dyn StoreKind>>,
    /// Workloads.
    pub workloads: Vec<WorkloadSpec>,
    /// Samplers.
    pub samplers: Vec<SamplerSpec>,
    /// Standing labs.
    pub labs: Vec<LabEntry>,
}

impl Catalogue {
    /// Finds a store by its name or one of its other names.
    pub fn store(&self, name: &str) -> Option<&dyn StoreKind> {
        self.stores.iter().find(|store| store.spec().names().any(|known| known == name)).map(|store| &**store)
    }

    /// Finds the lab that `given` names, as `lab:NAME`.
    pub fn lab(&self, given: &str) -> Option<&LabEntry> {
        let name = given.strip_prefix(LAB)?;
        self.labs.iter().find(|lab| lab.name == name)
    }

    /// Finds the store of a URL's scheme.
    pub fn store_for_scheme(&self, scheme: &str) -> Option<&dyn StoreKind> {
        self.stores.iter().find(|store| store.spec().schemes.contains(&scheme)).map(|store| &**store)
    }

    /// Finds the store that `given` names: by name, by URL or by the scheme of one.
    pub fn store_of(&self, given: &str) -> Option<&dyn StoreKind> {
        if let Some(lab) = self.lab(given) {
            return self.store(&lab.store);
        }
        match given.split_once("://") {
            Some((scheme, _)) => self.store_for_scheme(scheme),
            None => self.store(given).or_else(|| self.store_for_scheme(given)),
        }
    }

    /// Finds a workload by its own name.
    pub fn workload(&self, name: &str) -> Option<&WorkloadSpec> {
        self.workloads.iter().find(|workload| workload.name == name)
    }

    /// Finds a workload by its own name or that of a preset, with the preset.
    pub fn preset(&self, name: &str) -> Option<(&WorkloadSpec, Option<&'static Preset>)> {
        let preset = |spec: &WorkloadSpec| spec.presets.iter().find(|preset| preset.name == name);
        let own = self.workload(name).map(|spec| (spec, preset(spec)));
        own.or_else(|| self.workloads.iter().find_map(|spec| Some((spec, Some(preset(spec)?)))))
    }

    /// Names of all workloads and presets.
    pub fn workload_names(&self) -> Vec<&'static str> {
        self.workloads.iter().flat_map(WorkloadSpec::names).collect()
    }
}
