//! Description of a fault for its record.

use plimsoll_core::{NodeChoice, Nodes};
use plimsoll_plan::timeline::{FaultAction, PlannedFault};
use plimsoll_plan::without_secrets;
use plimsoll_record::data::{FaultDetail, FaultKind};

use super::Director;
use super::due::ChosenNodes;

/// Characters of a command that name it in reports.
const COMMAND_SHOWN: usize = 60;

impl Director<'_> {
    /// Describes the subject of a fault.
    pub(super) fn subject(&self, what: &FaultAction, chosen: Option<&ChosenNodes>) -> String {
        let count = chosen.map_or(1, |chosen| chosen.present.len());
        // Of equal nodes none has a role.
        let has_roles = self.servers.as_ref().is_some_and(|servers| servers.has_primary());
        match (what, chosen.map(|chosen| (chosen.choice, chosen.nodes))) {
            (FaultAction::Disk(..), None) => "the disk".to_owned(),
            (FaultAction::Add | FaultAction::Remove, _) => "a node".to_owned(),
            (FaultAction::Command { begin, .. }, _) => beginning(begin),
            (FaultAction::Reset(_) | FaultAction::Storm(..), None) => self.in_use.words().to_owned(),
            (FaultAction::RestartInTurn(_), _) if count > 1 => "all nodes, in turn".to_owned(),
            (_, Some((NodeChoice::Primary, Nodes::One(number)))) if has_roles => {
                format!("node {}, the primary", number + 1)
            }
            (_, Some((NodeChoice::Replica, Nodes::One(number)))) if has_roles => {
                format!("node {}, a replica", number + 1)
            }
            (_, Some((NodeChoice::Minority, nodes))) if count > 1 => format!("{}, a minority", words_of(nodes)),
            (_, Some((NodeChoice::Majority, nodes))) if count > 1 => format!("{}, the majority", words_of(nodes)),
            (_, Some((_, nodes))) if count > 1 => words_of(nodes),
            _ => "the server".to_owned(),
        }
    }
}

/// Returns the nodes in words: `nodes 1, 2 and 3`.
fn words_of(nodes: Nodes) -> String {
    match nodes {
        Nodes::All => "all nodes".to_owned(),
        Nodes::One(number) => format!("node {}", number + 1),
        Nodes::Several(all) => {
            let mut numbers: Vec<String> = all.numbers().map(|number| (number + 1).to_string()).collect();
            let last = numbers.pop().unwrap_or_default();
            format!("nodes {} and {last}", numbers.join(", "))
        }
    }
}

/// Returns the beginning of a command in quotes, without secrets.
fn beginning(command: &str) -> String {
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
    FaultDetail { name: fault.name().to_owned(), link, disk, object, ..FaultDetail::default() }
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
