//! HTTP requests of the user: each is an operation type with one request or several steps.

use std::sync::Arc;

use plimsoll_core::http::{HIDDEN, is_secret};
use plimsoll_core::{HttpRequest, RequestHeader, Script};

use crate::document::{NodeKind, PlanNode, PlanReader, Section};
use crate::keys::{KeyType, REQUEST, STEP};
use crate::workload::LocatedScript;

/// Most steps of an operation.
const STEPS_MAX: usize = 64;

impl PlanReader<'_> {
    /// Reads one `[[workload.request]]`, with its location.
    pub(crate) fn request(&self, table: &PlanNode<'_>) -> Option<LocatedScript> {
        let section = self.section(table, "a request", &[REQUEST, STEP])?;
        let weight = self.value(&section, "weight", Self::count)?;
        let requests = match section.get("step") {
            None => vec![self.one_request(&section)?],
            Some(node) => {
                if let Some(key) = STEP.iter().find(|key| section.get(key.name).is_some()) {
                    let help = Some("write it under one of the steps".to_owned());
                    let what = format!("`{}` is not allowed in a request with steps", key.name);
                    return self.refuse(section.key_span(key.name), what, help);
                }
                let tables = self.tables(&node)?;
                if tables.len() > STEPS_MAX {
                    return self.refuse(node.span, format!("at most {STEPS_MAX} steps, not {}", tables.len()), None);
                }
                let step = |table: &PlanNode<'_>| self.one_request(&self.section(table, "a step", &[STEP])?);
                self.all(&tables, step)?
            }
        };
        let name = match (section.get("name"), &requests[..]) {
            (Some(node), _) => self.text(&node)?.to_owned(),
            (None, [only]) => only.method.to_ascii_lowercase(),
            (None, _) => {
                let help = Some("write `name = \"checkout\"`".to_owned());
                return self.refuse(section.span, "a request of several steps needs a `name`", help);
            }
        };
        let script = Script { name, weight, requests, ..Script::default() };
        Some((script, Arc::clone(&self.source), table.span.clone()))
    }

    fn one_request(&self, section: &Section<'_>) -> Option<HttpRequest> {
        let text = |key: &str| self.given(section, key, |this, node, _| this.text(node).map(str::to_owned));
        let body = match section.get("body") {
            Some(node) => Some(self.body(&node)?),
            None => None,
        };
        let usual = if body.is_some() { "POST" } else { "GET" };
        Some(HttpRequest {
            method: text("method")?.unwrap_or_else(|| usual.to_owned()).to_ascii_uppercase(),
            path: text("path")?.unwrap_or_default(),
            headers: self.given(section, "headers", Self::headers)?.unwrap_or_default(),
            body,
            expect: self.given(section, "expect", Self::statuses)?.unwrap_or_default(),
            contains: text("contains")?,
            set: self.given(section, "set", Self::named_texts)?.unwrap_or_default(),
            take: self.given(section, "take", Self::named_texts)?.unwrap_or_default(),
        })
    }

    /// Reads a body: as written, or from the file behind an `@`.
    fn body(&self, node: &PlanNode<'_>) -> Option<String> {
        let text = self.text(node)?;
        match text.strip_prefix('@') {
            Some(path) => self.whole_file("body", node, path),
            None => Some(text.to_owned()),
        }
    }

    /// Reads headers: a list of `Name: value`, or a table.
    fn headers(&self, node: &PlanNode<'_>, _: &KeyType) -> Option<Vec<RequestHeader>> {
        if let NodeKind::Table(_) = node.kind {
            let entries = self.table(node, &format!("`{}`", node.key))?.entries();
            return self.all(&entries, |entry| self.header(entry, entry.key, self.text(entry)?));
        }
        let elements = node.elements().or_else(|| self.wrong_type(node, "a list of texts, or a table"))?;
        self.all(&elements, |element| match self.text(element)?.split_once(':') {
            Some((name, value)) => self.header(element, name, value),
            // The text may be a secret, and is not repeated.
            None => {
                let help = Some("write \"Name: value\"".to_owned());
                self.refuse(element.span.clone(), "a header without a colon", help)
            }
        })
    }

    fn header(&self, node: &PlanNode<'_>, name: &str, value: &str) -> Option<RequestHeader> {
        let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
        if name.is_empty() {
            return self.refuse(node.span.clone(), "a header without a name", Some("write \"Name: value\"".to_owned()));
        }
        if is_secret(&name) && value.contains(HIDDEN) {
            let what = format!("the value of {name} was masked when this plan was saved");
            let help = format!("write it again, or `{name}: ${{env.NAME}}`, and set NAME where Plimsoll is started");
            return self.refuse(node.span.clone(), what, Some(help));
        }
        Some(RequestHeader { name, value })
    }

    fn statuses(&self, node: &PlanNode<'_>, _: &KeyType) -> Option<String> {
        match node.kind {
            NodeKind::Int(status) => Some(status.to_string()),
            NodeKind::Text(text) => Some(text.to_owned()),
            _ => self.wrong_type(node, "a status, or a text such as \"200-299, 404\""),
        }
    }

    /// Reads texts by name, in the order of the plan.
    fn named_texts(&self, node: &PlanNode<'_>, _: &KeyType) -> Option<Vec<(String, String)>> {
        let entries = self.table(node, &format!("`{}`", node.key))?.entries();
        self.all(&entries, |entry| Some((entry.key.to_owned(), self.text(entry)?.to_owned())))
    }
}
