//! Resource use of the server's processes, all descendants included.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_core::{Reading, SampleValue, Sampler, Unavailable};
use plimsoll_trace::with_descendants;

use crate::proc_file::ProcFile;
use crate::run_queue::RunQueue;
use crate::tree::{TreeIo, TreeProcess, Usage};

/// Members are looked for again after so many readings, whatever the signs say.
const LOOK_AGAIN: u32 = 16;

/// Processes of the server. Shared: the owner of a server sets it, the sampler reads it.
#[derive(Debug, Clone, Default)]
pub struct ServerProcesses {
    roots: Arc<Mutex<Roots>>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Roots {
    pub(crate) pids: Vec<u32>,
    /// Grows with each change, so that the same pids set again are another server.
    pub(crate) change: u64,
}

impl ServerProcesses {
    /// Names the processes at the root of the server; none for embedded stores.
    pub fn set(&self, pids: Vec<u32>) {
        let mut roots = self.roots.lock().unwrap_or_else(PoisonError::into_inner);
        roots.pids = pids;
        roots.change += 1;
    }

    pub(crate) fn now(&self) -> Roots {
        self.roots.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Sums over all members.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    user_ticks: u64,
    system_ticks: u64,
    processes: u64,
    threads: u64,
    own_pages: u64,
    shared_pages_max: u64,
    /// Sum of the I/O; `None` when one process may not be read.
    io: Option<TreeIo>,
}

impl Sum {
    fn add(&mut self, usage: &Usage) {
        self.user_ticks = self.user_ticks.saturating_add(usage.stat.user_ticks);
        self.system_ticks = self.system_ticks.saturating_add(usage.stat.system_ticks);
        if !usage.stat.ended {
            self.processes += 1;
            self.threads += usage.stat.threads;
        }
        self.own_pages += usage.resident_pages.saturating_sub(usage.shared_pages);
        self.shared_pages_max = self.shared_pages_max.max(usage.shared_pages);
        self.io = self.io.zip(usage.io).map(|(sum, one)| sum.and(one));
    }
}

pub(crate) struct ServerSampler {
    processes: ServerProcesses,
    load: ProcFile,
    roots: Roots,
    members: Vec<TreeProcess>,
    /// The number of the newest process or thread of the host when the members were looked for.
    newest: Option<String>,
    readings: u32,
    run_queue: RunQueue,
    /// Members that live, with their numbers of threads.
    alive: Vec<(u32, u64)>,
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
        let (roots, members) = (Roots::default(), Vec::new());
        Ok(Self {
            processes,
            load,
            roots,
            members,
            newest: None,
            readings: 0,
            run_queue: RunQueue::default(),
            alive: Vec::new(),
        })
    }

    /// Looks for the members again if some may have started or ended.
    fn find_members(&mut self, look: bool) {
        // The last field is the number that was given out last: while it is unchanged no process was created.
        let newest = self.load.read().ok().and_then(|text| text.split_ascii_whitespace().last().map(str::to_owned));
        self.readings += 1;
        if !look && newest.is_some() && newest == self.newest && !self.readings.is_multiple_of(LOOK_AGAIN) {
            return;
        }
        let now = with_descendants(&self.roots.pids);
        self.members.retain(|member| now.contains(&member.pid));
        let known: BTreeSet<u32> = self.members.iter().map(|member| member.pid).collect();
        self.members.extend(now.difference(&known).filter_map(|&pid| TreeProcess::open(pid).ok()));
        self.newest = newest;
    }

    fn look(&mut self) -> Sum {
        let mut sum = Sum { io: Some(TreeIo::default()), ..Sum::default() };
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
        if self.members.len() < before {
            // Its number may have been given to another already.
            self.newest = None;
        }
        sum
    }
}

impl Sampler for ServerSampler {
    fn sample(&mut self) -> Vec<Reading> {
        let roots = self.processes.now();
        let changed = roots.change != self.roots.change;
        if changed {
            self.roots = roots;
            self.members.clear();
            self.run_queue = RunQueue::default();
        }
        if self.roots.pids.is_empty() {
            return Vec::new();
        }
        self.find_members(changed);
        let now = self.look();
        if now.processes == 0 {
            return Vec::new();
        }
        let level = |name, unit, value| Some(Reading::level("", name, unit, value));
        let total =
            |name, unit, value: f64| Some(Reading::new("", name, unit, SampleValue::Total(value, self.roots.change)));
        let seconds = |ticks: u64| ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
        // Pages that several share are counted once, as many as the one with most of them has.
        let memory = (now.own_pages + now.shared_pages_max) as f64 * rustix::param::page_size() as f64;
        let all = [
            total("user", "s", seconds(now.user_ticks)),
            total("system", "s", seconds(now.system_ticks)),
            level("memory", "B", memory),
            level("processes", "tasks", now.processes as f64),
            level("threads", "tasks", now.threads as f64),
            now.io.and_then(|io| total("read", "B", io.read_bytes as f64)),
            now.io.and_then(|io| total("written", "B", io.write_bytes as f64)),
            self.run_queue.waited_s(&self.alive).and_then(|waited_s| total("run_queue_delay", "s", waited_s)),
        ];
        all.into_iter().flatten().collect()
    }
}
