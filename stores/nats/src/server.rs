//! How private servers are made: one on a port of the loopback interface, or a cluster on hosts of their own.
//!
//! They listen on TCP alone, and ask for a password that stands in their configuration file, which nobody else can read.

use std::path::PathBuf;
use std::time::Duration;

use plimsoll_core::{Launch, Member, Node, Recipe, ServerSpec, StopSignal, StoreError, Waits};
use plimsoll_endpoint::Password;
use plimsoll_lab::Program;
use serde_json::{Value, json};

use crate::control::Control;
use crate::endpoint::{Endpoint, Login};

pub(crate) const SERVER: Program = Program { name: "nats-server", directories: &[], package: "nats-server" };

/// Largest value that a private server takes: 1 MiB is its default.
pub(crate) const PAYLOAD_BYTES_MAX: u32 = 8 << 20;
/// How often a server syncs what it has written, where nobody says otherwise.
pub(crate) const SYNC_INTERVAL: &str = "2m";
const USER: &str = "plimsoll";
/// Its configuration, which holds the password. In a list of processes that would be for all to see.
const FILE: &str = "nats.conf";
/// Ports of clients and of the cluster's other nodes.
const PORTS: [u16; 2] = [4222, 6222];
/// How long a server is waited for that says nothing while JetStream has no leader.
const LEADERLESS: Duration = Duration::from_millis(200);

/// So many servers of one cluster.
pub(crate) struct NatsRecipe {
    program: PathBuf,
    nodes: usize,
    sync_interval: String,
}

impl NatsRecipe {
    /// # Errors
    /// `Missing`, with the line that installs it; `Usage` where the interval is none.
    pub fn new(nodes: usize, sync_interval: &str) -> Result<Self, StoreError> {
        if sync_interval.is_empty() || !sync_interval.chars().all(|letter| letter.is_ascii_alphanumeric()) {
            return Err(StoreError::usage("sync_interval is no interval")
                .next("say a number with its unit, 10s or 2m, or `always`"));
        }
        Ok(Self { program: SERVER.find()?, nodes, sync_interval: sync_interval.to_owned() })
    }
}

/// Where clients reach `nodes`.
pub(crate) fn endpoint<'a>(nodes: impl Iterator<Item = &'a Node> + Clone) -> Endpoint {
    let login = nodes
        .clone()
        .next()
        .map(|node| Login { user: Password::new(USER), password: Some(Password::new(node.secret.as_str())) });
    let address = |node: &Node| (node.address.to_string(), node.listens_at(0).port());
    Endpoint { addresses: nodes.map(address).collect(), login, bucket: None, place: "the private NATS".to_owned() }
}

/// What a server is called, by its node's number.
pub(crate) fn name(number: usize) -> String {
    format!("node{}", number + 1)
}

impl Recipe for NatsRecipe {
    fn spec(&self) -> ServerSpec {
        let spec = ServerSpec::new("NATS", "nats", "nats-server");
        let hosts = if self.nodes > 1 { self.nodes } else { 0 };
        // It ends on SIGTERM with an exit status of 1.
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
        // Older servers do not know the name.
        if self.sync_interval != SYNC_INTERVAL {
            text["jetstream"]["sync_interval"] = Value::from(self.sync_interval.as_str());
        }
        if self.nodes > 1 {
            let route = |node: &std::sync::Arc<Node>| format!("nats://{}", node.listens_at(1));
            text["cluster"] = json!({
                "name": "plimsoll",
                "listen": node.listens_at(1).to_string(),
                "routes": node.nodes.iter().map(route).collect::<Vec<_>>(),
            });
        }
        // Its own form of configuration takes JSON.
        Ok(vec![(FILE.to_owned(), format!("{text:#}\n").into_bytes())])
    }

    fn launch(&self, node: Member<'_>) -> Result<Launch, StoreError> {
        let file = node.data_dir.join(FILE).display().to_string();
        Ok(Launch::new(SERVER.name, self.program.clone(), ["--config".to_owned(), file]))
    }

    fn ready(&self, node: &Node, waits: &Waits) -> Result<(), StoreError> {
        let mut control = Control::open(&endpoint([node].into_iter()), waits)?;
        control
            .api_within(LEADERLESS, "INFO", &Value::Null)
            .map(drop)
            .map_err(|error| StoreError { kind: plimsoll_core::StoreErrorKind::Unreachable, ..error })
    }

    fn client_environment(&self, node: &Node) -> Vec<(&'static str, String)> {
        vec![
            ("NATS_URL", format!("nats://{}", node.listens_at(0))),
            ("NATS_USER", USER.to_owned()),
            ("NATS_PASSWORD", node.secret.clone()),
        ]
    }
}
