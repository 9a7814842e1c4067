//! Resource use of the server's processes, all descendants included: of all nodes together, and of each.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_core::{NodeSite, Reading, SampleValue, Sampler, Unavailable};
use plimsoll_trace::{TraceError, with_descendants};

use crate::proc_file::ProcFile;
use crate::threads::Threads;
use crate::tree::{TreeIo, TreeProcess, Usage};

/// Members are looked for again after so many readings, whatever the signs say.
const LOOK_AGAIN: u32 = 16;

/// Places of the servers' processes. Shared: the owner of the servers sets them, samplers read them.
#[derive(Debug, Clone, Default)]
pub struct ServerProcesses {
    sites: Arc<Mutex<Sites>>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Sites {
    pub(crate) all: Vec<NodeSite>,
    /// Grows with each change, so that the same sites set again are another server.
    pub(crate) change: u64,
}

impl ServerProcesses {
    /// Sets the places of the servers that run; none for embedded stores.
    pub fn set(&self, sites: Vec<NodeSite>) {
        let mut now = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        now.all = sites;
        now.change += 1;
    }

    /// Returns the sites, unless they are those of this `change`.
    pub(crate) fn since(&self, change: u64) -> Option<Sites> {
        let now = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        (now.change != change).then(|| now.clone())
    }
}

/// Trace of the servers' processes, which begins anew with each change of them.
pub(crate) struct ServerTrace<T> {
    processes: ServerProcesses,
    pids: Vec<u32>,
    /// Change that the processes are of.
    pub(crate) change: u64,
    tracer: Option<T>,
}

impl<T> ServerTrace<T> {
    pub(crate) fn of(processes: ServerProcesses) -> Self {
        Self { processes, pids: Vec::new(), change: 0, tracer: None }
    }

    /// Returns the tracer, which `start` begins; `None` without a server, or if that fails.
    pub(crate) fn now(&mut self, start: impl FnOnce(&[u32]) -> Result<T, TraceError>) -> Option<&mut T> {
        if let Some(sites) = self.processes.since(self.change) {
            self.change = sites.change;
            self.pids = sites.all.iter().map(|site| site.pid).collect();
            self.tracer = None;
        }
        if self.tracer.is_none() && !self.pids.is_empty() {
            // A server that is being started or stopped is looked for again at the next slice.
            self.tracer = start(&self.pids).ok();
        }
        self.tracer.as_mut()
    }
}

/// Returns a node's name as the subject of series.
pub(crate) fn node_name(site: &NodeSite) -> String {
    format!("node {}", site.node + 1)
}

/// Sums over all members.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    user_ticks: u64,
    system_ticks: u64,
    processes: u64,
    threads: u64,
    /// Processes that are stopped.
    stopped: u64,
    own_pages: u64,
    shared_pages_max: u64,
    /// Sum of the I/O; `None` when one process may not be read.
    io: Option<TreeIo>,
    /// Time that threads waited for a processor, in seconds; `None` if it is not known.
    waited_s: Option<f64>,
}

impl Sum {
    /// Returns the sums of no members, of which all is known.
    fn of_none() -> Self {
        Self { io: Some(TreeIo::default()), waited_s: Some(0.0), ..Self::default() }
    }

    fn add(&mut self, usage: &Usage) {
        self.user_ticks = self.user_ticks.saturating_add(usage.stat.user_ticks);
        self.system_ticks = self.system_ticks.saturating_add(usage.stat.system_ticks);
        if !usage.stat.ended {
            self.processes += 1;
            self.threads += usage.stat.threads;
            self.stopped += u64::from(usage.stat.stopped);
        }
        self.own_pages += usage.resident_pages.saturating_sub(usage.shared_pages);
        self.shared_pages_max = self.shared_pages_max.max(usage.shared_pages);
        self.io = self.io.zip(usage.io).map(|(sum, one)| sum.and(one));
    }

    /// Returns the sum of two nodes.
    fn and(self, other: &Sum) -> Sum {
        Sum {
            user_ticks: self.user_ticks.saturating_add(other.user_ticks),
            system_ticks: self.system_ticks.saturating_add(other.system_ticks),
            processes: self.processes + other.processes,
            threads: self.threads + other.threads,
            stopped: self.stopped + other.stopped,
            own_pages: self.own_pages + other.own_pages,
            shared_pages_max: self.shared_pages_max.max(other.shared_pages_max),
            io: self.io.zip(other.io).map(|(sum, one)| sum.and(one)),
            waited_s: self.waited_s.zip(other.waited_s).map(|(sum, one)| sum + one),
        }
    }

    /// Returns what remains of a node that has ended: its counters, so that sums over all nodes do not fall.
    fn ended(self) -> Sum {
        Sum { processes: 0, threads: 0, stopped: 0, own_pages: 0, shared_pages_max: 0, ..self }
    }

    /// Returns the readings of `subject`, whose counters began with the change `since`.
    fn readings(&self, subject: &str, since: u64) -> impl Iterator<Item = Reading> + use<> {
        let level = |name, unit, value| Some(Reading::level(subject, name, unit, value));
        let total = |name, unit, value: f64| Some(Reading::new(subject, name, unit, SampleValue::Total(value, since)));
        let seconds = |ticks: u64| ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
        // Pages that several share are counted once, as many as the one with most of them has.
        let memory = (self.own_pages + self.shared_pages_max) as f64 * rustix::param::page_size() as f64;
        let all = [
            total("user", "s", seconds(self.user_ticks)),
            total("system", "s", seconds(self.system_ticks)),
            level("memory", "B", memory),
            level("processes", "tasks", self.processes as f64),
            level("threads", "tasks", self.threads as f64),
            level("stopped", "tasks", self.stopped as f64),
            self.io.and_then(|io| total("read", "B", io.read_bytes as f64)),
            self.io.and_then(|io| total("written", "B", io.write_bytes as f64)),
            self.waited_s.and_then(|waited_s| total("run_queue_delay", "s", waited_s)),
        ];
        all.into_iter().flatten()
    }
}

/// Processes of a node.
struct NodeTree {
    site: NodeSite,
    /// Change that brought its server.
    since: u64,
    members: Vec<TreeProcess>,
    threads: Threads,
    /// Members that live, with their numbers of threads.
    alive: Vec<(u32, u64)>,
    last: Sum,
}

impl NodeTree {
    fn new(site: NodeSite, since: u64) -> Self {
        let (members, threads) = (Vec::new(), Threads::default());
        Self { site, since, members, threads, alive: Vec::new(), last: Sum::of_none() }
    }

    fn find_members(&mut self) {
        let now = with_descendants(&[self.site.pid]);
        self.members.retain(|member| now.contains(&member.pid));
        let known: BTreeSet<u32> = self.members.iter().map(|member| member.pid).collect();
        self.members.extend(now.difference(&known).filter_map(|&pid| TreeProcess::open(pid).ok()));
    }

    /// Reads all members. Returns false if one has ended since they were looked for.
    fn look(&mut self) -> bool {
        let mut sum = Sum::of_none();
        let before = self.members.len();
        self.alive.clear();
        self.members.retain_mut(|member| {
            member.look().is_some_and(|usage| {
                sum.add(&usage);
                if !usage.stat.ended {
                    self.alive.push((member.pid, usage.stat.threads));
                }
                true
            })
        });
        self.last = if self.alive.is_empty() {
            self.last.ended()
        } else {
            Sum { waited_s: self.threads.waited_s(&self.alive), ..sum }
        };
        self.members.len() == before
    }
}

pub(crate) struct ServerSampler {
    processes: ServerProcesses,
    load: ProcFile,
    nodes: Vec<NodeTree>,
    /// Change that the nodes are of.
    change: u64,
    /// The number of the newest process or thread of the host when the members were looked for.
    newest: Option<String>,
    readings: u32,
}

impl ServerSampler {
    pub(crate) fn open(processes: ServerProcesses) -> Result<Self, Unavailable> {
        let children = format!("/proc/self/task/{}/children", std::process::id());
        if !std::path::Path::new(&children).exists() {
            return Err(Unavailable(
                "this kernel does not list a process's children: it needs CONFIG_PROC_CHILDREN".into(),
            ));
        }
        let load = ProcFile::open("/proc/loadavg")?;
        Ok(Self { processes, load, nodes: Vec::new(), change: 0, newest: None, readings: 0 })
    }

    /// Takes the present sites. A node whose process is the one before goes on.
    fn take_sites(&mut self) {
        let Some(sites) = self.processes.since(self.change) else { return };
        self.change = sites.change;
        self.newest = None;
        let mut before = std::mem::take(&mut self.nodes);
        for site in sites.all {
            let known = before.iter().position(|tree| (tree.site.node, tree.site.pid) == (site.node, site.pid));
            self.nodes.push(known.map_or_else(|| NodeTree::new(site, sites.change), |at| before.swap_remove(at)));
        }
    }

    /// Looks for the members again if some may have started or ended.
    fn find_members(&mut self) {
        // The last field is the number that was given out last: while it is unchanged no process was created.
        let newest = self.load.read().ok().and_then(|text| text.split_ascii_whitespace().last().map(str::to_owned));
        self.readings += 1;
        if newest.is_some() && newest == self.newest && !self.readings.is_multiple_of(LOOK_AGAIN) {
            return;
        }
        self.nodes.iter_mut().for_each(NodeTree::find_members);
        self.newest = newest;
    }
}

impl Sampler for ServerSampler {
    fn sample(&mut self) -> Vec<Reading> {
        self.take_sites();
        if self.nodes.is_empty() {
            return Vec::new();
        }
        self.find_members();
        for node in &mut self.nodes {
            if !node.look() {
                // Its number may have been given to another already.
                self.newest = None;
            }
        }
        let all = self.nodes.iter().fold(Sum::of_none(), |sum, node| sum.and(&node.last));
        if all.processes == 0 {
            return Vec::new();
        }
        let mut readings: Vec<Reading> = all.readings("", self.change).collect();
        // The only node that runs may be one of a cluster.
        let is_alone = self.nodes.iter().all(|node| node.site.node == 0);
        for node in self.nodes.iter_mut().filter(|node| node.last.processes > 0) {
            let name = node_name(&node.site);
            if !is_alone {
                readings.extend(node.last.readings(&name, node.since));
            }
            for (thread, share) in node.threads.busiest() {
                let subject = if is_alone { thread } else { format!("{name} {thread}") };
                readings.push(Reading::level(&subject, "busy", "%", share));
            }
        }
        readings
    }
}
