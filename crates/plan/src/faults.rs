//! Faults of a drive phase.

use std::ops::Range;

use plimsoll_core::DiskSpec;
use toml_edit::{Document, TableLike};

use crate::document::{NodeKind, PlanNode, PlanReader, Section};
use crate::model::{Drive, DriveLimit, StoreUse};
use crate::sweep::{Choices, Point};
use crate::timeline::{PlannedFault, is_command};
use crate::url::without_secrets;

/// Most faults of a drive.
const FAULTS_MAX: usize = 100;

/// A fault, with a choice of values.
pub(crate) struct FaultDraft {
    fault: Choices<PlannedFault>,
    span: Range<usize>,
}

impl FaultDraft {
    /// Returns the fault at a point of the sweep.
    pub(crate) fn at(&self, point: &mut Point<'_>) -> PlannedFault {
        self.fault.at(point)
    }

    /// Returns the location of a fault that cannot follow the one that it names, the reason, and advice. `before` are the
    /// faults before it in the list.
    fn mistaken_order(&self, before: &[Self]) -> Option<(Range<usize>, String, String)> {
        let position = self.fault.values().find_map(|fault| fault.after)?.fault;
        let refused = |what: String, help: &str| Some((self.span.clone(), what, help.to_owned()));
        // Drawn faults leave their places in the list, which faults are counted by.
        if before.iter().any(|other| other.drawn().is_some()) {
            let what = "a fault after another follows no drawn fault, in time or in the list".to_owned();
            return refused(what, "put it before the drawn ones, after a fault with a time of its own");
        }
        let Some(other) = before.get(position) else {
            let what = format!("no fault {} comes before this one in the list", position + 1);
            return refused(what, "put the fault that it follows before it: faults are counted from 1");
        };
        let endless = other.fault.values().find(|fault| !fault.ends_once())?;
        let what = format!("nothing comes after fault {}, `{endless}`: it has no end of its own", position + 1);
        refused(what, "write how long that one lasts, once: for 3s")
    }

    /// Location of the fault, if its time is drawn.
    pub(crate) fn drawn(&self) -> Option<Range<usize>> {
        self.fault.values().any(|fault| fault.drawn.is_some()).then(|| self.span.clone())
    }

    /// Location of the fault, if it is one of a disk.
    pub(crate) fn of_disk(&self) -> Option<Range<usize>> {
        self.fault.values().any(PlannedFault::is_of_disk).then(|| self.span.clone())
    }
}

/// Returns the locations of the faults in the text of a plan that are commands of the user; none if it is no TOML.
pub(crate) fn commands(text: &str) -> Vec<Range<usize>> {
    fn get<'t>(table: &'t dyn TableLike, key: &str) -> Option<PlanNode<'t>> {
        Section { what: String::new(), table, span: 0..0, keys: &[] }.get(key)
    }
    let Ok(document) = Document::parse(text) else { return Vec::new() };
    let phases = get(document.as_table(), "phase").and_then(|node| node.elements()).unwrap_or_default();
    let (mut open, mut found) = (Vec::new(), Vec::new());
    for phase in phases {
        if let NodeKind::Table(table) = phase.kind {
            open.extend(get(table, "fault"));
        }
    }
    while let Some(node) = open.pop() {
        match node.kind {
            NodeKind::Text(text) if is_command(text) => found.push(node.span),
            _ => open.extend(node.elements().unwrap_or_default()),
        }
    }
    found
}

impl PlanReader<'_> {
    /// Reads the faults of a drive: a text, or a list of texts. A list in the list is swept.
    pub(crate) fn faults(&self, phase: &str, drive: &Section<'_>) -> Option<Vec<FaultDraft>> {
        let Some(node) = drive.get("fault") else { return Some(Vec::new()) };
        let elements = node.elements().unwrap_or_else(|| vec![node.clone()]);
        if elements.len() > FAULTS_MAX {
            let what = format!("a drive has at most {FAULTS_MAX} faults, not {}", elements.len());
            return self.refuse(node.span, what, Some("repeat one: every 30s".to_owned()));
        }
        let faults = self.all(&elements, |element| {
            let fault = self.choices(phase, element, |node| self.fault(node))?;
            Some(FaultDraft { fault, span: element.span.clone() })
        })?;
        let mistake = faults.iter().enumerate().find_map(|(at, fault)| fault.mistaken_order(&faults[..at]));
        mistake.map_or(Some(faults), |(span, what, help)| self.refuse(span, what, Some(help)))
    }

    /// Notes the faults of a drive that its end heals before their time.
    pub(crate) fn note_cut_short(&self, phase: &str, drive: &Drive) {
        let DriveLimit::DurationNs(ns) = drive.limit else { return };
        let length_ns = drive.warmup_ns.saturating_add(ns);
        let mut notices = self.notices.borrow_mut();
        for fault in drive.faults.iter().filter(|fault| fault.is_cut_short(length_ns)) {
            let notice = format!("phase {phase} ends before the `for` of a fault is over, and heals it: {fault}");
            if !notices.contains(&notice) {
                notices.push(notice);
            }
        }
    }

    fn fault(&self, node: &PlanNode<'_>) -> Option<PlannedFault> {
        let text = self.text(node)?;
        PlannedFault::parse(text).map_or_else(
            |mistake| {
                // Commands are read with their passwords. In words that are cut short a password has no end.
                let (what, help) = PlannedFault::parse(&without_secrets(text)).err().unwrap_or(mistake);
                self.refuse(node.span.clone(), what, help)
            },
            Some,
        )
    }

    /// Reports the fault at `span` if the disk of `store` does not support faults.
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
