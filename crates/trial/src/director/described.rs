//! Description of a fault for its record.

use plimsoll_plan::timeline::{FaultAction, PlannedFault};
use plimsoll_plan::without_secrets;
use plimsoll_record::data::{FaultDetail, FaultKind};

/// Characters of a command that name it in reports.
const COMMAND_SHOWN: usize = 60;

/// Returns the beginning of a command in quotes, without secrets.
pub(super) fn beginning(command: &str) -> String {
    let shown = without_secrets(command);
    let beginning: String = shown.chars().take(COMMAND_SHOWN).collect();
    let mark = if beginning.len() < shown.len() { "…" } else { "" };
    format!("\"{beginning}{mark}\"")
}

/// Returns the parts of a fault, except its nodes.
pub(super) fn detail(fault: &PlannedFault) -> FaultDetail {
    let (link, disk) = match &fault.what {
        FaultAction::Link(_, link) => (Some(*link), None),
        FaultAction::Disk(_, disk) => (None, Some(disk.to_string())),
        _ => (None, None),
    };
    let object = match &fault.what {
        FaultAction::Work(name, _) => Some(name.clone()),
        FaultAction::Neighbour(_, resource) => Some(resource.to_string()),
        _ => None,
    };
    FaultDetail { name: fault.name().to_owned(), link, disk, object, nodes: None }
}

/// Returns the kind of a fault.
pub(super) fn kind(what: &FaultAction) -> FaultKind {
    match what {
        FaultAction::Kill(_) => FaultKind::Kill,
        FaultAction::Stop(_) => FaultKind::Stop,
        FaultAction::Pause(_) => FaultKind::Pause,
        FaultAction::Hang(_) => FaultKind::Hang,
        FaultAction::Restart(..) | FaultAction::RestartInTurn(_) => FaultKind::Restart,
        FaultAction::Promote(_) => FaultKind::Promote,
        FaultAction::Reset(_) => FaultKind::Reset,
        FaultAction::Link(_, link) if link.is_cut() => FaultKind::Cut,
        FaultAction::Link(..) => FaultKind::Link,
        FaultAction::Limit(..) => FaultKind::Limit,
        FaultAction::Clock(..) => FaultKind::Clock,
        FaultAction::Disk(..) => FaultKind::Disk,
        FaultAction::Add => FaultKind::Join,
        FaultAction::Remove => FaultKind::Removal,
        FaultAction::Replace(_) => FaultKind::Replacement,
        FaultAction::Work(..) => FaultKind::Work,
        FaultAction::Storm(..) => FaultKind::Storm,
        FaultAction::Neighbour(..) => FaultKind::Neighbour,
        FaultAction::Command { .. } => FaultKind::Command,
    }
}
