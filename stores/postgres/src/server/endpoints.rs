//! Endpoints of the nodes of a private PostgreSQL, for sessions and for each other.

use std::sync::Arc;

use plimsoll_core::{Address, Node, Recipe, StoreError, Waits};
use plimsoll_endpoint::Password;

use super::{IN_RECOVERY, NAME, PASS_FILE, PostgresRecipe};
use crate::connection::Connection;
use crate::reach::Endpoint;
use crate::wire::Login;

impl PostgresRecipe {
    /// Returns the endpoint of driven sessions: [`PostgresRecipe::endpoint`] of the first node, or that of a pooler or proxy.
    pub fn sessions_at(&self, nodes: &[Arc<Node>]) -> Endpoint {
        let front = nodes.iter().find(|node| self.is_front(node.number));
        self.endpoint(front.unwrap_or(&nodes[0]))
    }

    /// Returns those of `nodes` that follow the primary and answer reads.
    pub(crate) fn replicas(&self, nodes: &[Arc<Node>]) -> Vec<Endpoint> {
        if let Some(proxy) = nodes.iter().find(|node| self.proxied && self.is_front(node.number)) {
            // Behind its second port.
            let login = self.endpoint(proxy).login;
            let address = Address::Tcp(proxy.address.to_string(), proxy.listens_at(1).port());
            return vec![Endpoint::plain(address, (*login).clone())];
        }
        let replicas = nodes.iter().filter(|node| self.role(node.number) == "replica");
        let named = |node: &Arc<Node>| {
            let Endpoint { address, login, .. } = self.endpoint(node);
            let place = format!("node {} of {}", node.number + 1, login.place);
            Endpoint::plain(address, Login { place, ..(*login).clone() })
        };
        replicas.map(named).collect()
    }

    /// Returns the endpoint of a node: a socket without a password for the only node, or the network.
    pub fn endpoint(&self, node: &Node) -> Endpoint {
        if self.is_alone() {
            return self.by_socket(node);
        }
        let address = Address::Tcp(node.address.to_string(), node.listens_at(0).port());
        let login = Login { password: Some(Password::new(node.secret.as_str())), ..login() };
        Endpoint::plain(address, login)
    }

    /// Returns the endpoint of the node's socket.
    pub(super) fn by_socket(&self, node: &Node) -> Endpoint {
        Endpoint::plain(Address::Unix(node.socket_dir.join(format!(".s.PGSQL.{}", self.port(node)))), login())
    }

    /// Returns the port of a node, which is a part of its socket's name.
    pub(super) fn port(&self, node: &Node) -> String {
        let port = self.settings.iter().find(|(name, _)| name == "port").map_or("5432", |(_, port)| port);
        if self.is_alone() { port.to_owned() } else { node.listens_at(0).port().to_string() }
    }

    /// Returns the connection string with which a node follows `primary`.
    pub(super) fn conninfo(&self, node: &Node, primary: &Node) -> String {
        let at = primary.listens_at(0);
        let (passfile, number) = (node.data_dir.join(PASS_FILE), node.number + 1);
        format!(
            "host={} port={} user={NAME} passfile='{}' application_name=node-{number}",
            at.ip(),
            at.port(),
            passfile.display()
        )
    }

    /// Opens a connection to the first node that takes writes; `None` if no node does.
    pub(super) fn open_primary(&self, nodes: &[Arc<Node>], looks: &Waits) -> Result<Option<Connection>, StoreError> {
        if self.is_alone() {
            return self.by_socket(&nodes[0]).open(Arc::default(), "", &[], looks).map(Some);
        }
        for node in nodes.iter().filter(|node| !self.is_pooler(node.number)) {
            let mut connection = self.by_socket(node).open(Arc::default(), "", &[], looks)?;
            if connection.value(IN_RECOVERY)? == "f" {
                return Ok(Some(connection));
            }
        }
        Ok(None)
    }
}

fn login() -> Login {
    Login {
        user: NAME.to_owned(),
        database: NAME.to_owned(),
        application_name: "plimsoll".to_owned(),
        place: "the private PostgreSQL".to_owned(),
        ..Login::default()
    }
}
