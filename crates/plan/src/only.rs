//! Conditions on trials: `only` of those that have a phase, `breaks` of those that set out to break promises.

use std::ops::Range;

use plimsoll_core::ParamValue;

use crate::document::{PlanNode, PlanReader, Section, short};
use crate::nearest;
use crate::stores::StoreDraft;
use crate::workload::WorkloadDraft;

/// A condition on a trial: one of some values.
pub(crate) enum Condition {
    /// The kind of store, the preset that it was made by, or its label.
    Store(Vec<String>),
    /// A parameter of the workload.
    Workload(&'static str, Vec<ParamValue>),
    /// A parameter of the store; other kinds of stores do not have it.
    StoreParam(&'static str, Vec<ParamValue>),
    /// A swept key: its dimension, and positions in its list.
    Swept(usize, Vec<usize>),
}

impl PlanReader<'_> {
    /// Reads the conditions of a phase. Called when all swept keys are known.
    pub(crate) fn only(
        &self,
        section: &Section<'_>,
        workload: &WorkloadDraft<'_>,
        stores: &[StoreDraft<'_>],
    ) -> Vec<Condition> {
        section.get("only").map(|node| self.conditions(&node, workload, stores)).unwrap_or_default()
    }

    /// Reads conditions. Called when all swept keys are known.
    pub(crate) fn conditions(
        &self,
        node: &PlanNode<'_>,
        workload: &WorkloadDraft<'_>,
        stores: &[StoreDraft<'_>],
    ) -> Vec<Condition> {
        let Some(table) = self.table(node, &format!("`{}`", node.key)) else {
            return Vec::new();
        };
        let mut conditions = Vec::new();
        for node in table.entries() {
            let Some((elements, texts)) = self.listed(&node) else {
                continue;
            };
            let condition = if node.key == "store" {
                self.store_condition(&elements, stores)
            } else if let Some(spec) = workload.spec.params.iter().find(|param| param.name == node.key) {
                self.all(&elements, |element| self.param(spec, element))
                    .map(|values| Condition::Workload(spec.name, values))
            } else if let Some(found) = self.swept_condition(&node, &elements, &texts) {
                found
            } else if let Some(spec) =
                self.catalogue.stores.iter().flat_map(|kind| kind.spec().params).find(|param| param.name == node.key)
            {
                self.all(&elements, |element| self.param(spec, element))
                    .map(|values| Condition::StoreParam(spec.name, values))
            } else {
                self.unknown_condition(table.key_span(node.key), (&table.what, node.key), workload);
                None
            };
            conditions.extend(condition);
        }
        conditions
    }

    fn store_condition(&self, elements: &[PlanNode<'_>], stores: &[StoreDraft<'_>]) -> Option<Condition> {
        // A plan whose stores were replaced or left out still names them.
        let specs = || self.catalogue.stores.iter().map(|kind| kind.spec());
        let presets = specs().flat_map(|spec| spec.presets.iter().map(|preset| preset.name));
        let mut known: Vec<&str> = specs().map(|spec| spec.name).chain(presets).collect();
        for draft in stores {
            if !known.contains(&draft.store.label.as_str()) {
                known.push(&draft.store.label);
            }
        }
        self.all(elements, |element| self.word(element, "store", &known).map(str::to_owned)).map(Condition::Store)
    }

    /// Reads a condition on a swept key; `Some(None)` after a mistake in it.
    fn swept_condition(
        &self,
        node: &PlanNode<'_>,
        elements: &[PlanNode<'_>],
        texts: &[String],
    ) -> Option<Option<Condition>> {
        let dimensions = self.dimensions.borrow();
        let position = dimensions.labels().iter().position(|label| label == node.key)?;
        let known = &dimensions.0.get(position)?.texts;
        let mut wanted = Vec::new();
        for (element, text) in elements.iter().zip(texts) {
            match known.iter().position(|known| known.replace('_', "") == text.replace('_', "")) {
                Some(index) => wanted.push(index),
                None => {
                    let what = format!("`{}` is never {}", node.key, short(text));
                    self.problem(element.span.clone(), what, Some(nearest::help(text, "its values", known)));
                    return Some(None);
                }
            }
        }
        Some(Some(Condition::Swept(position, wanted)))
    }

    fn unknown_condition(&self, span: Range<usize>, (table, key): (&str, &str), workload: &WorkloadDraft<'_>) {
        let mut known = vec!["store".to_owned()];
        known.extend(workload.spec.params.iter().map(|param| param.name.to_owned()));
        for label in self.dimensions.borrow().labels() {
            if !known.contains(&label) {
                known.push(label);
            }
        }
        let what = format!("{table} uses `{}`, in which trials do not differ", short(key));
        self.problem(span, what, Some(nearest::help(key, "it can use", &known)));
    }
}
