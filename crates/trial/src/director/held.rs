//! Parts of nodes that a fault holds, of which no other fault may have one at that time.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_core::{Node, Nodes};
use plimsoll_plan::timeline::FaultAction;

use super::due::{ChosenNodes, Occurrence};
use super::{Directed, Director};
use crate::error::TrialError;

/// Time after a reset of connections in which those who had one fail.
const RESET_EFFECT_NS: u64 = 1_000_000_000;

/// Part of a node that a fault holds, such as its link, and the node's number.
pub(super) type HeldPart = (&'static str, usize);

/// Parts of nodes that a fault holds.
pub(super) struct Held<'d>(&'d Director<'d>, BTreeSet<HeldPart>);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.directed().held.retain(|(part, _)| !self.1.contains(part));
    }
}

/// Returns the parts of the chosen nodes that a fault holds.
fn parts(what: &FaultAction, chosen: Option<&ChosenNodes>) -> BTreeSet<HeldPart> {
    let thing = match what {
        FaultAction::Kill(_) | FaultAction::Stop(_) | FaultAction::Pause(_) | FaultAction::Hang(_) => Some("server"),
        FaultAction::Restart(..) | FaultAction::RestartInTurn(_) | FaultAction::Replace(_) => Some("server"),
        FaultAction::Link(..) => Some("link"),
        FaultAction::Limit(_, change) => Some(change.name()),
        FaultAction::Clock(..) => Some("clock"),
        FaultAction::Promote(_) | FaultAction::Disk(..) | FaultAction::Work(..) => None,
        FaultAction::Add | FaultAction::Remove | FaultAction::Command { .. } => None,
        FaultAction::Reset(_) | FaultAction::Storm(..) | FaultAction::Neighbour(..) => None,
    };
    let Some((thing, ChosenNodes { nodes, present, .. })) = thing.zip(chosen) else { return BTreeSet::new() };
    // Nodes on one host have one link.
    let is_its = |one: &Node, other: &Node| thing == "link" && one.address == other.address;
    let number_of = |node: &Arc<Node>| present.iter().find(|one| is_its(one, node)).unwrap_or(node).number;
    let meant = present.iter().filter(|node| nodes.has(node.number));
    meant.map(|node| (thing, number_of(node))).collect()
}

impl Directed {
    /// Returns true if an earlier repeat still holds a part of the nodes of this one, which then waits.
    pub(super) fn is_held_by_repeat(&self, one: &Occurrence<'_>, chosen: Option<&ChosenNodes>) -> bool {
        let series = one.series();
        let parts = if series.is_some() { parts(&one.fault.what, chosen) } else { BTreeSet::new() };
        self.held.iter().any(|(part, other)| *other == series && parts.contains(part))
    }

    /// Returns true if a fault holds the server of one of these nodes.
    pub(super) fn is_server_held(&self, nodes: Nodes) -> bool {
        self.held.iter().any(|((thing, number), _)| *thing == "server" && nodes.has(*number))
    }
}

impl Director<'_> {
    /// Notes that nodes have a fault, until the value is dropped.
    ///
    /// # Errors
    /// `Usage` if one of them has a fault of the same thing already: a role may name a node that another fault names.
    pub(super) fn hold(&self, one: &Occurrence<'_>, chosen: Option<&ChosenNodes>) -> Result<Held<'_>, TrialError> {
        let parts = parts(&one.fault.what, chosen);
        let mut directed = self.directed();
        if let Some(((thing, number), _)) = directed.held.iter().find(|(part, _)| parts.contains(part)) {
            let what = format!("node {} has another fault of its {thing} at this time", number + 1);
            return Err(TrialError::usage(what).next("choose other times or nodes; a role may be any node"));
        }
        directed.held.extend(parts.iter().map(|part| (*part, one.series())));
        Ok(Held(self, parts))
    }

    /// Returns true if another fault affects the server, link, clock or disk of one of these nodes, changes which
    /// servers run, or has reset connections.
    pub(super) fn has_other_fault(&self, nodes: Nodes) -> bool {
        let directed = self.directed();
        let is_held = |((thing, number), _): &(HeldPart, Option<usize>)| {
            ["server", "link", "clock"].contains(thing) && nodes.has(*number)
        };
        // Work notices a reset after its end.
        let is_reset = directed.reset_ns.is_some_and(|at_ns| self.clock.now_ns() < at_ns + RESET_EFFECT_NS);
        is_reset || !directed.changing.is_empty() || !directed.on_disk.is_empty() || directed.held.iter().any(is_held)
    }
}
