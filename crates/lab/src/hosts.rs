//! Hosts made of network namespaces, connected by a bridge in a namespace of its own.
//!
//! ```text
//!      host 1            host 2        load           each a namespace with its own loopback interface
//!     10.77.0.1         10.77.0.2   10.77.255.254     and one other, `eth0`
//!         │                 │           │
//!         └────────── bridge ───────────┘             a namespace that has no address at all
//! ```
//!
//! Clients run on the load host, or on client hosts of their own: 10.77.255.1, 10.77.255.2 …
//!
//! No route leads out, so programs there reach only other hosts. No namespace has a name and nothing is mounted: each
//! lives as long as this process has a file open on it or a process is in it, and its interfaces end with it. Nothing
//! is left, however this process dies.

mod cable;
mod connections;
mod namespace;
mod netlink;
mod owner;
mod packet_socket;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use plimsoll_core::link::CLIENT_HOSTS_MAX;
use plimsoll_core::{Link, StoreError, StoreErrorKind};

use cable::{Cable, Peer, PeerLink};
pub(crate) use connections::reset_connections;
pub use connections::{own_peers, reset_own_connections, resets_must_be_possible};
use namespace::Namespace;
pub use namespace::{NamespaceGuard, ThreadNetwork};
pub(crate) use namespace::{at_home, go_into};
use netlink::Netlink;
#[cfg(test)]
pub(crate) use owner::without;
pub use owner::{become_owner, join_owner};

/// Network of all hosts, and the length of its prefix.
const NETWORK: [u8; 2] = [10, 77];
const PREFIX_BITS: u8 = 16;
/// First bytes of the addresses of the load host and of client hosts; no other host has them.
const CLIENTS: [u8; 3] = [NETWORK[0], NETWORK[1], 255];
/// Address of the load host, from which operations are sent unless a drive has client hosts.
pub(crate) const LOAD: Ipv4Addr = Ipv4Addr::new(CLIENTS[0], CLIENTS[1], CLIENTS[2], 254);
/// Most hosts that one process makes, before numbers are reused.
const HOSTS_MAX: u16 = 60_000;
/// Name of a host's interface.
const INTERFACE: &str = "eth0";
/// Name of the bridge.
const BRIDGE: &str = "bridge";
/// Number of segments that an interface accepts as one frame, the kernel's default (`GSO_MAX_SEGS`).
const SEGMENTS_MAX: u32 = 65_535;
/// Longest wait for the kernel to send through an interface that is up.
const OPERATIONAL_MAX: Duration = Duration::from_secs(2);

/// Network of this process, while it is in use.
static SHARED: Mutex<Weak<Network>> = Mutex::new(Weak::new());

/// A bridge, the load host, and client hosts.
pub struct Network {
    /// Configures interfaces in the bridge's namespace.
    switch: Mutex<Netlink>,
    bridge: Namespace,
    load: Namespace,
    /// Client hosts made so far, by their numbers.
    client_hosts: Mutex<Vec<Namespace>>,
    next: AtomicU16,
}

impl Network {
    /// Returns the network of this process, which all its clusters share.
    ///
    /// # Errors
    /// `Permission` or `Missing`, with the requirements, if hosts cannot be made.
    pub fn shared() -> Result<Arc<Network>, StoreError> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(network) = shared.upgrade() {
            return Ok(network);
        }
        let network = Arc::new(Self::make()?);
        *shared = Arc::downgrade(&network);
        Ok(network)
    }

    fn make() -> Result<Network, StoreError> {
        let (bridge, switch) = Namespace::make(|| {
            let mut switch = Netlink::open()?;
            switch.add_bridge(BRIDGE)?;
            for packets in ["iptables", "ip6tables", "arptables"] {
                // Otherwise frames pass netfilter hooks without rules, which takes time. Not every kernel has them.
                let _ = std::fs::write(format!("/proc/sys/net/bridge/bridge-nf-call-{packets}"), "0");
            }
            Ok(switch)
        })
        .map_err(|error| refused(&error))?;
        let switch = Mutex::new(switch);
        let (load, _) = connected(&switch, &bridge, LOAD, "load")?;
        Ok(Network { switch, bridge, load, client_hosts: Mutex::default(), next: AtomicU16::new(0) })
    }

    /// Adds a host.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn add_host(self: &Arc<Self>) -> Result<Host, StoreError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed) % HOSTS_MAX;
        let [high, low] = (number / 250, number % 250 + 1).into();
        let address = Ipv4Addr::new(NETWORK[0], NETWORK[1], high as u8, low as u8);
        let port = format!("host{number}");
        let (namespace, own) = connected(&self.switch, &self.bridge, address, &port)?;
        let link = Mutex::new(Connection { own, cable: None, link: Link::default() });
        Ok(Host { address, namespace, port, link, network: Arc::clone(self) })
    }

    /// Returns the paths of the network namespaces of the first `count` client hosts, as [`Network::namespace`]. Makes
    /// those that do not exist yet; all live as long as this network.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn client_hosts(&self, count: u32) -> Result<Vec<PathBuf>, StoreError> {
        let mut hosts = self.client_hosts.lock().unwrap_or_else(PoisonError::into_inner);
        for number in hosts.len()..count as usize {
            let port = format!("client{number}");
            let (namespace, _) = connected(&self.switch, &self.bridge, client_host(number), &port)?;
            hosts.push(namespace);
        }
        Ok(hosts.iter().take(count as usize).map(Namespace::path).collect())
    }

    /// Returns the address of the load host.
    pub fn address(&self) -> Ipv4Addr {
        LOAD
    }

    /// Returns the path under which another process of this user can open the load host's network namespace.
    pub fn namespace(&self) -> PathBuf {
        self.load.path()
    }

    /// Moves the calling thread into the network namespace of the load host. Threads and processes started from it
    /// inherit the namespace. Dropping the guard moves the thread back.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn enter(&self) -> Result<NamespaceGuard, StoreError> {
        self.load.enter().map_err(|error| StoreError::io("the network of the load host", &error))
    }
}

/// A host that servers run on.
pub struct Host {
    address: Ipv4Addr,
    namespace: Namespace,
    /// Peer of its interface, in the bridge's namespace.
    port: String,
    link: Mutex<Connection>,
    network: Arc<Network>,
}

/// Connection between a host and the bridge.
struct Connection {
    /// Configures interfaces in the host's namespace.
    own: Netlink,
    /// `None` if the host's port is a port of the bridge.
    cable: Option<Cable>,
    /// Current link.
    link: Link,
}

impl Host {
    /// Returns the host's address.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Returns the path under which another process of this user can open the host's network namespace.
    pub fn namespace(&self) -> PathBuf {
        self.namespace.path()
    }

    /// Moves the calling thread into the host's network namespace. Threads and processes started from it inherit the
    /// namespace. Dropping the guard moves the thread back.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn enter(&self) -> Result<NamespaceGuard, StoreError> {
        self.namespace.enter().map_err(|error| StoreError::io(format_args!("the network of {}", self.address), &error))
    }

    /// Sets the link between the host and the bridge: between two hosts a frame takes the delays of both. Connections
    /// survive. No frame is lost by the change; a few may arrive twice. Frames in transit arrive at their times, or
    /// immediately if the link becomes the default one.
    ///
    /// # Errors
    /// `Usage` if the link is not valid; otherwise errors of the kernel.
    pub fn set_link(&self, link: Link) -> Result<(), StoreError> {
        self.set(link, None)
    }

    /// Sets the link between the host and the one at `peer`; frames from and to other hosts pass as on the default link.
    ///
    /// # Errors
    /// As [`Host::set_link`].
    pub fn set_link_to(&self, link: Link, peer: Ipv4Addr) -> Result<(), StoreError> {
        self.set(link, Some(Peer::Host(peer)))
    }

    /// Sets the link between the host and those where clients run, the load host and all client hosts; frames from and
    /// to other hosts pass as on the default link.
    ///
    /// # Errors
    /// As [`Host::set_link`].
    pub fn set_link_to_clients(&self, link: Link) -> Result<(), StoreError> {
        self.set(link, Some(Peer::Clients))
    }

    fn set(&self, link: Link, peer: Option<Peer>) -> Result<(), StoreError> {
        link.check()?;
        let mut connection = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let done = match &connection.cable {
            Some(_) if link == Link::default() => self.plug_in(&mut connection),
            Some(cable) => {
                cable.set((link, peer));
                Ok(())
            }
            None if link == Link::default() => Ok(()),
            None => self.lay_cable(&mut connection, (link, peer)).inspect_err(|_| drop(self.plug_in(&mut connection))),
        };
        connection.link = if done.is_ok() { link } else { Link::default() };
        done.map_err(|error| StoreError::io(format_args!("the link of {}", self.address), &error))
    }

    /// Returns the host's link.
    pub fn link(&self) -> Link {
        self.link.lock().unwrap_or_else(PoisonError::into_inner).link
    }

    /// Inserts a cable between the host's port and the bridge. Both ways exist before frames change from one to the other.
    fn lay_cable(&self, connection: &mut Connection, link: PeerLink) -> std::io::Result<()> {
        let [near, far] = self.cable_ends();
        let mut switch = self.network.switch.lock().unwrap_or_else(PoisonError::into_inner);
        switch.add_veth(&far, &near, self.network.bridge.file())?;
        // Makes the interface pass frames one by one, so that each has its own loss and delay.
        switch.set_segments_max(&near, 1)?;
        connection.own.set_segments_max(INTERFACE, 1)?;
        switch.set_up(&far)?;
        switch.enslave(&near, BRIDGE)?;
        // A port that comes up forwards frames, also one that was told not to: the host's may be new, too.
        for port in [&near, &far, &self.port] {
            await_operational(&mut switch, port)?;
        }
        // The addresses behind the two ports are set. Otherwise the bridge would learn the host's address at both.
        switch.set_port(&near, true, false)?;
        switch.set_port(&self.port, true, false)?;
        let place = self.network.bridge.file().try_clone_to_owned()?;
        let cable = connection.cable.insert(Cable::lay(place, [self.port.clone(), far], link)?);
        cable.receive_from_bridge()?;
        switch.forward_to(&near, hardware_address(self.address), true)?;
        // Frames that the host sends between these two steps arrive twice; in the other order they would be lost.
        cable.receive_from_host()?;
        switch.set_port(&self.port, false, false)
    }

    /// Makes frames pass through the host's port, without a cable.
    fn plug_in(&self, connection: &mut Connection) -> std::io::Result<()> {
        let [near, _] = self.cable_ends();
        let cable = connection.cable.take();
        let mut switch = self.network.switch.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = self.pass_through_port(&mut switch, cable.as_ref());
        // Delivers what the cable has received.
        drop(cable);
        let removed = switch.remove(&near);
        connection.own.set_segments_max(INTERFACE, SEGMENTS_MAX)?;
        passed.and(removed)
    }

    /// Makes frames pass through the host's port, and no longer through its cable.
    fn pass_through_port(&self, switch: &mut Netlink, cable: Option<&Cable>) -> std::io::Result<()> {
        if let Some(cable) = cable {
            // Otherwise new frames would overtake those in transit.
            cable.set((Link::default(), None));
            cable.empty();
        }
        // As above, frames that the host sends between these two steps arrive twice.
        switch.set_port(&self.port, true, false)?;
        if let Some(cable) = cable {
            cable.ignore_host()?;
        }
        switch.forward_to(&self.port, hardware_address(self.address), false)?;
        switch.set_port(&self.port, true, true)
    }

    fn cable_ends(&self) -> [String; 2] {
        ["near", "far"].map(|end| self.port.replace("host", end))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The interfaces of a cable are in the bridge's namespace, which outlives this host.
        let _ = self.set_link(Link::default());
    }
}

/// Returns the address of the client host with this number, from 0.
pub fn client_host(number: usize) -> Ipv4Addr {
    let last = number.min(CLIENT_HOSTS_MAX as usize) as u8 + 1;
    Ipv4Addr::new(CLIENTS[0], CLIENTS[1], CLIENTS[2], last)
}

/// Moves the calling thread into the network namespace at `path` until the guard is dropped.
pub(crate) fn enter_at(path: &Path) -> std::io::Result<NamespaceGuard> {
    Namespace::open(path)?.enter()
}

/// Waits until the kernel sends through an interface that is up.
fn await_operational(switch: &mut Netlink, interface: &str) -> std::io::Result<()> {
    let until = Instant::now() + OPERATIONAL_MAX;
    while !switch.is_operational(interface)? {
        if Instant::now() >= until {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Returns the hardware address of the host with this address: locally administered, and of no other host.
fn hardware_address(address: Ipv4Addr) -> [u8; 6] {
    let [one, two, three, four] = address.octets();
    [2, 0, one, two, three, four]
}

/// Makes a namespace with `address`, connected to the bridge at a port called `port`.
fn connected(
    switch: &Mutex<Netlink>,
    bridge: &Namespace,
    address: Ipv4Addr,
    port: &str,
) -> Result<(Namespace, Netlink), StoreError> {
    let (namespace, link) = Namespace::make(|| {
        let mut link = Netlink::open()?;
        link.set_up("lo")?;
        link.add_veth(INTERFACE, port, bridge.file())?;
        link.set_hardware_address(INTERFACE, hardware_address(address))?;
        link.add_address(INTERFACE, address, PREFIX_BITS)?;
        link.set_up(INTERFACE)?;
        Ok(link)
    })
    .map_err(|error| refused(&error))?;
    let mut switch = switch.lock().unwrap_or_else(PoisonError::into_inner);
    switch.enslave(port, BRIDGE).map_err(|error| refused(&error))?;
    Ok((namespace, link))
}

/// Returns the error for hosts that cannot be made.
fn refused(error: &std::io::Error) -> StoreError {
    let (kind, next) = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => (
            StoreErrorKind::Permission,
            "run as root, in a container with CAP_SYS_ADMIN and CAP_NET_ADMIN, or allow user namespaces: \
             sysctl user.max_user_namespaces=10000 kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS) => {
            (StoreErrorKind::Missing, "the kernel needs network namespaces, bridge and veth: modprobe bridge veth")
        }
        _ => (StoreErrorKind::Broken, "see what is missing: plimsoll doctor"),
    };
    StoreError::new(kind, "cannot make hosts for servers on this machine").detail(error.to_string()).next(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_has_no_bridges_is_told_from_a_user_who_may_make_none() {
        let said = |errno| refused(&std::io::Error::from_raw_os_error(errno));
        let lacks = said(libc::EOPNOTSUPP);
        assert_eq!(lacks.kind, StoreErrorKind::Missing);
        assert!(lacks.next.unwrap().contains("modprobe bridge veth"));
        assert!(lacks.what.contains("cannot make hosts for servers"));
        assert_eq!(said(libc::EPERM).kind, StoreErrorKind::Permission);
        assert!(said(libc::EPERM).next.unwrap().contains("run as root"));
    }
}
