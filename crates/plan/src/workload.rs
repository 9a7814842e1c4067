//! The workload of a plan: its name, its parameters, and the user's own scripts.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use plimsoll_core::files::without_mark;
use plimsoll_core::{CsvFile, ParamValue, Params, Preset, Script, Workload, WorkloadSpec};
use sha2::{Digest, Sha256};

use crate::document::{PlanNode, PlanReader, Section, short};
use crate::error::SourceText;
use crate::keys::{CSV, SCRIPT};
use crate::params;
use crate::stores::StoreDraft;
use crate::sweep::Choices;

/// Most scripts of a workload.
const SCRIPTS_MAX: usize = 128;

/// A workload with a choice of values for each of its parameters.
pub(crate) struct WorkloadDraft<'c> {
    pub(crate) spec: &'c WorkloadSpec,
    /// Preset that the plan's name for the workload selects.
    pub(crate) preset: Option<&'static Preset>,
    /// Names of the operation types.
    pub(crate) kinds: Vec<String>,
    /// `None` after a mistake in one of them.
    pub(crate) params: Option<Vec<(&'static str, Choices<ParamValue>)>>,
    pub(crate) scripts: Vec<Script>,
    /// Parameters that the plan sets.
    pub(crate) given: Vec<&'static str>,
}

/// A script or request, the text that messages about it refer to, and its location there. The location is empty if
/// the text consists of the script alone.
pub(crate) type LocatedScript = (Script, Arc<SourceText>, Range<usize>);

fn is_name(name: &str) -> bool {
    (1..=60).contains(&name.len()) && !name.chars().any(|c| c.is_control() || c == '`')
}

impl WorkloadDraft<'_> {
    /// Creates the workload with the first values of its parameters; `None` if they do not allow it.
    pub(crate) fn make(&self) -> Option<Box<dyn Workload>> {
        (self.spec.make)(1, &first(self.params.as_deref()?), &self.scripts).ok()
    }

    /// An operation type for examples.
    pub(crate) fn example_kind(&self) -> &str {
        self.kinds.first().map_or("read", String::as_str)
    }
}

impl<'c> PlanReader<'c> {
    /// Reads the workload of a plan for `stores`; `None` if it cannot be identified.
    pub(crate) fn workload(&self, root: &Section<'_>, stores: &[StoreDraft<'c>]) -> Option<WorkloadDraft<'c>> {
        let node = self.required(root, "workload", "[workload] and its `name`")?;
        let section = self.table(&node, "[workload]")?;
        let name = self.required(&section, "name", "`name = \"coupons\"`")?;
        let names = self.catalogue.workload_names();
        let (spec, preset) = self.catalogue.preset(self.word(&name, "workload", &names)?)?;
        let mut known = vec!["name"];
        if spec.takes_scripts() {
            known.push("script");
        }
        if spec.takes_scripts() || spec.takes_requests() {
            known.push("csv");
        }
        known.extend(spec.params.iter().map(|param| param.name));
        if spec.takes_requests() {
            known.push("request");
        }
        let section = Section { what: format!("the workload `{}`", spec.name), ..section };
        self.known_names(&section, &known, &|key| self.of_store(key, stores));
        let defaults = params::defaults_but(spec.params, preset.map_or(&[], |preset| preset.params));
        let mut params = Some(Vec::new());
        for param in spec.params {
            let choices = match section.get(param.name) {
                Some(node) => self.choices("workload", &node, |node: &PlanNode<'_>| self.param(param, node)),
                None => match defaults.0.get(param.name) {
                    Some(value) => Some(Choices::fixed(value.clone(), section.span.clone())),
                    None => continue,
                },
            };
            match (choices, &mut params) {
                (Some(choices), Some(params)) => params.push((param.name, choices)),
                _ => params = None,
            }
        }
        let mut kinds: Vec<String> = spec.kinds.iter().map(|kind| (*kind).to_owned()).collect();
        let mut scripts = match section.get("request").filter(|_| spec.takes_requests()) {
            Some(requests) => self.scripts(&requests, Self::request)?,
            None if spec.takes_scripts() => {
                let example = "[[workload.script]] with `file = \"transfer.sql\"` or `text = \"\"\"...\"\"\"`";
                self.scripts(&self.required(&section, "script", example)?, Self::script)?
            }
            None => Vec::new(),
        };
        if let Some(node) = section.get("csv").filter(|_| spec.takes_scripts() || spec.takes_requests()) {
            if scripts.is_empty() {
                let help = Some("write [[workload.request]] with `${column}` in its texts".to_owned());
                return self.refuse(node.span, "`csv` gives values to requests, and there is none", help);
            }
            let csv = self.all(&self.tables(&node)?, |table| self.csv(table))?;
            scripts.iter_mut().for_each(|(script, ..)| script.csv.clone_from(&csv));
        }
        if !scripts.is_empty() {
            kinds = scripts.iter().map(|(script, ..)| script.name.clone()).collect();
        }
        self.try_making(spec, params.as_deref(), &scripts, section.span.clone());
        let given = spec.params.iter().map(|param| param.name).filter(|name| section.get(name).is_some()).collect();
        let scripts = scripts.into_iter().map(|(script, ..)| script).collect();
        Some(WorkloadDraft { spec, preset, kinds, params, scripts, given })
    }

    /// Advice for a parameter that belongs to a store, not to a workload: to one of `stores` if it has the parameter.
    fn of_store(&self, key: &str, stores: &[StoreDraft<'c>]) -> Option<String> {
        let used = stores.iter().map(|draft| draft.kind.spec());
        let mut having = used.chain(self.catalogue.stores.iter().map(|kind| kind.spec()));
        let store = having.find(|spec| spec.params.iter().any(|param| param.name == key))?.name;
        Some(format!(
            "`{key}` is a parameter of stores: {{ store = \"{store}\", {key} = … }}, on the command line --set {store}.{key}=…"
        ))
    }

    /// Reads the user's scripts or requests, each with `read`.
    fn scripts(
        &self,
        node: &PlanNode<'_>,
        read: fn(&Self, &PlanNode<'_>) -> Option<LocatedScript>,
    ) -> Option<Vec<LocatedScript>> {
        let tables = self.tables(node)?;
        if tables.len() > SCRIPTS_MAX {
            let what = format!("at most {SCRIPTS_MAX} of `{}`, not {}", node.key, tables.len());
            return self.refuse(node.span.clone(), what, None);
        }
        let mut scripts: Vec<LocatedScript> = Vec::new();
        let mut right = true;
        for table in &tables {
            match read(self, table) {
                Some((script, ..)) if !is_name(&script.name) => {
                    self.problem(table.span.clone(), format!("a {}'s name has 1 to 60 characters", node.key), None);
                    right = false;
                }
                Some((script, ..)) if scripts.iter().any(|(other, ..)| other.name == script.name) => {
                    let what = format!("another {} is named `{}` already", node.key, short(&script.name));
                    self.problem(table.span.clone(), what, Some("give it a `name`".to_owned()));
                    right = false;
                }
                Some(script) => scripts.push(script),
                None => right = false,
            }
        }
        right.then_some(scripts)
    }

    fn script(&self, table: &PlanNode<'_>) -> Option<LocatedScript> {
        let section = self.section(table, "a script", &[SCRIPT])?;
        let weight = self.value(&section, "weight", Self::count)?;
        let (text, from) = match (section.get("file"), section.get("text")) {
            (Some(node), None) => {
                let path = self.text(&node)?;
                (self.file("script", &node, path)?, path.to_owned())
            }
            (None, Some(node)) => (self.text(&node)?.to_owned(), "text".to_owned()),
            _ => {
                let help = Some("write one of them".to_owned());
                return self.refuse(section.span.clone(), "a script needs either `file` or `text`", help);
            }
        };
        let name = match section.get("name") {
            Some(node) => self.text(&node)?.to_owned(),
            None => Path::new(&from).file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned()),
        };
        let file = section.get("file").map(|_| from);
        let source = Arc::new(SourceText::new(file.as_deref().unwrap_or(&name), &text));
        Some((Script { name, weight, text, file, ..Script::default() }, source, 0..0))
    }

    /// Reads a file with values for scripts and requests.
    fn csv(&self, table: &PlanNode<'_>) -> Option<Arc<CsvFile>> {
        let section = self.section(table, "a CSV file", &[CSV])?;
        let node = self.required(&section, "file", "`file = \"users.csv\"`")?;
        let file = self.text(&node)?.to_owned();
        let in_order =
            self.value(&section, "order", |this, node, takes| Some(this.one_of(node, takes)? == "in-order"))?;
        let prefix = self.value(&section, "prefix", |this, node, _| Some(this.text(node)?.to_owned()))?;
        let is_prefix = prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !prefix.starts_with(|c: char| c.is_ascii_digit());
        if !is_prefix {
            let what = format!("`{}` cannot begin the name of a variable", short(&prefix));
            return self.refuse(section.key_span("prefix"), what, Some("use letters, digits and `_`".to_owned()));
        }
        let text = self.file("CSV file", &node, &file)?;
        let hash: String = Sha256::digest(&text).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let digest = format!("{} lines, sha256 {hash}", text.lines().count());
        Some(Arc::new(CsvFile { file, text, digest, prefix, in_order }))
    }

    /// Reads the text of the file `path`, which is a `what`, without a byte order mark.
    pub(crate) fn file(&self, what: &str, node: &PlanNode<'_>, path: &str) -> Option<String> {
        self.whole_file(what, node, path).map(without_mark)
    }

    /// Reads the text of the file `path`, which is a `what`.
    pub(crate) fn whole_file(&self, what: &str, node: &PlanNode<'_>, path: &str) -> Option<String> {
        (self.files)(path).map_or_else(
            |error| {
                let what = format!("the {what} `{}` cannot be read: {error}", short(path));
                self.refuse(
                    node.span.clone(),
                    what,
                    Some(
                        "a relative path begins in the plan's folder, that of an option in the current one".to_owned(),
                    ),
                )
            },
            Some,
        )
    }

    /// Creates the workload once, with the first value of each parameter, to find mistakes in its scripts.
    fn try_making(
        &self,
        spec: &WorkloadSpec,
        params: Option<&[(&'static str, Choices<ParamValue>)]>,
        scripts: &[LocatedScript],
        span: Range<usize>,
    ) {
        if !(spec.takes_scripts() || spec.takes_requests()) || !self.problems.borrow().is_empty() {
            return;
        }
        let plain: Vec<Script> = scripts.iter().map(|(script, ..)| script.clone()).collect();
        let Err(error) = (spec.make)(1, &first(params.unwrap_or_default()), &plain) else { return };
        match error.place.and_then(|(script, place)| Some((scripts.get(script)?, place))) {
            Some(((_, source, at), place)) => {
                let place = if at.is_empty() { place } else { at.clone() };
                self.problem_in(source, place, error.what, error.help);
            }
            None => self.problem(span, error.what, error.help),
        }
    }

    /// Names of all operation types and of the steps within them, with true for a step. Uses the first values of the
    /// workload's parameters; `None` if they do not allow it.
    pub(crate) fn made(&self, workload: &WorkloadDraft<'_>) -> Option<Vec<(String, bool)>> {
        let made = workload.make()?;
        Some(made.kinds().iter().map(|kind| (kind.name.clone(), kind.step_of.is_some())).collect())
    }
}

/// The first values of parameters.
fn first(params: &[(&'static str, Choices<ParamValue>)]) -> Params {
    let first = |(name, choices): &(&'static str, Choices<ParamValue>)| {
        Some(((*name).to_owned(), choices.values().next()?.clone()))
    };
    Params(params.iter().filter_map(first).collect())
}
