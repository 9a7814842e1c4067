//! Actions on the store's servers and disk during a drive.

use std::ops::Range;

use plimsoll_core::DiskSpec;
use plimsoll_core::fault::Fault;

use crate::document::{PlanNode, PlanReader, Section, short};
use crate::keys::ACTION;
use crate::model::{Action, ActionKind, StoreUse};
use crate::sweep::{Choices, Point};

/// Most actions of a drive.
const ACTIONS_MAX: usize = 100;

/// An action, with a choice of faults.
pub(crate) struct ActionDraft {
    at_ns: u64,
    what: Choices<ActionKind>,
    span: Range<usize>,
}

impl ActionDraft {
    /// The action at a point of the sweep.
    pub(crate) fn at(&self, point: &mut Point<'_>) -> Action {
        Action { at_ns: self.at_ns, what: self.what.at(point) }
    }

    /// Location of the action, if it is one on a disk.
    pub(crate) fn of_disk(&self) -> Option<Range<usize>> {
        self.what.values().any(|what| what.is_of_disk()).then(|| self.span.clone())
    }
}

impl PlanReader<'_> {
    /// Reads the actions of a drive, ordered by time.
    pub(crate) fn actions(&self, phase: &str, drive: &Section<'_>) -> Option<Vec<ActionDraft>> {
        let Some(node) = drive.get("action") else { return Some(Vec::new()) };
        let tables = self.tables(&node)?;
        if tables.len() > ACTIONS_MAX {
            let what = format!("a drive has at most {ACTIONS_MAX} actions, not {}", tables.len());
            return self.refuse(node.span, what, None);
        }
        let mut all = Vec::new();
        for table in &tables {
            let section = self.section(table, "an action", &[ACTION])?;
            self.required(&section, "at", "at = \"3s\"")?;
            let at_ns = self.value(&section, "at", Self::whole);
            let what = self.action(phase, &section)?;
            all.push(ActionDraft { at_ns: at_ns?, what, span: table.span.clone() });
        }
        all.sort_by_key(|action| action.at_ns);
        Some(all)
    }

    fn action(&self, phase: &str, section: &Section<'_>) -> Option<Choices<ActionKind>> {
        let node = self.required(section, "what", "what = \"add\"")?;
        let what = self.value(section, "what", |this, node, takes| this.one_of(node, takes).map(str::to_owned))?;
        if what == "fault" {
            let fault = self.required(section, "fault", "fault = \"eio write once\"")?;
            return self.choices(phase, &fault, |node| self.fault(node).map(ActionKind::Fault));
        }
        if section.get("fault").is_some() {
            let told = format!("`{what}` has no `fault`");
            let help = "leave it out, or write what = \"fault\"".to_owned();
            return self.refuse(section.key_span("fault"), told, Some(help));
        }
        let kind = if what == "mend" { ActionKind::Mend } else { ActionKind::Add };
        Some(Choices::fixed(kind, node.span))
    }

    /// Reads a fault, in the words of the fault device's control protocol.
    fn fault(&self, node: &PlanNode<'_>) -> Option<Fault> {
        let text = self.text(node)?;
        text.parse().ok().or_else(|| {
            let what = format!("`{}` is not a valid fault", short(text));
            self.refuse(node.span.clone(), what, Some(format!("there are: {}", Fault::WORDS)))
        })
    }

    /// Reports the action at `span` if the disk of `store` does not support faults.
    pub(crate) fn has_disk(&self, store: &StoreUse, span: &Range<usize>) {
        if let Some(disk) = DiskSpec::of(&store.params).filter(|_| store.is_private()) {
            if let Some(several) = disk.several() {
                let what =
                    format!("the data of `{}` is on several devices ({several}), which do not fail", store.label);
                let help = "leave `disk_layout` and `log_disk` out where a disk is to fail".to_owned();
                self.problem(span.clone(), what, Some(help));
            }
            return;
        }
        let what = format!("the disk of `{}` cannot be told to fail", store.label);
        let help = match store.is_private() && store.params.0.contains_key(DiskSpec::PARAM) {
            true => format!("put it on one that can: {{ store = \"{}\", disk = \"ext4\" }}", store.kind),
            false => "only a store that is started here, and keeps data, can be put on one that can".to_owned(),
        };
        self.problem(span.clone(), what, Some(help));
    }
}
