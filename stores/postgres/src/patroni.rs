//! PostgreSQL under Patroni, which promotes a replica by itself. Each node also runs a member of the etcd cluster in
//! which Patroni keeps the name of the primary, as small installations do.
//!
//! A small program starts both as one server (`patroni_node.py`): a kill, a pause or a cut takes the whole node. Only
//! the first node may make the database; the others copy it, so that the first primary is known. Patroni makes and
//! starts PostgreSQL, keeps its settings in etcd, and rewinds a former primary.

mod status;

use std::path::Path;
use std::time::Duration;

use plimsoll_core::{
    FailoverTime, Launch, Member, Node, ParamSpec, Params, Recipe as _, StoreError, StoreErrorKind, Waits,
};
use plimsoll_lab::Program;
use serde_json::{Value, json};

use crate::server::{HBA, NAME, POSTGRES, PostgresRecipe, REWOUND};
pub(crate) use status::look;

const PATRONI: Program = Program { name: "patroni", directories: &[], package: "patroni" };
const ETCD: Program = Program { name: "etcd", directories: &[], package: "etcd-server" };
const PYTHON: Program = Program { name: "python3", directories: &["/usr/bin"], package: "python3" };
/// Module without which Debian's Patroni cannot use etcd, and its package.
const MODULE: (&str, &str) = ("/usr/lib/python3/dist-packages/etcd", "python3-etcd");
/// Ports of a node: of PostgreSQL, of Patroni, and of etcd for clients and members.
pub(crate) const PORTS: [u16; 4] = [5432, 8008, 2379, 2380];
const PATRONI_AT: usize = 1;
const CLIENTS_AT: usize = 2;
const MEMBERS_AT: usize = 3;
/// Memory of a node without data: PostgreSQL, etcd and two Pythons.
pub(crate) const MEMORY_BYTES: u64 = 130 << 20;
/// Between two requests for the nodes' states. Patroni asks PostgreSQL for each.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Longest time of a switchover, of which Patroni reports the end: the former primary writes a checkpoint.
const SWITCHOVER_BOUND: Duration = Duration::from_secs(60);
/// Files of a node.
const PROGRAM_FILE: &str = "patroni_node.py";
const CONFIG_FILE: &str = "patroni.yml";
/// Fewest nodes of which the others are a majority.
const NODES_MIN: usize = 3;

/// etcd's default `election-timeout`, and the greatest time until it has another leader, in milliseconds.
/// <https://etcd.io/docs/v3.4/tuning/>.
const ELECTION_MS: u32 = 1_000;
const LEADER_MS: u32 = 2_100;
/// Interval in which etcd looks for leases that expired, in milliseconds: `runLoop` in
/// <https://github.com/etcd-io/etcd/blob/v3.4.23/lease/lessor.go>.
const LEASES_MS: u32 = 500;
/// Longest wait of a replica for the position of a node that does not reply, in milliseconds: `fetch_node_status` in
/// <https://github.com/zalando/patroni/blob/v3.0.2/patroni/ha.py>.
const STATUS_MS: u32 = 2_000;

/// Parameters of private servers under Patroni.
pub(crate) const PARAMS: [ParamSpec; 4] = [
    ParamSpec::flag("patroni", "private servers run under Patroni, with etcd beside each: replicas take over alone")
        .of_private(),
    ParamSpec::duration("ttl", "30s", "Patroni: time after which a primary that does not renew its key is replaced")
        .of_private(),
    ParamSpec::duration("loop_wait", "10s", "Patroni: interval in which a primary renews its key").of_private(),
    ParamSpec::duration("retry_timeout", "10s", "Patroni: time in which failed requests to etcd are repeated")
        .of_private(),
];

/// Time-outs of Patroni in whole seconds, by Patroni's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patroni {
    /// Lifetime of the primary's key in etcd.
    pub ttl_s: u32,
    /// Interval in which it is renewed.
    pub loop_wait_s: u32,
    /// Time in which failed requests are repeated.
    pub retry_timeout_s: u32,
}

impl Patroni {
    /// Returns the time-outs of `nodes` servers under Patroni; `None` if Patroni is not wanted.
    ///
    /// # Errors
    /// `Usage` for values that Patroni does not take, or too few nodes; `Missing` if a program is not installed.
    pub(crate) fn of(params: &Params, nodes: usize) -> Result<Option<Self>, StoreError> {
        if !params.bool("patroni") {
            return Ok(None);
        }
        if nodes < NODES_MIN {
            let what = format!("Patroni and etcd replace a lost node of {NODES_MIN} or more, and there are {nodes}");
            return Err(StoreError::usage(what).next(format!("Ask for more nodes: nodes = {NODES_MIN}")));
        }
        let seconds = |name: &str| whole_s(name, params.int(name));
        let patroni = Self {
            ttl_s: seconds("ttl")?,
            loop_wait_s: seconds("loop_wait")?,
            retry_timeout_s: seconds("retry_timeout")?,
        };
        patroni.check()?;
        is_installed()?;
        Ok(Some(patroni))
    }

    /// Refuses time-outs with which a primary that is there could lose its key.
    fn check(self) -> Result<(), StoreError> {
        let least_s = u64::from(self.loop_wait_s) + 2 * u64::from(self.retry_timeout_s);
        if least_s <= u64::from(self.ttl_s) {
            return Ok(());
        }
        let what = format!(
            "Patroni's ttl ({} s) is less than loop_wait and twice retry_timeout ({least_s} s): a slow reply of etcd \
             would end a primary",
            self.ttl_s
        );
        Err(StoreError::usage(what).next(format!("Use ttl = \"{least_s}s\", or a shorter loop_wait or retry_timeout.")))
    }

    /// Returns the time until a replica has taken the key of a lost primary.
    ///
    /// The key expires `ttl` after its last renewal:
    /// <https://patroni.readthedocs.io/en/latest/dynamic_configuration.html>. A new leader of etcd counts `ttl` anew,
    /// and an election time-out longer (`Promote` in `lease/lessor.go`): the lost node may have been the old leader.
    /// Replicas watch the key, and notice its end at once.
    pub(crate) fn failover_time(self) -> FailoverTime {
        let [leader_s, election_s, leases_s, status_s] =
            [LEADER_MS, ELECTION_MS, LEASES_MS, STATUS_MS].map(|ms| f64::from(ms) / 1e3);
        let formula = format!(
            "ttl ({} s) after the last renewal of the primary's key, which is renewed every loop_wait ({} s), and up \
             to {leases_s} s until etcd notices that; if the node also led etcd, up to {leader_s} s until another \
             member leads, which counts ttl anew and {election_s} s longer; up to {status_s} s for the reply of a \
             silent node",
            self.ttl_s, self.loop_wait_s
        );
        let ttl_ms = self.ttl_s.saturating_mul(1_000);
        let least_ms = ttl_ms.saturating_sub(self.loop_wait_s.saturating_mul(1_000));
        let most_ms = ttl_ms.saturating_add(LEADER_MS + ELECTION_MS + LEASES_MS);
        let source = "https://patroni.readthedocs.io/en/latest/dynamic_configuration.html";
        FailoverTime::new(formula, source, (least_ms, most_ms), (least_ms, most_ms.saturating_add(STATUS_MS)))
    }

    /// Returns the files of a node: the program that starts all of it, and Patroni's configuration.
    pub(crate) fn files(self, recipe: &PostgresRecipe, node: Member<'_>) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        // JSON is YAML, too.
        let config = self.config(recipe, node, &POSTGRES.find()?).to_string();
        let program = include_bytes!("patroni_node.py").to_vec();
        Ok(vec![(PROGRAM_FILE.to_owned(), program), (CONFIG_FILE.to_owned(), config.into_bytes())])
    }

    fn config(self, recipe: &PostgresRecipe, node: Member<'_>, postgres: &Path) -> Value {
        let at = |position: usize| node.listens_at(position).to_string();
        let login = || json!({ "username": NAME, "password": node.secret });
        let members: Vec<String> = node.nodes.iter().map(|one| one.listens_at(CLIENTS_AT).to_string()).collect();
        let log = node.log_dir.as_ref().map(|directory| json!({ "waldir": directory.display().to_string() }));
        let common: Vec<Value> = log.into_iter().chain(recipe.synced_later.then(|| json!("no-sync"))).collect();
        let copied: Vec<Value> = [json!({ "checkpoint": "fast" })].into_iter().chain(common.iter().cloned()).collect();
        let mut config = json!({
            "scope": "plimsoll",
            "name": patroni_name(node.number),
            "restapi": { "listen": at(PATRONI_AT), "connect_address": at(PATRONI_AT) },
            "etcd3": { "hosts": members },
            "watchdog": { "mode": "off" },
            "postgresql": {
                "listen": at(0),
                "connect_address": at(0),
                "data_dir": recipe.data_dir(&node).display().to_string(),
                "bin_dir": postgres.parent().unwrap_or(postgres).display().to_string(),
                "pgpass": node.data_dir.join("patroni.pgpass").display().to_string(),
                "use_unix_socket": true,
                "authentication": { "superuser": login(), "replication": login(), "rewind": login() },
                "parameters": { "unix_socket_directories": node.socket_dir.display().to_string() },
                "pg_hba": HBA.lines().collect::<Vec<_>>(),
                "basebackup": copied,
            },
        });
        if node.number == 0 {
            let made = [json!({ "auth": "trust" }), json!({ "encoding": "UTF8" }), json!("no-locale")];
            let checked = recipe.checksums.then(|| json!("data-checksums"));
            let made: Vec<Value> = made.into_iter().chain(checked).chain(common).collect();
            config["bootstrap"] = json!({ "dcs": self.settings(recipe), "initdb": made });
        }
        config
    }

    /// Returns the settings that Patroni keeps in etcd.
    fn settings(self, recipe: &PostgresRecipe) -> Value {
        let own = REWOUND.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let all = own.chain(recipe.settings.iter().cloned());
        let parameters: serde_json::Map<String, Value> = all.map(|(name, value)| (name, Value::from(value))).collect();
        json!({
            "ttl": self.ttl_s,
            "loop_wait": self.loop_wait_s,
            "retry_timeout": self.retry_timeout_s,
            "synchronous_mode": recipe.synchronous > 0,
            "synchronous_node_count": recipe.synchronous.max(1),
            "postgresql": { "use_pg_rewind": true, "parameters": parameters },
        })
    }
}

/// Returns a duration in seconds.
fn whole_s(name: &str, ns: i64) -> Result<u32, StoreError> {
    let whole = (ns % 1_000_000_000 == 0).then(|| u32::try_from(ns / 1_000_000_000).ok()).flatten();
    whole.filter(|seconds| *seconds > 0).ok_or_else(|| {
        StoreError::usage(format!("`{name}` of Patroni is a whole number of seconds, 1 or more"))
            .next(format!("Write it as {name} = \"20s\"."))
    })
}

/// Fails if a program or module is missing.
fn is_installed() -> Result<(), StoreError> {
    let (module, package) = MODULE;
    ETCD.find()?;
    PYTHON.find()?;
    let patroni = PATRONI.find()?;
    // Another Patroni than Debian's has its modules elsewhere.
    if patroni.starts_with("/usr/bin") && !Path::new(module).exists() {
        return Err(StoreError::new(StoreErrorKind::Missing, "Patroni's module for etcd is not installed")
            .detail(format!("looked for {module}"))
            .next(format!("apt-get install {package}")));
    }
    Ok(())
}

/// Returns the name of a node in Patroni.
fn patroni_name(number: usize) -> String {
    format!("node-{}", number + 1)
}

/// Returns the name of a node in etcd.
fn member(node: &Node) -> String {
    format!("node{}", node.number)
}

fn url(node: &Node, position: usize) -> String {
    format!("http://{}", node.listens_at(position))
}

/// Makes Patroni replace the primary by a replica. The former primary stops its PostgreSQL, which follows then.
pub(crate) fn promote(recipe: &PostgresRecipe, to: Member<'_>, waits: &Waits) -> Result<(), StoreError> {
    let (number, primary) = (to.number + 1, recipe.primary(to.nodes, waits)?);
    if primary == to.number {
        return Err(StoreError::usage(format!("node {number} is the primary already"))
            .next("name a replica: promote replica, plimsoll lab status"));
    }
    let waits = waits.with_work(SWITCHOVER_BOUND);
    let from = Member { primary, ..to };
    status::switch_over(from.primary_node(), to.node, &waits.with_answer(SWITCHOVER_BOUND))?;
    // It holds the key of the primary, and its PostgreSQL becomes the primary next.
    waits.until(LOOK_INTERVAL, "Read the nodes' logs", || match recipe.present_role(&to, &waits) {
        Ok("primary") => Ok(Ok(())),
        Ok(_) => Ok(Err(format!("node {number} is still a replica"))),
        Err(error) if error.kind == StoreErrorKind::Unreachable => Ok(Err(error.what)),
        Err(error) => Err(error),
    })
}

/// Returns the launch of a node's etcd and Patroni.
pub(crate) fn launch(node: Member<'_>, postgres_data: &Path) -> Result<Launch, StoreError> {
    let below = |name: &str| node.data_dir.join(name).display().to_string();
    let members: Vec<String> =
        node.nodes.iter().map(|one| format!("{}={}", member(one), url(one, MEMBERS_AT))).collect();
    let mut arguments = vec![
        below(PROGRAM_FILE),
        postgres_data.join("postmaster.pid").display().to_string(),
        ETCD.find()?.display().to_string(),
    ];
    let etcd = [
        ("name", member(&node)),
        ("data-dir", below("etcd")),
        ("listen-client-urls", url(&node, CLIENTS_AT)),
        ("advertise-client-urls", url(&node, CLIENTS_AT)),
        ("listen-peer-urls", url(&node, MEMBERS_AT)),
        ("initial-advertise-peer-urls", url(&node, MEMBERS_AT)),
        ("initial-cluster", members.join(",")),
        ("initial-cluster-state", "new".to_owned()),
        ("election-timeout", ELECTION_MS.to_string()),
        ("logger", "zap".to_owned()),
        ("log-outputs", "stderr".to_owned()),
    ];
    arguments.extend(etcd.map(|(name, value)| format!("--{name}={value}")));
    arguments.extend(["--".to_owned(), PATRONI.find()?.display().to_string(), below(CONFIG_FILE)]);
    Ok(Launch::new(PATRONI.name, PYTHON.find()?, arguments))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::path::PathBuf;
    use std::sync::Arc;

    use plimsoll_core::Limits;

    use super::*;

    const SHORT: Patroni = Patroni { ttl_s: 20, loop_wait_s: 5, retry_timeout_s: 5 };

    fn nodes() -> Vec<Arc<Node>> {
        let node = |number: usize| Node {
            number,
            data_dir: PathBuf::from("/data"),
            socket_dir: PathBuf::from("/sockets"),
            log_dir: None,
            address: Ipv4Addr::new(10, 77, 0, u8::try_from(number + 1).unwrap()),
            ports: PORTS.to_vec(),
            secret: "secret".to_owned(),
            limits: Limits::default(),
        };
        (0..3).map(|number| Arc::new(node(number))).collect()
    }

    fn config(recipe: &PostgresRecipe, number: usize) -> Value {
        let nodes = nodes();
        let member = Member { nodes: &nodes, node: &nodes[number], is_first: true, primary: 0 };
        SHORT.config(recipe, member, Path::new("/bin/postgres"))
    }

    #[test]
    fn a_key_expires_after_its_time_or_later_if_the_node_led_etcd_too() {
        let time = SHORT.failover_time();
        assert_eq!((time.killed_s, time.silent_s, time.is_of_part), ((15.0, 23.6), (15.0, 25.6), false));
        assert!(time.formula.starts_with("ttl (20 s)"), "{}", time.formula);
        let default = Patroni { ttl_s: 30, loop_wait_s: 10, retry_timeout_s: 10 };
        assert_eq!((default.failover_time().killed_s, default.failover_time().silent_s), ((20.0, 33.6), (20.0, 35.6)));
    }

    #[test]
    fn time_outs_in_which_a_present_primary_could_lose_its_key_are_refused() {
        assert!(SHORT.check().is_ok());
        let refused = Patroni { ttl_s: 14, ..SHORT }.check().unwrap_err();
        assert_eq!(refused.next.as_deref(), Some("Use ttl = \"15s\", or a shorter loop_wait or retry_timeout."));
        assert_eq!(whole_s("ttl", 20_000_000_000).unwrap(), 20);
        for wrong_ns in [0, -1_000_000_000, 1_500_000_000] {
            assert!(whole_s("ttl", wrong_ns).is_err(), "{wrong_ns}");
        }
    }

    #[test]
    fn only_the_first_node_may_make_the_database_and_has_the_settings_of_all() {
        let settings = vec![("work_mem".to_owned(), "64MB".to_owned())];
        let recipe = PostgresRecipe { nodes: 3, checksums: true, synchronous: 1, settings, ..Default::default() };
        let first = config(&recipe, 0);
        let kept = &first["bootstrap"]["dcs"];
        assert_eq!((&kept["ttl"], &kept["loop_wait"], &kept["retry_timeout"]), (&20.into(), &5.into(), &5.into()));
        assert_eq!((&kept["synchronous_mode"], &kept["synchronous_node_count"]), (&true.into(), &1.into()));
        assert_eq!(kept["postgresql"]["parameters"]["work_mem"], "64MB");
        assert!(first["bootstrap"]["initdb"].as_array().unwrap().contains(&"data-checksums".into()), "{first}");
        let second = config(&recipe, 1);
        assert!(second.get("bootstrap").is_none(), "{second}");
        assert_eq!((&second["name"], &second["postgresql"]["listen"]), (&"node-2".into(), &"10.77.0.2:5432".into()));
        assert_eq!(second["etcd3"]["hosts"].as_array().unwrap().len(), 3);
    }
}
