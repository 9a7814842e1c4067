//! Nodes that gave no answers in the effect of a fault, if operations go to several.

use indexmap::IndexMap;
use plimsoll_core::{AFFECTED_NS, TICK_NS};

use super::NAMED_MAX;
use super::waits::Wait;
use crate::number;
use crate::phase::PhaseFacts;
use crate::view::{FaultNodesView, SilentNodeView};

/// Nodes of a phase that gave answers before its first fault, with their times without one.
pub(super) struct NodeWaits(Vec<NodeWait>);

struct NodeWait {
    name: String,
    /// Longest time without an answer between two answers before the first fault, and at least [`AFFECTED_NS`].
    usual_ns: u64,
    /// Times between two answers, and from the last one to the end.
    waits: Vec<Wait>,
}

impl NodeWaits {
    /// Returns the nodes of a phase whose first fault began at `first_ns`; `None` if operations went to one server.
    pub(super) fn of(facts: &PhaseFacts<'_>, first_ns: u64) -> Option<Self> {
        // Bits of each name: a node may have several addresses.
        let mut bits: IndexMap<&str, u64> = IndexMap::new();
        for servers in facts.phase.slices.iter().filter_map(|slice| slice.server_ticks.as_ref()) {
            for (at, name) in servers.names.iter().enumerate() {
                *bits.entry(name.as_str()).or_default() |= 1u64 << at;
            }
        }
        let node = |(name, bits): (&&str, &u64)| {
            let (mut answered_ns, mut end_ns) = (None::<u64>, 0);
            let (mut usual_ns, mut waits) = (AFFECTED_NS, Vec::new());
            let mut is_known = false;
            for slice in &facts.phase.slices {
                let Some(servers) = &slice.server_ticks else { continue };
                for (start_ns, answered) in (slice.start_ns..).step_by(TICK_NS as usize).zip(&servers.answered) {
                    end_ns = (start_ns + TICK_NS).min(slice.end_ns.max(start_ns));
                    if answered & bits == 0 {
                        continue;
                    }
                    if let Some(from_ns) = answered_ns.filter(|from_ns| *from_ns < start_ns) {
                        let wait = Wait { from_ns, to_ns: start_ns, is_open: false };
                        if start_ns <= first_ns && !facts.is_warmup(slice) {
                            usual_ns = usual_ns.max(wait.length_ns());
                        }
                        waits.push(wait);
                    }
                    is_known |= end_ns <= first_ns;
                    answered_ns = Some(end_ns);
                }
            }
            let last = answered_ns.filter(|from_ns| *from_ns < end_ns);
            waits.extend(last.map(|from_ns| Wait { from_ns, to_ns: end_ns, is_open: true }));
            is_known.then(|| NodeWait { name: (*name).to_owned(), usual_ns, waits })
        };
        let mut nodes: Vec<NodeWait> = bits.iter().filter_map(node).collect();
        // `node 10` comes after `node 9`.
        nodes.sort_by(|a, b| (a.name.len(), &a.name).cmp(&(b.name.len(), &b.name)));
        (nodes.len() > 1).then_some(Self(nodes))
    }

    /// Returns the nodes that gave no answers from `begun_ns` for an unusual time. After `until_ns` clients may ask others.
    /// A node that had been silent for an unusual time before is no effect: clients may not have asked it at all.
    pub(super) fn silent(&self, begun_ns: u64, until_ns: u64) -> FaultNodesView {
        let silent = |node: &NodeWait| {
            let since_ns = begun_ns.saturating_sub(node.usual_ns);
            let its = node.waits.iter().filter(|wait| (since_ns..until_ns).contains(&wait.from_ns));
            let its = its.filter_map(|wait| wait.since(begun_ns));
            let observed = its.map(|wait| {
                let is_open = wait.is_open || wait.to_ns > until_ns;
                Wait { to_ns: wait.to_ns.min(until_ns), is_open, ..wait }
            });
            let unusual = observed.filter(|wait| wait.length_ns() > node.usual_ns);
            let longest = unusual.max_by_key(|wait| (wait.length_ns(), wait.is_open))?;
            let seconds = longest.length_ns() as f64 / 1e9;
            Some(SilentNodeView { name: node.name.clone(), seconds, open: longest.is_open })
        };
        FaultNodesView { silent: self.0.iter().filter_map(silent).collect(), of: self.0.len() as u64 }
    }
}

/// Returns `no answer from 1 of 3 nodes (node 2) for up to 3.00 s`; `None` if all nodes gave answers.
pub(super) fn words(view: &FaultNodesView) -> Option<String> {
    let longest = view.longest()?;
    let more = if view.silent.len() > NAMED_MAX { ", …" } else { "" };
    let names: Vec<&str> = view.silent.iter().take(NAMED_MAX).map(|node| node.name.as_str()).collect();
    let up_to = if longest.open { "more than" } else { "up to" };
    let (n, of, longest) = (view.silent.len(), view.of, number::seconds(longest.seconds));
    Some(format!("no answer from {n} of {of} nodes ({}{more}) for {up_to} {longest}", names.join(", ")))
}
