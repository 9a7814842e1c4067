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

mod namespace;
mod netlink;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use plimsoll_core::{StoreError, StoreErrorKind};

pub use namespace::Entered;
use namespace::Namespace;
pub(crate) use namespace::go_into;
use netlink::Netlink;

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
            Ok(switch)
        })
        .map_err(|error| refused(&error))?;
        let switch = Mutex::new(switch);
        let load = connected(&switch, &bridge, LOAD, "load")?;
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
        let namespace = connected(&self.switch, &self.bridge, address, &format!("host{number}"))?;
        Ok(Host { address, namespace, _network: Arc::clone(self) })
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
    _network: Arc<Network>,
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
) -> Result<Namespace, StoreError> {
    let (namespace, ()) = Namespace::make(|| {
        let mut link = Netlink::open()?;
        link.set_up("lo")?;
        link.add_veth(INTERFACE, port, bridge.file())?;
        link.add_address(INTERFACE, address, PREFIX_BITS)?;
        link.set_up(INTERFACE)
    })
    .map_err(|error| refused(&error))?;
    let mut switch = switch.lock().unwrap_or_else(PoisonError::into_inner);
    switch.enslave(port, BRIDGE).map_err(|error| refused(&error))?;
    Ok(namespace)
}

/// Why hosts cannot be made.
fn refused(error: &std::io::Error) -> StoreError {
    let (kind, next) = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            (StoreErrorKind::Permission, "run as root, or in a container with CAP_SYS_ADMIN and CAP_NET_ADMIN")
        }
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS) => {
            (StoreErrorKind::Missing, "the kernel needs network namespaces, bridge and veth: modprobe bridge veth")
        }
        _ => (StoreErrorKind::Broken, "plimsoll doctor says what is missing"),
    };
    StoreError::new(kind, "hosts of their own cannot be made for servers here").detail(error.to_string()).next(next)
}
