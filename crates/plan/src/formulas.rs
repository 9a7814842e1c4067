//! Names that formulas may use: phases, and labels with their values.

use std::collections::BTreeMap;
use std::ops::Range;

use plimsoll_core::{Formula, Term, quantity};

use crate::document::{PlanNode, PlanReader, short};
use crate::nearest;
use crate::phases::PhaseDraft;
use crate::stores::StoreDraft;
use crate::workload::WorkloadDraft;

/// The label that selects an operation type and not a trial: `mixed.p99[op=read]`.
pub(crate) const OP: &str = "op";
/// The label of a trial's store.
const STORE: &str = "store";

/// Names that formulas may use.
pub(crate) struct Names<'p> {
    phases: &'p [PhaseDraft],
    /// Labels, with their values as written; `None` if any value is allowed.
    labels: BTreeMap<String, Option<Vec<String>>>,
}

impl PlanReader<'_> {
    /// Collects the names of the plan. `stores` are those that it names and those that it runs on.
    pub(crate) fn names<'p>(
        &self,
        phases: &'p [PhaseDraft],
        workload: &WorkloadDraft<'_>,
        stores: &[&[StoreDraft<'_>]],
    ) -> Names<'p> {
        let mut labels: BTreeMap<String, Option<Vec<String>>> = BTreeMap::new();
        // A parameter that is not swept is the same in all trials: naming it is useless, but no mistake.
        for param in workload.spec.params {
            labels.insert(param.name.to_owned(), None);
        }
        let dimensions = self.dimensions.borrow();
        for (at, dimension) in dimensions.0.iter().enumerate() {
            labels.insert(dimensions.label(at), Some(dimension.texts.clone()));
        }
        let mut known: Vec<String> = self.catalogue.stores.iter().map(|kind| kind.spec().name.to_owned()).collect();
        for draft in stores.iter().copied().flatten() {
            if !known.contains(&draft.store.label) {
                known.push(draft.store.label.clone());
            }
            for (label, text) in &draft.labels {
                let texts = labels.entry(label.clone()).or_default().get_or_insert_default();
                if !texts.contains(text) {
                    texts.push(text.clone());
                }
            }
        }
        labels.insert(STORE.to_owned(), Some(known));
        labels.insert(OP.to_owned(), Some(workload.kinds.clone()));
        Names { phases, labels }
    }

    /// Checks the syntax of a formula, and the names in it.
    pub(crate) fn formula(&self, node: &PlanNode<'_>, text: &str, names: &Names<'_>) {
        let formula = match Formula::parse(text) {
            Ok(formula) => formula,
            Err(error) => {
                let span = self.inside(node, text, error.at, 1);
                self.problem(span, format!("in the formula: {error}"), None);
                return;
            }
        };
        for (term, at) in formula.terms() {
            let phase = names.phases.iter().find(|phase| phase.name == term.phase);
            match phase {
                Some(phase) => self.quantity_of(node, text, (term, at), phase),
                None => {
                    let span = self.inside(node, text, at, term.phase.len());
                    let what = format!("in the formula: no phase is named `{}`", short(&term.phase));
                    let phases = names.phases.iter().map(|phase| &phase.name);
                    self.problem(span, what, Some(nearest::help(&term.phase, "phases", phases)));
                }
            }
            // The brackets begin after `phase.quantity`; labels and values follow in the order of the term.
            let mut from = at + term.phase.len() + 1 + term.quantity.len();
            for (label, value) in &term.labels {
                let (label_at, value_at) = places(text, &mut from, label, value);
                match names.labels.get(label) {
                    None => {
                        let what = format!("in the formula: trials have no label `{}`", short(label));
                        let span = self.inside(node, text, label_at, label.len());
                        self.problem(span, what, Some(nearest::help(label, "labels", names.labels.keys())));
                    }
                    Some(Some(texts)) if !texts.contains(value) => {
                        let what = format!("in the formula: `{}` is never {}", short(label), short(value));
                        let span = self.inside(node, text, value_at, value.len());
                        self.problem(span, what, Some(nearest::help(value, "its values", texts)));
                    }
                    Some(_) if label == OP => {
                        let asked = phase.map_or(&[][..], |phase| phase.step.kinds.as_slice());
                        if !asked.is_empty() && !asked.contains(value) {
                            let what =
                                format!("in the formula: phase `{}` never asks `{}`", short(&term.phase), short(value));
                            let span = self.inside(node, text, value_at, value.len());
                            self.problem(span, what, Some(nearest::help(value, "it asks", asked)));
                        }
                    }
                    Some(_) => {}
                }
            }
        }
    }

    /// Reads the point of the sweep at which a value was published, of a figure with this `formula`.
    pub(crate) fn point(
        &self,
        node: &PlanNode<'_>,
        formula: &str,
        names: &Names<'_>,
    ) -> Option<BTreeMap<String, String>> {
        let section = self.table(node, "`at`")?;
        let is_point = |label: &str| ![STORE, OP].contains(&label);
        let fixed = Formula::parse(formula).ok();
        let fixes = |label: &str| {
            let mut terms = fixed.iter().flat_map(Formula::terms);
            terms.any(|(term, _)| term.labels.iter().any(|(name, _)| name == label))
        };
        let mut at = BTreeMap::new();
        for entry in section.entries() {
            let (label, written) = (entry.key, self.written(&entry));
            let span = section.key_span(label);
            let texts = names.labels.get(label).filter(|_| is_point(label)).and_then(Option::as_ref);
            let Some(texts) = texts else {
                let swept = names.labels.iter().filter(|(label, texts)| is_point(label) && texts.is_some());
                let what = format!("`at` uses `{}`, in which trials do not differ", short(label));
                let help = nearest::help(label, "it can use", swept.map(|(label, _)| label));
                return self.refuse(span, what, Some(help));
            };
            if fixes(label) {
                let what = format!("`at` uses `{}`, which the figure's formula fixes", short(label));
                return self.refuse(span, what, Some("leave it out of `at`".to_owned()));
            }
            let Some(text) = texts.iter().find(|text| text.replace('_', "") == written.replace('_', "")) else {
                let what = format!("`{}` is never {}", short(label), short(&written));
                return self.refuse(entry.span.clone(), what, Some(nearest::help(&written, "its values", texts)));
            };
            at.insert(label.to_owned(), text.clone());
        }
        Some(at)
    }

    /// Checks that phases like `phase` have the quantity of `term`, which is at byte `at` of the text.
    fn quantity_of(&self, node: &PlanNode<'_>, text: &str, (term, at): (&Term, usize), phase: &PhaseDraft) {
        let (kind, name) = (phase.kind, term.quantity.as_str());
        let span = || self.inside(node, text, at + term.phase.len() + 1, name.len());
        if !quantity::has(kind, name) {
            let what = format!("in the formula: a `{}` phase has no `{}`", kind.name(), short(name));
            self.problem(span(), what, Some(nearest::help(name, "it has", &quantity::of_phase(kind))));
        } else if term.labels.iter().any(|(label, _)| label == OP) && !quantity::is_by_operation(name) {
            let what = format!("in the formula: `{}` covers all operations together: it has no `{OP}`", short(name));
            let by = quantity::of_phase(kind).into_iter().filter(|name| quantity::is_by_operation(name));
            self.problem(span(), what, Some(nearest::help(name, "by operation", by)));
        }
    }

    /// The location in the file of `length` bytes at offset `at` of a text. The whole text if it contains escapes.
    pub(crate) fn inside(&self, node: &PlanNode<'_>, text: &str, at: usize, length: usize) -> Range<usize> {
        let raw = self.source.text.get(node.span.clone()).unwrap_or_default();
        match raw.find(text).filter(|_| !text.is_empty()) {
            Some(start) => {
                let start = node.span.start + start + at;
                start..(start + length).min(node.span.end)
            }
            None => node.span.clone(),
        }
    }
}

/// Locations of a label and its value at or after `from`, which is moved behind them.
fn places(text: &str, from: &mut usize, label: &str, value: &str) -> (usize, usize) {
    let mut next = |word: &str| {
        let at = text.get(*from..).and_then(|rest| rest.find(word)).map_or(*from, |offset| *from + offset);
        *from = at + word.len();
        at
    };
    (next(label), next(value))
}
