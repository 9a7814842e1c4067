//! The stores of a plan: names, URLs, or tables with parameters; or the list that replaces them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use plimsoll_core::catalogue::LAB;
use plimsoll_core::limits;
use plimsoll_core::quoted::has_open_quote;
use plimsoll_core::{Interface, ParamValue, ServerDescription, StoreKind};

use crate::document::{NodeKind, PlanNode, PlanReader, Section, short};
use crate::error::SourceText;
use crate::model::StoreUse;
use crate::nearest;
use crate::params::defaults_but;
use crate::sweep::TRIALS_MAX;
use crate::url;

/// Key for a store's name in reports.
const AS: &str = "as";
/// Longest such name, in characters.
const AS_MAX: usize = 40;
/// Keys that describe a private server, besides its URL.
const SERVER: [&str; 5] = ["command", "set_up", "ready", "reload", "files"];

/// A store with one value for each of its parameters.
#[derive(Clone)]
pub(crate) struct StoreDraft<'c> {
    pub(crate) kind: &'c dyn StoreKind,
    pub(crate) store: StoreUse,
    /// Name of the store or preset that its servers are made by; of an attached store, that of its kind.
    pub(crate) made_as: String,
    /// The swept parameters, with values as written.
    pub(crate) labels: BTreeMap<String, String>,
    /// The text that names the store, followed by the location in it.
    pub(crate) source: Arc<SourceText>,
    pub(crate) span: Range<usize>,
}

impl<'c> PlanReader<'c> {
    /// Reads the stores that the plan names.
    pub(crate) fn stores(&self, node: &PlanNode<'_>) -> Vec<StoreDraft<'c>> {
        let Some((elements, _)) = self.listed(node) else { return Vec::new() };
        let mut drafts = Vec::new();
        for element in &elements {
            match element.kind {
                NodeKind::Text(name) => drafts.extend(self.store(&self.source, element.span.clone(), name)),
                NodeKind::Table(_) => drafts.extend(self.store_table(element).into_iter().flatten()),
                _ => {
                    let table = format!("a table such as {{ store = \"{}\" }}", self.a_store());
                    drafts.extend(self.wrong_type(element, &format!("the name of a store, a URL, or {table}")));
                }
            }
        }
        label(&mut drafts);
        drafts
    }

    /// Reads the stores that replace the plan's.
    pub(crate) fn stores_given(&self, given: &[String]) -> Vec<StoreDraft<'c>> {
        let given: Vec<String> = given.iter().map(|entry| url::split_password(entry.trim()).0).collect();
        let source = Arc::new(SourceText::new("--on", &given.join(",")));
        let mut drafts: Vec<StoreDraft<'c>> = Vec::new();
        let mut start = 0;
        for entry in &given {
            let span = start..start + entry.len();
            start = span.end + 1;
            match self.store(&source, span.clone(), entry) {
                Some(draft) if drafts.iter().any(|other| other.store == draft.store) => {
                    self.problem_in(&source, span, format!("`{entry}` is named twice"), None);
                }
                draft => drafts.extend(draft),
            }
        }
        if given.is_empty() {
            let names: Vec<&str> = self.catalogue.stores.iter().map(|kind| kind.spec().name).collect();
            let help = format!("stores: {}", names.join(", "));
            self.problem_in(&source, 0..0, "`--on` names no store".to_owned(), Some(help));
        }
        label(&mut drafts);
        drafts
    }

    /// Reads a store by name or URL, with its parameters at their defaults.
    fn store(&self, source: &Arc<SourceText>, span: Range<usize>, name: &str) -> Option<StoreDraft<'c>> {
        let refuse = |what: String, help: String| {
            self.problem_in(source, span.clone(), what, Some(help));
            None
        };
        if let Some(lab) = name.strip_prefix(LAB) {
            let found = self.catalogue.lab(name).and_then(|lab| Some((self.catalogue.store(&lab.store)?, lab)));
            let Some((kind, entry)) = found else {
                let names: Vec<&str> = self.catalogue.labs.iter().map(|lab| lab.name.as_str()).collect();
                let help = match &names[..] {
                    [] => "make one: plimsoll lab up STORE --keep".to_owned(),
                    names => nearest::help(lab, "labs that stand", names),
                };
                return refuse(format!("there is no lab `{}`", short(lab)), help);
            };
            let (kind_name, label) = (kind.spec().name.to_owned(), lab.to_owned());
            let store = StoreUse {
                kind: kind_name,
                label,
                url: Some(name.to_owned()),
                params: entry.params.clone(),
                server: None,
            };
            let (made_as, source) = (entry.made_as.clone(), Arc::clone(source));
            return Some(StoreDraft { kind, store, made_as, labels: BTreeMap::new(), source, span });
        }
        let specs = self.catalogue.stores.iter().map(|kind| kind.spec());
        let (name, _) = url::split_password(name);
        let name = name.as_str();
        let (kind, url) = match url::scheme(name) {
            Some(scheme) => {
                let Some(kind) = self.catalogue.store_for_scheme(scheme) else {
                    let schemes: Vec<&str> = specs.flat_map(|spec| spec.schemes.iter().copied()).collect();
                    let what = format!("no store has the URL scheme `{}://`", short(scheme));
                    return refuse(what, nearest::help(scheme, "schemes", &schemes));
                };
                (kind, Some(name.to_owned()))
            }
            None => {
                let Some(kind) = self.catalogue.store(name) else {
                    let what = format!("unknown store `{}`", short(name));
                    if name.contains([':', '/', '@']) {
                        let urls: Vec<String> = specs
                            .filter_map(|spec| Some(format!("{}://{}", spec.schemes.first()?, short(name))))
                            .collect();
                        return refuse(what, format!("a running store is named by a URL: {}", urls.join(", ")));
                    }
                    let names: Vec<&str> = specs.flat_map(|spec| spec.names()).collect();
                    return refuse(what, nearest::help(name, "stores", &names));
                };
                (kind, None)
            }
        };
        let spec = kind.spec();
        let has_databases = spec.interfaces.contains(&Interface::Sql);
        let preset = spec.preset(name);
        let made_as = preset.map_or(spec.name, |preset| preset.name).to_owned();
        let place = url.as_deref().and_then(|url| url::place(url, has_databases));
        let label = place.unwrap_or_else(|| made_as.clone());
        let params = defaults_but(spec.params, preset.map_or(&[], |preset| preset.params));
        let store = StoreUse { kind: spec.name.to_owned(), label, url, params, server: None };
        Some(StoreDraft { kind, store, made_as, labels: BTreeMap::new(), source: Arc::clone(source), span })
    }

    /// Reads a store with parameters: one draft for each combination of their values.
    fn store_table(&self, node: &PlanNode<'_>) -> Option<Vec<StoreDraft<'c>>> {
        let section = self.table(node, "a store")?;
        let example = format!("`store = \"{}\"`, or a URL", self.a_store());
        let name = self.required(&section, "store", &example)?;
        let mut base = self.store(&self.source, name.span.clone(), self.text(&name)?)?;
        let spec = base.kind.spec();
        let mut known = vec!["store", AS];
        if base.store.url.is_some() && base.store.lab().is_none() {
            known.extend(SERVER);
            self.described(&section, &mut base.store)?;
        }
        if let Some(node) = section.get(AS) {
            let name = self.text(&node)?.trim().to_owned();
            let fits = |letter: char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_' | '.' | '/');
            if name.is_empty() || name.chars().count() > AS_MAX || !name.chars().all(fits) {
                let help = format!("up to {AS_MAX} letters, digits and spaces, with - _ . and / among them");
                return self.refuse(node.span, "this is not a valid name for a store".to_owned(), Some(help));
            }
            base.store.label = name;
        }
        known.extend(spec.params.iter().map(|param| param.name));
        let section = Section { what: format!("the store `{}`", spec.name), ..section };
        self.known_names(&section, &known, &|_| None);

        let (base_is_private, label) = (base.store.url.is_none(), base.store.label.clone());
        let is_described = base.store.server.is_some();
        let mut drafts = vec![base];
        for node in section.entries() {
            let Some(param) = spec.params.iter().find(|param| param.name == node.key) else {
                continue;
            };
            let is_limit = limits::is_one(param.name);
            if param.of_private && !base_is_private && !(is_described && is_limit) {
                let what = format!("`{}` is only for private servers, and {label} is attached", param.name);
                let help = format!("set it there, or name the store alone: {}", spec.name);
                return self.refuse(node.span, what, Some(help));
            }
            let (elements, texts) = self.listed(&node)?;
            let values: Vec<(ParamValue, &String)> = elements
                .iter()
                .zip(&texts)
                .filter_map(|(element, text)| Some((self.param(param, element)?, text)))
                .collect();
            if drafts.len().saturating_mul(values.len()) > TRIALS_MAX {
                return self.refuse(node.span, format!("this sweep comes to more than {TRIALS_MAX} trials"), None);
            }
            let swept = node.elements().is_some();
            drafts = drafts
                .iter()
                .flat_map(|draft| {
                    values
                        .iter()
                        .map(move |(value, text)| draft.with(param.name, value, swept.then_some(text.as_str())))
                })
                .collect();
        }
        Some(drafts)
    }

    /// Reads the plan's description of the server for a URL, if it has one.
    fn described(&self, section: &Section<'_>, store: &mut StoreUse) -> Option<()> {
        let text = |key: &str| match section.get(key) {
            None => Some(String::new()),
            Some(node) => Some(self.text(&node)?.trim().to_owned()),
        };
        let [command, set_up, ready, reload] = [text("command")?, text("set_up")?, text("ready")?, text("reload")?];
        for (key, text) in [("command", &command), ("set_up", &set_up), ("ready", &ready), ("reload", &reload)] {
            if let Some(node) = section.get(key).filter(|_| has_open_quote(text)) {
                let help = "close it, or write a backslash before a quote that is part of a name";
                return self.refuse(node.span, format!("a quote in `{key}` is not closed"), Some(help.to_owned()));
            }
        }
        // The shell is replaced in any case.
        let command = command.strip_prefix("exec ").map_or(command.as_str(), str::trim_start).to_owned();
        let mut files = BTreeMap::new();
        if let Some(node) = section.get("files") {
            for entry in self.table(&node, "files of a server")?.entries() {
                let is_name = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(char::is_control);
                if !entry.key.split('/').all(is_name) {
                    let help = "name a file below the server's data directory, such as conf/server.conf";
                    let what = format!("`files` cannot make `{}`", short(entry.key));
                    return self.refuse(entry.span, what, Some(help.to_owned()));
                }
                files.insert(entry.key.to_owned(), self.text(&entry)?.to_owned());
            }
        }
        if command.is_empty() {
            let Some(first) = SERVER[1..].iter().find_map(|key| section.get(key)) else { return Some(()) };
            let help = Some("write its command: command = \"PROGRAM --port {port}\"".to_owned());
            return self.refuse(first.span.clone(), format!("`{}` is only for a private server", first.key), help);
        }
        let url = store.url.clone().unwrap_or_default();
        if !url.contains("{port}") && !url.contains("{sockets}") {
            let help = Some("write {port} for its port, or {sockets} for the directory of its sockets".to_owned());
            let what = "the URL of a private server contains neither {port} nor {sockets}";
            return self.refuse(section.key_span("store"), what, help);
        }
        let program = command.split_whitespace().next().unwrap_or_default();
        store.label = program.rsplit('/').next().unwrap_or(program).to_owned();
        store.server = Some(ServerDescription { command, set_up, ready, reload, files, url });
        Some(())
    }

    /// The name of a store, for examples.
    pub(crate) fn a_store(&self) -> &'static str {
        self.catalogue.stores.first().map_or("NAME", |kind| kind.spec().name)
    }
}

impl<'c> StoreDraft<'c> {
    fn with(&self, name: &str, value: &ParamValue, label: Option<&str>) -> StoreDraft<'c> {
        let mut draft = self.clone();
        draft.store.params.0.insert(name.to_owned(), value.clone());
        draft.labels.extend(label.map(|label| (name.to_owned(), label.to_owned())));
        draft
    }
}

/// Makes the labels of different stores different: database and host, then also the port, then also a number.
fn label(drafts: &mut [StoreDraft<'_>]) {
    let identity = |draft: &StoreDraft<'_>| (draft.store.label.clone(), draft.labels.clone());
    let mut counts: BTreeMap<(String, BTreeMap<String, String>), u32> = BTreeMap::new();
    for draft in drafts.iter() {
        *counts.entry(identity(draft)).or_default() += 1;
    }
    for draft in drafts.iter_mut().filter(|draft| counts.get(&identity(draft)).is_some_and(|count| *count > 1)) {
        let (_, port) = url::host_and_port(draft.store.url.as_deref().unwrap_or_default());
        if !port.is_empty() {
            draft.store.label = format!("{}:{port}", draft.store.label);
        }
    }
    let mut seen = BTreeSet::new();
    for draft in drafts {
        let plain = draft.store.label.clone();
        let mut number = 1;
        while !seen.insert(identity(draft)) {
            number += 1;
            draft.store.label = format!("{plain}-{number}");
        }
    }
}
