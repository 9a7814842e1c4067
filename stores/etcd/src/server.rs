//! Recipe of private servers: a single one on the loopback interface, or a cluster on hosts of their own.
//!
//! Private servers ask for no password. While one runs on the loopback interface, every user of this machine can reach it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{
    FailoverTime, Launch, Member, Node, Recipe, ServerSpec, StoreError, StoreErrorKind, Waits, no_promotion,
};
use plimsoll_endpoint::equals::{Addresses, ClusterSpec, Login};
use plimsoll_endpoint::usage;
use plimsoll_lab::Program;

use crate::channel;
use crate::control::Control;

pub(crate) const SERVER: Program = Program { name: "etcd", directories: &[], package: "etcd-server" };
const ETCDCTL: Program = Program { name: "etcdctl", directories: &[], package: "etcd-client" };

/// Largest request that a private server takes. etcd's default refuses values of a few MiB.
pub(crate) const REQUEST_BYTES_MAX: u32 = 8 << 20;
/// Interval of checks that a member has caught up.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Advice for members that do not get into the state that is waited for.
const ADVICE: &str = "Read the nodes' logs";
/// Longest time of a switchover.
const SWITCHOVER_BOUND: Duration = Duration::from_secs(60);
/// Longest wait for a reply during a switchover. The leader gives up a transfer after an election time-out, and sends no
/// reply then.
const TRANSFER_BOUND: Duration = Duration::from_secs(3);
/// Planned work during a load: a database file without gaps, and a copy of it.
const DEFRAGMENT: &str = "defragment";
const SNAPSHOT: &str = "snapshot";
/// Ports for clients and for the cluster's other nodes.
const PORTS: [u16; 2] = [2379, 2380];
/// Time-outs of a cluster, in milliseconds: etcd's defaults, written into every command line.
const HEARTBEAT_MS: u32 = 100;
const ELECTION_MS: u32 = 1_000;
/// Fewest members of which the others elect another leader.
const MEMBERS_MIN: usize = 3;

/// Recipe of `nodes` servers in one cluster.
pub(crate) struct EtcdRecipe {
    program: PathBuf,
    nodes: usize,
    quota_bytes: u64,
    unsynced: bool,
}

impl EtcdRecipe {
    /// # Errors
    /// `Missing`, with the command that installs it.
    pub fn new(nodes: usize, quota_bytes: u64, unsynced: bool) -> Result<Self, StoreError> {
        Ok(Self { program: SERVER.find()?, nodes, quota_bytes, unsynced })
    }
}

/// URLs of etcd.
pub(crate) const ETCD: ClusterSpec = ClusterSpec {
    name: "etcd",
    schemes: ["etcd", "etcds"],
    protocols: &["h2"],
    switches: &[],
    port: PORTS[0],
    password: "ETCDCTL_PASSWORD",
    takes_tokens: false,
    form: "Write it as etcd://user@host:2379, with commas between several hosts; \
           with TLS as etcds://user@host:2379?cacert=FILE&cert=FILE&key=FILE",
    check,
    private_login: |_| None,
};

fn check(addresses: &Addresses) -> Result<(), StoreError> {
    if addresses.path.is_some() {
        return Err(usage("the URL has a path, and etcd takes none", ETCD.form));
    }
    match &addresses.login {
        Some(Login { password: None, .. }) => Err(usage(
            "the URL names a user, and there is no password",
            "Give it with --password-file, or in ETCDCTL_PASSWORD.",
        )),
        _ => Ok(()),
    }
}

/// Connects to one node.
fn control(node: &Node, waits: &Waits) -> Result<Control, StoreError> {
    Control::open(&Addresses::of_nodes(&ETCD, [node]), waits)
}

fn name(node: &Node) -> String {
    format!("node{}", node.number)
}

fn url(node: &Node, port: usize) -> String {
    format!("http://{}", node.listens_at(port))
}

/// Returns the time until a cluster with these time-outs has another leader.
///
/// A follower stands for election a random time after the last heartbeat, from one to two election time-outs:
/// `resetRandomizedElectionTimeout` in <https://github.com/etcd-io/etcd/blob/v3.4.23/raft/raft.go>. It counts them by the
/// ticks of its own clock (`tickElection`), one an interval, and the first tick may come at once. At the loss, that
/// heartbeat was sent up to one interval ago. The vote takes a round trip, which has to be shorter than an interval:
/// <https://etcd.io/docs/v3.4/tuning/>.
///
/// The bounds are those of the first election. If two members stand at the same time, neither may win, and each waits
/// for another random time.
fn failover_time(heartbeat_ms: u32, election_ms: u32) -> FailoverTime {
    let [heartbeat_s, election_s] = [heartbeat_ms, election_ms].map(|ms| f64::from(ms) / 1e3);
    let formula = format!(
        "one to two times election-timeout ({election_s} s) after the last heartbeat, which is sent every \
         heartbeat-interval ({heartbeat_s} s) and counted by ticks of one interval, and a vote of at most one interval, \
         if the first election succeeds; each further one adds one to two times election-timeout"
    );
    let range_ms = (election_ms.saturating_sub(2 * heartbeat_ms), 2 * election_ms + heartbeat_ms);
    FailoverTime::new(formula, "https://etcd.io/docs/v3.4/tuning/", range_ms, range_ms)
}

/// Waits until each member has applied the newest revision of all.
pub(crate) fn until_caught_up(nodes: &[Arc<Node>], waits: &Waits) -> Result<(), StoreError> {
    let status = |node: &Arc<Node>| control(node, waits)?.status();
    let most = nodes.iter().map(|node| Ok(status(node)?.revision)).collect::<Result<Vec<_>, StoreError>>()?;
    let most = most.into_iter().max().unwrap_or(0);
    nodes.iter().try_for_each(|node| {
        waits.until(LOOK_INTERVAL, ADVICE, || {
            let revision = status(node)?.revision;
            let what = || format!("node {} is at revision {revision} of {most}", node.number + 1);
            Ok(if revision >= most { Ok(()) } else { Err(what()) })
        })
    })
}

/// Returns true for the error of a transfer that was given up, or during an election: another attempt may succeed.
fn is_of_leader(error: &StoreError) -> bool {
    let of_leader = |words: &str| words.contains("leader");
    error.kind == StoreErrorKind::Unreachable || error.detail.as_deref().is_some_and(of_leader)
}

impl Recipe for EtcdRecipe {
    fn spec(&self) -> ServerSpec {
        let spec = ServerSpec::new("etcd", "etcd", "etcd-server");
        let hosts = if self.nodes > 1 { self.nodes } else { 0 };
        ServerSpec { nodes: self.nodes, hosts, ports: &PORTS, memory_bytes: 30 << 20, ..spec }
    }

    fn role(&self, _: usize) -> &'static str {
        "member"
    }

    fn has_primary(&self) -> bool {
        self.nodes > 1
    }

    fn primary(&self, nodes: &[Arc<Node>], waits: &Waits) -> Result<usize, StoreError> {
        for node in nodes {
            match control(node, waits).and_then(|mut control| control.status()) {
                Ok(status) if status.member == status.leader => return Ok(node.number),
                Err(error) if error.kind != StoreErrorKind::Unreachable => return Err(error),
                // One of the others may lead while this member is away.
                _ => {}
            }
        }
        Err(StoreError::new(StoreErrorKind::Unreachable, "no member of the private etcd leads just now"))
    }

    fn failover_time(&self) -> Option<FailoverTime> {
        (self.nodes >= MEMBERS_MIN).then(|| failover_time(HEARTBEAT_MS, ELECTION_MS))
    }

    fn promotes(&self) -> Result<(), StoreError> {
        if self.nodes > 1 { Ok(()) } else { Err(no_promotion(self.spec().name)) }
    }

    fn switches_over(&self) -> bool {
        true
    }

    fn promote(&self, to: Member<'_>, waits: &Waits) -> Result<(), StoreError> {
        let (number, waits) = (to.number + 1, &waits.with_work(SWITCHOVER_BOUND).with_answer(TRANSFER_BOUND));
        let status = control(&to, waits)?.status()?;
        if status.member == status.leader {
            return Err(StoreError::usage(format!("node {number} is the leader already"))
                .next("name another member: promote replica, plimsoll lab status"));
        }
        let moved = || -> Result<bool, StoreError> {
            let leader = self.primary(to.nodes, waits)?;
            if leader == to.number {
                return Ok(true);
            }
            // The leader replies when the other member leads.
            for node in to.nodes.iter().filter(|node| node.number == leader) {
                control(node, waits)?.call(channel::MOVE_LEADER, |message| {
                    message.number(1, status.member);
                })?;
            }
            Ok(false)
        };
        waits.until(LOOK_INTERVAL, ADVICE, || match moved() {
            Ok(true) => Ok(Ok(())),
            Ok(false) => Ok(Err(format!("node {number} does not lead"))),
            Err(error) if is_of_leader(&error) => Ok(Err(format!("node {number} does not lead: {error}"))),
            Err(error) => Err(error),
        })
    }

    fn until_whole(&self, nodes: &[Arc<Node>], waits: &Waits) -> Result<(), StoreError> {
        until_caught_up(nodes, waits)
    }

    fn works(&self, _: usize) -> &'static [&'static str] {
        &[DEFRAGMENT, SNAPSHOT]
    }

    fn work_must_be_installed(&self, name: &str) -> Result<(), StoreError> {
        if name == SNAPSHOT { ETCDCTL.find().map(drop) } else { Ok(()) }
    }

    fn work(&self, name: &str, node: Member<'_>, waits: &Waits) -> Result<Option<Launch>, StoreError> {
        if name == SNAPSHOT {
            let endpoint = format!("--endpoints={}", url(&node, 0));
            let arguments = [endpoint.as_str(), "snapshot", "save", "snapshot.db"];
            return Ok(Some(Launch::new(ETCDCTL.name, ETCDCTL.find()?, arguments)));
        }
        control(&node, waits)?.long_call(channel::DEFRAGMENT, |_| {}).map(|_| None)
    }

    fn launch(&self, node: Member<'_>) -> Result<Launch, StoreError> {
        let data = node.data_dir.join("etcd").display().to_string();
        let others: Vec<String> = node.nodes.iter().map(|node| format!("{}={}", name(node), url(node, 1))).collect();
        let arguments = [
            ("name", name(&node)),
            ("data-dir", data),
            ("listen-client-urls", url(&node, 0)),
            ("advertise-client-urls", url(&node, 0)),
            ("listen-peer-urls", url(&node, 1)),
            ("initial-advertise-peer-urls", url(&node, 1)),
            ("initial-cluster", others.join(",")),
            ("initial-cluster-state", "new".to_owned()),
            ("heartbeat-interval", HEARTBEAT_MS.to_string()),
            ("election-timeout", ELECTION_MS.to_string()),
            ("max-request-bytes", REQUEST_BYTES_MAX.to_string()),
            ("quota-backend-bytes", self.quota_bytes.to_string()),
            ("logger", "zap".to_owned()),
            ("log-outputs", "stderr".to_owned()),
        ];
        let unsynced = self.unsynced.then(|| ("unsafe-no-fsync", "true".to_owned()));
        let arguments = arguments.into_iter().chain(unsynced).map(|(name, value)| format!("--{name}={value}"));
        Ok(Launch::new(SERVER.name, self.program.clone(), arguments))
    }

    fn version_marks(&self, _: usize) -> Result<&'static [&'static str], StoreError> {
        Ok(&["etcd Version: "])
    }

    fn ready(&self, node: &Node, waits: &Waits) -> Result<(), StoreError> {
        match control(node, waits)?.status()?.leader {
            0 => Err(StoreError::new(StoreErrorKind::Unreachable, "it knows of no leader yet")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_is_replaced_two_intervals_before_one_election_timeout_or_later() {
        let time = failover_time(HEARTBEAT_MS, ELECTION_MS);
        assert_eq!((time.killed_s, time.silent_s, time.is_of_part), ((0.8, 2.1), (0.8, 2.1), false));
        assert!(time.formula.contains("election-timeout (1 s)"), "{}", time.formula);
        assert!(time.formula.contains("if the first election succeeds"), "{}", time.formula);
        let time = failover_time(250, 3_000);
        assert_eq!(time.killed_s, (2.5, 6.25));
        assert!(time.formula.contains("heartbeat-interval (0.25 s)"), "{}", time.formula);
    }

    #[test]
    fn members_run_with_the_time_outs_of_the_formula_and_two_have_none() {
        let recipe =
            |nodes| EtcdRecipe { program: PathBuf::from("/usr/bin/etcd"), nodes, quota_bytes: 0, unsynced: false };
        assert_eq!(recipe(3).failover_time(), Some(failover_time(HEARTBEAT_MS, ELECTION_MS)));
        assert_eq!((recipe(1).failover_time(), recipe(2).failover_time()), (None, None));
        assert!(recipe(1).promotes().is_err() && recipe(2).promotes().is_ok() && recipe(3).switches_over());
        let node = Node {
            number: 0,
            data_dir: PathBuf::from("/data"),
            socket_dir: PathBuf::new(),
            log_dir: None,
            address: std::net::Ipv4Addr::LOCALHOST,
            ports: PORTS.to_vec(),
            secret: String::new(),
            limits: plimsoll_core::Limits::default(),
        };
        let member = Member { nodes: &[], node: &node, is_first: true, primary: 0 };
        let arguments = recipe(3).launch(member).map(|launch| launch.arguments).unwrap_or_default();
        for wanted in ["--heartbeat-interval=100", "--election-timeout=1000"] {
            assert!(arguments.iter().any(|one| one == wanted), "{arguments:?}");
        }
    }
}
