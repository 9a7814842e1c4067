//! A lab as the servers of a store: each call is a request to the process that holds it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{
    ClockChange, FailoverTime, Launch, LimitChange, Link, Node, NodeChoice, NodeSite, Nodes, ProgramChange, Progress,
    Servers, Setting, Span, StoreError,
};

use super::request::{LabAction, LabRequest, NodeStatus, NodesReply};
use super::{ANSWER_BOUND, Lab, STOP_BOUND, TRUE_CLOCK, WORK_BOUND};
use crate::proxy;

impl Servers for Lab {
    fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.clone()
    }

    fn present(&self) -> Result<Vec<Arc<Node>>, StoreError> {
        let (nodes, ..): NodesReply = self.ask(&LabRequest::Nodes, ANSWER_BOUND)?;
        Ok(nodes.into_iter().map(Arc::new).collect())
    }

    fn sites(&self) -> Vec<NodeSite> {
        let site = |node: NodeStatus| {
            let known = self.nodes.iter().find(|known| known.number == node.number);
            let directory = known.map_or(node.directory, |known| known.data_dir.clone());
            Some(NodeSite { node: node.number, pid: node.process?, directory })
        };
        // A lab that does not answer reports an error on its next use.
        self.status().map(|status| status.nodes.into_iter().filter_map(site).collect()).unwrap_or_default()
    }

    fn settings(&self) -> Vec<Setting> {
        let mut settings = self.limits();
        // A lab that does not answer reports an error on its next use.
        let (nodes, version) = self.status().map(|status| (status.nodes, status.version)).unwrap_or_default();
        settings.extend(proxy::setting(nodes.iter().map(|node| node.role.as_str())));
        for node in nodes {
            let name = format!("link of node {}", node.number + 1);
            let plain = Link::default().to_string();
            settings.extend(
                (node.link != Link::default())
                    .then(|| Setting::new(&name, node.link.to_string(), Some(&plain), "plimsoll")),
            );
            let name = format!("clock of node {}", node.number + 1);
            settings.extend(node.clock.map(|clock| Setting::ours(&name, clock.to_string(), TRUE_CLOCK)));
            let name = format!("version of node {}", node.number + 1);
            settings.extend(node.program.map(|program| Setting::ours(&name, program.version, &version)));
        }
        settings
    }

    fn check(&self, nodes: Nodes) -> Result<(), StoreError> {
        self.act(LabAction::Check, nodes).map(drop)
    }

    fn kill(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.act(LabAction::Kill, nodes)
    }

    fn stop(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.act(LabAction::Stop, nodes)
    }

    fn start(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.act(LabAction::Start, nodes)
    }

    fn restart(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.act(LabAction::Restart, nodes)
    }

    fn restart_with(&self, nodes: Nodes, program: &Path) -> Result<Vec<ProgramChange>, StoreError> {
        self.ask(&LabRequest::RestartWith { nodes, program: program.to_owned() }, WORK_BOUND)
    }

    fn pause(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.act(LabAction::Pause, nodes)
    }

    fn hang(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.act(LabAction::Hang, nodes)
    }

    fn reset(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.act(LabAction::Reset, nodes)
    }

    fn reload(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.act(LabAction::Reload, nodes)
    }

    fn resume(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.act(LabAction::Resume, nodes)
    }

    fn has_primary(&self) -> bool {
        self.has_primary
    }

    fn failover_time(&self) -> Option<FailoverTime> {
        self.failover_time.clone()
    }

    fn chosen(&self, choice: NodeChoice) -> Result<Nodes, StoreError> {
        match choice {
            NodeChoice::All => Ok(Nodes::All),
            NodeChoice::Primary => self.ask(&LabRequest::Primary, WORK_BOUND),
            NodeChoice::Replica => self.ask(&LabRequest::Replica, WORK_BOUND),
            NodeChoice::Number(number) => Ok(Nodes::One((number as usize).saturating_sub(1))),
            NodeChoice::Numbers(_) | NodeChoice::Minority | NodeChoice::Majority => self.several(choice),
        }
    }

    fn promote(&self, number: usize) -> Result<Span, StoreError> {
        self.act(LabAction::Promote, Nodes::One(number))
    }

    fn rejoin(&self) -> Result<(), StoreError> {
        self.ask(&LabRequest::Rejoin, WORK_BOUND)
    }

    fn namespace(&self, number: usize) -> Result<Option<PathBuf>, StoreError> {
        let node = self.status()?.nodes.into_iter().find(|node| node.number == number);
        let none = || {
            let what = format!("there is no node {} in lab {}", number + 1, self.name);
            StoreError::usage(what).next(format!("plimsoll lab status {}", self.name))
        };
        node.map(|node| node.namespace).ok_or_else(none)
    }

    fn client_hosts(&self, count: u32) -> Result<Vec<PathBuf>, StoreError> {
        self.ask(&LabRequest::ClientHosts { count }, WORK_BOUND)
    }

    fn set_link(&self, nodes: Nodes, link: Link) -> Result<Vec<(usize, Link)>, StoreError> {
        self.ask(&LabRequest::Link { nodes, link }, WORK_BOUND)
    }

    fn change_limit(&self, nodes: Nodes, change: &LimitChange) -> Result<Vec<(usize, LimitChange)>, StoreError> {
        self.change_limit_as(nodes, change, &change.to_string())
    }

    fn set_clock(
        &self,
        nodes: Nodes,
        change: Option<ClockChange>,
    ) -> Result<Vec<(usize, Option<ClockChange>)>, StoreError> {
        self.ask(&LabRequest::Clock { nodes, change }, WORK_BOUND)
    }

    fn work(&self, nodes: Nodes, name: &str) -> Result<(), StoreError> {
        let bound_ms = self.waits.work().as_millis() as u64;
        // The limit of the reply counts from the stop, or the work's end.
        self.ask(&LabRequest::Work { nodes, name: name.to_owned(), bound_ms }, STOP_BOUND)
    }

    fn outlive(&self) -> bool {
        true
    }

    fn lease(&self) -> Result<(), StoreError> {
        self.ask(&LabRequest::Lease, WORK_BOUND)
    }

    fn in_progress(&self) -> Result<Vec<Progress>, StoreError> {
        self.ask(&LabRequest::InProgress, ANSWER_BOUND)
    }

    fn add(&self) -> Result<usize, StoreError> {
        self.ask(&LabRequest::Add { needed_by: Some(std::process::id()) }, WORK_BOUND)
    }

    fn remove(&self, number: usize) -> Result<(), StoreError> {
        self.ask(&LabRequest::Remove(number), WORK_BOUND)
    }

    fn run(&self, node: usize, launch: &Launch, bound: Duration) -> Result<(), StoreError> {
        let (program, arguments) = (launch.program.clone(), launch.arguments.clone());
        self.ask(&LabRequest::Run { node, program, arguments, bound_ms: bound.as_millis() as u64 }, WORK_BOUND)
    }
}
