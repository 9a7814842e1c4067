//! Status of a lab: its nodes, with their states and the resources that they use.

use std::fs;
use std::path::Path;
use std::time::Duration;

use plimsoll_core::{Node, StoreError};
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::Pid;

use super::{Holder, NodeSupervision};
use crate::limits::LimitUsage;
use crate::orphans::works_in;
use crate::standing::long::{ASK_BOUND, NodeAnswers};
use crate::standing::request::{HostStatus, LabStatus, NodeState, NodeStatus};
use crate::supervisor::readable;

impl Holder {
    /// Returns the status of the lab and of all its nodes.
    pub(super) fn status(&self) -> Result<LabStatus, StoreError> {
        let (in_progress, said) = self.long.now();
        let nodes = self.cluster.nodes();
        let nodes = nodes.iter().map(|node| self.node(node, said.as_ref())).collect::<Result<_, _>>()?;
        let load = self.cluster.network();
        Ok(LabStatus {
            name: self.name.clone(),
            store: self.about.store.clone(),
            made_as: self.about.made_as.clone(),
            params: self.about.params.clone(),
            version: self.about.version.clone(),
            url: self.about.url.clone(),
            process: std::process::id(),
            since_unix_ns: self.since_unix_ns,
            load: load.map(|load| HostStatus { address: load.address(), namespace: load.namespace() }),
            nodes,
            in_progress,
        })
    }

    /// Returns the status of a node. `said` has the nodes' own answers; `None` if not all have answered in time.
    pub(super) fn node(&self, node: &Node, said: Option<&NodeAnswers>) -> Result<NodeStatus, StoreError> {
        let number = node.number;
        let own = said.and_then(|said| said.get(&number));
        let not_ready = own.and_then(|own| own.as_ref().err());
        let answer = own.and_then(|own| own.as_ref().ok());
        let role = match (answer, self.cluster.role(number)) {
            (Some(answer), _) => answer.role.to_owned(),
            (None, role) if self.cluster.changes_role(number) => format!("initially {role}"),
            (None, role) => role.to_owned(),
        };
        let is_left =
            self.needed_by().get(&number).is_some_and(|process| readable(process, Duration::ZERO).unwrap_or(false));
        let kept = self.kept().get(&number).cloned().unwrap_or_default();
        let seen = self.cluster.server_state(number)?;
        let hangs = seen.as_ref().is_some_and(|seen| seen.hangs);
        let (ended, process, clock) = seen.map_or((None, None, None), |seen| (seen.ended, seen.pid, seen.clock));
        let ended = ended.map(|(_, error)| error.to_string());
        let starts = self.cluster.starting().contains_key(&number);
        let state = match (&kept, &ended) {
            (_, None) if starts => NodeState::Starting,
            (NodeSupervision { by_command: Some(state), .. }, _) => *state,
            (NodeSupervision { given_up: Some(_), .. }, _) => NodeState::Maintenance,
            (_, Some(_)) => NodeState::Restarting,
            _ if not_ready.is_some() => NodeState::NotReady,
            _ if said.is_none() => NodeState::Unknown,
            _ if hangs => NodeState::Hanging,
            _ => NodeState::Running,
        };
        let of_state = match state {
            NodeState::NotReady => not_ready.cloned(),
            NodeState::Unknown => {
                Some(format!("the nodes have not answered within {} s: ask again", ASK_BOUND.as_secs()))
            }
            _ => None,
        };
        let (log, directory) = self.cluster.files(number)?;
        let (processor_s, memory_bytes) = used_by(&directory);
        Ok(NodeStatus {
            number,
            role,
            address: node.address,
            ports: node.ports.clone(),
            namespace: self.cluster.namespace(number)?,
            log,
            directory: directory.clone(),
            socket_dir: node.socket_dir.clone(),
            process,
            state,
            reason: kept.given_up.or(ended).or(of_state),
            own_state: answer.map(|answer| answer.own_state.clone()).unwrap_or_default(),
            is_left,
            restarts: kept.restart_count,
            processor_s,
            memory_bytes,
            limits: node.limits.clone(),
            throttled_s: LimitUsage::of(&directory).throttled_s,
            link: self.cluster.link(number)?,
            clock,
            program: self.cluster.other_program(number),
        })
    }
}

/// Returns processor time and resident memory of all processes that work below `directory`, with the time of those of
/// their children that have ended (proc_pid_stat(5)).
fn used_by(directory: &Path) -> (f64, u64) {
    let (mut ticks, mut pages) = (0u64, 0u64);
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| Pid::from_raw(name.parse().ok()?));
        if !pid.is_some_and(|pid| works_in(pid, directory)) {
            continue;
        }
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The name before the last bracket may contain any character. Fields 14 to 17 are the times, user and system, of the process
        // and of its ended children; 24 is pages.
        let fields: Vec<&str> = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
        let field = |number: usize| fields.get(number - 3).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        ticks += (14..=17).map(field).sum::<u64>();
        pages += field(24);
    }
    (ticks as f64 / clock_ticks_per_second() as f64, pages * page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_children_that_have_ended_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let script = format!("(touch begun; {busy}); touch done; read _");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script]).current_dir(directory.path()).stdin(std::process::Stdio::piped());
        let mut shell = command.spawn().unwrap();
        while !directory.path().join("done").exists() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let (processor_s, memory_bytes) = used_by(directory.path());
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(processor_s >= 0.05 && memory_bytes > 0, "{processor_s} s, {memory_bytes} bytes");
    }
}
