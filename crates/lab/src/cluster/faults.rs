//! Faults of nodes that run: links, limits, clocks, threads that hang, connections that are reset.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use plimsoll_core::{ClockChange, LimitChange, Link, Node, Nodes, Servers, Span, StoreError, StoreErrorKind};

use super::{Running, locked};
use crate::hang::Hang;
use crate::hosts::reset_connections;
use crate::limits;

impl Running {
    pub(super) fn set_link_of(&self, number: usize, link: Link) -> Result<(), StoreError> {
        self.own_host(number)?.set_link(link)
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
