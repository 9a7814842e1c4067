//! Actions on the servers of a cluster.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plimsoll_core::{
    ClockChange, FailoverTime, Launch, LimitChange, Link, Node, NodeChoice, NodeSite, Nodes, ProgramChange, Progress,
    Servers, Setting, Span, StoreError,
};

use super::faults::set_each;
use super::progress::LOOK_AGE;
use super::{ClusterMember, Promotion, Running, STOP_BOUND, locked};
use crate::private_server::PrivateServer;
use crate::proxy;

/// Advice to the promotion of a node that cannot become the primary.
const PROMOTE_REPLICA: &str = "name a replica: promote replica, plimsoll lab status";

impl Servers for Running {
    fn nodes(&self) -> Vec<Arc<Node>> {
        self.members().into_iter().map(|member| member.node).collect()
    }

    fn settings(&self) -> Vec<Setting> {
        let roles = self.members().into_iter().map(|member| self.recipe.role(member.node.number)).collect::<Vec<_>>();
        self.limits.settings().into_iter().chain(proxy::setting(roles.into_iter())).collect()
    }

    fn sites(&self) -> Vec<NodeSite> {
        let site = |member: ClusterMember| {
            let pid = locked(&member.server).pid()?;
            Some(NodeSite { node: member.node.number, pid, directory: member.node.data_dir.clone() })
        };
        self.members().into_iter().filter_map(site).collect()
    }

    fn check(&self, nodes: Nodes) -> Result<(), StoreError> {
        self.numbers(nodes)?.into_iter().try_for_each(|number| self.on(number, PrivateServer::check))
    }

    fn kill(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.each(nodes, PrivateServer::kill)
    }

    fn stop(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.each(nodes, |server| server.stop(self.spec.stop, STOP_BOUND))
    }

    fn start(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.start_within(nodes, self.waits.work())
    }

    fn restart_with(&self, nodes: Nodes, program: &Path) -> Result<Vec<ProgramChange>, StoreError> {
        self.change_program(nodes, program)
    }

    fn pause(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.each(nodes, |server| server.pause(true))
    }

    fn reload(&self, nodes: Nodes) -> Result<Span, StoreError> {
        if !self.spec.reloads {
            let what = format!("{} reads its settings at its start only", self.spec.name);
            return Err(StoreError::usage(what).next("restart it, which ends its sessions: plimsoll lab restart"));
        }
        let from = Instant::now();
        let _guard = self.enter()?;
        for number in self.numbers(nodes)? {
            self.on(number, |server| server.check())?;
            if !self.recipe.reload(&self.find(number)?.node, &self.waits)? {
                self.on(number, PrivateServer::reload)?;
            }
        }
        Ok(Span { from, until: Instant::now() })
    }

    fn resume(&self, nodes: Nodes) -> Result<Span, StoreError> {
        let from = Instant::now();
        let resume = |number| {
            self.on(number, |server| {
                server.hold(None);
                server.pause(false)
            })
        };
        // All are tried: none stays paused because another does not continue.
        self.numbers(nodes)?.into_iter().map(resume).fold(Ok(()), Result::and)?;
        Ok(Span { from, until: Instant::now() })
    }

    fn hang(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.hang_each(nodes)
    }

    fn reset(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.reset_each(nodes)
    }

    fn in_progress(&self) -> Result<Vec<Progress>, StoreError> {
        let works = self.works_in_progress();
        if self.works_running.load(Ordering::SeqCst) > 0 && self.awaited().is_empty() {
            return Ok(works);
        }
        let all = self.operations(LOOK_AGE, |_| true).into_iter().map(|one| one.progress);
        Ok(all.filter(|progress| !progress.is_aside).chain(works).collect())
    }

    fn add(&self) -> Result<usize, StoreError> {
        self.recipe.takes_more()?;
        self.others_must_run(None)?;
        let number = self.members().iter().map(|member| member.node.number + 1).max().unwrap_or(0);
        self.join_as(number, None).map(|()| number)
    }

    fn remove(&self, number: usize) -> Result<(), StoreError> {
        self.others_must_run(Some(number))?;
        let (nodes, _guard) = (self.nodes(), self.enter()?);
        self.recipe.part(self.member(&nodes, number, false)?, &self.waits)?;
        self.on(number, |server| server.stop(self.spec.stop, STOP_BOUND))?;
        self.drop_member(number)?;
        self.recipe.until_whole(&self.nodes(), &self.waits)
    }

    fn replace(&self, number: usize) -> Result<(), StoreError> {
        self.recipe.takes_more()?;
        if self.recipe.has_primary() && number == 0 {
            let what =
                format!("node 1 of {} was made as the primary, and an empty node cannot replace it", self.spec.name);
            return Err(StoreError::usage(what).next("replace another node: replace node 2"));
        }
        // Clients go on to look for the node at its address.
        let host = self.find(number)?.host;
        self.remove(number)?;
        self.join_as(number, host)
    }

    fn has_primary(&self) -> bool {
        self.recipe.has_primary()
    }

    fn failover_time(&self) -> Option<FailoverTime> {
        self.recipe.failover_time()
    }

    fn chosen(&self, choice: NodeChoice) -> Result<Nodes, StoreError> {
        match choice {
            NodeChoice::All => Ok(Nodes::All),
            NodeChoice::Primary => self.primary().map(Nodes::One),
            NodeChoice::Replica => self.replica().map(Nodes::One),
            NodeChoice::Number(number) => {
                self.find((number as usize).saturating_sub(1)).map(|member| Nodes::One(member.node.number))
            }
            NodeChoice::Numbers(_) | NodeChoice::Minority | NodeChoice::Majority => self.several(choice),
        }
    }

    fn promote(&self, number: usize) -> Result<Span, StoreError> {
        self.recipe.promotes()?;
        let (from, nodes, _guard) = (Instant::now(), self.nodes(), self.enter()?);
        let member = self.member(&nodes, number, false)?;
        let switches_over = self.recipe.switches_over();
        if number == member.primary && !switches_over {
            let what = format!("node {} is the primary already", number + 1);
            return Err(StoreError::usage(what).next(PROMOTE_REPLICA));
        }
        if !self.recipe.keeps_data(number) {
            return Err(StoreError::usage(format!("node {} holds no data", number + 1)).next(PROMOTE_REPLICA));
        }
        self.on(number, |server| server.check())?;
        let _promoting = self.promoting(&self.waits)?;
        let stale = self.promotion().stale.clone();
        if stale.contains(&number) {
            let what = format!("node {} has not followed the primary since the last promotion", number + 1);
            let next = "promote another node, or restart this one first, which makes it follow";
            return Err(StoreError::usage(what).next(next));
        }
        if switches_over {
            self.recipe.promote(member, &self.waits)?;
            if self.recipe.has_primary() {
                // Starts of nodes go by it.
                *self.promotion() = Promotion { primary: number, ..Promotion::default() };
            }
            return Ok(Span { from, until: Instant::now() });
        }
        // A former primary that goes on would take writes that are lost when it is rewound.
        self.kill(Nodes::One(member.primary))?;
        self.recipe.promote(member, &self.waits)?;
        let until = Instant::now();
        let others = nodes.iter().map(|node| node.number).filter(|other| self.recipe.keeps_data(*other));
        let others: Vec<usize> = others.filter(|other| *other != number).collect();
        // Noted before anything else, so that no other node starts as a second primary.
        *self.promotion() = Promotion { primary: number, stale: others.iter().copied().collect() };
        for other in others {
            // Such a node may have writes that neither primary has, and is rewound before its next start.
            if stale.contains(&other) {
                continue;
            }
            if self.recipe.follow(self.member(&nodes, other, false)?, &self.waits).is_ok() {
                self.promotion().stale.remove(&other);
            }
        }
        Ok(Span { from, until })
    }

    fn rejoin(&self) -> Result<(), StoreError> {
        self.stale().into_iter().try_for_each(|number| self.restart(Nodes::One(number)).map(drop))
    }

    fn namespace(&self, number: usize) -> Result<Option<PathBuf>, StoreError> {
        Ok(self.find(number)?.host.map(|host| host.namespace()))
    }

    fn client_hosts(&self, count: u32) -> Result<Vec<PathBuf>, StoreError> {
        let none = || {
            let name = self.spec.name;
            let what = format!("{name} is on this machine's own network, which client hosts cannot be added to");
            StoreError::usage(what)
                .next("leave `client_hosts` out, or use a store with several nodes: plimsoll list stores")
        };
        self.network.as_ref().ok_or_else(none)?.client_hosts(count)
    }

    fn set_link(&self, nodes: Nodes, link: Link) -> Result<Vec<(usize, Link)>, StoreError> {
        self.peers_must_differ(nodes, &link)?;
        let before = |number| Ok((number, self.own_host(number)?.link()));
        let before = self.numbers(nodes)?.into_iter().map(before).collect::<Result<_, StoreError>>()?;
        set_each(before, &link, |number, link| self.set_link_of(number, *link))
    }

    fn change_limit(&self, nodes: Nodes, change: &LimitChange) -> Result<Vec<(usize, LimitChange)>, StoreError> {
        let before = |number| Ok((number, self.find(number)?.node.limits.before(change)));
        let before = self.numbers(nodes)?.into_iter().map(before).collect::<Result<_, StoreError>>()?;
        set_each(before, change, |number, change| self.change_limit_of(number, change))
    }

    fn set_clock(
        &self,
        nodes: Nodes,
        change: Option<ClockChange>,
    ) -> Result<Vec<(usize, Option<ClockChange>)>, StoreError> {
        let before = |number| Ok((number, self.clock_of(number)?));
        let before = self.numbers(nodes)?.into_iter().map(before).collect::<Result<_, StoreError>>()?;
        set_each(before, &change, |number, change| self.set_clock_of(number, *change))
    }

    fn work(&self, nodes: Nodes, name: &str) -> Result<(), StoreError> {
        self.work_within(nodes, name, &self.waits)
    }

    fn run(&self, node: usize, launch: &Launch, bound: Duration) -> Result<(), StoreError> {
        self.on(node, |server| server.run(launch, bound))
    }
}
