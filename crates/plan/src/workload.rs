//! The workload of a plan: its name, its parameters, and the user's own scripts.

use std::ops::Range;
use std::sync::Arc;

use plimsoll_core::{ParamValue, Params, Script, WorkloadSpec};

use crate::document::{Node, Reading, Section, short};
use crate::error::Source;
use crate::keys::SCRIPT;
use crate::params;
use crate::sweep::Choices;

/// Most scripts of a workload.
const SCRIPTS_MAX: usize = 128;

/// A workload with a choice of values for each of its parameters.
pub(crate) struct WorkloadDraft<'c> {
    pub(crate) spec: &'c WorkloadSpec,
    /// Names of its kinds of operation.
    pub(crate) kinds: Vec<String>,
    /// `None` if one of them is wrong.
    pub(crate) params: Option<Vec<(&'static str, Choices<ParamValue>)>>,
    pub(crate) scripts: Vec<Script>,
    /// Parameters that the plan names.
    pub(crate) given: Vec<&'static str>,
}

impl WorkloadDraft<'_> {
    /// The names of its kinds, for lists.
    pub(crate) fn kind_names(&self) -> Vec<&str> {
        self.kinds.iter().map(String::as_str).collect()
    }

    /// A kind for examples.
    pub(crate) fn example_kind(&self) -> &str {
        self.kinds.first().map_or("read", String::as_str)
    }
}

impl<'c> Reading<'c> {
    /// The workload; `None` when it cannot even be said which.
    pub(crate) fn workload(&self, root: &Section<'_>) -> Option<WorkloadDraft<'c>> {
        let node = self.required(root, "workload", "[workload] and its `name`")?;
        let section = self.table(&node, "[workload]")?;
        let name = self.required(&section, "name", "`name = \"coupons\"`")?;
        let names: Vec<&str> = self.catalogue.workloads.iter().map(|workload| workload.name).collect();
        let spec = self.catalogue.workload(self.word(&name, "workload", &names)?)?;
        let mut known = vec!["name"];
        if spec.takes_scripts {
            known.push("script");
        }
        known.extend(spec.params.iter().map(|param| param.name));
        let section = Section { what: format!("the workload `{}`", spec.name), ..section };
        self.known_names(&section, &known, &|key| self.of_store(key));
        let defaults = params::defaults(spec.params);
        let mut params = Some(Vec::new());
        for param in spec.params {
            let choices = match section.get(param.name) {
                Some(node) => self.choices("workload", &node, |node: &Node<'_>| self.param(param, node)),
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
        let scripts = if spec.takes_scripts { self.scripts(&section)? } else { Vec::new() };
        kinds.extend(scripts.iter().map(|(script, _)| script.name.clone()));
        self.try_making(spec, params.as_deref(), &scripts, section.span.clone());
        let given = spec.params.iter().map(|param| param.name).filter(|name| section.get(name).is_some()).collect();
        let scripts = scripts.into_iter().map(|(script, _)| script).collect();
        Some(WorkloadDraft { spec, kinds, params, scripts, given })
    }

    /// What to write for a parameter that no workload has, but a store.
    fn of_store(&self, key: &str) -> Option<String> {
        let mut having = self.catalogue.stores.iter().map(|kind| kind.spec());
        let store = having.find(|spec| spec.params.iter().any(|param| param.name == key))?.name;
        Some(format!(
            "`{key}` is a parameter of stores: {{ store = \"{store}\", {key} = … }}, on the command line --set {store}.{key}=…"
        ))
    }

    /// The user's scripts, each with the text that messages about it point into.
    fn scripts(&self, section: &Section<'_>) -> Option<Vec<(Script, Arc<Source>)>> {
        let example = "[[workload.script]] with `file = \"transfer.sql\"` or `text = \"\"\"...\"\"\"`";
        let tables = self.tables(&self.required(section, "script", example)?)?;
        if tables.len() > SCRIPTS_MAX {
            return self.refuse(
                section.key_span("script"),
                format!("at most {SCRIPTS_MAX} scripts, not {}", tables.len()),
                None,
            );
        }
        let mut scripts: Vec<(Script, Arc<Source>)> = Vec::new();
        let mut right = true;
        for table in &tables {
            match self.script(table) {
                Some((script, _)) if scripts.iter().any(|(other, _)| other.name == script.name) => {
                    let what = format!("another script is named `{}` already", short(&script.name));
                    self.problem(table.span.clone(), what, Some("give it a `name`".to_owned()));
                    right = false;
                }
                Some(script) => scripts.push(script),
                None => right = false,
            }
        }
        right.then_some(scripts)
    }

    fn script(&self, table: &Node<'_>) -> Option<(Script, Arc<Source>)> {
        let section = self.section(table, "a script", &[SCRIPT])?;
        let weight = self.value(&section, "weight", Self::count)?;
        let (text, from) = match (section.get("file"), section.get("text")) {
            (Some(node), None) => {
                let path = self.text(&node)?;
                match (self.files)(path) {
                    Ok(text) => (text, path.to_owned()),
                    Err(error) => {
                        let what = format!("the script `{}` cannot be read: {error}", short(path));
                        return self.refuse(node.span, what, Some("paths are relative to the plan's file".to_owned()));
                    }
                }
            }
            (None, Some(node)) => (self.text(&node)?.to_owned(), "text".to_owned()),
            _ => {
                let help = Some("a script has a `file` or a `text`".to_owned());
                return self.refuse(section.span.clone(), "it must be said where the script is, once", help);
            }
        };
        let name = match section.get("name") {
            Some(node) => self.text(&node)?.to_owned(),
            None => file_stem(&from).to_owned(),
        };
        if name.is_empty() || name.len() > 60 || name.chars().any(|c| c.is_control() || c == '`') {
            return self.refuse(section.span, "a script's name has 1 to 60 characters", None);
        }
        let file = section.get("file").map(|_| from);
        let source = Arc::new(Source::new(file.as_deref().unwrap_or(&name), &text));
        Some((Script { name, weight, text, file }, source))
    }

    /// Makes the workload once with the first of each parameter's values, to hear what is wrong with its scripts.
    fn try_making(
        &self,
        spec: &WorkloadSpec,
        params: Option<&[(&'static str, Choices<ParamValue>)]>,
        scripts: &[(Script, Arc<Source>)],
        span: Range<usize>,
    ) {
        if !spec.takes_scripts || !self.problems.borrow().is_empty() {
            return;
        }
        let first = |(name, choices): &(&'static str, Choices<ParamValue>)| {
            Some(((*name).to_owned(), choices.values().next()?.clone()))
        };
        let values = Params(params.unwrap_or_default().iter().filter_map(first).collect());
        let plain: Vec<Script> = scripts.iter().map(|(script, _)| script.clone()).collect();
        let Err(error) = (spec.make)(1, &values, &plain) else { return };
        match error.place.and_then(|(script, place)| Some((&scripts.get(script)?.1, place))) {
            Some((source, place)) => self.problem_in(source, place, error.what, error.help),
            None => self.problem(span, error.what, error.help),
        }
    }
}

/// The file's name without directories and ending.
fn file_stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem })
}
