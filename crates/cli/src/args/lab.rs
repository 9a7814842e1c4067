//! Options of `lab`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Actions of `lab`.
#[derive(Debug, Subcommand)]
pub enum LabAction {
    /// Make a lab: servers of a store, each on a host of its own if the store has a use for hosts.
    Up(LabUp),
    /// Show the labs that stand: hosts, addresses, roles, states.
    Status {
        /// Only this one.
        name: Option<String>,
        /// Print a JSON object for each lab, one per line.
        #[arg(long)]
        json: bool,
    },
    /// Add a node to the cluster.
    Add {
        /// The lab.
        name: Option<String>,
    },
    /// Stop a node permanently and remove it from its cluster.
    #[command(mut_arg("at", |at| at.help("The lab, and the number of exactly one node")))]
    Remove(LabNode),
    /// Print the log of a node's server.
    Logs {
        /// The lab and the node.
        #[command(flatten)]
        of: LabNode,
        /// Number of lines, from the end.
        #[arg(long, short = 'n', value_name = "LINES")]
        lines: Option<usize>,
        /// Follow the log until Ctrl-C.
        #[arg(long, short)]
        follow: bool,
    },
    /// Open a shell on a node's host, or on the host that sends operations.
    Shell {
        /// The lab; without it, a node's number may come first.
        name: Option<String>,
        /// The node's number, or `load`.
        node: Option<String>,
    },
    /// Run a command on a node's host, or on the host that sends operations.
    Exec {
        /// The lab and the node's number, or `load`.
        #[arg(num_args = 0..=2)]
        at: Vec<String>,
        /// The command.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Stop nodes gracefully; they stay stopped.
    Stop(LabNode),
    /// Start nodes that were stopped or killed.
    #[command(mut_arg("at", |at| at.help("The lab, and numbers of nodes; without a number every stopped node")))]
    Start(LabNode),
    /// Stop nodes gracefully and start them again.
    #[command(after_help = "Examples, an upgrade of one node, and of all node by node:\n  \
            plimsoll lab restart nats 2 --with /opt/nats-2.15/nats-server\n  \
            plimsoll lab restart nats --rolling --with /opt/nats-2.15/nats-server")]
    Restart {
        /// The lab and the nodes.
        #[command(flatten)]
        of: LabNode,
        /// Program to start them with from now on: the same store's server in another version.
        #[arg(long, value_name = "PROGRAM")]
        with: Option<PathBuf>,
        /// Restart all nodes one after the other, the primary last, each when the others are one cluster again.
        #[arg(long)]
        rolling: bool,
    },
    /// Tell nodes to read their settings again, if their servers can.
    Reload(LabNode),
    /// Kill nodes, as a crash would; they stay stopped.
    Kill(LabNode),
    /// Pause the processes of nodes.
    Pause(LabNode),
    /// Stop the busiest thread or process that serves a client, on each node; the others continue to serve.
    Hang(LabNode),
    /// Resume nodes that are paused, or of which a thread hangs.
    Resume(LabNode),
    /// Reset the TCP connections to nodes.
    Reset(LabNode),
    /// Make a replica the primary; the others follow it, and the former primary does when it is started, or at once.
    Promote(LabNode),
    /// Delay, drop, damage or limit packets between a node's host and all others; without options, show the links.
    Link {
        /// The lab and the node.
        #[command(flatten)]
        of: LabNode,
        /// Delay in one direction; adds twice this to a round trip.
        #[arg(long, value_name = "TIME")]
        delay: Option<String>,
        /// Largest random deviation from the delay.
        #[arg(long, value_name = "TIME", requires = "delay")]
        jitter: Option<String>,
        /// Share of packets that are lost.
        #[arg(long, value_name = "SHARE")]
        loss: Option<String>,
        /// Share of packets that arrive twice.
        #[arg(long, value_name = "SHARE")]
        duplicate: Option<String>,
        /// Share of packets that arrive without the delay, before earlier ones.
        #[arg(long, value_name = "SHARE", requires = "delay")]
        reorder: Option<String>,
        /// Share of packets of which one bit is flipped.
        #[arg(long, value_name = "SHARE")]
        corrupt: Option<String>,
        /// Further delay of packets that end a TCP connection (FIN).
        #[arg(long, value_name = "TIME")]
        close: Option<String>,
        /// Most bits a second: 50Mbit, 1Gbit.
        #[arg(long, value_name = "BITS")]
        rate: Option<String>,
        /// Make the link plain: remove all its properties.
        #[arg(
            long,
            conflicts_with_all = ["delay", "jitter", "loss", "duplicate", "reorder", "corrupt", "close", "rate"]
        )]
        plain: bool,
    },
    /// Change limits of nodes while they run: processors, memory, reads and writes.
    #[command(after_help = "\
Examples:
  plimsoll lab up redis --set cpus=2 --set memory=4GiB --keep
  plimsoll lab limit redis 1 cpus=0.5 memory=1GiB
  plimsoll lab limit redis 1 cpus=none

Limits: cpus, cpuset, memory, read_bps, write_bps, read_iops, write_iops. The lab must have been made with a value of the
same limit. Without a number the limits are those of all nodes.")]
    Limit {
        /// The lab, numbers of nodes, and limits: cpus=0.5, memory=1GiB; cpus=none removes the limit.
        #[arg(value_name = "NAME] [NODE] [LIMIT=VALUE", num_args = 0..)]
        at: Vec<String>,
    },
    /// Make the wall clock of nodes' programs wrong, or true again.
    #[command(
        after_help = "Examples:\n  plimsoll lab clock etcd 2 by=-5s drift=50ppm\n  plimsoll lab clock etcd true\n  plimsoll lab clock etcd"
    )]
    Clock {
        /// The lab, numbers of nodes, and an offset (by=5s), a drift (drift=500ppm), `true` for the true clock, or nothing to show clocks.
        #[arg(value_name = "NAME] [NODE] [ERROR", num_args = 0..)]
        at: Vec<String>,
    },
    /// Make nodes reachable at ports of this machine's loopback interface, until Ctrl-C.
    Publish {
        /// The lab and the node.
        #[command(flatten)]
        of: LabNode,
        /// Port for the first node; further nodes get the following ports [default: free ports].
        #[arg(long)]
        port: Option<u16>,
    },
    /// End a lab and remove all its files and hosts.
    Down {
        /// The lab.
        name: Option<String>,
        /// All labs.
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
}

/// A lab and some of its nodes.
#[derive(Debug, Args)]
pub struct LabNode {
    /// The lab, and numbers of nodes; without a number all nodes.
    #[arg(value_name = "NAME] [NODE", num_args = 0..)]
    pub at: Vec<String>,
}

/// Options of `lab up`.
#[derive(Debug, Args)]
pub struct LabUp {
    /// The store: galera, mariadb-replicas, postgres-replicas, redis-cluster, redis-sentinel, or any other that can be
    /// started here (see `plimsoll list stores`); or a plan (FILE.toml), for the plan's store.
    #[arg(value_name = "STORE")]
    pub store: String,
    /// Number of nodes, as nodes=N in --set.
    #[arg(long, value_name = "N")]
    pub nodes: Option<u32>,
    /// A parameter of the store (`buffer_pool=1GiB`).
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Name of the lab [default: name of the store].
    #[arg(long)]
    pub name: Option<String>,
    /// Keep the lab after the command has ended, until `lab down`.
    #[arg(long)]
    pub keep: bool,
    /// Condition for starting a node again that has ended by itself: never, on-failure, always.
    #[arg(long, value_name = "WHEN", default_value = "on-failure")]
    pub restart: String,
    /// Directory for the servers' data [default: /var/tmp].
    #[arg(long, value_name = "DIRECTORY")]
    pub dir: Option<PathBuf>,
    /// Marks the process that holds the lab.
    #[arg(long, hide = true)]
    pub held: bool,
}
