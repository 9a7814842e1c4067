//! The hosts of a URL: names, addresses or socket directories, each with its port.

use std::path::Path;

use plimsoll_core::{Address, StoreError};
use plimsoll_endpoint::{port, shown_host, usage};

use super::{Parameters, SOCKET_DIRS};

const PORT: u16 = 5432;

/// Host of a URL.
pub(super) struct Place {
    /// Name, address, or directory with the server's socket.
    pub(super) host: String,
    /// Address, if no look-up is needed.
    address: Option<String>,
    pub(super) port: u16,
}

impl Place {
    /// Connections to it go through a socket in the file system.
    pub(super) fn is_local(&self) -> bool {
        self.address.is_none() && self.host.starts_with(['/', '@'])
    }

    pub(super) fn address(&self) -> Address {
        match &self.address {
            Some(address) => Address::Tcp(address.clone(), self.port),
            None if self.is_local() => Address::Unix(Path::new(&self.host).join(format!(".s.PGSQL.{}", self.port))),
            None => Address::Tcp(self.host.clone(), self.port),
        }
    }

    /// Formats the place as a URL without user and password.
    pub(super) fn shown(&self, database: &str) -> String {
        let Place { host, port, .. } = self;
        match self.is_local() {
            true if *port == PORT => format!("postgres:///{database}?host={host}"),
            true => format!("postgres:///{database}?host={host}&port={port}"),
            false => format!("postgres://{}:{port}/{database}", shown_host(host)),
        }
    }
}

/// The hosts in the order in which they are to be tried. A port stands for all of them, or there is one for each.
pub(super) fn of(parameters: &Parameters) -> Result<Vec<Place>, StoreError> {
    let list = |name: &str| -> Vec<String> {
        parameters
            .get(name)
            .map(|text| text.split(',').map(|item| item.trim().to_owned()).collect())
            .unwrap_or_default()
    };
    let (hosts, addresses, ports) = (list("host"), list("hostaddr"), list("port"));
    let count = hosts.len().max(addresses.len()).max(1);
    if !hosts.is_empty() && !addresses.is_empty() && hosts.len() != addresses.len() {
        return Err(usage(
            format!("there are {} hosts and {} addresses (hostaddr)", hosts.len(), addresses.len()),
            "Give an address for each host; leave out those that are to be looked up, but not their commas.",
        ));
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(usage(
            format!("there are {} ports for {count} hosts", ports.len()),
            "Give one port for all, or one for each.",
        ));
    }
    let mut places = Vec::new();
    for position in 0..count {
        let given = |list: &[String]| list.get(position).filter(|item| !item.is_empty()).cloned();
        let port = match ports.get(position).or(ports.first()).filter(|port| !port.is_empty()) {
            None => PORT,
            Some(text) => port(text, "Write it as in postgres://host:5432/db")?,
        };
        let address = given(&addresses);
        if let Some(address) = &address
            && address.parse::<std::net::IpAddr>().is_err()
        {
            return Err(usage(
                "hostaddr is not a numeric address",
                "Write a name as host=, and an address as 127.0.0.1",
            ));
        }
        let host = given(&hosts).or_else(|| address.clone()).unwrap_or_else(|| default_host(port));
        if host.starts_with('@') {
            return Err(usage("the host names an abstract socket", "Name a directory: host=/run/postgresql"));
        }
        places.push(Place { host, address, port });
    }
    Ok(places)
}

fn default_host(port: u16) -> String {
    let listening = |dir: &&&str| Path::new(dir).join(format!(".s.PGSQL.{port}")).exists();
    SOCKET_DIRS.iter().find(listening).map_or_else(|| "localhost".to_owned(), |dir| (*dir).to_owned())
}
