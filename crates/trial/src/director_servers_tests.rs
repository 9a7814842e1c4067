//! Servers that write down what is done to them.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plimsoll_core::{
    ClockChange, Launch, LimitChange, Limits, Link, Node, NodeChoice, NodeSite, Nodes, ProgramChange, Servers, Span,
    StoreError, StoreErrorKind,
};

use super::{ServersInUse, SimulatedTimer, Timer};

/// Time that planned work takes.
pub(super) const WORK_TIME: Duration = Duration::from_millis(700);

/// Servers that write down what is done to them, on simulated time. Starting takes 30 ms unless told otherwise.
#[derive(Default)]
pub(super) struct Noted {
    /// Calls, with the times at which they began.
    pub(super) calls: Mutex<Vec<(String, u64)>>,
    pub(super) timer: Arc<SimulatedTimer>,
    /// Fails when a server is paused.
    pub(super) is_stubborn: bool,
    /// Call that fails.
    pub(super) fails: Option<&'static str>,
    /// Longer time that starting takes.
    pub(super) starts_in: Duration,
    /// Call that planned work waits for before it goes on for its time, and notes its end.
    pub(super) work_outlasts: Option<&'static str>,
    /// Kind of the error with which planned work ends.
    pub(super) work_fails: Option<StoreErrorKind>,
    /// Port of all nodes, and the directory of their data, for faults from outside.
    pub(super) port: Option<u16>,
    pub(super) data_dir: PathBuf,
    /// Nodes begin with links and limits that differ.
    pub(super) differ: bool,
    /// A fourth node has joined meanwhile.
    pub(super) has_joined: bool,
    /// No server runs when it is looked for.
    pub(super) has_died: bool,
    /// Faults cannot be recorded.
    pub(super) is_unrecorded: bool,
    /// A replaced node does not come up.
    pub(super) loses_replaced: bool,
    /// Longer time that replacing a node takes, and the node that is away meanwhile.
    pub(super) replaced_in: Duration,
    pub(super) away: Mutex<Option<usize>>,
    /// Number of the primary that the last promotion killed, until it is started.
    pub(super) killed: Mutex<Option<usize>>,
    /// Number of the node that was promoted last.
    pub(super) promoted: Mutex<Option<usize>>,
    /// Times in ms in which no node is the primary.
    pub(super) without_primary_ms: std::ops::Range<u64>,
    /// Time that recording a fault takes.
    pub(super) recorded_in: Duration,
    /// Set if the user has stopped the run.
    pub(super) user_stop: Arc<AtomicBool>,
    /// Servers are those of a lab.
    pub(super) is_lab: bool,
    /// Servers of clients, if the store is attached and these are not used.
    pub(super) attached: Option<Arc<ServersInUse>>,
}

impl Noted {
    fn note(&self, what: &str, nodes: Nodes) -> Result<Span, StoreError> {
        let (from, begun_ns) = (Instant::now(), self.timer.now_ns());
        let node = match nodes {
            Nodes::All => "all".to_owned(),
            Nodes::One(number) => (number + 1).to_string(),
            Nodes::Several(all) => all.to_string(),
        };
        if what == "start" {
            self.timer.sleep(self.starts_in.max(Duration::from_millis(30)));
        }
        let call = format!("{what} {node}");
        self.calls.lock().unwrap().push((call.clone(), begun_ns));
        if self.fails == Some(call.as_str()) {
            return Err(StoreError::broken(format!("node {node} refuses")).next("read its log, /tmp/log"));
        }
        Ok(Span { from, until: Instant::now() })
    }

    /// Returns nodes with a host each, or with a port of this machine.
    fn some_nodes(&self, count: usize) -> Vec<Arc<Node>> {
        let host = |number: usize| Ipv4Addr::new(10, 77, 0, number as u8 + 1);
        let node = |number| Node {
            number,
            data_dir: self.data_dir.clone(),
            socket_dir: PathBuf::new(),
            log_dir: None,
            address: self.port.map_or_else(|| host(number), |_| Ipv4Addr::LOCALHOST),
            ports: self.port.into_iter().collect(),
            secret: String::new(),
            limits: Limits { cpus: Some(2.0), ..Limits::default() },
        };
        (0..count).map(node).map(Arc::new).collect()
    }
}

impl Noted {
    /// Returns a value for each of `nodes`, as it was before a change.
    fn before<V>(&self, nodes: Nodes, value: impl Fn(usize) -> V) -> Vec<(usize, V)> {
        let meant = self.nodes().into_iter().map(|node| node.number);
        let meant = meant.filter(|number| nodes.has(*number));
        meant.map(|number| (number, value(if self.differ { number } else { 0 }))).collect()
    }
}

impl Servers for Noted {
    fn nodes(&self) -> Vec<Arc<Node>> {
        self.some_nodes(3)
    }

    fn present(&self) -> Result<Vec<Arc<Node>>, StoreError> {
        let away = *self.away.lock().unwrap();
        let mut nodes = self.some_nodes(if self.has_joined { 4 } else { 3 });
        nodes.retain(|node| Some(node.number) != away);
        Ok(nodes)
    }

    fn sites(&self) -> Vec<NodeSite> {
        Vec::new()
    }

    fn check(&self, nodes: Nodes) -> Result<(), StoreError> {
        if self.killed.lock().unwrap().is_some_and(|number| nodes.has(number)) {
            return Err(StoreError::new(StoreErrorKind::Unreachable, "the server is stopped"));
        }
        if self.has_died { Err(StoreError::broken("it was ended by signal 9")) } else { Ok(()) }
    }

    fn kill(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.note("kill", nodes)
    }

    fn stop(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.note("stop", nodes)
    }

    fn start(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.killed.lock().unwrap().take_if(|number| nodes.has(*number));
        self.note("start", nodes)
    }

    fn restart_with(&self, nodes: Nodes, program: &Path) -> Result<Vec<ProgramChange>, StoreError> {
        self.note(&format!("with {}", program.display()), nodes)?;
        let [from, to] = ["1.0", "2.0"].map(str::to_owned);
        let change = |(node, former)| ProgramChange { node, former, from: from.clone(), to: to.clone() };
        Ok(self.before(nodes, |_| PathBuf::from("/old")).into_iter().map(change).collect())
    }

    fn pause(&self, nodes: Nodes) -> Result<Span, StoreError> {
        if self.is_stubborn { Err(StoreError::broken("it keeps running")) } else { self.note("pause", nodes) }
    }

    fn hang(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.note("hang", nodes)
    }

    fn reset(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.note("reset", nodes)
    }

    fn reload(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.note("reload", nodes)
    }

    fn add(&self) -> Result<usize, StoreError> {
        self.note("add", Nodes::One(3)).map(|_| 3)
    }

    fn remove(&self, number: usize) -> Result<(), StoreError> {
        self.note("remove", Nodes::One(number)).map(drop)
    }

    fn replace(&self, number: usize) -> Result<(), StoreError> {
        *self.away.lock().unwrap() = Some(number);
        self.timer.sleep(self.replaced_in);
        self.note("replace", Nodes::One(number))?;
        if self.loses_replaced {
            return Err(StoreError::broken("it accepts no connections").next("read its log, /tmp/log"));
        }
        *self.away.lock().unwrap() = None;
        Ok(())
    }

    fn resume(&self, nodes: Nodes) -> Result<Span, StoreError> {
        self.note("resume", nodes)
    }

    fn has_primary(&self) -> bool {
        true
    }

    fn outlive(&self) -> bool {
        self.is_lab
    }

    fn chosen(&self, choice: NodeChoice) -> Result<Nodes, StoreError> {
        let has_no_primary = self.without_primary_ms.contains(&(self.timer.now_ns() / 1_000_000));
        Ok(match choice {
            NodeChoice::Primary if has_no_primary => {
                return Err(StoreError::new(StoreErrorKind::Unreachable, "no node leads just now"));
            }
            NodeChoice::All => Nodes::All,
            NodeChoice::Primary => Nodes::One(self.promoted.lock().unwrap().unwrap_or(1)),
            NodeChoice::Replica => Nodes::One(0),
            NodeChoice::Number(number) => Nodes::One(number as usize - 1),
            NodeChoice::Numbers(_) | NodeChoice::Minority | NodeChoice::Majority => return self.several(choice),
        })
    }

    fn promote(&self, number: usize) -> Result<Span, StoreError> {
        let former = self.promoted.lock().unwrap().replace(number);
        *self.killed.lock().unwrap() = Some(former.unwrap_or(1));
        self.note("promote", Nodes::One(number))
    }

    fn set_link(&self, nodes: Nodes, link: Link) -> Result<Vec<(usize, Link)>, StoreError> {
        if self.away.lock().unwrap().is_some_and(|away| nodes == Nodes::One(away)) {
            return Err(StoreError::usage("there is no such node"));
        }
        let what = if link == Link::CUT { "cut".to_owned() } else { format!("link {:?}", link.delay) };
        self.note(what.trim_end_matches(" 0ns"), nodes)?;
        let slow = |number| Link { delay: Duration::from_millis(number as u64), ..Link::default() };
        Ok(self.before(nodes, slow))
    }

    fn change_limit(&self, nodes: Nodes, change: &LimitChange) -> Result<Vec<(usize, LimitChange)>, StoreError> {
        self.note(&format!("limit {change:?}"), nodes)?;
        Ok(self.before(nodes, |number| LimitChange::Cpus(Some(number as f64 + 2.0))))
    }

    fn set_clock(
        &self,
        nodes: Nodes,
        change: Option<ClockChange>,
    ) -> Result<Vec<(usize, Option<ClockChange>)>, StoreError> {
        self.note(&change.map_or("clock".to_owned(), |change| format!("clock {change}")), nodes)?;
        Ok(self.before(nodes, |number| (number > 0).then_some(ClockChange { by_ns: 0, drift_ppm: number as i64 })))
    }

    fn work(&self, nodes: Nodes, name: &str) -> Result<(), StoreError> {
        self.note(&format!("work {name}"), nodes)?;
        let is_noted = |call: &str| self.calls.lock().unwrap().iter().any(|(one, _)| one == call);
        let until_ns = self.timer.now_ns() + 30_000_000_000;
        while self.work_outlasts.is_some_and(|call| !is_noted(call)) && self.timer.now_ns() < until_ns {
            self.timer.sleep(Duration::from_millis(1));
        }
        self.timer.sleep(WORK_TIME);
        if self.work_outlasts.is_some() {
            self.note(&format!("end {name}"), nodes)?;
        }
        self.work_fails.map_or(Ok(()), |kind| Err(StoreError::new(kind, "the connection is lost")))
    }

    fn run(&self, _: usize, _: &Launch, _: Duration) -> Result<(), StoreError> {
        Ok(())
    }
}
