//! Private servers of the rows, each started when a row first needs it. They end with this program.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use plimsoll_core::{Node, Nodes, Recipe, ServerDescription};
use plimsoll_lab::Cluster;
use plimsoll_lab::described::DescribedServer;
use plimsoll_store_mariadb::MariadbRecipe;
use plimsoll_store_postgres::PostgresRecipe;
use plimsoll_store_postgres::server::POSTGRES;
use plimsoll_trace::with_descendants;

use crate::Result;

/// Directories for the servers' files, best first.
const BASES: [&str; 2] = ["/tmp", "/var/tmp"];
/// Configuration of one process with a page of 612 bytes, as nginx's own page, that ends no connection by itself.
const NGINX: &str =
    "daemon off; master_process off; pid nginx.pid; error_log stderr warn; events { worker_connections 1024; }
http { access_log off; types { text/html html; } sendfile on; keepalive_timeout 1d; keepalive_time 1d;
keepalive_requests 1000000000; client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f;
uwsgi_temp_path u; scgi_temp_path s;
server { listen 127.0.0.1:{port}; root files; index index.html; } }
";

/// Servers that were started so far.
#[derive(Default)]
pub struct Servers {
    running: BTreeMap<&'static str, Cluster>,
    postgres_port: u16,
    prepared: BTreeSet<&'static str>,
}

impl Servers {
    fn node(&mut self, name: &'static str, recipe: impl FnOnce() -> Box<dyn Recipe>) -> Result<Arc<Node>> {
        if !self.running.contains_key(name) {
            let (bases, logs) = (BASES.map(PathBuf::from), std::env::temp_dir());
            let cluster = Cluster::start(recipe(), &bases, &logs, &Default::default(), &mut |_| {})?;
            self.running.insert(name, cluster);
        }
        self.running.get(name).map(|cluster| cluster.first()).ok_or_else(|| "it was just started".into())
    }

    /// Returns the socket's directory and the port of PostgreSQL.
    pub fn postgres(&mut self) -> Result<(String, u16)> {
        if self.postgres_port == 0 {
            self.postgres_port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        }
        let port = self.postgres_port;
        let node = self.node("postgres", || {
            let settings = [("listen_addresses", "127.0.0.1".to_owned()), ("port", port.to_string())];
            let settings = settings.map(|(name, value)| (name.to_owned(), value)).into();
            Box::new(PostgresRecipe { settings, ..Default::default() })
        })?;
        Ok((node.socket_dir.display().to_string(), port))
    }

    /// Returns the socket of MariaDB.
    pub fn mariadb(&mut self) -> Result<String> {
        let settings = vec![("innodb-buffer-pool-size".to_owned(), "512M".to_owned())];
        let node = self.node("mariadb", || Box::new(MariadbRecipe { settings, ..Default::default() }))?;
        Ok(node.socket_dir.join("socket").display().to_string())
    }

    /// Returns the port of Redis, with the settings that a `buffered` drive demands.
    pub fn redis(&mut self) -> Result<u16> {
        self.described("redis", || ServerDescription {
            command:
                "redis-server --port {port} --bind 127.0.0.1 --save '' --appendonly yes --appendfsync no --dir {data}"
                    .to_owned(),
            ..ServerDescription::default()
        })
    }

    /// Returns the port of nginx.
    pub fn nginx(&mut self) -> Result<u16> {
        self.described("nginx", || ServerDescription {
            command: "nginx -e stderr -p {data} -c {data}/nginx.conf".to_owned(),
            files: [("nginx.conf", NGINX.to_owned()), ("files/index.html", "x".repeat(612))]
                .map(|(name, text)| (name.to_owned(), text))
                .into(),
            ..ServerDescription::default()
        })
    }

    fn described(&mut self, name: &'static str, server: impl FnOnce() -> ServerDescription) -> Result<u16> {
        let url = "tcp://127.0.0.1:{port}".to_owned();
        let node = self.node(name, || Box::new(DescribedServer(ServerDescription { url, ..server() })))?;
        Ok(node.listens_at(0).port())
    }

    /// Prepares a server, unless the preparation with the name `what` has succeeded already.
    ///
    /// # Errors
    /// Fails as `preparation` does.
    pub fn once(&mut self, what: &'static str, preparation: impl FnOnce() -> Result) -> Result {
        if !self.prepared.contains(what) {
            preparation().map_err(|error| format!("{what}: {error}"))?;
            self.prepared.insert(what);
        }
        Ok(())
    }

    /// Returns the processes at the roots of all servers.
    pub fn pids(&self) -> Vec<u32> {
        self.running.values().flat_map(|cluster| cluster.pids()).collect()
    }

    /// Binds all threads of the servers to these processors, a list as taskset(1) takes it.
    pub fn bind(&self, processors: &str) -> Result {
        for pid in with_descendants(&self.pids()) {
            // A process may have ended meanwhile.
            Command::new("taskset").args(["-a", "-c", "-p", processors, &pid.to_string()]).output()?;
        }
        Ok(())
    }

    /// Stops (SIGSTOP) all servers, or resumes them.
    pub fn pause(&self, is_stopped: bool) -> Result {
        for cluster in self.running.values() {
            match is_stopped {
                true => cluster.pause(Nodes::All)?,
                false => cluster.resume(Nodes::All)?,
            };
        }
        Ok(())
    }

    /// Ends all servers and removes their files.
    pub fn close(self) -> Result {
        self.running.into_values().try_for_each(|cluster| Ok(cluster.close()?))
    }
}

/// Runs a command to its end.
///
/// # Errors
/// Fails if the command fails, with its standard error.
pub fn quietly(command: &mut Command) -> Result {
    let done = command.stdin(Stdio::null()).output()?;
    match done.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&done.stderr).into()),
    }
}

/// Returns a program beside PostgreSQL's server: `psql`, `pgbench`.
pub fn beside_postgres(name: &str) -> Result<Command> {
    Ok(Command::new(POSTGRES.find()?.with_file_name(name)))
}
