//! Recipe of private servers: a single one on the loopback interface, or a cluster on hosts of their own.
//!
//! Private servers listen on TCP alone, and ask for a password. Their configuration file holds it, which no other user can
//! read.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::{
    FailoverTime, Launch, Member, Node, Recipe, ServerSpec, StopSignal, StoreError, StoreErrorKind, Waits,
};
use plimsoll_endpoint::equals::{Addresses, ClusterSpec, Login};
use plimsoll_endpoint::{Password, usage};
use plimsoll_lab::Program;
use serde_json::{Value, json};

use crate::bucket::is_name;
use crate::control::Control;

pub(crate) const SERVER: Program = Program { name: "nats-server", directories: &[], package: "nats-server" };

/// Largest value that a private server takes. NATS' default is 1 MiB.
pub(crate) const PAYLOAD_BYTES_MAX: u32 = 8 << 20;
/// Default interval at which a server syncs its files.
pub(crate) const SYNC_INTERVAL: &str = "2m";
const USER: &str = "plimsoll";
/// Name of the configuration file. It holds the password, which arguments would show to every user.
const FILE: &str = "nats.conf";
/// Ports for clients and for the cluster's other nodes.
const PORTS: [u16; 2] = [4222, 6222];
/// Between two looks if all nodes know a leader, and the longest time of a look.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
const LOOK_BOUND: Duration = Duration::from_secs(5);
/// Longest time for which nodes that know JetStream's leader may disagree on that of a bucket. Copies that still disagree
/// are a fault of the cluster, which the check reports.
const AGREEMENT_BOUND: Duration = Duration::from_secs(60);
/// Wait for the reply of a server, which sends none while JetStream has no leader.
const LEADERLESS: Duration = Duration::from_millis(200);

/// Random time without a heartbeat after which a copy of a bucket stands for election, and the interval of heartbeats,
/// in milliseconds. No setting changes them: `minElectionTimeoutDefault`, `maxElectionTimeoutDefault` and
/// `hbIntervalDefault` in <https://github.com/nats-io/nats-server/blob/v2.9.10/server/raft.go>.
const ELECTION_MS: (u32, u32) = (4_000, 9_000);
const HEARTBEAT_MS: u32 = 1_000;
/// Fewest copies of which the others elect another leader.
const COPIES_MIN: usize = 3;

/// Returns the time until a bucket with this number of copies has another leader: the first election, if it succeeds.
fn failover_time(copies: usize) -> Option<FailoverTime> {
    let [least_s, most_s, heartbeat_s] = [ELECTION_MS.0, ELECTION_MS.1, HEARTBEAT_MS].map(|ms| f64::from(ms) / 1e3);
    let formula = format!(
        "a random time from {least_s} s to {most_s} s after the last heartbeat, which is sent every {heartbeat_s} s, \
         if the first election succeeds"
    );
    let range_ms = (ELECTION_MS.0 - HEARTBEAT_MS, ELECTION_MS.1);
    let source = "https://github.com/nats-io/nats-server/blob/v2.9.10/server/raft.go";
    (copies >= COPIES_MIN).then(|| FailoverTime::new(formula, source, range_ms, range_ms))
}

/// Recipe of `nodes` servers in one cluster.
pub(crate) struct NatsRecipe {
    program: PathBuf,
    nodes: usize,
    /// Copies of each bucket.
    copies: usize,
    sync_interval: String,
}

impl NatsRecipe {
    /// # Errors
    /// `Missing`, with the command that installs it; `Usage` if `sync_interval` is not an interval.
    pub fn new(nodes: usize, copies: usize, sync_interval: &str) -> Result<Self, StoreError> {
        if sync_interval.is_empty() || !sync_interval.chars().all(|letter| letter.is_ascii_alphanumeric()) {
            return Err(StoreError::usage("sync_interval is no interval")
                .next("say a number with its unit, 10s or 2m, or `always`"));
        }
        Ok(Self { program: SERVER.find()?, nodes, copies: copies.min(nodes), sync_interval: sync_interval.to_owned() })
    }
}

/// Switch of a URL for servers that begin with TLS, as `handshake_first` in their configuration says.
const HANDSHAKE_FIRST: &str = "handshake_first";

/// Way in which a connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Encryption {
    /// In clear.
    #[default]
    No,
    /// TLS begins behind the server's description of itself.
    Upgrade,
    /// TLS begins with the first byte.
    First,
}

impl Encryption {
    /// Returns the way of connections to `addresses`.
    pub fn of(addresses: &Addresses) -> Self {
        match &addresses.tls {
            None => Self::No,
            Some(_) if addresses.switches.contains(&HANDSHAKE_FIRST) => Self::First,
            Some(_) => Self::Upgrade,
        }
    }
}

/// URLs of NATS.
pub(crate) const NATS: ClusterSpec = ClusterSpec {
    name: "NATS",
    schemes: ["nats", "natss"],
    protocols: &[],
    switches: &[HANDSHAKE_FIRST],
    port: PORTS[0],
    password: "NATS_PASSWORD",
    takes_tokens: true,
    form: "Write it as nats://user:@host:4222/bucket, with commas between several hosts; \
           with TLS as natss://user:@host:4222/bucket?cacert=FILE&cert=FILE&key=FILE",
    check: |addresses| match &addresses.path {
        Some(bucket) if !is_name(bucket) => {
            Err(usage("the URL's path is no name of a bucket", "A name has letters, digits, - and _ only."))
        }
        _ => Ok(()),
    },
    private_login: |node| {
        Some(Login { user: Password::new(USER), password: Some(Password::new(node.secret.as_str())) })
    },
};

/// Returns the server's name, by the number of its node.
pub(crate) fn name(number: usize) -> String {
    format!("node{}", number + 1)
}

/// Fails while the nodes do not name one leader for each bucket. A former leader that was suspended or cut off answers
/// reads until it hears of its successor.
fn led_alike(nodes: &[Arc<Node>], waits: &Waits) -> Result<(), String> {
    let open = |node: &Arc<Node>| Control::open(&Addresses::of_nodes(&NATS, [&**node]), waits);
    let controls = nodes.iter().map(open).collect::<Result<Vec<_>, _>>();
    agree(&mut controls.map_err(|error| error.to_string())?)
}

/// Asks each server for the leader of each bucket. Fails if they do not name the same one. Every server that takes itself
/// for the leader replies, and a server's own reply arrives first.
fn agree(controls: &mut [Control]) -> Result<(), String> {
    let Some(first) = controls.first_mut() else { return Ok(()) };
    let names = first.api_within(LEADERLESS, "STREAM.NAMES", &Value::Null).map_err(|error| error.to_string())?;
    for name in names["streams"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let ask = |control: &mut Control| {
            let status = control.api_within(LEADERLESS, &format!("STREAM.INFO.{name}"), &Value::Null).ok()?;
            status["cluster"]["leader"].as_str().map(str::to_owned)
        };
        let leaders: Vec<Option<String>> = controls.iter_mut().map(ask).collect();
        let is_one = leaders.iter().all(|leader| leader.is_some() && *leader == leaders[0]);
        if !is_one {
            let named: Vec<&str> = leaders.iter().map(|leader| leader.as_deref().unwrap_or("none")).collect();
            return Err(format!("the nodes do not name one leader of the stream {name}: {}", named.join(", ")));
        }
    }
    Ok(())
}

impl Recipe for NatsRecipe {
    fn spec(&self) -> ServerSpec {
        let spec = ServerSpec::new("NATS", "nats", "nats-server");
        let hosts = if self.nodes > 1 { self.nodes } else { 0 };
        // On SIGTERM, NATS ends with an exit status of 1.
        let stop = StopSignal::Int;
        ServerSpec { nodes: self.nodes, hosts, ports: &PORTS, memory_bytes: 15 << 20, stop, reloads: true, ..spec }
    }

    fn files(&self, node: Member<'_>) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let mut text = json!({
            "server_name": name(node.number),
            "listen": node.listens_at(0).to_string(),
            "max_payload": PAYLOAD_BYTES_MAX,
            "authorization": { "user": USER, "password": node.secret },
            "jetstream": { "store_dir": node.data_dir },
        });
        // Older servers refuse the name.
        if self.sync_interval != SYNC_INTERVAL {
            text["jetstream"]["sync_interval"] = Value::from(self.sync_interval.as_str());
        }
        if self.nodes > 1 {
            let route = |node: &Arc<Node>| format!("nats://{}", node.listens_at(1));
            text["cluster"] = json!({
                "name": "plimsoll",
                "listen": node.listens_at(1).to_string(),
                "routes": node.nodes.iter().map(route).collect::<Vec<_>>(),
            });
        }
        // NATS' own form of configuration accepts JSON.
        Ok(vec![(FILE.to_owned(), format!("{text:#}\n").into_bytes())])
    }

    fn launch(&self, node: Member<'_>) -> Result<Launch, StoreError> {
        let file = node.data_dir.join(FILE).display().to_string();
        Ok(Launch::new(SERVER.name, self.program.clone(), ["--config".to_owned(), file]))
    }

    fn version_marks(&self, _: usize) -> Result<&'static [&'static str], StoreError> {
        Ok(&["nats-server: v"])
    }

    fn ready(&self, node: &Node, waits: &Waits) -> Result<(), StoreError> {
        let mut control = Control::open(&Addresses::of_nodes(&NATS, [node]), waits)?;
        control
            .api_within(LEADERLESS, "INFO", &Value::Null)
            .map(drop)
            .map_err(|error| StoreError { kind: StoreErrorKind::Unreachable, ..error })
    }

    fn until_whole(&self, nodes: &[Arc<Node>], waits: &Waits) -> Result<(), StoreError> {
        let looks = waits.with_answer(LOOK_BOUND);
        let began = Instant::now();
        // A node that was cut off finds JetStream's leader only a while after its network is back.
        waits.until(LOOK_INTERVAL, "Read the nodes' logs", || {
            let away = nodes.iter().filter(|node| self.ready(node, &looks).is_err()).count();
            if away > 0 {
                return Ok(Err(format!("{away} of {} nodes know no leader", nodes.len())));
            }
            Ok(if nodes.len() < 2 || began.elapsed() > AGREEMENT_BOUND { Ok(()) } else { led_alike(nodes, &looks) })
        })
    }

    fn has_primary(&self) -> bool {
        self.nodes > 1
    }

    fn failover_time(&self) -> Option<FailoverTime> {
        failover_time(self.copies)
    }

    fn primary(&self, nodes: &[Arc<Node>], waits: &Waits) -> Result<usize, StoreError> {
        let leader_of = |node: &Arc<Node>| {
            let mut control = Control::open(&Addresses::of_nodes(&NATS, [&**node]), waits)?;
            // Those of the run have the same copies: the first bucket stands for all.
            control.api_within(LEADERLESS, "STREAM.LIST", &Value::Null)
        };
        let mut answers = nodes.iter().map(leader_of);
        let leader =
            answers.find_map(|answer| answer.ok()?["streams"][0]["cluster"]["leader"].as_str().map(str::to_owned));
        let led = leader.and_then(|leader| nodes.iter().find(|node| name(node.number) == leader));
        let none =
            || StoreError::new(StoreErrorKind::Unreachable, "no node of the private NATS leads a bucket just now");
        led.map(|node| node.number).ok_or_else(none)
    }

    fn promotes(&self) -> Result<(), StoreError> {
        let what =
            "the copies of a NATS bucket choose their leader: before version 2.11 a command cannot name the next";
        Err(StoreError::usage(what).next("kill, pause or cut the primary: the other copies elect a leader"))
    }

    fn client_environment(&self, node: &Node) -> Vec<(&'static str, String)> {
        vec![
            ("NATS_URL", format!("nats://{}", node.listens_at(0))),
            ("NATS_USER", USER.to_owned()),
            ("NATS_PASSWORD", node.secret.clone()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use plimsoll_core::Target;

    use super::*;

    /// Returns a connection to a server that names `leader` for its only bucket; no reply in place of `None`.
    fn server(leader: Option<&'static str>) -> Control {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("nats://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let mut answers = listener.accept().unwrap().0;
            let lines = BufReader::new(answers.try_clone().unwrap()).lines();
            answers.write_all(b"INFO {\"version\":\"2.9.10\",\"headers\":true,\"client_id\":1}\r\n").unwrap();
            for line in lines.map_while(Result::ok) {
                let (inbox, body) = match line.split(' ').collect::<Vec<_>>()[..] {
                    ["PING"] => {
                        answers.write_all(b"PONG\r\n").unwrap();
                        continue;
                    }
                    ["PUB", "$JS.API.STREAM.NAMES", inbox, _] => (inbox, json!({ "streams": ["KV_b"] }).to_string()),
                    ["PUB", "$JS.API.STREAM.INFO.KV_b", inbox, _] => match leader {
                        Some(leader) => (inbox, json!({ "cluster": { "leader": leader } }).to_string()),
                        None => continue,
                    },
                    _ => continue,
                };
                answers.write_all(format!("MSG {inbox} 1 {}\r\n{body}\r\n", body.len()).as_bytes()).unwrap();
            }
        });
        let addresses = Addresses::of_target(&NATS, &Target::Attach { url, password: None }).unwrap();
        Control::open(&addresses, &Waits::default()).unwrap()
    }

    #[test]
    fn nodes_are_whole_only_if_all_name_the_same_leader_of_a_bucket() {
        let of = |leaders: [Option<&'static str>; 3]| agree(&mut leaders.map(server));
        assert_eq!(of([Some("node2"); 3]), Ok(()));
        let former = of([Some("node1"), Some("node2"), Some("node2")]).unwrap_err();
        assert!(former.ends_with("of the stream KV_b: node1, node2, node2"), "{former}");
        let silent = of([Some("node2"), Some("node2"), None]).unwrap_err();
        assert!(silent.ends_with(": node2, node2, none"), "{silent}");
    }

    #[test]
    fn a_leader_is_not_named_by_a_command() {
        let (program, sync_interval) = (PathBuf::new(), SYNC_INTERVAL.to_owned());
        let refused = NatsRecipe { program, nodes: 3, copies: 3, sync_interval }.promotes().unwrap_err();
        assert!(refused.what.contains("choose their leader"), "{refused:?}");
        assert!(refused.next.is_some_and(|next| next.contains("kill, pause or cut")));
    }

    #[test]
    fn a_leader_is_replaced_after_the_random_time_of_the_server_if_two_copies_are_left() {
        let time = failover_time(3);
        assert_eq!(time.map(|time| (time.killed_s, time.silent_s)), Some(((3.0, 9.0), (3.0, 9.0))));
        assert_eq!(failover_time(5), failover_time(3));
        assert_eq!((failover_time(1), failover_time(2)), (None, None));
    }
}
