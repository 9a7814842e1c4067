//! Recipe of a private PostgreSQL.
//!
//! The server listens on a Unix socket only, in a directory that only its user and root can enter, without a
//! password (`trust`). A primary and its replicas have hosts of their own and listen there, too, with a password
//! (`scram-sha-256`). Every setting that the caller does not set has PostgreSQL's default, `fsync` and
//! `full_page_writes` included. The settings are on the server's command line, where `pg_settings` shows them as
//! such. The collation is `C` in UTF-8, so that text orders by bytes as in every other store.

mod endpoints;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{
    FailoverTime, Launch, Member, Node, Progress, Recipe, ServerSpec, StopSignal, StoreError, StoreErrorKind, Waits,
};
use plimsoll_lab::Program;
use plimsoll_lab::proxy::{Door, Proxied};

use crate::patroni::{self, Patroni};
use crate::pooler;
use crate::progress;
use crate::shared_memory;
use crate::sql::literal;
use crate::works;
use plimsoll_endpoint::text;

/// The server's program.
pub const POSTGRES: Program = Program {
    name: "postgres",
    directories: &["/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin"],
    package: "postgresql",
};
/// Below a node's data directory the server's own, where other files stand beside it.
pub(crate) const CLUSTER_DATA: &str = "db";
/// Files of a node of a cluster: who may log in, the password for `initdb`, and for replicas.
const HBA_FILE: &str = "pg_hba.conf";
const PASSWORD_FILE: &str = "password";
const PASS_FILE: &str = "pgpass";
/// Logins of a cluster: without a password by the socket, with one over the network.
pub(crate) const HBA: &str = "local all all trust\n\
                              host all all all scram-sha-256\n\
                              host replication all all scram-sha-256\n";
/// The database and its owner, as PostgreSQL's own tools call them.
pub(crate) const NAME: &str = "postgres";
/// Processes that serve a client each; not this one.
const SERVING: &str = "SELECT pid FROM pg_stat_activity \
     WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND query !~* '^(VACUUM|REINDEX|ALTER)'";
/// Between two looks whether replicas follow.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Settings without which a former primary cannot be rewound: which pages changed, and the log since the last
/// checkpoint before the servers diverged.
pub(crate) const REWOUND: [(&str, &str); 2] = [("wal_log_hints", "on"), ("wal_keep_size", "1GB")];
/// Longest time of a promotion.
const PROMOTION_BOUND: Duration = Duration::from_secs(60);
/// Longest time in which a replica is told to follow another primary.
const FOLLOW_BOUND: Duration = Duration::from_secs(2);
/// Longest time of a look.
const LOOK_BOUND: Duration = Duration::from_secs(10);
/// Longest time of a question for the role of one node of several.
const ASK_BOUND: Duration = Duration::from_millis(500);
/// Question for the role of a node.
const IN_RECOVERY: &str = "SELECT pg_is_in_recovery()";
/// Query for the history of a primary's timeline.
const HISTORY: &str =
    "SELECT pg_read_file('pg_wal/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || '.history')";

/// A private PostgreSQL, or a primary and its replicas.
#[derive(Debug, Clone)]
pub struct PostgresRecipe {
    /// Settings by PostgreSQL's names.
    pub settings: Vec<(String, String)>,
    /// True if the caller syncs all files that are made before the first start, at once.
    pub synced_later: bool,
    /// True if the write-ahead log is on a disk of its own.
    pub has_log_disk: bool,
    /// Pages have checksums.
    pub checksums: bool,
    /// Number of servers: the first is the primary.
    pub nodes: usize,
    /// Number of replicas that a commit waits for.
    pub synchronous: usize,
    /// Number of servers that know nothing of each other, on this machine's own network; 1 unless `nodes` is 1.
    pub instances: usize,
    /// Sessions go through an HAProxy, which is the node behind these.
    pub proxied: bool,
    /// Sessions go through a PgBouncer, which is the node behind these.
    pub pooled: bool,
    /// Time-outs of Patroni, which promotes a replica by itself; `None` if a command does.
    pub patroni: Option<Patroni>,
}

impl Default for PostgresRecipe {
    fn default() -> Self {
        Self {
            settings: Vec::new(),
            synced_later: false,
            has_log_disk: false,
            checksums: false,
            nodes: 1,
            synchronous: 0,
            instances: 1,
            proxied: false,
            pooled: false,
            patroni: None,
        }
    }
}

impl PostgresRecipe {
    /// Reports whether there is a single server on this machine's own network.
    fn is_alone(&self) -> bool {
        self.nodes == 1 && !self.pooled
    }

    /// Returns true if another node may become the primary, so that sessions look for it.
    pub(crate) fn moves_primary(&self) -> bool {
        self.nodes > 1 && !self.pooled && !self.proxied
    }

    /// The node is the PgBouncer.
    fn is_pooler(&self, number: usize) -> bool {
        self.pooled && number == self.nodes
    }

    /// The node is no PostgreSQL: what is in front of those.
    pub(crate) fn is_front(&self, number: usize) -> bool {
        (self.pooled || self.proxied) && number == self.nodes
    }

    /// Returns the program that copies a node's data to its working directory, as a backup does.
    fn backup(&self, node: &Node) -> Result<Launch, StoreError> {
        let port = self.port(node);
        let from = match self.is_alone() {
            true => format!("host={} port={port} user={NAME}", node.socket_dir.display()),
            // The socket of a node of a cluster does not accept replication.
            false => {
                let passfile = node.data_dir.join(PASS_FILE);
                format!("host={} port={port} user={NAME} passfile='{}'", node.address, passfile.display())
            }
        };
        let arguments = ["-D", works::BACKUP, "-d", &from, "-w", "-X", "stream", "-c", "fast"];
        Ok(Launch::new("pg_basebackup", POSTGRES.find()?.with_file_name("pg_basebackup"), arguments))
    }

    /// Returns the directory of the server's data.
    pub(crate) fn data_dir(&self, node: &Node) -> PathBuf {
        if self.is_alone() { node.data_dir.clone() } else { node.data_dir.join(CLUSTER_DATA) }
    }
}

/// The recipe with an HAProxy in front: at its first port the primary, at its second the replicas.
///
/// # Errors
/// As [`Proxied::new`].
pub(crate) fn behind_proxy(recipe: PostgresRecipe) -> Result<Proxied, StoreError> {
    let check = || vec![format!("option pgsql-check user {NAME}")];
    let replicas = Door { to: (1..recipe.nodes).collect(), check: check() };
    Proxied::new(Box::new(recipe), vec![Door { to: vec![0], check: check() }, replicas])
}

/// Returns the error of a cluster whose nodes know each other from their start.
fn fixed_members() -> StoreError {
    StoreError::usage("the etcd beside Patroni only knows the nodes that it was started with")
        .next("make it again with as many as wanted: plimsoll lab up postgres-patroni --nodes N")
}

impl Recipe for PostgresRecipe {
    fn spec(&self) -> ServerSpec {
        // SIGQUIT is PostgreSQL's immediate shutdown: no checkpoint, but shared memory is given back.
        let (stop, leave) = (StopSignal::Int, StopSignal::Quit);
        if self.patroni.is_some() {
            let (stop, ports, memory_bytes) = (StopSignal::Term, &patroni::PORTS, patroni::MEMORY_BYTES);
            let spec = ServerSpec::new("PostgreSQL", NAME, POSTGRES.package);
            let (nodes, hosts) = (self.nodes, self.nodes);
            return ServerSpec { stop, leave, reloads: true, nodes, hosts, ports, memory_bytes, ..spec };
        }
        let spec = ServerSpec { stop, leave, reloads: true, ..ServerSpec::new("PostgreSQL", NAME, POSTGRES.package) };
        if self.is_alone() {
            return ServerSpec { nodes: self.instances, memory_bytes: 30 << 20, ..spec };
        }
        let nodes = self.nodes + usize::from(self.pooled);
        ServerSpec { nodes, hosts: nodes, ports: &[5432], memory_bytes: 30 << 20, ..spec }
    }

    fn ports(&self, node: usize) -> &'static [u16] {
        if self.is_pooler(node) { &pooler::PORTS } else { self.spec().ports }
    }

    fn role(&self, node: usize) -> &'static str {
        match node {
            _ if self.is_alone() => "server",
            _ if self.is_pooler(node) => "pgbouncer",
            0 => "primary",
            _ => "replica",
        }
    }

    fn changes_role(&self, _: usize) -> bool {
        self.patroni.is_some()
    }

    fn present_role(&self, node: &Node, waits: &Waits) -> Result<&'static str, StoreError> {
        let mut connection = self.by_socket(node).open(Arc::default(), "", &[], waits)?;
        Ok(if connection.value(IN_RECOVERY)? == "f" { "primary" } else { "replica" })
    }

    fn keeps_data(&self, node: usize) -> bool {
        !self.is_pooler(node)
    }

    fn has_log_disk(&self) -> bool {
        self.has_log_disk
    }

    fn has_primary(&self) -> bool {
        self.nodes > 1
    }

    fn primary(&self, nodes: &[Arc<Node>], waits: &Waits) -> Result<usize, StoreError> {
        if self.patroni.is_none() {
            return Ok(nodes.first().map_or(0, |node| node.number));
        }
        let looks = waits.with_answer(ASK_BOUND);
        for node in nodes {
            let opened = self.by_socket(node).open(Arc::default(), "", &[], &looks);
            match opened.and_then(|mut connection| connection.value(IN_RECOVERY)) {
                Ok(answer) if answer == "f" => return Ok(node.number),
                Err(error) if error.is_interrupt() => return Err(error),
                // A node that is away is not the primary any more, or soon will not be.
                _ => {}
            }
        }
        let what = "no node of the private PostgreSQL is the primary just now";
        Err(StoreError::new(StoreErrorKind::Unreachable, what))
    }

    fn failover_time(&self) -> Option<FailoverTime> {
        self.patroni.map(Patroni::failover_time)
    }

    fn promotes(&self) -> Result<(), StoreError> {
        if self.moves_primary() {
            return Ok(());
        }
        let what = "this PostgreSQL has no replica that can take over";
        Err(StoreError::usage(what).next("use replicas without a proxy or pooler: --on postgres-replicas"))
    }

    fn switches_over(&self) -> bool {
        self.patroni.is_some()
    }

    fn promote(&self, to: Member<'_>, waits: &Waits) -> Result<(), StoreError> {
        if self.patroni.is_some() {
            return patroni::promote(self, to, waits);
        }
        let mut replica = self.by_socket(&to).open(Arc::default(), "", &[], waits.with_answer(PROMOTION_BOUND))?;
        if replica.value("SELECT current_setting('server_version_num')::int >= 140000")? != "t" {
            return Err(StoreError::usage("before version 14, a replica does not tell sessions that it is one")
                .next("install PostgreSQL 14 or later"));
        }
        let bound_s = PROMOTION_BOUND.as_secs();
        if replica.value(&format!("SELECT pg_promote(true, {bound_s})"))? == "t" {
            return Ok(());
        }
        let what = format!("node {} was not promoted within {bound_s} s", to.number + 1);
        Err(StoreError::new(StoreErrorKind::Broken, what).next("Read its log."))
    }

    fn follow(&self, node: Member<'_>, waits: &Waits) -> Result<(), StoreError> {
        let waits = &waits.with_answer(FOLLOW_BOUND);
        let mut replica = self.by_socket(&node).open(Arc::default(), "", &[], waits)?;
        if replica.value(IN_RECOVERY)? != "t" {
            return Err(StoreError::usage(format!("node {} is no replica", node.number + 1)));
        }
        let history = self.by_socket(node.primary_node()).open(Arc::default(), "", &[], waits)?.value(HISTORY)?;
        let forked_at = forked_at(&history)
            .ok_or_else(|| StoreError::new(StoreErrorKind::Broken, format!("no timeline was begun: {history:?}")))?;
        let has_more = "SELECT greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())";
        if replica.value(&format!("{has_more} > {}::pg_lsn", literal(forked_at)))? == "t" {
            let what = format!("node {} has received more than the primary had at its promotion", node.number + 1);
            return Err(StoreError::new(StoreErrorKind::Broken, what).next("rewind it"));
        }
        let primary = literal(&self.conninfo(&node, node.primary_node()));
        replica.simple(&format!("ALTER SYSTEM SET primary_conninfo = {primary}"))?;
        replica.simple("SELECT pg_reload_conf()").map(drop)
    }

    fn rejoin(&self, node: Member<'_>, waits: &Waits) -> Result<Option<Launch>, StoreError> {
        // Until its first checkpoint, pg_rewind takes the primary to be on the timeline before its promotion, and does
        // nothing.
        let mut primary = self.by_socket(node.primary_node()).open(Arc::default(), "", &[], waits)?;
        primary.work(|primary| primary.simple("CHECKPOINT"))?;
        let data = self.data_dir(&node).display().to_string();
        let source = format!("{} dbname={NAME}", self.conninfo(&node, node.primary_node()));
        let program = POSTGRES.find()?.with_file_name("pg_rewind").display().to_string();
        // A killed replica is recovered as a primary, which the mark of a replica would prevent; it is written again.
        let script = "rm -f \"$1/standby.signal\" && exec \"$2\" --target-pgdata \"$1\" --source-server \"$3\" \
                      --write-recovery-conf";
        let arguments = ["-c", script, "sh", &data, &program, &source];
        Ok(Some(Launch::new("pg_rewind", PathBuf::from("/bin/sh"), arguments)))
    }

    fn stage(&self, node: Member<'_>) -> usize {
        // Members of etcd wait for each other, and Patroni's replicas for their primary.
        if self.is_alone() || self.patroni.is_some() { 0 } else { usize::from(node.number != node.primary) }
    }

    fn files(&self, node: Member<'_>) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        if self.is_alone() {
            return Ok(Vec::new());
        }
        if self.is_pooler(node.number) {
            return Ok(pooler::files(node, &self.settings));
        }
        let pass = (PASS_FILE.to_owned(), format!("*:*:*:{NAME}:{}\n", node.secret).into_bytes());
        if let Some(patroni) = self.patroni {
            return Ok(patroni.files(self, node)?.into_iter().chain([pass]).collect());
        }
        let password = (PASSWORD_FILE.to_owned(), node.secret.clone().into_bytes());
        Ok(vec![(HBA_FILE.to_owned(), HBA.into()), password, pass])
    }

    fn set_up(&self, node: Member<'_>) -> Result<Option<Launch>, StoreError> {
        // Patroni makes the data directories itself.
        if self.is_pooler(node.number) || self.patroni.is_some() {
            return Ok(None);
        }
        let below = |name: &str| node.data_dir.join(name).display().to_string();
        let data = self.data_dir(&node).display().to_string();
        let log = node.log_dir.as_ref().map(|directory| format!("--waldir={}", directory.display()));
        if node.number > 0 && !self.is_alone() {
            let conninfo = self.conninfo(&node, node.primary_node());
            let mut arguments = vec!["-D", &data, "-d", &conninfo, "-R", "-X", "stream", "-c", "fast"];
            arguments.extend(log.as_deref());
            arguments.extend(self.synced_later.then_some("--no-sync"));
            return Ok(Some(Launch::new("pg_basebackup", POSTGRES.find()?.with_file_name("pg_basebackup"), arguments)));
        }
        // initdb syncs each file that it wrote. Without that the kernel would write it half a minute later, in a trial.
        let mut arguments =
            ["-D", &data, "-U", NAME, "-A", "trust", "-E", "UTF8", "--no-locale"].map(str::to_owned).to_vec();
        arguments.extend(log);
        arguments.extend(self.synced_later.then(|| "--no-sync".to_owned()));
        arguments.extend(self.checksums.then(|| "--data-checksums".to_owned()));
        arguments.extend((!self.is_alone()).then(|| format!("--pwfile={}", below(PASSWORD_FILE))));
        Ok(Some(Launch::new("initdb", POSTGRES.find()?.with_file_name("initdb"), arguments)))
    }

    fn launch(&self, node: Member<'_>) -> Result<Launch, StoreError> {
        if self.is_pooler(node.number) {
            return pooler::launch(&node);
        }
        // Without a mention the linker might leave it out.
        std::hint::black_box(&shared_memory::BEFORE_MAIN);
        if self.patroni.is_some() {
            return patroni::launch(node, &self.data_dir(&node));
        }
        let mut settings = vec![("unix_socket_directories".to_owned(), node.socket_dir.display().to_string())];
        if self.is_alone() {
            settings.push(("listen_addresses".to_owned(), String::new()));
        } else {
            let at = node.listens_at(0);
            let hba_file = node.data_dir.join(HBA_FILE).display().to_string();
            settings.extend([
                ("listen_addresses".to_owned(), at.ip().to_string()),
                ("port".to_owned(), at.port().to_string()),
                ("hba_file".to_owned(), hba_file),
            ]);
            settings.extend(REWOUND.map(|(name, value)| (name.to_owned(), value.to_owned())));
            if self.synchronous > 0 {
                let names = format!("ANY {} (*)", self.synchronous);
                settings.push(("synchronous_standby_names".to_owned(), names));
            }
        }
        let mut arguments = vec!["-D".to_owned(), self.data_dir(&node).display().to_string()];
        for (name, value) in settings.iter().chain(&self.settings) {
            arguments.extend(["-c".to_owned(), format!("{name}={value}")]);
        }
        Ok(Launch::new("postgres", POSTGRES.find()?, arguments))
    }

    fn version_marks(&self, node: usize) -> Result<&'static [&'static str], StoreError> {
        let what = match (self.is_front(node), self.patroni.is_some()) {
            (true, _) => "the node in front is no PostgreSQL, and keeps its program",
            (_, true) => "Patroni starts its PostgreSQL itself, with the program that it has found",
            _ => return Ok(&["postgres (PostgreSQL) "]),
        };
        Err(StoreError::usage(what).next("use postgres or postgres-replicas, and name a node that holds data"))
    }

    fn ready(&self, node: &Node, waits: &Waits) -> Result<(), StoreError> {
        let is_pooler = self.is_pooler(node.number);
        let endpoint = if is_pooler { self.endpoint(node) } else { self.by_socket(node) };
        endpoint.open(Arc::default(), "", &[], waits).map(drop)
    }

    fn progress(&self, node: Member<'_>, waits: &Waits) -> Result<Vec<Progress>, StoreError> {
        if self.is_pooler(node.number) {
            return Ok(Vec::new());
        }
        match self.by_socket(&node).open(Arc::default(), "", &[], waits) {
            Ok(mut connection) => progress::of(&mut connection, &node),
            Err(error) => progress::recovery(&node, &self.data_dir(&node)).map(|found| vec![found]).ok_or(error),
        }
    }

    fn hangs(&self, node: usize) -> Result<(), StoreError> {
        match self.is_front(node) {
            true => {
                let what = "PgBouncer serves all clients with one thread, and `hang` needs a thread for each";
                let next = "name another node, or suspend the whole PgBouncer: pause instead of hang";
                Err(StoreError::usage(what).next(next))
            }
            false => Ok(()),
        }
    }

    fn serving(&self, node: Member<'_>, waits: &Waits) -> Result<Vec<u32>, StoreError> {
        let answer = self.by_socket(&node).open(Arc::default(), "", &[], waits)?.simple(SERVING)?;
        Ok(answer.row_iter().filter_map(|row| text(row, 0).parse().ok()).collect())
    }

    fn works(&self, node: usize) -> &'static [&'static str] {
        match node {
            front if self.is_front(front) => &[],
            first if self.is_alone() || first == 0 => works::WORKS,
            _ => works::OF_REPLICA,
        }
    }

    fn work(&self, name: &str, node: Member<'_>, waits: &Waits) -> Result<Option<Launch>, StoreError> {
        if name == works::BACKUP {
            return self.backup(&node).map(Some);
        }
        works::rewrite(&self.by_socket(&node), name, waits).map(|()| None)
    }

    fn client_environment(&self, node: &Node) -> Vec<(&'static str, String)> {
        let (host, port) = match self.is_alone() {
            true => (node.socket_dir.display().to_string(), "5432".to_owned()),
            false => (node.address.to_string(), node.listens_at(0).port().to_string()),
        };
        let (user, database) = (NAME.to_owned(), NAME.to_owned());
        let password = ("PGPASSWORD", node.secret.clone());
        vec![("PGHOST", host), ("PGPORT", port), ("PGUSER", user), ("PGDATABASE", database), password]
    }

    fn takes_more(&self) -> Result<(), StoreError> {
        match self.is_alone() {
            _ if self.patroni.is_some() => Err(fixed_members()),
            true => Err(StoreError::usage("a PostgreSQL that was made alone takes no replicas")
                .next("make it with replicas: plimsoll lab up postgres-replicas")),
            // Each is made as a copy of the primary, and follows it.
            false => Ok(()),
        }
    }

    fn part(&self, node: Member<'_>, _: &Waits) -> Result<(), StoreError> {
        match node.number {
            _ if self.patroni.is_some() => Err(fixed_members()),
            pooler if self.is_pooler(pooler) => Err(StoreError::usage("sessions go through PgBouncer")
                .next("name a replica, or end the lab: plimsoll lab down NAME")),
            number if number == node.primary => {
                Err(StoreError::usage("a cluster of PostgreSQL cannot do without its primary")
                    .next("name a replica, or end the lab: plimsoll lab down NAME"))
            }
            _ => Ok(()),
        }
    }

    fn form(&self, nodes: &[Arc<Node>], waits: &Waits) -> Result<(), StoreError> {
        // pg_rewind recovers a killed server without the settings of its command line.
        let rewound = nodes.iter().filter(|_| self.promotes().is_ok() && !self.switches_over());
        rewound.map(|node| self.by_socket(node)).try_for_each(|endpoint| {
            let mut connection = endpoint.open(Arc::default(), "", &[], waits)?;
            let mut all = REWOUND.iter();
            all.try_for_each(|(name, value)| {
                connection.simple(&format!("ALTER SYSTEM SET {name} = '{value}'")).map(drop)
            })
        })
    }

    fn until_whole(&self, nodes: &[Arc<Node>], waits: &Waits) -> Result<(), StoreError> {
        let looks = waits.with_answer(LOOK_BOUND);
        let servers = nodes.iter().filter(|node| !self.is_alone() && !self.is_pooler(node.number)).count();
        let wanted = servers.saturating_sub(1).to_string();
        let look = || -> Result<Result<(), String>, StoreError> {
            // A former primary that was suspended shows replicas that left it.
            if self.patroni.is_some()
                && let Err(still) = patroni::look(nodes, &looks)?
            {
                return Ok(Err(still));
            }
            let Some(mut primary) = self.open_primary(nodes, &looks)? else {
                return Ok(Err("no node is the primary".to_owned()));
            };
            // A backup streams the log, too, under another name.
            let follow = primary.value(
                "SELECT count(*) FROM pg_stat_replication \
                 WHERE state = 'streaming' AND application_name LIKE 'node-%'",
            )?;
            if follow != wanted {
                return Ok(Err(format!("{follow} of {wanted} replicas follow the primary")));
            }
            // Patroni names those that a commit waits for when they follow already.
            let waited_for = "SELECT count(*) FROM pg_stat_replication WHERE sync_state <> 'async'";
            let is_whole = self.patroni.is_none() || primary.value(waited_for)? == self.synchronous.to_string();
            Ok(if is_whole { Ok(()) } else { Err("Patroni has not chosen synchronous replicas".to_owned()) })
        };
        let interval = if self.patroni.is_some() { patroni::LOOK_INTERVAL } else { LOOK_INTERVAL };
        waits.until(interval, "Read the nodes' logs", || match look() {
            // Patroni restarts servers that it gives another role.
            Err(error) if self.patroni.is_some() && error.kind == StoreErrorKind::Unreachable => Ok(Err(error.what)),
            looked => looked,
        })
    }
}

/// Returns the position at which the newest timeline of a history began.
fn forked_at(history: &str) -> Option<&str> {
    history.lines().rev().find_map(|line| line.split('\t').nth(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_begins_where_the_last_line_of_its_history_says() {
        let history = "1\t0/24F209B0\tno recovery target specified\n\n2\t0/2A2E3E10\tno recovery target specified\n";
        assert_eq!(forked_at(history), Some("0/2A2E3E10"));
        assert_eq!(forked_at(""), None);
    }
}
