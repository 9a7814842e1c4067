//! Faults of nodes that run: links, limits, clocks, threads that hang, connections that are reset.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use plimsoll_core::{
    ClockChange, LimitChange, Link, LinkPeers, Node, Nodes, Servers, Span, StoreError, StoreErrorKind,
};

use super::{Running, locked};
use crate::hang::Hang;
use crate::hosts::{client_host, reset_connections};
use crate::limits;

/// Sets a value of nodes, of which `before` has the former values, and returns these. If one node fails, all get those
/// again.
///
/// # Errors
/// As `set`; `Broken` with all errors if a node does not get its former value again.
pub(super) fn set_each<V>(
    before: Vec<(usize, V)>,
    value: &V,
    set: impl Fn(usize, &V) -> Result<(), StoreError>,
) -> Result<Vec<(usize, V)>, StoreError> {
    let failed = before.iter().enumerate().find_map(|(at, (number, _))| Some((at, set(*number, value).err()?)));
    let Some((at, error)) = failed else { return Ok(before) };
    // A node that refuses a value has its former one still.
    let is_refused = error.kind == StoreErrorKind::Usage;
    let left = before.iter().take(at + usize::from(!is_refused)).filter_map(|(number, former)| {
        let error = set(*number, former).err()?;
        Some(format!("node {} could not be set back: {error}", number + 1))
    });
    let left: Vec<String> = left.collect();
    if left.is_empty() {
        return Err(error);
    }
    let next = "see what the nodes of a lab have now, and set it again: plimsoll lab status";
    Err(StoreError::broken(format!("{error}; {}", left.join("; "))).next(next))
}

impl Running {
    /// Sets the link of a node's host. A link for a node on the same host leaves it as it is.
    pub(super) fn set_link_of(&self, number: usize, link: Link) -> Result<(), StoreError> {
        let host = self.own_host(number)?;
        match link.peers {
            LinkPeers::All => host.set_link(link),
            LinkPeers::Clients => host.set_link_to_clients(link),
            LinkPeers::ClientHost(other) => host.set_link_to(link, client_host(other)),
            LinkPeers::Node(other) => {
                let peer = self.own_host(other)?.address();
                if peer == host.address() { Ok(()) } else { host.set_link_to(link, peer) }
            }
        }
    }

    /// Fails if `nodes` are one node that has no link to the node that a link is for.
    pub(super) fn peers_must_differ(&self, nodes: Nodes, link: &Link) -> Result<(), StoreError> {
        let (Nodes::One(number), LinkPeers::Node(other)) = (nodes, link.peers) else { return Ok(()) };
        if self.own_host(number)?.address() != self.own_host(other)?.address() {
            return Ok(());
        }
        let what = format!("node {} and node {} are on one host, with no link between them", number + 1, other + 1);
        Err(StoreError::usage(what).next("name two nodes on different hosts"))
    }

    pub(super) fn change_limit_of(&self, number: usize, change: &LimitChange) -> Result<(), StoreError> {
        limits::change(change, &self.find(number)?.root)?;
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        for member in members.iter_mut().filter(|member| member.node.number == number) {
            let node = Node::clone(&member.node);
            member.node = Arc::new(Node { limits: node.limits.clone().with(change), ..node });
        }
        Ok(())
    }

    pub(super) fn set_clock_of(&self, number: usize, change: Option<ClockChange>) -> Result<(), StoreError> {
        self.on(number, |server| server.set_clock(change))
    }

    pub(super) fn clock_of(&self, number: usize) -> Result<Option<ClockChange>, StoreError> {
        self.on(number, |server| Ok(server.clock()))
    }

    /// Makes one thread or process hang, of each of `nodes` that can.
    pub(super) fn hang_each(&self, nodes: Nodes) -> Result<Span, StoreError> {
        let from = Instant::now();
        let all: Vec<usize> = self.stages(nodes)?.into_iter().flatten().collect();
        let can: Vec<usize> = all.iter().copied().filter(|number| self.recipe.hangs(*number).is_ok()).collect();
        // If none can, the first of them says why.
        let meant = if can.is_empty() { all } else { can };
        meant.into_iter().try_for_each(|number| self.hang_of(number))?;
        Ok(Span { from, until: Instant::now() })
    }

    fn hang_of(&self, number: usize) -> Result<(), StoreError> {
        self.recipe.hangs(number)?;
        self.on(number, |server| server.check())?;
        let nodes = self.nodes();
        let serving = {
            let _guard = self.enter()?;
            self.recipe.serving(self.member(&nodes, number, false)?, &self.waits)?
        };
        let member = self.find(number)?;
        // Not locked during the look, so that others can end the server meanwhile.
        let hang = Hang::of_busiest(&serving, &member.root, &self.waits)?.ok_or_else(|| {
            let what = format!(
                "no thread of node {} of {} worked for a client within 2 s, so none was stopped",
                number + 1,
                self.spec.name
            );
            StoreError::broken(what).next("name a node that serves clients, at a time when they work")
        })?;
        locked(&member.server).hold(Some(hang));
        Ok(())
    }

    /// Resets the connections to each of `nodes`.
    pub(super) fn reset_each(&self, nodes: Nodes) -> Result<Span, StoreError> {
        let from = Instant::now();
        let reset = |number| {
            let member = self.find(number)?;
            let _guard = member.host.as_ref().map(|host| host.enter()).transpose()?;
            reset_connections(member.node.address, &member.node.ports)
        };
        let counts = self.numbers(nodes)?.into_iter().map(reset).collect::<Result<Vec<_>, _>>()?;
        if counts.into_iter().any(|count| count > 0) {
            return Ok(Span { from, until: Instant::now() });
        }
        let what = format!("no TCP connection to {} was open: nothing was reset", self.spec.name);
        Err(StoreError::new(StoreErrorKind::Broken, what).next("name a node that has clients"))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Sets 9 on three nodes with the values 1, 2, 3; `fails` returns the error of a node for a value. Returns the
    /// result, and the values then.
    fn set_nine(fails: impl Fn(usize, u32) -> Option<StoreError>) -> (Result<Vec<(usize, u32)>, StoreError>, [u32; 3]) {
        let values = RefCell::new([1, 2, 3]);
        let set = |number: usize, value: &u32| match fails(number, *value) {
            Some(error) => Err(error),
            None => {
                values.borrow_mut()[number] = *value;
                Ok(())
            }
        };
        let done = set_each(vec![(0, 1), (1, 2), (2, 3)], &9, set);
        (done, values.into_inner())
    }

    #[test]
    fn nodes_get_their_former_values_again_if_one_fails() {
        assert_eq!(set_nine(|_, _| None), (Ok(vec![(0, 1), (1, 2), (2, 3)]), [9; 3]));
        let full = StoreError::new(StoreErrorKind::DiskFull, "full");
        assert_eq!(set_nine(|number, value| ((number, value) == (2, 9)).then(|| full.clone())), (Err(full), [1, 2, 3]));
        // It takes no value.
        let refused = StoreError::usage("no group");
        assert_eq!(set_nine(|number, _| (number == 1).then(|| refused.clone())), (Err(refused), [1, 2, 3]));
    }

    #[test]
    fn nodes_that_do_not_get_their_former_values_again_are_named_with_the_first_error() {
        let (done, values) = set_nine(|number, value| match (number, value) {
            (1, 9) => Some(StoreError::usage("no such link")),
            (0, 1) => Some(StoreError::new(StoreErrorKind::Permission, "no right")),
            _ => None,
        });
        let error = done.unwrap_err();
        // A log of a lab leaves out what was refused, and here something has changed.
        assert_eq!((error.kind, values), (StoreErrorKind::Broken, [9, 2, 3]));
        assert_eq!(error.what, "no such link; node 1 could not be set back: no right");
        assert!(error.next.is_some_and(|next| next.contains("plimsoll lab status")));
    }
}
