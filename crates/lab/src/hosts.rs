//! Hosts made of network namespaces, connected by a bridge in a namespace of its own.
//!
//! ```text
//!      host 1            host 2        load           each a namespace with its own loopback interface
//!     10.77.0.1         10.77.0.2   10.77.255.254     and one other, `eth0`
//!         │                 │           │
//!         └────────── bridge ───────────┘             a namespace that has no address at all
//! ```
//!
//! There is no route out, so nothing that runs there reaches anything but other hosts. No name is given to any
//! namespace and nothing is mounted: each lives as long as a file of this process is open on it or a process is in it, and its
//! interfaces go with it. So nothing is left however this process dies.

mod cable;
mod namespace;
mod netlink;
mod owner;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use plimsoll_core::{StoreError, StoreErrorKind};

use cable::Cable;
pub use cable::Link;
pub use namespace::Entered;
use namespace::Namespace;
pub(crate) use namespace::go_into;
use netlink::Netlink;
pub use owner::{become_owner, join_owner};

/// The network of all hosts, and the length of its prefix.
const NETWORK: [u8; 2] = [10, 77];
const PREFIX_BITS: u8 = 16;
/// Where operations are sent from.
const LOAD: Ipv4Addr = Ipv4Addr::new(NETWORK[0], NETWORK[1], 255, 254);
/// Most hosts that one process makes, before numbers are used again.
const HOSTS_MAX: u16 = 60_000;
/// The name of a host's interface.
const INTERFACE: &str = "eth0";
/// The name of the bridge.
const BRIDGE: &str = "bridge";
/// How many frames an interface takes as one, as the kernel has it where nobody said otherwise (`GSO_MAX_SEGS`).
const SEGMENTS_MAX: u32 = 65_535;

/// The one of this process, while anybody needs it.
static SHARED: Mutex<Weak<Network>> = Mutex::new(Weak::new());

/// A bridge, and the host that operations are sent from.
pub struct Network {
    /// Speaks to the kernel about the bridge's namespace.
    switch: Mutex<Netlink>,
    bridge: Namespace,
    load: Namespace,
    next: AtomicU16,
}

impl Network {
    /// The network of this process: all clusters of it are on the same one.
    ///
    /// # Errors
    /// `Permission` or `Missing`, with what has to be there, where hosts cannot be made.
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
                // Frames would pass filters that have no rules, which takes time. Not every kernel has them.
                let _ = std::fs::write(format!("/proc/sys/net/bridge/bridge-nf-call-{packets}"), "0");
            }
            Ok(switch)
        })
        .map_err(|error| refused(&error))?;
        let switch = Mutex::new(switch);
        let (load, _) = connected(&switch, &bridge, LOAD, "load")?;
        Ok(Network { switch, bridge, load, next: AtomicU16::new(0) })
    }

    /// Connects one more host.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn add_host(self: &Arc<Self>) -> Result<Host, StoreError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed) % HOSTS_MAX;
        let [high, low] = (number / 250, number % 250 + 1).into();
        let address = Ipv4Addr::new(NETWORK[0], NETWORK[1], high as u8, low as u8);
        let port = format!("host{number}");
        let (namespace, own) = connected(&self.switch, &self.bridge, address, &port)?;
        let link = Mutex::new(Connection { own, cable: None, link: Link::default() });
        Ok(Host { address, namespace, port, link, network: Arc::clone(self) })
    }

    /// The address of the host that operations are sent from.
    pub fn address(&self) -> Ipv4Addr {
        LOAD
    }

    /// Where another process of this user opens that host's network namespace.
    pub fn namespace(&self) -> PathBuf {
        self.load.path()
    }

    /// Has the calling thread, with what it starts meanwhile, in the network of the host that operations are sent
    /// from, until the value is dropped.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn enter(&self) -> Result<Entered, StoreError> {
        self.load.enter().map_err(|error| StoreError::io("the network of the load host", &error))
    }
}

/// A host that servers run on.
pub struct Host {
    address: Ipv4Addr,
    namespace: Namespace,
    /// The other end of its interface, where the bridge is.
    port: String,
    link: Mutex<Connection>,
    network: Arc<Network>,
}

/// What is between a host and the bridge.
struct Connection {
    /// Speaks to the kernel about the host's namespace.
    own: Netlink,
    /// Nothing where the host's port is one of the bridge.
    cable: Option<Cable>,
    /// What it does.
    link: Link,
}

impl Host {
    /// Its address.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Where another process of this user opens its network namespace.
    pub fn namespace(&self) -> PathBuf {
        self.namespace.path()
    }

    /// Has the calling thread, with what it starts meanwhile, in its network until the value is dropped.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn enter(&self) -> Result<Entered, StoreError> {
        self.namespace.enter().map_err(|error| StoreError::io(format_args!("the network of {}", self.address), &error))
    }

    /// Has this link between the host and the bridge from now on, in both directions: between two hosts a frame takes the
    /// delays of both. Connections live on. Frames that are underway arrive, unless the link becomes the default one.
    ///
    /// # Errors
    /// `Usage` where there can be no such link; otherwise as the kernel says.
    pub fn set_link(&self, link: Link) -> Result<(), StoreError> {
        link.check()?;
        let mut connection = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let done = match &connection.cable {
            Some(_) if link == Link::default() => self.plug_in(&mut connection),
            Some(cable) => {
                cable.set(link);
                Ok(())
            }
            None if link == Link::default() => Ok(()),
            None => self.lay_cable(&mut connection, link).inspect_err(|_| drop(self.plug_in(&mut connection))),
        };
        connection.link = if done.is_ok() { link } else { Link::default() };
        done.map_err(|error| StoreError::io(format_args!("the link of {}", self.address), &error))
    }

    /// What its link does.
    pub fn link(&self) -> Link {
        self.link.lock().unwrap_or_else(PoisonError::into_inner).link
    }

    /// Has a cable between the host's port and the bridge.
    fn lay_cable(&self, connection: &mut Connection, link: Link) -> std::io::Result<()> {
        let [near, far] = self.cable_ends();
        let mut switch = self.network.switch.lock().unwrap_or_else(PoisonError::into_inner);
        switch.add_veth(&far, &near, self.network.bridge.file())?;
        // Frames are lost and take their time one by one.
        switch.set_segments_max(&near, 1)?;
        connection.own.set_segments_max(INTERFACE, 1)?;
        switch.set_up(&far)?;
        switch.release(&self.port)?;
        switch.enslave(&near, BRIDGE)?;
        let place = self.network.bridge.file().try_clone_to_owned()?;
        connection.cable = Some(Cable::lay(place, [self.port.clone(), far], link)?);
        Ok(())
    }

    /// Has the host's port be one of the bridge, without a cable.
    fn plug_in(&self, connection: &mut Connection) -> std::io::Result<()> {
        connection.cable = None;
        let [near, _] = self.cable_ends();
        let mut switch = self.network.switch.lock().unwrap_or_else(PoisonError::into_inner);
        let removed = switch.remove(&near);
        switch.enslave(&self.port, BRIDGE)?;
        connection.own.set_segments_max(INTERFACE, SEGMENTS_MAX)?;
        removed
    }

    fn cable_ends(&self) -> [String; 2] {
        ["near", "far"].map(|end| self.port.replace("host", end))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // A cable's interfaces are in the namespace of the bridge, which stays.
        let _ = self.set_link(Link::default());
    }
}

/// Has the calling thread, with what it starts meanwhile, in the network namespace at `path` until the value is dropped.
pub(crate) fn enter_at(path: &Path) -> std::io::Result<Entered> {
    Namespace::open(path)?.enter()
}

/// A namespace with `address`, connected to the bridge at a port called `port`.
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
        link.add_address(INTERFACE, address, PREFIX_BITS)?;
        link.set_up(INTERFACE)?;
        Ok(link)
    })
    .map_err(|error| refused(&error))?;
    let mut switch = switch.lock().unwrap_or_else(PoisonError::into_inner);
    switch.enslave(port, BRIDGE).map_err(|error| refused(&error))?;
    Ok((namespace, link))
}

/// Why hosts cannot be made.
fn refused(error: &std::io::Error) -> StoreError {
    let (kind, next) = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => (
            StoreErrorKind::Permission,
            "run as root, in a container with CAP_SYS_ADMIN and CAP_NET_ADMIN, or where users have namespaces: \
             sysctl user.max_user_namespaces=10000 kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS) => {
            (StoreErrorKind::Missing, "the kernel needs network namespaces, bridge and veth: modprobe bridge veth")
        }
        _ => (StoreErrorKind::Broken, "plimsoll doctor says what is missing"),
    };
    StoreError::new(kind, "hosts of their own cannot be made for servers here").detail(error.to_string()).next(next)
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
        assert!(lacks.what.contains("hosts of their own cannot be made"));
        assert_eq!(said(libc::EPERM).kind, StoreErrorKind::Permission);
        assert!(said(libc::EPERM).next.unwrap().contains("run as root"));
    }
}
