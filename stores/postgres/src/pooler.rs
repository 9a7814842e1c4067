//! A PgBouncer in front of a private PostgreSQL, on a host of its own.
//!
//! It pools sessions: each client has a connection to the server for as long as it stays, so that prepared statements and
//! settings are its own, and its errors are the server's.

use plimsoll_core::{Launch, Member, Node, StoreError};
use plimsoll_lab::Program;

use crate::server::NAME;

/// PgBouncer.
pub(crate) const PGBOUNCER: Program = Program { name: "pgbouncer", directories: &["/usr/sbin"], package: "pgbouncer" };
/// Ports where PgBouncer listens.
pub(crate) const PORTS: [u16; 1] = [6432];
/// Configuration, and the users that may log in.
const CONFIG_FILE: &str = "pgbouncer.ini";
const USERS_FILE: &str = "userlist.txt";
/// Connections that PostgreSQL takes by default, without those of superusers' own and the one that controls.
const CONNECTIONS: u64 = 100;
const CONNECTIONS_KEPT: u64 = 5;

/// Returns the files of PgBouncer: the primary's address, and the only user with the password of all nodes.
pub(crate) fn files(node: Member<'_>, settings: &[(String, String)]) -> Vec<(String, Vec<u8>)> {
    let (own, primary) = (node.listens_at(0), node.nodes[0].listens_at(0));
    let below = |name: &str| node.data_dir.join(name).display().to_string();
    let given = settings.iter().rev().find(|(name, _)| name == "max_connections");
    let most = given.and_then(|(_, most)| most.parse().ok()).unwrap_or(CONNECTIONS);
    let config = format!(
        "[databases]\n\
         {NAME} = host={} port={} dbname={NAME}\n\
         [pgbouncer]\n\
         listen_addr = {}\n\
         listen_port = {}\n\
         unix_socket_dir = {}\n\
         auth_type = scram-sha-256\n\
         auth_file = {}\n\
         admin_users = {NAME}\n\
         pool_mode = session\n\
         default_pool_size = {}\n\
         max_client_conn = 10000\n",
        primary.ip(),
        primary.port(),
        own.ip(),
        own.port(),
        node.socket_dir.display(),
        below(USERS_FILE),
        most.saturating_sub(CONNECTIONS_KEPT).max(1),
    );
    let users = format!("\"{NAME}\" \"{}\"\n", node.secret);
    vec![(CONFIG_FILE.to_owned(), config.into_bytes()), (USERS_FILE.to_owned(), users.into_bytes())]
}

/// Starts PgBouncer in the foreground with its log on standard error.
pub(crate) fn launch(node: &Node) -> Result<Launch, StoreError> {
    let config = node.data_dir.join(CONFIG_FILE).display().to_string();
    Ok(Launch::new("pgbouncer", PGBOUNCER.find()?, [config]))
}
