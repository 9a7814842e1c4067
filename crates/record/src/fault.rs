//! Faults of a driven phase, as they are recorded.

use plimsoll_core::link::bits;
use plimsoll_core::{Link, LinkPeers, LinkWays, NodeSet, Nodes, quoted};
use serde::{Deserialize, Serialize};

plimsoll_core::words! {
    /// Kind of a fault.
    pub enum FaultKind {
        /// Kill of a server, which starts again.
        Kill = "kill",
        /// Stop of a server as its manual describes, and its start.
        Stop = "stop",
        /// Pause of a server's processes.
        Pause = "pause",
        /// Hang of one thread or process of a server, while the rest goes on.
        Hang = "hang",
        /// Stop and start of a server in one action.
        Restart = "restart",
        /// Promotion of a replica to the primary.
        Promote = "promote",
        /// Reset of the TCP connections to a server.
        Reset = "reset",
        /// Loss of the traffic of a node: all of it, in one direction, or with some hosts.
        Cut = "cut",
        /// Slow or lossy link of a node.
        Link = "link",
        /// Change of the resources that a node may use.
        Limit = "limit",
        /// Wrong wall clock of a node's servers.
        Clock = "clock",
        /// Fault of the store's disk.
        Disk = "disk",
        /// Addition of a node to its cluster.
        Join = "join",
        /// Removal of a node from its cluster.
        Removal = "removal",
        /// Replacement of a node by an empty one, which joins.
        Replacement = "replacement",
        /// Planned work on a server: a backup, a vacuum.
        Work = "work",
        /// Connections to servers, on which nothing is sent.
        Storm = "storm",
        /// Use of a node's processors, disk or link beside its server.
        Neighbour = "neighbour",
        /// Command of a user.
        Command = "command",
    }
}

/// Parts of a fault that are recorded beside its times.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FaultDetail {
    /// Fault without its times: `kill primary`.
    pub name: String,
    /// Link of a slow or lossy link, or of a cut. Some recordings of earlier versions have its direction, hosts and rate
    /// alone: other properties are those of a cut, or of the default link.
    pub link: Option<Link>,
    /// Fault of the disk: `eio write once`.
    pub disk: Option<String>,
    /// Operation of planned work, `vacuum`, or resource of a noisy neighbour, `cpu=2`.
    pub object: Option<String>,
    /// Affected nodes; `None` for a store of one server, for a fault of all disks and for a command.
    pub nodes: Option<Nodes>,
    /// The fault is a repeat that was skipped because no node had its role. It had no effect.
    pub is_skipped: bool,
}

impl FaultDetail {
    /// Returns the parts that recordings of earlier versions have in the words of a fault as planned, and of its subject.
    pub fn of_words(kind: FaultKind, fault: &str, subject: &str) -> Self {
        let name = quoted::before(fault, &[" at ", " when "]);
        let disk = name.strip_prefix("disk ").filter(|_| kind == FaultKind::Disk);
        let link = match kind {
            FaultKind::Cut => Some(link_of_words(name, Link::CUT)),
            FaultKind::Link => Some(link_of_words(name, Link::default())),
            _ => None,
        };
        let object = match kind {
            FaultKind::Work => name.split_whitespace().nth(1),
            FaultKind::Neighbour => name.split_whitespace().next_back(),
            _ => None,
        };
        let (disk, object) = (disk.map(str::to_owned), object.map(str::to_owned));
        Self { name: name.to_owned(), link, disk, object, nodes: nodes_of_words(subject), is_skipped: false }
    }

    /// Returns the parts of a fault as they are recorded, with those that earlier versions had in its words alone.
    pub(crate) fn completed(recorded: Option<Self>, kind: FaultKind, fault: &str, subject: &str) -> Self {
        let of_words = Self::of_words(kind, fault, subject);
        match recorded {
            Some(recorded) => {
                let (object, nodes) = (recorded.object.or(of_words.object), recorded.nodes.or(of_words.nodes));
                Self { object, nodes, ..recorded }
            }
            None => of_words,
        }
    }
}

/// Returns `link` with the direction, the other end and the rate in the name of a fault:
/// `cut node 2 in from client host 1`, `link node 2 rate=50Mbit`.
fn link_of_words(name: &str, link: Link) -> Link {
    let words: Vec<&str> = name.split_whitespace().collect();
    let joint = words.iter().position(|word| matches!(*word, "from" | "to")).unwrap_or(words.len());
    let (before, other_end) = words.split_at(joint);
    let ways = match before.last() {
        Some(&"in") => LinkWays::In,
        Some(&"out") => LinkWays::Out,
        _ => LinkWays::Both,
    };
    let number = |word: &str| word.parse::<usize>().ok()?.checked_sub(1);
    // Properties of the link may follow.
    let peers = match other_end {
        [_, "clients", ..] => LinkPeers::Clients,
        [_, "client", "host", word, ..] => number(word).map_or(LinkPeers::All, LinkPeers::ClientHost),
        [_, "node", word, ..] => number(word).map_or(LinkPeers::All, LinkPeers::Node),
        _ => LinkPeers::All,
    };
    let rate_bits_per_s = words.iter().find_map(|word| bits(word.strip_prefix("rate=")?));
    Link { ways, peers, rate_bits_per_s, ..link }
}

/// Returns the nodes that a subject names: `node 2, a replica`, `nodes 1, 2 and 3`, `all nodes`.
fn nodes_of_words(subject: &str) -> Option<Nodes> {
    let mut words = subject.split([' ', ',']).filter(|word| !word.is_empty());
    let kind = words.next()?;
    let mut numbers =
        words.map_while(|word| if word == "and" { Some(None) } else { word.parse::<usize>().ok().map(Some) });
    match kind {
        "all" => Some(Nodes::All),
        "node" => numbers.next()??.checked_sub(1).map(Nodes::One),
        "nodes" => {
            let numbers: Option<Vec<usize>> = numbers.flatten().map(|number| number.checked_sub(1)).collect();
            NodeSet::of(&numbers?).map(Nodes::Several)
        }
        _ => None,
    }
}

/// Returns the error of a fault as it is recorded, and true if its beginning tells a skipped repeat, as in recordings of
/// earlier versions: `skipped: no node was primary`.
pub(crate) fn skipped_of_words(error: Option<String>) -> (Option<String>, bool) {
    let why = error.as_deref().and_then(|error| error.strip_prefix("skipped: ")).map(str::to_owned);
    let is_skipped = why.is_some();
    (why.or(error), is_skipped)
}

/// A fault during a driven phase. Times are nanoseconds since the run's start.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultSpan {
    /// Position of the trial.
    pub trial: u32,
    /// Position of the phase in the trial.
    pub phase: u32,
    /// Position among the faults of the trial, by the time they began.
    pub ordinal: u32,
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Affected part: `node 1, the primary`, `node 2`, `all nodes`, `the server`, `the disk`. A restart with
    /// another program has both versions: `node 2, from 2.9.10 to 2.15.1`. Of a command of a user it is the beginning of
    /// that, in quotes.
    pub subject: String,
    /// Fault as planned: `kill primary at 40%`.
    pub fault: String,
    /// Parts of the fault as planned.
    pub detail: FaultDetail,
    /// Planned time of the fault.
    pub planned_ns: u64,
    /// Time before the first step of the fault.
    pub begun_ns: u64,
    /// Time at which the fault had taken effect; `None` if it has not, or not yet.
    pub taken_ns: Option<u64>,
    /// Beginning of the healing; `None` if it has not begun, and for a fault that ends by itself.
    pub healing_ns: Option<u64>,
    /// End of the healing, or of a fault that ends by itself; `None` if it has not ended. After a kill and a stop, the
    /// server accepts sessions again.
    pub healed_ns: Option<u64>,
    /// First error of the fault or its healing; of a skipped repeat the reason, `no node was primary`.
    pub error: Option<String>,
}

impl FaultSpan {
    /// Returns the words of the fault without its times, and its subject after `between`: `kill primary, node 1`. Of a
    /// command, which may be long, the beginning alone: `run "systemctl stop db"`.
    pub fn with_subject(&self, between: &str) -> String {
        match self.kind {
            FaultKind::Command => format!("run {}", self.subject),
            _ => format!("{}{between}{}", self.detail.name, self.subject),
        }
    }

    /// Returns the first fault of a run, which began when it was planned and has not taken effect. The words name all of
    /// its parts.
    pub fn begun(kind: FaultKind, fault: &str, subject: &str, begun_ns: u64) -> Self {
        Self {
            trial: 0,
            phase: 0,
            ordinal: 0,
            kind,
            subject: subject.to_owned(),
            fault: fault.to_owned(),
            detail: FaultDetail::of_words(kind, fault, subject),
            planned_ns: begun_ns,
            begun_ns,
            taken_ns: None,
            healing_ns: None,
            healed_ns: None,
            error: None,
        }
    }
}
