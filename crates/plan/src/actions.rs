//! Actions of a drive: what is done to the store's servers while it is driven.

use crate::document::{Reading, Section};
use crate::keys::ACTION;
use crate::model::Action;

/// Most actions of a drive.
const ACTIONS_MAX: usize = 100;

impl Reading<'_> {
    /// The actions of a drive, in the order of their times.
    pub(crate) fn actions(&self, drive: &Section<'_>) -> Option<Vec<Action>> {
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
            self.required(&section, "what", "what = \"add\"")?;
            let (at_ns, what) = (self.value(&section, "at", Self::whole), self.value(&section, "what", Self::named));
            all.push(Action { at_ns: at_ns?, what: what? });
        }
        all.sort_by_key(|action| action.at_ns);
        Some(all)
    }
}
